//! The file's schema: JSON with comments, durations in ISO 8601.

use std::collections::BTreeMap;

use client::v1;
use client::v1::filter::Kind;
use domain::Value;
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use wire::native;

use super::{Entities, Listed, Subscription};
use crate::input::duration;

/// JSON, comments, and commas behind the last of a list: no more than editors allow in such files.
const DIALECT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct File {
    #[serde(rename = "$schema")]
    _schema: Option<IgnoredAny>,
    user_config: UserConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct UserConfig {
    namespaces: Vec<Namespace>,
    #[serde(rename = "Logging")]
    _logging: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Namespace {
    #[serde(rename = "Name")]
    _name: Option<String>,
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
    properties: QueueProperties,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Topic {
    name: String,
    #[serde(default)]
    properties: TopicProperties,
    #[serde(default)]
    subscriptions: Vec<TopicSubscription>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct TopicSubscription {
    name: String,
    #[serde(default)]
    properties: SubscriptionProperties,
    #[serde(default)]
    rules: Vec<Rule>,
}

/// ENT-3: the emulator's properties, and the others that queues have here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
struct QueueProperties {
    #[serde(deserialize_with = "span_ms")]
    lock_duration: Option<u64>,
    max_size_in_megabytes: Option<u32>,
    max_message_size_in_kilobytes: Option<u32>,
    requires_duplicate_detection: Option<bool>,
    #[serde(deserialize_with = "span_ms")]
    duplicate_detection_history_time_window: Option<u64>,
    requires_session: Option<bool>,
    #[serde(deserialize_with = "span_ms")]
    default_message_time_to_live: Option<u64>,
    #[serde(deserialize_with = "span_ms")]
    auto_delete_on_idle: Option<u64>,
    dead_lettering_on_message_expiration: Option<bool>,
    max_delivery_count: Option<u32>,
    enable_batched_operations: Option<bool>,
    user_metadata: Option<String>,
    forward_to: Option<String>,
    forward_dead_lettered_messages_to: Option<String>,
}

/// As of queues.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
struct TopicProperties {
    max_size_in_megabytes: Option<u32>,
    max_message_size_in_kilobytes: Option<u32>,
    requires_duplicate_detection: Option<bool>,
    #[serde(deserialize_with = "span_ms")]
    duplicate_detection_history_time_window: Option<u64>,
    #[serde(deserialize_with = "span_ms")]
    default_message_time_to_live: Option<u64>,
    #[serde(deserialize_with = "span_ms")]
    auto_delete_on_idle: Option<u64>,
    enable_batched_operations: Option<bool>,
    support_ordering: Option<bool>,
    user_metadata: Option<String>,
}

/// As of queues.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
struct SubscriptionProperties {
    #[serde(deserialize_with = "span_ms")]
    lock_duration: Option<u64>,
    requires_session: Option<bool>,
    #[serde(deserialize_with = "span_ms")]
    default_message_time_to_live: Option<u64>,
    #[serde(deserialize_with = "span_ms")]
    auto_delete_on_idle: Option<u64>,
    dead_lettering_on_message_expiration: Option<bool>,
    dead_lettering_on_filter_evaluation_exceptions: Option<bool>,
    max_delivery_count: Option<u32>,
    enable_batched_operations: Option<bool>,
    user_metadata: Option<String>,
    forward_to: Option<String>,
    forward_dead_lettered_messages_to: Option<String>,
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
    sql_expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
#[derive(Default)]
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
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Bool(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

fn span_ms<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    let text = Option::<String>::deserialize(input)?;
    text.map(|text| duration::parse_ms(&text).map_err(D::Error::custom)).transpose()
}

/// The file's entities, unchecked but for their form.
pub(super) fn parse(text: &str) -> Result<Entities, String> {
    // An editor of another system may have put it there.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json: serde_json::Value =
        parse_to_serde_value(text, &DIALECT).map_err(|error| format!("it is no JSON: {error}"))?;
    let file: File = serde_path_to_error::deserialize(json)
        .map_err(|error| format!("{}: {}", error.path(), error.inner()))?;
    let mut namespaces = file.user_config.namespaces.into_iter();
    let (Some(namespace), None) = (namespaces.next(), namespaces.next()) else {
        return Err(
            "UserConfig.Namespaces: a cluster is one namespace; list exactly one".to_owned()
        );
    };
    let mut entities = Entities::default();
    for (index, Queue { name, properties }) in namespace.queues.into_iter().enumerate() {
        let at = format!("UserConfig.Namespaces[0].Queues[{index}]");
        entities.queues.push(Listed { at, name, properties: properties.into() });
    }
    for (index, topic) in namespace.topics.into_iter().enumerate() {
        let at = format!("UserConfig.Namespaces[0].Topics[{index}]");
        for (index, subscription) in topic.subscriptions.into_iter().enumerate() {
            let at = format!("{at}.Subscriptions[{index}]");
            entities.subscriptions.push(subscription.listed(at, &topic.name)?);
        }
        entities.topics.push(Listed { at, name: topic.name, properties: topic.properties.into() });
    }
    Ok(entities)
}

impl TopicSubscription {
    fn listed(self, at: String, topic: &str) -> Result<Subscription, String> {
        let rule = |(index, rule): (usize, Rule)| {
            rule.into_wire().map_err(|why| format!("{at}.Rules[{index}].Properties: {why}"))
        };
        let rules = self.rules.into_iter().enumerate().map(rule).collect::<Result<_, String>>()?;
        let listed = Listed { at, name: self.name, properties: self.properties.into() };
        Ok(Subscription { listed, topic: topic.to_owned(), rules })
    }
}

impl From<QueueProperties> for v1::QueueProperties {
    fn from(of: QueueProperties) -> v1::QueueProperties {
        v1::QueueProperties {
            lock_duration_ms: of.lock_duration,
            max_size_megabytes: of.max_size_in_megabytes,
            max_message_size_kilobytes: of.max_message_size_in_kilobytes,
            requires_duplicate_detection: of.requires_duplicate_detection,
            duplicate_detection_window_ms: of.duplicate_detection_history_time_window,
            requires_session: of.requires_session,
            default_ttl_ms: of.default_message_time_to_live,
            auto_delete_on_idle_ms: of.auto_delete_on_idle,
            dead_letter_on_expiration: of.dead_lettering_on_message_expiration,
            max_delivery_count: of.max_delivery_count,
            status: None,
            user_metadata: of.user_metadata,
            // The file has none.
            authorization_rules: None,
            enable_batched_operations: of.enable_batched_operations,
            forward_to: of.forward_to,
            forward_dead_letters_to: of.forward_dead_lettered_messages_to,
        }
    }
}

impl From<TopicProperties> for v1::TopicProperties {
    fn from(of: TopicProperties) -> v1::TopicProperties {
        v1::TopicProperties {
            max_size_megabytes: of.max_size_in_megabytes,
            max_message_size_kilobytes: of.max_message_size_in_kilobytes,
            requires_duplicate_detection: of.requires_duplicate_detection,
            duplicate_detection_window_ms: of.duplicate_detection_history_time_window,
            default_ttl_ms: of.default_message_time_to_live,
            auto_delete_on_idle_ms: of.auto_delete_on_idle,
            status: None,
            user_metadata: of.user_metadata,
            // The file has none.
            authorization_rules: None,
            enable_batched_operations: of.enable_batched_operations,
            support_ordering: of.support_ordering,
            filter_before_publishing: None,
        }
    }
}

impl From<SubscriptionProperties> for v1::SubscriptionProperties {
    fn from(of: SubscriptionProperties) -> v1::SubscriptionProperties {
        v1::SubscriptionProperties {
            lock_duration_ms: of.lock_duration,
            requires_session: of.requires_session,
            default_ttl_ms: of.default_message_time_to_live,
            auto_delete_on_idle_ms: of.auto_delete_on_idle,
            dead_letter_on_expiration: of.dead_lettering_on_message_expiration,
            dead_letter_on_filter_errors: of.dead_lettering_on_filter_evaluation_exceptions,
            max_delivery_count: of.max_delivery_count,
            status: None,
            user_metadata: of.user_metadata,
            enable_batched_operations: of.enable_batched_operations,
            forward_to: of.forward_to,
            forward_dead_letters_to: of.forward_dead_lettered_messages_to,
        }
    }
}

impl Rule {
    fn into_wire(self) -> Result<v1::Rule, String> {
        let RuleProperties { filter_type, correlation_filter, sql_filter, action } =
            self.properties;
        let kind = match (filter_type, correlation_filter, sql_filter) {
            (FilterType::Correlation, Some(filter), None) => Kind::Correlation(filter.into()),
            (FilterType::Sql, None, Some(filter)) => Kind::Sql(filter.into()),
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
        Ok(v1::Rule {
            name: self.name,
            filter: Some(v1::Filter { kind: Some(kind) }),
            action: action.map(v1::Sql::from),
            created_at_ms: 0,
        })
    }
}

impl From<Sql> for v1::Sql {
    fn from(sql: Sql) -> v1::Sql {
        v1::Sql { text: sql.sql_expression, ..Default::default() }
    }
}

impl From<CorrelationFilter> for v1::Correlation {
    fn from(of: CorrelationFilter) -> v1::Correlation {
        let value = |scalar| native::value_to_v1(&Value::from(scalar));
        v1::Correlation {
            correlation_id: of.correlation_id,
            message_id: of.message_id,
            to: of.to,
            reply_to: of.reply_to,
            subject: of.label,
            session_id: of.session_id,
            reply_to_session_id: of.reply_to_session_id,
            content_type: of.content_type,
            properties: of.properties.into_iter().map(|(name, of)| (name, value(of))).collect(),
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
              "RequiresSession": false
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

    #[test]
    fn ent_3_the_emulators_sample_is_read() {
        let entities = parse(SAMPLE).unwrap();
        assert_eq!(entities.check(), Ok(()));
        let queue = &entities.queues[0];
        assert_eq!(queue.name, "queue.1");
        assert_eq!(queue.properties.default_ttl_ms, Some(3_600_000));
        assert_eq!(queue.properties.forward_to.as_deref(), Some(""));
        assert_eq!(entities.topics[0].properties.default_ttl_ms, Some(3_600_000));
        let [first, second] = &entities.subscriptions[..] else { panic!("two subscriptions") };
        assert_eq!(first.path(), "topic.1/Subscriptions/subscription.1");
        assert_eq!(first.rules.len(), 2);
        let Some(Kind::Correlation(filter)) = first.rules[0].filter.clone().unwrap().kind else {
            panic!("a correlation filter")
        };
        assert_eq!(filter.subject.as_deref(), Some("subject1"));
        assert_eq!(filter.properties["n"], native::value_to_v1(&Value::Int(3)));
        assert_eq!(first.rules[1].action.as_ref().unwrap().text, "SET sys.To = 'Entity'");
        assert!(second.rules.is_empty());
    }

    /// Each error says where, and what.
    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let read = |text: &str| parse(text).and_then(|entities| entities.check());
        for (from, to, told) in [
            (
                "\"PT20S\"",
                "\"soon\"",
                "UserConfig.Namespaces[0].Queues[0].Properties.DuplicateDetectionHistoryTimeWindow: 'soon' is no duration",
            ),
            (
                "\"LockDuration\"",
                "\"LockDurtion\"",
                "UserConfig.Namespaces[0].Queues[0].Properties.LockDurtion: unknown field `LockDurtion`, expected one of",
            ),
            (
                "\"PT1M\"",
                "\"PT1H\"",
                "UserConfig.Namespaces[0].Queues[0]: LockDuration is 3600000 ms, allowed is 5 s to 5 min",
            ),
            (
                "\"queue.1\",\n",
                "\"queue 1\",\n",
                "UserConfig.Namespaces[0].Queues[0]: entity name: ' ' is not a letter",
            ),
            (
                "\"subscription.2\"",
                "\"subscription.1\"",
                "UserConfig.Namespaces[0].Topics[0].Subscriptions[1]: 'topic.1/Subscriptions/subscription.1' is listed before",
            ),
            (
                "sys.MessageId = '123'",
                "sys.MessageId =",
                "UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Rules[1]: ",
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
            let error = read(&text).expect_err(to);
            assert!(error.contains(told), "{error}");
        }
        assert!(parse("").is_err());
    }
}
