//! What a broker must offer to be put under the work.

use bytes::Bytes;
use futures::future::BoxFuture;

/// Shown to a person, never acted upon.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Resolves when the broker has confirmed what was sent or acknowledged. To be polled at once: some
/// clients hand it over only then.
pub type Confirmed = BoxFuture<'static, Result<(), Error>>;

/// One replicated queue. Every producer and consumer has a connection of its own, to the queue's
/// leader, as the fastest clients of these brokers do.
pub trait Queue: Send + Sync + 'static {
    type Producer: Producer;
    type Consumer: Consumer;

    fn producer(&self) -> impl Future<Output = Result<Self::Producer, Error>> + Send;
    fn consumer(&self) -> impl Future<Output = Result<Self::Consumer, Error>> + Send;
    /// Deletes it, with what it holds.
    fn delete(&self) -> impl Future<Output = Result<(), Error>> + Send;
}

pub trait Producer: Send + 'static {
    /// Hands a message over; what is returned resolves when a majority has stored it.
    fn send(&mut self, body: Bytes) -> impl Future<Output = Result<Confirmed, Error>> + Send;
}

pub trait Consumer: Send + 'static {
    /// The next message, and its acknowledgement.
    fn next(&mut self) -> impl Future<Output = Result<(Bytes, Confirmed), Error>> + Send;
}
