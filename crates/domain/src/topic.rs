//! Topics and subscriptions: what each has beside a queue's state, and how a subscription is named.

use crate::{EntityId, Span};

/// What an entity is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntityKind {
    #[default]
    Queue,
    Topic,
    Subscription,
}

impl EntityKind {
    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            EntityKind::Queue => "queue",
            EntityKind::Topic => "topic",
            EntityKind::Subscription => "subscription",
        }
    }
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
    pub subscription_partitioning: bool,
    /// Its status was told as SendDisabled, which does what Disabled does (STATE-1).
    pub send_disabled: bool,
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
    /// Its status was told as ReceiveDisabled, which does what Disabled does (STATE-1).
    pub receive_disabled: bool,
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

    /// What clients are told as SQL filters: true and false ones are some (RULE-11).
    pub fn told_as_sql(self) -> u64 {
        u64::from(self.sql) + u64::from(self.constant)
    }

    pub fn total(self) -> u64 {
        u64::from(self.sql) + u64::from(self.correlation) + u64::from(self.constant)
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
}
