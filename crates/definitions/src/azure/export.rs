//! What a cluster has, as a template of Azure Resource Manager that asks for a namespace's name only.

use std::collections::BTreeSet;

use domain::{
    Conditions, Described, EntityKind, EntityProperty, NewRule, PropertyType, PropertyValue,
    RuleFilter, SqlText, SystemProperty, Value,
};

use super::property;
use crate::Node;
use crate::{Definitions, EntityDefinition, duration, word};

const API_VERSION: &str = "2024-01-01";
const SCHEMA: &str =
    "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#";

/// The template, and what of the cluster it cannot say.
pub fn write(definitions: &Definitions) -> (Node, Vec<String>) {
    let topics = definitions.topics.iter().map(|topic| topic.name.to_ascii_lowercase()).collect();
    let mut template = Template { topics, ..Template::default() };
    let namespace = object([
        ("type", text("Microsoft.ServiceBus/namespaces")),
        ("apiVersion", text(API_VERSION)),
        ("name", text("[parameters('namespaceName')]")),
        ("location", text("[resourceGroup().location]")),
        (
            "sku",
            object([("name", text("[parameters('sku')]")), ("tier", text("[parameters('sku')]"))]),
        ),
    ]);
    template.resources.push(namespace);
    definitions.queues.iter().for_each(|queue| template.entity(queue, "queues", &[]));
    definitions.topics.iter().for_each(|topic| template.entity(topic, "topics", &[]));
    for one in &definitions.subscriptions {
        template.entity(&one.entity, "topics/subscriptions", &[&one.topic]);
        let names = [one.topic.as_str(), &one.entity.name];
        for rule in one.rules.iter().flatten() {
            template.rule(&rule.rule, &names);
        }
        let has_default = one
            .rules
            .iter()
            .flatten()
            .any(|rule| rule.rule.name.eq_ignore_ascii_case(domain::DEFAULT_RULE));
        if one.rules.is_some() && !has_default {
            template.default_rule(&names);
        }
    }
    let string = |default: Option<&str>| {
        let mut members = vec![("type".to_owned(), text("string"))];
        members.extend(default.map(|default| ("defaultValue".to_owned(), text(default))));
        Node::Object(members)
    };
    let node = object([
        ("$schema", text(SCHEMA)),
        ("contentVersion", text("1.0.0.0")),
        ("parameters", object([("namespaceName", string(None)), ("sku", string(Some("Premium")))])),
        ("resources", Node::List(template.resources)),
    ]);
    (node, template.notes)
}

#[derive(Default)]
struct Template {
    /// Names in lower case.
    topics: BTreeSet<String>,
    resources: Vec<Node>,
    notes: Vec<String>,
}

impl Template {
    /// `parents`: names of what it is in, within the namespace.
    fn entity<P: Described>(&mut self, of: &EntityDefinition<P>, kind: &str, parents: &[&str]) {
        let default = P::default();
        let mut properties = Vec::new();
        let mut authorization = Vec::new();
        let mut waits_for = Vec::new();
        for (property, value) in of.properties.given() {
            let is_default = property.get(&default).as_ref() == Some(&value);
            if !is_in_templates(property, P::KIND) {
                if !is_default {
                    let (kind, name) = (P::KIND.as_str(), &of.name);
                    let note = format!("{kind} {name}: a template cannot say {}", property.element);
                    self.notes.push(note);
                }
                continue;
            }
            // What Azure takes in some tiers only is said where it is another.
            if is_default && is_of_a_tier(property) {
                continue;
            }
            let value = match value {
                PropertyValue::Duration(span) => Node::Text(duration::show_iso_8601_ms(span.0)),
                PropertyValue::Number(number) => Node::Integer(number.into()),
                PropertyValue::Flag(flag) => Node::Bool(flag),
                PropertyValue::Text(said) => literal(&said),
                PropertyValue::Destination(None) => continue,
                PropertyValue::Destination(Some(to)) => {
                    let value = literal(&to);
                    waits_for.push(to);
                    value
                }
                PropertyValue::Status(status) => text(status.as_str()),
                PropertyValue::AuthorizationRules(rules) => {
                    authorization = rules;
                    continue;
                }
            };
            properties.push((property::name(property), value));
        }
        if of.name.contains('~') {
            let name = &of.name;
            self.notes
                .push(format!("{name}: in a template, '~' is read as '/'; give it another name"));
        }
        let names: Vec<&str> = parents.iter().copied().chain([of.name.as_str()]).collect();
        self.push(kind, &names, properties, &waits_for);
        for rule in authorization {
            let rights = word::rights(&rule).into_iter().map(|right| {
                let (first, rest) = right.split_at(1);
                text(&(first.to_ascii_uppercase() + rest))
            });
            let rights = vec![("rights".to_owned(), Node::List(rights.collect()))];
            let names: Vec<&str> = names.iter().copied().chain([rule.name.as_str()]).collect();
            self.push(&format!("{kind}/authorizationRules"), &names, rights, &[]);
        }
    }

