//! Numbers of all types: exact comparison, C#'s promotions (RULE-36).

use std::cmp::Ordering;

use super::ast::Operator;
use super::decimal::{DIVIDES_BY_ZERO, Decimal, OVERFLOWS};
use crate::Value;

#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Integer(i128, Width),
    Double(f64),
    Decimal(Decimal),
}

/// What an integer's result is at least: C# computes in nothing narrower than 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Width {
    Int,
    Long,
    ULong,
}

impl Number {
    pub fn of(value: &Value) -> Option<Number> {
        let integer = |value: i64, width| Some(Number::Integer(value.into(), width));
        match value {
            Value::Byte(value) => integer((*value).into(), Width::Int),
            Value::SByte(value) => integer((*value).into(), Width::Int),
            Value::Short(value) => integer((*value).into(), Width::Int),
            Value::UShort(value) => integer((*value).into(), Width::Int),
            Value::Int(value) => integer((*value).into(), Width::Int),
            Value::UInt(value) => integer((*value).into(), Width::Long),
            Value::Long(value) => integer(*value, Width::Long),
            Value::ULong(value) => Some(Number::Integer((*value).into(), Width::ULong)),
            Value::Float(value) => Some(Number::Double((*value).into())),
            Value::Double(value) => Some(Number::Double(*value)),
            Value::Decimal(bytes) => Some(match Decimal::from_bytes(bytes) {
                Some(decimal) => Number::Decimal(decimal),
                None => Number::Double(f64::NAN),
            }),
            Value::Null
            | Value::Bool(_)
            | Value::Char(_)
            | Value::String(_)
            | Value::Uri(_)
            | Value::Uuid(_)
            | Value::DateTime(_)
            | Value::DateTimeOffset(_)
            | Value::TimeSpan(_)
            | Value::Bytes(_) => None,
        }
    }

    /// Nothing where one is no number (NaN). Integers compare exactly with each other, doubles and
    /// decimals; a decimal meets a double as the nearest double, so that 0.1 is 0.1.
    pub fn order(self, other: Number) -> Option<Ordering> {
        use Number::{Decimal as Dec, Double, Integer};
        match (self, other) {
            (Integer(a, _), Integer(b, _)) => Some(a.cmp(&b)),
            (Integer(a, _), Double(b)) => integer_to_double(a, b),
            (Double(a), Integer(b, _)) => integer_to_double(b, a).map(Ordering::reverse),
            (Double(a), Double(b)) => a.partial_cmp(&b),
            (Dec(a), Dec(b)) => Some(a.order(b)),
            (Dec(a), Integer(b, _)) => Some(a.order(Decimal::from_integer(b))),
            (Integer(a, _), Dec(b)) => Some(Decimal::from_integer(a).order(b)),
            (Dec(a), Double(b)) => a.to_f64().partial_cmp(&b),
            (Double(a), Dec(b)) => a.partial_cmp(&b.to_f64()),
        }
    }

    /// The nearest double. Equal numbers have equal ones, but for the sign of zero.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Integer(value, _) => value as f64,
            Number::Double(value) => value,
            Number::Decimal(value) => value.to_f64(),
        }
    }

    /// The integer it is, if it is one.
    pub fn to_integer(self) -> Option<i128> {
        match self {
            Number::Integer(value, _) => Some(value),
            Number::Double(value) => {
                // Beyond 2^100 there is no integer type that could take it.
                (value.trunc() == value && value.abs() < 2f64.powi(100)).then_some(value as i128)
            }
            Number::Decimal(value) => value.to_integer(),
        }
    }

    /// RULE-36. The error says what is wrong, to go behind the operation.
    pub fn compute(self, operator: Operator, other: Number) -> Result<Value, &'static str> {
        use Number::{Decimal as Dec, Double, Integer};
        match (self, other) {
            (Integer(a, wide), Integer(b, wider)) => integers(a, operator, b, wide.max(wider)),
            (Integer(a, _), Double(b)) => doubles(a as f64, operator, b),
            (Double(a), Integer(b, _)) => doubles(a, operator, b as f64),
            (Double(a), Double(b)) => doubles(a, operator, b),
            (Dec(a), Dec(b)) => decimals(a, operator, b),
            (Dec(a), Integer(b, _)) => decimals(a, operator, Decimal::from_integer(b)),
            (Integer(a, _), Dec(b)) => decimals(Decimal::from_integer(a), operator, b),
            // As in C#: one would lose digits, the other range.
            (Dec(_), Double(_)) | (Double(_), Dec(_)) => Err("mixes a decimal and a double"),
        }
    }

    pub fn negate(self) -> Result<Value, &'static str> {
        match self {
            Number::Integer(value, width) => integers(0, Operator::Subtract, value, width),
            Number::Double(value) => Ok(Value::Double(-value)),
            Number::Decimal(value) => Ok(Value::Decimal(value.negated().to_bytes())),
        }
    }
}

