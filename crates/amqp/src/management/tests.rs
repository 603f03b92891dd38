//! Requests as the SDKs write them, replies as they read them (§7).

use bytes::{Bytes, BytesMut};
use domain::{LockToken, Refusal, SequenceNumber, Timestamp};

use super::*;
use crate::Limits;
use crate::codec::{Array, Error, Map, Symbol, Value};
use crate::message::Message;
use crate::request::{Envelope, request};

const ID: Value = Value::Ulong(9);

fn envelope() -> Envelope {
    ask("peek-message", Map::default()).0
}

fn ask(operation: &str, body: Map) -> (Envelope, Result<Operation, Refusal>) {
    let name = format!("com.microsoft:{operation}");
    let properties = Map::default()
        .string("operation", name.as_str().into())
        .string("com.microsoft:tracking-id", "track".into());
    let payload = request(ID, Some("replies"), &properties, &Value::Map(body));
    decode(&payload, &Limits::default()).unwrap()
}

fn map() -> Map {
    Map::default()
}

fn uuids(bytes: &[u8]) -> Value {
    let uuids = bytes.iter().map(|byte| Value::Uuid([*byte; 16])).collect();
    Value::Array(Array::new(uuids).unwrap())
}

fn longs(numbers: &[i64]) -> Value {
    Value::Array(Array::longs(numbers.iter().copied()))
}

fn token(byte: u8) -> LockToken {
    LockToken::from_bytes([byte; 16])
}

/// §7.1: every operation, and the integer widths and list forms clients vary.
#[test]
fn section_7_1_requests_decode() {
    let sequences = vec![SequenceNumber(3), SequenceNumber(5)];
    let session_id = || Some("s".to_owned());
    let scheduled = map()
        .string("message", Value::Binary(Bytes::from_static(b"m")))
        .string("message-id", "id".into())
        .string("session-id", "s".into());
    let scheduled = Value::List(vec![Value::Map(scheduled)]);
    let table = [
        (
            "renew-lock",
            map().string("lock-tokens", uuids(&[1, 2])),
            Operation::RenewLock { tokens: vec![token(1), token(2)] },
        ),
        (
            "peek-message",
            map()
                .string("from-sequence-number", Value::Long(-1))
                .string("message-count", Value::Int(4))
                .string("session-id", "s".into())
                .string("omit-message-body", Value::Bool(true)),
            Operation::Peek {
                from: SequenceNumber(0),
                count: 4,
                session_id: session_id(),
                omit_body: true,
            },
        ),
        (
            "schedule-message",
            map().string("messages", scheduled),
            Operation::Schedule {
                messages: vec![Scheduled {
                    message: Bytes::from_static(b"m"),
                    message_id: Some("id".into()),
                }],
            },
        ),
        (
            "cancel-scheduled-message",
            map().symbol("sequence-numbers", longs(&[3, 5])),
            Operation::CancelScheduled { sequences: sequences.clone() },
        ),
        (
            "receive-by-sequence-number",
            map()
                .string("sequence-numbers", Value::List(vec![Value::Long(3), Value::Int(5)]))
                .string("receiver-settle-mode", Value::Uint(1)),
            Operation::ReceiveBySequence {
                sequences,
                mode: ReceiveMode::PeekLock,
                session_id: None,
            },
        ),
        (
            "update-disposition",
            map()
                .string("disposition-status", "suspended".into())
                .string("lock-tokens", uuids(&[7]))
                .string("deadletter-reason", "why".into())
                .string("deadletter-description", Value::Null)
                .string("properties-to-modify", Value::Map(map().string("k", Value::Int(1)))),
            Operation::UpdateDisposition {
                tokens: vec![token(7)],
                verdict: Verdict::DeadLetter { reason: Some("why".into()), description: None },
                properties_to_modify: [("k".to_owned(), domain::Value::Int(1))].into(),
                session_id: None,
            },
        ),
        (
            "renew-session-lock",
            map().string("session-id", "s".into()),
            Operation::RenewSessionLock { session_id: "s".into() },
        ),
        (
            "set-session-state",
            map().string("session-id", "s".into()).string("session-state", Value::Null),
            Operation::SetSessionState { session_id: "s".into(), state: None },
        ),
        (
            "get-session-state",
            map().string("session-id", "s".into()),
            Operation::GetSessionState { session_id: "s".into() },
        ),
        (
            "get-message-sessions",
            map()
                .string("last-updated-time", Value::Timestamp(253_402_300_800_000))
                .string("skip", Value::Int(0))
                .string("top", Value::Int(100)),
            Operation::GetMessageSessions { filter: SessionFilter::Active, skip: 0, top: 100 },
        ),
        (
            "get-message-sessions",
            map()
                .string("last-updated-time", Value::Timestamp(5))
                .string("skip", Value::Int(1))
                .string("top", Value::Int(2)),
            Operation::GetMessageSessions {
                filter: SessionFilter::StateSetAfter(Timestamp(5)),
                skip: 1,
                top: 2,
            },
        ),
        (
            "remove-rule",
            map().string("rule-name", "r".into()),
            Operation::RemoveRule { name: "r".into() },
        ),
        (
            "enumerate-rules",
            map().string("top", Value::Int(10)).string("skip", Value::Int(0)),
            Operation::EnumerateRules { skip: 0, top: 10 },
        ),
        (
            "batch-delete-messages",
            map()
                .string("message-count", Value::Int(10))
                .string("enqueued-time-utc", Value::Timestamp(7)),
            Operation::BatchDelete {
                count: 10,
                enqueued_before: Some(Timestamp(7)),
                session_id: None,
            },
        ),
    ];
    for (name, body, expected) in table {
        assert_eq!(ask(name, body).1, Ok(expected), "{name}");
    }
}

