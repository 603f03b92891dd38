//! What came of an action: the three answers, and done.

use std::borrow::Cow;

use service::{Error, ErrorKind};

/// Names are those that clients are told (ERR-1 to ERR-32), and hold nothing that a client wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// It will be again.
    Refused(Cow<'static, str>),
    /// Certainly not done, and perhaps another time (ERR-24).
    NotDone(Cow<'static, str>),
    /// ERR-28; also where the client went away before the answer.
    PerhapsDone(Cow<'static, str>),
}

impl Outcome {
    /// Of a call that has no result.
    pub fn of(error: &Error) -> Outcome {
        let name = Cow::Borrowed(error.kind.name());
        match &error.kind {
            ErrorKind::Refused(_) => Outcome::Refused(name),
            ErrorKind::Unavailable { .. } => Outcome::NotDone(name),
            ErrorKind::Unknown { .. } => Outcome::PerhapsDone(name),
        }
    }

    pub fn of_result<T>(result: &Result<T, Error>) -> Outcome {
        result.as_ref().err().map_or(Outcome::Done, Outcome::of)
    }

    /// In a record.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Refused(_) => "refused",
            Outcome::NotDone(_) => "not-done",
            Outcome::PerhapsDone(_) => "perhaps-done",
        }
    }

    /// Why it is not known to be done.
    pub fn why(&self) -> Option<&str> {
        match self {
            Outcome::Done => None,
            Outcome::Refused(why) | Outcome::NotDone(why) | Outcome::PerhapsDone(why) => Some(why),
        }
    }
}
