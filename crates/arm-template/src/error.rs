//! What is wrong with a template, and where.

use std::fmt;

use crate::placeholder;

/// One thing that is wrong, in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The path in the file: `resources[3].properties.lockDuration`.
    pub at: String,
    pub why: String,
    /// It depends on what is not known yet, and may be right once that is.
    pub waits: bool,
}

impl Error {
    pub fn new(at: impl Into<String>, why: impl Into<String>) -> Error {
        let why = why.into();
        let waits = placeholder::unknown_text(&why).is_some();
        Error { at: at.into(), why: placeholder::unmarked(why), waits }
    }

    /// Of an expression; whoever knows where it stands adds that.
    pub(crate) fn here(why: impl Into<String>) -> Error {
        Error::new("", why)
    }

    /// The same, where it is known from what it was made of whether it waits.
    pub(crate) fn waiting(self, waits: bool) -> Error {
        Error { waits, ..self }
    }

    /// The same, below a member.
    pub(crate) fn below(self, member: &str) -> Error {
        let at = match self.at.as_str() {
            "" => member.to_owned(),
            at if at.starts_with('[') => format!("{member}{at}"),
            at => format!("{member}.{at}"),
        };
        Error { at, ..self }
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
