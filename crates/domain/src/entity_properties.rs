//! What entities are told to be (ENT-3). A new property is a field here, with its default, and a row of
//! [`PROPERTIES`]. In all three descriptions a duration of `Span::MAX` means never.

mod patch;
mod property;
mod table;

pub use patch::Patch;
pub use property::{
    Described, EntityProperty, Field, Lens, Mutability, PropertyType, PropertyValue, Tiered,
};
pub use table::PROPERTIES;

use property::carry;

use crate::{
    AuthorizationRule, EntityId, EntityStatus, RuleCounts, Span, SubscriptionSpecifics,
    TopicSpecifics,
};

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
    /// Kept, without effect: order is always kept (LOCK-7).
    pub support_ordering: bool,
    /// What Service Bus refuses of such entities is refused; one partition serves it (PART-5).
    pub enable_partitioning: bool,
    /// Kept, without effect (ENT-10).
    pub enable_express: bool,
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
            support_ordering: true,
            enable_partitioning: false,
            enable_express: false,
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
    /// Active, Disabled or SendDisabled, which does what Disabled does (STATE-1).
    pub status: EntityStatus,
    pub user_metadata: String,
    pub enable_batched_operations: bool,
    /// They hold for its subscriptions too.
    pub authorization_rules: Vec<AuthorizationRule>,
    /// Copies are always in order of publishing: kept, without effect (RULE-15).
    pub support_ordering: bool,
    /// Refuses a message that no subscription takes (RULE-9).
    pub filter_before_publishing: bool,
    pub enable_partitioning: bool,
    pub enable_express: bool,
    /// Kept, without effect.
    pub enable_subscription_partitioning: bool,
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
    /// Active, Disabled or ReceiveDisabled, which does what Disabled does (STATE-1).
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
            support_ordering: common.support_ordering,
            filter_before_publishing: false,
            enable_partitioning: common.enable_partitioning,
            enable_express: common.enable_express,
            enable_subscription_partitioning: false,
        }
    }
}

impl TopicProperties {
    pub fn of(common: &QueueProperties, specifics: &TopicSpecifics) -> TopicProperties {
        let mut properties = TopicProperties::default();
        carry(common, &mut properties);
        properties.filter_before_publishing = specifics.filter_before_publishing;
        properties.support_ordering = specifics.support_ordering;
        properties.enable_subscription_partitioning = specifics.subscription_partitioning;
        if common.status == EntityStatus::Disabled && specifics.send_disabled {
            properties.status = EntityStatus::SendDisabled;
        }
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
        let mut properties = SubscriptionProperties::default();
        carry(common, &mut properties);
        properties.dead_letter_on_filter_errors = specifics.dead_letter_on_filter_errors;
        properties.default_ttl = specifics.own_default_ttl;
        if common.status == EntityStatus::Disabled && specifics.receive_disabled {
            properties.status = EntityStatus::ReceiveDisabled;
        }
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

impl TopicSpecifics {
    /// What a description says that no queue's could.
    pub fn tell(&mut self, properties: &TopicProperties) {
        self.filter_before_publishing = properties.filter_before_publishing;
        self.support_ordering = properties.support_ordering;
        self.subscription_partitioning = properties.enable_subscription_partitioning;
        self.send_disabled = properties.status == EntityStatus::SendDisabled;
    }
}

impl SubscriptionSpecifics {
    /// Of a subscription without rules.
    pub fn of(topic: EntityId, properties: &SubscriptionProperties) -> SubscriptionSpecifics {
        let mut specifics = SubscriptionSpecifics {
            topic,
            own_default_ttl: properties.default_ttl,
            dead_letter_on_filter_errors: properties.dead_letter_on_filter_errors,
            receive_disabled: false,
            rules: RuleCounts::default(),
        };
        specifics.tell(properties);
        specifics
    }

    /// What a description says that no queue's could.
    pub fn tell(&mut self, properties: &SubscriptionProperties) {
        self.own_default_ttl = properties.default_ttl;
        self.dead_letter_on_filter_errors = properties.dead_letter_on_filter_errors;
        self.receive_disabled = properties.status == EntityStatus::ReceiveDisabled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_1_what_does_as_disabled_does_is_told_as_it_was_said() {
        use EntityStatus::{Active, Disabled, ReceiveDisabled, SendDisabled};
        for (said, does) in [(Active, Active), (Disabled, Disabled), (SendDisabled, Disabled)] {
            let topic = TopicProperties { status: said, ..TopicProperties::default() };
            assert_eq!(topic.common().status, does);
            let mut specifics = TopicSpecifics::default();
            specifics.tell(&topic);
            assert_eq!(TopicProperties::of(&topic.common(), &specifics), topic);
        }
        for (said, does) in [(Active, Active), (Disabled, Disabled), (ReceiveDisabled, Disabled)] {
            let subscription =
                SubscriptionProperties { status: said, ..SubscriptionProperties::default() };
            let common = subscription.common(Span::MAX);
            assert_eq!(common.status, does);
            let specifics = SubscriptionSpecifics::of(EntityId(1), &subscription);
            assert_eq!(SubscriptionProperties::of(&common, &specifics), subscription);
        }
    }
}
