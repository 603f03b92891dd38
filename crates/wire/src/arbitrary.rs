//! Generators of domain values, for this crate's properties.

mod commands;
mod entities;
mod outcomes;
mod rows;

use bytes::Bytes;
use domain::*;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;

pub use self::commands::*;
pub use self::entities::*;
pub use self::outcomes::*;
pub use self::rows::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,12}", "\\PC{0,6}"]
}

fn words() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["locked", "queue size", "1 to 5", ""])
}

fn at() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        (1_700_000_000_000u64..1_900_000_000_000).prop_map(Timestamp),
        any::<u64>().prop_map(Timestamp),
        Just(Timestamp::NEVER)
    ]
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![(0..100_000u64).prop_map(Span), any::<u64>().prop_map(Span), Just(Span::MAX)]
}

fn number() -> impl Strategy<Value = SequenceNumber> {
    prop_oneof![0..1000u64, any::<u64>()].prop_map(SequenceNumber)
}

fn entity() -> impl Strategy<Value = EntityId> {
    prop_oneof![0..1000u64, any::<u64>()].prop_map(EntityId)
}

fn queue() -> impl Strategy<Value = QueueId> {
    (entity(), prop::sample::select(&SubQueue::ALL[..]))
        .prop_map(|(entity, sub)| QueueId { entity, sub })
}

fn kind() -> impl Strategy<Value = DeadlineKind> {
    prop::sample::select(&DeadlineKind::ALL[..])
}

fn token() -> impl Strategy<Value = LockToken> {
    (number(), any::<u64>()).prop_map(|(sequence, nonce)| LockToken { sequence, nonce })
}

pub fn session() -> impl Strategy<Value = SessionId> {
    text().prop_map(SessionId::from)
}

fn session_token() -> impl Strategy<Value = SessionToken> {
    (session(), any::<u64>()).prop_map(|(session, nonce)| SessionToken { session, nonce })
}

fn receiver() -> impl Strategy<Value = ReceiverId> {
    any::<(u64, u64, u32)>().prop_map(|(node, link, epoch)| ReceiverId { node, link, epoch })
}

fn origin() -> impl Strategy<Value = Option<Origin>> {
    of(any::<(u64, u64, bool, bool)>().prop_map(|(producer, serial, ordered, retry)| Origin {
        producer,
        serial,
        ordered,
        retry,
    }))
}

fn content() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..64).prop_map(Bytes::from)
}

/// Floats without NaN, which equals nothing.
pub fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Byte),
        any::<i8>().prop_map(Value::SByte),
        any::<i16>().prop_map(Value::Short),
        any::<u16>().prop_map(Value::UShort),
        any::<i32>().prop_map(Value::Int),
        any::<u32>().prop_map(Value::UInt),
        any::<i64>().prop_map(Value::Long),
        any::<u64>().prop_map(Value::ULong),
        any::<f32>().prop_map(Value::Float),
        any::<f64>().prop_map(Value::Double),
        any::<[u8; 16]>().prop_map(Value::Decimal),
        any::<char>().prop_map(Value::Char),
        text().prop_map(Value::String),
        text().prop_map(Value::Uri),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        any::<i64>().prop_map(Value::DateTime),
        any::<i64>().prop_map(Value::DateTimeOffset),
        any::<i64>().prop_map(Value::TimeSpan),
        vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
    ]
}

fn properties() -> impl Strategy<Value = Properties> {
    btree_map(text(), value(), 0..4)
}

fn overlay() -> impl Strategy<Value = Option<Box<Overlay>>> {
    let texts = btree_map(system_property(), of(text()), 0..3);
    of((properties(), vec(text(), 0..3), texts, of(at())).prop_map(
        |(set, removed, texts, scheduled_at)| {
            Box::new(Overlay { set, removed, texts, scheduled_at })
        },
    ))
}

fn system_property() -> impl Strategy<Value = SystemProperty> {
    prop::sample::select(SystemProperty::all().collect::<Vec<_>>())
}
