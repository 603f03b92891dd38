//! Matching that goes on in later entries (RULE-41): what a topic has accepted, and not looked at with all its
//! rules yet.

use crate::{EntityId, EvaluationError, Span, Timestamp, Travel};
use crate::{SequenceNumber, SessionId};

/// What the matching of one entry may take, in units of [`MatchCost`](crate::MatchCost), where its leader says
/// so: some milliseconds.
pub const MATCH_UNITS_MAX: u64 = 2 * 1024 * 1024;
/// RULE-42: most messages that wait for a topic's rules.
pub const UNMATCHED_COUNT_MAX: u64 = 16 * 1024;
/// RULE-42: most bytes of them.
pub const UNMATCHED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// RULE-42: for how long the first of them may wait.
pub const UNMATCHED_AGE_MAX: Span = Span::from_secs(30);

/// Of a topic: the messages that wait for their turn with its rules, and the one that is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    pub count: u64,
    pub bytes: u64,
    /// The first of them: no range of tombstones is scanned twice.
    pub head: SequenceNumber,
    /// When that one was accepted, or activated.
    pub since: Timestamp,
}

impl Unmatched {
    /// RULE-42: whether a topic that has this takes no more at that time.
    pub fn is_backlog(&self, at: Timestamp) -> bool {
        let is_old = self.count > 0 && at.since(self.since) >= UNMATCHED_AGE_MAX;
        is_old || self.count >= UNMATCHED_COUNT_MAX || self.bytes >= UNMATCHED_BYTES_MAX
    }
}

/// A message that waits for its turn with its topic's rules, or is in it. It holds one of the shares of its body.
#[derive(Clone, Debug, PartialEq)]
pub struct UnmatchedRow {
    /// Or activated, if it was scheduled.
    pub accepted_at: Timestamp,
    pub size_bytes: u32,
    pub header_bytes: u32,
    /// Its clock runs since `accepted_at`.
    pub ttl: Option<Span>,
    pub session: Option<SessionId>,
    /// It waited at the topic for its time.
    pub was_scheduled: bool,
    pub travel: Option<Box<Travel>>,
    pub progress: MatchProgress,
}

/// How far the matching of a message has come. Subscriptions are gone through in the order of their ids.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchProgress {
    /// The subscription under way: those before it have their copies, those behind it have none.
    pub subscription: EntityId,
    /// Of its rules, the first that was not looked at, by its place (RULE-7); `None`: all were.
    pub order: Option<u32>,
    /// A rule without an action took the message.
    pub plain: bool,
    /// The first filter that failed on it (RULE-20).
    pub failed: Option<EvaluationError>,
    /// Places of rules with actions that took it, whose copies are not made.
    pub actions: Vec<u32>,
}

impl MatchProgress {
    /// At the first rule of a subscription.
    pub fn at(subscription: EntityId) -> MatchProgress {
        let (order, plain, failed, actions) = (Some(0), false, None, Vec::new());
        MatchProgress { subscription, order, plain, failed, actions }
    }
}

/// At the beginning.
impl Default for MatchProgress {
    fn default() -> MatchProgress {
        MatchProgress::at(EntityId(0))
    }
}
