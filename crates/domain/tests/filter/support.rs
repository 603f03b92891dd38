//! Messages to filter, and tables of filters and what they say.

use std::collections::BTreeMap;

use domain::{
    Action, Change, Filter, MatchCost, Properties, RuleError, Span, Subject, SystemProperty,
    SystemValue, Timestamp, Value,
};

/// A message as rules see it.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub texts: BTreeMap<SystemProperty, String>,
    pub numbers: BTreeMap<SystemProperty, i64>,
    pub instants: BTreeMap<SystemProperty, u64>,
    pub ttl_ms: Option<u64>,
    pub properties: Properties,
}

impl Subject for Message {
    fn system(&self, property: SystemProperty) -> Option<SystemValue<'_>> {
        if let Some(text) = self.texts.get(&property) {
            return Some(SystemValue::Text(text));
        }
        if let Some(at) = self.instants.get(&property) {
            return Some(SystemValue::Instant(Timestamp(*at)));
        }
        match (property, self.ttl_ms) {
            (SystemProperty::TimeToLive, Some(ms)) => Some(SystemValue::Duration(Span(ms))),
            (SystemProperty::ForcePersistence, _) => Some(SystemValue::Flag(true)),
            _ => self.numbers.get(&property).map(|number| SystemValue::Number(*number)),
        }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }
}

impl Message {
    pub fn set(mut self, name: &str, value: impl Into<Given>) -> Message {
        self.properties.insert(name.to_owned(), value.into().0);
        self
    }

    pub fn system(mut self, property: SystemProperty, text: &str) -> Message {
        self.texts.insert(property, text.to_owned());
        self
    }
}

pub fn message() -> Message {
    Message::default()
}

/// A value as a table writes it.
#[derive(Clone, Debug)]
pub struct Given(pub Value);

impl From<Value> for Given {
    fn from(value: Value) -> Given {
        Given(value)
    }
}

impl From<&str> for Given {
    fn from(text: &str) -> Given {
        Given(Value::String(text.to_owned()))
    }
}

impl From<i32> for Given {
    fn from(number: i32) -> Given {
        Given(Value::Int(number))
    }
}

impl From<f64> for Given {
    fn from(number: f64) -> Given {
        Given(Value::Double(number))
    }
}

impl From<bool> for Given {
    fn from(flag: bool) -> Given {
        Given(Value::Bool(flag))
    }
}

/// Draws 1, 2, 3 …
pub fn counter() -> impl FnMut() -> u64 {
    let mut drawn = 0;
    move || {
        drawn += 1;
        drawn
    }
}

pub fn parameters(given: &[(&str, Value)]) -> Properties {
    given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// What a filter says of a message: "T", "F", "U" or why it fails. Unknown is what neither the filter
/// nor its negation selects.
pub fn truth(message: &Message, text: &str, given: &Properties) -> String {
    let select = |text: &str| {
        let filter = Filter::sql(text, given).unwrap_or_else(|error| panic!("{text}: {error}"));
        filter.matches(message, &mut counter())
    };
    match (select(text), select(&format!("NOT ({text})"))) {
        (Ok(true), Ok(false)) => "T".to_owned(),
        (Ok(false), Ok(true)) => "F".to_owned(),
        (Ok(false), Ok(false)) => "U".to_owned(),
        (Err(error), Err(same)) => {
            assert_eq!(error, same);
            assert_eq!(error.name(), "FilterException");
            error.to_string()
        }
        other => panic!("{text}: {other:?}"),
    }
}

/// Each row: a filter, and "T", "F", "U" or a part of why it fails.
pub fn check(message: &Message, rows: &[(&str, &str)]) {
    check_with(message, &Properties::new(), rows);
}

pub fn check_with(message: &Message, given: &Properties, rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let found = truth(message, text, given);
        match expected.len() {
            1 => assert_eq!(found, *expected, "{text}"),
            _ => assert!(found.contains(expected), "{text}: {found}"),
        }
    }
}

/// Each row: a text, and why it is no filter.
pub fn refused(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let error = Filter::sql(text, &Properties::new()).expect_err(text);
        assert_eq!(error.to_string(), *expected, "{text}");
        assert_eq!(error.name(), "FilterException");
    }
}

/// What an action changes, or why it fails.
pub fn run(message: &Message, text: &str) -> Result<Change, String> {
    run_with(message, text, &Properties::new())
}

pub fn run_with(message: &Message, text: &str, given: &Properties) -> Result<Change, String> {
    let action = match Action::sql(text, given) {
        Ok(action) => action,
        Err(error @ RuleError::Value { .. }) => {
            assert_eq!(error.name(), "RuleActionException");
            return Err(error.to_string());
        }
        Err(error) => panic!("{text}: {error}"),
    };
    action.run(message, &mut counter(), &mut MatchCost::default()).map_err(|error| {
        assert_eq!(error.name(), "RuleActionException");
        error.to_string()
    })
}
