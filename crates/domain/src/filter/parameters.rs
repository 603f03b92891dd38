//! Parameters of a rule: values given beside its text (RULE-29).

use std::collections::BTreeMap;

use super::lexer::is_bare;
use crate::{Properties, RULE_TEXT_CHARS_MAX, RuleError, RulePart, Value};

/// By lower-cased name, without `@`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parameters(BTreeMap<String, Value>);

impl Parameters {
    /// Takes names with or without their `@`, as SDKs differ. Refuses what the text could not name,
    /// and types other than those of RULE-29.
    pub fn new(part: RulePart, given: &Properties) -> Result<Parameters, RuleError> {
        let mut parameters = BTreeMap::new();
        for (written, value) in given {
            let name = written.strip_prefix('@').unwrap_or(written);
            let refuse = |why: &str| {
                let (name, why) = (name.to_owned(), why.to_owned());
                Err(RuleError::Parameter { part, name, why })
            };
            if !is_bare(name) {
                return refuse("its name is not a letter followed by letters, digits and '_'");
            }
            if name.len() > RULE_TEXT_CHARS_MAX {
                return refuse("its name is longer than a text that could use it");
            }
            if !is_allowed(value) {
                return refuse(
                    "its type is none of String, Int, Long, Bool, Double, DateTime and TimeSpan",
                );
            }
            if parameters.insert(name.to_ascii_lowercase(), value.clone()).is_some() {
                return refuse("it is given twice; case and '@' do not count");
            }
        }
        Ok(Parameters(parameters))
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(&name.to_ascii_lowercase())
    }
}

fn is_allowed(value: &Value) -> bool {
    match value {
        Value::String(_)
        | Value::Int(_)
        | Value::Long(_)
        | Value::Bool(_)
        | Value::DateTime(_)
        | Value::TimeSpan(_) => true,
        Value::Double(value) => value.is_finite(),
        Value::Null
        | Value::Byte(_)
        | Value::SByte(_)
        | Value::Short(_)
        | Value::UShort(_)
        | Value::UInt(_)
        | Value::ULong(_)
        | Value::Float(_)
        | Value::Decimal(_)
        | Value::Char(_)
        | Value::Uri(_)
        | Value::Uuid(_)
        | Value::DateTimeOffset(_)
        | Value::Bytes(_) => false,
    }
}
