//! Runs a program on a message (RULE-33 to RULE-36). Errors are texts; who asks knows what failed.

use std::borrow::Cow;

use super::arithmetic::{compute, described, signed};
use super::ast::Comparison;
use super::like::{PATTERN_CHARS_MAX, Pattern};
use super::operand::{Operand, compare};
use super::program::{Op, Program};
use crate::{MatchCost, Properties, Subject, SystemProperty, SystemValue, Value};

/// Where `newid()` gets its bits: a source that every replica draws from alike.
pub type Draw<'a> = dyn FnMut() -> u64 + 'a;

impl Program {
    /// Whether the condition holds; nothing is unknown.
    pub fn holds(
        &self,
        subject: &dyn Subject,
        draw: &mut Draw<'_>,
        cost: &mut MatchCost,
    ) -> Result<Option<bool>, String> {
        self.run(subject, draw, cost).map(|result| truth(&result))
    }

    pub fn run<'a>(
        &'a self,
        subject: &'a dyn Subject,
        draw: &mut Draw<'_>,
        cost: &mut MatchCost,
    ) -> Result<Operand<'a>, String> {
        let mut stack = Stack { operands: Vec::with_capacity(8), cost };
        let mut next = 0;
        while let Some(op) = self.0.get(next) {
            next += 1;
            stack.cost.operation();
            if let Some(target) = stack.step(op, subject, draw)? {
                next = target;
            }
        }
        Ok(stack.pop())
    }
}

impl Program {
    /// What comes out whatever the message is, of which nothing is asked then. A `newid()` is an
    /// example of what it may be.
    pub fn constant(&self) -> Option<Result<Value, String>> {
        let asks = |op: &Op| matches!(op, Op::User(_) | Op::System(_) | Op::Named);
        if self.0.iter().any(asks) {
            return None;
        }
        match self.run(&NoMessage, &mut || 0, &mut MatchCost::default()) {
            Ok(Operand::Unknown) => None,
            Ok(value) => Some(Ok(value.into_value())),
            Err(why) => Some(Err(why)),
        }
    }
}

/// For what asks nothing of a message.
struct NoMessage;

static NO_PROPERTIES: Properties = Properties::new();

impl Subject for NoMessage {
    fn system(&self, _: SystemProperty) -> Option<SystemValue<'_>> {
        None
    }

    fn properties(&self) -> &Properties {
        &NO_PROPERTIES
    }
}

struct Stack<'a, 'c> {
    operands: Vec<Operand<'a>>,
    /// Of what was done so far.
    cost: &'c mut MatchCost,
}

