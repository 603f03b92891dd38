//! The trace that a content's sender is in, read without the rest of it: whoever looks for it looks at every
//! message that is sent.

use bytes::Bytes;
use domain::{TRACEPARENT, TRACESTATE, TraceContext};
use prost::Message as _;

use super::{FORMAT, amqp};
use crate::v1;

/// Of a stored message its properties, as they are encoded.
#[derive(prost::Message)]
struct Properties {
    #[prost(bytes = "bytes", repeated, tag = "13")]
    entries: Vec<Bytes>,
}

/// An entry of a map.
#[derive(prost::Message)]
struct Entry {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// The values of the properties that name a trace, by their places in [`TRACEPARENT`], and of [`TRACESTATE`].
#[derive(Default)]
pub(super) struct TraceProperties {
    parents: [Option<String>; TRACEPARENT.len()],
    state: Option<String>,
}

impl TraceProperties {
    /// Where the value of a property of this name goes, if it is one of those.
    pub fn place(&mut self, name: &[u8]) -> Option<&mut Option<String>> {
        let known = TRACEPARENT.iter().position(|known| known.as_bytes() == name);
        match known {
            Some(at) => self.parents.get_mut(at),
            None if name == TRACESTATE.as_bytes() => Some(&mut self.state),
            None => None,
        }
    }
}

/// The trace of a message's sender, whichever protocol it came by, if that is sampled. Nothing of what cannot be read.
pub fn trace_context(content: &Bytes) -> Option<TraceContext> {
    let found = match content.first() {
        Some(&amqp::FORMAT) => amqp::trace(content),
        Some(&FORMAT) => native(content.slice(1..))?,
        _ => return None,
    };
    let parent = found.parents.iter().flatten().next()?;
    TraceContext::sampled(parent, found.state.as_deref())
}

fn native(message: Bytes) -> Option<TraceProperties> {
    let mut found = TraceProperties::default();
    for entry in Properties::decode(message).ok()?.entries {
        let Entry { name, value } = Entry::decode(entry).ok()?;
        let Some(place) = found.place(&name) else { continue };
        *place = match v1::Value::decode(value).ok()?.kind {
            Some(v1::value::Kind::StringValue(text)) => Some(text),
            Some(v1::value::Kind::BytesValue(bytes)) => String::from_utf8(bytes.into()).ok(),
            _ => None,
        };
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use domain::Value;

    use super::*;
    use crate::content::encode;
    use crate::native::value_to_v1;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const OTHER: &str = "00-1bf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn text(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    fn bytes(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }

    fn stored(properties: &[(&str, Value)]) -> Bytes {
        let properties =
            properties.iter().map(|(name, value)| ((*name).to_owned(), value_to_v1(value)));
        let body = Bytes::from_static(b"traceparent");
        encode(&v1::Message { body, properties: properties.collect(), ..Default::default() })
    }

    #[test]
    fn a_trace_is_read_of_the_property_that_names_it() {
        for (properties, expected) in [
            (vec![("traceparent", text(PARENT))], Some(PARENT)),
            (vec![("Diagnostic-Id", text(PARENT))], Some(PARENT)),
            (vec![("traceparent", bytes(PARENT))], Some(PARENT)),
            (vec![("Diagnostic-Id", text(OTHER)), ("traceparent", text(PARENT))], Some(PARENT)),
            (vec![("traceparent", text(UNSAMPLED)), ("Diagnostic-Id", text(PARENT))], None),
            (vec![("Traceparent", text(PARENT))], None),
            (vec![("traceparent", Value::Int(7))], None),
            (vec![("traceparent", text("|of an older form.1"))], None),
            (vec![], None),
        ] {
            let found = trace_context(&stored(&properties));
            let told = found.map(|found| format!("00-{}-{}-01", found.trace, found.parent));
            assert_eq!(told.as_deref(), expected, "{properties:?}");
        }
        let both = [("traceparent", text(PARENT)), ("tracestate", text("vendor=1"))];
        assert_eq!(trace_context(&stored(&both)).unwrap().state.as_deref(), Some("vendor=1"));
    }

    #[test]
    fn what_cannot_be_read_has_no_trace() {
        for content in [&b""[..], b"no content", &[FORMAT, 0xff], &[amqp::FORMAT, 0x53]] {
            assert_eq!(trace_context(&Bytes::from_static(content)), None);
        }
    }
}
