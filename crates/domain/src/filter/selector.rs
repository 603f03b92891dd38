//! Message selectors of JMS (Jakarta Messaging 3.1 and JMS 2.0, 3.8.1): what a receiver asks for that
//! wants some of a queue's messages only (SEL). The grammar is near to that of rules and is not it: names
//! have a case, values of different types are no error and never converted, and `+` joins no texts.

mod lexer;
mod parser;

use std::cmp::Ordering;

use thiserror::Error;

use super::ast::{Comparison, Operator};
use super::like::Pattern;
use super::number::Number;
use crate::{MatchCost, Value};

/// SEL-1. More is no selector that a person writes, or a program that means well.
pub const SELECTOR_CHARS_MAX: usize = 16 * 1024;

/// A selector, read once.
#[derive(Clone, Debug)]
pub struct Selector(Condition);

/// Why a text is no selector (SEL-1), in one line. Columns count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    #[error("column {column}: expected {expected}, found {found}")]
    Syntax { column: usize, expected: &'static str, found: String },
    #[error("column {column}: nested more than {max} deep; use fewer parentheses, NOTs or signs")]
    TooDeep { column: usize, max: u32 },
    #[error("it has {chars} characters, the limit is {max}")]
    TooLong { chars: usize, max: usize },
}

/// What is true, false or unknown (SEL-3). No deeper than the parser allows, so code may walk it
/// recursively.
#[derive(Clone, Debug)]
enum Condition {
    Constant(bool),
    /// A name that stands alone.
    Flag(String),
    Compare(Computation, Comparison, Computation),
    /// The bounds belong to it.
    Between {
        value: Computation,
        low: Computation,
        high: Computation,
        negated: bool,
    },
    In {
        name: String,
        texts: Vec<String>,
        negated: bool,
    },
    Like {
        name: String,
        pattern: Pattern,
        negated: bool,
    },
    IsNull {
        name: String,
        negated: bool,
    },
    Not(Box<Condition>),
    /// Two or more.
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

/// What has a value.
#[derive(Clone, Debug)]
enum Computation {
    Constant(Value),
    Name(String),
    Negate(Box<Computation>),
    /// One or more operators of equal precedence, applied from the left.
    Arithmetic(Box<Computation>, Vec<(Operator, Computation)>),
}

/// Where a selector's names get their values: properties and headers of one message.
pub type Lookup<'a> = dyn Fn(&str) -> Option<Value> + 'a;

impl Selector {
    /// SEL-1.
    pub fn new(text: &str) -> Result<Selector, SelectorError> {
        parser::selector(text).map(Selector)
    }

    /// SEL-3: only what is true selects a message.
    pub fn matches(&self, lookup: &Lookup<'_>) -> bool {
        self.0.truth(lookup) == Some(true)
    }
}

impl Condition {
    fn truth(&self, lookup: &Lookup<'_>) -> Option<bool> {
        match self {
            Condition::Constant(truth) => Some(*truth),
            Condition::Flag(name) => match value(lookup, name)? {
                Value::Bool(truth) => Some(truth),
                _ => Some(false),
            },
            Condition::Compare(left, comparison, right) => {
                compared(&left.value(lookup)?, *comparison, &right.value(lookup)?)
            }
            Condition::Between { value, low, high, negated } => {
                let value = value.value(lookup);
                let (low, high) = (low.value(lookup), high.value(lookup));
                let holds = |comparison, bound: Option<Value>| {
                    compared(value.as_ref()?, comparison, &bound?)
                };
                match negated {
                    false => and([
                        holds(Comparison::GreaterOrEqual, low),
                        holds(Comparison::LessOrEqual, high),
                    ]),
                    true => or([holds(Comparison::Less, low), holds(Comparison::Greater, high)]),
                }
            }
            Condition::In { name, texts, negated } => {
                let found = match value(lookup, name)? {
                    Value::String(text) => texts.contains(&text),
                    _ => false,
                };
                Some(found != *negated)
            }
            Condition::Like { name, pattern, negated } => {
                let found = match value(lookup, name)? {
                    Value::String(text) => pattern.matches(&text, &mut MatchCost::default()),
                    _ => false,
                };
                Some(found != *negated)
            }
            Condition::IsNull { name, negated } => Some(value(lookup, name).is_none() != *negated),
            Condition::Not(condition) => condition.truth(lookup).map(|truth| !truth),
            Condition::And(parts) => and(parts.iter().map(|part| part.truth(lookup))),
            Condition::Or(parts) => or(parts.iter().map(|part| part.truth(lookup))),
        }
    }
}

impl Computation {
    /// `None` is null: unknown, or a result that there is not.
    fn value(&self, lookup: &Lookup<'_>) -> Option<Value> {
        match self {
            Computation::Constant(value) => Some(value.clone()),
            Computation::Name(name) => value(lookup, name),
            Computation::Negate(operand) => Number::of(&operand.value(lookup)?)?.negate().ok(),
            Computation::Arithmetic(first, rest) => {
                let mut result = first.value(lookup)?;
                for (operator, operand) in rest {
                    let (left, right) =
                        (Number::of(&result)?, Number::of(&operand.value(lookup)?)?);
                    result = left.compute(*operator, right).ok()?;
                }
                Some(result)
            }
        }
    }
}

/// A property that is null is as if it were not there.
fn value(lookup: &Lookup<'_>, name: &str) -> Option<Value> {
    lookup(name).filter(|value| *value != Value::Null)
}

/// SEL-3: false where the types do not compare, or not in this way.
fn compared(left: &Value, comparison: Comparison, right: &Value) -> Option<bool> {
    if let (Some(left), Some(right)) = (Number::of(left), Number::of(right)) {
        let order = left.order(right);
        return Some(match comparison {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::NotEqual => order != Some(Ordering::Equal),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        });
    }
    let equal = match (left, right) {
        (Value::String(left), Value::String(right)) => left == right,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        _ => return Some(false),
    };
    Some(match comparison {
        Comparison::Equal => equal,
        Comparison::NotEqual => !equal,
        Comparison::Greater
        | Comparison::GreaterOrEqual
        | Comparison::Less
        | Comparison::LessOrEqual => false,
    })
}

fn and(parts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for part in parts {
        match part {
            Some(false) => return Some(false),
            Some(true) => {}
            None => all = None,
        }
    }
    all
}

fn or(parts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let mut any = Some(false);
    for part in parts {
        match part {
            Some(true) => return Some(true),
            Some(false) => {}
            None => any = None,
        }
    }
    any
}

#[cfg(test)]
mod tests;
