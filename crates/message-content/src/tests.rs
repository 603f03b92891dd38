//! Sections, ingest, delivery, and the way between protocols (FORM-1 to FORM-13, XFER-6).

mod refused;
mod seen;

use amqp_protocol::Limits;
use amqp_protocol::codec::{self, Encode, Map, Value, descriptor};
use amqp_protocol::message::{Header, Message, MessageBuilder, Properties, UnixMs};
use bytes::{Buf, Bytes, BytesMut};
use domain::{
    Delivery, HeldLock, LockToken, MessageState, Overlay, Refusal, SequenceNumber, Span, Timestamp,
};
use proptest::prelude::*;

use super::*;

const GUID: [u8; 16] = [0xab; 16];
const GUID_TEXT: &str = "abababababababababababababababab";

/// What these tests put into messages most.
trait Building {
    fn annotations(self, map: &Map) -> Self;
    fn user(self, map: &Map) -> Self;
    fn message(self) -> Message;
}

impl Building for MessageBuilder {
    fn annotations(self, map: &Map) -> MessageBuilder {
        self.section(descriptor::MESSAGE_ANNOTATIONS, map)
    }

    fn user(self, map: &Map) -> MessageBuilder {
        self.section(descriptor::APPLICATION_PROPERTIES, map)
    }

    fn message(self) -> Message {
        Message::parse(self.build(), &Limits::default()).unwrap()
    }
}

fn build() -> MessageBuilder {
    MessageBuilder::default()
}

fn id(id: &str) -> Properties {
    Properties { message_id: Some(id.into()), ..Properties::default() }
}

/// The properties of [`delivery`], as the broker tells them.
fn lived() -> Properties {
    Properties {
        creation_time: Some(UnixMs(100)),
        absolute_expiry_time: Some(UnixMs(150)),
        ..id("x")
    }
}

fn take(payload: &Bytes, format: u32) -> Result<Vec<domain::NewMessage>, Refusal> {
    ingest(format, payload, &Limits::default(), || GUID, &mut BytesMut::new())
}

fn delivery() -> Delivery {
    let token = LockToken { sequence: SequenceNumber(5), nonce: 6 };
    Delivery {
        topic: None,
        sequence: SequenceNumber(5),
        body: SequenceNumber(5),
        size_bytes: 0,
        state: MessageState::Active,
        delivery_count: 2,
        enqueued_at: Timestamp(100),
        enqueued_sequence: SequenceNumber(4),
        dead_letter_source: None,
        scheduled_at: None,
        ttl: Some(Span(50)),
        expires_at: Some(Timestamp(150)),
        lock: Some(HeldLock { token, until: Timestamp(130) }),
        overlay: None,
    }
}

fn shown(message: &Message, delivery: &Delivery, shown: Shown) -> Message {
    let limits = Limits::default();
    let mut scratch = BytesMut::new();
    let payload = deliver(message, delivery, shown, None, &limits, &mut scratch).unwrap();
    Message::parse(payload.to_bytes(), &limits).unwrap()
}

/// What the machine needs is beside the content, and the content is what was sent.
#[test]
fn msg_2_broker_properties_are_extracted() {
    let properties = Properties { group_id: Some("s".into()), ..id("x") };
    let annotations = Map::default()
        .symbol("x-opt-partition-key", "s".into())
        .string("x-opt-scheduled-enqueue-time", Value::Timestamp(99));
    let bytes = build()
        .composite(&Header { ttl: Some(7), ..Header::default() })
        .annotations(&annotations)
        .composite(&properties)
        .data("body")
        .build();
    let [new] = &take(&bytes, 0).unwrap()[..] else { panic!("one message") };
    assert_eq!(new.content, bytes);
    assert_eq!(new.content.as_ptr(), bytes.as_ptr(), "not copied");
    assert_eq!(new.message_id.as_deref(), Some("x"));
    assert_eq!((new.session_id.as_deref(), new.partition_key.as_deref()), (Some("s"), Some("s")));
    assert_eq!((new.ttl, new.scheduled_at), (Some(Span(7)), Some(Timestamp(99))));
    let body_bytes = build().data("body").build().len();
    assert_eq!(new.size_bytes as usize, bytes.len());
    assert_eq!(new.header_bytes as usize, bytes.len() - body_bytes);
}

