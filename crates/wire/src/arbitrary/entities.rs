//! Entities, their properties and rules.

use super::*;

pub fn sql() -> impl Strategy<Value = SqlText> {
    (text(), properties()).prop_map(|(text, parameters)| {
        let written = written(&parameters);
        SqlText { text, parameters, written }
    })
}

/// Every other value.
fn written(values: &Properties) -> WrittenValues {
    let value = |name: &String| WrittenValue { kind: "long".to_owned(), text: name.clone() };
    values.keys().step_by(2).map(|name| (name.clone(), value(name))).collect()
}

pub fn rule_filter() -> impl Strategy<Value = RuleFilter> {
    prop_oneof![
        Just(RuleFilter::True),
        Just(RuleFilter::False),
        sql().prop_map(RuleFilter::Sql),
        (btree_map(system_property(), text(), 0..3), properties()).prop_map(
            |(system, properties)| {
                let written = written(&properties);
                RuleFilter::Correlation(Conditions { system, properties, written })
            }
        ),
    ]
}

pub fn new_rule() -> impl Strategy<Value = NewRule> {
    (text(), rule_filter(), of(sql())).prop_map(|(name, filter, action)| NewRule {
        name,
        filter,
        action,
    })
}

pub fn rule_counts() -> impl Strategy<Value = RuleCounts> {
    any::<[u32; 4]>().prop_map(|n| RuleCounts {
        sql: n[0],
        correlation: n[1],
        constant: n[2],
        with_action: n[3],
    })
}

pub fn specifics() -> impl Strategy<Value = Specifics> {
    prop_oneof![
        Just(Specifics::Queue),
        (any::<(bool, bool, u32, bool, bool)>(), rule_counts()).prop_map(|(given, rules)| {
            Specifics::Topic(TopicSpecifics {
                filter_before_publishing: given.0,
                support_ordering: given.1,
                subscription_partitioning: given.3,
                send_disabled: given.4,
                subscriptions: given.2,
                rules,
            })
        }),
        (entity(), span(), any::<[bool; 2]>(), rule_counts()).prop_map(
            |(topic, own_default_ttl, flags, rules)| {
                Specifics::Subscription(SubscriptionSpecifics {
                    topic,
                    own_default_ttl,
                    dead_letter_on_filter_errors: flags[0],
                    receive_disabled: flags[1],
                    rules,
                })
            }
        ),
    ]
}

pub fn topic_properties() -> impl Strategy<Value = TopicProperties> {
    (queue_properties(), any::<(bool, bool, bool)>()).prop_map(|(common, given)| {
        let specifics = TopicSpecifics {
            filter_before_publishing: given.0,
            support_ordering: given.1,
            subscription_partitioning: given.2,
            ..TopicSpecifics::default()
        };
        TopicProperties::of(&common, &specifics)
    })
}

pub fn subscription_properties() -> impl Strategy<Value = SubscriptionProperties> {
    (queue_properties(), span(), any::<bool>()).prop_map(|(common, default_ttl, flag)| {
        let specifics = SubscriptionSpecifics {
            topic: EntityId(0),
            own_default_ttl: default_ttl,
            dead_letter_on_filter_errors: flag,
            receive_disabled: false,
            rules: RuleCounts::default(),
        };
        SubscriptionProperties::of(&common, &specifics)
    })
}

pub fn status() -> impl Strategy<Value = EntityStatus> {
    prop::sample::select(vec![
        EntityStatus::Active,
        EntityStatus::Disabled,
        EntityStatus::SendDisabled,
        EntityStatus::ReceiveDisabled,
    ])
}

pub fn queue_properties() -> impl Strategy<Value = QueueProperties> {
    let spans = (span(), span(), span(), span());
    let sizes = any::<(u32, u32, u32)>();
    let flags = any::<[bool; 7]>();
    let forwards = (destination(), destination());
    (spans, sizes, flags, status(), text(), forwards, authorization_rules()).prop_map(
        |(spans, sizes, flags, status, text, forwards, rules)| QueueProperties {
            lock_duration: spans.0,
            max_size_megabytes: sizes.0,
            max_message_size_kilobytes: sizes.1,
            requires_duplicate_detection: flags[0],
            // DUP-3: what is shorter, nobody is granted.
            duplicate_detection_window: spans.1.max(Span::from_secs(20)),
            requires_session: flags[1],
            default_ttl: spans.2,
            auto_delete_on_idle: spans.3,
            dead_letter_on_expiration: flags[2],
            max_delivery_count: sizes.2,
            status,
            user_metadata: text,
            enable_batched_operations: flags[3],
            authorization_rules: rules,
            forward_to: forwards.0,
            forward_dead_letters_to: forwards.1,
            support_ordering: flags[4],
            enable_partitioning: flags[5],
            enable_express: flags[6],
        },
    )
}

pub fn authorization_rules() -> impl Strategy<Value = Vec<AuthorizationRule>> {
    let rule = (text(), any::<(bool, bool, bool)>(), text(), text(), at(), at()).prop_map(
        |(name, (listen, send, manage), primary_key, secondary_key, created_at, modified_at)| {
            let rights = AccessRights { listen, send, manage };
            AuthorizationRule { name, rights, primary_key, secondary_key, created_at, modified_at }
        },
    );
    prop_oneof![Just(Vec::new()), vec(rule, 0..4)]
}

/// A name, as no empty one is.
pub fn destination() -> impl Strategy<Value = Option<String>> {
    of("[a-z]{1,12}")
}

pub fn directory_row() -> impl Strategy<Value = DirectoryRow> {
    let what = prop_oneof![
        queue_properties()
            .prop_map(|properties| Creation::Queue { properties: Box::new(properties) }),
        topic_properties()
            .prop_map(|properties| Creation::Topic { properties: Box::new(properties) }),
        (entity(), subscription_properties(), new_rule()).prop_map(|(topic, properties, rule)| {
            let (properties, rule) = (Box::new(properties), Box::new(rule));
            Creation::Subscription { topic, properties, rule }
        }),
    ];
    let state = prop_oneof![
        what.prop_map(|what| DirectoryState::Creating { what }),
        Just(DirectoryState::Ready),
        Just(DirectoryState::Deleting),
        at().prop_map(|idle_since| DirectoryState::Sealing { idle_since }),
    ];
    let kinds = [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription];
    let kind = prop::sample::select(kinds.to_vec());
    let about = (entity(), any::<u16>(), text(), kind, any::<u64>(), state);
    about.prop_map(|(entity, group, name, kind, request, state)| {
        let group = GroupId(group);
        DirectoryRow { entity, group, name, kind, request, state }
    })
}

pub fn counts() -> impl Strategy<Value = Counts> {
    any::<[u64; 13]>().prop_map(|n| Counts {
        accepted: n[0],
        active: n[1],
        scheduled: n[2],
        deferred: n[3],
        dead_lettered: n[4],
        completed: n[5],
        cancelled: n[6],
        expired: n[7],
        deleted: n[8],
        published: n[9],
        transfer: n[10],
        transfer_dead_lettered: n[11],
        moved: n[12],
    })
}
