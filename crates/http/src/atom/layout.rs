//! What a description consists of, in the order in which the service writes it. Some of the SDKs
//! demand a part of it, and JS throws where one is missing.

use domain::EntityKind;

/// One part of a description.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// The property of this element. Those that no layout names are written last.
    Property(&'static str),
    /// The same, for clients of this version and later ones (ATOM-26).
    Since(&'static str, &'static str),
    /// Said of every entity of this kind; what clients say of it is passed over.
    Constant(&'static str, &'static str),
    SizeInBytes,
    MessageCount,
    /// When it was created, updated and accessed.
    Instants,
    Counts,
    SubscriptionCount,
    /// How many rules are of each kind, for clients that know of it.
    FilterCounts,
}

use Part::{
    Constant, Counts, FilterCounts, Instants, MessageCount, Property, Since, SizeInBytes,
    SubscriptionCount,
};

/// From which version on topics tell how many filters they have.
pub(super) const COUNTS_FILTERS: &str = "2024-05";
/// From which version on entities tell how large a message may be.
const LARGE_MESSAGES: &str = "2021-05";

const QUEUE: &[Part] = &[
    Property("LockDuration"),
    Property("MaxSizeInMegabytes"),
    Property("RequiresDuplicateDetection"),
    Property("RequiresSession"),
    Property("DefaultMessageTimeToLive"),
    Property("DeadLetteringOnMessageExpiration"),
    Property("DuplicateDetectionHistoryTimeWindow"),
    Property("MaxDeliveryCount"),
    Property("EnableBatchedOperations"),
    SizeInBytes,
    MessageCount,
    Constant("IsAnonymousAccessible", "false"),
    Property("AuthorizationRules"),
    Property("Status"),
    Instants,
    Property("SupportOrdering"),
    Counts,
    Property("AutoDeleteOnIdle"),
    Property("EnablePartitioning"),
    Constant("EntityAvailabilityStatus", "Available"),
    Property("EnableExpress"),
    Property("ForwardTo"),
    Property("UserMetadata"),
    Property("ForwardDeadLetteredMessagesTo"),
    Since(LARGE_MESSAGES, "MaxMessageSizeInKilobytes"),
];

const TOPIC: &[Part] = &[
    Property("DefaultMessageTimeToLive"),
    Property("MaxSizeInMegabytes"),
    Property("RequiresDuplicateDetection"),
    Property("DuplicateDetectionHistoryTimeWindow"),
    Property("EnableBatchedOperations"),
    SizeInBytes,
    Property("FilteringMessagesBeforePublishing"),
    Constant("IsAnonymousAccessible", "false"),
    Property("AuthorizationRules"),
    Property("Status"),
    Instants,
    Property("SupportOrdering"),
    Counts,
    SubscriptionCount,
    FilterCounts,
    Property("AutoDeleteOnIdle"),
    Property("EnablePartitioning"),
    Constant("EntityAvailabilityStatus", "Available"),
    Property("EnableSubscriptionPartitioning"),
    Property("EnableExpress"),
    Property("UserMetadata"),
    Since(LARGE_MESSAGES, "MaxMessageSizeInKilobytes"),
];

const SUBSCRIPTION: &[Part] = &[
    Property("LockDuration"),
    Property("RequiresSession"),
    Property("DefaultMessageTimeToLive"),
    Property("DeadLetteringOnMessageExpiration"),
    Property("DeadLetteringOnFilterEvaluationExceptions"),
    MessageCount,
    Property("MaxDeliveryCount"),
    Property("EnableBatchedOperations"),
    Property("Status"),
    Property("ForwardTo"),
    Instants,
    Counts,
    Property("ForwardDeadLetteredMessagesTo"),
    Property("AutoDeleteOnIdle"),
    Constant("EntityAvailabilityStatus", "Available"),
    Property("UserMetadata"),
];

/// The element of a description, and what is in it.
pub(super) fn layout(kind: EntityKind) -> (&'static str, &'static [Part]) {
    match kind {
        EntityKind::Queue => ("QueueDescription", QUEUE),
        EntityKind::Topic => ("TopicDescription", TOPIC),
        EntityKind::Subscription => ("SubscriptionDescription", SUBSCRIPTION),
    }
}

/// The element of a kind's description.
pub(super) fn element_of(kind: EntityKind) -> &'static str {
    layout(kind).0
}

#[cfg(test)]
mod tests {
    use domain::EntityProperty;

    use super::*;

    #[test]
    fn each_property_of_a_layout_is_one_of_its_kind() {
        for kind in [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription] {
            for part in layout(kind).1 {
                let (Property(element) | Since(_, element)) = part else { continue };
                let mut known = EntityProperty::all_of(kind);
                assert!(known.any(|property| property.element == *element), "{kind:?} {element}");
            }
        }
    }
}
