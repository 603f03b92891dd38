//! User properties of a message (MSG-4).

use std::collections::BTreeMap;

/// An application's property value (MSG-4). Floats compare by their bits, so that a row's equality
/// is a plain question.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Byte(u8),
    SByte(i8),
    Short(i16),
    UShort(u16),
    Int(i32),
    UInt(u32),
    Long(i64),
    ULong(u64),
    Float(f32),
    Double(f64),
    /// A decimal, as its 16 IEEE 754 bytes: carried, never computed with.
    Decimal([u8; 16]),
    Char(char),
    String(String),
    Uri(String),
    Uuid([u8; 16]),
    /// Milliseconds since the Unix epoch.
    DateTime(i64),
    /// 100 ns ticks, as .NET writes a date-time-offset.
    DateTimeOffset(i64),
    /// 100 ns ticks.
    TimeSpan(i64),
    Bytes(Vec<u8>),
}

impl Value {
    /// The bytes this value counts for against the property limits (MSG-7).
    pub fn size_bytes(&self) -> usize {
        match self {
            Value::Null | Value::Bool(_) | Value::Byte(_) | Value::SByte(_) => 1,
            Value::Short(_) | Value::UShort(_) => 2,
            Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Char(_) => 4,
            Value::Long(_)
            | Value::ULong(_)
            | Value::Double(_)
            | Value::DateTime(_)
            | Value::DateTimeOffset(_)
            | Value::TimeSpan(_) => 8,
            Value::Decimal(_) | Value::Uuid(_) => 16,
            Value::String(text) | Value::Uri(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
        }
    }
}

/// User properties by name. Ordered, because iteration order is behaviour.
pub type Properties = BTreeMap<String, Value>;

/// The bytes a set of properties counts for: names and values (MSG-7).
pub fn properties_bytes(properties: &Properties) -> usize {
    properties.iter().map(|(name, value)| name.len() + value.size_bytes()).sum()
}

/// DLQ-8: the names under which a dead-lettered message carries why it is there.
pub const DEAD_LETTER_REASON: &str = "DeadLetterReason";
/// See [`DEAD_LETTER_REASON`].
pub const DEAD_LETTER_ERROR_DESCRIPTION: &str = "DeadLetterErrorDescription";
