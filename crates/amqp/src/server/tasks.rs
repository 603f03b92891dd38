//! Work of a connection that waits for the broker.

use futures::stream::FuturesUnordered;

use super::note::{Notes, Work};

/// Requests under way, per connection: beyond it nothing is read.
const REQUESTS_MAX: usize = 64;

pub(super) struct Tasks {
    /// How work tells the connection what came of it.
    pub notes: Notes,
    pub work: FuturesUnordered<Work>,
    requests: usize,
}

impl Tasks {
    pub fn new(notes: Notes) -> Tasks {
        Tasks { notes, work: FuturesUnordered::new(), requests: 0 }
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

    /// Whether one more request may come.
    pub fn has_room(&self) -> bool {
        self.requests < REQUESTS_MAX
    }
}
