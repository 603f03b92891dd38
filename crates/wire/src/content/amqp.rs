//! What rules see of a content that came over AMQP: it is stored as it was sent (part 3 of the
//! standard), and every replica reads it here (RULE-4). What a message is in full, `amqp` knows.

use domain::{ContentHeader, Span, SystemProperty, Timestamp, Value};

use super::encoded::{Input, Plain};

/// With what an AMQP message begins: that of a described value.
pub(super) const FORMAT: u8 = 0;

const HEADER: u64 = 0x70;
const MESSAGE_ANNOTATIONS: u64 = 0x72;
const PROPERTIES: u64 = 0x73;
const APPLICATION_PROPERTIES: u64 = 0x74;

/// All but the body, which is passed over. `None` if a section cannot be read.
pub(super) fn header(content: &[u8]) -> Option<ContentHeader> {
    let mut found = Found::default();
    let mut input = Input(content);
    while !input.is_empty() {
        let (descriptor, section) = input.value()?.section()?;
        match number(descriptor)? {
            HEADER => found.header(section)?,
            MESSAGE_ANNOTATIONS => found.annotations(section)?,
            PROPERTIES => found.properties(section)?,
            APPLICATION_PROPERTIES => found.user_properties(section)?,
            _ => {}
        }
    }
    Some(found.finish())
}

/// A section's descriptor. Its symbol is rare, and allowed.
fn number(descriptor: Plain<'_>) -> Option<u64> {
    match descriptor.text() {
        Some("amqp:header:list") => Some(HEADER),
        Some("amqp:message-annotations:map") => Some(MESSAGE_ANNOTATIONS),
        Some("amqp:properties:list") => Some(PROPERTIES),
        Some("amqp:application-properties:map") => Some(APPLICATION_PROPERTIES),
        Some(_) => Some(0),
        None => descriptor.integer()?.try_into().ok(),
    }
}

#[derive(Default)]
struct Found {
    header: ContentHeader,
    /// Of the header, milliseconds.
    ttl: Option<u32>,
    expires_at: Option<i64>,
    created_at: Option<i64>,
}

impl Found {
    fn header(&mut self, section: Plain<'_>) -> Option<()> {
        const TTL: usize = 2;
        let mut fields = section.elements()?;
        for at in 0..=TTL {
            if fields.is_empty() {
                break;
            }
            let field = fields.value()?;
            if at == TTL {
                self.ttl = field.plain()?.integer().and_then(|ms| u32::try_from(ms).ok());
            }
        }
        Some(())
    }

    fn annotations(&mut self, section: Plain<'_>) -> Option<()> {
        let mut entries = section.elements()?;
        while !entries.is_empty() {
            let (key, value) = (entries.value()?, entries.value()?);
            let Some((name, value)) = key.plain().and_then(Plain::text).zip(value.plain()) else {
                continue;
            };
            match name {
                "x-opt-partition-key" => self.text(SystemProperty::PartitionKey, value.text()),
                "x-opt-via-partition-key" => {
                    self.text(SystemProperty::TransactionPartitionKey, value.text());
                }
                "x-opt-scheduled-enqueue-time" => {
                    // An instant before 1970 is past like any other.
                    let at = value.integer().map(|ms| Timestamp(ms.max(0).cast_unsigned()));
                    self.header.scheduled_at = at;
                }
                _ => {}
            }
        }
        Some(())
    }

    fn properties(&mut self, section: Plain<'_>) -> Option<()> {
        use SystemProperty as Property;
        let mut fields = section.elements()?;
        let mut at = 0;
        while !fields.is_empty() {
            let field = fields.value()?.plain()?;
            match at {
                0 => self.id(Property::MessageId, field),
                2 => self.id(Property::To, field),
                3 => self.text(Property::Subject, field.text()),
                4 => self.id(Property::ReplyTo, field),
                5 => self.id(Property::CorrelationId, field),
                6 => self.text(Property::ContentType, field.text()),
                8 => self.expires_at = field.integer(),
                9 => self.created_at = field.integer(),
                10 => self.text(Property::SessionId, field.text()),
                12 => self.text(Property::ReplyToSessionId, field.text()),
                _ => {}
            }
            at += 1;
        }
        Some(())
    }

    fn user_properties(&mut self, section: Plain<'_>) -> Option<()> {
        let mut entries = section.elements()?;
        while !entries.is_empty() {
            let (key, value) = (entries.value()?, entries.value()?);
            if let Some(name) = key.plain().and_then(Plain::text) {
                self.header.properties.insert(name.to_owned(), value.property());
            }
        }
        Some(())
    }

    fn text(&mut self, property: SystemProperty, text: Option<&str>) {
        if let Some(text) = text {
            self.header.texts.insert(property, text.to_owned());
        }
    }

    /// Clients write ids as ulongs, uuids and binaries as well: they count by what they say.
    fn id(&mut self, property: SystemProperty, id: Plain<'_>) {
        let text = match id.value() {
            Some(Value::String(text)) => Some(text),
            Some(Value::Uuid(bytes)) => Some(uuid(&bytes)),
            Some(Value::Bytes(bytes)) => {
                Some(String::from_utf8(bytes).unwrap_or_else(|error| hex(error.as_bytes())))
            }
            Some(Value::ULong(number)) => Some(number.to_string()),
            _ => id.integer().map(|number| number.to_string()),
        };
        self.text(property, text.as_deref());
    }

    /// TTL-27: what the header says, unless it says nothing, or all it can while the properties say
    /// more.
    fn finish(self) -> ContentHeader {
        let short = self.ttl.filter(|ms| *ms > 0);
        let long = self.expires_at.zip(self.created_at);
        let long = long.and_then(|(expiry, creation)| expiry.checked_sub(creation));
        let long = long.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0);
        let long = long.filter(|_| short.is_none_or(|ms| ms == u32::MAX));
        ContentHeader { ttl: long.or(short.map(u64::from)).map(Span), ..self.header }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// 8-4-4-4-12 digits, in the order of the bytes.
fn uuid(bytes: &[u8; 16]) -> String {
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]];
    parts.map(hex).join("-")
}

#[cfg(test)]
mod tests {
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
        let (content_type, expiry) =
            (symbol("type"), [&[0x83], &9000i64.to_be_bytes()[..]].concat());
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
    }

    proptest! {
        /// Whatever bytes are stored, reading ends.
        #[test]
        fn any_bytes_are_read_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let framed = [&[0, 0x53, 0x74][..], &bytes].concat();
            let _ = (header(&bytes), header(&framed));
        }
    }
}
