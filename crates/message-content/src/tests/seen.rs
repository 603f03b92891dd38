//! What every replica reads of a content for rules is what the message says (RULE-4, RULE-30).

use domain::{ContentHeader, SystemProperty, Value as Property};

use super::*;

/// What rules see, by the way of all that a message says.
fn said(message: &Message) -> ContentHeader {
    let neutral = Neutral::from_amqp(message, &Limits::default()).unwrap();
    let texts = [
        (SystemProperty::MessageId, neutral.message_id),
        (SystemProperty::SessionId, neutral.session_id),
        (SystemProperty::ReplyToSessionId, neutral.reply_to_session_id),
        (SystemProperty::PartitionKey, neutral.partition_key),
        (SystemProperty::CorrelationId, neutral.correlation_id),
        (SystemProperty::Subject, neutral.subject),
        (SystemProperty::To, neutral.to),
        (SystemProperty::ReplyTo, neutral.reply_to),
        (SystemProperty::ContentType, neutral.content_type),
    ];
    let texts = texts.into_iter().filter_map(|(property, text)| Some((property, text?)));
    ContentHeader {
        texts: texts.collect(),
        ttl: neutral.ttl,
        scheduled_at: neutral.scheduled_at,
        properties: neutral.properties,
    }
}

fn check(message: &Message) {
    assert_eq!(wire::content::header(message.bytes()), Some(said(message)));
}

fn every_type() -> domain::Properties {
    [
        ("null", Property::Null),
        ("bool", Property::Bool(true)),
        ("byte", Property::Byte(200)),
        ("sbyte", Property::SByte(-100)),
        ("short", Property::Short(-300)),
        ("ushort", Property::UShort(60_000)),
        ("int", Property::Int(-70_000)),
        ("small int", Property::Int(7)),
        ("uint", Property::UInt(70_000)),
        ("no uint", Property::UInt(0)),
        ("long", Property::Long(i64::MIN)),
        ("small long", Property::Long(-7)),
        ("ulong", Property::ULong(u64::MAX)),
        ("float", Property::Float(1.5)),
        ("double", Property::Double(-2.5)),
        ("decimal", Property::Decimal([9; 16])),
        ("char", Property::Char('é')),
        ("string", Property::String("text".into())),
        ("long string", Property::String("x".repeat(300))),
        ("uri", Property::Uri("http://a".into())),
        ("uuid", Property::Uuid([8; 16])),
        ("date-time", Property::DateTime(-1)),
        ("date-time-offset", Property::DateTimeOffset(1 << 40)),
        ("time-span", Property::TimeSpan(-7)),
        ("bytes", Property::Bytes(vec![1, 2])),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[test]
fn rule_4_replicas_see_all_that_a_message_says_beside_its_body() {
    let text = |text: &str| Some(text.to_owned());
    let neutral = Neutral {
        body: Body::Binary(Bytes::from_static(b"body")),
        message_id: text("id"),
        session_id: text("session"),
        reply_to_session_id: text("reply session"),
        partition_key: text("session"),
        correlation_id: text("correlation"),
        subject: text("subject"),
        to: text("to"),
        reply_to: text("reply to"),
        content_type: text("type"),
        ttl: Some(Span(9000)),
        scheduled_at: Some(Timestamp(5)),
        properties: every_type(),
    };
    let parsed = |neutral: &Neutral| {
        Message::parse(neutral.to_amqp(&mut BytesMut::new()), &Limits::default()).unwrap()
    };
    check(&parsed(&neutral));
    check(&parsed(&Neutral { ttl: Some(Span(1 << 40)), ..neutral }));
    check(&parsed(&Neutral::default()));
}

/// FORM-1, FORM-4: what clients write in ways of their own.
#[test]
fn rule_30_ids_annotations_and_odd_types_are_seen_as_they_are_shown() {
    for id in [
        Value::Ulong(7),
        Value::Uuid([0xab; 16]),
        Value::Binary(Bytes::from_static(b"text")),
        Value::Binary(Bytes::from_static(&[0xff, 0])),
        Value::Symbol(codec::Symbol::from_static("symbol")),
        Value::Null,
    ] {
        let properties = Properties {
            message_id: Some(id.clone()),
            correlation_id: Some(id.clone()),
            reply_to: Some(id),
            ..Properties::default()
        };
        check(&build().composite(&properties).data("x").message());
    }
    let list = Value::List(vec![Value::Int(1), Value::from("a")]);
    let described = Value::Described(Box::new((Value::from("strange"), Value::Long(1))));
    let user = Map::default()
        .string("list", list)
        .string("map", Value::Map(Map::default().symbol("k", Value::Bool(true))))
        .string("described", described)
        .symbol("symbol", Value::Symbol(codec::Symbol::from_static("value")));
    let annotations = Map::default()
        .string("x-opt-partition-key", "key".into())
        .symbol("x-opt-scheduled-enqueue-time", Value::Long(-5))
        .symbol("x-opt-sequence-number", Value::Long(1));
    check(&build().data("x").user(&user).annotations(&annotations).message());
    let header = Header { ttl: Some(u32::MAX), ..Header::default() };
    let lifetime = Properties {
        absolute_expiry_time: Some(UnixMs(1 << 40)),
        creation_time: Some(UnixMs(5)),
        ..Properties::default()
    };
    check(&build().composite(&header).composite(&lifetime).message());
    check(&build().section(descriptor::APPLICATION_PROPERTIES, &Value::Null).message());
}

/// A broker that rewrote a message for its id still reads it (FORM-3).
#[test]
fn form_3_a_drawn_id_is_seen() {
    let sent = build().data("x").user(&Map::default().string("k", Value::Int(1))).build();
    let stored = take(&sent, 0).unwrap().remove(0);
    let seen = wire::content::header(&stored.content).unwrap();
    assert_eq!(seen.texts[&SystemProperty::MessageId], GUID_TEXT);
    assert_eq!(seen.properties["k"], Property::Int(1));
}