impl<'a> Stack<'a, '_> {
    fn pop(&mut self) -> Operand<'a> {
        self.operands.pop().expect("every operation finds the operands compiled before it")
    }

    fn push(&mut self, operand: Operand<'a>) {
        self.operands.push(operand);
    }

    fn push_truth(&mut self, truth: Option<bool>) {
        self.push(Operand::truth(truth));
    }

    /// One operation. Returns where to go on, if not at the next.
    fn step(
        &mut self,
        op: &'a Op,
        subject: &'a dyn Subject,
        draw: &mut Draw<'_>,
    ) -> Result<Option<usize>, String> {
        match op {
            Op::Constant(value) => self.push(Operand::borrowed(value)),
            Op::User(name) => {
                self.cost.bytes(name.len());
                self.push(user(subject, name));
            }
            Op::System(property) => self.push(Operand::system(subject.system(*property))),
            Op::NewId => self.push(Operand::owned(new_id(draw))),
            Op::Named => {
                let name = self.pop();
                self.cost.bytes(name.bytes());
                let value = named(&name)?.map_or(Operand::Unknown, |name| name.value(subject));
                self.push(value);
            }
            Op::Sign(sign) => {
                let operand = self.pop();
                self.cost.bytes(operand.bytes());
                self.push(signed(*sign, operand)?);
            }
            Op::Arithmetic(operator) => {
                let (right, left) = (self.pop(), self.pop());
                self.cost.bytes(left.bytes() + right.bytes()); // Joined, or told in an error.
                self.push(compute(&left, *operator, &right)?);
            }
            Op::Compare(comparison) => {
                let (right, left) = (self.pop(), self.pop());
                self.cost.bytes(left.bytes().min(right.bytes()));
                self.push_truth(compared(&left, *comparison, &right));
            }
            Op::IsNull { negated } => {
                let value = self.pop();
                self.push_truth(Some(value.is_nothing() != *negated));
            }
            Op::In { count, negated } => {
                let list = self.operands.split_off(self.operands.len() - count);
                let value = self.pop();
                for other in &list {
                    self.cost.bytes(value.bytes().min(other.bytes()));
                }
                self.push_truth(not(contained(&value, &list), *negated));
            }
            Op::InSet { set, negated } => {
                let value = self.pop();
                let contained = set.contains(&value, self.cost);
                self.push_truth(not(contained, *negated));
            }
            Op::Like { pattern, negated } => {
                let value = self.pop();
                let matched = value.text().map(|text| pattern.matches(&text, self.cost));
                self.push_truth(not(matched, *negated));
            }
            Op::LikeComputed { escape, negated } => {
                let escape = escape.then(|| self.pop());
                let (pattern, value) = (self.pop(), self.pop());
                let matched = like(&value, &pattern, escape.as_ref(), self.cost)?;
                self.push_truth(not(matched, *negated));
            }
            Op::ExistsUser(name) => {
                self.cost.bytes(name.len());
                self.push_truth(Some(subject.property(name).is_some()));
            }
            Op::ExistsSystem(property) => {
                self.push_truth(Some(subject.system(*property).is_some()))
            }
            Op::ExistsNamed => {
                let name = self.pop();
                self.cost.bytes(name.bytes());
                let exists = named(&name)?.map(|name| name.exists(subject));
                self.push_truth(exists);
            }
            Op::Condition => {
                let value = self.pop();
                if !value.is_nothing() && truth(&value).is_none() {
                    self.cost.bytes(value.bytes());
                    return Err(format!("{} is neither true nor false", described(&value)));
                }
                self.push_truth(truth(&value));
            }
            Op::Not => {
                let operand = truth(&self.pop());
                self.push_truth(operand.map(|truth| !truth));
            }
            Op::And => {
                let (right, left) = (truth(&self.pop()), truth(&self.pop()));
                self.push_truth(and(left, right));
            }
            Op::Or => {
                let (right, left) = (truth(&self.pop()), truth(&self.pop()));
                self.push_truth(or(left, right));
            }
            Op::AndThen(end) => {
                return Ok(self
                    .operands
                    .last()
                    .filter(|top| truth(top) == Some(false))
                    .map(|_| *end));
            }
            Op::OrElse(end) => {
                return Ok(self
                    .operands
                    .last()
                    .filter(|top| truth(top) == Some(true))
                    .map(|_| *end));
            }
        }
        Ok(None)
    }
}

/// RULE-34.
fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        (None, _) | (_, None) => None,
    }
}

/// RULE-34.
fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        (None, _) | (_, None) => None,
    }
}

fn not(truth: Option<bool>, negated: bool) -> Option<bool> {
    truth.map(|truth| truth != negated)
}

fn truth(operand: &Operand<'_>) -> Option<bool> {
    match operand {
        Operand::Value(value) => match **value {
            Value::Bool(truth) => Some(truth),
            _ => None,
        },
        Operand::Unknown | Operand::Text(_) => None,
    }
}

fn user<'a>(subject: &'a dyn Subject, name: &str) -> Operand<'a> {
    subject.property(name).map_or(Operand::Unknown, Operand::borrowed)
}

