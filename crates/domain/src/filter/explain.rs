//! Why a message does not match: each part that is not true, and what it met.

use super::arithmetic::described;
use super::ast::{Expr, Property};
use super::display::Name;
use super::operand::Operand;
use super::parameters::Parameters;
use super::program::Program;
use super::text::describe;
use crate::{Draw, MatchCost, Subject, SystemProperty};

/// One line for the verdict, then, where it is not a match, one for each part that is to blame.
pub(super) fn predicate(
    predicate: &Expr,
    parameters: &Parameters,
    subject: &dyn Subject,
    draw: &mut Draw<'_>,
) -> Vec<String> {
    let mut explainer = Explainer { parameters, subject, draw, lines: Vec::new() };
    let verdict = match explainer.holds(predicate) {
        Ok(Some(true)) => return vec!["matches".to_owned()],
        Ok(Some(false)) => "does not match: the filter is false".to_owned(),
        Ok(None) => "does not match: the filter is unknown".to_owned(),
        Err(text) => format!("fails with FilterException: {text}"),
    };
    explainer.lines.push(verdict);
    explainer.blame(predicate, 1);
    explainer.lines
}

struct Explainer<'a, 'd> {
    parameters: &'a Parameters,
    subject: &'a dyn Subject,
    draw: &'a mut Draw<'d>,
    lines: Vec<String>,
}

impl Explainer<'_, '_> {
    fn holds(&mut self, expr: &Expr) -> Result<Option<bool>, String> {
        Program::of_condition(expr, self.parameters).holds(
            self.subject,
            self.draw,
            &mut MatchCost::default(),
        )
    }

    /// The parts of an expression that is not true. What comes behind the first of them was never
    /// evaluated, and is shown all the same: whoever mends a filter wants all of it.
    fn blame(&mut self, expr: &Expr, indent: usize) {
        match expr {
            Expr::And(parts) => self.blame_each(parts, indent),
            Expr::Or(parts) => {
                self.line(indent, "one of these must be true:".to_owned());
                self.blame_each(parts, indent + 1);
            }
            leaf => {
                let result = match self.holds(leaf) {
                    Ok(Some(truth)) => format!("is {truth}"),
                    Ok(None) => "is unknown".to_owned(),
                    Err(text) => format!("fails: {text}"),
                };
                let values = self.values(leaf);
                let values = if values.is_empty() {
                    String::new()
                } else {
                    format!(": {}", values.join(", "))
                };
                self.line(indent, format!("{leaf}  {result}{values}"));
            }
        }
    }

    fn blame_each(&mut self, parts: &[Expr], indent: usize) {
        for part in parts {
            if self.holds(part) != Ok(Some(true)) {
                self.blame(part, indent);
            }
        }
    }

    fn line(&mut self, indent: usize, text: String) {
        self.lines.push(format!("{}{text}", "  ".repeat(indent)));
    }

    /// What each property and parameter of a part is, once each.
    fn values(&self, expr: &Expr) -> Vec<String> {
        let mut values = Vec::new();
        each_leaf(expr, &mut |leaf| {
            let value = match leaf {
                Expr::Property(Property::User(name)) => user_value(self.subject, name),
                Expr::Property(Property::System(property)) => system_value(self.subject, *property),
                Expr::Parameter(name) => match self.parameters.get(name) {
                    Some(value) => format!("@{name} is {}", describe(value)),
                    None => return,
                },
                _ => return,
            };
            if !values.contains(&value) {
                values.push(value);
            }
        });
        values
    }
}

/// "color is 'red' (String)".
pub(super) fn user_value(subject: &dyn Subject, name: &str) -> String {
    match subject.property(name) {
        Some(value) => format!("{} is {}", Name(name), describe(value)),
        None => format!("{} is missing", Name(name)),
    }
}

/// "sys.Subject is 'red' (String)".
pub(super) fn system_value(subject: &dyn Subject, property: SystemProperty) -> String {
    match subject.system(property) {
        None => format!("{property} is not set"),
        value => format!("{property} is {}", described(&Operand::system(value))),
    }
}

/// Calls with each expression that has no parts.
fn each_leaf(expr: &Expr, call: &mut dyn FnMut(&Expr)) {
    match expr {
        Expr::Constant(_) | Expr::Parameter(_) | Expr::Property(_) | Expr::NewId => call(expr),
        Expr::Named(operand)
        | Expr::Sign(_, operand)
        | Expr::IsNull { value: operand, .. }
        | Expr::Exists(operand)
        | Expr::Not(operand) => each_leaf(operand, call),
        Expr::Arithmetic(first, rest) => {
            each_leaf(first, call);
            rest.iter().for_each(|(_, operand)| each_leaf(operand, call));
        }
        Expr::Compare(left, _, right) => {
            each_leaf(left, call);
            each_leaf(right, call);
        }
        Expr::In { value, list, .. } => {
            each_leaf(value, call);
            list.iter().for_each(|value| each_leaf(value, call));
        }
        Expr::Like { value, pattern, escape, .. } => {
            each_leaf(value, call);
            each_leaf(pattern, call);
            if let Some(escape) = escape {
                each_leaf(escape, call);
            }
        }
        Expr::And(parts) | Expr::Or(parts) => {
            parts.iter().for_each(|part| each_leaf(part, call));
        }
    }
}
