//! Topics and subscriptions: what each is told to be (ENT-3), and how a subscription is named.

use crate::{AuthorizationRule, EntityId, EntityStatus, QueueProperties, Span};

/// What an entity is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntityKind {
    #[default]
    Queue,
    Topic,
    Subscription,
}

/// What a topic or a subscription has beside what every entity has.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Specifics {
    #[default]
    Queue,
    Topic(TopicSpecifics),
    Subscription(SubscriptionSpecifics),
}

impl Specifics {
    pub fn kind(&self) -> EntityKind {
        match self {
            Specifics::Queue => EntityKind::Queue,
            Specifics::Topic(_) => EntityKind::Topic,
            Specifics::Subscription(_) => EntityKind::Subscription,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicSpecifics {
    pub filter_before_publishing: bool,
    pub support_ordering: bool,
    pub subscriptions: u32,
    /// Over all subscriptions.
    pub rules: RuleCounts,
}

impl TopicSpecifics {
    /// Most copies one message can have (RULE-5, RULE-6).
    pub fn copies_max(&self) -> u64 {
        u64::from(self.subscriptions) + u64::from(self.rules.with_action)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionSpecifics {
    pub topic: EntityId,
    /// As the subscription is told. The default that holds, in its `QueueProperties`, is this or the
    /// topic's, whichever is less (TTL-7).
    pub own_default_ttl: Span,
    pub dead_letter_on_filter_errors: bool,
    pub rules: RuleCounts,
}

/// How many rules there are of each kind (RULE-10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    pub sql: u32,
    pub correlation: u32,
    /// True and false filters.
    pub constant: u32,
    /// Of all these.
    pub with_action: u32,
}

impl RuleCounts {
    pub fn plus(self, other: RuleCounts) -> RuleCounts {
        RuleCounts {
            sql: self.sql + other.sql,
            correlation: self.correlation + other.correlation,
            constant: self.constant + other.constant,
            with_action: self.with_action + other.with_action,
        }
    }

    /// What is left without `other`, which is part of it.
    pub fn minus(self, other: RuleCounts) -> RuleCounts {
        RuleCounts {
            sql: self.sql - other.sql,
            correlation: self.correlation - other.correlation,
            constant: self.constant - other.constant,
            with_action: self.with_action - other.with_action,
        }
    }

    pub fn total(self) -> u64 {
        u64::from(self.sql) + u64::from(self.correlation) + u64::from(self.constant)
    }
}

/// What a topic is told to be (ENT-3). Fields that queues have too mean the same.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicProperties {
    pub max_size_megabytes: u32,
    pub max_message_size_kilobytes: u32,
    pub requires_duplicate_detection: bool,
    pub duplicate_detection_window: Span,
    /// Ceiling of every copy's time-to-live too (TTL-7).
    pub default_ttl: Span,
    pub auto_delete_on_idle: Span,
    /// Active, Disabled or SendDisabled, which is Disabled (STATE-1).
    pub status: EntityStatus,
    pub user_metadata: String,
    pub enable_batched_operations: bool,
    /// They hold for its subscriptions too.
    pub authorization_rules: Vec<AuthorizationRule>,
    /// Copies are always in order of publishing: kept, without effect (RULE-15).
    pub support_ordering: bool,
    /// Refuses a message that no subscription takes (RULE-9).
    pub filter_before_publishing: bool,
}

/// What a subscription is told to be (ENT-3). Fields that queues have too mean the same.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionProperties {
    pub lock_duration: Span,
    pub requires_session: bool,
    /// The topic's holds if it is less (TTL-7).
    pub default_ttl: Span,
    pub auto_delete_on_idle: Span,
    pub dead_letter_on_expiration: bool,
    /// Whether what a filter or an action fails on goes to the dead-letter queue (RULE-20); default
    /// true.
    pub dead_letter_on_filter_errors: bool,
    pub max_delivery_count: u32,
    /// Active, Disabled or ReceiveDisabled, which is Disabled (STATE-1).
    pub status: EntityStatus,
    pub user_metadata: String,
    pub enable_batched_operations: bool,
    pub forward_to: Option<String>,
    pub forward_dead_letters_to: Option<String>,
}

impl Default for TopicProperties {
    fn default() -> TopicProperties {
        TopicProperties::of(&QueueProperties::default(), &TopicSpecifics::default())
    }
}

impl TopicProperties {
    pub fn of(common: &QueueProperties, specifics: &TopicSpecifics) -> TopicProperties {
        TopicProperties {
            max_size_megabytes: common.max_size_megabytes,
            max_message_size_kilobytes: common.max_message_size_kilobytes,
            requires_duplicate_detection: common.requires_duplicate_detection,
            duplicate_detection_window: common.duplicate_detection_window,
            default_ttl: common.default_ttl,
            auto_delete_on_idle: common.auto_delete_on_idle,
            status: common.status,
            user_metadata: common.user_metadata.clone(),
            enable_batched_operations: common.enable_batched_operations,
            authorization_rules: common.authorization_rules.clone(),
            support_ordering: specifics.support_ordering,
            filter_before_publishing: specifics.filter_before_publishing,
        }
    }

    /// As the machine keeps them: what only receivers ask about stands at its default.
    pub fn common(&self) -> QueueProperties {
        QueueProperties {
            max_size_megabytes: self.max_size_megabytes,
            max_message_size_kilobytes: self.max_message_size_kilobytes,
            requires_duplicate_detection: self.requires_duplicate_detection,
            duplicate_detection_window: self.duplicate_detection_window,
            default_ttl: self.default_ttl,
            auto_delete_on_idle: self.auto_delete_on_idle,
            status: match self.status {
                // STATE-1.
                EntityStatus::SendDisabled => EntityStatus::Disabled,
                status => status,
            },
            user_metadata: self.user_metadata.clone(),
            enable_batched_operations: self.enable_batched_operations,
            authorization_rules: self.authorization_rules.clone(),
            ..QueueProperties::default()
        }
    }
}

impl Default for SubscriptionProperties {
    fn default() -> SubscriptionProperties {
        let common = QueueProperties::default();
        let specifics = SubscriptionSpecifics {
            topic: EntityId(0),
            own_default_ttl: common.default_ttl,
            dead_letter_on_filter_errors: true,
            rules: RuleCounts::default(),
        };
        SubscriptionProperties::of(&common, &specifics)
    }
}

impl SubscriptionProperties {
    pub fn of(
        common: &QueueProperties,
        specifics: &SubscriptionSpecifics,
    ) -> SubscriptionProperties {
        SubscriptionProperties {
            lock_duration: common.lock_duration,
            requires_session: common.requires_session,
            default_ttl: specifics.own_default_ttl,
            auto_delete_on_idle: common.auto_delete_on_idle,
            dead_letter_on_expiration: common.dead_letter_on_expiration,
            dead_letter_on_filter_errors: specifics.dead_letter_on_filter_errors,
            max_delivery_count: common.max_delivery_count,
            status: common.status,
            user_metadata: common.user_metadata.clone(),
            enable_batched_operations: common.enable_batched_operations,
            forward_to: common.forward_to.clone(),
            forward_dead_letters_to: common.forward_dead_letters_to.clone(),
        }
    }

    /// As the machine keeps them, under the topic's default time-to-live (TTL-7): what only senders
    /// ask about stands at its default.
    pub fn common(&self, topic_default_ttl: Span) -> QueueProperties {
        QueueProperties {
            lock_duration: self.lock_duration,
            requires_session: self.requires_session,
            default_ttl: self.default_ttl.min(topic_default_ttl),
            auto_delete_on_idle: self.auto_delete_on_idle,
            dead_letter_on_expiration: self.dead_letter_on_expiration,
            max_delivery_count: self.max_delivery_count,
            status: match self.status {
                // STATE-1.
                EntityStatus::ReceiveDisabled => EntityStatus::Disabled,
                status => status,
            },
            user_metadata: self.user_metadata.clone(),
            enable_batched_operations: self.enable_batched_operations,
            forward_to: self.forward_to.clone(),
            forward_dead_letters_to: self.forward_dead_letters_to.clone(),
            ..QueueProperties::default()
        }
    }
}

/// What stands between a topic's name and a subscription's, in whatever case (DLQ-2).
const BETWEEN: &str = "/Subscriptions/";

/// The path by which a subscription is known in the directory.
pub fn subscription_path(topic: &str, name: &str) -> String {
    format!("{topic}{BETWEEN}{name}")
}

/// Topic and name of a subscription, if a path is one's. No queue or topic has such a name (ENT-1).
pub fn split_subscription_path(path: &str) -> Option<(&str, &str)> {
    let (head, name) = path.rsplit_once('/')?;
    let at = head.len().checked_sub(BETWEEN.len() - 1)?;
    let (topic, between) = head.is_char_boundary(at).then(|| head.split_at(at))?;
    let is_between = between.eq_ignore_ascii_case(&BETWEEN[..BETWEEN.len() - 1]);
    (is_between && !topic.is_empty() && !name.is_empty()).then_some((topic, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dlq_2_a_subscription_path_is_split_in_whatever_case() {
        for (path, parts) in [
            ("orders/Subscriptions/audit", Some(("orders", "audit"))),
            ("a/b/SUBSCRIPTIONS/c", Some(("a/b", "c"))),
            ("a/subscriptions/subscriptions/c", Some(("a/subscriptions", "c"))),
            ("orders", None),
            ("orders/audit", None),
            ("subscriptions/audit", None),
            ("/subscriptions/audit", None),
            ("orders/subscriptions/", None),
            ("orders/subscriptions", None),
            ("é/ubscriptions/x", None),
            ("", None),
        ] {
            assert_eq!(split_subscription_path(path), parts, "{path}");
        }
        let path = subscription_path("Orders", "Audit");
        assert_eq!(split_subscription_path(&path), Some(("Orders", "Audit")));
    }

    #[test]
    fn state_1_what_counts_as_disabled_is_kept_as_that() {
        let status = EntityStatus::SendDisabled;
        let topic = TopicProperties { status, ..TopicProperties::default() };
        assert_eq!(topic.common().status, EntityStatus::Disabled);
        let status = EntityStatus::ReceiveDisabled;
        let subscription = SubscriptionProperties { status, ..SubscriptionProperties::default() };
        assert_eq!(subscription.common(Span::MAX).status, EntityStatus::Disabled);
    }
}