fn integer_to_double(a: i128, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    // Our integers have 65 bits at most, and 2^100 is a double: beyond it the sign decides.
    if b.abs() >= 2f64.powi(100) {
        return 0.0.partial_cmp(&b);
    }
    Some(a.cmp(&(b.trunc() as i128)).then(0f64.total_cmp(&(b.fract() + 0.0))))
}

fn integers(a: i128, operator: Operator, b: i128, width: Width) -> Result<Value, &'static str> {
    // Neither side has more than 65 bits: of these operations, only those that name zero can fail.
    let result = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a.checked_mul(b).ok_or(OVERFLOWS)?,
        Operator::Divide => a.checked_div(b).ok_or(DIVIDES_BY_ZERO)?,
        Operator::Remainder => a.checked_rem(b).ok_or(DIVIDES_BY_ZERO)?,
    };
    if let (Width::Int, Ok(result)) = (width, i32::try_from(result)) {
        return Ok(Value::Int(result));
    }
    if let (Width::ULong, Ok(result)) = (width, u64::try_from(result)) {
        return Ok(Value::ULong(result));
    }
    i64::try_from(result).map(Value::Long).map_err(|_| OVERFLOWS)
}

fn doubles(a: f64, operator: Operator, b: f64) -> Result<Value, &'static str> {
    let result = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide if b == 0.0 => return Err(DIVIDES_BY_ZERO),
        Operator::Remainder if b == 0.0 => return Err(DIVIDES_BY_ZERO),
        Operator::Divide => a / b,
        Operator::Remainder => a % b,
    };
    match result.is_finite() || !a.is_finite() || !b.is_finite() {
        true => Ok(Value::Double(result)),
        false => Err(OVERFLOWS),
    }
}

fn decimals(a: Decimal, operator: Operator, b: Decimal) -> Result<Value, &'static str> {
    let result = match operator {
        Operator::Add => a.add(b),
        Operator::Subtract => a.add(b.negated()),
        Operator::Multiply => a.multiply(b),
        Operator::Divide => a.divide(b),
        Operator::Remainder => a.remainder(b),
    };
    result.map(|decimal| Value::Decimal(decimal.to_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 0.1 + 0.0 is 0.1: what is added to the fraction only takes the sign off a zero.
    #[test]
    fn rule_36_integers_and_doubles_compare_exactly() {
        let big = 1i128 << 53;
        for (a, b, expected) in [
            (1, 1.0, Some(Ordering::Equal)),
            (0, -0.0, Some(Ordering::Equal)),
            (-1, -1.0, Some(Ordering::Equal)),
            (1, 1.5, Some(Ordering::Less)),
            (-1, -1.5, Some(Ordering::Greater)),
            (0, -0.5, Some(Ordering::Greater)),
            (big + 1, big as f64, Some(Ordering::Greater)),
            (i128::from(i64::MAX), 2f64.powi(63), Some(Ordering::Less)),
            (i128::from(u64::MAX), f64::INFINITY, Some(Ordering::Less)),
            (i128::from(i64::MIN), f64::NEG_INFINITY, Some(Ordering::Greater)),
            (0, f64::NAN, None),
        ] {
            assert_eq!(integer_to_double(a, b), expected, "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn rule_36_equal_numbers_have_equal_nearest_doubles(a in any::<i64>(), b in any::<f64>()) {
            let (a, b) = (Number::Integer(a.into(), Width::Long), Number::Double(b));
            for (a, b) in [(a, b), (a, Number::Double(a.to_f64()))] {
                if a.order(b) == Some(Ordering::Equal) {
                    prop_assert_eq!(a.to_f64(), b.to_f64());
                }
                prop_assert_eq!(a.order(b), b.order(a).map(Ordering::reverse));
            }
        }
    }
}
