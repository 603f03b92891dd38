//! How what is there differs from what a file says. What the file does not mention may be anything.

use client::v1;

use crate::input::duration;

/// A property as people read it.
trait Shown {
    fn shown(&self) -> String;
}

impl Shown for bool {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for u32 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

/// Milliseconds.
impl Shown for u64 {
    fn shown(&self) -> String {
        duration::show_ms(*self)
    }
}

impl Shown for String {
    fn shown(&self) -> String {
        format!("'{self}'")
    }
}

fn difference<T: Shown + PartialEq>(
    name: &str,
    found: &Option<T>,
    listed: &Option<T>,
) -> Option<String> {
    let listed = listed.as_ref().filter(|listed| found.as_ref() != Some(*listed))?;
    let found = found.as_ref().map_or_else(String::new, Shown::shown);
    Some(format!("{name} is {found}, the file says {}", listed.shown()))
}

macro_rules! differences {
    ($found:expr, $listed:expr, $($field:ident $name:literal),+ $(,)?) => {
        [$(difference($name, &$found.$field, &$listed.$field)),+].into_iter().flatten().collect()
    };
}

pub(super) fn queues(found: &v1::QueueProperties, listed: &v1::QueueProperties) -> Vec<String> {
    let mut listed = listed.clone();
    if forwards(&listed.forward_to, &listed.forward_dead_letters_to) {
        listed.auto_delete_on_idle_ms = None;
    }
    differences!(
        found, listed,
        lock_duration_ms "LockDuration",
        max_size_megabytes "MaxSizeInMegabytes",
        max_message_size_kilobytes "MaxMessageSizeInKilobytes",
        requires_duplicate_detection "RequiresDuplicateDetection",
        duplicate_detection_window_ms "DuplicateDetectionHistoryTimeWindow",
        requires_session "RequiresSession",
        default_ttl_ms "DefaultMessageTimeToLive",
        auto_delete_on_idle_ms "AutoDeleteOnIdle",
        dead_letter_on_expiration "DeadLetteringOnMessageExpiration",
        max_delivery_count "MaxDeliveryCount",
        user_metadata "UserMetadata",
        enable_batched_operations "EnableBatchedOperations",
        forward_to "ForwardTo",
        forward_dead_letters_to "ForwardDeadLetteredMessagesTo",
    )
}

pub(super) fn topics(found: &v1::TopicProperties, listed: &v1::TopicProperties) -> Vec<String> {
    differences!(
        found, listed,
        max_size_megabytes "MaxSizeInMegabytes",
        max_message_size_kilobytes "MaxMessageSizeInKilobytes",
        requires_duplicate_detection "RequiresDuplicateDetection",
        duplicate_detection_window_ms "DuplicateDetectionHistoryTimeWindow",
        default_ttl_ms "DefaultMessageTimeToLive",
        auto_delete_on_idle_ms "AutoDeleteOnIdle",
        user_metadata "UserMetadata",
        enable_batched_operations "EnableBatchedOperations",
        support_ordering "SupportOrdering",
    )
}

pub(super) fn subscriptions(
    found: &v1::SubscriptionProperties,
    listed: &v1::SubscriptionProperties,
) -> Vec<String> {
    let mut listed = listed.clone();
    if forwards(&listed.forward_to, &listed.forward_dead_letters_to) {
        listed.auto_delete_on_idle_ms = None;
    }
    differences!(
        found, listed,
        lock_duration_ms "LockDuration",
        requires_session "RequiresSession",
        default_ttl_ms "DefaultMessageTimeToLive",
        auto_delete_on_idle_ms "AutoDeleteOnIdle",
        dead_letter_on_expiration "DeadLetteringOnMessageExpiration",
        dead_letter_on_filter_errors "DeadLetteringOnFilterEvaluationExceptions",
        max_delivery_count "MaxDeliveryCount",
        user_metadata "UserMetadata",
        enable_batched_operations "EnableBatchedOperations",
        forward_to "ForwardTo",
        forward_dead_letters_to "ForwardDeadLetteredMessagesTo",
    )
}

/// FWD-11: what forwards is never deleted for idleness, whatever it is told.
pub(super) fn forwards(to: &Option<String>, dead_letters_to: &Option<String>) -> bool {
    [to, dead_letters_to].into_iter().flatten().any(|name| !name.is_empty())
}

/// `listed` is empty: the default rule alone (RULE-2).
pub(super) fn rules(found: &[v1::Rule], listed: &[v1::Rule]) -> Vec<String> {
    let default = [v1::Rule {
        name: domain::DEFAULT_RULE.to_owned(),
        filter: Some(v1::Filter { kind: Some(v1::filter::Kind::Constant(true)) }),
        ..Default::default()
    }];
    let listed = if listed.is_empty() { &default[..] } else { listed };
    let of = |rules: &[v1::Rule], name: &str| {
        rules.iter().find(|rule| rule.name.eq_ignore_ascii_case(name)).cloned()
    };
    let missing = listed.iter().filter_map(|rule| match of(found, &rule.name) {
        None => Some(format!("it has no rule '{}'", rule.name)),
        Some(other) if other.filter != rule.filter || other.action != rule.action => {
            Some(format!("its rule '{}' has another filter or action", rule.name))
        }
        Some(_) => None,
    });
    let more = found.iter().filter(|rule| of(listed, &rule.name).is_none());
    missing.chain(more.map(|rule| format!("it has a rule '{}' too", rule.name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_file_says_is_compared() {
        let found = v1::QueueProperties {
            lock_duration_ms: Some(60_000),
            max_delivery_count: Some(10),
            forward_to: Some("a".into()),
            ..Default::default()
        };
        let listed = v1::QueueProperties {
            lock_duration_ms: Some(60_000),
            max_delivery_count: Some(3),
            forward_to: Some(String::new()),
            ..Default::default()
        };
        assert_eq!(
            queues(&found, &listed),
            ["MaxDeliveryCount is 10, the file says 3", "ForwardTo is 'a', the file says ''"]
        );
        assert!(queues(&found, &v1::QueueProperties::default()).is_empty());
    }

    #[test]
    fn rule_2_without_rules_there_is_the_default_one() {
        let rule = |name: &str, flag| v1::Rule {
            name: name.to_owned(),
            filter: Some(v1::Filter { kind: Some(v1::filter::Kind::Constant(flag)) }),
            created_at_ms: 7,
            ..Default::default()
        };
        assert!(rules(&[rule("$Default", true)], &[]).is_empty());
        assert_eq!(rules(&[], &[]), ["it has no rule '$Default'"]);
        assert_eq!(
            rules(&[rule("A", false), rule("b", true)], &[rule("a", true)]),
            ["its rule 'a' has another filter or action", "it has a rule 'b' too"]
        );
    }
}
