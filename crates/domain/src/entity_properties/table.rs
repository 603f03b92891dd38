//! All properties of entities (ENT-3), a row each. Checks, descriptions in XML, the command line's
//! flags and what it shows, an emulator's file and the reference page are made from it; the rows' and
//! the native API's binary forms are fixed, and a test holds them complete.

use super::property::{EntityProperty, Field, Mutability, PropertyType, Tiered};
use crate::{AUTHORIZATION_RULES_MAX, EntityKind, IDLE_MIN, Span, USER_METADATA_CHARS_MAX};

/// The field of this name, in the descriptions of these kinds of entities.
macro_rules! field {
    ($name:ident: $($kind:ident),+) => {
        Field::NOWHERE$(.$kind(|of| &of.$name, |of| &mut of.$name))+
    };
}

/// ENT-5: what an entity does, or not, from its creation on.
macro_rules! fixed {
    ($what:literal) => {
        Mutability::Never(|kind| match kind {
            EntityKind::Queue => concat!("whether a queue ", $what, " is fixed when it is created"),
            EntityKind::Topic => concat!("whether a topic ", $what, " is fixed when it is created"),
            EntityKind::Subscription => {
                concat!("whether a subscription ", $what, " is fixed when it is created")
            }
        })
    };
}

/// In the order in which they are checked and shown.
pub static PROPERTIES: [EntityProperty; 22] = [
    EntityProperty {
        name: "status",
        native: "status",
        element: "Status",
        in_emulator_file: true,
        flag: Some("status"),
        label: "status",
        of: PropertyType::Status(field!(status: queue, topic, subscription)),
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "What is allowed",
        particulars: &[],
        rules: &["STATE-1", "STATE-3", "STATE-4"],
    },
    EntityProperty {
        name: "lock_duration",
        native: "lock_duration_ms",
        element: "LockDuration",
        in_emulator_file: true,
        flag: Some("lock-duration"),
        label: "lock duration",
        of: PropertyType::Duration {
            field: field!(lock_duration: queue, subscription),
            min: Span(1),
            is_raised: false,
            max: Span::from_secs(5 * 60),
            allowed: "more than 0, up to 5 min",
        },
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "How long a received message is locked",
        particulars: &[],
        rules: &["LOCK-4"],
    },
    EntityProperty {
        name: "requires_session",
        native: "requires_session",
        element: "RequiresSession",
        in_emulator_file: true,
        flag: Some("requires-session"),
        label: "sessions",
        of: PropertyType::Flag(field!(requires_session: queue, subscription)),
        mutability: fixed!("requires sessions"),
        tiered: Tiered::Feature,
        help: "Messages belong to sessions",
        particulars: &[],
        rules: &["ENT-5", "SESS-1"],
    },
    EntityProperty {
        name: "requires_duplicate_detection",
        native: "requires_duplicate_detection",
        element: "RequiresDuplicateDetection",
        in_emulator_file: true,
        flag: Some("duplicate-detection"),
        label: "duplicate detection",
        of: PropertyType::Flag(field!(requires_duplicate_detection: queue, topic)),
        mutability: fixed!("detects duplicates"),
        tiered: Tiered::Feature,
        help: "Drop messages whose id was seen within the window",
        particulars: &[],
        rules: &["ENT-5", "DUP-3"],
    },
    EntityProperty {
        name: "duplicate_detection_window",
        native: "duplicate_detection_window_ms",
        element: "DuplicateDetectionHistoryTimeWindow",
        in_emulator_file: true,
        flag: Some("duplicate-detection-window"),
        label: "duplicate detection window",
        of: PropertyType::Duration {
            field: field!(duplicate_detection_window: queue, topic),
            min: Span::from_secs(20),
            is_raised: true,
            max: Span::from_secs(7 * 24 * 3600),
            allowed: "20 s to 7 days; less is taken as 20 s",
        },
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "How long message ids are remembered",
        particulars: &[],
        rules: &["DUP-3"],
    },
    EntityProperty {
        name: "default_ttl",
        native: "default_ttl_ms",
        element: "DefaultMessageTimeToLive",
        in_emulator_file: true,
        flag: Some("ttl"),
        label: "time to live",
        of: PropertyType::Duration {
            field: field!(default_ttl: queue, topic, subscription),
            min: Span::from_secs(1),
            is_raised: false,
            max: Span::MAX,
            allowed: "1 s or more",
        },
        mutability: Mutability::Always,
        tiered: Tiered::TimeToLive,
        help: "Time to live of messages without their own, and ceiling of all",
        particulars: &[
            (EntityKind::Topic, ", in every subscription"),
            (EntityKind::Subscription, "; the topic's holds if it is less"),
        ],
        rules: &["TTL-5", "TTL-7"],
    },
    EntityProperty {
        name: "dead_letter_on_expiration",
        native: "dead_letter_on_expiration",
        element: "DeadLetteringOnMessageExpiration",
        in_emulator_file: true,
        flag: Some("dead-letter-on-expiration"),
        label: "dead-letter on expiration",
        of: PropertyType::Flag(field!(dead_letter_on_expiration: queue, subscription)),
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "Move expired messages to the dead-letter queue instead of dropping them",
        particulars: &[],
        rules: &["TTL-17"],
    },
    EntityProperty {
        name: "dead_letter_on_filter_errors",
        native: "dead_letter_on_filter_errors",
        element: "DeadLetteringOnFilterEvaluationExceptions",
        in_emulator_file: true,
        flag: Some("dead-letter-on-filter-errors"),
        label: "dead-letter on rule errors",
        of: PropertyType::Flag(field!(dead_letter_on_filter_errors: subscription)),
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "Move what a filter or an action fails on to the dead-letter queue",
        particulars: &[],
        rules: &["RULE-20"],
    },
    EntityProperty {
        name: "auto_delete_on_idle",
        native: "auto_delete_on_idle_ms",
        element: "AutoDeleteOnIdle",
        in_emulator_file: true,
        flag: Some("auto-delete-on-idle"),
        label: "delete when idle for",
        of: PropertyType::Duration {
            field: field!(auto_delete_on_idle: queue, topic, subscription),
            min: IDLE_MIN,
            is_raised: false,
            max: Span::MAX,
            allowed: "5 min or more",
        },
        mutability: Mutability::Always,
        tiered: Tiered::Feature,
        help: "Delete the {entity} when nobody uses it for so long",
        particulars: &[],
        rules: &["IDLE-1"],
    },
    EntityProperty {
        name: "max_size_megabytes",
        native: "max_size_megabytes",
        element: "MaxSizeInMegabytes",
        in_emulator_file: true,
        flag: Some("max-size-megabytes"),
        label: "max size",
        of: PropertyType::Number {
            field: field!(max_size_megabytes: queue, topic),
            min: 1024,
            max: 80 * 1024,
            multiple_of: 1024,
            unit: Some("MB"),
            allowed: "a multiple of 1024, up to 81920",
        },
        mutability: Mutability::Always,
        tiered: Tiered::EntitySize,
        help: "Most megabytes of messages stored",
        particulars: &[(EntityKind::Topic, ", counting every copy")],
        rules: &["QUOTA-0", "COUNT-3"],
    },
    EntityProperty {
        name: "max_message_size_kilobytes",
        native: "max_message_size_kilobytes",
        element: "MaxMessageSizeInKilobytes",
        in_emulator_file: true,
        flag: Some("max-message-size-kilobytes"),
        label: "max message size",
        of: PropertyType::Number {
            field: field!(max_message_size_kilobytes: queue, topic),
            min: 1,
            max: 1024,
            multiple_of: 1,
            unit: Some("KB"),
            allowed: "1 to 1024",
        },
        mutability: Mutability::Always,
        tiered: Tiered::MessageSize,
        help: "Most kilobytes of one message",
        particulars: &[],
        rules: &["QUOTA-0"],
    },
    EntityProperty {
        name: "max_delivery_count",
        native: "max_delivery_count",
        element: "MaxDeliveryCount",
        in_emulator_file: true,
        flag: Some("max-delivery-count"),
        label: "max delivery count",
        of: PropertyType::Number {
            field: field!(max_delivery_count: queue, subscription),
            min: 1,
            max: i32::MAX as u32,
            multiple_of: 1,
            unit: None,
            allowed: "1 to 2147483647",
        },
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "Deliveries after which a message is dead-lettered",
        particulars: &[],
        rules: &["LOCK-21"],
    },
    EntityProperty {
        name: "forward_to",
        native: "forward_to",
        element: "ForwardTo",
        in_emulator_file: true,
        flag: Some("forward-to"),
        label: "forwards to",
        of: PropertyType::Destination(field!(forward_to: queue, subscription)),
        mutability: Mutability::Always,
        tiered: Tiered::Feature,
        help: "Forward messages to this queue or topic; \"\" forwards no more",
        particulars: &[],
        rules: &["FWD-1", "FWD-2"],
    },
    EntityProperty {
        name: "forward_dead_letters_to",
        native: "forward_dead_letters_to",
        element: "ForwardDeadLetteredMessagesTo",
        in_emulator_file: true,
        flag: Some("forward-dead-letters-to"),
        label: "forwards dead letters to",
        of: PropertyType::Destination(field!(forward_dead_letters_to: queue, subscription)),
        mutability: Mutability::Always,
        tiered: Tiered::Feature,
        help: "Forward dead letters to this queue or topic; \"\" forwards no more",
        particulars: &[],
        rules: &["FWD-9"],
    },
    EntityProperty {
        name: "filter_before_publishing",
        native: "filter_before_publishing",
        element: "FilteringMessagesBeforePublishing",
        in_emulator_file: false,
        flag: Some("filter-before-publishing"),
        label: "refuses what nobody takes",
        of: PropertyType::Flag(field!(filter_before_publishing: topic)),
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "Refuse a message that no subscription takes",
        particulars: &[],
        rules: &["RULE-9"],
    },
    EntityProperty {
        name: "support_ordering",
        native: "support_ordering",
        element: "SupportOrdering",
        in_emulator_file: true,
        flag: None,
        label: "supports ordering",
        of: PropertyType::Flag(field!(support_ordering: queue, topic)),
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "Kept, without effect: messages always keep their order",
        particulars: &[],
        rules: &["RULE-15"],
    },
    EntityProperty {
        name: "enable_partitioning",
        native: "enable_partitioning",
        element: "EnablePartitioning",
        in_emulator_file: true,
        flag: Some("enable-partitioning"),
        label: "partitioned",
        of: PropertyType::Flag(field!(enable_partitioning: queue, topic)),
        mutability: fixed!("is partitioned"),
        tiered: Tiered::Partitioning,
        help: "What Service Bus refuses of partitioned entities is refused; one partition serves it",
        particulars: &[],
        rules: &["PART-5"],
    },
    EntityProperty {
        name: "enable_subscription_partitioning",
        native: "enable_subscription_partitioning",
        element: "EnableSubscriptionPartitioning",
        in_emulator_file: true,
        flag: None,
        label: "partitioned subscriptions",
        of: PropertyType::Flag(field!(enable_subscription_partitioning: topic)),
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "Kept, without effect",
        particulars: &[],
        rules: &["PART-5"],
    },
    EntityProperty {
        name: "enable_express",
        native: "enable_express",
        element: "EnableExpress",
        in_emulator_file: true,
        flag: None,
        label: "express",
        of: PropertyType::Flag(field!(enable_express: queue, topic)),
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "Kept, without effect: every message is stored first",
        particulars: &[],
        rules: &["ENT-10"],
    },
    EntityProperty {
        name: "enable_batched_operations",
        native: "enable_batched_operations",
        element: "EnableBatchedOperations",
        in_emulator_file: true,
        flag: None,
        label: "batched operations",
        of: PropertyType::Flag(field!(enable_batched_operations: queue, topic, subscription)),
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "Kept, without effect",
        particulars: &[],
        rules: &["ENT-3"],
    },
    EntityProperty {
        name: "user_metadata",
        native: "user_metadata",
        element: "UserMetadata",
        in_emulator_file: true,
        flag: Some("user-metadata"),
        label: "user metadata",
        of: PropertyType::Text {
            field: field!(user_metadata: queue, topic, subscription),
            chars_max: USER_METADATA_CHARS_MAX,
            length: "length of UserMetadata",
            allowed: "at most 1024 characters",
        },
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "Free text kept with the {entity}",
        particulars: &[],
        rules: &["QUOTA-28"],
    },
    EntityProperty {
        name: "authorization_rules",
        native: "authorization_rules",
        element: "AuthorizationRules",
        in_emulator_file: false,
        flag: Some("authorization-rule"),
        label: "authorization rules",
        of: PropertyType::AuthorizationRules(field!(authorization_rules: queue, topic)),
        mutability: Mutability::Always,
        tiered: Tiered::Not,
        help: "Named pairs of keys and what they allow, at most 12",
        particulars: &[(EntityKind::Topic, "; they hold for its subscriptions too")],
        rules: &["ENT-11", "ENT-12", "QUOTA-23"],
    },
];

