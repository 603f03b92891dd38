//! Definitions as a document that says everything of them, so that it can be compared and applied
//! anywhere.

use domain::{AuthorizationRule, Described, PropertyValue};

use super::VERSION;
use crate::{Definitions, EntityDefinition, Node, duration, rule, word};

/// `secrets`: the keys of authorization rules too.
pub fn write(definitions: &Definitions, secrets: bool) -> Node {
    let queues = definitions.queues.iter().map(|queue| Node::Object(entity(queue, secrets)));
    let topics = definitions.topics.iter().map(|topic| {
        let mut members = entity(topic, secrets);
        let its = definitions
            .subscriptions
            .iter()
            .filter(|one| one.topic.eq_ignore_ascii_case(&topic.name))
            .map(|subscription| {
                let mut members = entity(&subscription.entity, secrets);
                if let Some(rules) = &subscription.rules {
                    let rules = rules.iter().map(|rule| rule::write(&rule.rule)).collect();
                    members.push(("rules".to_owned(), Node::List(rules)));
                }
                Node::Object(members)
            });
        members.push(("subscriptions".to_owned(), Node::List(its.collect())));
        Node::Object(members)
    });
    Node::Object(vec![
        ("version".to_owned(), Node::Integer(VERSION as i64)),
        ("queues".to_owned(), Node::List(queues.collect())),
        ("topics".to_owned(), Node::List(topics.collect())),
    ])
}

fn entity<P: Described>(of: &EntityDefinition<P>, secrets: bool) -> Vec<(String, Node)> {
    let mut members = vec![("name".to_owned(), Node::text(&of.name))];
    let given = of.properties.given();
    members.extend(given.map(|(property, of)| (property.name.to_owned(), value(of, secrets))));
    members
}

fn value(value: PropertyValue, secrets: bool) -> Node {
    match value {
        PropertyValue::Duration(span) => Node::Text(duration::show_ms(span.0)),
        PropertyValue::Number(number) => Node::Integer(number.into()),
        PropertyValue::Flag(flag) => Node::Bool(flag),
        PropertyValue::Text(text) => Node::Text(text),
        PropertyValue::Destination(name) => Node::Text(name.unwrap_or_default()),
        PropertyValue::Status(status) => Node::text(status.as_str()),
        PropertyValue::AuthorizationRules(rules) => {
            Node::List(rules.iter().map(|rule| authorization(rule, secrets)).collect())
        }
    }
}

fn authorization(rule: &AuthorizationRule, secrets: bool) -> Node {
    let rights = word::rights(rule).into_iter().map(Node::text).collect();
    let mut members = vec![
        ("name".to_owned(), Node::text(&rule.name)),
        ("rights".to_owned(), Node::List(rights)),
    ];
    if secrets {
        members.push(("primary_key".to_owned(), Node::text(&rule.primary_key)));
        members.push(("secondary_key".to_owned(), Node::text(&rule.secondary_key)));
    }
    Node::Object(members)
}

#[cfg(test)]
mod tests {
    use domain::{
        AccessRights, Conditions, EntityProperty, EntityStatus, NewRule, Patch, Properties,
        PropertyType, RuleFilter, Span, SqlText, SystemProperty, Value,
    };

    use super::*;
    use crate::document::{read, toml_to_json};
    use crate::{RuleDefinition, SubscriptionDefinition};

    /// Another value than the default of every property that such an entity has.
    fn all_else<P: Described>() -> Patch<P> {
        let mut patch = Patch::default();
        for property in EntityProperty::all_of(P::KIND) {
            let value = match &property.of {
                PropertyType::Duration { .. } => PropertyValue::Duration(Span(301_017)),
                PropertyType::Number { .. } => PropertyValue::Number(2048),
                PropertyType::Flag(field) => {
                    PropertyValue::Flag(field.of(&P::default()) == Some(&false))
                }
                PropertyType::Text { .. } => PropertyValue::Text("\"a\"\n\\ é \u{7f}".into()),
                PropertyType::Destination(_) => PropertyValue::Destination(Some("a/b.c".into())),
                PropertyType::Status(_) => PropertyValue::Status(EntityStatus::Disabled),
                PropertyType::AuthorizationRules(_) => {
                    PropertyValue::AuthorizationRules(vec![AuthorizationRule {
                        name: "worker".into(),
                        rights: AccessRights { listen: true, send: true, manage: false },
                        primary_key: "k1".into(),
                        secondary_key: "k2".into(),
                        ..Default::default()
                    }])
                }
            };
            patch.set(property, value);
        }
        patch
    }

