//! What was done to programs in a run, and when.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde::Serialize;

/// The cluster's time, as far as this machine knows it: what it was at the beginning, and how long ago that is.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    begun: Instant,
    begun_ms: u64,
}

/// Something that happened to a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// By the cluster's clock, in milliseconds since 1970; in a report since the beginning.
    pub at_ms: u64,
    pub program: String,
    pub kind: MomentKind,
    /// As people read it.
    pub told: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MomentKind {
    Started,
    Paused,
    Resumed,
    /// Told to end, by a signal.
    Told,
    /// It runs no more.
    Ended,
}

/// What programs went through, noted by all who see to them.
#[derive(Clone)]
pub struct Diary {
    clock: RunClock,
    moments: Arc<Mutex<Vec<Moment>>>,
}

impl RunClock {
    /// Begins now, when the cluster's time is this.
    pub fn start(cluster_now_ms: u64) -> RunClock {
        RunClock { begun: Instant::now(), begun_ms: cluster_now_ms }
    }

    pub fn begun(&self) -> Instant {
        self.begun
    }

    pub fn begun_ms(&self) -> u64 {
        self.begun_ms
    }

    pub fn now_ms(&self) -> u64 {
        self.begun_ms + self.begun.elapsed().as_millis() as u64
    }
}

impl Diary {
    pub fn new(clock: RunClock) -> Diary {
        Diary { clock, moments: Arc::default() }
    }

    /// Notes what happens now.
    pub fn note(&self, program: &str, kind: MomentKind, told: impl Into<String>) {
        let (program, told) = (program.to_owned(), told.into());
        let mut moments = self.moments();
        moments.push(Moment { at_ms: self.clock.now_ms(), program, kind, told });
    }

    /// So far, in order of time.
    pub fn so_far(&self) -> Vec<Moment> {
        let mut moments = self.moments().clone();
        moments.sort_by_key(|moment| moment.at_ms);
        moments
    }

    fn moments(&self) -> MutexGuard<'_, Vec<Moment>> {
        self.moments.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
