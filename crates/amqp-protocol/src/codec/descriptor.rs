//! Descriptors of the standard's composite types and message sections.

pub const OPEN: u64 = 0x10;
pub const BEGIN: u64 = 0x11;
pub const ATTACH: u64 = 0x12;
pub const FLOW: u64 = 0x13;
pub const TRANSFER: u64 = 0x14;
pub const DISPOSITION: u64 = 0x15;
pub const DETACH: u64 = 0x16;
pub const END: u64 = 0x17;
pub const CLOSE: u64 = 0x18;
pub const ERROR: u64 = 0x1d;
pub const RECEIVED: u64 = 0x23;
pub const ACCEPTED: u64 = 0x24;
pub const REJECTED: u64 = 0x25;
pub const RELEASED: u64 = 0x26;
pub const MODIFIED: u64 = 0x27;
pub const SOURCE: u64 = 0x28;
pub const TARGET: u64 = 0x29;
pub const COORDINATOR: u64 = 0x30;
pub const DECLARE: u64 = 0x31;
pub const DISCHARGE: u64 = 0x32;
pub const DECLARED: u64 = 0x33;
pub const TRANSACTIONAL_STATE: u64 = 0x34;
pub const SASL_MECHANISMS: u64 = 0x40;
pub const SASL_INIT: u64 = 0x41;
pub const SASL_CHALLENGE: u64 = 0x42;
pub const SASL_RESPONSE: u64 = 0x43;
pub const SASL_OUTCOME: u64 = 0x44;
pub const HEADER: u64 = 0x70;
pub const DELIVERY_ANNOTATIONS: u64 = 0x71;
pub const MESSAGE_ANNOTATIONS: u64 = 0x72;
pub const PROPERTIES: u64 = 0x73;
pub const APPLICATION_PROPERTIES: u64 = 0x74;
pub const DATA: u64 = 0x75;
pub const AMQP_SEQUENCE: u64 = 0x76;
pub const AMQP_VALUE: u64 = 0x77;
pub const FOOTER: u64 = 0x78;

/// Symbolic forms are rare, allowed, and never sent from here (CONN-5, CONN-6).
const NAMES: &[(&str, u64)] = &[
    ("amqp:open:list", OPEN),
    ("amqp:begin:list", BEGIN),
    ("amqp:attach:list", ATTACH),
    ("amqp:flow:list", FLOW),
    ("amqp:transfer:list", TRANSFER),
    ("amqp:disposition:list", DISPOSITION),
    ("amqp:detach:list", DETACH),
    ("amqp:end:list", END),
    ("amqp:close:list", CLOSE),
    ("amqp:error:list", ERROR),
    ("amqp:received:list", RECEIVED),
    ("amqp:accepted:list", ACCEPTED),
    ("amqp:rejected:list", REJECTED),
    ("amqp:released:list", RELEASED),
    ("amqp:modified:list", MODIFIED),
    ("amqp:source:list", SOURCE),
    ("amqp:target:list", TARGET),
    ("amqp:coordinator:list", COORDINATOR),
    ("amqp:declare:list", DECLARE),
    ("amqp:discharge:list", DISCHARGE),
    ("amqp:declared:list", DECLARED),
    ("amqp:transactional-state:list", TRANSACTIONAL_STATE),
    ("amqp:sasl-mechanisms:list", SASL_MECHANISMS),
    ("amqp:sasl-init:list", SASL_INIT),
    ("amqp:sasl-challenge:list", SASL_CHALLENGE),
    ("amqp:sasl-response:list", SASL_RESPONSE),
    ("amqp:sasl-outcome:list", SASL_OUTCOME),
    ("amqp:header:list", HEADER),
    ("amqp:delivery-annotations:map", DELIVERY_ANNOTATIONS),
    ("amqp:message-annotations:map", MESSAGE_ANNOTATIONS),
    ("amqp:properties:list", PROPERTIES),
    ("amqp:application-properties:map", APPLICATION_PROPERTIES),
    ("amqp:data:binary", DATA),
    ("amqp:amqp-sequence:list", AMQP_SEQUENCE),
    ("amqp:amqp-value:*", AMQP_VALUE),
    ("amqp:footer:map", FOOTER),
];

pub(crate) fn by_name(name: &[u8]) -> Option<u64> {
    NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, code)| *code)
}
