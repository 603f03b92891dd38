//! What entities are told to be (ENT-3). A new property is a field here, with its default, and a row of
//! [`PROPERTIES`]. In all three descriptions a duration of `Span::MAX` means never.

mod patch;
mod property;
mod table;

pub use patch::Patch;
pub use property::{
    Described, EntityProperty, Field, Lens, Mutability, PropertyType, PropertyValue,
};
pub use table::PROPERTIES;

use property::carry;

use crate::{AuthorizationRule, EntityStatus, Span, SubscriptionSpecifics, TopicSpecifics};

/// What a queue is told to be.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueProperties {
    pub lock_duration: Span,
    pub max_size_megabytes: u32,
    pub max_message_size_kilobytes: u32,
    pub requires_duplicate_detection: bool,
    pub duplicate_detection_window: Span,
    pub requires_session: bool,
    pub default_ttl: Span,
    pub auto_delete_on_idle: Span,
    pub dead_letter_on_expiration: bool,
    pub max_delivery_count: u32,
    pub status: EntityStatus,
    pub user_metadata: String,
    /// Accepted, without effect (ENT-3).
    pub enable_batched_operations: bool,
    pub authorization_rules: Vec<AuthorizationRule>,
    /// The name of the queue or topic that messages are forwarded to (FWD-1), and those of the
    /// dead-letter queue (FWD-9).
    pub forward_to: Option<String>,
    pub forward_dead_letters_to: Option<String>,
}

impl Default for QueueProperties {
    fn default() -> QueueProperties {
        QueueProperties {
            lock_duration: Span::from_secs(60),
            max_size_megabytes: 1024,
            max_message_size_kilobytes: 256,
            requires_duplicate_detection: false,
            duplicate_detection_window: Span::from_secs(600),
            requires_session: false,
            default_ttl: Span::MAX,
            auto_delete_on_idle: Span::MAX,
            dead_letter_on_expiration: false,
            max_delivery_count: 10,
            status: EntityStatus::Active,
            user_metadata: String::new(),
            enable_batched_operations: true,
            authorization_rules: Vec::new(),
            forward_to: None,
            forward_dead_letters_to: None,
        }
    }
}

/// What a topic is told to be. Fields that queues have too mean the same.
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

/// What a subscription is told to be. Fields that queues have too mean the same.
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
        let common = QueueProperties::default();
        TopicProperties {
            max_size_megabytes: common.max_size_megabytes,
            max_message_size_kilobytes: common.max_message_size_kilobytes,
            requires_duplicate_detection: common.requires_duplicate_detection,
            duplicate_detection_window: common.duplicate_detection_window,
            default_ttl: common.default_ttl,
            auto_delete_on_idle: common.auto_delete_on_idle,
            status: common.status,
            user_metadata: common.user_metadata,
            enable_batched_operations: common.enable_batched_operations,
            authorization_rules: common.authorization_rules,
            support_ordering: false,
            filter_before_publishing: false,
        }
    }
}

impl TopicProperties {
    pub fn of(common: &QueueProperties, specifics: &TopicSpecifics) -> TopicProperties {
        let mut properties = TopicProperties {
            support_ordering: specifics.support_ordering,
            filter_before_publishing: specifics.filter_before_publishing,
            ..TopicProperties::default()
        };
        carry(common, &mut properties);
        properties
    }

    /// As the machine keeps them: what only receivers ask about stands at its default.
    pub fn common(&self) -> QueueProperties {
        let mut common = QueueProperties::default();
        carry(self, &mut common);
        if common.status == EntityStatus::SendDisabled {
            common.status = EntityStatus::Disabled; // STATE-1.
        }
        common
    }
}

impl Default for SubscriptionProperties {
    fn default() -> SubscriptionProperties {
        let common = QueueProperties::default();
        SubscriptionProperties {
            lock_duration: common.lock_duration,
            requires_session: common.requires_session,
            default_ttl: common.default_ttl,
            auto_delete_on_idle: common.auto_delete_on_idle,
            dead_letter_on_expiration: common.dead_letter_on_expiration,
            dead_letter_on_filter_errors: true,
            max_delivery_count: common.max_delivery_count,
            status: common.status,
            user_metadata: common.user_metadata,
            enable_batched_operations: common.enable_batched_operations,
            forward_to: common.forward_to,
            forward_dead_letters_to: common.forward_dead_letters_to,
        }
    }
}

impl SubscriptionProperties {
    pub fn of(
        common: &QueueProperties,
        specifics: &SubscriptionSpecifics,
    ) -> SubscriptionProperties {
        let mut properties = SubscriptionProperties {
            dead_letter_on_filter_errors: specifics.dead_letter_on_filter_errors,
            ..SubscriptionProperties::default()
        };
        carry(common, &mut properties);
        properties.default_ttl = specifics.own_default_ttl;
        properties
    }

    /// As the machine keeps them, under the topic's default time-to-live (TTL-7): what only senders
    /// ask about stands at its default.
    pub fn common(&self, topic_default_ttl: Span) -> QueueProperties {
        let mut common = QueueProperties::default();
        carry(self, &mut common);
        common.default_ttl = self.default_ttl.min(topic_default_ttl);
        if common.status == EntityStatus::ReceiveDisabled {
            common.status = EntityStatus::Disabled; // STATE-1.
        }
        common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
