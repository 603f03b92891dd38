//! The properties of one resource, as Azure's Resource Manager takes and tells them: what templates say, one at a time.

use domain::{
    AccessRights, Conditions, Described, EntityProperty, NewRule, Patch, PropertyValue, RuleFilter,
    SqlText, Value,
};
use serde_json::{Map, Value as Json, json};

use super::{export, property, rule};
use crate::{Node, Problem, duration};

/// The one version of the language of filters that there is.
const SQL_VERSION: u32 = 20;

/// What is said of a queue, a topic or a subscription.
///
/// # Errors
/// Everything that cannot be had, each with its place.
pub fn read<P: Described>(properties: &Map<String, Json>) -> Result<Patch<P>, Vec<Problem>> {
    let (patch, problems) = property::read("", properties);
    if problems.is_empty() { Ok(patch) } else { Err(problems) }
}

/// All that is told of one, but its counts, instants and authorization rules.
pub fn write<P: Described>(of: &P) -> Map<String, Json> {
    let mut members = Map::new();
    for property in EntityProperty::all_of(P::KIND) {
        if !export::is_in_templates(property, P::KIND) {
            continue;
        }
        let value = match property.get(of) {
            Some(PropertyValue::Duration(span)) => json!(duration::show_iso_8601_ms(span.0)),
            Some(PropertyValue::Number(number)) => json!(number),
            Some(PropertyValue::Flag(flag)) => json!(flag),
            Some(PropertyValue::Text(text)) if !text.is_empty() => json!(text),
            Some(PropertyValue::Destination(Some(to))) => json!(to),
            Some(PropertyValue::Status(status)) => json!(status.as_str()),
            Some(
                PropertyValue::Text(_)
                | PropertyValue::Destination(None)
                | PropertyValue::AuthorizationRules(_),
            )
            | None => continue,
        };
        members.insert(property::name(property), value);
    }
    members
}

/// A rule of a subscription.
///
/// # Errors
/// What cannot be had.
pub fn read_rule(name: &str, properties: &Map<String, Json>) -> Result<NewRule, String> {
    rule::read(name.to_owned(), properties)
}

/// A rule of a subscription, as it is told.
pub fn write_rule(filter: &RuleFilter, action: Option<&SqlText>) -> Map<String, Json> {
    let sql = |text: &str| json!({"sqlExpression": text, "compatibilityLevel": SQL_VERSION});
    let (kind, member, filter) = match filter {
        // Azure tells constants as what they are in SQL (RULE-11).
        RuleFilter::True => ("SqlFilter", "sqlFilter", sql("1=1")),
        RuleFilter::False => ("SqlFilter", "sqlFilter", sql("1=0")),
        RuleFilter::Sql(of) => ("SqlFilter", "sqlFilter", sql(&of.text)),
        RuleFilter::Correlation(of) => ("CorrelationFilter", "correlationFilter", correlation(of)),
    };
    let action = action.map_or(json!({}), |of| sql(&of.text));
    let members = [("action", action), ("filterType", json!(kind)), (member, filter)];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn correlation(of: &Conditions) -> Json {
    let mut members = Map::new();
    for (property, value) in &of.system {
        members.insert(export::system_property(*property), json!(value));
    }
    if !of.properties.is_empty() {
        let values = of.properties.iter().map(|(name, value)| (name.clone(), scalar(value)));
        members.insert("properties".to_owned(), Json::Object(values.collect()));
    }
    Json::Object(members)
}

/// JSON has three types of values; another is told as a text.
fn scalar(value: &Value) -> Json {
    match value {
        Value::String(text) => json!(text),
        Value::Bool(truth) => json!(truth),
        Value::Int(number) => json!(number),
        Value::Long(number) => json!(number),
        Value::Double(number) => json!(number),
        other => match crate::scalar::to_node(other) {
            Node::Object(members) => {
                let value = members.into_iter().find(|(name, _)| name == "value");
                json!(value.map(|(_, node)| node.inline().trim_matches('"').to_owned()))
            }
            node => json!(node.inline().trim_matches('"')),
        },
    }
}

/// The rights of an authorization rule.
///
/// # Errors
/// There are none, or one that Azure does not know.
pub fn read_rights(properties: &Map<String, Json>) -> Result<AccessRights, String> {
    property::access_rights(properties)
}
