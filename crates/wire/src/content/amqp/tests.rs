//! Messages as they are sent, byte by byte.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// A section whose content is a list8 or map8 of these elements.
fn section(descriptor: u8, code: u8, elements: &[&[u8]]) -> Vec<u8> {
    let content: Vec<u8> = elements.concat();
    let size = u8::try_from(content.len() + 1).unwrap();
    let count = u8::try_from(elements.len()).unwrap();
    [&[0, 0x53, descriptor, code, size, count], &content[..]].concat()
}

fn list(descriptor: u8, fields: &[&[u8]]) -> Vec<u8> {
    section(descriptor, 0xc0, fields)
}

fn string(text: &str) -> Vec<u8> {
    [&[0xa1, text.len() as u8], text.as_bytes()].concat()
}

fn symbol(text: &str) -> Vec<u8> {
    [&[0xa3, text.len() as u8], text.as_bytes()].concat()
}

fn map(descriptor: u8, entries: &[(&str, &[u8])]) -> Vec<u8> {
    let keys: Vec<Vec<u8>> = entries.iter().map(|(key, _)| string(key)).collect();
    let parts: Vec<&[u8]> =
        keys.iter().zip(entries).flat_map(|(key, (_, value))| [&key[..], *value]).collect();
    section(descriptor, 0xc1, &parts)
}

fn described(name: &str, value: &[u8]) -> Vec<u8> {
    [&[0], &symbol(name)[..], value].concat()
}

fn property(value: &[u8]) -> Value {
    let content = map(0x74, &[("p", value)]);
    header(&content).expect("it can be read").properties.remove("p").expect("it is there")
}

/// MSG-4: every type of application properties, in each of its encodings.
#[test]
fn msg_4_rule_4_rules_see_a_user_property_in_its_type() {
    let ticks = [&[0x81], &7i64.to_be_bytes()[..]].concat();
    let uri = described("com.microsoft:uri", &string("http://a"));
    let strange = described("com.example:thing", &string("x"));
    let twice = [&[0, 0], &symbol("a")[..], &symbol("b"), &string("x")].concat();
    let text = |text: &str| Value::String(text.into());
    let table: Vec<(Vec<u8>, Value)> = vec![
        (vec![0x40], Value::Null),
        (vec![0x41], Value::Bool(true)),
        (vec![0x42], Value::Bool(false)),
        (vec![0x56, 1], Value::Bool(true)),
        (vec![0x50, 0xff], Value::Byte(255)),
        (vec![0x51, 0xff], Value::SByte(-1)),
        (vec![0x60, 1, 0], Value::UShort(256)),
        (vec![0x61, 0xff, 0xfe], Value::Short(-2)),
        (vec![0x43], Value::UInt(0)),
        (vec![0x52, 9], Value::UInt(9)),
        (vec![0x70, 0, 0, 1, 0], Value::UInt(256)),
        (vec![0x54, 0xff], Value::Int(-1)),
        (vec![0x71, 0xff, 0xff, 0xff, 0xfe], Value::Int(-2)),
        (vec![0x44], Value::ULong(0)),
        (vec![0x53, 9], Value::ULong(9)),
        ([&[0x80], &u64::MAX.to_be_bytes()[..]].concat(), Value::ULong(u64::MAX)),
        (vec![0x55, 0xff], Value::Long(-1)),
        (ticks.clone(), Value::Long(7)),
        ([&[0x72], &1.5f32.to_be_bytes()[..]].concat(), Value::Float(1.5)),
        ([&[0x82], &1.5f64.to_be_bytes()[..]].concat(), Value::Double(1.5)),
        ([&[0x94], &[3; 16][..]].concat(), Value::Decimal([3; 16])),
        (vec![0x73, 0, 0, 0, 0x41], Value::Char('A')),
        ([&[0x83], &(-5i64).to_be_bytes()[..]].concat(), Value::DateTime(-5)),
        ([&[0x98], &[4; 16][..]].concat(), Value::Uuid([4; 16])),
        (vec![0xa0, 2, 1, 2], Value::Bytes(vec![1, 2])),
        (vec![0xb1, 0, 0, 0, 1, b'a'], text("a")),
        (symbol("sym"), text("sym")),
        (described("com.microsoft:timespan", &ticks), Value::TimeSpan(7)),
        (described("com.microsoft:datetime-offset", &ticks), Value::DateTimeOffset(7)),
        (uri, Value::Uri("http://a".into())),
        // Not named by MSG-4: the bytes of its encoding.
        (vec![0xc0, 2, 1, 0x41], Value::Bytes(vec![0xc0, 2, 1, 0x41])),
        (strange.clone(), Value::Bytes(strange)),
        (twice.clone(), Value::Bytes(twice)),
        (vec![0xa1, 1, 0xff], Value::Bytes(vec![0xa1, 1, 0xff])),
    ];
    for (encoded, expected) in table {
        assert_eq!(property(&encoded), expected, "{encoded:x?}");
    }
}

