//! Requests (REQ-5, REQ-10 to REQ-23).

use amqp_protocol::Limits;
use amqp_protocol::codec::{DecodeError, Map, Value};
use amqp_protocol::request::Envelope;
use bytes::Bytes;
use domain::{
    BATCH_DELETE_MAX, LockToken, NewRule, Properties, Refusal, SequenceNumber, TOKENS_MAX,
    Timestamp,
};
use message_content::to_domain;

use super::lock_token::from_uuid;
use super::rule;

/// Values of one request's body: so many that the messages of any batch can be scheduled (QUOTA-6), and
/// no more than a few bytes each can claim (CONN-7).
const VALUES_MAX: u32 = 256 * 1024;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    RenewLock {
        tokens: Vec<LockToken>,
    },
    Peek {
        from: SequenceNumber,
        count: u32,
        session_id: Option<String>,
        omit_body: bool,
    },
    /// The due time of each is in its own annotation.
    Schedule {
        messages: Vec<Scheduled>,
    },
    CancelScheduled {
        sequences: Vec<SequenceNumber>,
    },
    ReceiveBySequence {
        sequences: Vec<SequenceNumber>,
        mode: ReceiveMode,
        session_id: Option<String>,
    },
    UpdateDisposition {
        tokens: Vec<LockToken>,
        verdict: DispositionStatus,
        properties_to_modify: Properties,
        session_id: Option<String>,
    },
    RenewSessionLock {
        session_id: String,
    },
    SetSessionState {
        session_id: String,
        state: Option<Bytes>,
    },
    GetSessionState {
        session_id: String,
    },
    GetMessageSessions {
        filter: ListedSessions,
        skip: u32,
        top: u32,
    },
    AddRule {
        rule: NewRule,
    },
    RemoveRule {
        name: String,
    },
    EnumerateRules {
        skip: u32,
        top: u32,
    },
    BatchDelete {
        count: u32,
        enqueued_before: Option<Timestamp>,
        session_id: Option<String>,
    },
}

impl Operation {
    /// Whether its reply holds messages, states or lists.
    pub fn reply_may_be_large(&self) -> bool {
        match self {
            Operation::Peek { .. }
            | Operation::ReceiveBySequence { .. }
            | Operation::GetSessionState { .. }
            | Operation::GetMessageSessions { .. }
            | Operation::EnumerateRules { .. } => true,
            Operation::RenewLock { .. }
            | Operation::Schedule { .. }
            | Operation::CancelScheduled { .. }
            | Operation::UpdateDisposition { .. }
            | Operation::BatchDelete { .. }
            | Operation::RenewSessionLock { .. }
            | Operation::SetSessionState { .. }
            | Operation::AddRule { .. }
            | Operation::RemoveRule { .. } => false,
        }
    }

    /// The session it is about, if only who holds that may ask for it (DEFER-10, SESS-13, PEEK-9,
    /// BATCH-7). A settlement is known by its tokens.
    pub fn held_session(&self) -> Option<&str> {
        match self {
            Operation::Peek { session_id, .. }
            | Operation::ReceiveBySequence { session_id, .. }
            | Operation::BatchDelete { session_id, .. } => session_id.as_deref(),
            Operation::RenewSessionLock { session_id }
            | Operation::SetSessionState { session_id, .. }
            | Operation::GetSessionState { session_id } => Some(session_id),
            Operation::RenewLock { .. }
            | Operation::Schedule { .. }
            | Operation::CancelScheduled { .. }
            | Operation::UpdateDisposition { .. }
            | Operation::GetMessageSessions { .. }
            | Operation::AddRule { .. }
            | Operation::RemoveRule { .. }
            | Operation::EnumerateRules { .. } => None,
        }
    }
}

/// A message to schedule. What is said beside it is in the message as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    pub message: Bytes,
    pub message_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveMode {
    ReceiveAndDelete,
    PeekLock,
}

/// What becomes of messages that are settled by their tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DispositionStatus {
    Complete,
    Abandon,
    Defer,
    DeadLetter {
        reason: Option<String>,
        description: Option<String>,
    },
    /// Back without counting.
    Release,
    Renew,
}

/// Which sessions are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedSessions {
    /// Those with active messages or a state.
    Active,
    StateSetAfter(Timestamp),
}

/// The instant that stands for [`ListedSessions::Active`]: the year 10000.
const ACTIVE_SESSIONS_MS: i64 = 253_402_300_800_000;

