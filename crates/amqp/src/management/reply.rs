//! Replies (REQ-4, REQ-6 to REQ-8, REQ-10 to REQ-23).

use amqp_protocol::codec::{Array, Error, Map, Symbol, Value};
use amqp_protocol::request::Envelope;
use bytes::{Bytes, BytesMut};
use domain::{LockToken, RuleRow, SequenceNumber, Timestamp};

use super::lock_token::uuid;
use super::rule;
use crate::condition;

/// What came of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Done, and nothing to say.
    Done,
    /// New end of each lock, in the order asked.
    LocksRenewed(Vec<Timestamp>),
    /// Encoded messages.
    Peeked(Vec<Bytes>),
    Scheduled(Vec<SequenceNumber>),
    Received(Vec<(LockToken, Bytes)>),
    SessionLockRenewed(Timestamp),
    SessionState(Option<Bytes>),
    /// `skip`: where the next page begins.
    Sessions {
        skip: u32,
        ids: Vec<String>,
    },
    Rules(Vec<RuleRow>),
    /// How many were deleted.
    Deleted(u32),
    /// Its condition decides the status, its description is what users see (ERR-27).
    Refused(Error),
}

const OK: i32 = 200;
const NO_CONTENT: i32 = 204;

impl Reply {
    /// Encodes the reply to a request.
    pub fn encode(&self, envelope: &Envelope, out: &mut BytesMut) -> Bytes {
        let (code, description) = self.status();
        let mut properties = Map::default()
            .string("statusCode", Value::Int(code))
            .string("statusDescription", description.into());
        if let Some(symbol) = self.condition() {
            properties = properties.string("errorCondition", Value::Symbol(symbol));
        }
        if let Some(id) = envelope.text(TRACKING_ID) {
            properties = properties.string(TRACKING_ID, id.into());
        }
        envelope.reply(&properties, &Value::Map(self.body()), out)
    }

    fn status(&self) -> (i32, &str) {
        match self {
            Reply::Refused(error) => {
                let text = error.description.as_deref().unwrap_or_default();
                (condition::status(&error.condition), text)
            }
            found if found.is_empty() => (NO_CONTENT, "No Content"),
            _ => (OK, "OK"),
        }
    }

    fn condition(&self) -> Option<Symbol> {
        match self {
            Reply::Refused(error) => Some(error.condition.clone()),
            _ => None,
        }
    }

    /// REQ-8: finding nothing is a status of its own.
    fn is_empty(&self) -> bool {
        match self {
            Reply::Peeked(messages) => messages.is_empty(),
            Reply::Sessions { ids, .. } => ids.is_empty(),
            Reply::Rules(rules) => rules.is_empty(),
            Reply::Done
            | Reply::LocksRenewed(_)
            | Reply::Scheduled(_)
            | Reply::Received(_)
            | Reply::SessionLockRenewed(_)
            | Reply::SessionState(_)
            | Reply::Deleted(_)
            | Reply::Refused(_) => false,
        }
    }

    /// REQ-7: arrays are arrays, and `messages` is a list.
    fn body(&self) -> Map {
        let empty = Map::default();
        match self {
            Reply::Done | Reply::Refused(_) => empty,
            Reply::LocksRenewed(until) => {
                let until = Array::timestamps(until.iter().map(|at| ms(*at)));
                empty.string("expirations", Value::Array(until))
            }
            Reply::Peeked(messages) => {
                let entry = |message: &Bytes| {
                    Value::Map(Map::default().string("message", Value::Binary(message.clone())))
                };
                empty.string("messages", Value::List(messages.iter().map(entry).collect()))
            }
            Reply::Scheduled(sequences) => {
                let numbers = sequences.iter().map(|sequence| sequence.0.cast_signed());
                empty.string("sequence-numbers", Value::Array(Array::longs(numbers)))
            }
            Reply::Received(messages) => {
                let entry = |(token, message): &(LockToken, Bytes)| {
                    let entry = Map::default()
                        .string("lock-token", Value::Uuid(uuid(*token)))
                        .string("message", Value::Binary(message.clone()));
                    Value::Map(entry)
                };
                empty.string("messages", Value::List(messages.iter().map(entry).collect()))
            }
            Reply::SessionLockRenewed(until) => {
                empty.string("expiration", Value::Timestamp(ms(*until)))
            }
            Reply::SessionState(state) => {
                let state = state.clone().map_or(Value::Null, Value::Binary);
                empty.string("session-state", state)
            }
            Reply::Sessions { skip, ids } => {
                // REQ-7: Python's client leaves a byte of an empty array unread.
                let ids = match &ids[..] {
                    [] => Value::List(Vec::new()),
                    ids => Value::Array(Array::strings(ids.iter().map(String::as_str))),
                };
                let skip = i32::try_from(*skip).unwrap_or(i32::MAX);
                empty.string("skip", Value::Int(skip)).string("sessions-ids", ids)
            }
            Reply::Rules(rules) => {
                let entry = |row: &RuleRow| {
                    Value::Map(Map::default().string("rule-description", rule::to_value(row)))
                };
                empty.string("rules", Value::List(rules.iter().map(entry).collect()))
            }
            Reply::Deleted(count) => {
                let count = i32::try_from(*count).unwrap_or(i32::MAX);
                empty.string("message-count", Value::Int(count))
            }
        }
    }
}

const TRACKING_ID: &str = "com.microsoft:tracking-id";

fn ms(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}
