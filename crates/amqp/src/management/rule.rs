//! Rules of subscriptions: a map in `add-rule`, described lists in `enumerate-rules` (REQ-26, REQ-27).

use amqp_protocol::codec::{Map, Value};
use domain::{Conditions, NewRule, Refusal, RuleFilter, RuleRow, SqlText, SystemProperty};
use message_content::from_domain;

use super::operation::{Arguments, bad};

// Vendor descriptors come in two families, and these are of the longer one (REQ-27).
const RULE: u64 = 0x137_0000_0004;
const EMPTY_ACTION: u64 = 0x137_0000_0005;
const SQL_ACTION: u64 = 0x137_0000_0006;
const SQL_FILTER: u64 = 0x13_7000_0006;
const TRUE_FILTER: u64 = 0x13_7000_0007;
const FALSE_FILTER: u64 = 0x13_7000_0008;
const CORRELATION_FILTER: u64 = 0x13_7000_0009;
/// The only dialect there ever was.
const COMPATIBILITY_LEVEL: i32 = 20;

/// What a correlation filter may ask for beside user properties: names in a map, order in a list.
const CONDITIONS: [(&str, SystemProperty); 8] = [
    ("correlation-id", SystemProperty::CorrelationId),
    ("message-id", SystemProperty::MessageId),
    ("to", SystemProperty::To),
    ("reply-to", SystemProperty::ReplyTo),
    ("label", SystemProperty::Subject),
    ("session-id", SystemProperty::SessionId),
    ("reply-to-session-id", SystemProperty::ReplyToSessionId),
    ("content-type", SystemProperty::ContentType),
];

/// Reads the body of `add-rule`. Clients send true and false as SQL, `1=1` and `1=0`.
pub(super) fn decode(body: &Arguments<'_>) -> Result<NewRule, Refusal> {
    let what = "rule-description";
    let name = body.required_text("rule-name")?;
    let description = body.map(what)?.ok_or_else(|| bad(what, "it is missing"))?;
    let description = Arguments(description);
    let filter = match (description.map("sql-filter")?, description.map("correlation-filter")?) {
        (Some(sql), None) => RuleFilter::Sql(sql_text(&Arguments(sql))?),
        (None, Some(map)) => RuleFilter::Correlation(conditions(&Arguments(map))?),
        (None, None) => return Err(bad(what, "it has no filter")),
        (Some(_), Some(_)) => return Err(bad(what, "it has two filters")),
    };
    let action = match description.map("sql-rule-action")? {
        Some(action) if !Arguments(action).is_null("expression") => {
            Some(sql_text(&Arguments(action))?)
        }
        _ => None,
    };
    Ok(NewRule { name, filter, action })
}

fn sql_text(map: &Arguments<'_>) -> Result<SqlText, Refusal> {
    let text = map.required_text("expression")?;
    Ok(SqlText { text, parameters: map.properties("parameters")?, ..SqlText::default() })
}

fn conditions(map: &Arguments<'_>) -> Result<Conditions, Refusal> {
    let mut conditions =
        Conditions { properties: map.properties("properties")?, ..Conditions::default() };
    for (name, property) in CONDITIONS {
        conditions.system.extend(map.text(name)?.map(|text| (property, text)));
    }
    Ok(conditions)
}

/// As `enumerate-rules` lists it. Filter and action are always there, and their descriptors are
/// numbers: JS compares nothing else, and .NET refuses what it does not know.
pub(super) fn to_value(rule: &RuleRow) -> Value {
    let action = match &rule.action {
        None => described(EMPTY_ACTION, vec![]),
        Some(sql) => described(SQL_ACTION, sql_fields(sql)),
    };
    let created_at = Value::Timestamp(i64::try_from(rule.created_at.0).unwrap_or(i64::MAX));
    described(RULE, vec![filter(&rule.filter), action, rule.name.as_str().into(), created_at])
}

fn filter(filter: &RuleFilter) -> Value {
    match filter {
        RuleFilter::True => described(TRUE_FILTER, vec![]),
        RuleFilter::False => described(FALSE_FILTER, vec![]),
        RuleFilter::Sql(sql) => described(SQL_FILTER, sql_fields(sql)),
        RuleFilter::Correlation(conditions) => described(CORRELATION_FILTER, fields(conditions)),
    }
}

fn fields(conditions: &Conditions) -> Vec<Value> {
    let text = |property| conditions.system.get(&property).map(|text| text.as_str().into());
    let texts = CONDITIONS.into_iter().map(|(_, property)| text(property).unwrap_or(Value::Null));
    let properties = conditions.properties.iter();
    let properties = properties.map(|(key, value)| (key.as_str().into(), from_domain(value)));
    // An empty map, not null: .NET walks it.
    texts.chain([Value::Map(Map(properties.collect()))]).collect()
}

fn sql_fields(sql: &SqlText) -> Vec<Value> {
    vec![sql.text.as_str().into(), Value::Int(COMPATIBILITY_LEVEL)]
}

fn described(code: u64, fields: Vec<Value>) -> Value {
    Value::Described(Box::new((Value::Ulong(code), Value::List(fields))))
}
