//! What is wrong with a rule: at its creation, and on a message.

use thiserror::Error;

use crate::Excerpt;

/// The half of a rule that is at fault: it decides the exception a client is told (ERR-19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePart {
    Filter,
    Action,
}

impl RulePart {
    /// ERR-19's name, and RULE-20's dead-letter reason.
    pub fn exception(self) -> &'static str {
        match self {
            RulePart::Filter => "FilterException",
            RulePart::Action => "RuleActionException",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            RulePart::Filter => "filter",
            RulePart::Action => "action",
        }
    }
}

/// Why a rule cannot be created (RULE-21). The text is one line that says where and what to write.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RuleError {
    /// `line` and `column` count characters from 1.
    #[error("line {line}, column {column}: expected {expected}, found {found}")]
    Syntax { part: RulePart, line: usize, column: usize, expected: String, found: String },
    #[error(
        "line {line}, column {column}: nested more than {max} deep; use fewer parentheses, NOTs or signs"
    )]
    TooDeep { part: RulePart, line: usize, column: usize, max: u32 },
    /// QUOTA-22.
    #[error("the text of the {} has {chars} characters, the limit is {max}", .part.noun())]
    TooLong { part: RulePart, chars: usize, max: usize },
    /// QUOTA-22.
    #[error("the action has more than {max} expressions; the limit is {max}")]
    TooManyExpressions { max: usize },
    /// RULE-29.
    #[error("parameter @{}: {why}", Excerpt(.name))]
    Parameter { part: RulePart, name: String, why: String },
    /// RULE-19.
    #[error("{why}")]
    Value { why: String },
    /// RULE-12.
    #[error("the correlation filter {why}")]
    Correlation { why: String },
}

impl RuleError {
    /// ERR-19's client name.
    pub fn name(&self) -> &'static str {
        match self {
            RuleError::Syntax { part, .. }
            | RuleError::TooDeep { part, .. }
            | RuleError::TooLong { part, .. }
            | RuleError::Parameter { part, .. } => part.exception(),
            RuleError::TooManyExpressions { .. } | RuleError::Value { .. } => {
                RulePart::Action.exception()
            }
            RuleError::Correlation { .. } => RulePart::Filter.exception(),
        }
    }
}

/// A filter or an action failed on a message (RULE-20). Its name is the dead-letter reason and its
/// text the description.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct EvaluationError {
    pub part: RulePart,
    pub text: String,
}

impl EvaluationError {
    /// ERR-19's client name.
    pub fn name(&self) -> &'static str {
        self.part.exception()
    }
}
