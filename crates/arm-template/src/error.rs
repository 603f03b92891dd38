//! What is wrong with a template, and where.

use std::fmt;

/// One thing that is wrong, in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The path in the file: `resources[3].properties.lockDuration`.
    pub at: String,
    pub why: String,
}

impl Error {
    pub fn new(at: impl Into<String>, why: impl Into<String>) -> Error {
        Error { at: at.into(), why: why.into() }
    }

    /// Of an expression; whoever knows where it stands adds that.
    pub(crate) fn here(why: impl Into<String>) -> Error {
        Error::new("", why)
    }

    /// The same, below a member.
    pub(crate) fn below(self, member: &str) -> Error {
        let at = match self.at.as_str() {
            "" => member.to_owned(),
            at if at.starts_with('[') => format!("{member}{at}"),
            at => format!("{member}.{at}"),
        };
        Error { at, why: self.why }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => f.write_str(&self.why),
            at => write!(f, "{at}: {}", self.why),
        }
    }
}
