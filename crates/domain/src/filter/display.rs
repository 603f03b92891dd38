//! Canonical text of a rule: keywords in capitals, the fewest parentheses, names bare where they can
//! be. Reading it back gives the same tree.

use std::fmt::{self, Display, Formatter, Write};

use super::ast::{Expr, Property, Sign, Statement};
use super::lexer::is_bare;
use super::text::show;
use crate::Value;

/// How tightly an expression binds (RULE-25).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Not,
    Predicate,
    Sum,
    Product,
    Sign,
    Primary,
}

fn level(expr: &Expr) -> Level {
    match expr {
        Expr::Or(_) => Level::Or,
        Expr::And(_) => Level::And,
        Expr::Not(_) => Level::Not,
        Expr::Compare(..) | Expr::IsNull { .. } | Expr::In { .. } | Expr::Like { .. } => {
            Level::Predicate
        }
        Expr::Arithmetic(_, rest) => match rest.iter().any(|(operator, _)| operator.is_product()) {
            true => Level::Product,
            false => Level::Sum,
        },
        Expr::Sign(..) => Level::Sign,
        Expr::Constant(_)
        | Expr::Parameter(_)
        | Expr::Property(_)
        | Expr::NewId
        | Expr::Named(_)
        | Expr::Exists(_) => Level::Primary,
    }
}

/// An expression where at least a level is needed.
struct At<'a>(Level, &'a Expr);

impl Display for At<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let At(needed, expr) = *self;
        match level(expr) < needed {
            true => write!(f, "({expr})"),
            false => write!(f, "{expr}"),
        }
    }
}

fn joined<T: Display>(
    f: &mut Formatter<'_>,
    parts: impl IntoIterator<Item = T>,
    between: &str,
) -> fmt::Result {
    for (place, part) in parts.into_iter().enumerate() {
        if place > 0 {
            f.write_str(between)?;
        }
        write!(f, "{part}")?;
    }
    Ok(())
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Constant(value) => f.write_str(&show(value)),
            Expr::Parameter(name) => write!(f, "@{name}"),
            Expr::Property(property) => write!(f, "{property}"),
            Expr::NewId => f.write_str("newid()"),
            Expr::Named(name) => match &**name {
                // A bare name here would be the property itself.
                Expr::Property(Property::User(name)) => write!(f, "property(user.{})", Name(name)),
                name => write!(f, "property({name})"),
            },
            Expr::Sign(sign, operand) => {
                f.write_char(if *sign == Sign::Plus { '+' } else { '-' })?;
                match (sign, &**operand) {
                    // A minus before a plain number would be read as the number's own.
                    (Sign::Minus, Expr::Constant(Value::Long(0..) | Value::Double(_))) => {
                        write!(f, "({operand})")
                    }
                    _ => write!(f, "{}", At(Level::Sign, operand)),
                }
            }
            Expr::Arithmetic(first, rest) => {
                let needed =
                    if level(self) == Level::Product { Level::Sign } else { Level::Product };
                write!(f, "{}", At(needed, first))?;
                rest.iter().try_for_each(|(operator, operand)| {
                    write!(f, " {} {}", operator.symbol(), At(needed, operand))
                })
            }
            Expr::Compare(left, comparison, right) => {
                let symbol = comparison.symbol();
                write!(f, "{} {symbol} {}", At(Level::Sum, left), At(Level::Sum, right))
            }
            Expr::IsNull { value, negated } => {
                write!(f, "{} IS {}NULL", At(Level::Sum, value), not(*negated))
            }
            Expr::In { value, list, negated } => {
                write!(f, "{} {}IN (", At(Level::Sum, value), not(*negated))?;
                joined(f, list, ", ")?;
                f.write_char(')')
            }
            Expr::Like { value, pattern, escape, negated } => {
                let (value, pattern) = (At(Level::Sum, value), At(Level::Sum, pattern));
                write!(f, "{value} {}LIKE {pattern}", not(*negated))?;
                match escape {
                    Some(escape) => write!(f, " ESCAPE {}", At(Level::Sum, escape)),
                    None => Ok(()),
                }
            }
            Expr::Exists(property) => write!(f, "EXISTS ({property})"),
            Expr::Not(operand) => write!(f, "NOT {}", At(Level::Not, operand)),
            Expr::And(parts) => joined(f, parts.iter().map(|part| At(Level::Not, part)), " AND "),
            Expr::Or(parts) => joined(f, parts.iter().map(|part| At(Level::And, part)), " OR "),
        }
    }
}

/// A name as the text needs it: bare or delimited (RULE-26).
pub(super) struct Name<'a>(pub &'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match is_bare(self.0) {
            true => f.write_str(self.0),
            false => write!(f, "[{}]", self.0.replace(']', "]]")),
        }
    }
}

impl Display for Property {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Property::System(property) => write!(f, "{property}"),
            Property::User(name) => write!(f, "{}", Name(name)),
        }
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Set(property, value) => write!(f, "SET {property} = {value}"),
            Statement::Remove(name) => write!(f, "REMOVE {}", Name(name)),
        }
    }
}

pub(super) fn statements(f: &mut Formatter<'_>, statements: &[Statement]) -> fmt::Result {
    joined(f, statements, "; ")
}
