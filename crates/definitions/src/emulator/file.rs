//! The file's schema: JSON with comments, durations in ISO 8601.

use std::collections::BTreeMap;

use domain::{
    Abridged, Conditions, Described, NewRule, Patch, QueueProperties, RuleFilter, SqlText,
    SubscriptionProperties, SystemProperty, TopicProperties, Value,
};
use serde::Deserialize;

use super::properties::{FileProperties, schema_defaults};
use super::shape;
use crate::{
    Definitions, EntityDefinition, Lists, Problem, RuleDefinition, SubscriptionDefinition,
};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct File {
    user_config: UserConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct UserConfig {
    namespaces: Vec<Namespace>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Namespace {
    #[serde(default)]
    queues: Vec<Queue>,
    #[serde(default)]
    topics: Vec<Topic>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Queue {
    name: String,
    #[serde(default)]
    properties: FileProperties<QueueProperties>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Topic {
    name: String,
    #[serde(default)]
    properties: FileProperties<TopicProperties>,
    #[serde(default)]
    subscriptions: Vec<TopicSubscription>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct TopicSubscription {
    name: String,
    #[serde(default)]
    properties: FileProperties<SubscriptionProperties>,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Rule {
    name: String,
    properties: RuleProperties,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct RuleProperties {
    filter_type: FilterType,
    correlation_filter: Option<CorrelationFilter>,
    sql_filter: Option<Sql>,
    action: Option<Sql>,
}

#[derive(Clone, Copy, Deserialize)]
enum FilterType {
    Correlation,
    Sql,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Sql {
    #[serde(default)]
    sql_expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
#[derive(Default, PartialEq)]
struct CorrelationFilter {
    content_type: Option<String>,
    correlation_id: Option<String>,
    label: Option<String>,
    message_id: Option<String>,
    reply_to: Option<String>,
    reply_to_session_id: Option<String>,
    session_id: Option<String>,
    to: Option<String>,
    properties: BTreeMap<String, Scalar>,
}

/// A condition's value.
#[derive(Deserialize, PartialEq)]
#[serde(untagged)]
enum Scalar {
    Bool(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

/// The file's entities, unchecked but for their form. `name` is the file's, in every place.
pub(crate) fn read(json: serde_json::Value, name: &str) -> Result<Definitions, Vec<Problem>> {
    let (json, notes) = shape::tidied(json);
    let wrong = |path: &dyn std::fmt::Display, why: &dyn std::fmt::Display| {
        vec![Problem::new(format!("'{name}': {path}"), why)]
    };
    let file: File = serde_path_to_error::deserialize(json).map_err(|error| {
        let why = in_words(&error.inner().to_string());
        wrong(error.path(), &Abridged(&why))
    })?;
    let mut namespaces = file.user_config.namespaces.into_iter();
    let (Some(namespace), None) = (namespaces.next(), namespaces.next()) else {
        let why = "a cluster is one namespace; list exactly one";
        return Err(wrong(&"UserConfig.Namespaces", &why));
    };
    let notes = notes.into_iter().map(|note| format!("'{name}': {note}")).collect();
    let mut definitions = Definitions { notes, ..Definitions::default() };
    let at_namespace = format!("'{name}': UserConfig.Namespaces[0]");
    for (index, Queue { name, properties }) in namespace.queues.into_iter().enumerate() {
        definitions.queues.push(listed(
            format!("{at_namespace}.Queues[{index}]"),
            name,
            properties,
        ));
    }
    for (index, topic) in namespace.topics.into_iter().enumerate() {
        let at = format!("{at_namespace}.Topics[{index}]");
        for (index, subscription) in topic.subscriptions.into_iter().enumerate() {
            let at = format!("{at}.Subscriptions[{index}]");
            definitions.subscriptions.push(subscription.defined(at, &topic.name)?);
        }
        definitions.topics.push(listed(at, topic.name, topic.properties));
    }
    Ok(definitions)
}

fn listed<P: Described>(
    at: String,
    name: String,
    properties: FileProperties<P>,
) -> EntityDefinition<P> {
    let properties: Patch<P> = properties.0;
    let defaults = schema_defaults(&properties);
    EntityDefinition { at, name, properties, defaults, lists: Lists::Whole, is_reference: false }
}

/// As people call what is in a file.
fn in_words(error: &str) -> String {
    let words = [
        ("expected struct Sql", "expected an object with SqlExpression"),
        ("expected struct ", "expected an object: "),
        ("expected a sequence", "expected a list"),
        ("invalid type: map", "invalid type: an object"),
        ("invalid type: sequence", "invalid type: a list"),
        (
            "data did not match any variant of untagged enum Scalar",
            "a condition's value is a text, a number, true or false",
        ),
        ("missing field", "it lacks"),
        ("expected u32", "expected a whole number"),
        ("floating point", "the number"),
        ("unknown variant", "unknown value"),
    ];
    words.into_iter().fold(error.to_owned(), |error, (from, to)| error.replace(from, to))
}

impl TopicSubscription {
    fn defined(self, at: String, topic: &str) -> Result<SubscriptionDefinition, Vec<Problem>> {
        let rule = |(index, rule): (usize, Rule)| {
            let at = format!("{at}.Rules[{index}]");
            match rule.defined() {
                Ok(rule) => Ok(RuleDefinition { at, rule }),
                Err(why) => Err(vec![Problem::new(format!("{at}.Properties"), why)]),
            }
        };
        let rules: Result<Vec<RuleDefinition>, _> =
            self.rules.into_iter().enumerate().map(rule).collect();
        let mut rules = rules?;
        if rules.is_empty() {
            // RULE-2.
            rules.push(RuleDefinition { at: at.clone(), rule: NewRule::default() });
        }
        let entity = listed(at, self.name, self.properties);
        Ok(SubscriptionDefinition { topic: topic.to_owned(), entity, rules: Some(rules) })
    }
}

impl Rule {
    fn defined(self) -> Result<NewRule, String> {
        let RuleProperties { filter_type, correlation_filter, sql_filter, action } =
            self.properties;
        // Tools write the other kind's filter too, with nothing in it.
        let correlation_filter =
            correlation_filter.filter(|filter| *filter != CorrelationFilter::default());
        let sql_filter = sql_filter.filter(|filter| !filter.sql_expression.trim().is_empty());
        let action = action.filter(|action| !action.sql_expression.trim().is_empty());
        let filter = match (filter_type, correlation_filter, sql_filter) {
            (FilterType::Correlation, Some(filter), None) => RuleFilter::Correlation(filter.into()),
            (FilterType::Sql, None, Some(filter)) => RuleFilter::Sql(filter.into()),
            (FilterType::Correlation, ..) => {
                return Err(
                    "FilterType is Correlation: give a CorrelationFilter, and no SqlFilter"
                        .to_owned(),
                );
            }
            (FilterType::Sql, ..) => {
                return Err(
                    "FilterType is Sql: give a SqlFilter, and no CorrelationFilter".to_owned()
                );
            }
        };
        Ok(NewRule { name: self.name, filter, action: action.map(SqlText::from) })
    }
}

impl From<Sql> for SqlText {
    fn from(sql: Sql) -> SqlText {
        SqlText { text: sql.sql_expression, ..SqlText::default() }
    }
}

impl From<CorrelationFilter> for Conditions {
    fn from(of: CorrelationFilter) -> Conditions {
        let texts = [
            (SystemProperty::CorrelationId, of.correlation_id),
            (SystemProperty::MessageId, of.message_id),
            (SystemProperty::To, of.to),
            (SystemProperty::ReplyTo, of.reply_to),
            (SystemProperty::Subject, of.label),
            (SystemProperty::SessionId, of.session_id),
            (SystemProperty::ReplyToSessionId, of.reply_to_session_id),
            (SystemProperty::ContentType, of.content_type),
        ];
        let system = texts.into_iter().filter_map(|(property, text)| Some((property, text?)));
        let properties = of.properties.into_iter().map(|(name, of)| (name, of.into()));
        Conditions {
            system: system.collect(),
            properties: properties.collect(),
            ..Conditions::default()
        }
    }
}

impl From<Scalar> for Value {
    fn from(scalar: Scalar) -> Value {
        match scalar {
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Integer(value) => i32::try_from(value).map_or(Value::Long(value), Value::Int),
            Scalar::Number(value) => Value::Double(value),
            Scalar::Text(value) => Value::String(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Found, Options};

    /// As Microsoft's samples write it, with comments.
    const SAMPLE: &str = r#"{
      // Created at start
      "UserConfig": {
        "Namespaces": [{
          "Name": "sbemulatorns",
          "Queues": [{
            "Name": "queue.1",
            "Properties": {
              "DeadLetteringOnMessageExpiration": false,
              "DefaultMessageTimeToLive": "PT1H", /* an hour */
              "DuplicateDetectionHistoryTimeWindow": "PT20S",
              "ForwardDeadLetteredMessagesTo": "",
              "ForwardTo": "",
              "LockDuration": "PT1M",
              "MaxDeliveryCount": 3,
              "RequiresDuplicateDetection": false,
              "RequiresSession": false,
              "Status": "Active"
            }
          }],
          "Topics": [{
            "Name": "topic.1",
            "Properties": { "DefaultMessageTimeToLive": "PT1H" },
            "Subscriptions": [
              {
                "Name": "subscription.1",
                "Properties": { "MaxDeliveryCount": 3, "ForwardTo": "queue.1" },
                "Rules": [
                  {
                    "Name": "app-prop-filter-1",
                    "Properties": {
                      "FilterType": "Correlation",
                      "CorrelationFilter": { "Label": "subject1", "Properties": { "n": 3, "s": "x" } }
                    }
                  },
                  {
                    "Name": "sql",
                    "Properties": {
                      "FilterType": "Sql",
                      "SqlFilter": { "SqlExpression": "sys.MessageId = '123'" },
                      "Action": { "SqlExpression": "SET sys.To = 'Entity'" }
                    }
                  }
                ]
              },
              { "Name": "subscription.2" },
            ]
          }]
        }],
        "Logging": { "Type": "File" }
      }
    }"#;

    /// The whole way, with all checks; the first of what is wrong.
    fn parse(text: &str) -> Result<Definitions, String> {
        let definitions = crate::read_emulator(text, "f");
        let definitions = definitions.map_err(|problems| problems[0].to_string())?;
        match crate::plan(&definitions, &Found::default(), Options::default()) {
            Ok(_) => Ok(definitions),
            Err(problems) => Err(problems[0].to_string()),
        }
    }

    #[test]
    fn ent_3_the_emulators_sample_is_read() {
        let entities = parse(SAMPLE).expect("the sample");
        let queue = &entities.queues[0];
        assert_eq!(queue.name, "queue.1");
        let hour = domain::Span::from_secs(3600);
        let expected = QueueProperties {
            default_ttl: hour,
            duplicate_detection_window: domain::Span::from_secs(20),
            max_delivery_count: 3,
            ..QueueProperties::default()
        };
        assert_eq!(queue.properties.applied_to(QueueProperties::default()), expected);
        let forwards = QueueProperties { forward_to: Some("x".to_owned()), ..expected.clone() };
        assert_eq!(queue.properties.applied_to(forwards), expected, "an empty text is a value");
        let topic = entities.topics[0].properties.applied_to(TopicProperties::default());
        assert_eq!(topic, TopicProperties { default_ttl: hour, ..TopicProperties::default() });
        let [first, second] = &entities.subscriptions[..] else { panic!("two subscriptions") };
        assert_eq!(first.path().path(), "topic.1/subscription.1");
        let rules = first.rules.as_ref().expect("rules");
        assert_eq!(rules.len(), 2);
        let RuleFilter::Correlation(filter) = &rules[0].rule.filter else {
            panic!("a correlation filter")
        };
        assert_eq!(filter.system[&SystemProperty::Subject], "subject1");
        assert_eq!(filter.properties["n"], Value::Int(3));
        let action = rules[1].rule.action.as_ref().expect("an action");
        assert_eq!(action.text, "SET sys.To = 'Entity'");
        let second = second.rules.as_ref().expect("RULE-2");
        assert_eq!(second[0].rule, NewRule::default());
    }

    /// Each error says where, and what.
    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (from, to, told) in [
            (
                "\"PT20S\"",
                "\"soon\"",
                "UserConfig.Namespaces[0].Queues[0].Properties.DuplicateDetectionHistoryTimeWindow: 'soon' is no duration",
            ),
            (
                "\"Active\"",
                "\"Deleting\"",
                "UserConfig.Namespaces[0].Queues[0].Properties.Status: 'Deleting' is no status",
            ),
            ("\"Name\": \"queue.1\",", "", "UserConfig.Namespaces[0].Queues[0]: it lacks `Name`"),
            (
                "\"Properties\": { \"MaxDeliveryCount\": 3, \"ForwardTo\": \"queue.1\" }",
                "\"Properties\": { \"RequiresSession\": true, \"ForwardTo\": \"queue.1\" }",
                "Subscriptions[0] (subscription.1): what requires sessions cannot be forwarded",
            ),
            (
                "\"PT1M\"",
                "\"PT1H\"",
                "UserConfig.Namespaces[0].Queues[0] (queue.1): LockDuration is 3600000 ms, allowed is more than 0, up to 5 min",
            ),
            (
                "\"queue.1\",\n",
                "\"queue 1\",\n",
                "UserConfig.Namespaces[0].Queues[0] (queue 1): entity name: ' ' is not a letter",
            ),
            (
                "\"subscription.2\"",
                "\"subscription.1\"",
                "UserConfig.Namespaces[0].Topics[0].Subscriptions[1]: 'topic.1/subscription.1' is listed before",
            ),
            (
                "sys.MessageId = '123'",
                "sys.MessageId =",
                "UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Rules[1] (sql): ",
            ),
            (
                "\"FilterType\": \"Sql\"",
                "\"FilterType\": \"Correlation\"",
                "Subscriptions[0].Rules[1].Properties: FilterType is Correlation: give a CorrelationFilter",
            ),
            (
                "\"MaxDeliveryCount\": 3,",
                "\"MaxDeliveryCount\": -3,",
                "UserConfig.Namespaces[0].Queues[0].Properties.MaxDeliveryCount: invalid value",
            ),
            (
                "\"Namespaces\": [{",
                "\"Namespaces\": [{}, {",
                "UserConfig.Namespaces: a cluster is one namespace",
            ),
            ("\"UserConfig\": {", "\"UserConfig\": [", "it is no JSON: "),
        ] {
            let text = SAMPLE.replacen(from, to, 1);
            assert_ne!(text, SAMPLE, "{from}");
            let error = parse(&text).expect_err(to);
            assert!(error.contains(told), "{error}");
        }
        assert!(parse("").is_err());
    }

    const PLACE: &str = "UserConfig.Namespaces[0]";

    /// A file with one queue, and a topic with one subscription that has one rule.
    fn file(queue: &str, rule: &str, beside: &str) -> String {
        let topic = format!(
            r#"{{"Name": "t", "Properties": null, "Subscriptions": [{{"Name": "s", "Rules": [{{"Name": "r", "Properties": {{{rule}}}}}]}}]}}"#
        );
        format!(
            r#"{{"UserConfig": {{"Namespaces": [{{"Name": "n", "Queues": [{{"Name": "q"{queue}}}], "Topics": [{topic}]}}]}}{beside}}}"#
        )
    }

    const SQL: &str = r#""FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = 1"}"#;

    /// What the emulator's schema allows and tools write, and what of it nobody knows.
    #[test]
    fn what_changes_nothing_is_notes_and_told() {
        let queue = |members: &str| file(&format!(r#", "Properties": {{{members}}}"#), SQL, "");
        let rule = |members: &str| file("", members, "");
        let beside = |members: &str| file("", SQL, members);
        const LABEL: &str = r#""FilterType": "Correlation", "CorrelationFilter": {"Label": "x""#;
        for (text, notes) in [
            (file("", SQL, ""), &[][..]),
            (file(r#", "Properties": null"#, SQL, ""), &[]),
            (file(r#", "properties": {"maxdeliverycount": 3}"#, SQL, ""), &[]),
            (
                queue(r#""EnablePartitioning": false, "EnableExpress": false, "Status": "Active""#),
                &[],
            ),
            (queue(r#""ForwardTo": null, "LockDuration": null"#), &[]),
            (queue(r#""AutoDeleteOnIdle": "P1M", "DefaultMessageTimeToLive": "P1Y""#), &[]),
            (queue(r#""LockDurtion": "PT1M""#), &["Queues[0].Properties.LockDurtion"]),
            (file(r#", "Description": "x""#, SQL, ""), &["Queues[0].Description"]),
            (
                beside(r#", "Custom": 42, "$schema": "x", "More": {"Custom": 1}"#),
                &["Custom", "More"],
            ),
            (rule(&format!(r#"{SQL}, "CorrelationFilter": {{}}"#)), &[]),
            (rule(&format!(r#"{SQL}, "CorrelationFilter": null, "Action": null"#)), &[]),
            (
                rule(&format!(
                    r#"{SQL}, "Action": {{"SqlExpression": "", "CompatibilityLevel": 20}}"#
                )),
                &[],
            ),
            (
                rule(&format!(
                    r#"{SQL}, "CorrelationFilter": {{"Properties": {{}}, "Label": null, "RequiresPreprocessing": false}}"#
                )),
                &[],
            ),
            (rule(&format!(r#"{LABEL}, "RequiresPreprocessing": false}}"#)), &[]),
            (rule(&format!(r#"{LABEL}, "Properties": {{"a": null}}}}, "SqlFilter": {{}}"#)), &[]),
            (
                rule(&format!(r#"{LABEL}, "Colour": "x"}}"#)),
                &["Topics[0].Subscriptions[0].Rules[0].Properties.CorrelationFilter.Colour"],
            ),
        ] {
            let entities = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let told = entities.notes.iter().map(|note| {
                let note = note.strip_prefix("'f': ").unwrap_or(note);
                let place = note.strip_suffix(" is not known, and passed over").unwrap_or(note);
                place.replace(&format!("{PLACE}."), "")
            });
            assert_eq!(told.collect::<Vec<_>>(), notes, "{text}");
        }
        for text in [
            rule(r#""FilterType": "Sql", "CorrelationFilter": {"Label": "x"}"#),
            rule(&format!(r#"{SQL}, "CorrelationFilter": {{"Label": "x"}}"#)),
            rule(r#""FilterType": "Correlation", "CorrelationFilter": {}"#),
            queue(r#""MaxDeliveryCount": [3]"#),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(
                error.starts_with(&format!("'f': {PLACE}")) && !error.contains("struct"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_a_file_leaves_out_is_as_the_emulators_schema_has_it() {
        let entities = parse(&file("", SQL, "")).expect("a file");
        let queue = entities.queues[0].at_creation().created();
        let expected = QueueProperties {
            default_ttl: domain::Span::from_secs(3600),
            duplicate_detection_window: domain::Span::from_secs(20),
            max_delivery_count: 3,
            ..QueueProperties::default()
        };
        assert_eq!(queue, expected);
        assert_eq!(
            entities.topics[0].at_creation().created().default_ttl,
            domain::Span::from_secs(3600)
        );
        assert_eq!(entities.subscriptions[0].entity.at_creation().created().max_delivery_count, 3);
        let text = r#", "Properties": {"MaxDeliveryCount": 9, "DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S", "DuplicateDetectionHistoryTimeWindow": "PT5S"}"#;
        let entities = parse(&file(text, SQL, "")).expect("a file");
        let queue = entities.queues[0].at_creation().created();
        assert_eq!((queue.max_delivery_count, queue.default_ttl), (9, domain::Span::MAX));
        assert_eq!(queue.duplicate_detection_window, domain::Span::from_secs(20), "DUP-3");
        let note = "Queues[0].Properties.DuplicateDetectionHistoryTimeWindow is taken as 20s";
        assert_eq!(entities.notes, [format!("'f': {PLACE}.{note}")]);
    }
}
