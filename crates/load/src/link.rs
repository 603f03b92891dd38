//! What producers and consumers need of a protocol: two narrow traits, with an implementation for each protocol.

use std::time::{Duration, Instant};

use bytes::Bytes;
use thiserror::Error;

use crate::stamp::Stamp;

/// A message to send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    pub body: Bytes,
    pub message_id: Option<String>,
    pub session_id: Option<String>,
    pub subject: Option<String>,
    pub ttl: Option<Duration>,
    /// Milliseconds since the Unix epoch, on the broker's clock.
    pub scheduled_at_ms: Option<u64>,
    pub properties: Vec<(String, Property)>,
}

/// A user property's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Property {
    Flag(bool),
    Long(i64),
    Double(f64),
    Text(String),
}

/// What comes back with the answer to a send: which messages of the producer, and since when they were due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub first: u64,
    pub count: u64,
    pub due: Instant,
    pub is_measured: bool,
    pub fate: Fate,
}

/// What is to become of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// They come.
    #[default]
    Kept,
    /// Scheduled, and cancelled before they come out.
    Cancelled,
    /// Sent in a transaction that is rolled back.
    RolledBack,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Done, and undone as it was to be: cancelled, or rolled back.
    Withdrawn,
    /// Certainly not done, and why.
    Refused(String),
    /// Perhaps done, and why that is not known.
    Unknown(String),
}

/// Why a link is of no use any more. Another may be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Broken(pub String);

/// A way to send to one entity.
pub trait SendLink: Send + Sized {
    /// Whether a batch could be handed over now.
    fn has_room(&mut self) -> bool;

    /// Hands over messages that are accepted or refused as one. There is room.
    fn send(
        &mut self,
        drafts: Vec<Draft>,
        ticket: Ticket,
    ) -> impl Future<Output = Result<(), Broken>> + Send;

    /// Waits until something was answered or there may be room again, but not beyond an instant. Cancelling it
    /// loses nothing.
    fn turn(
        &mut self,
        until: Option<Instant>,
        answers: &mut Vec<(Ticket, Outcome)>,
    ) -> impl Future<Output = Result<(), Broken>> + Send;

    /// Says goodbye.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// What a consumer decides about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Complete,
    Abandon,
    DeadLetter,
    Defer,
    /// Nothing is said: its lock lapses.
    Lapse,
}

impl Verdict {
    pub const ALL: [Verdict; 5] =
        [Verdict::Complete, Verdict::Abandon, Verdict::DeadLetter, Verdict::Defer, Verdict::Lapse];

    /// As reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Complete => "completed",
            Verdict::Abandon => "abandoned",
            Verdict::DeadLetter => "dead-lettered",
            Verdict::Defer => "deferred",
            Verdict::Lapse => "left to lapse",
        }
    }
}

/// A message in a consumer's hand.
#[derive(Debug)]
pub struct Arrival<H> {
    /// What it is settled by. None: it was taken for good.
    pub handle: Option<H>,
    /// None: another wrote it.
    pub stamp: Option<Stamp>,
    /// The end of its life and of its lock, on the broker's clock, where that is told.
    pub expires_at_ms: Option<u64>,
    pub locked_until_ms: Option<u64>,
}

/// What a turn brought.
#[derive(Debug)]
pub struct Turned<H, T> {
    pub arrivals: Vec<Arrival<H>>,
    /// Settlements that were answered, by what they were handed over with.
    pub settled: Vec<(T, Outcome)>,
    /// What else went wrong, though the link goes on.
    pub errors: Vec<String>,
    /// A session has begun.
    pub has_begun: bool,
}

impl<H, T> Default for Turned<H, T> {
    fn default() -> Turned<H, T> {
        let (arrivals, settled, errors) = (Vec::new(), Vec::new(), Vec::new());
        Turned { arrivals, settled, errors, has_begun: false }
    }
}

/// A way to receive from one place. `T` comes back with the answer to each settlement.
pub trait ReceiveLink<T: Send>: Send + Sized {
    type Handle: Send + Clone;

    /// Waits until something came or was answered, but not beyond an instant. At most `take` messages are
    /// brought. Cancelling it loses nothing.
    fn turn(
        &mut self,
        take: usize,
        until: Option<Instant>,
        turned: &mut Turned<Self::Handle, T>,
    ) -> impl Future<Output = Result<(), Broken>> + Send;

    /// Gives the same verdict on all of these.
    fn settle(&mut self, held: Vec<(Self::Handle, T)>, verdict: Verdict) -> Result<(), Broken>;

    /// Asks for the lock of a message to begin anew.
    fn renew(&mut self, held: &Self::Handle) -> Result<(), Broken>;

    /// Gives a session back that brought nothing for a while, so that the next can be taken.
    fn leave_session(&mut self) -> impl Future<Output = Result<(), Broken>> + Send;
}
