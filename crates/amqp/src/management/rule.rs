//! Rules of subscriptions: a map in `add-rule`, described lists in `enumerate-rules` (§7.1).

use domain::{Properties, Refusal, Timestamp};

use super::operation::{Arguments, bad};
use crate::codec::{Map, Value};
use crate::message::from_domain;

/// A rule: which messages, and what is done to their copies (RULE).
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub name: String,
    pub filter: Filter,
    /// SQL of an action.
    pub action: Option<String>,
    /// Set by the broker.
    pub created_at: Option<Timestamp>,
}

/// Which messages a rule takes. Clients send true and false as SQL, `1=1` and `1=0`.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    True,
    False,
    Sql(String),
    Correlation(Box<CorrelationFilter>),
}

/// What must be equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CorrelationFilter {
    pub correlation_id: Option<String>,
    pub message_id: Option<String>,
    pub to: Option<String>,
    pub reply_to: Option<String>,
    pub subject: Option<String>,
    pub session_id: Option<String>,
    pub reply_to_session_id: Option<String>,
    pub content_type: Option<String>,
    pub properties: Properties,
}

// Vendor descriptors come in two families, and these are of the longer one (§3.1).
const RULE: u64 = 0x137_0000_0004;
const EMPTY_ACTION: u64 = 0x137_0000_0005;
const SQL_ACTION: u64 = 0x137_0000_0006;
const SQL_FILTER: u64 = 0x13_7000_0006;
const TRUE_FILTER: u64 = 0x13_7000_0007;
const FALSE_FILTER: u64 = 0x13_7000_0008;
const CORRELATION_FILTER: u64 = 0x13_7000_0009;
/// The only dialect there ever was.
const COMPATIBILITY_LEVEL: i32 = 20;

/// Reads the body of `add-rule`.
pub(super) fn decode(body: &Arguments<'_>) -> Result<Rule, Refusal> {
    let what = "rule-description";
    let name = body.required_text("rule-name")?;
    let description = body.map(what)?.ok_or_else(|| bad(what, "it is missing"))?;
    let description = Arguments(description);
    let sql = description.map("sql-filter")?;
    let correlation = description.map("correlation-filter")?;
    let filter = match (sql, correlation) {
        (Some(sql), None) => Filter::Sql(Arguments(sql).required_text("expression")?),
        (None, Some(map)) => Filter::Correlation(Box::new(correlation_filter(&Arguments(map))?)),
        (None, None) => return Err(bad(what, "it has no filter")),
        (Some(_), Some(_)) => return Err(bad(what, "it has two filters")),
    };
    let action = match description.map("sql-rule-action")? {
        Some(action) => Arguments(action).text("expression")?,
        None => None,
    };
    Ok(Rule { name, filter, action, created_at: None })
}

fn correlation_filter(map: &Arguments<'_>) -> Result<CorrelationFilter, Refusal> {
    Ok(CorrelationFilter {
        correlation_id: map.text("correlation-id")?,
        message_id: map.text("message-id")?,
        to: map.text("to")?,
        reply_to: map.text("reply-to")?,
        subject: map.text("label")?,
        session_id: map.text("session-id")?,
        reply_to_session_id: map.text("reply-to-session-id")?,
        content_type: map.text("content-type")?,
        properties: map.properties("properties")?,
    })
}

impl Rule {
    /// As `enumerate-rules` lists it. Filter and action are always there, and their descriptors are
    /// numbers: JS compares nothing else, and .NET refuses what it does not know.
    pub(super) fn to_value(&self) -> Value {
        let action = match &self.action {
            None => described(EMPTY_ACTION, vec![]),
            Some(sql) => described(SQL_ACTION, sql_fields(sql)),
        };
        let mut fields = vec![self.filter.to_value(), action, self.name.as_str().into()];
        if let Some(at) = self.created_at {
            fields.push(Value::Timestamp(i64::try_from(at.0).unwrap_or(i64::MAX)));
        }
        described(RULE, fields)
    }
}

impl Filter {
    fn to_value(&self) -> Value {
        match self {
            Filter::True => described(TRUE_FILTER, vec![]),
            Filter::False => described(FALSE_FILTER, vec![]),
            Filter::Sql(sql) => described(SQL_FILTER, sql_fields(sql)),
            Filter::Correlation(filter) => described(CORRELATION_FILTER, filter.fields()),
        }
    }
}

impl CorrelationFilter {
    fn fields(&self) -> Vec<Value> {
        let texts = [
            &self.correlation_id,
            &self.message_id,
            &self.to,
            &self.reply_to,
            &self.subject,
            &self.session_id,
            &self.reply_to_session_id,
            &self.content_type,
        ];
        let texts = texts.map(|text| text.as_deref().map_or(Value::Null, Value::from));
        let properties = self.properties.iter();
        let properties = properties.map(|(key, value)| (key.as_str().into(), from_domain(value)));
        // An empty map, not null: .NET walks it.
        texts.into_iter().chain([Value::Map(Map(properties.collect()))]).collect()
    }
}

fn sql_fields(sql: &str) -> Vec<Value> {
    vec![sql.into(), Value::Int(COMPATIBILITY_LEVEL)]
}

fn described(code: u64, fields: Vec<Value>) -> Value {
    Value::Described(Box::new((Value::Ulong(code), Value::List(fields))))
}