/// FORM-3: an id is put where there is none, and nothing else changes.
#[test]
fn form_3_a_missing_message_id_is_injected() {
    let user = Map::default().string("k", Value::Int(1));
    let rest = Properties { subject: Some("s".into()), ..Properties::default() };
    let with_id = Properties { message_id: Some(GUID_TEXT.into()), ..rest.clone() };
    let header = Header { durable: Some(true), ..Header::default() };
    let start = || build().composite(&header);
    let table = [
        (start().composite(&rest).user(&user).data("b"), start().composite(&with_id)),
        (start().user(&user).data("b"), start().composite(&id(GUID_TEXT))),
        (
            start().composite(&Properties::default()).user(&user).data("b"),
            start().composite(&id(GUID_TEXT)),
        ),
    ];
    for (sent, expected) in table {
        let new = take(&sent.build(), 0).unwrap().remove(0);
        assert_eq!(new.content, expected.user(&user).data("b").build());
        assert_eq!(new.message_id.as_deref(), Some(GUID_TEXT));
    }
    // No sections at all.
    let new = take(&Bytes::new(), 0).unwrap().remove(0);
    assert_eq!(new.content, build().composite(&id(GUID_TEXT)).build());
}

/// FORM-4: ids of other types are compared by what they say.
#[test]
fn form_4_ids_of_any_type_are_text() {
    let table = [
        (Value::Ulong(7), "7"),
        (Value::Uuid(std::array::from_fn(|i| i as u8)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (Value::Binary(Bytes::from_static(b"text")), "text"),
        (Value::Binary(Bytes::from_static(&[0xff, 1])), "ff01"),
        (Value::from("x"), "x"),
    ];
    for (value, expected) in table {
        let properties = Properties { message_id: Some(value), ..Properties::default() };
        let bytes = build().composite(&properties).build();
        let new = take(&bytes, 0).unwrap().remove(0);
        assert_eq!((new.message_id.as_deref(), &new.content), (Some(expected), &bytes));
    }
}

/// TTL-8, TTL-27: which of header and properties says how long.
#[test]
fn ttl_27_long_lifetimes_travel_as_two_instants() {
    const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
    let ttl = |ttl, creation: Option<i64>, expiry: Option<i64>| {
        let properties = Properties {
            absolute_expiry_time: expiry.map(UnixMs),
            creation_time: creation.map(UnixMs),
            ..id("x")
        };
        let header = Header { ttl, ..Header::default() };
        let bytes = build().composite(&header).composite(&properties).build();
        take(&bytes, 0).unwrap().remove(0).ttl.map(|ttl| ttl.0)
    };
    let year = Some(YEAR_MS as i64 + 5);
    assert_eq!(ttl(None, None, None), None);
    assert_eq!(ttl(Some(0), Some(5), year), Some(YEAR_MS));
    assert_eq!(ttl(Some(9), Some(5), year), Some(9));
    assert_eq!(ttl(Some(u32::MAX), Some(5), year), Some(YEAR_MS));
    assert_eq!(ttl(None, Some(5), year), Some(YEAR_MS));
    assert_eq!(ttl(None, None, year), None, "alone it says nothing");
    assert_eq!(ttl(Some(u32::MAX), None, None), Some(u64::from(u32::MAX)));
    assert_eq!(ttl(None, Some(10), Some(5)), None);
}

/// XFER-6 to XFER-8: every data section of a batch is a message, in order, all or nothing.
#[test]
fn xfer_6_to_xfer_8_a_batch_is_split() {
    let inner = |name: &str| build().composite(&id(name)).data("m").build();
    let envelope = build()
        .composite(&id("a"))
        .section(descriptor::DATA, &inner("a"))
        .section(descriptor::DATA, &inner("b"))
        .build();
    let ids: Vec<_> = take(&envelope, BATCH_FORMAT)
        .unwrap()
        .into_iter()
        .map(|new| new.message_id.unwrap())
        .collect();
    assert_eq!(ids, ["a", "b"]);
    let broken = build()
        .section(descriptor::DATA, &inner("a"))
        .section(descriptor::DATA, &Bytes::from_static(b"no message"))
        .build();
    let refusal = take(&broken, BATCH_FORMAT).unwrap_err();
    assert_eq!(refusal.rule(), "ERR-32");
}

/// FORM-6: what was sent as false is not the same as what was not sent.
#[test]
fn form_6_a_header_keeps_what_was_sent_as_false() {
    for flag in [None, Some(false), Some(true)] {
        let header = Header { durable: flag, first_acquirer: flag, ..Header::default() };
        let sent = build().composite(&header).composite(&id("x")).data("b").message();
        let told = shown(&sent, &delivery(), Shown::Peek).header(&Limits::default()).unwrap();
        assert_eq!((told.durable, told.first_acquirer), (flag, flag));
    }
}

/// SETTLE-2: each row how a message is shown, and whether its lock's token comes along.
#[test]
fn settle_2_a_lock_token_is_a_delivery_annotation_as_well() {
    let annotations = Map::default()
        .symbol("x-opt-lock-token", "the producer's".into())
        .symbol("mine", Value::Int(1));
    let section = descriptor::DELIVERY_ANNOTATIONS;
    let plain = build().composite(&id("x")).data("b").message();
    let annotated = build().section(section, &annotations).composite(&id("x")).data("b").message();
    let token = delivery().lock.expect("it is locked").token;
    for (how, is_locked) in [
        (Shown::PeekLock, true),
        (Shown::Deferred, true),
        (Shown::Peek, false),
        (Shown::ReceiveAndDelete, false),
    ] {
        for (sent, mine) in [(&plain, None), (&annotated, Some(Value::Int(1)))] {
            let told = shown(sent, &delivery(), how);
            let content = told.content(told.sections().delivery_annotations);
            let map = content.map(|bytes| Value::parse(&bytes, &Limits::default()).unwrap());
            let get = |name| map.as_ref()?.as_map()?.get(name).cloned();
            let expected = is_locked.then(|| Value::Uuid(token.to_bytes()));
            assert_eq!((get("x-opt-lock-token"), get("mine")), (expected, mine), "{how:?}");
        }
    }
}

/// FORM-2, FORM-6 to FORM-8: header and annotations anew, the rest byte for byte and not copied.
#[test]
fn form_2_form_6_to_form_8_a_delivery_keeps_what_was_sent() {
    let limits = Limits::default();
    let user = Map::default().string("k", Value::Int(1));
    let annotations = Map::default()
        .symbol("x-opt-partition-key", "p".into())
        .symbol("x-opt-sequence-number", Value::Long(777))
        .symbol("mine", Value::Bool(true));
    let header = Header {
        durable: Some(true),
        priority: Some(9),
        delivery_count: Some(40),
        ..Header::default()
    };
    let tail = || build().composite(&lived()).user(&user).data("body");
    let sent = [
        build().composite(&header).annotations(&annotations).build(),
        tail().section(descriptor::FOOTER, &user).build(),
    ];
    let stored = Message::parse(sent.concat().into(), &limits).unwrap();
    let mut scratch = BytesMut::new();
    let payload =
        deliver(&stored, &delivery(), Shown::PeekLock, None, &limits, &mut scratch).unwrap();
    let bytes = payload.to_bytes();
    assert!(bytes.ends_with(&sent[1]));
    let mut tail_of = payload.clone();
    tail_of.advance(bytes.len() - sent[1].len());
    let stored_range = stored.bytes().as_ptr_range();
    assert!(stored_range.contains(&tail_of.chunk().as_ptr()), "not copied");

    let message = Message::parse(bytes, &limits).unwrap();
    let expected = Header { ttl: Some(50), delivery_count: Some(2), ..header };
    assert_eq!(message.header(&limits).unwrap(), expected);
    let expected = Map::default()
        .symbol("x-opt-partition-key", "p".into())
        .symbol("mine", Value::Bool(true))
        .symbol("x-opt-enqueued-time", Value::Timestamp(100))
        .symbol("x-opt-sequence-number", Value::Long(5))
        .symbol("x-opt-enqueue-sequence-number", Value::Long(4))
        .symbol("x-opt-locked-until", Value::Timestamp(130));
    assert_eq!(message.message_annotations(&limits).unwrap(), expected);
}

/// PEEK-6, SCHED-17: locks are shown to who received one, and a state to everybody where it is not
/// Active.
#[test]
fn peek_6_form_7_sched_17_lock_and_state_are_shown_where_they_belong() {
    use MessageState::{Active, Deferred, Scheduled};

    let stored = build().composite(&id("x")).message();
    let table = [
        (Shown::PeekLock, Active, true, None),
        (Shown::PeekLock, Scheduled, true, Some(2)),
        (Shown::ReceiveAndDelete, Active, false, None),
        (Shown::ReceiveAndDelete, Scheduled, false, Some(2)),
        (Shown::Peek, Active, false, Some(0)),
        (Shown::Peek, Deferred, false, Some(1)),
        (Shown::Peek, Scheduled, false, Some(2)),
        (Shown::Deferred, Deferred, true, Some(1)),
    ];
    for (how, state, has_lock, told) in table {
        let message = shown(&stored, &Delivery { state, ..delivery() }, how);
        let annotations = message.message_annotations(&Limits::default()).unwrap();
        assert_eq!(annotations.get("x-opt-locked-until").is_some(), has_lock, "{how:?}");
        assert_eq!(annotations.get("x-opt-message-state"), told.map(Value::Int).as_ref());
    }
}

/// TTL-3, TTL-25, TTL-27: both instants are the broker's, or there is no expiry.
#[test]
fn ttl_27_form_9_expiry_in_the_properties_is_the_brokers() {
    const LONG_MS: u64 = 1 << 40;
    let limits = Limits::default();
    let says = |creation: i64, expiry: i64| Properties {
        creation_time: Some(UnixMs(creation)),
        absolute_expiry_time: Some(UnixMs(expiry)),
        ..id("x")
    };
    let long = Delivery {
        ttl: Some(Span(LONG_MS)),
        expires_at: Some(Timestamp(100 + LONG_MS)),
        ..delivery()
    };
    let derived = Delivery { ttl: None, expires_at: None, ..delivery() };
    let scheduled = Delivery {
        state: MessageState::Scheduled,
        expires_at: Some(Timestamp(8050)),
        ..delivery()
    };
    let created = Properties { creation_time: Some(UnixMs(10)), ..id("x") };
    let expires = Properties { absolute_expiry_time: Some(UnixMs(60)), ..id("x") };
    let table = [
        (says(10, 60), delivery(), says(100, 150)),
        (says(10, 99), delivery(), says(100, 150)),
        (says(100, 150), delivery(), says(100, 150)),
        (id("x"), delivery(), says(100, 150)),
        (id("x"), long.clone(), says(100, 100 + LONG_MS as i64)),
        (says(10, 60), scheduled, says(8000, 8050)),
        (says(10, 60), derived.clone(), created.clone()),
        (expires, derived.clone(), id("x")),
        (created.clone(), derived, created),
    ];
    for (sent, delivery, expected) in table {
        let stored = build().composite(&sent).data("b").message();
        let message = shown(&stored, &delivery, Shown::PeekLock);
        assert_eq!(message.properties(&limits).unwrap(), expected);
        assert_eq!(message.body(), stored.body());
    }
    let header = shown(&build().data("b").message(), &long, Shown::Peek).header(&limits).unwrap();
    assert_eq!(header.ttl, Some(u32::MAX), "saturated");
}

/// LOCK-10, DLQ-9: overlays overwrite, add and remove; other entries stay as they were encoded.
#[test]
fn lock_10_form_9_an_overlay_changes_application_properties() {
    let limits = Limits::default();
    let user = Map::default()
        .string("kept", Value::List(vec![Value::Int(1)]))
        .string("old", Value::Int(1))
        .string("gone", Value::Null);
    let overlay = Overlay {
        set: [
            ("DeadLetterReason".to_owned(), domain::Value::String("why".into())),
            ("old".to_owned(), domain::Value::Bool(true)),
        ]
        .into(),
        removed: vec!["gone".into()],
        ..Overlay::default()
    };
    let changed = Delivery { overlay: Some(Box::new(overlay)), ..delivery() };
    let expected = Map::default()
        .string("kept", Value::List(vec![Value::Int(1)]))
        .string("DeadLetterReason", "why".into())
        .string("old", Value::Bool(true));
    let stored = build().composite(&id("x")).user(&user).data("b").message();
    let message = shown(&stored, &changed, Shown::PeekLock);
    assert_eq!(message.application_properties(&limits).unwrap(), expected);
    assert_eq!(message.properties(&limits).unwrap(), lived());
    assert_eq!(message.body(), stored.body());
    // Where there were none.
    let message = shown(&build().data("b").message(), &changed, Shown::PeekLock);
    assert_eq!(message.application_properties(&limits).unwrap().0.len(), 2);
}

/// FORM-5: sections in the standard order, whatever order they came in.
#[test]
fn form_5_a_delivery_is_in_the_standard_order() {
    let map = Map::default().symbol("k", Value::Bool(true));
    let odd = build()
        .section(descriptor::FOOTER, &map)
        .data("b")
        .section(descriptor::DELIVERY_ANNOTATIONS, &map)
        .user(&map)
        .composite(&id("x"))
        .message();
    let bytes = shown(&odd, &delivery(), Shown::PeekLock).bytes().clone();
    let mut reader = codec::Reader::new(&bytes, &Limits::default());
    let mut sections = Vec::new();
    while reader.left() > 0 {
        sections.push(reader.descriptor("section").unwrap());
        reader.skip().unwrap();
    }
    assert_eq!(sections, [0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x78]);
}

#[test]
fn form_12_no_instant_is_later_than_the_year_9999() {
    let limits = Limits::default();
    let never = Delivery {
        ttl: Some(Span(u64::MAX - 1)),
        expires_at: Some(Timestamp(u64::MAX)),
        enqueued_at: Timestamp(u64::MAX),
        ..delivery()
    };
    let message = shown(&build().composite(&id("x")).message(), &never, Shown::PeekLock);
    let annotations = message.message_annotations(&limits).unwrap();
    let end = 253_402_300_799_999;
    assert_eq!(annotations.get("x-opt-enqueued-time"), Some(&Value::Timestamp(end)));
    let properties = message.properties(&limits).unwrap();
    assert_eq!(properties.absolute_expiry_time, Some(UnixMs(end)));
}

fn neutral() -> impl Strategy<Value = Neutral> {
    let text = || prop::option::of("[a-z]{1,8}");
    let texts = (text(), text(), text(), text(), text(), text(), text(), text(), text());
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| Body::Binary(bytes.into())),
        any::<i32>().prop_map(|number| {
            let section = build().section(descriptor::AMQP_VALUE, &Value::Int(number));
            Body::Amqp(section.build())
        }),
    ];
    let user = prop::collection::btree_map("[a-z]{1,5}", property(), 0..5);
    let ttl = prop::option::of(1..1u64 << 40);
    (texts, body, user, ttl, prop::option::of(0..1u64 << 40)).prop_map(
        |(texts, body, properties, ttl, at)| Neutral {
            body,
            message_id: texts.0,
            session_id: texts.1,
            reply_to_session_id: texts.2,
            partition_key: texts.3,
            correlation_id: texts.4,
            subject: texts.5,
            to: texts.6,
            reply_to: texts.7,
            content_type: texts.8,
            ttl: ttl.map(Span),
            scheduled_at: at.map(Timestamp),
            properties,
        },
    )
}

