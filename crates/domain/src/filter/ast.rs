//! A rule's text as a tree (RULE-24). Chains of equal operators are flat, so a tree is no deeper than
//! a few times the nesting the parser allows, and code may walk it recursively.

use crate::{SystemProperty, Value};

/// An expression or a predicate: the grammar cannot tell `(flag)` from `(a)`, the parser does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    /// Null, Bool, Long, Double or String.
    Constant(Value),
    Parameter(String),
    Property(Property),
    NewId,
    /// `property(x)`, where x is no bare name: that would be the property itself (RULE-28).
    Named(Box<Expr>),
    Sign(Sign, Box<Expr>),
    /// One or more operators of equal precedence, applied from the left.
    Arithmetic(Box<Expr>, Vec<(Operator, Expr)>),

    Compare(Box<Expr>, Comparison, Box<Expr>),
    IsNull {
        value: Box<Expr>,
        negated: bool,
    },
    In {
        value: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    Like {
        value: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<Box<Expr>>,
        negated: bool,
    },
    /// Of a `Property` or `Named`.
    Exists(Box<Expr>),
    Not(Box<Expr>),
    /// Two or more.
    And(Vec<Expr>),
    Or(Vec<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Property {
    System(SystemProperty),
    User(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    pub fn symbol(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Remainder => "%",
        }
    }

    /// Whether it binds like `*` (RULE-25).
    pub fn is_product(self) -> bool {
        match self {
            Operator::Add | Operator::Subtract => false,
            Operator::Multiply | Operator::Divide | Operator::Remainder => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
        }
    }
}

impl Expr {
    /// Whether it yields true, false or unknown, and so is no value to compare or compute with.
    pub fn is_predicate(&self) -> bool {
        match self {
            Expr::Constant(_)
            | Expr::Parameter(_)
            | Expr::Property(_)
            | Expr::NewId
            | Expr::Named(_)
            | Expr::Sign(..)
            | Expr::Arithmetic(..) => false,
            Expr::Compare(..)
            | Expr::IsNull { .. }
            | Expr::In { .. }
            | Expr::Like { .. }
            | Expr::Exists(_)
            | Expr::Not(_)
            | Expr::And(_)
            | Expr::Or(_) => true,
        }
    }
}

/// One expression of an action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Statement {
    Set(Property, Expr),
    /// User properties only (RULE-17).
    Remove(String),
}
