//! Work of a connection that waits for the broker.

use std::sync::Arc;

use futures::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::note::{Notes, Work};

/// Requests under way, per connection: beyond it nothing is read.
const REQUESTS_MAX: usize = 64;
/// The same of a client that has not proved who it is: what it asks holds what it sent (CONN-25).
const UNPROVED_REQUESTS_MAX: usize = 1;
/// Of large replies, so many are there at a time, however many were asked for: others are made when
/// those are written.
const LARGE_REPLIES_MAX: usize = 2;

/// The turn of a request whose reply may be large.
pub(super) type Turn = OwnedSemaphorePermit;

pub(super) struct Tasks {
    /// How work tells the connection what came of it.
    pub notes: Notes,
    pub work: FuturesUnordered<Work>,
    requests: usize,
    /// For requests whose replies may be large: one has its turn until its reply is written.
    pub turns: Arc<Semaphore>,
}

impl Tasks {
    pub fn new(notes: Notes) -> Tasks {
        let turns = Arc::new(Semaphore::new(LARGE_REPLIES_MAX));
        Tasks { notes, work: FuturesUnordered::new(), requests: 0, turns }
    }

    pub fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.work.push(Box::pin(work));
    }

    /// Counts a request that ends with a note of its own, see [`Tasks::request_ended`].
    pub fn request_began(&mut self) {
        self.requests += 1;
    }

    pub fn request_ended(&mut self) {
        self.requests -= 1;
    }

    /// Whether requests are under way.
    pub fn has_requests(&self) -> bool {
        self.requests > 0
    }

    /// Whether one more request may come of a client that has proved who it is, or has not.
    pub fn has_room(&self, is_proved: bool) -> bool {
        self.requests < if is_proved { REQUESTS_MAX } else { UNPROVED_REQUESTS_MAX }
    }
}