/// Decodes a request. A bad one is part of the result, since it is owed a reply like any other:
/// ERR-16 for an unknown operation, ERR-12 and ERR-13 for arguments.
///
/// # Errors
/// [`DecodeError`] if it is no message at all: then nobody knows what to reply to.
pub fn decode(
    payload: &Bytes,
    limits: &Limits,
) -> Result<(Envelope, Result<Operation, Refusal>), DecodeError> {
    let limits = Limits { values_max: limits.values_max.max(VALUES_MAX), ..limits.clone() };
    let envelope = Envelope::decode(payload, &limits)?;
    let operation = operation(&envelope);
    Ok((envelope, operation))
}

fn operation(envelope: &Envelope) -> Result<Operation, Refusal> {
    let none = Map::default();
    let body = Arguments(envelope.body.as_map().unwrap_or(&none));
    let name = envelope.text("operation").unwrap_or_default();
    Ok(match name.strip_prefix("com.microsoft:").unwrap_or_default() {
        "renew-lock" => Operation::RenewLock { tokens: body.tokens()? },
        "peek-message" => Operation::Peek {
            from: body.sequence("from-sequence-number")?,
            count: body.message_count(u32::MAX, "1 or more")?,
            session_id: body.text("session-id")?,
            omit_body: body.flag("omit-message-body")?,
        },
        "schedule-message" => Operation::Schedule { messages: body.scheduled()? },
        "cancel-scheduled-message" => Operation::CancelScheduled { sequences: body.sequences()? },
        "receive-by-sequence-number" => Operation::ReceiveBySequence {
            sequences: body.sequences()?,
            mode: body.receive_mode()?,
            session_id: body.text("session-id")?,
        },
        "update-disposition" => Operation::UpdateDisposition {
            tokens: body.tokens()?,
            verdict: body.verdict()?,
            properties_to_modify: body.properties("properties-to-modify")?,
            session_id: body.text("session-id")?,
        },
        "renew-session-lock" => Operation::RenewSessionLock { session_id: body.session_id()? },
        "set-session-state" => Operation::SetSessionState {
            session_id: body.session_id()?,
            state: body.binary("session-state")?,
        },
        "get-session-state" => Operation::GetSessionState { session_id: body.session_id()? },
        "get-message-sessions" => Operation::GetMessageSessions {
            filter: body.session_filter()?,
            skip: body.count("skip")?,
            top: body.count("top")?,
        },
        "add-rule" => Operation::AddRule { rule: rule::decode(&body)? },
        "remove-rule" => Operation::RemoveRule { name: body.required_text("rule-name")? },
        "enumerate-rules" => {
            Operation::EnumerateRules { skip: body.count("skip")?, top: body.count("top")? }
        }
        "batch-delete-messages" => Operation::BatchDelete {
            count: body.message_count(BATCH_DELETE_MAX, "1 to 4000")?,
            enqueued_before: body.instant("enqueued-time-utc")?,
            session_id: body.text("session-id")?,
        },
        _ => return Err(Refusal::NotSupported { what: "this management operation" }),
    })
}

/// The map of a request's body, read by name.
pub(super) struct Arguments<'a>(pub(super) &'a Map);

pub(super) fn bad(what: &'static str, why: &str) -> Refusal {
    Refusal::Argument { what, why: why.to_owned() }
}

