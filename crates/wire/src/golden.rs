//! The formats, byte for byte. These lines are not to be changed: data written by released versions
//! reads like this. A new variant or format adds a line.

mod commands;
mod descriptions;
mod outcomes;
mod rows;
mod sessions;

use bytes::Bytes;
use domain::*;

use crate::{Codec, content, encode_entry, encode_row, v1};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const ENTITY: EntityId = EntityId(300);

const QUEUE: QueueId = QueueId { entity: ENTITY, sub: SubQueue::DeadLetter };

const NUMBER: SequenceNumber = SequenceNumber(77);

const TOKEN: LockToken = LockToken { sequence: NUMBER, nonce: 0x0102_0304_0506_0708 };

const RECEIVER: ReceiverId = ReceiverId { node: 2, link: 500, epoch: 3 };

const ORIGIN: Option<Origin> =
    Some(Origin { producer: 0xfeed, serial: 9, ordered: true, retry: false });

const AT: Timestamp = Timestamp(1_700_000_000_000);

fn properties() -> Properties {
    [("a".to_string(), Value::Int(-2)), ("b".to_string(), Value::String("x".into()))].into()
}

fn correlation() -> RuleFilter {
    let system = [(SystemProperty::CorrelationId, "x".to_string())].into();
    RuleFilter::Correlation(Conditions {
        system,
        properties: properties(),
        ..Conditions::default()
    })
}

/// The same, of which one value says how it was written.
fn written_correlation() -> RuleFilter {
    let RuleFilter::Correlation(conditions) = correlation() else { panic!("conditions") };
    let value = WrittenValue { kind: "long".into(), text: "-2".into() };
    let written = [("a".to_string(), value)].into();
    RuleFilter::Correlation(Conditions { written, ..conditions })
}

fn rule(filter: RuleFilter) -> NewRule {
    let action = SqlText { text: "REMOVE a".into(), ..SqlText::default() };
    NewRule { name: "Red".into(), filter, action: Some(action) }
}

fn authorization_rules() -> Vec<AuthorizationRule> {
    vec![AuthorizationRule {
        name: "k".into(),
        rights: AccessRights { listen: true, send: false, manage: true },
        primary_key: "p".into(),
        secondary_key: "s".into(),
        created_at: AT,
        modified_at: Timestamp(7),
    }]
}

fn namespace() -> NamespaceRow {
    NamespaceRow {
        name: "orders".into(),
        request: 300,
        created_at: AT,
        modified_at: Timestamp(7),
        authorization_rules: authorization_rules(),
        state: NamespaceState::Ready,
        profile: Profile::SelfHosted,
        next_profile: None,
    }
}

fn document() -> DocumentRow {
    let (name, text) = ("tags".into(), DocumentText("{}".into()));
    DocumentRow { name, text, created_at: AT, modified_at: Timestamp(7) }
}

fn kept(NewRule { name, filter, action }: NewRule) -> RuleRow {
    RuleRow { name, filter, action, created_at: AT, order: 3 }
}

fn refused() -> Vec<Refused> {
    let (reason, description) = ("r".into(), "d".into());
    vec![Refused { first: 1, count: 2, reason, description }]
}

fn command(command: Command) -> String {
    hex(&command.encode())
}

#[test]
fn an_entry() {
    let entry = Entry { at: AT, seed: [9; 16], commands: vec![Command::Sweep] };
    assert_eq!(hex(&encode_entry(&entry)), "0180d095ffbc3109090909090909090909090909090909010d");
}

#[test]
fn property_values() {
    for (value, expected) in [
        (Value::Null, "00"),
        (Value::Bool(true), "0101"),
        (Value::Byte(200), "02c8"),
        (Value::SByte(-1), "0301"),
        (Value::Short(-2), "0403"),
        (Value::UShort(300), "05ac02"),
        (Value::Int(-3), "0605"),
        (Value::UInt(300), "07ac02"),
        (Value::Long(i64::MIN), "08ffffffffffffffffff01"),
        (Value::ULong(u64::MAX), "09ffffffffffffffffff01"),
        (Value::Float(1.5), "0a3fc00000"),
        (Value::Double(-1.5), "0bbff8000000000000"),
        (Value::Decimal([1; 16]), "0c01010101010101010101010101010101"),
        (Value::Char('é'), "0de901"),
        (Value::String("é".into()), "0e02c3a9"),
        (Value::Uri("urn:x".into()), "0f0575726e3a78"),
        (Value::Uuid([2; 16]), "1002020202020202020202020202020202"),
        (Value::DateTime(-1), "1101"),
        (Value::DateTimeOffset(1), "1202"),
        (Value::TimeSpan(64), "138001"),
        (Value::Bytes(vec![1, 2]), "14020102"),
    ] {
        assert_eq!(hex(&value.encode()), expected, "{value:?}");
    }
}

#[test]
fn a_content() {
    let message = v1::Message {
        body: Bytes::from_static(b"body"),
        message_id: Some("id".into()),
        ttl_ms: Some(1000),
        properties: [("a".to_string(), crate::native::value_to_v1(&Value::Int(-2)))].into(),
        ..Default::default()
    };
    assert_eq!(hex(&content::encode(&message)), "010a04626f64791202696458e8076a070a016112021803");
}
