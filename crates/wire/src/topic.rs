//! Topics, subscriptions and their rules.

use domain::{
    Conditions, NewRule, RuleCounts, RuleFilter, RuleRow, Specifics, SqlText,
    SubscriptionSpecifics, SystemProperty, TopicSpecifics,
};

use crate::codec::{choice, record};

choice!(Specifics { 0 => Queue, 1 => Topic(topic), 2 => Subscription(subscription) });
record!(TopicSpecifics { filter_before_publishing, support_ordering, subscriptions, rules });
record!(SubscriptionSpecifics { topic, own_default_ttl, dead_letter_on_filter_errors, rules });
record!(RuleCounts { sql, correlation, constant, with_action });

record!(NewRule { name, filter, action });
record!(RuleRow { name, filter, action, created_at, order });
choice!(RuleFilter { 0 => True, 1 => False, 2 => Sql(sql), 3 => Correlation(conditions) });
record!(SqlText { text, parameters });
record!(Conditions { system, properties });
choice!(SystemProperty {
    1 => MessageId,
    2 => SessionId,
    3 => ReplyToSessionId,
    4 => PartitionKey,
    5 => TransactionPartitionKey,
    6 => CorrelationId,
    7 => Subject,
    8 => To,
    9 => ReplyTo,
    10 => ContentType,
    11 => TimeToLive,
    12 => ScheduledEnqueueTimeUtc,
    13 => ForcePersistence,
    14 => SequenceNumber,
    15 => EnqueuedSequenceNumber,
    16 => EnqueuedTimeUtc,
    17 => ExpiresAtUtc,
    18 => DeliveryCount,
    19 => State,
    20 => DeadLetterSource,
    21 => Size,
});
