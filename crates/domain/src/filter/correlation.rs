//! Correlation filters: equality on some properties, all of which must hold (RULE-12).

use std::collections::BTreeMap;
use std::fmt;

use super::display::Name;
use super::explain::{system_value, user_value};
use super::operand::{Operand, equal};
use super::text::show;
use crate::{
    Excerpt, HEADER_BYTES_MAX, MatchCost, PROPERTY_BYTES_MAX, Properties, RuleError, Subject,
    SystemProperty, Value,
};

/// A correlation filter. Values are equal as `=` of SQL has it, so types match once numbers are
/// widened; a property that is missing or null equals nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Correlation {
    conditions: BTreeMap<ConditionKey, Value>,
}

/// What a condition is on. A name stays as given: it decides which of a message's properties is
/// found where their names differ in case only ([`crate::find_property`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConditionKey {
    System(SystemProperty),
    User(String),
}

impl Correlation {
    /// Refuses what could never match or be meant: no condition, system properties that cannot be
    /// correlated on, null, two conditions on one property, values beyond QUOTA-19.
    pub fn new(
        system: BTreeMap<SystemProperty, String>,
        properties: Properties,
    ) -> Result<Correlation, RuleError> {
        check_names(&system, &properties)?;
        let system =
            system.into_iter().map(|(key, text)| (ConditionKey::System(key), Value::String(text)));
        let user = properties.into_iter().map(|(name, value)| (ConditionKey::User(name), value));
        let conditions: BTreeMap<ConditionKey, Value> = system.chain(user).collect();
        if conditions.is_empty() {
            return Err(refused("has no condition; for every message use the true filter"));
        }
        check_sizes(&conditions)?;
        Ok(Correlation { conditions })
    }

    /// What it takes is added to `cost`.
    pub fn matches(&self, subject: &dyn Subject, cost: &mut MatchCost) -> bool {
        self.conditions.iter().all(|(key, value)| {
            cost.operation();
            cost.bytes(value.size_bytes());
            equal(value, &key.of(subject))
        })
    }

    pub(super) fn conditions(&self) -> &BTreeMap<ConditionKey, Value> {
        &self.conditions
    }

    pub(super) fn explain(&self, subject: &dyn Subject) -> Vec<String> {
        let mut lines = vec!["does not match: each condition must hold".to_owned()];
        for (key, value) in &self.conditions {
            if !equal(value, &key.of(subject)) {
                let actual = match key {
                    ConditionKey::User(name) => user_value(subject, name),
                    ConditionKey::System(property) => system_value(subject, *property),
                };
                lines.push(format!("  {key} = {}  is not so: {actual}", show(value)));
            }
        }
        match lines.len() {
            1 => vec!["matches".to_owned()],
            _ => lines,
        }
    }
}

fn refused(why: impl Into<String>) -> RuleError {
    RuleError::Correlation { why: why.into() }
}

fn check_names(
    system: &BTreeMap<SystemProperty, String>,
    properties: &Properties,
) -> Result<(), RuleError> {
    if let Some(property) = system.keys().find(|property| !property.is_correlated()) {
        return Err(refused(format!("cannot have a condition on {property}")));
    }
    // RULE-31.
    let mut names = BTreeMap::new();
    for (name, value) in properties {
        if *value == Value::Null {
            let name = Excerpt(name);
            let why = format!("has a condition on '{name}' that is null: nothing equals it");
            return Err(refused(why));
        }
        if let Some(other) = names.insert(name.to_ascii_lowercase(), name) {
            let (other, name) = (Excerpt(other), Excerpt(name));
            let why = format!("has two conditions on one property: '{other}' and '{name}'");
            return Err(refused(why));
        }
    }
    Ok(())
}

/// QUOTA-19, as for a message's properties: more than that no message can have.
fn check_sizes(conditions: &BTreeMap<ConditionKey, Value>) -> Result<(), RuleError> {
    let mut total = 0;
    for (key, value) in conditions {
        let bytes = key.name().len() + value.size_bytes();
        if bytes > PROPERTY_BYTES_MAX {
            let name = Excerpt(key.name());
            return Err(refused(format!(
                "has a condition on '{name}' of {bytes} bytes, the limit is {PROPERTY_BYTES_MAX}"
            )));
        }
        total += bytes;
    }
    match total > HEADER_BYTES_MAX {
        true => Err(refused(format!(
            "has conditions of {total} bytes, the limit is {HEADER_BYTES_MAX}"
        ))),
        false => Ok(()),
    }
}

impl ConditionKey {
    fn name(&self) -> &str {
        match self {
            ConditionKey::System(property) => property.name(),
            ConditionKey::User(name) => name,
        }
    }

    pub fn of<'a>(&self, subject: &'a dyn Subject) -> Operand<'a> {
        match self {
            ConditionKey::System(property) => Operand::system(subject.system(*property)),
            ConditionKey::User(name) => {
                subject.property(name).map_or(Operand::Unknown, Operand::borrowed)
            }
        }
    }
}

impl fmt::Display for ConditionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConditionKey::System(property) => write!(f, "{property}"),
            ConditionKey::User(name) => write!(f, "{}", Name(name)),
        }
    }
}

/// As SQL would put it, where it has such values.
impl fmt::Display for Correlation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (key, value)) in self.conditions.iter().enumerate() {
            let between = if place > 0 { " AND " } else { "" };
            write!(f, "{between}{key} = {}", show(value))?;
        }
        Ok(())
    }
}