    fn rule(&mut self, rule: &NewRule, names: &[&str]) {
        let sql = |sql: &SqlText| object([("sqlExpression", literal(&sql.text))]);
        let mut lost = rule.action.as_ref().is_some_and(|action| !action.parameters.is_empty());
        let (kind, name, filter) = match &rule.filter {
            RuleFilter::True => {
                ("SqlFilter", "sqlFilter", object([("sqlExpression", text("1=1"))]))
            }
            RuleFilter::False => {
                ("SqlFilter", "sqlFilter", object([("sqlExpression", text("1=0"))]))
            }
            RuleFilter::Sql(of) => {
                lost |= !of.parameters.is_empty();
                ("SqlFilter", "sqlFilter", sql(of))
            }
            RuleFilter::Correlation(of) => {
                lost |= !of.properties.values().all(is_plain);
                ("CorrelationFilter", "correlationFilter", correlation(of))
            }
        };
        let mut properties = vec![("filterType".to_owned(), text(kind)), (name.to_owned(), filter)];
        properties.extend(rule.action.as_ref().map(|action| ("action".to_owned(), sql(action))));
        if lost {
            let path = names.join("/");
            self.notes.push(format!(
                "rule {path}/{}: a template has no parameters of SQL, and no conditions but texts, \
                 numbers and truths; write them into the filter",
                rule.name
            ));
        }
        let names: Vec<&str> = names.iter().copied().chain([rule.name.as_str()]).collect();
        self.push("topics/subscriptions/rules", &names, properties, &[]);
    }

    /// A subscription that is created has one that takes everything, and no template removes it.
    fn default_rule(&mut self, names: &[&str]) {
        let default = NewRule { filter: RuleFilter::False, ..NewRule::default() };
        self.rule(&default, names);
    }

    fn push(
        &mut self,
        kind: &str,
        names: &[&str],
        properties: Vec<(String, Node)>,
        waits_for: &[String],
    ) {
        let mut depends = vec![text(&resource_id("", &[]))];
        if let (Some((parent, _)), [parents @ .., _]) = (kind.rsplit_once('/'), names) {
            depends.push(text(&resource_id(parent, parents)));
        }
        for to in waits_for.iter().filter(|to| !names.contains(&to.as_str())) {
            let is_topic = self.topics.contains(&to.to_ascii_lowercase());
            depends.push(text(&resource_id(if is_topic { "topics" } else { "queues" }, &[to])));
        }
        let segments: Vec<String> = names.iter().map(|name| segment(name)).collect();
        let name = quoted(&format!("{{0}}/{}", segments.join("/")));
        self.resources.push(object([
            ("type", text(&format!("Microsoft.ServiceBus/namespaces/{kind}"))),
            ("apiVersion", text(API_VERSION)),
            ("name", text(&format!("[format({name}, parameters('namespaceName'))]"))),
            ("dependsOn", Node::List(depends)),
            ("properties", Node::Object(properties)),
        ]));
    }
}

pub(super) fn is_in_templates(property: &EntityProperty, kind: EntityKind) -> bool {
    match property.element {
        "EnableSubscriptionPartitioning" => false,
        "SupportOrdering" => kind == EntityKind::Topic,
        _ => true,
    }
}

fn is_of_a_tier(property: &EntityProperty) -> bool {
    property.unit() == Some("KB") || matches!(property.of, PropertyType::Text { .. })
}

/// Of what is in the namespace, or the namespace itself.
fn resource_id(kind: &str, names: &[&str]) -> String {
    let kind = ["Microsoft.ServiceBus/namespaces", kind].join("/");
    let names: String = names.iter().map(|name| format!(", {}", quoted(&segment(name)))).collect();
    format!("[resourceId('{}', parameters('namespaceName'){names})]", kind.trim_end_matches('/'))
}

fn object<const N: usize>(members: [(&str, Node); N]) -> Node {
    Node::Object(members.into_iter().map(|(name, node)| (name.to_owned(), node)).collect())
}

/// As it stands: perhaps an expression.
fn text(text: &str) -> Node {
    Node::text(text)
}

/// A text that is no expression, whatever is in it.
fn literal(text: &str) -> Node {
    match text.starts_with('[') && text.ends_with(']') {
        true => Node::Text(format!("[{text}")),
        false => Node::text(text),
    }
}

/// In an expression.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A resource's name has no slash.
fn segment(name: &str) -> String {
    name.replace('/', "~")
}

/// As a correlation filter calls it.
pub(super) fn system_property(property: SystemProperty) -> String {
    match property {
        SystemProperty::Subject => "label".to_owned(),
        other => {
            let (first, rest) = other.name().split_at(1);
            first.to_ascii_lowercase() + rest
        }
    }
}

fn correlation(of: &Conditions) -> Node {
    let texts =
        of.system.iter().map(|(property, value)| (system_property(*property), literal(value)));
    let mut members: Vec<(String, Node)> = texts.collect();
    if !of.properties.is_empty() {
        let values = of.properties.iter().map(|(name, value)| (name.clone(), condition(value)));
        members.push(("properties".to_owned(), Node::Object(values.collect())));
    }
    Node::Object(members)
}

/// JSON has three types of values; another is said as a text, and noted.
fn condition(value: &Value) -> Node {
    match value {
        Value::String(text) | Value::Uri(text) => literal(text),
        other => match crate::scalar::to_node(other) {
            Node::Object(members) => match members.into_iter().find(|(name, _)| name == "value") {
                Some((_, node)) => node,
                None => Node::text(""),
            },
            node => node,
        },
    }
}

fn is_plain(value: &Value) -> bool {
    matches!(
        value,
        Value::Bool(_) | Value::Int(_) | Value::Long(_) | Value::Double(_) | Value::String(_)
    )
}
