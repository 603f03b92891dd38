//! The experiment's time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch that never run back: wall time when the experiment began, and
/// from then on the machine's monotonic clock. Nodes of a cluster on the same machine agree with it
/// to within `clock.offset_max`, whatever is done to a minority of their clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begun: Instant,
    begun_ms: u64,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { begun: Instant::now(), begun_ms: since.as_millis() as u64 }
    }

    pub fn now_ms(&self) -> u64 {
        self.begun_ms + self.elapsed().as_millis() as u64
    }

    pub fn begun_ms(&self) -> u64 {
        self.begun_ms
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}