#[test]
fn section_7_1_rules_are_read_from_maps() {
    let sql = map().string("expression", "a = 1".into());
    let description = map()
        .string("sql-filter", Value::Map(sql.clone()))
        .string("sql-rule-action", Value::Map(sql));
    let body =
        map().string("rule-name", "r".into()).string("rule-description", Value::Map(description));
    let sql = "a = 1".to_owned();
    let rule = Rule {
        name: "r".into(),
        filter: Filter::Sql(sql.clone()),
        action: Some(sql),
        created_at: None,
    };
    assert_eq!(ask("add-rule", body).1, Ok(Operation::AddRule { rule }));

    let correlation = map()
        .string("label", "s".into())
        .string("to", Value::Null)
        .string("properties", Value::Map(map().string("k", Value::Bool(true))));
    let description = map().string("correlation-filter", Value::Map(correlation));
    let body =
        map().string("rule-name", "r".into()).string("rule-description", Value::Map(description));
    let Ok(Operation::AddRule { rule }) = ask("add-rule", body).1 else { panic!("a rule") };
    let Filter::Correlation(filter) = rule.filter else { panic!("a correlation filter") };
    assert_eq!((filter.subject.as_deref(), filter.to), (Some("s"), None));
    assert_eq!(filter.properties["k"], domain::Value::Bool(true));
}

/// §7.2: a bad request gets a status, not silence.
#[test]
fn section_7_2_bad_requests_are_refused_by_name() {
    let table = [
        ("no-such-operation", map(), "ERR-16"),
        ("renew-lock", map(), "ERR-12"),
        ("renew-lock", map().string("lock-tokens", longs(&[1])), "ERR-12"),
        ("peek-message", map().string("from-sequence-number", "x".into()), "ERR-12"),
        ("cancel-scheduled-message", map().string("sequence-numbers", longs(&[-1])), "ERR-12"),
        ("cancel-scheduled-message", map().string("sequence-numbers", longs(&[1; 1001])), "ERR-13"),
        ("update-disposition", map().string("lock-tokens", uuids(&[1])), "ERR-12"),
        ("add-rule", map().string("rule-name", "r".into()), "ERR-12"),
        ("enumerate-rules", map().string("skip", Value::Int(-1)), "ERR-13"),
    ];
    for (name, body, rule) in table {
        assert_eq!(ask(name, body).1.unwrap_err().rule(), rule, "{name}");
    }
}