/// `help` says so.
const _: () = assert!(AUTHORIZATION_RULES_MAX == 12);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        Described, Patch, PropertyValue, QueueProperties, SubscriptionProperties, TopicProperties,
    };

    /// The names of a description's fields, as `Debug` writes them.
    fn fields(of: &impl Described) -> BTreeSet<String> {
        let shown = format!("{of:#?}");
        let outer = shown.lines().filter_map(|line| line.strip_prefix("    "));
        let fields = outer.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        fields.filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
    }

    fn each_field_has_a_row<P: Described>() {
        let named = EntityProperty::all_of(P::KIND).map(|property| property.name.to_owned());
        assert_eq!(named.collect::<BTreeSet<_>>(), fields(&P::default()), "{:?}", P::KIND);
    }

    /// A new field fails here until the table has it.
    #[test]
    fn ent_3_each_field_of_a_description_has_a_row() {
        each_field_has_a_row::<QueueProperties>();
        each_field_has_a_row::<TopicProperties>();
        each_field_has_a_row::<SubscriptionProperties>();
    }

    /// Another value than the default, of the property's type.
    fn other(property: &EntityProperty, default: PropertyValue) -> PropertyValue {
        match default {
            PropertyValue::Duration(_) => PropertyValue::Duration(Span(77_777)),
            PropertyValue::Number(number) => PropertyValue::Number(number + 1),
            PropertyValue::Flag(flag) => PropertyValue::Flag(!flag),
            PropertyValue::Text(_) => PropertyValue::Text(property.name.to_owned()),
            PropertyValue::Destination(_) => PropertyValue::Destination(Some("x".to_owned())),
            PropertyValue::Status(_) => PropertyValue::Status(crate::EntityStatus::Disabled),
            PropertyValue::AuthorizationRules(_) => {
                PropertyValue::AuthorizationRules(vec![Default::default()])
            }
        }
    }

    fn each_row_changes_its_field<P: Described>() {
        let lines = |of: &P| format!("{of:#?}").lines().map(str::to_owned).collect::<Vec<_>>();
        for property in EntityProperty::all_of(P::KIND) {
            let default = P::default();
            let mut patch = Patch::<P>::default();
            patch.set(property, other(property, property.get(&default).expect(property.name)));
            let (before, after) = (lines(&default), lines(&patch.applied_to(default)));
            let first = before.iter().zip(&after).position(|(before, after)| before != after);
            let changed = &after[..=first.expect(property.name)];
            let field = changed.iter().rfind(|line| line.find(char::is_alphabetic) == Some(4));
            let field = field.and_then(|line| line.trim().split_once(':'));
            assert_eq!(field.map(|(name, _)| name), Some(property.name));
        }
    }

    /// Rows are alike, and easily copied with a wrong field in them.
    #[test]
    fn ent_3_each_row_is_of_the_field_of_its_name() {
        each_row_changes_its_field::<QueueProperties>();
        each_row_changes_its_field::<TopicProperties>();
        each_row_changes_its_field::<SubscriptionProperties>();
    }

    #[test]
    fn each_name_is_that_of_one_property() {
        let dialects: [fn(&EntityProperty) -> Option<&str>; 5] = [
            |property| Some(property.name),
            |property| Some(property.native),
            |property| Some(property.element),
            |property| property.flag,
            |property| Some(property.label),
        ];
        for dialect in dialects {
            let names: Vec<&str> = PROPERTIES.iter().filter_map(dialect).collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        }
    }

    fn said(span: Span) -> String {
        match span.0 / 1000 {
            day if day % 86_400 == 0 => format!("{} days", day / 86_400),
            minute if minute % 60 == 0 => format!("{} min", minute / 60),
            second => format!("{second} s"),
        }
    }

    /// Refusals name what is allowed in a text of their own, since it is logged as it is.
    #[test]
    fn ent_4_what_is_said_to_be_allowed_is_what_is_checked() {
        for property in &PROPERTIES {
            let (allowed, expected) = match &property.of {
                PropertyType::Duration { min, max: Span::MAX, allowed, .. } => {
                    (allowed, format!("{} or more", said(*min)))
                }
                PropertyType::Duration { min: Span(1), max, allowed, .. } => {
                    (allowed, format!("more than 0, up to {}", said(*max)))
                }
                PropertyType::Duration { min, max, allowed, is_raised, .. } => {
                    let range = format!("{} to {}", said(*min), said(*max));
                    let raised = format!("; less is taken as {}", said(*min));
                    (allowed, range + if *is_raised { &raised } else { "" })
                }
                PropertyType::Number { min, max, multiple_of: 1, allowed, .. } => {
                    (allowed, format!("{min} to {max}"))
                }
                PropertyType::Number { min, max, multiple_of, allowed, .. } => {
                    assert_eq!(min, multiple_of, "{}", property.name);
                    (allowed, format!("a multiple of {multiple_of}, up to {max}"))
                }
                PropertyType::Text { chars_max, length, allowed, .. } => {
                    assert_eq!(*length, format!("length of {}", property.element));
                    (allowed, format!("at most {chars_max} characters"))
                }
                PropertyType::Flag(_)
                | PropertyType::Destination(_)
                | PropertyType::Status(_)
                | PropertyType::AuthorizationRules(_) => continue,
            };
            assert_eq!(*allowed, expected, "{}", property.name);
        }
    }
}
