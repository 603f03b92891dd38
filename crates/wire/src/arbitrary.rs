//! Generators of domain values, for this crate's properties.

use bytes::Bytes;
use domain::*;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,12}", "\\PC{0,6}"]
}

fn words() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["locked", "queue size", "1 to 5", ""])
}

fn at() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        (1_700_000_000_000u64..1_900_000_000_000).prop_map(Timestamp),
        any::<u64>().prop_map(Timestamp),
        Just(Timestamp::NEVER)
    ]
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![(0..100_000u64).prop_map(Span), any::<u64>().prop_map(Span), Just(Span::MAX)]
}

fn number() -> impl Strategy<Value = SequenceNumber> {
    prop_oneof![0..1000u64, any::<u64>()].prop_map(SequenceNumber)
}

fn entity() -> impl Strategy<Value = EntityId> {
    prop_oneof![0..1000u64, any::<u64>()].prop_map(EntityId)
}

fn queue() -> impl Strategy<Value = QueueId> {
    (entity(), prop::sample::select(&SubQueue::ALL[..]))
        .prop_map(|(entity, sub)| QueueId { entity, sub })
}

fn kind() -> impl Strategy<Value = DeadlineKind> {
    prop::sample::select(&DeadlineKind::ALL[..])
}

fn token() -> impl Strategy<Value = LockToken> {
    (number(), any::<u64>()).prop_map(|(sequence, nonce)| LockToken { sequence, nonce })
}

pub fn session() -> impl Strategy<Value = SessionId> {
    text().prop_map(SessionId::from)
}

fn session_token() -> impl Strategy<Value = SessionToken> {
    (session(), any::<u64>()).prop_map(|(session, nonce)| SessionToken { session, nonce })
}

fn receiver() -> impl Strategy<Value = ReceiverId> {
    any::<(u64, u64, u32)>().prop_map(|(node, link, epoch)| ReceiverId { node, link, epoch })
}

fn origin() -> impl Strategy<Value = Option<Origin>> {
    of(any::<(u64, u64, bool, bool)>().prop_map(|(producer, serial, ordered, retry)| Origin {
        producer,
        serial,
        ordered,
        retry,
    }))
}

fn content() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..64).prop_map(Bytes::from)
}

/// Floats without NaN, which equals nothing.
pub fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Byte),
        any::<i8>().prop_map(Value::SByte),
        any::<i16>().prop_map(Value::Short),
        any::<u16>().prop_map(Value::UShort),
        any::<i32>().prop_map(Value::Int),
        any::<u32>().prop_map(Value::UInt),
        any::<i64>().prop_map(Value::Long),
        any::<u64>().prop_map(Value::ULong),
        any::<f32>().prop_map(Value::Float),
        any::<f64>().prop_map(Value::Double),
        any::<[u8; 16]>().prop_map(Value::Decimal),
        any::<char>().prop_map(Value::Char),
        text().prop_map(Value::String),
        text().prop_map(Value::Uri),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        any::<i64>().prop_map(Value::DateTime),
        any::<i64>().prop_map(Value::DateTimeOffset),
        any::<i64>().prop_map(Value::TimeSpan),
        vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
    ]
}

fn properties() -> impl Strategy<Value = Properties> {
    btree_map(text(), value(), 0..4)
}

fn overlay() -> impl Strategy<Value = Option<Box<Overlay>>> {
    let texts = btree_map(system_property(), of(text()), 0..3);
    of((properties(), vec(text(), 0..3), texts, of(at())).prop_map(
        |(set, removed, texts, scheduled_at)| {
            Box::new(Overlay { set, removed, texts, scheduled_at })
        },
    ))
}

fn system_property() -> impl Strategy<Value = SystemProperty> {
    prop::sample::select(SystemProperty::all().collect::<Vec<_>>())
}

fn sql() -> impl Strategy<Value = SqlText> {
    (text(), properties()).prop_map(|(text, parameters)| SqlText { text, parameters })
}

