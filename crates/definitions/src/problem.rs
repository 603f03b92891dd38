//! What is wrong with definitions, and where.

use std::fmt;

/// One thing that stands in the way of definitions, in a line: where, what, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place: a file, and a path or a line in it.
    pub at: String,
    pub why: String,
}

impl Problem {
    pub fn new(at: impl Into<String>, why: impl fmt::Display) -> Problem {
        Problem { at: at.into(), why: why.to_string() }
    }

    /// The path to it in that file, where one is known.
    pub fn path_in(&self, file: &str) -> Option<&str> {
        self.at.strip_prefix(&format!("'{file}': "))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => f.write_str(&self.why),
            at => write!(f, "{at}: {}", self.why),
        }
    }
}