impl<'a> Arguments<'a> {
    /// Absent and null are the same.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn is_null(&self, name: &str) -> bool {
        self.get(name).is_none()
    }

    pub(super) fn text(&self, name: &'static str) -> Result<Option<String>, Refusal> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.typed(name, text, "it is not a string")
    }

    pub(super) fn required_text(&self, name: &'static str) -> Result<String, Refusal> {
        self.text(name)?.ok_or_else(|| bad(name, "it is missing"))
    }

    fn session_id(&self) -> Result<String, Refusal> {
        self.required_text("session-id")
    }

    pub(super) fn map(&self, name: &'static str) -> Result<Option<&'a Map>, Refusal> {
        self.typed(name, Value::as_map, "it is not a map")
    }

    fn typed<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
        why: &str,
    ) -> Result<Option<T>, Refusal> {
        self.get(name).map(|value| read(value).ok_or_else(|| bad(name, why))).transpose()
    }

    fn number(&self, name: &'static str) -> Result<i64, Refusal> {
        let found = self.typed(name, Value::as_i64, "it is not an integer")?;
        found.ok_or_else(|| bad(name, "it is missing"))
    }

    fn count(&self, name: &'static str) -> Result<u32, Refusal> {
        let value = self.number(name)?;
        u32::try_from(value).map_err(|_| Refusal::ArgumentOutOfRange {
            what: name,
            value: value.to_string(),
            allowed: "0 to 4294967295",
        })
    }

    fn message_count(&self, max: u32, allowed: &'static str) -> Result<u32, Refusal> {
        let (what, value) = ("message-count", self.number("message-count")?);
        let count = u32::try_from(value).ok().filter(|count| (1..=max).contains(count));
        let value = value.to_string();
        count.ok_or(Refusal::ArgumentOutOfRange { what, value, allowed })
    }

    /// Negative numbers come before the first message, as do those from 0 on.
    fn sequence(&self, name: &'static str) -> Result<SequenceNumber, Refusal> {
        Ok(SequenceNumber(self.number(name)?.max(0).cast_unsigned()))
    }

    fn flag(&self, name: &'static str) -> Result<bool, Refusal> {
        Ok(self.typed(name, Value::as_bool, "it is not a boolean")?.unwrap_or(false))
    }

    fn binary(&self, name: &'static str) -> Result<Option<Bytes>, Refusal> {
        let binary = |value: &Value| match value {
            Value::Binary(bytes) => Some(bytes.clone()),
            _ => None,
        };
        self.typed(name, binary, "it is not a binary")
    }

    pub(super) fn instant(&self, name: &'static str) -> Result<Option<Timestamp>, Refusal> {
        let ms = self.typed(name, Value::as_i64, "it is not a timestamp")?;
        Ok(ms.map(|ms| Timestamp(ms.max(0).cast_unsigned())))
    }

    /// The elements of a list or an array that is not longer than one command takes.
    fn some<T>(
        &self,
        name: &'static str,
        why: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, Refusal> {
        let items = self.items(name, why, read)?;
        match items.len() > TOKENS_MAX {
            true => {
                let (value, allowed) = (items.len().to_string(), "up to 1000");
                Err(Refusal::ArgumentOutOfRange { what: name, value, allowed })
            }
            false => Ok(items),
        }
    }

    /// The elements of a list or an array.
    fn items<T>(
        &self,
        name: &'static str,
        why: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, Refusal> {
        let items = self.get(name).and_then(Value::as_items);
        let items = items.ok_or_else(|| bad(name, "it is missing, or not an array"))?;
        items.iter().map(|item| read(item).ok_or_else(|| bad(name, why))).collect()
    }

    fn tokens(&self) -> Result<Vec<LockToken>, Refusal> {
        self.some("lock-tokens", "an element is not a uuid", |item| match item {
            Value::Uuid(uuid) => Some(from_uuid(*uuid)),
            _ => None,
        })
    }

    fn sequences(&self) -> Result<Vec<SequenceNumber>, Refusal> {
        let sequence = |item: &Value| item.as_i64().and_then(|number| number.try_into().ok());
        self.some("sequence-numbers", "an element is not a sequence number", |item| {
            sequence(item).map(SequenceNumber)
        })
    }

    fn scheduled(&self) -> Result<Vec<Scheduled>, Refusal> {
        self.items("messages", "an element is not a map with a binary 'message'", |item| {
            let entry = Arguments(item.as_map()?);
            let message = entry.binary("message").ok()??;
            let message_id = entry.get("message-id").and_then(message_content::id_text);
            Some(Scheduled { message, message_id })
        })
    }

    fn receive_mode(&self) -> Result<ReceiveMode, Refusal> {
        let name = "receiver-settle-mode";
        match self.number(name)? {
            0 => Ok(ReceiveMode::ReceiveAndDelete),
            1 => Ok(ReceiveMode::PeekLock),
            _ => Err(bad(name, "it is neither 0 nor 1")),
        }
    }

    fn verdict(&self) -> Result<DispositionStatus, Refusal> {
        let name = "disposition-status";
        Ok(match self.required_text(name)?.as_str() {
            "completed" => DispositionStatus::Complete,
            "abandoned" => DispositionStatus::Abandon,
            // The SDKs' spelling; the other is a courtesy.
            "defered" | "deferred" => DispositionStatus::Defer,
            "suspended" => DispositionStatus::DeadLetter {
                reason: self.text("deadletter-reason")?,
                description: self.text("deadletter-description")?,
            },
            "unlocked" => DispositionStatus::Release,
            "renewed" => DispositionStatus::Renew,
            _ => return Err(bad(name, "it names no disposition")),
        })
    }

    pub(super) fn properties(&self, name: &'static str) -> Result<Properties, Refusal> {
        let Some(map) = self.map(name)? else { return Ok(Properties::new()) };
        let entry = |(key, value): &(Value, Value)| {
            let key = key.as_str().ok_or_else(|| bad(name, "a key is not a string"))?;
            Ok((key.to_owned(), to_domain(value)))
        };
        map.0.iter().map(entry).collect()
    }

    fn session_filter(&self) -> Result<ListedSessions, Refusal> {
        let at = self.instant("last-updated-time")?;
        Ok(match at {
            None => ListedSessions::Active,
            Some(Timestamp(ms)) if ms >= ACTIVE_SESSIONS_MS.cast_unsigned() => {
                ListedSessions::Active
            }
            Some(at) => ListedSessions::StateSetAfter(at),
        })
    }
}