#[test]
fn rule_30_rules_see_the_broker_properties_of_an_amqp_message() {
    let (null, uuid): (&[u8], _) = (&[0x40], [&[0x98], &[0xab; 16][..]].concat());
    let fields =
        ["to", "subject", "reply-to", "correlation", "type", "session", "reply-to-session"]
            .map(string);
    let [to, subject, reply_to, correlation, _, session, reply_to_session] = &fields;
    let (content_type, expiry) = (symbol("type"), [&[0x83], &9000i64.to_be_bytes()[..]].concat());
    let creation = [&[0x83], &1000i64.to_be_bytes()[..]].concat();
    let properties = list(
        0x73,
        &[
            &uuid,
            null,
            to,
            subject,
            reply_to,
            correlation,
            &content_type,
            null,
            &expiry,
            &creation,
            session,
            null,
            reply_to_session,
        ],
    );
    let annotations = map(
        0x72,
        &[
            ("x-opt-partition-key", &string("key")),
            ("x-opt-via-partition-key", &string("via")),
            ("x-opt-scheduled-enqueue-time", &creation),
            ("x-opt-other", &[0x41]),
        ],
    );
    // In an order that one client writes them in.
    let body = [&[0, 0x53, 0x75][..], &[0xa0, 1, b'x']].concat();
    let seen = header(&[body, properties, annotations].concat()).unwrap();
    let texts = [
        (SystemProperty::MessageId, "abababab-abab-abab-abab-abababababab"),
        (SystemProperty::To, "to"),
        (SystemProperty::Subject, "subject"),
        (SystemProperty::ReplyTo, "reply-to"),
        (SystemProperty::CorrelationId, "correlation"),
        (SystemProperty::ContentType, "type"),
        (SystemProperty::SessionId, "session"),
        (SystemProperty::ReplyToSessionId, "reply-to-session"),
        (SystemProperty::PartitionKey, "key"),
        (SystemProperty::TransactionPartitionKey, "via"),
    ];
    let expected = texts.map(|(property, text)| (property, text.to_owned()));
    assert_eq!(seen.texts, expected.into());
    assert_eq!((seen.ttl, seen.scheduled_at), (Some(Span(8000)), Some(Timestamp(1000))));
}

/// TTL-27, and ids of every type that clients write.
#[test]
fn ttl_27_rule_30_a_header_comes_first_and_ids_are_what_they_say() {
    let ttl = [&[0x70], &5000u32.to_be_bytes()[..]].concat();
    let seen = header(&list(0x70, &[&[0x41], &[0x50, 4], &ttl])).unwrap();
    assert_eq!(seen.ttl, Some(Span(5000)));
    for (id, text) in [
        (vec![0x53, 7], "7"),
        (vec![0xa0, 2, b'o', b'k'], "ok"),
        (vec![0xa0, 2, 0xff, 0], "ff00"),
        (symbol("s"), "s"),
    ] {
        let seen = header(&list(0x73, &[&id])).unwrap();
        assert_eq!(seen.texts[&SystemProperty::MessageId], text);
    }
    assert_eq!(header(&[0, 0x53, 0x73, 0x45]), Some(ContentHeader::default()));
    let named = [&[0][..], &symbol("amqp:properties:list"), &[0xc0, 3, 1, 0x53, 7]].concat();
    assert_eq!(header(&named).unwrap().texts[&SystemProperty::MessageId], "7");
    // The same by itself, behind other sections and before those that nobody reads.
    let annotations = map(0x72, &[("x", &[0x41])]);
    let behind = [&annotations[..], &named, &[0xff]].concat();
    assert_eq!(texts(&behind)[&SystemProperty::MessageId], "7");
    assert_eq!(texts(&annotations), BTreeMap::new());
}

proptest! {
    /// Whatever bytes are stored, reading ends.
    #[test]
    fn any_bytes_are_read_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let framed = [&[0, 0x53, 0x74][..], &bytes].concat();
        let _ = (header(&bytes), header(&framed), texts(&bytes), texts(&framed));
    }
}

/// The SDKs for Python write names and values as binaries, the others as strings.
#[test]
fn a_trace_is_read_of_application_properties_in_either_form() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let binary = |text: &str| [&[0xa0, text.len() as u8], text.as_bytes()].concat();
    let header = list(0x70, &[&[0x41]]);
    let body = [&[0, 0x53, 0x75][..], &binary("traceparent")].concat();
    for write in [string as fn(&str) -> Vec<u8>, symbol, binary] {
        let parts = [write("kept"), vec![0x41], write("Diagnostic-Id"), write(parent)];
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let properties = section(0x74, 0xc1, &parts);
        let content = Bytes::from([&header[..], &properties, &body].concat());
        let found = crate::content::trace_context(&content).expect("it is sampled");
        assert_eq!(found.parent.to_string(), "b7ad6b7169203331");
        let cut = content.slice(..header.len() + 20);
        assert_eq!(crate::content::trace_context(&cut), None);
    }
    let without = Bytes::from([&header[..], &body].concat());
    assert_eq!(crate::content::trace_context(&without), None);
}
