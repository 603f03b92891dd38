//! Contents that say something: `colour=red;n=5;$Subject=hi` has two user properties, one of them a
//! number, and a broker property.

use bytes::Bytes;
use domain::{ContentHeader, MessageTexts, SystemProperty, TraceContext, Value};

/// What rules see of such a content. What is none has no properties.
pub fn read(content: &Bytes) -> Option<ContentHeader> {
    let text = std::str::from_utf8(content).ok()?;
    let mut header = ContentHeader::default();
    for (name, value) in text.split(';').filter_map(|pair| pair.split_once('=')) {
        match name.strip_prefix('$') {
            Some(name) => {
                let property = SystemProperty::named(name).expect("a system property");
                header.texts.insert(property, value.to_owned());
            }
            None => {
                let value = match value.parse() {
                    Ok(number) => Value::Long(number),
                    Err(_) => Value::String(value.to_owned()),
                };
                header.properties.insert(name.to_owned(), value);
            }
        }
    }
    Some(header)
}

/// What such a message is known by.
pub fn texts(content: &Bytes) -> MessageTexts {
    let header = read(content).unwrap_or_default();
    let text = |property| header.texts.get(&property).map(|text| text.as_str().into());
    MessageTexts {
        message_id: text(SystemProperty::MessageId),
        correlation_id: text(SystemProperty::CorrelationId),
        session_id: text(SystemProperty::SessionId),
        subject: text(SystemProperty::Subject),
        reply_to: text(SystemProperty::ReplyTo),
    }
}

/// Of a content whose sender is traced.
pub const TRACEPARENT: &str = "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The trace that such a content names: `traceparent=…`.
pub fn trace(content: &Bytes) -> Option<TraceContext> {
    let header = read(content)?;
    let Some(Value::String(parent)) = header.properties.get("traceparent") else { return None };
    TraceContext::sampled(parent, None)
}
