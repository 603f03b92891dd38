//! What has to hold, as it is written.

use std::fmt;
use std::time::Duration;

use definitions::duration;
use serde::Deserialize;

use super::TimeText;

/// What has to hold. Entities are queues, subscriptions (`topic/subscriptions/name`) or topics, which stand for all of
/// their subscriptions. Every invariant is about what was sent before the healing.
#[derive(Clone, Debug, PartialEq)]
pub enum Invariant {
    /// Every message was completed, or is in the dead-letter queue with a reason, at most so long after it was sent, or
    /// came out where it was scheduled. Forwarded is settled here: the next entity has an invariant of its own. What
    /// was taken by receiving and deleting counts with `receive_and_delete` only, as nobody said that it was processed (HIST-5).
    Settled { entity: String, within: Duration, receive_and_delete: bool },
    /// No message id was completed twice, neither one message nor two of the same id; those without an id are left out.
    CompletedOnce { entity: String },
    /// No message was there to be received for longer than this at once: since it came or was given back, until it was
    /// locked or gone.
    Waited { entity: String, within: Duration },
    /// Messages of a session were completed in the order of their sequence numbers; deferred ones are left out.
    SessionOrder { entity: String },
    /// Of every request there is exactly one reply with its id as correlation id, at most so long after it; of one that
    /// was dead-lettered there may be none. Two requests of the same id are one.
    Replied { requests: String, replies: String, by: ReplyKey, within: Duration },
    /// No lock lapsed while the program ran: it neither ended nor paused between the lock's beginning and its end.
    /// Without a program's name: while all of them did.
    LocksKept { entity: String, program: Option<String> },
    /// So long after the healing at most there was a moment in which nothing was there to be received, or locked.
    BacklogCleared { entity: String, within: Duration },
    /// Nothing was dead-lettered.
    NoneDeadLettered { entity: String },
}

/// What of a request its reply has as correlation id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyKey {
    #[default]
    MessageId,
    CorrelationId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum InvariantKind {
    Settled,
    CompletedOnce,
    Waited,
    SessionOrder,
    Replied,
    LocksKept,
    BacklogCleared,
    NoneDeadLettered,
}

/// As written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InvariantText {
    kind: InvariantKind,
    entity: Option<String>,
    within: Option<TimeText>,
    receive_and_delete: Option<bool>,
    requests: Option<String>,
    replies: Option<String>,
    by: Option<ReplyKey>,
    program: Option<String>,
}

/// The key that is wrong, and why.
pub(super) type KeyFault = (&'static str, String);

impl InvariantText {
    /// # Errors
    /// A key that is missing, or has no place here.
    pub fn read(self) -> Result<Invariant, KeyFault> {
        let has = [
            ("entity", self.entity.is_some()),
            ("within", self.within.is_some()),
            ("receive_and_delete", self.receive_and_delete.is_some()),
            ("requests", self.requests.is_some()),
            ("replies", self.replies.is_some()),
            ("by", self.by.is_some()),
            ("program", self.program.is_some()),
        ];
        let takes: &[&str] = match self.kind {
            InvariantKind::Settled => &["entity", "within", "receive_and_delete"],
            InvariantKind::Waited | InvariantKind::BacklogCleared => &["entity", "within"],
            InvariantKind::Replied => &["requests", "replies", "by", "within"],
            InvariantKind::LocksKept => &["entity", "program"],
            InvariantKind::CompletedOnce
            | InvariantKind::SessionOrder
            | InvariantKind::NoneDeadLettered => &["entity"],
        };
        if let Some((key, _)) = has.iter().find(|(key, is_there)| *is_there && !takes.contains(key))
        {
            let told = format!("has no place here; this kind takes {}", takes.join(", "));
            return Err((key, told));
        }
        let missing = |key: &'static str, example: &str| {
            (key, format!("is missing; write {key} = \"{example}\""))
        };
        let name = |of: Option<String>, key| {
            of.filter(|name| !name.is_empty()).ok_or_else(|| missing(key, "orders"))
        };
        let within = || self.within.map(|time| time.0).ok_or_else(|| missing("within", "10s"));
        let entity = |of| name(of, "entity");
        Ok(match self.kind {
            InvariantKind::Settled => Invariant::Settled {
                within: within()?,
                receive_and_delete: self.receive_and_delete.unwrap_or(false),
                entity: entity(self.entity)?,
            },
            InvariantKind::CompletedOnce => {
                Invariant::CompletedOnce { entity: entity(self.entity)? }
            }
            InvariantKind::Waited => {
                Invariant::Waited { within: within()?, entity: entity(self.entity)? }
            }
            InvariantKind::SessionOrder => Invariant::SessionOrder { entity: entity(self.entity)? },
            InvariantKind::Replied => Invariant::Replied {
                within: within()?,
                by: self.by.unwrap_or_default(),
                requests: name(self.requests, "requests")?,
                replies: name(self.replies, "replies")?,
            },
            InvariantKind::LocksKept => {
                Invariant::LocksKept { entity: entity(self.entity)?, program: self.program }
            }
            InvariantKind::BacklogCleared => {
                Invariant::BacklogCleared { within: within()?, entity: entity(self.entity)? }
            }
            InvariantKind::NoneDeadLettered => {
                Invariant::NoneDeadLettered { entity: entity(self.entity)? }
            }
        })
    }
}

impl Invariant {
    /// Entities it is about.
    pub fn entities(&self) -> Vec<&str> {
        match self {
            Invariant::Settled { entity, .. }
            | Invariant::CompletedOnce { entity }
            | Invariant::Waited { entity, .. }
            | Invariant::SessionOrder { entity }
            | Invariant::LocksKept { entity, .. }
            | Invariant::BacklogCleared { entity, .. }
            | Invariant::NoneDeadLettered { entity } => vec![entity],
            Invariant::Replied { requests, replies, .. } => vec![requests, replies],
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |time: &Duration| duration::show_ms(time.as_millis() as u64);
        match self {
            Invariant::Settled { entity, within, receive_and_delete } => {
                let or = if *receive_and_delete { ", received and deleted" } else { "" };
                write!(
                    f,
                    "every message of {entity} is completed{or} or dead-lettered with a reason within {}",
                    show(within)
                )
            }
            Invariant::CompletedOnce { entity } => {
                write!(f, "no message of {entity} is completed more than once")
            }
            Invariant::Waited { entity, within } => {
                write!(f, "no message of {entity} waits longer than {}", show(within))
            }
            Invariant::SessionOrder { entity } => {
                write!(f, "messages of each session of {entity} are completed in order")
            }
            Invariant::Replied { requests, replies, within, .. } => write!(
                f,
                "every request on {requests} has exactly one reply on {replies} within {}",
                show(within)
            ),
            Invariant::LocksKept { entity, program: None } => {
                write!(f, "no lock of {entity} is lost while programs run")
            }
            Invariant::LocksKept { entity, program: Some(program) } => {
                write!(f, "no lock of {entity} is lost while {program} runs")
            }
            Invariant::BacklogCleared { entity, within } => {
                write!(f, "the backlog of {entity} is gone {} after the healing", show(within))
            }
            Invariant::NoneDeadLettered { entity } => {
                write!(f, "nothing of {entity} is dead-lettered")
            }
        }
    }
}
