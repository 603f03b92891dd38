//! Reads of a group, and their answers: nothing is changed by asking.

use bytes::Bytes;
use domain::{
    DirectoryRow, EntityId, EntityInfo, EntityKind, QueueId, Refusal, RuleRow, SequenceNumber,
    SessionId, SessionPage, SessionToken, Span, Timestamp,
};
use tokio::sync::oneshot;

use crate::exchange::{LockClaim, Outbox, Received, Response};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Read {
    /// PEEK-2. `touched`: the caller has seen to it that the log knows.
    Peek { queue: QueueId, from: SequenceNumber, count_max: u32, touched: bool },
    /// Descriptions and counters.
    Info { entities: Vec<EntityId> },
    /// Catalog: how far an operator has moved the cluster's time.
    ClockOffset,
    /// Catalog: where an entity is.
    Resolve { name: String },
    /// PEEK-9.
    PeekSession { entity: EntityId, token: SessionToken, from: SequenceNumber, count_max: u32 },
    /// SESS-15.
    SessionState { entity: EntityId, token: SessionToken },
    /// SESS-17.
    Sessions {
        entity: EntityId,
        from: Option<SessionId>,
        updated_after: Option<Timestamp>,
        count_max: u32,
    },
    /// Catalog: the directory in order of lower-cased name.
    Directory { kind: EntityKind, after: Option<String>, prefix: String, count_max: u32 },
    /// RULE-38: in order of name.
    Rules { subscription: EntityId, skip: u32, count_max: u32 },
    /// One rule, by its name in whatever case: a list of it, or an empty one.
    Rule { subscription: EntityId, name: String },
    /// TX-9: whether these locks are held, and if so, that a transaction waits with them.
    Claim(LockClaim),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReadAnswer {
    Messages(Vec<Received>),
    Refused(Refusal),
    /// A peek is a use (PEEK-1), and the log knows of none within the last minute: touch the entity
    /// first, and ask again. So it comes before or after a deletion, and a new leader knows of it.
    Untouched,
    Info(Vec<Option<EntityInfo>>),
    Entries(Vec<DirectoryRow>),
    State(Option<Bytes>),
    Sessions(SessionPage),
    Rules(Vec<RuleRow>),
    ClockOffset(Span),
    Claimed,
}

/// No answer, and nothing changed by asking: who leads now, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotRead {
    pub leader: Option<u64>,
}

pub(crate) type ReadResult = Result<ReadAnswer, NotRead>;

pub(crate) enum ReadReply {
    Local(oneshot::Sender<ReadResult>),
    Peer { id: u64, outbox: Outbox },
}

impl ReadReply {
    pub fn send(self, result: ReadResult) {
        match self {
            ReadReply::Local(sender) => drop(sender.send(result)),
            ReadReply::Peer { id, outbox } => drop(outbox.send(Response::Read { id, result })),
        }
    }
}
