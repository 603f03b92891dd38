//! A filter written in SQL (RULE-24).

use std::fmt;

use super::ast::Expr;
use super::parameters::Parameters;
use super::program::Program;
use super::{explain, parser};
use crate::{Draw, EvaluationError, MatchCost, Properties, RuleError, RulePart, Subject};

/// A SQL filter, read and compiled. Shown as canonical text; what the user wrote is kept by whoever
/// stores it.
#[derive(Clone, Debug)]
pub struct SqlFilter {
    predicate: Expr,
    parameters: Parameters,
    program: Program,
}

/// Equal where text and parameters mean the same.
impl PartialEq for SqlFilter {
    fn eq(&self, other: &SqlFilter) -> bool {
        self.predicate == other.predicate && self.parameters == other.parameters
    }
}

impl SqlFilter {
    /// RULE-21, RULE-29, QUOTA-22. Names of parameters come with or without `@`.
    pub fn new(text: &str, parameters: &Properties) -> Result<SqlFilter, RuleError> {
        let parameters = Parameters::new(RulePart::Filter, parameters)?;
        let predicate = parser::filter(text, &parameters)?;
        let program = Program::of_condition(&predicate, &parameters);
        Ok(SqlFilter { predicate, parameters, program })
    }

    /// RULE-34: only true selects the message. Fails as RULE-20 says. What it takes is added to `cost`.
    pub fn matches(
        &self,
        subject: &dyn Subject,
        draw: &mut Draw<'_>,
        cost: &mut MatchCost,
    ) -> Result<bool, EvaluationError> {
        match self.program.holds(subject, draw, cost) {
            Ok(truth) => Ok(truth == Some(true)),
            Err(text) => Err(EvaluationError { part: RulePart::Filter, text }),
        }
    }

    pub(super) fn explain(&self, subject: &dyn Subject, draw: &mut Draw<'_>) -> Vec<String> {
        explain::predicate(&self.predicate, &self.parameters, subject, draw)
    }
}

impl fmt::Display for SqlFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.predicate.fmt(f)
    }
}
