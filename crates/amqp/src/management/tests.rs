//! Requests as the SDKs write them, replies as they read them (REQ-4 to REQ-27).

use amqp_protocol::Limits;
use amqp_protocol::codec::{Array, Error, Map, Symbol, Value};
use amqp_protocol::message::Message;
use amqp_protocol::request::{Envelope, request};
use bytes::{Bytes, BytesMut};
use domain::{
    Conditions, LockToken, NewRule, Refusal, RuleFilter, RuleRow, SequenceNumber, SqlText,
    SystemProperty, Timestamp,
};

use super::*;

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

/// REQ-7, REQ-10 to REQ-22: every operation but `add-rule`, and the integer widths and list forms
/// clients vary.
#[test]
fn req_10_to_req_22_requests_decode() {
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
                verdict: DispositionStatus::DeadLetter {
                    reason: Some("why".into()),
                    description: None,
                },
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
            Operation::GetMessageSessions { filter: ListedSessions::Active, skip: 0, top: 100 },
        ),
        (
            "get-message-sessions",
            map()
                .string("last-updated-time", Value::Timestamp(5))
                .string("skip", Value::Int(1))
                .string("top", Value::Int(2)),
            Operation::GetMessageSessions {
                filter: ListedSessions::StateSetAfter(Timestamp(5)),
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
fn req_24_each_disposition_has_its_name() {
    let (reason, description) = (Some("why".to_owned()), None);
    for (name, expected) in [
        ("completed", DispositionStatus::Complete),
        ("abandoned", DispositionStatus::Abandon),
        ("defered", DispositionStatus::Defer),
        ("deferred", DispositionStatus::Defer),
        ("suspended", DispositionStatus::DeadLetter { reason, description }),
        ("unlocked", DispositionStatus::Release),
        ("renewed", DispositionStatus::Renew),
    ] {
        let body = map()
            .string("disposition-status", name.into())
            .string("deadletter-reason", "why".into())
            .string("lock-tokens", uuids(&[7]));
        let Ok(Operation::UpdateDisposition { verdict, .. }) = ask("update-disposition", body).1
        else {
            panic!("{name} is not understood")
        };
        assert_eq!(verdict, expected, "{name}");
    }
}

#[test]
fn req_23_req_26_rules_are_read_from_maps() {
    let sql = map().string("expression", "a = 1".into());
    let description = map()
        .string("sql-filter", Value::Map(sql.clone()))
        .string("sql-rule-action", Value::Map(sql));
    let body =
        map().string("rule-name", "r".into()).string("rule-description", Value::Map(description));
    let sql = SqlText { text: "a = 1".into(), ..SqlText::default() };
    let filter = RuleFilter::Sql(sql.clone());
    let rule = NewRule { name: "r".into(), filter, action: Some(sql) };
    assert_eq!(ask("add-rule", body).1, Ok(Operation::AddRule { rule }));

    let correlation = map()
        .string("label", "s".into())
        .string("to", Value::Null)
        .string("properties", Value::Map(map().string("k", Value::Bool(true))));
    let description = map()
        .string("correlation-filter", Value::Map(correlation))
        .string("sql-rule-action", Value::Null);
    let body =
        map().string("rule-name", "r".into()).string("rule-description", Value::Map(description));
    let conditions = Conditions {
        system: [(SystemProperty::Subject, "s".to_owned())].into(),
        properties: [("k".to_owned(), domain::Value::Bool(true))].into(),
        ..Conditions::default()
    };
    let filter = RuleFilter::Correlation(conditions);
    let rule = NewRule { name: "r".into(), filter, action: None };
    assert_eq!(ask("add-rule", body).1, Ok(Operation::AddRule { rule }));
}

/// RULE-29: a client that binds parameters sends them beside the expression.
#[test]
fn rule_29_req_26_parameters_of_an_expression_are_read() {
    let sql = map()
        .string("expression", "a = @p".into())
        .string("parameters", Value::Map(map().string("@p", Value::Int(7))));
    let description = map().string("sql-filter", Value::Map(sql));
    let body =
        map().string("rule-name", "r".into()).string("rule-description", Value::Map(description));
    let parameters = [("@p".to_owned(), domain::Value::Int(7))].into();
    let filter =
        RuleFilter::Sql(SqlText { text: "a = @p".into(), parameters, ..SqlText::default() });
    let rule = NewRule { name: "r".into(), filter, action: None };
    assert_eq!(ask("add-rule", body).1, Ok(Operation::AddRule { rule }));
}

/// DEFER-10, SESS-13, PEEK-9, BATCH-7: what takes holding a session names it.
#[test]
fn sess_13_req_28_operations_that_take_a_session_name_it() {
    let numbers = || longs(&[1]);
    let named = |body: Map| body.string("session-id", "s".into());
    let count = || map().string("message-count", Value::Int(1));
    let peek = || count().string("from-sequence-number", Value::Long(1));
    let deferred = || {
        map().string("sequence-numbers", numbers()).string("receiver-settle-mode", Value::Uint(1))
    };
    let complete = || {
        map().string("disposition-status", "completed".into()).string("lock-tokens", uuids(&[1]))
    };
    for (name, body, held) in [
        ("peek-message", named(peek()), Some("s")),
        ("peek-message", peek(), None),
        ("receive-by-sequence-number", named(deferred()), Some("s")),
        ("receive-by-sequence-number", deferred(), None),
        ("batch-delete-messages", named(count()), Some("s")),
        ("batch-delete-messages", count(), None),
        ("renew-session-lock", named(map()), Some("s")),
        ("get-session-state", named(map()), Some("s")),
        ("set-session-state", named(map()), Some("s")),
        ("update-disposition", named(complete()), None),
    ] {
        let operation = ask(name, body).1.unwrap();
        assert_eq!(operation.held_session(), held, "{name}");
    }
}

/// REQ-9: a bad request gets a status, not silence.
#[test]
fn req_9_req_29_bad_requests_are_refused_by_name() {
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

/// REQ-4 to REQ-8: codes, conditions and the types of what is in the body.
#[test]
fn err_26_req_4_to_req_8_replies_have_the_types_clients_read() {
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
        (Reply::Received(vec![]), 200, None, map().string("messages", Value::List(vec![]))),
        (Reply::SessionLockRenewed(at), 200, None, map().string("expiration", Value::Timestamp(5))),
        (Reply::SessionState(None), 200, None, map().string("session-state", Value::Null)),
        (
            Reply::Sessions { skip: 1, ids },
            200,
            None,
            map()
                .string("skip", Value::Int(1))
                .string("sessions-ids", Value::Array(Array::strings(["s"]))),
        ),
        (
            Reply::Sessions { skip: 0, ids: vec![] },
            204,
            None,
            map().string("skip", Value::Int(0)).string("sessions-ids", Value::List(vec![])),
        ),
        (Reply::Deleted(0), 200, None, map().string("message-count", Value::Int(0))),
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

/// REQ-27: descriptors of both vendor families, filter and action always present, never a null map.
#[test]
fn req_27_rules_are_listed_with_numeric_descriptors() {
    let row = |filter, action| {
        let created_at = Timestamp(1);
        rule::to_value(&RuleRow { name: "r".into(), filter, action, created_at, order: 0 })
    };
    let fields = |value: &Value, code: u64| {
        let Value::Described(parts) = value else { panic!("{value:?} is not described") };
        assert_eq!(parts.0, Value::Ulong(code));
        parts.1.as_items().unwrap().to_vec()
    };
    let system = [(SystemProperty::CorrelationId, "c".to_owned())].into();
    let conditions = Conditions { system, ..Conditions::default() };
    let listed = fields(&row(RuleFilter::Correlation(conditions), None), 1_335_734_829_060);
    let filter = fields(&listed[0], 83_483_426_825);
    assert_eq!(filter[0], "c".into());
    assert_eq!(filter[1..8], [const { Value::Null }; 7]);
    assert_eq!(filter[8], Value::Map(map()));
    assert_eq!(fields(&listed[1], 1_335_734_829_061), []);
    assert_eq!(listed[2..], ["r".into(), Value::Timestamp(1)]);

    let sql = SqlText { text: "a = 1".into(), ..SqlText::default() };
    let listed = fields(&row(RuleFilter::Sql(sql.clone()), Some(sql)), 1_335_734_829_060);
    let expression = ["a = 1".into(), Value::Int(20)];
    assert_eq!(fields(&listed[0], 83_483_426_822), expression);
    assert_eq!(fields(&listed[1], 1_335_734_829_062), expression);
    for (filter, code) in [(RuleFilter::True, 83_483_426_823), (RuleFilter::False, 83_483_426_824)]
    {
        let listed = fields(&row(filter, None), 1_335_734_829_060);
        assert_eq!(fields(&listed[0], code), []);
    }
}
