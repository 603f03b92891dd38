//! What both streams share: how one ends, and how long a client goes on opening another.

use std::time::{Duration, Instant};

use crate::Error;

const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Why a stream is over.
pub(crate) enum End {
    /// Another stream may do better.
    Broken(Error),
    /// Every other stream would be refused as well.
    Refused(Error),
    /// The application wants no more, and everything is answered.
    Finished,
}

impl End {
    /// A status that ended a stream.
    pub fn of(status: tonic::Status) -> End {
        End::from_error(Error::from(status))
    }

    pub fn from_error(error: Error) -> End {
        match error {
            Error::Refused(_) => End::Refused(error),
            Error::NotDone(_) | Error::PerhapsDone(_) => End::Broken(error),
        }
    }
}

/// Paces reopening: quick at first, patient later, and at some point over.
pub(crate) struct Persistence {
    give_up_after: Duration,
    broken_since: Option<Instant>,
    pause: Duration,
}

impl Persistence {
    pub fn new(give_up_after: Duration) -> Persistence {
        Persistence { give_up_after, broken_since: None, pause: PAUSE_FIRST }
    }

    /// Something was answered: whatever was broken is healed.
    pub fn progressed(&mut self) {
        self.broken_since = None;
        self.pause = PAUSE_FIRST;
    }

    /// Waits before the next attempt. `false`: it has been broken for too long; counting starts
    /// anew.
    pub async fn pause(&mut self) -> bool {
        let since = *self.broken_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.give_up_after {
            self.progressed();
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}