/// Every type of MSG-4.
fn property() -> impl Strategy<Value = domain::Value> {
    use domain::Value as Property;
    prop_oneof![
        Just(Property::Null),
        any::<bool>().prop_map(Property::Bool),
        any::<u8>().prop_map(Property::Byte),
        any::<i8>().prop_map(Property::SByte),
        any::<i16>().prop_map(Property::Short),
        any::<u16>().prop_map(Property::UShort),
        any::<i32>().prop_map(Property::Int),
        any::<u32>().prop_map(Property::UInt),
        any::<i64>().prop_map(Property::Long),
        any::<u64>().prop_map(Property::ULong),
        (-1e9f32..1e9).prop_map(Property::Float),
        (-1e9f64..1e9).prop_map(Property::Double),
        any::<[u8; 16]>().prop_map(Property::Decimal),
        any::<char>().prop_map(Property::Char),
        ".{0,9}".prop_map(Property::String),
        ".{0,9}".prop_map(Property::Uri),
        any::<[u8; 16]>().prop_map(Property::Uuid),
        any::<i64>().prop_map(Property::DateTime),
        any::<i64>().prop_map(Property::DateTimeOffset),
        any::<i64>().prop_map(Property::TimeSpan),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(Property::Bytes),
    ]
}

proptest! {
    /// The table of the module: nothing of a message of the native API is lost over AMQP.
    #[test]
    fn msg_2_form_10_a_neutral_message_survives_amqp(neutral in neutral()) {
        let limits = Limits::default();
        let bytes = neutral.to_amqp(&mut BytesMut::new());
        let message = Message::parse(bytes.clone(), &limits).unwrap();
        prop_assert_eq!(Neutral::from_amqp(&message, &limits).unwrap(), neutral.clone());
        // And the machine is told the same as over the native API.
        let new = take(&bytes, 0).unwrap().remove(0);
        let id = neutral.message_id.as_deref().unwrap_or(GUID_TEXT);
        prop_assert_eq!(new.message_id.as_deref(), Some(id));
        prop_assert_eq!((new.session_id, new.ttl), (neutral.session_id, neutral.ttl));
        prop_assert_eq!((new.partition_key, new.scheduled_at),
            (neutral.partition_key, neutral.scheduled_at));
    }

    /// A delivery shows body and user properties as they were sent, however it is shown.
    #[test]
    fn form_2_a_delivery_is_what_was_sent(neutral in neutral(), peek in any::<bool>()) {
        let limits = Limits::default();
        let stored = Message::parse(neutral.to_amqp(&mut BytesMut::new()), &limits).unwrap();
        let how = if peek { Shown::Peek } else { Shown::PeekLock };
        let message = shown(&stored, &delivery(), how);
        let received = Neutral::from_amqp(&message, &limits).unwrap();
        let expected = Neutral { ttl: Some(Span(50)), ..neutral };
        prop_assert_eq!(received, expected);
    }
}

/// Data in pieces is one body; a type MSG-4 does not name shows as its encoding.
#[test]
fn msg_4_form_11_what_has_no_neutral_form() {
    let limits = Limits::default();
    let list = Value::List(vec![Value::Int(1)]);
    let mut encoding = BytesMut::new();
    list.encode(&mut encoding);
    let message = build().user(&Map::default().string("k", list)).data("a").data("b").message();
    let neutral = Neutral::from_amqp(&message, &limits).unwrap();
    assert_eq!(neutral.body, Body::Binary(Bytes::from_static(b"ab")));
    assert_eq!(neutral.properties["k"], domain::Value::Bytes(encoding.to_vec()));
}
