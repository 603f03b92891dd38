//! What expressions evaluate to, and how two of them compare (RULE-34, RULE-36, RULE-37).

use std::borrow::Cow;
use std::cmp::Ordering;

use super::ast::Comparison;
use super::number::Number;
use super::text::{EPOCH_TICKS, TICKS_PER_MS};
use crate::{SystemValue, Value};

/// A value under way. Predicates yield `Bool` or `Unknown`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand<'a> {
    /// A property that is missing, and what came of it (RULE-33).
    Unknown,
    Text(&'a str),
    Value(Cow<'a, Value>),
}

impl<'a> Operand<'a> {
    pub fn owned(value: Value) -> Operand<'static> {
        Operand::Value(Cow::Owned(value))
    }

    pub fn borrowed(value: &'a Value) -> Operand<'a> {
        Operand::Value(Cow::Borrowed(value))
    }

    pub fn truth(truth: Option<bool>) -> Operand<'static> {
        match truth {
            Some(truth) => Operand::owned(Value::Bool(truth)),
            None => Operand::Unknown,
        }
    }

    /// A system property that the message does not have is unknown, not an error: its *name* exists.
    pub fn system(value: Option<SystemValue<'a>>) -> Operand<'a> {
        Operand::owned(match value {
            None => return Operand::Unknown,
            Some(SystemValue::Text(text)) => return Operand::Text(text),
            Some(SystemValue::Number(number)) => Value::Long(number),
            Some(SystemValue::Flag(flag)) => Value::Bool(flag),
            Some(SystemValue::Instant(at)) => {
                Value::DateTime(i64::try_from(at.0).unwrap_or(i64::MAX))
            }
            Some(SystemValue::Duration(span)) => Value::TimeSpan(
                i64::try_from(span.0).map_or(i64::MAX, |ms| ms.saturating_mul(10_000)),
            ),
        })
    }

    /// RULE-34 says what unknown does to operators. Null does the same [choice, SQL-92].
    pub fn is_nothing(&self) -> bool {
        match self {
            Operand::Unknown => true,
            Operand::Text(_) => false,
            Operand::Value(value) => **value == Value::Null,
        }
    }

    /// Unknown as null: what a property set to it becomes.
    pub fn into_value(self) -> Value {
        match self {
            Operand::Unknown => Value::Null,
            Operand::Text(text) => Value::String(text.to_owned()),
            Operand::Value(value) => value.into_owned(),
        }
    }

    /// What it is to operators. Nothing for unknown and null.
    pub fn view(&self) -> Option<OperandView<'_>> {
        match self {
            Operand::Unknown => None,
            Operand::Text(text) => Some(OperandView::Text(Cow::Borrowed(text))),
            Operand::Value(value) => OperandView::of(value),
        }
    }

    /// How much there is of it to look at: nothing of what is no larger than a number.
    pub fn bytes(&self) -> usize {
        match self {
            Operand::Unknown => 0,
            Operand::Text(text) => text.len(),
            Operand::Value(value) => match &**value {
                Value::String(text) | Value::Uri(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
                _ => 0,
            },
        }
    }

    /// The text, where it is one.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self.view() {
            Some(OperandView::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// Values as operators see them: types that mix are one.
#[derive(Clone, Debug)]
pub(super) enum OperandView<'a> {
    Bool(bool),
    Number(Number),
    /// Strings, URIs and characters: the language has but one kind of text to compare them with.
    Text(Cow<'a, str>),
    Uuid(&'a [u8; 16]),
    /// Milliseconds since the Unix epoch.
    DateTime(i64),
    /// 100 ns since the year 1.
    Offset(i64),
    Span(i64),
    Bytes(&'a [u8]),
}

impl OperandView<'_> {
    pub fn of(value: &Value) -> Option<OperandView<'_>> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(value) => OperandView::Bool(*value),
            Value::Byte(_)
            | Value::SByte(_)
            | Value::Short(_)
            | Value::UShort(_)
            | Value::Int(_)
            | Value::UInt(_)
            | Value::Long(_)
            | Value::ULong(_)
            | Value::Float(_)
            | Value::Double(_)
            | Value::Decimal(_) => OperandView::Number(Number::of(value)?),
            Value::Char(value) => OperandView::Text(Cow::Owned(value.to_string())),
            Value::String(text) | Value::Uri(text) => OperandView::Text(Cow::Borrowed(text)),
            Value::Uuid(value) => OperandView::Uuid(value),
            Value::DateTime(ms) => OperandView::DateTime(*ms),
            Value::DateTimeOffset(ticks) => OperandView::Offset(*ticks),
            Value::TimeSpan(ticks) => OperandView::Span(*ticks),
            Value::Bytes(bytes) => OperandView::Bytes(bytes),
        })
    }

    /// A bit of its own for each kind of value: those of one kind compare, others do not (RULE-36).
    pub fn kind(&self) -> u8 {
        match self {
            OperandView::Bool(_) => 1,
            OperandView::Number(_) => 1 << 1,
            OperandView::Text(_) => 1 << 2,
            OperandView::Uuid(_) => 1 << 3,
            OperandView::DateTime(_) | OperandView::Offset(_) => 1 << 4,
            OperandView::Span(_) => 1 << 5,
            OperandView::Bytes(_) => 1 << 6,
        }
    }

    /// An instant in ticks since the year 1.
    pub fn ticks(&self) -> Option<i128> {
        match self {
            OperandView::DateTime(ms) => Some(i128::from(*ms) * TICKS_PER_MS + EPOCH_TICKS),
            OperandView::Offset(ticks) => Some(i128::from(*ticks)),
            OperandView::Bool(_)
            | OperandView::Number(_)
            | OperandView::Text(_)
            | OperandView::Uuid(_)
            | OperandView::Span(_)
            | OperandView::Bytes(_) => None,
        }
    }
}

/// How two values stand to each other.
enum Relation {
    /// Nothing: one is not a number.
    Ordered(Option<Ordering>),
    /// Of a type that knows no less and no more.
    Equality(bool),
}

/// RULE-36: nothing (unknown) for types that do not compare.
pub(super) fn compare(
    a: &OperandView<'_>,
    comparison: Comparison,
    b: &OperandView<'_>,
) -> Option<bool> {
    let relation = match (a, b) {
        (OperandView::Number(a), OperandView::Number(b)) => Relation::Ordered(a.order(*b)),
        // RULE-37. In order of code points.
        (OperandView::Text(a), OperandView::Text(b)) => Relation::Ordered(Some(a.cmp(b))),
        (OperandView::Span(a), OperandView::Span(b)) => Relation::Ordered(Some(a.cmp(b))),
        (OperandView::Bool(a), OperandView::Bool(b)) => Relation::Equality(a == b),
        (OperandView::Uuid(a), OperandView::Uuid(b)) => Relation::Equality(a == b),
        (OperandView::Bytes(a), OperandView::Bytes(b)) => Relation::Equality(a == b),
        (
            OperandView::DateTime(_) | OperandView::Offset(_),
            OperandView::DateTime(_) | OperandView::Offset(_),
        ) => Relation::Ordered(Some(a.ticks()?.cmp(&b.ticks()?))),
        _ => return None,
    };
    match (comparison, relation) {
        (Comparison::Equal, Relation::Equality(equal)) => Some(equal),
        (Comparison::NotEqual, Relation::Equality(equal)) => Some(!equal),
        (_, Relation::Equality(_)) => None,
        (Comparison::Equal, Relation::Ordered(order)) => Some(order.is_some_and(Ordering::is_eq)),
        (Comparison::NotEqual, Relation::Ordered(order)) => {
            Some(!order.is_some_and(Ordering::is_eq))
        }
        (Comparison::Greater, Relation::Ordered(order)) => Some(order.is_some_and(Ordering::is_gt)),
        (Comparison::GreaterOrEqual, Relation::Ordered(order)) => {
            Some(order.is_some_and(Ordering::is_ge))
        }
        (Comparison::Less, Relation::Ordered(order)) => Some(order.is_some_and(Ordering::is_lt)),
        (Comparison::LessOrEqual, Relation::Ordered(order)) => {
            Some(order.is_some_and(Ordering::is_le))
        }
    }
}

/// Whether two values are equal; false where that is unknown.
pub(super) fn equal(a: &Value, b: &Operand<'_>) -> bool {
    match (OperandView::of(a), b.view()) {
        (Some(a), Some(b)) => compare(&a, Comparison::Equal, &b) == Some(true),
        _ => false,
    }
}
