//! What names stand for, and which filters are selectors.

use amqp_protocol::codec::{Map, Symbol, descriptor};
use amqp_protocol::message::MessageBuilder;
use bytes::Bytes;
use domain::{Delivery, MessageState, Overlay, SequenceNumber, Timestamp};

use super::*;

fn source(filter: Value) -> Source {
    let filter = Some(Map::default().symbol("jms-selector", filter));
    Source { filter, ..Source::default() }
}

fn selection(text: &str) -> Selection {
    let filter = Value::Described(Box::new((Value::Ulong(0x468c_0000_0004), text.into())));
    Selection::of(&source(filter), &Limits::default()).unwrap().unwrap()
}

fn received(overlay: Option<Overlay>) -> Received {
    let header = Header { durable: Some(true), priority: Some(7), ..Header::default() };
    let properties = Properties {
        message_id: Some("one".into()),
        user_id: Some(Bytes::from_static(b"me")),
        to: Some("q".into()),
        subject: Some("order".into()),
        reply_to: Some("answers".into()),
        correlation_id: Some(Value::Ulong(9)),
        content_type: Some(Symbol::from_static("text/plain")),
        content_encoding: Some(Symbol::from_static("gzip")),
        absolute_expiry_time: Some(UnixMs(2_000)),
        creation_time: Some(UnixMs(1_000)),
        group_id: Some("group".into()),
        group_sequence: Some(3),
        reply_to_group_id: Some("back".into()),
    };
    let application = Map::default();
    let application = Map([
        ("colour", Value::from("blue")),
        ("Size", Value::Int(5)),
        ("JMS_mine", Value::Bool(true)),
    ]
    .into_iter()
    .map(|(name, value)| (Value::from(name), value))
    .chain(application.0)
    .collect());
    let content = MessageBuilder::default()
        .composite(&header)
        .composite(&properties)
        .section(descriptor::APPLICATION_PROPERTIES, &application)
        .data("body")
        .build();
    let sequence = SequenceNumber(1);
    let delivery = Delivery {
        sequence,
        body: sequence,
        topic: None,
        size_bytes: 0,
        state: MessageState::Active,
        delivery_count: 2,
        enqueued_at: Timestamp(0),
        enqueued_sequence: sequence,
        dead_letter_source: None,
        scheduled_at: None,
        ttl: None,
        expires_at: None,
        lock: None,
        overlay: overlay.map(Box::new),
    };
    Received { delivery, content }
}

/// Each row is true of the one message.
#[test]
fn sel_4_sel_5_each_name_stands_for_its_part_of_a_message() {
    let message = received(None);
    for selector in [
        "JMSMessageID = 'ID:AMQP_NO_PREFIX:one'",
        "JMSCorrelationID = 'ID:AMQP_ULONG:9'",
        "JMSType = 'order'",
        "JMSTimestamp = 1000",
        "JMSPriority = 7",
        "JMSDeliveryMode = 'PERSISTENT'",
        "JMSXGroupID = 'group'",
        "JMSXGroupSeq = 3",
        "JMSXUserID = 'me'",
        "JMSXDeliveryCount = 3",
        "JMS_mine",
        "colour = 'blue' AND Size > 4",
        // The case of a name counts.
        "Colour IS NULL AND size IS NULL",
        "amqp.durable AND amqp.priority = 7 AND amqp.delivery_count = 2 AND amqp.redelivered",
        "amqp.message_id = 'one' AND amqp.correlation_id = 9 AND amqp.user_id = 'me'",
        "amqp.to = 'q' AND amqp.reply_to = 'answers' AND amqp.subject = 'order'",
        "amqp.content_type = 'text/plain' AND amqp.content_encoding = 'gzip'",
        "amqp.creation_time = 1000 AND amqp.absolute_expiry_time = 2000",
        "amqp.group_id = 'group' AND amqp.group_sequence = 3 AND amqp.reply_to_group_id = 'back'",
        "amqp.other IS NULL",
    ] {
        assert!(selection(selector).takes(&message), "{selector}");
        assert!(!selection(&format!("NOT ({selector})")).takes(&message), "{selector}");
    }
}

/// What the broker changed since counts, and not what was sent.
#[test]
fn sel_5_a_selector_sees_a_message_as_its_receiver_would() {
    let set = [("colour".to_owned(), domain::Value::String("red".to_owned()))].into();
    let overlay = Overlay { set, removed: vec!["Size".to_owned()], ..Overlay::default() };
    assert!(selection("colour = 'red' AND Size IS NULL").takes(&received(Some(overlay))));
}

/// Each row an id, and what JMS calls it as a message's and as a correlation's.
#[test]
fn sel_4_ids_are_as_qpid_jms_shows_them() {
    for (id, of_message, of_correlation) in [
        (Value::from("a"), "ID:AMQP_NO_PREFIX:a", "a"),
        ("ID:a".into(), "ID:a", "ID:a"),
        ("ID:AMQP_UUID:x".into(), "ID:AMQP_STRING:ID:AMQP_UUID:x", "ID:AMQP_STRING:ID:AMQP_UUID:x"),
        (Value::Ulong(7), "ID:AMQP_ULONG:7", "ID:AMQP_ULONG:7"),
        (
            Value::Uuid([0xab; 16]),
            "ID:AMQP_UUID:abababab-abab-abab-abab-abababababab",
            "ID:AMQP_UUID:abababab-abab-abab-abab-abababababab",
        ),
        (
            Value::Binary(Bytes::from_static(&[1, 0xaf])),
            "ID:AMQP_BINARY:01AF",
            "ID:AMQP_BINARY:01AF",
        ),
    ] {
        assert_eq!(jms_id(&id, true).as_deref(), Some(of_message), "{id:?}");
        assert_eq!(jms_id(&id, false).as_deref(), Some(of_correlation), "{id:?}");
    }
}

/// Each row the value of a selector's filter, and what its refusal says, if it is one.
#[test]
fn sel_1_a_filter_that_is_no_selector_is_named() {
    let described = |value| Value::Described(Box::new((Value::Ulong(0x468c_0000_0004), value)));
    for (filter, told) in [
        (described("a = 1".into()), None),
        ("a = 1".into(), None),
        (described("".into()), None),
        (described(Value::Null), Some("it is no text")),
        (described(Value::Int(1)), Some("it is no text")),
        (described("a = ".into()), Some("column 5: expected a name or a value, found end of text")),
    ] {
        let said = Selection::of(&source(filter.clone()), &Limits::default()).err();
        assert_eq!(said.is_some(), told.is_some(), "{filter:?}: {said:?}");
        let said = said.unwrap_or_default();
        assert!(said.contains(told.unwrap_or_default()), "{said}");
        assert!(
            told.is_none() || said.contains("'jms-selector' (apache.org:selector-filter:string)")
        );
    }
}
