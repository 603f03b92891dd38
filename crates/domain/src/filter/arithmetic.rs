//! `+ - * / %` over all types (RULE-36).

use super::ast::{Operator, Sign};
use super::operand::{Operand, OperandView};
use super::text::{EPOCH_TICKS, TICKS_PER_MS, describe, to_text};
use crate::{PROPERTY_BYTES_MAX, Value};

/// Unknown where a side is unknown or null (RULE-34); an error where types do not compute.
pub(super) fn compute(
    a: &Operand<'_>,
    operator: Operator,
    b: &Operand<'_>,
) -> Result<Operand<'static>, String> {
    let (Some(left), Some(right)) = (a.view(), b.view()) else { return Ok(Operand::Unknown) };
    let result = match (left, right) {
        (OperandView::Number(a), OperandView::Number(b)) => a.compute(operator, b),
        (OperandView::Text(_), _) | (_, OperandView::Text(_)) if operator == Operator::Add => {
            joined(a, b)
        }
        (a, b) => time(&a, operator, &b),
    };
    result.map(Operand::owned).map_err(|why| {
        let (a, b) = (described(a), described(b));
        format!("{a} {} {b} {why}", operator.symbol())
    })
}

/// A sign before a value.
pub(super) fn signed(sign: Sign, operand: Operand<'_>) -> Result<Operand<'_>, String> {
    let result = match (sign, operand.view()) {
        (_, None) => return Ok(Operand::Unknown),
        (Sign::Plus, Some(OperandView::Number(_) | OperandView::Span(_))) => return Ok(operand),
        (Sign::Minus, Some(OperandView::Number(number))) => number.negate(),
        (Sign::Minus, Some(OperandView::Span(ticks))) => span(-i128::from(ticks)),
        (_, Some(_)) => Err("is no number"),
    };
    result.map(Operand::owned).map_err(|why| {
        let symbol = if sign == Sign::Minus { '-' } else { '+' };
        format!("{symbol}{} {why}", described(&operand))
    })
}

pub(super) fn described(operand: &Operand<'_>) -> String {
    describe(&operand.clone().into_value())
}

/// A text may grow to what a property may hold, and no further: each `+` could double it.
fn joined(a: &Operand<'_>, b: &Operand<'_>) -> Result<Value, &'static str> {
    let text = |operand: &Operand<'_>| match operand {
        Operand::Text(text) => Some((*text).to_owned()),
        Operand::Value(value) => to_text(value),
        Operand::Unknown => None,
    };
    let (Some(a), Some(b)) = (text(a), text(b)) else { return Err(MISMATCH) };
    match a.len() + b.len() > PROPERTY_BYTES_MAX {
        true => Err("is longer than a property may be"),
        false => Ok(Value::String(a + &b)),
    }
}

const MISMATCH: &str = "cannot be computed: the types do not fit";

/// Instants and spans.
fn time(
    a: &OperandView<'_>,
    operator: Operator,
    b: &OperandView<'_>,
) -> Result<Value, &'static str> {
    let sign = match operator {
        Operator::Add => 1,
        Operator::Subtract => -1,
        Operator::Multiply | Operator::Divide | Operator::Remainder => return Err(MISMATCH),
    };
    match (a, b) {
        (OperandView::Span(a), OperandView::Span(b)) => {
            span(i128::from(*a) + sign * i128::from(*b))
        }
        (OperandView::DateTime(_), OperandView::Span(span)) => {
            let ticks = a.ticks().ok_or(MISMATCH)? + sign * i128::from(*span) - EPOCH_TICKS;
            let ms = i64::try_from(ticks.div_euclid(TICKS_PER_MS)).map_err(|_| "overflows")?;
            Ok(Value::DateTime(ms))
        }
        (OperandView::Offset(ticks), OperandView::Span(span)) => {
            let ticks = i128::from(*ticks) + sign * i128::from(*span);
            i64::try_from(ticks).map(Value::DateTimeOffset).map_err(|_| "overflows")
        }
        _ => match (a.ticks(), b.ticks()) {
            (Some(a), Some(b)) if sign < 0 => span(a - b),
            _ => Err(MISMATCH),
        },
    }
}

fn span(ticks: i128) -> Result<Value, &'static str> {
    i64::try_from(ticks).map(Value::TimeSpan).map_err(|_| "overflows")
}
