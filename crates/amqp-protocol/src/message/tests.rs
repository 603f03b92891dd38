//! Sections as they lie in a message (FORM-1).

use bytes::{Bytes, BytesMut};

use super::*;
use crate::Limits;
use crate::codec::{self, Composite, DecodeError, Encode, Map, Value, descriptor};

/// Builds a message section by section.
#[derive(Default)]
struct Builder(BytesMut);

impl Builder {
    fn composite(mut self, section: &impl Composite) -> Builder {
        section.write(&mut self.0);
        self
    }

    fn section(mut self, section: u64, value: &impl Encode) -> Builder {
        codec::write_descriptor(&mut self.0, section);
        value.encode(&mut self.0);
        self
    }

    fn data(self, data: &'static str) -> Builder {
        self.section(descriptor::DATA, &Bytes::from_static(data.as_bytes()))
    }

    fn bytes(self) -> Bytes {
        self.0.freeze()
    }

    fn message(self) -> Message {
        Message::parse(self.bytes(), &Limits::default()).unwrap()
    }
}

fn build() -> Builder {
    Builder::default()
}

fn id(id: &str) -> Properties {
    Properties { message_id: Some(id.into()), ..Properties::default() }
}

/// FORM-1: whatever the order; each section once; a body of one kind.
#[test]
fn form_1_sections_are_found_in_any_order() {
    let limits = Limits::default();
    let map = Map::default().symbol("k", Value::Bool(true));
    let odd = build()
        .data("a")
        .data("b")
        .section(descriptor::DELIVERY_ANNOTATIONS, &map)
        .composite(&id("x"))
        .message();
    assert_eq!(odd.body_kind(), Some(BodyKind::Data));
    assert_eq!(odd.body(), build().data("a").data("b").bytes());
    assert_eq!(odd.properties(&limits).unwrap(), id("x"));
    assert_eq!(odd.header_bytes() + odd.body().len(), odd.bytes().len());
    let rest = build().section(descriptor::DELIVERY_ANNOTATIONS, &map).composite(&id("x"));
    assert_eq!(odd.without_body(), rest.bytes());

    let twice = build().composite(&id("x")).composite(&id("y")).bytes();
    let torn = build().data("a").composite(&id("x")).data("b").bytes();
    let mixed = build().data("a").section(descriptor::AMQP_VALUE, &Value::Null).bytes();
    let cut = twice.slice(..twice.len() - 1);
    let strange = build().composite(&codec::Accepted {}).bytes();
    let table = [
        (twice, DecodeError::Section { section: "properties" }),
        (torn, DecodeError::Section { section: "body" }),
        (mixed, DecodeError::Section { section: "body" }),
        (cut, DecodeError::Truncated),
        (strange, DecodeError::Descriptor { expected: "message section" }),
    ];
    for (bytes, expected) in table {
        assert_eq!(Message::parse(bytes, &limits).unwrap_err(), expected);
    }
}