/// Rules 14 to 16: codes, conditions and the types of what is in the body.
#[test]
fn rule_15_replies_have_the_types_clients_read() {
    let at = Timestamp(5);
    let token = token(1);
    let message = Bytes::from_static(b"m");
    let entry = map().string("message", Value::Binary(message.clone()));
    let locked = map()
        .string("lock-token", Value::Uuid([1; 16]))
        .string("message", Value::Binary(message.clone()));
    let list = |map: &Map| Value::List(vec![Value::Map(map.clone())]);
    let times = Value::Array(Array::timestamps([5]));
    let busy = Error::new("com.microsoft:server-busy", "later");
    let ids = vec!["s".to_owned()];
    let table = [
        (Reply::Done, 200, None, map()),
        (Reply::LocksRenewed(vec![at]), 200, None, map().string("expirations", times)),
        (Reply::Peeked(vec![message.clone()]), 200, None, map().string("messages", list(&entry))),
        (Reply::Peeked(vec![]), 204, None, map().string("messages", Value::List(vec![]))),
        (
            Reply::Scheduled(vec![SequenceNumber(3)]),
            200,
            None,
            map().string("sequence-numbers", longs(&[3])),
        ),
        (
            Reply::Received(vec![(token, message)]),
            200,
            None,
            map().string("messages", list(&locked)),
        ),
        (
            Reply::Received(vec![]),
            404,
            Some("com.microsoft:message-not-found"),
            map().string("messages", Value::List(vec![])),
        ),
        (Reply::SessionLockRenewed(at), 200, None, map().string("expiration", Value::Timestamp(5))),
        (Reply::SessionState(None), 200, None, map().string("session-state", Value::Null)),
        (
            Reply::Sessions { skip: 1, ids },
            200,
            None,
            map()
                .string("skip", Value::Int(1))
                .string("sessions-ids", Value::List(vec!["s".into()])),
        ),
        (Reply::Deleted(0), 204, None, map().string("message-count", Value::Int(0))),
        (Reply::Refused(busy), 503, Some("com.microsoft:server-busy"), map()),
    ];
    let limits = Limits::default();
    for (reply, code, condition, body) in table {
        let encoded = reply.encode(&envelope(), &mut BytesMut::new());
        let message = Message::parse(encoded, &limits).unwrap();
        let properties = message.application_properties(&limits).unwrap();
        assert_eq!(properties.get("statusCode"), Some(&Value::Int(code)), "{reply:?}");
        let expected = condition.map(|name| Value::Symbol(Symbol::from(name)));
        assert_eq!(properties.get("errorCondition"), expected.as_ref(), "{reply:?}");
        assert_eq!(properties.get("com.microsoft:tracking-id"), Some(&"track".into()));
        assert_eq!(message.value(&limits).unwrap(), Value::Map(body), "{reply:?}");
        let properties = message.properties(&limits).unwrap();
        assert_eq!(properties.correlation_id, Some(ID));
        assert_eq!(properties.to, Some("replies".into()));
    }
}

/// §7.1: descriptors of both vendor families, filter and action always present, never a null map.
#[test]
fn section_7_1_rules_are_listed_with_numeric_descriptors() {
    let rule = Rule {
        name: "r".into(),
        filter: Filter::Correlation(Box::default()),
        action: None,
        created_at: Some(Timestamp(1)),
    };
    let Value::Described(parts) = rule.to_value() else { panic!("a described list") };
    assert_eq!(parts.0, Value::Ulong(1_335_734_829_060));
    let fields = parts.1.as_items().unwrap();
    let Value::Described(filter) = &fields[0] else { panic!("a described filter") };
    assert_eq!(filter.0, Value::Ulong(83_483_426_825));
    assert_eq!(filter.1.as_items().unwrap()[8], Value::Map(map()));
    let Value::Described(action) = &fields[1] else { panic!("a described action") };
    assert_eq!(action.0, Value::Ulong(1_335_734_829_061));
    assert_eq!(fields[2..], ["r".into(), Value::Timestamp(1)]);
}
