//! The rule language (RULE-11 to RULE-37): filters that select messages, and actions that change the
//! copies. A library: it stores nothing, and knows messages by [`Subject`] only.
//!
//! Text is read once (`lexer`, `parser`) into a tree (`ast`), which is what is shown and explained,
//! and compiled to a flat program (`program`), which is what runs (`evaluate`). Texts are short and
//! nesting is bounded, so no input can exhaust the stack, and time is linear: LIKE passes over a text once,
//! IN looks a value up. What a message has taken is told as a [`MatchCost`].

mod action;
mod arithmetic;
mod ast;
mod change;
mod convert;
mod correlation;
mod cost;
mod decimal;
mod display;
mod error;
mod evaluate;
mod explain;
mod index;
mod lexer;
mod like;
mod literal;
mod number;
mod operand;
mod parameters;
mod parser;
mod program;
mod selector;
mod sql;
mod subject;
mod system;
mod text;
mod value_set;

#[cfg(test)]
mod round_trip;

use std::fmt;

pub use action::Action;
pub use change::Change;
pub use correlation::Correlation;
pub use cost::MatchCost;
pub use error::{EvaluationError, RuleError, RulePart};
pub use evaluate::Draw;
pub use index::CorrelationIndex;
pub use selector::{Lookup, SELECTOR_CHARS_MAX, Selector, SelectorError};
pub use sql::SqlFilter;
pub(crate) use subject::FoldedNames;
pub use subject::{Subject, find_property};
pub use system::{SystemProperty, SystemValue};

use crate::Properties;

/// QUOTA-22: filter and action, each.
pub const RULE_TEXT_CHARS_MAX: usize = 1024;
/// QUOTA-22.
pub const ACTION_EXPRESSIONS_MAX: usize = 32;
/// Most parentheses, NOTs, signs and `property()` within each other. Nothing a person writes comes
/// near; what walks a tree may recurse.
pub const RULE_NESTING_MAX: u32 = 32;
/// QUOTA-20. For whoever stores rules to hold.
pub const SQL_FILTERS_MAX: usize = 2000;
/// QUOTA-21. For whoever stores rules to hold.
pub const CORRELATION_FILTERS_MAX: usize = 100_000;

/// What selects messages (RULE-11).
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    True,
    False,
    Sql(SqlFilter),
    Correlation(Correlation),
}

impl Filter {
    /// See [`SqlFilter::new`].
    pub fn sql(text: &str, parameters: &Properties) -> Result<Filter, RuleError> {
        SqlFilter::new(text, parameters).map(Filter::Sql)
    }

    /// Whether the message is selected. Only a SQL filter can fail (RULE-20). `draw` feeds `newid()`.
    pub fn matches(
        &self,
        subject: &dyn Subject,
        draw: &mut Draw<'_>,
    ) -> Result<bool, EvaluationError> {
        self.matches_charged(subject, draw, &mut MatchCost::default())
    }

    /// The same, with what it takes added to `cost`.
    pub fn matches_charged(
        &self,
        subject: &dyn Subject,
        draw: &mut Draw<'_>,
        cost: &mut MatchCost,
    ) -> Result<bool, EvaluationError> {
        match self {
            Filter::True => Ok(true),
            Filter::False => Ok(false),
            Filter::Sql(filter) => filter.matches(subject, draw, cost),
            Filter::Correlation(filter) => Ok(filter.matches(subject, cost)),
        }
    }

    /// Says in lines for people whether the message matches and, if not, which parts of the filter
    /// were not true, with the values they met. The first line is the verdict.
    pub fn explain(&self, subject: &dyn Subject, draw: &mut Draw<'_>) -> Vec<String> {
        match self {
            Filter::True => vec!["matches".to_owned()],
            Filter::False => vec!["does not match: the filter is always false".to_owned()],
            Filter::Sql(filter) => filter.explain(subject, draw),
            Filter::Correlation(filter) => filter.explain(subject),
        }
    }
}

/// Canonical SQL. True and false are what RULE-11 says they are.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::True => f.write_str("1=1"),
            Filter::False => f.write_str("1=0"),
            Filter::Sql(filter) => filter.fmt(f),
            Filter::Correlation(filter) => filter.fmt(f),
        }
    }
}
