//! What a connection holds of one kind, in bytes: one count over all its links, however it is spread over
//! them (QUOTA-38).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// So many bytes, and as many as there may be. Beyond it whoever would add more waits: what is there
/// already is not refused.
#[derive(Clone, Debug)]
pub(super) struct Backlog(Arc<Count>);

#[derive(Debug)]
struct Count {
    bytes: AtomicUsize,
    max: AtomicUsize,
    /// It was full, and is not.
    freed: Notify,
}

/// Bytes that are held. They are free again when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    backlog: Backlog,
    bytes: usize,
}

impl Backlog {
    pub fn new(max: usize) -> Backlog {
        Backlog(Arc::new(Count {
            bytes: AtomicUsize::new(0),
            max: max.into(),
            freed: Notify::new(),
        }))
    }

    /// One that holds nothing yet.
    pub fn share(&self) -> Share {
        Share { backlog: self.clone(), bytes: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// How many more there may be.
    pub fn left(&self) -> usize {
        self.0.max.load(Ordering::Relaxed).saturating_sub(self.bytes())
    }

    /// From here on there may be so many.
    pub fn raise(&self, max: usize) {
        self.0.max.store(max, Ordering::Relaxed);
        self.0.freed.notify_waiters();
    }

    pub fn is_full(&self) -> bool {
        self.left() == 0
    }

    /// Resolves when it is not full.
    pub async fn room(&self) {
        loop {
            let freed = self.0.freed.notified();
            tokio::pin!(freed);
            // From here on none is missed.
            freed.as_mut().enable();
            if !self.is_full() {
                return;
            }
            freed.await;
        }
    }
}

impl Share {
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.backlog.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Frees some of them.
    pub fn free(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        let count = &self.backlog.0;
        let before = count.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let max = count.max.load(Ordering::Relaxed);
        if before >= max && before - bytes < max {
            count.freed.notify_waiters();
        }
    }

    pub fn with(mut self, bytes: usize) -> Share {
        self.add(bytes);
        self
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.free(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn quota_38_one_count_over_all_and_room_is_told() {
        let backlog = Backlog::new(10);
        let (mut one, other) = (backlog.share().with(6), backlog.share().with(5));
        assert_eq!((backlog.bytes(), backlog.left(), backlog.is_full()), (11, 0, true));
        let room = backlog.room();
        tokio::pin!(room);
        assert!(room.as_mut().now_or_never().is_none());
        one.free(1);
        assert!(room.as_mut().now_or_never().is_none(), "ten are ten");
        drop(other);
        assert!(room.as_mut().now_or_never().is_some());
        one.free(usize::MAX);
        assert_eq!((backlog.bytes(), backlog.left()), (0, 10));
    }
}