fn rule_filter() -> impl Strategy<Value = RuleFilter> {
    prop_oneof![
        Just(RuleFilter::True),
        Just(RuleFilter::False),
        sql().prop_map(RuleFilter::Sql),
        (btree_map(system_property(), text(), 0..3), properties()).prop_map(
            |(system, properties)| RuleFilter::Correlation(Conditions { system, properties })
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

fn rule_counts() -> impl Strategy<Value = RuleCounts> {
    any::<[u32; 4]>().prop_map(|n| RuleCounts {
        sql: n[0],
        correlation: n[1],
        constant: n[2],
        with_action: n[3],
    })
}

fn specifics() -> impl Strategy<Value = Specifics> {
    prop_oneof![
        Just(Specifics::Queue),
        (any::<(bool, bool, u32)>(), rule_counts()).prop_map(|(given, rules)| {
            Specifics::Topic(TopicSpecifics {
                filter_before_publishing: given.0,
                support_ordering: given.1,
                subscriptions: given.2,
                rules,
            })
        }),
        (entity(), span(), any::<bool>(), rule_counts()).prop_map(
            |(topic, own_default_ttl, dead_letter_on_filter_errors, rules)| {
                Specifics::Subscription(SubscriptionSpecifics {
                    topic,
                    own_default_ttl,
                    dead_letter_on_filter_errors,
                    rules,
                })
            }
        ),
    ]
}

pub fn topic_properties() -> impl Strategy<Value = TopicProperties> {
    (queue_properties(), any::<(bool, bool)>()).prop_map(|(common, given)| {
        let specifics = TopicSpecifics {
            filter_before_publishing: given.0,
            support_ordering: given.1,
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
            rules: RuleCounts::default(),
        };
        SubscriptionProperties::of(&common, &specifics)
    })
}

fn topic_command() -> impl Strategy<Value = TopicCommand> {
    prop_oneof![
        (entity(), text(), topic_properties()).prop_map(|(entity, name, properties)| {
            let properties = Box::new(properties);
            TopicCommand::Create(CreateTopic { entity, name, properties })
        }),
        (origin(), entity(), topic_properties()).prop_map(|(origin, entity, properties)| {
            let properties = Box::new(properties);
            TopicCommand::Update(UpdateTopic { origin, entity, properties })
        }),
        (entity(), entity(), text(), subscription_properties(), new_rule()).prop_map(
            |(entity, topic, name, properties, rule)| {
                let (properties, rule) = (Box::new(properties), Box::new(rule));
                let create = CreateSubscription { entity, topic, name, properties, rule };
                TopicCommand::CreateSubscription(create)
            }
        ),
        (origin(), entity(), subscription_properties()).prop_map(|(origin, entity, properties)| {
            let properties = Box::new(properties);
            TopicCommand::UpdateSubscription(UpdateSubscription { origin, entity, properties })
        }),
        (origin(), entity(), new_rule(), any::<bool>()).prop_map(
            |(origin, entity, rule, replace)| {
                TopicCommand::PutRule(PutRule { origin, entity, rule: Box::new(rule), replace })
            }
        ),
        (origin(), entity(), text()).prop_map(|(origin, entity, name)| {
            TopicCommand::RemoveRule(RemoveRule { origin, entity, name })
        }),
    ]
}

fn status() -> impl Strategy<Value = EntityStatus> {
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
    let flags = any::<(bool, bool, bool, bool)>();
    let forwards = (destination(), destination());
    (spans, sizes, flags, status(), text(), forwards).prop_map(
        |(spans, sizes, flags, status, text, forwards)| QueueProperties {
            lock_duration: spans.0,
            max_size_megabytes: sizes.0,
            max_message_size_kilobytes: sizes.1,
            requires_duplicate_detection: flags.0,
            duplicate_detection_window: spans.1,
            requires_session: flags.1,
            default_ttl: spans.2,
            auto_delete_on_idle: spans.3,
            dead_letter_on_expiration: flags.2,
            max_delivery_count: sizes.2,
            status,
            user_metadata: text,
            enable_batched_operations: flags.3,
            forward_to: forwards.0,
            forward_dead_letters_to: forwards.1,
        },
    )
}

/// A name, as no empty one is.
fn destination() -> impl Strategy<Value = Option<String>> {
    of("[a-z]{1,12}")
}

fn new_message() -> impl Strategy<Value = NewMessage> {
    let texts = (of(text()), of(text()), of(text()));
    (content(), any::<(u32, u32)>(), texts, of(span()), of(at())).prop_map(
        |(content, sizes, texts, ttl, scheduled_at)| NewMessage {
            content,
            size_bytes: sizes.0,
            header_bytes: sizes.1,
            message_id: texts.0,
            session_id: texts.1,
            partition_key: texts.2,
            ttl,
            scheduled_at,
        },
    )
}

fn travel() -> impl Strategy<Value = Travel> {
    (number(), any::<u32>(), of(text())).prop_map(
        |(enqueued_sequence, hops, dead_letter_source)| Travel {
            enqueued_sequence,
            hops,
            dead_letter_source,
        },
    )
}

fn shipment_destination() -> impl Strategy<Value = Destination> {
    (entity(), any::<u16>())
        .prop_map(|(entity, shard)| Destination { entity, shard: ShardId(shard) })
}

fn refused() -> impl Strategy<Value = Vec<Refused>> {
    let one =
        (any::<(u32, u32)>(), text(), text()).prop_map(|((first, count), reason, description)| {
            Refused { first, count, reason, description }
        });
    vec(one, 0..3)
}

fn forward_command() -> impl Strategy<Value = ForwardCommand> {
    let arriving =
        (new_message(), travel()).prop_map(|(message, travel)| Arriving { message, travel });
    let numbers = any::<(u64, u64, u64, u32, u32)>();
    prop_oneof![
        (queue(), text(), of(shipment_destination()), any::<(u32, u32, bool)>()).prop_map(
            |(queue, to, destination, (count_max, bytes_max, again))| {
                let ship = Ship { queue, to, destination, count_max, bytes_max, again };
                ForwardCommand::Ship(ship)
            }
        ),
        (queue(), numbers, entity(), vec(arriving, 0..3)).prop_map(
            |(source, (serial, settled_to, follows, count, skipped), destination, messages)| {
                ForwardCommand::Arrive(Arrive {
                    source,
                    serial,
                    settled_to,
                    follows,
                    destination,
                    count,
                    skipped,
                    messages,
                })
            }
        ),
        (queue(), any::<u64>(), refused()).prop_map(|(queue, serial, refused)| {
            ForwardCommand::Shipped(Shipped { queue, serial, refused })
        }),
        (queue(), any::<u32>())
            .prop_map(|(queue, count_max)| ForwardCommand::Unpark(Unpark { queue, count_max })),
        (queue(), entity()).prop_map(|(source, destination)| {
            ForwardCommand::ForgetArrivals(ForgetArrivals { source, destination })
        }),
    ]
}

fn disposition() -> impl Strategy<Value = Disposition> {
    prop_oneof![
        Just(Disposition::Complete),
        properties().prop_map(|properties| Disposition::Abandon { properties }),
        properties().prop_map(|properties| Disposition::Defer { properties }),
        (of(text()), of(text()), properties()).prop_map(|(reason, description, properties)| {
            Disposition::DeadLetter { reason, description, properties }
        }),
        Just(Disposition::Release),
        Just(Disposition::Withheld),
    ]
}

fn node_row() -> impl Strategy<Value = NodeRow> {
    (text(), text(), text()).prop_map(|(peer_address, grpc_address, http_address)| NodeRow {
        peer_address,
        grpc_address,
        http_address,
    })
}

fn catalog_command() -> impl Strategy<Value = CatalogCommand> {
    prop_oneof![
        (any::<(u128, u16, u8)>(), vec((any::<u64>(), node_row()), 0..4)).prop_map(
            |((cluster_id, data_groups, replication_factor), nodes)| CatalogCommand::Found {
                cluster_id,
                data_groups,
                replication_factor,
                nodes,
            }
        ),
        (any::<u64>(), text(), queue_properties()).prop_map(|(request, name, properties)| {
            CatalogCommand::Create { request, name, properties: Box::new(properties) }
        }),
        (text(), entity()).prop_map(|(name, entity)| CatalogCommand::Created { name, entity }),
        text().prop_map(|name| CatalogCommand::Delete { name }),
        (text(), entity()).prop_map(|(name, entity)| CatalogCommand::Deleted { name, entity }),
        (text(), entity()).prop_map(|(name, entity)| CatalogCommand::Withdraw { name, entity }),
        (any::<u64>(), node_row()).prop_map(|(node, row)| CatalogCommand::SetNode { node, row }),
        (any::<u64>(), text(), topic_properties()).prop_map(|(request, name, properties)| {
            CatalogCommand::CreateTopic { request, name, properties: Box::new(properties) }
        }),
        (any::<u64>(), text(), text(), subscription_properties(), new_rule()).prop_map(
            |(request, topic, name, properties, rule)| CatalogCommand::CreateSubscription {
                request,
                topic,
                name,
                properties: Box::new(properties),
                rule: Box::new(rule),
            }
        ),
        (text(), entity(), at()).prop_map(|(name, entity, idle_since)| CatalogCommand::Seal {
            name,
            entity,
            idle_since
        }),
        (text(), entity(), at()).prop_map(|(name, entity, idle_since)| CatalogCommand::Spare {
            name,
            entity,
            idle_since
        }),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let entities = prop_oneof![
        (entity(), text(), queue_properties()).prop_map(|(entity, name, properties)| {
            Command::CreateQueue(CreateQueue { entity, name, properties: Box::new(properties) })
        }),
        (origin(), entity(), queue_properties()).prop_map(|(origin, entity, properties)| {
            Command::UpdateQueue(UpdateQueue { origin, entity, properties: Box::new(properties) })
        }),
        entity().prop_map(|entity| Command::DeleteEntity { entity }),
        Just(Command::Sweep),
        Just(Command::Beat),
        entity().prop_map(|entity| Command::Touch { entity }),
        (entity(), at())
            .prop_map(|(entity, idle_since)| Command::Seal(Seal { entity, idle_since })),
        span().prop_map(|by| Command::AdvanceClock { by }),
        span().prop_map(|to| Command::RaiseClock { to }),
        catalog_command().prop_map(Command::Catalog),
        topic_command().prop_map(Command::Topic),
    ];
    let settlement =
        (token(), disposition()).prop_map(|(token, disposition)| Settlement { token, disposition });
    let messages = prop_oneof![
        (origin(), entity(), vec(operation(), 0..4)).prop_map(|(origin, entity, operations)| {
            Command::Commit(Commit { origin, entity, operations })
        }),
        (origin(), entity(), vec(new_message(), 0..4)).prop_map(|(origin, entity, messages)| {
            Command::Send(domain::Send { origin, entity, messages })
        }),
        (queue(), receiver(), any::<(u32, u32)>()).prop_map(
            |(queue, receiver, (count_max, bytes_max))| {
                Command::Acquire(Acquire { queue, receiver, count_max, bytes_max })
            }
        ),
        (origin(), queue(), vec(settlement, 0..4), any::<bool>()).prop_map(
            |(origin, queue, settlements, atomic)| {
                Command::Settle(Settle { origin, queue, settlements, atomic })
            }
        ),
        (origin(), queue(), vec(token(), 0..4))
            .prop_map(|(origin, queue, tokens)| Command::Renew(Renew { origin, queue, tokens })),
        (origin(), entity(), vec(number(), 0..4)).prop_map(|(origin, entity, numbers)| {
            Command::CancelScheduled(CancelScheduled { origin, entity, numbers })
        }),
        (origin(), queue(), receiver(), vec(number(), 0..4)).prop_map(
            |(origin, queue, receiver, numbers)| {
                Command::ReceiveDeferred(ReceiveDeferred { origin, queue, receiver, numbers })
            }
        ),
        (origin(), queue(), any::<u32>(), of(at())).prop_map(
            |(origin, queue, count_max, before)| {
                Command::DeleteBatch(DeleteBatch { origin, queue, count_max, before })
            }
        ),
        (entity(), kind(), any::<u32>())
            .prop_map(|(entity, kind, count_max)| Command::Fire(Fire { entity, kind, count_max })),
        vec((queue(), token()), 0..4).prop_map(|locks| Command::FireLocks(FireLocks { locks })),
        (origin(), refusal())
            .prop_map(|(origin, refusal)| Command::Refuse(Refuse { origin, refusal })),
    ];
    let forward = forward_command().prop_map(Command::Forward);
    prop_oneof![entities, messages, session_command().prop_map(Command::Session), forward]
}

fn operation() -> impl Strategy<Value = Operation> {
    let settlement =
        (token(), disposition()).prop_map(|(token, disposition)| Settlement { token, disposition });
    let held = (origin(), entity(), session_token());
    prop_oneof![
        (origin(), entity(), vec(new_message(), 0..3)).prop_map(|(origin, entity, messages)| {
            Operation::Send(domain::Send { origin, entity, messages })
        }),
        (origin(), entity(), vec(number(), 0..3)).prop_map(|(origin, entity, numbers)| {
            Operation::CancelScheduled(CancelScheduled { origin, entity, numbers })
        }),
        (origin(), queue(), vec(settlement, 0..3), any::<bool>()).prop_map(
            |(origin, queue, settlements, atomic)| {
                Operation::Settle(Settle { origin, queue, settlements, atomic })
            }
        ),
        (origin(), queue(), vec(token(), 0..3))
            .prop_map(|(origin, queue, tokens)| Operation::Renew(Renew { origin, queue, tokens })),
        (held, of(content())).prop_map(|((origin, entity, token), state)| {
            Operation::SetState(SetSessionState { origin, entity, token, state })
        }),
        (entity(), shipment_destination(), vec(new_message(), 0..3)).prop_map(
            |(via, destination, messages)| {
                Operation::SendVia(SendVia { via, destination, messages })
            }
        ),
    ]
}

fn performed() -> impl Strategy<Value = Performed> {
    prop_oneof![
        Just(Performed::Done),
        vec(number(), 0..4).prop_map(|sequences| Performed::Sent { sequences }),
        vec(at(), 0..3).prop_map(|until| Performed::Renewed { until }),
    ]
}

fn session_command() -> impl Strategy<Value = SessionCommand> {
    let held = || (origin(), entity(), session_token());
    prop_oneof![
        (origin(), queue(), receiver(), of(session())).prop_map(
            |(origin, queue, receiver, session)| {
                SessionCommand::Accept(AcceptSession { origin, queue, receiver, session })
            }
        ),
        (entity(), session_token(), receiver(), any::<(u32, u32)>()).prop_map(
            |(entity, token, receiver, (count_max, bytes_max))| {
                let receive = ReceiveSession { entity, token, receiver, count_max, bytes_max };
                SessionCommand::Receive(receive)
            }
        ),
        (entity(), session_token(), receiver(), vec(token(), 0..3)).prop_map(
            |(entity, token, receiver, arrived)| {
                let resume = ResumeSession { entity, token, receiver, arrived };
                SessionCommand::Resume(resume)
            }
        ),
        held().prop_map(|(origin, entity, token)| {
            SessionCommand::Renew(RenewSession { origin, entity, token })
        }),
        held().prop_map(|(origin, entity, token)| {
            SessionCommand::Release(ReleaseSession { origin, entity, token })
        }),
        (held(), of(content())).prop_map(|((origin, entity, token), state)| {
            SessionCommand::SetState(SetSessionState { origin, entity, token, state })
        }),
        (held(), receiver(), vec(number(), 0..4)).prop_map(
            |((origin, entity, token), receiver, numbers)| {
                let receive = ReceiveSessionDeferred { origin, entity, token, receiver, numbers };
                SessionCommand::ReceiveDeferred(receive)
            }
        ),
        (held(), any::<u32>(), of(at())).prop_map(
            |((origin, entity, token), count_max, before)| {
                let delete = DeleteSessionBatch { origin, entity, token, count_max, before };
                SessionCommand::DeleteBatch(delete)
            }
        ),
        vec((entity(), session_token()), 0..4)
            .prop_map(|locks| SessionCommand::Fire(FireSessions { locks })),
    ]
}

pub fn entry() -> impl Strategy<Value = Entry> {
    (at(), any::<[u8; 16]>(), vec(command(), 0..6)).prop_map(|(at, seed, commands)| Entry {
        at,
        seed,
        commands,
    })
}

pub fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        9 => plain_refusal(),
        1 => (any::<u32>(), plain_refusal()).prop_map(|(operation, cause)| {
            Refusal::TransactionRolledBack { operation, cause: cause.into() }
        }),
    ]
}

/// Of anything but a transaction that was rolled back.
fn plain_refusal() -> impl Strategy<Value = Refusal> {
    let others = prop_oneof![
        Just(Refusal::TransactionUnknown),
        Just(Refusal::TransactionTimedOut),
        (words(), any::<(u64, u64)>()).prop_map(|(what, (held, max))| {
            Refusal::TransactionSizeExceeded { what, held, max }
        }),
    ];
    prop_oneof![
        others,
        text().prop_map(|name| Refusal::EntityNotFound { name }),
        entity().prop_map(|entity| Refusal::StaleRoute { entity }),
        text().prop_map(|name| Refusal::EntityAlreadyExists { name }),
        words().prop_map(|status| Refusal::EntityDisabled { status }),
        token().prop_map(|token| Refusal::MessageLockLost { token }),
        (number(), words())
            .prop_map(|(sequence, needs)| Refusal::MessageNotFound { sequence, needs }),
        (words(), any::<(u64, u64)>())
            .prop_map(|(what, (bytes, max))| Refusal::MessageSizeExceeded { what, bytes, max }),
        (words(), any::<(u64, u64)>()).prop_map(|(what, (used, max))| Refusal::QuotaExceeded {
            what,
            used,
            max
        }),
        (words(), text()).prop_map(|(what, why)| Refusal::Argument { what, why }),
        (words(), text(), words()).prop_map(|(what, value, allowed)| {
            Refusal::ArgumentOutOfRange { what, value, allowed }
        }),
        (text(), any::<(u64, u64)>()).prop_map(|(what, (bytes, max))| Refusal::Serialization {
            what,
            bytes,
            max
        }),
        words().prop_map(|why| Refusal::InvalidOperation { why }),
        words().prop_map(|what| Refusal::NotSupported { what }),
        any::<u64>().prop_map(|expected| Refusal::SerialGap { expected }),
        Just(Refusal::PerhapsDone),
        vec(any::<u64>(), 0..4).prop_map(|on| Refusal::StorageFull { on }),
        of(session()).prop_map(|session| Refusal::SessionLockLost { session }),
        session().prop_map(|session| Refusal::SessionCannotBeLocked { session }),
        Just(Refusal::NoSession),
        text().prop_map(|topic| Refusal::NoMatchingSubscription { topic }),
        (words(), text()).prop_map(|(exception, why)| Refusal::InvalidRule { exception, why }),
    ]
}

pub fn delivery() -> impl Strategy<Value = Delivery> {
    let state = prop::sample::select(vec![
        MessageState::Active,
        MessageState::Deferred,
        MessageState::Scheduled,
    ]);
    let lock = of((token(), at()).prop_map(|(token, until)| HeldLock { token, until }));
    let numbers = (number(), number(), number(), of(entity()), of(text()));
    let times = (at(), of(at()), of(span()), of(at()));
    (numbers, any::<(u32, u32)>(), state, times, lock, overlay()).prop_map(
        |(numbers, counts, state, times, lock, overlay)| Delivery {
            sequence: numbers.0,
            body: numbers.1,
            topic: numbers.3,
            size_bytes: counts.0,
            state,
            delivery_count: counts.1,
            enqueued_at: times.0,
            enqueued_sequence: numbers.2,
            dead_letter_source: numbers.4,
            scheduled_at: times.1,
            ttl: times.2,
            expires_at: times.3,
            lock,
            overlay,
        },
    )
}

fn directory_row() -> impl Strategy<Value = DirectoryRow> {
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
    about.prop_map(|(entity, shard, name, kind, request, state)| {
        let shard = ShardId(shard);
        DirectoryRow { entity, shard, name, kind, request, state }
    })
}

pub fn outcome() -> impl Strategy<Value = Outcome> {
    let fired =
        (any::<[u32; 4]>(), any::<[u64; 2]>(), any::<bool>()).prop_map(|(counts, late, more)| {
            Fired {
                activated: counts[0],
                dropped: counts[1],
                dead_lettered: counts[2],
                released: counts[3],
                late_ms_max: late[0],
                late_ms_sum: late[1],
                more,
            }
        });
    prop_oneof![
        Just(Outcome::Done),
        Just(Outcome::Spared),
        refusal().prop_map(Outcome::Refused),
        vec(number(), 0..4).prop_map(|sequences| Outcome::Sent { sequences }),
        (vec(delivery(), 0..3), any::<bool>())
            .prop_map(|(deliveries, more)| Outcome::Acquired { deliveries, more }),
        vec((any::<u32>(), refusal()), 0..3).prop_map(|refused| Outcome::Settled { refused }),
        vec(at(), 0..3).prop_map(|until| Outcome::Renewed { until }),
        any::<(u32, bool)>().prop_map(|(count, more)| Outcome::Deleted { count, more }),
        fired.prop_map(Outcome::Fired),
        vec(performed(), 0..4).prop_map(|performed| Outcome::Committed { performed }),
        (session_token(), at()).prop_map(|(token, until)| Outcome::Accepted { token, until }),
        (any::<u32>(), refused()).prop_map(|(done, refused)| Outcome::Arrived { done, refused }),
        (directory_row(), any::<bool>())
            .prop_map(|(row, fresh)| Outcome::Catalog(CatalogOutcome::Entry { row, fresh })),
    ]
}

fn counts() -> impl Strategy<Value = Counts> {
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

fn entity_state() -> impl Strategy<Value = EntityState> {
    let next = || of((at(), number()));
    let each = || [number(), number(), number(), number()];
    let numbers = (number(), each(), each(), number());
    let times = (of(at()), of(at()), at(), at());
    (numbers, any::<[u64; 30]>(), counts(), next(), next(), times).prop_map(
        |(numbers, n, counts, scheduled_next, fixed_next, times)| EntityState {
            next_sequence: numbers.0,
            fresh_head: numbers.1,
            returned: [n[0], n[1], n[25], n[26]],
            returned_low: numbers.2,
            available: [n[2], n[3], n[27], n[28]],
            dead_letter_deferred: n[4],
            transfer_dead_letter_deferred: n[29],
            counts,
            size_bytes: n[5],
            scheduled_next,
            fixed_next,
            derived_cursor: numbers.3,
            derived_next: times.0,
            duplicate_next: times.1,
            accessed_at: times.2,
            last_use: times.3,
            sessions: SessionTotals { free: n[6], free_low: times.3, turns: n[7], states: n[8] },
            forwarding: [9, 13, 17, 21].map(|from| forwarding(&n[from..])),
        },
    )
}

fn forwarding(n: &[u64]) -> Forwarding {
    Forwarding { serial: n[0], in_transit: n[1], parked: n[2], stuck: n[3] }
}

fn message_row() -> impl Strategy<Value = MessageRow> {
    let lifetime = prop_oneof![
        Just(Lifetime::Derived),
        (span(), at()).prop_map(|(ttl, expires_at)| Lifetime::Fixed { ttl, expires_at })
    ];
    let numbers = any::<(u32, u32, bool, u32)>();
    let travel = of(travel().prop_map(Box::new));
    (number(), numbers, at(), lifetime, of(session()), overlay(), travel).prop_map(
        |(body, numbers, at, lifetime, session, overlay, travel)| {
            let (size_bytes, header_bytes, deferred, delivery_count) = numbers;
            MessageRow {
                body,
                size_bytes,
                header_bytes,
                deferred,
                delivery_count,
                enqueued_at: at,
                lifetime,
                session,
                overlay,
                travel,
            }
        },
    )
}

fn message_tables() -> impl Strategy<Value = (Key, Row)> {
    prop_oneof![
        (entity(), number(), content()).prop_map(|(e, n, c)| (Key::Body(e, n), Row::Body(c))),
        (queue(), number(), message_row())
            .prop_map(|(q, n, row)| (Key::Message(q, n), Row::Message(row))),
        (queue(), number()).prop_map(|(q, n)| (Key::Returned(q, n), Row::Returned)),
        (queue(), number(), any::<u64>(), at(), receiver()).prop_map(
            |(q, n, nonce, until, receiver)| {
                (Key::Lock(q, n), Row::Lock(LockRow { nonce, until, receiver }))
            }
        ),
        (
            entity(),
            number(),
            at(),
            at(),
            any::<(u32, u32)>(),
            of(span()),
            of(session()),
            of(travel())
        )
            .prop_map(
                |(e, n, due, accepted_at, (size_bytes, header_bytes), ttl, session, travel)| {
                    let row = ScheduledRow {
                        due,
                        accepted_at,
                        size_bytes,
                        header_bytes,
                        ttl,
                        session,
                        travel: travel.map(Box::new),
                    };
                    (Key::Scheduled(e, n), Row::Scheduled(row))
                }
            ),
        (entity(), kind(), at(), number())
            .prop_map(|(e, kind, at, n)| (Key::Deadline(e, kind, at, n), Row::Deadline)),
        (entity(), text(), at(), number()).prop_map(|(e, id, accepted_at, sequence)| {
            (Key::DuplicateId(e, id), Row::DuplicateId { accepted_at, sequence })
        }),
        (entity(), at(), text())
            .prop_map(|(e, at, id)| (Key::DuplicateTime(e, at, id), Row::DuplicateTime)),
    ]
}

fn other_tables() -> impl Strategy<Value = (Key, Row)> {
    prop_oneof![
        (at(), span(), any::<u64>(), at()).prop_map(
            |(last_at, clock_offset, producers, unbroken_since)| {
                let meta = Meta { last_at, clock_offset, producers, unbroken_since };
                (Key::Meta, Row::Meta(meta))
            }
        ),
        (entity(), text(), queue_properties(), specifics(), at(), at()).prop_map(
            |(e, name, properties, specifics, created_at, updated_at)| {
                let row = EntityRow { name, properties, specifics, created_at, updated_at };
                (Key::Entity(e), Row::Entity(Box::new(row)))
            }
        ),
        (entity(), entity_state())
            .prop_map(|(e, row)| (Key::EntityState(e), Row::EntityState(Box::new(row)))),
        (entity(), of(entity())).prop_map(|(e, topic)| (Key::Sweep(e), Row::Sweep { topic })),
        (entity(), entity()).prop_map(|(e, s)| (Key::Subscription(e, s), Row::Subscription)),
        (entity(), new_rule(), at(), any::<u32>()).prop_map(|(e, rule, created_at, order)| {
            let NewRule { name, filter, action } = rule;
            let row = RuleRow { name, filter, action, created_at, order };
            (Key::Rule(e, row.name.clone()), Row::Rule(Box::new(row)))
        }),
        (entity(), number(), any::<u32>())
            .prop_map(|(e, n, copies)| (Key::BodyCopies(e, n), Row::BodyCopies(copies))),
        (any::<[u64; 3]>(), at()).prop_map(|([producer, first, highest], seen)| {
            (Key::Producer(producer), Row::Producer(ProducerRow { first, highest, seen }))
        }),
        (at(), any::<u64>()).prop_map(|(at, id)| (Key::ProducerSeen(at, id), Row::ProducerSeen)),
        (any::<(u64, u64)>(), outcome())
            .prop_map(|((id, serial), row)| (Key::Outcome(id, serial), Row::Outcome(row))),
        any::<(u128, u16, u8, u64, u32)>().prop_map(|n| {
            let row = ClusterRow {
                cluster_id: n.0,
                data_groups: n.1,
                replication_factor: n.2,
                next_entity: n.3,
                feature_level: n.4,
            };
            (Key::Cluster, Row::Cluster(row))
        }),
        directory_row().prop_map(|row| (Key::Directory(row.name.clone()), Row::Directory(row))),
        (any::<u64>(), node_row()).prop_map(|(id, row)| (Key::Node(id), Row::Node(row))),
        (any::<u16>(), vec(any::<u64>(), 0..6)).prop_map(|(id, replicas)| {
            (Key::Group(ShardId(id)), Row::Group(GroupRow { replicas }))
        }),
    ]
}

/// A row under a key of its table.
pub fn row() -> impl Strategy<Value = (Key, Row)> {
    prop_oneof![message_tables(), session_tables(), forward_tables(), other_tables()]
}

fn forward_tables() -> impl Strategy<Value = (Key, Row)> {
    let arrived = (any::<(u32, u32)>(), refused())
        .prop_map(|((count, done), refused)| ArrivedShipment { count, done, refused });
    prop_oneof![
        (queue(), any::<u64>(), shipment_destination(), vec(number(), 0..4)).prop_map(
            |(q, serial, destination, numbers)| {
                let row = ShipmentRow { destination, numbers };
                (Key::Shipment(q, serial), Row::Shipment(row))
            }
        ),
        (queue(), any::<(bool, u64)>(), vec(number(), 0..4)).prop_map(
            |(q, (stays, turn), numbers)| (Key::Parked(q, stays, turn), Row::Parked(numbers))
        ),
        (queue(), entity(), any::<u64>(), at(), btree_map(any::<u64>(), arrived, 0..3)).prop_map(
            |(q, e, serial, at, shipments)| {
                (Key::Arrival(q, e), Row::Arrival(ArrivalRow { serial, at, shipments }))
            }
        ),
    ]
}

fn session_tables() -> impl Strategy<Value = (Key, Row)> {
    let numbers = || (any::<u64>(), number()).prop_map(|(count, low)| Numbers { count, low });
    let claim = || (at(), any::<u64>()).prop_map(|(at, turn)| Claim { at, turn });
    let lock = (any::<u64>(), at(), receiver(), any::<bool>()).prop_map(
        |(nonce, until, receiver, closed)| SessionLock { nonce, until, receiver, closed },
    );
    let state = (any::<u32>(), at())
        .prop_map(|(size_bytes, changed_at)| StateMark { size_bytes, changed_at });
    let counts = any::<(u64, u64)>();
    let row = (counts, numbers(), numbers(), of(lock), at(), of(claim()), of(state)).prop_map(
        |((active, deferred), ready, held, lock, released_at, claim, state)| SessionRow {
            active,
            deferred,
            ready,
            held,
            lock,
            released_at,
            claim,
            state,
        },
    );
    let list = prop::sample::select(&SessionList::ALL[..]);
    prop_oneof![
        (entity(), session(), row)
            .prop_map(|(e, id, row)| (Key::Session(e, id), Row::Session(Box::new(row)))),
        (entity(), session(), list, number()).prop_map(|(e, id, list, n)| (
            Key::SessionMessage(e, id, list, n),
            Row::SessionMessage
        )),
        (entity(), session(), number(), any::<u64>(), receiver()).prop_map(
            |(e, id, n, nonce, receiver)| {
                (Key::SessionHeld(e, id, n), Row::SessionHeld(HeldRow { nonce, receiver }))
            }
        ),
        (entity(), claim(), session())
            .prop_map(|(e, claim, id)| (Key::SessionFree(e, claim), Row::SessionFree(id))),
        (entity(), session()).prop_map(|(e, id)| (Key::SessionLocked(e, id), Row::SessionLocked)),
        (entity(), session(), content())
            .prop_map(|(e, id, state)| (Key::SessionState(e, id), Row::SessionState(state))),
    ]
}
