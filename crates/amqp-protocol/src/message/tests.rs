//! Sections as they lie in a message (FORM-1).

use super::*;
use crate::Limits;
use crate::codec::{self, DecodeError, Map, Value, descriptor};

fn build() -> MessageBuilder {
    MessageBuilder::default()
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
        .build();
    let odd = Message::parse(odd, &limits).unwrap();
    assert_eq!(odd.body_kind(), Some(BodyKind::Data));
    assert_eq!(odd.body(), build().data("a").data("b").build());
    assert_eq!(odd.properties(&limits).unwrap(), id("x"));
    assert_eq!(odd.header_bytes() + odd.body().len(), odd.bytes().len());
    let rest = build().section(descriptor::DELIVERY_ANNOTATIONS, &map).composite(&id("x"));
    assert_eq!(odd.without_body(), rest.build());

    let twice = build().composite(&id("x")).composite(&id("y")).build();
    let torn = build().data("a").composite(&id("x")).data("b").build();
    let mixed = build().data("a").section(descriptor::AMQP_VALUE, &Value::Null).build();
    let cut = twice.slice(..twice.len() - 1);
    let strange = build().composite(&codec::Accepted {}).build();
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
