//! Rules: which messages of a topic a subscription takes, and what it makes of them (RULE).

use std::collections::BTreeMap;

use crate::{
    Action, Correlation, Filter, Properties, RuleCounts, RuleError, SystemProperty, Timestamp,
};

/// The rule a new subscription has if no other is given with it (RULE-2).
pub const DEFAULT_RULE: &str = "$Default";
/// The user property that names the rule whose action made a copy (RULE-6).
pub const RULE_NAME: &str = "RuleName";

/// Which messages a rule takes, as it was given (RULE-11).
#[derive(Clone, Debug, PartialEq)]
pub enum RuleFilter {
    True,
    False,
    Sql(SqlText),
    Correlation(Conditions),
}

/// How a client wrote a value, where it is not as we would: it is told so again, and means nothing else
/// (RULE-39).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenValue {
    /// A type of XML schema.
    pub kind: String,
    pub text: String,
}

/// By the name of the value.
pub type WrittenValues = BTreeMap<String, WrittenValue>;

/// Text in the language of RULE-24, with the values of its parameters (RULE-29).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SqlText {
    pub text: String,
    pub parameters: Properties,
    /// Of `parameters`.
    pub written: WrittenValues,
}

/// What must be equal, all of it (RULE-12).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    pub system: BTreeMap<SystemProperty, String>,
    pub properties: Properties,
    /// Of `properties`.
    pub written: WrittenValues,
}

impl RuleFilter {
    /// RULE-21.
    pub fn compile(&self) -> Result<Filter, RuleError> {
        match self {
            RuleFilter::True => Ok(Filter::True),
            RuleFilter::False => Ok(Filter::False),
            RuleFilter::Sql(sql) => Filter::sql(&sql.text, &sql.parameters),
            RuleFilter::Correlation(Conditions { system, properties, written: _ }) => {
                Correlation::new(system.clone(), properties.clone()).map(Filter::Correlation)
            }
        }
    }
}

impl SqlText {
    /// As an action (RULE-21).
    pub fn compile_action(&self) -> Result<Action, RuleError> {
        Action::sql(&self.text, &self.parameters)
    }
}

/// A rule as it is given.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRule {
    pub name: String,
    pub filter: RuleFilter,
    pub action: Option<SqlText>,
}

impl Default for NewRule {
    /// RULE-2.
    fn default() -> NewRule {
        NewRule { name: DEFAULT_RULE.to_owned(), filter: RuleFilter::True, action: None }
    }
}

impl NewRule {
    /// What it counts as (RULE-10).
    pub fn counts(&self) -> RuleCounts {
        counts(&self.filter, self.action.as_ref())
    }
}

/// A rule as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleRow {
    /// As given: case-preserving (ENT-1).
    pub name: String,
    pub filter: RuleFilter,
    pub action: Option<SqlText>,
    pub created_at: Timestamp,
    /// Its place among the rules of its subscription, in the order of their creation (RULE-7).
    pub order: u32,
}

impl RuleRow {
    /// What it counts as (RULE-10).
    pub fn counts(&self) -> RuleCounts {
        counts(&self.filter, self.action.as_ref())
    }
}

fn counts(filter: &RuleFilter, action: Option<&SqlText>) -> RuleCounts {
    let with_action = u32::from(action.is_some());
    let none = RuleCounts { with_action, ..RuleCounts::default() };
    match filter {
        RuleFilter::True | RuleFilter::False => RuleCounts { constant: 1, ..none },
        RuleFilter::Sql(_) => RuleCounts { sql: 1, ..none },
        RuleFilter::Correlation(_) => RuleCounts { correlation: 1, ..none },
    }
}