fn compared(left: &Operand<'_>, comparison: Comparison, right: &Operand<'_>) -> Option<bool> {
    compare(&left.view()?, comparison, &right.view()?)
}

/// True if it equals one; unknown if it may, because one is unknown or does not compare [choice,
/// SQL-92: as a row of `=` joined by OR].
fn contained(value: &Operand<'_>, list: &[Operand<'_>]) -> Option<bool> {
    let mut contained = Some(false);
    for other in list {
        contained = or(contained, compared(value, Comparison::Equal, other));
    }
    contained
}

/// RULE-32: the pattern must be a text, the escape one character of it.
fn like(
    value: &Operand<'_>,
    pattern: &Operand<'_>,
    escape: Option<&Operand<'_>>,
    cost: &mut MatchCost,
) -> Result<Option<bool>, String> {
    // A pattern is compiled, which takes more than a look; told in an error, it is looked at as well.
    cost.operations(pattern.bytes().min(4 * PATTERN_CHARS_MAX));
    cost.bytes(pattern.bytes() + escape.map_or(0, Operand::bytes));
    if value.is_nothing() || pattern.is_nothing() || escape.is_some_and(Operand::is_nothing) {
        return Ok(None);
    }
    let Some(text) = pattern.text() else {
        return Err(format!("{} is no pattern for LIKE: it is no text", described(pattern)));
    };
    let escape = match escape {
        None => None,
        Some(escape) => match escape.text().as_deref().map(single) {
            Some(Some(c)) => Some(c),
            Some(None) | None => {
                return Err(format!(
                    "{} is no text of one character to ESCAPE with",
                    described(escape)
                ));
            }
        },
    };
    let Some(compiled) = Pattern::new(&text, escape) else {
        let pattern = described(pattern);
        return Err(format!(
            "{pattern} is longer than the {PATTERN_CHARS_MAX} characters of a pattern"
        ));
    };
    Ok(value.text().map(|text| compiled.matches(&text, cost)))
}

fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// What `property(x)` names.
enum Named<'n> {
    User(Cow<'n, str>),
    System(SystemProperty),
}

/// The text is read as a property is written, scope and all [choice: only so can a name that is no
/// system property come up at run time, as RULE-21 has it].
fn named<'n>(name: &'n Operand<'_>) -> Result<Option<Named<'n>>, String> {
    if name.is_nothing() {
        return Ok(None);
    }
    let Some(text) = name.text() else {
        return Err(format!("{} names no property: it is no text", described(name)));
    };
    match text.split_once('.') {
        Some((scope, rest)) if scope.eq_ignore_ascii_case("sys") => {
            match SystemProperty::named(rest) {
                Some(property) => Ok(Some(Named::System(property))),
                None => Err(format!("{} names no system property", described(name))),
            }
        }
        Some((scope, rest)) if scope.eq_ignore_ascii_case("user") => {
            Ok(Some(Named::User(Cow::Owned(rest.to_owned()))))
        }
        _ => Ok(Some(Named::User(text))),
    }
}

impl Named<'_> {
    fn value<'a>(&self, subject: &'a dyn Subject) -> Operand<'a> {
        match self {
            Named::User(name) => user(subject, name),
            Named::System(property) => Operand::system(subject.system(*property)),
        }
    }

    fn exists(&self, subject: &dyn Subject) -> bool {
        match self {
            Named::User(name) => subject.property(name).is_some(),
            Named::System(property) => subject.system(*property).is_some(),
        }
    }
}

/// RULE-28: a random UUID, version 4.
fn new_id(draw: &mut Draw<'_>) -> Value {
    const VERSION: u128 = 0x4 << 76;
    const VARIANT: u128 = 0b10 << 62;
    const FREE: u128 = !(0xf << 76 | 0b11 << 62);
    let bits = u128::from(draw()) << 64 | u128::from(draw());
    Value::Uuid((bits & FREE | VERSION | VARIANT).to_be_bytes())
}
