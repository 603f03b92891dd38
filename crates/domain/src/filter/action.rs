//! Actions: what a rule does to its copy of a message (RULE-17 to RULE-19).

use std::fmt;

use super::ast::{Expr, Property, Statement};
use super::change::{Change, Copied, check_system};
use super::operand::Operand;
use super::parameters::Parameters;
use super::program::Program;
use super::{display, parser};
use crate::{Draw, EvaluationError, MatchCost, Properties, RuleError, RulePart, Subject};

/// A SQL action, read and compiled. Shown as canonical text; what the user wrote is kept by whoever
/// stores it.
#[derive(Clone, Debug)]
pub struct Action {
    statements: Vec<Statement>,
    parameters: Parameters,
    steps: Vec<ActionStep>,
    is_of_0_1: bool,
}

#[derive(Clone, Debug)]
enum ActionStep {
    Set(Property, Program),
    Remove(String),
}

/// Equal where text and parameters mean the same.
impl PartialEq for Action {
    fn eq(&self, other: &Action) -> bool {
        self.statements == other.statements && self.parameters == other.parameters
    }
}

impl Action {
    /// RULE-21, RULE-24, RULE-29, QUOTA-22. Names of parameters come with or without `@`.
    pub fn sql(text: &str, parameters: &Properties) -> Result<Action, RuleError> {
        let action = Action::stored(text, parameters)?;
        let mut statements = action.statements.iter();
        statements.try_for_each(|statement| check_value(statement, &action.parameters))?;
        Ok(action)
    }

    /// As [`Action::sql`], of an action that was accepted once: what it sets for every message alike is not judged.
    pub(crate) fn stored(text: &str, parameters: &Properties) -> Result<Action, RuleError> {
        let parameters = Parameters::new(RulePart::Action, parameters)?;
        let statements = parser::action(text, &parameters)?;
        let step = |statement: &Statement| match statement {
            Statement::Set(property, value) => {
                ActionStep::Set(property.clone(), Program::of_value(value, &parameters))
            }
            Statement::Remove(name) => ActionStep::Remove(name.clone()),
        };
        let steps = statements.iter().map(step).collect();
        Ok(Action { statements, parameters, steps, is_of_0_1: false })
    }

    /// To 0.1 what is missing was null, and a text was no span and no instant (RULE-19).
    pub(crate) fn of_0_1(self) -> Action {
        Action { is_of_0_1: true, ..self }
    }

    /// What the action changes about a copy of this message. Its expressions run in order, and each
    /// sees what those before it did. Fails as RULE-20 says, and then changes nothing. What it takes is
    /// added to `cost`.
    pub fn run(
        &self,
        subject: &dyn Subject,
        draw: &mut Draw<'_>,
        cost: &mut MatchCost,
    ) -> Result<Change, EvaluationError> {
        let mut copy = Copied::new(subject);
        // Properties are copied, and gone through by each step that finds none of its name.
        let properties = subject.properties();
        cost.operations(properties.len());
        cost.bytes(properties.iter().map(|(name, value)| name.len() + value.size_bytes()).sum());
        self.steps
            .iter()
            .try_for_each(|step| step.run(&mut copy, draw, cost, self.is_of_0_1))
            .map_err(|text| EvaluationError { part: RulePart::Action, text })?;
        Ok(copy.into_change())
    }
}

impl ActionStep {
    fn run(
        &self,
        copy: &mut Copied<'_>,
        draw: &mut Draw<'_>,
        cost: &mut MatchCost,
        is_of_0_1: bool,
    ) -> Result<(), String> {
        cost.operations(1 + copy.properties().len());
        match self {
            ActionStep::Remove(name) => {
                copy.remove(name);
                Ok(())
            }
            ActionStep::Set(property, value) => {
                let value = match value.run(copy, draw, cost)? {
                    // RULE-19: what is not there to be set changes nothing.
                    Operand::Unknown if !is_of_0_1 => return Ok(()),
                    value => value.into_value(),
                };
                cost.bytes(2 * value.size_bytes()); // Stored, and kept as a change.
                match property {
                    Property::User(name) => copy.set(name, value),
                    Property::System(property) => copy.set_system(*property, &value, !is_of_0_1),
                }
            }
        }
    }
}

/// RULE-21: what is the same for every message can be computed, and the system property can take it.
fn check_value(statement: &Statement, parameters: &Parameters) -> Result<(), RuleError> {
    let Statement::Set(property, value) = statement else { return Ok(()) };
    let known = match value {
        Expr::Property(Property::System(read)) => read.example(),
        value => {
            let value = Program::of_value(value, parameters);
            value.constant().transpose().map_err(|why| RuleError::Value { why })?
        }
    };
    match (property, known) {
        (Property::System(property), Some(value)) => {
            check_system(*property, &value).map_err(|why| RuleError::Value { why })
        }
        _ => Ok(()),
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display::statements(f, &self.statements)
    }
}
