//! What both streams share: how one ends, how long one may be silent, and how long a client goes on
//! opening another.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use crate::Error;
use crate::proof::Proof;

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

impl End {
    /// What it comes to for a stream that was opened in that turn of a proof.
    pub fn judged(self, proof: &Proof, turn: u64) -> End {
        match self {
            End::Refused(error) => End::from_error(proof.judged(error, turn)),
            end => end,
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

/// Watches over the requests of one stream: a node that never answers one, or whose answer never
/// comes, must not keep its caller waiting for ever.
pub(crate) struct Vigil {
    patience: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl Vigil {
    /// `attempt_timeout`: the node's own word on what it could not decide in time comes first.
    pub fn new(attempt_timeout: Duration) -> Vigil {
        let patience = attempt_timeout * 3 / 2;
        Vigil { patience, alarm: Box::pin(tokio::time::sleep(patience)) }
    }

    /// Returns once the oldest request that waits for an answer, which was sent then, has waited for
    /// too long; never, if none waits.
    pub async fn overdue(&mut self, oldest_at: Option<Instant>) -> Error {
        let Some(at) = oldest_at else { return std::future::pending().await };
        let due = tokio::time::Instant::from_std(at + self.patience);
        // Moved only when it rings: requests come and are answered far more often than that.
        while tokio::time::Instant::now() < due {
            if self.alarm.is_elapsed() {
                self.alarm.as_mut().reset(due);
            }
            self.alarm.as_mut().await;
        }
        let patience_ms = self.patience.as_millis();
        Error::perhaps_done(format!("a request was not answered within {patience_ms} ms"))
    }
}