    fn named<P: Described>(name: &str, properties: Patch<P>) -> EntityDefinition<P> {
        EntityDefinition { name: name.to_owned(), properties, ..EntityDefinition::default() }
    }

    fn rule(name: &str, filter: RuleFilter, action: Option<SqlText>) -> RuleDefinition {
        let rule = NewRule { name: name.to_owned(), filter, action };
        RuleDefinition { at: String::new(), rule }
    }

    fn everything() -> Definitions {
        let parameters: Properties =
            [("@least".to_owned(), Value::Int(5)), ("@most".to_owned(), Value::Long(7))].into();
        let sql = SqlText { text: "a > @least".into(), parameters, ..SqlText::default() };
        let plain = SqlText { text: "SET b = 'it''s'".into(), ..SqlText::default() };
        let conditions = Conditions {
            system: SystemProperty::all()
                .filter(|property| property.is_correlated())
                .map(|property| (property, property.name().to_owned()))
                .collect(),
            properties: [
                ("n".to_owned(), Value::Double(0.5)),
                ("a.b c".to_owned(), Value::Uuid([1; 16])),
            ]
            .into(),
            ..Conditions::default()
        };
        let rules = vec![
            rule("all", RuleFilter::True, None),
            rule("none", RuleFilter::False, Some(plain.clone())),
            rule("sql", RuleFilter::Sql(sql.clone()), Some(sql)),
            rule("plain", RuleFilter::Sql(plain), None),
            rule("equal", RuleFilter::Correlation(conditions), None),
        ];
        let subscription = |name: &str, rules| SubscriptionDefinition {
            topic: "t/é".into(),
            entity: named(name, all_else()),
            rules,
        };
        Definitions {
            queues: vec![named("a/b", all_else()), named("c", Patch::of(Default::default()))],
            topics: vec![named("t/é", all_else()), named("u", Patch::default())],
            subscriptions: vec![
                subscription("s", Some(rules)),
                subscription("none", Some(Vec::new())),
                subscription("as-it-is", None),
            ],
            notes: Vec::new(),
        }
    }

    /// Without where it was read.
    fn placeless(mut of: Definitions) -> Definitions {
        of.queues.iter_mut().for_each(|queue| queue.at.clear());
        of.topics.iter_mut().for_each(|topic| topic.at.clear());
        for subscription in &mut of.subscriptions {
            subscription.entity.at.clear();
            subscription.rules.iter_mut().flatten().for_each(|rule| rule.at.clear());
        }
        of
    }

    /// A property that is added to the table is here without a line of this crate.
    #[test]
    fn ent_3_every_property_and_rule_is_read_as_it_was_written() {
        let written = write(&everything(), true);
        let json = serde_json::to_string_pretty(&written).expect("JSON");
        let read_json = read(&serde_json::from_str(&json).expect("JSON"), "x.json");
        assert_eq!(read_json.map(placeless), Ok(everything()), "{json}");
        let toml = written.to_toml();
        let table: toml::Table = toml.parse().unwrap_or_else(|error| panic!("{error}\n{toml}"));
        let read_toml = read(&toml_to_json(table.into()), "x.toml");
        assert_eq!(read_toml.map(placeless), Ok(everything()), "{toml}");
    }

    #[test]
    fn ent_11_keys_are_written_when_they_are_asked_for() {
        let of = |secrets| write(&everything(), secrets).to_toml();
        assert!(of(true).contains("primary_key = \"k1\""));
        assert!(!of(false).contains("k1") && of(false).contains("rights = [\"listen\", \"send\"]"));
    }
}
