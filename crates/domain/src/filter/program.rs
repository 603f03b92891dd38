//! A tree compiled to a flat row of operations on a stack, operands first. AND and OR leap over what
//! can no longer matter.

use super::ast::{Comparison, Expr, Operator, Property, Sign};
use super::like::Pattern;
use super::parameters::Parameters;
use super::value_set::ValueSet;
use crate::{SystemProperty, Value};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program(pub(super) Vec<Op>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Op {
    Constant(Value),
    User(String),
    System(SystemProperty),
    NewId,
    /// Takes a name, leaves the property's value.
    Named,
    Sign(Sign),
    Arithmetic(Operator),
    Compare(Comparison),
    IsNull {
        negated: bool,
    },
    /// Takes so many values, and before them the one to look for.
    In {
        count: usize,
        negated: bool,
    },
    /// Takes the value to look for: the list is known beforehand.
    InSet {
        set: ValueSet,
        negated: bool,
    },
    /// The pattern is known beforehand.
    Like {
        pattern: Pattern,
        negated: bool,
    },
    /// Takes value, pattern and, if there is one, the escape character.
    LikeComputed {
        escape: bool,
        negated: bool,
    },
    ExistsUser(String),
    ExistsSystem(SystemProperty),
    ExistsNamed,
    /// Takes a bare value that must be true, false or unknown (RULE-25).
    Condition,
    Not,
    And,
    Or,
    /// Leaps to this operation if the top is false, and leaves it.
    AndThen(usize),
    /// Leaps to this operation if the top is true, and leaves it.
    OrElse(usize),
}

impl Program {
    /// Of a filter, or of a part of one.
    pub fn of_condition(expr: &Expr, parameters: &Parameters) -> Program {
        let mut compiler = Compiler { ops: Vec::new(), parameters };
        compiler.condition(expr);
        Program(compiler.ops)
    }

    /// Of the value that SET gives.
    pub fn of_value(expr: &Expr, parameters: &Parameters) -> Program {
        let mut compiler = Compiler { ops: Vec::new(), parameters };
        compiler.expr(expr);
        Program(compiler.ops)
    }
}

struct Compiler<'a> {
    ops: Vec<Op>,
    parameters: &'a Parameters,
}

impl Compiler<'_> {
    fn condition(&mut self, expr: &Expr) {
        self.expr(expr);
        if !expr.is_predicate() {
            self.ops.push(Op::Condition);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        let op = match expr {
            Expr::Constant(value) => Op::Constant(value.clone()),
            Expr::Parameter(name) => Op::Constant(self.parameter(name)),
            Expr::Property(Property::User(name)) => Op::User(name.clone()),
            Expr::Property(Property::System(property)) => Op::System(*property),
            Expr::NewId => Op::NewId,
            Expr::Named(name) => self.after(name, Op::Named),
            Expr::Sign(sign, operand) => self.after(operand, Op::Sign(*sign)),
            Expr::Arithmetic(first, rest) => {
                self.expr(first);
                for (operator, operand) in rest {
                    self.expr(operand);
                    self.ops.push(Op::Arithmetic(*operator));
                }
                return;
            }
            Expr::Compare(left, comparison, right) => {
                self.expr(left);
                self.after(right, Op::Compare(*comparison))
            }
            Expr::IsNull { value, negated } => self.after(value, Op::IsNull { negated: *negated }),
            Expr::In { value, list, negated } => {
                self.expr(value);
                let known: Option<Vec<Value>> =
                    list.iter().map(|value| self.known(value)).collect();
                match known {
                    Some(known) => Op::InSet { set: ValueSet::new(known), negated: *negated },
                    None => {
                        list.iter().for_each(|value| self.expr(value));
                        Op::In { count: list.len(), negated: *negated }
                    }
                }
            }
            Expr::Like { value, pattern, escape, negated } => {
                self.expr(value);
                self.like(pattern, escape.as_deref(), *negated)
            }
            Expr::Exists(property) => match &**property {
                Expr::Property(Property::User(name)) => Op::ExistsUser(name.clone()),
                Expr::Property(Property::System(property)) => Op::ExistsSystem(*property),
                Expr::Named(name) => self.after(name, Op::ExistsNamed),
                other => self.after(other, Op::IsNull { negated: true }),
            },
            Expr::Not(operand) => {
                self.condition(operand);
                Op::Not
            }
            Expr::And(parts) => return self.chain(parts, Op::AndThen, Op::And),
            Expr::Or(parts) => return self.chain(parts, Op::OrElse, Op::Or),
        };
        self.ops.push(op);
    }

    /// The parser has refused parameters that have no value.
    fn parameter(&self, name: &str) -> Value {
        self.parameters.get(name).cloned().unwrap_or(Value::Null)
    }

    /// What is the same for every message without being computed.
    fn known(&self, expr: &Expr) -> Option<Value> {
        match expr {
            Expr::Constant(value) => Some(value.clone()),
            Expr::Parameter(name) => Some(self.parameter(name)),
            _ => None,
        }
    }

    fn after(&mut self, operand: &Expr, op: Op) -> Op {
        self.expr(operand);
        op
    }

    fn like(&mut self, pattern: &Expr, escape: Option<&Expr>, negated: bool) -> Op {
        if let Some(pattern) = self.pattern(pattern, escape) {
            return Op::Like { pattern, negated };
        }
        self.expr(pattern);
        if let Some(escape) = escape {
            self.expr(escape);
        }
        Op::LikeComputed { escape: escape.is_some(), negated }
    }

    /// A pattern whose text and escape character are known before any message.
    fn pattern(&self, pattern: &Expr, escape: Option<&Expr>) -> Option<Pattern> {
        let text = |expr: &Expr| match expr {
            Expr::Constant(Value::String(text)) => Some(text.clone()),
            Expr::Parameter(name) => match self.parameters.get(name) {
                Some(Value::String(text)) => Some(text.clone()),
                _ => None,
            },
            _ => None,
        };
        let escape = match escape {
            None => None,
            Some(escape) => Some(text(escape)?.chars().next()?),
        };
        Pattern::new(&text(pattern)?, escape)
    }

    fn chain(&mut self, parts: &[Expr], leap: fn(usize) -> Op, join: Op) {
        let mut leaps = Vec::new();
        for (place, part) in parts.iter().enumerate() {
            if place > 0 {
                leaps.push(self.ops.len());
                self.ops.push(leap(0));
            }
            self.condition(part);
            if place > 0 {
                self.ops.push(join.clone());
            }
        }
        let end = self.ops.len();
        leaps.into_iter().for_each(|at| self.ops[at] = leap(end));
    }
}
