//! What rules see of a content that came over AMQP: it is stored as it was sent (part 3 of the
//! standard), and every replica reads it here (RULE-4). What a message is in full, `amqp` knows.

use std::collections::BTreeMap;

use domain::{ContentHeader, Span, SystemProperty, Timestamp, Value};

use super::encoded::{Input, Plain};
use super::trace;

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

/// The texts among the properties; the sections behind them are not looked at.
pub(super) fn texts(content: &[u8]) -> BTreeMap<SystemProperty, String> {
    let mut input = Input(content);
    while let Some((descriptor, section)) = input.value().and_then(|value| value.section()) {
        if number(descriptor) == Some(PROPERTIES) {
            let mut found = Found::default();
            return found.properties(section).map_or_else(BTreeMap::new, |()| found.header.texts);
        }
    }
    BTreeMap::new()
}

/// What names a trace among the application's properties; the sections behind them are not looked at.
pub(super) fn trace(content: &[u8]) -> trace::TraceProperties {
    let mut found = trace::TraceProperties::default();
    let mut input = Input(content);
    while let Some((descriptor, section)) = input.value().and_then(|value| value.section()) {
        match number(descriptor) {
            Some(APPLICATION_PROPERTIES) => {
                // What is malformed is as good as absent.
                let _ = of_trace(section, &mut found);
                break;
            }
            Some(HEADER..APPLICATION_PROPERTIES) => (),
            _ => break,
        }
    }
    found
}

/// Some clients write names and values as binaries.
fn of_trace(section: Plain<'_>, found: &mut trace::TraceProperties) -> Option<()> {
    let mut entries = section.elements()?;
    while !entries.is_empty() {
        let (key, value) = (entries.value()?, entries.value()?);
        let Some((key, value)) = key.plain().zip(value.plain()) else { continue };
        if let Some(place) = key.characters().and_then(|name| found.place(name)) {
            *place =
                value.characters().and_then(|text| Some(str::from_utf8(text).ok()?.to_owned()));
        }
    }
    Some(())
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
mod tests;
