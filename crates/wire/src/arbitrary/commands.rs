//! Commands.

use super::*;

pub fn topic_command() -> impl Strategy<Value = TopicCommand> {
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

pub fn new_message() -> impl Strategy<Value = NewMessage> {
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

pub fn travel() -> impl Strategy<Value = Travel> {
    (number(), any::<u32>(), of(text())).prop_map(
        |(enqueued_sequence, hops, dead_letter_source)| Travel {
            enqueued_sequence,
            hops,
            dead_letter_source,
        },
    )
}

pub fn shipment_destination() -> impl Strategy<Value = Destination> {
    (entity(), any::<u16>())
        .prop_map(|(entity, group)| Destination { entity, group: GroupId(group) })
}

pub fn refused() -> impl Strategy<Value = Vec<Refused>> {
    let one =
        (any::<(u32, u32)>(), text(), text()).prop_map(|((first, count), reason, description)| {
            Refused { first, count, reason, description }
        });
    vec(one, 0..3)
}

pub fn forward_command() -> impl Strategy<Value = ForwardCommand> {
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
        (queue(), numbers, entity(), vec(arriving, 0..3), prop_oneof![Just(0), any::<u64>()])
            .prop_map(
                |(
                    source,
                    (serial, settled_to, follows, count, skipped),
                    destination,
                    messages,
                    cut,
                )| {
                    let arrive = Arrive {
                        source,
                        serial,
                        settled_to,
                        follows,
                        destination,
                        count,
                        skipped,
                        messages,
                    };
                    arrive.behind(cut)
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

pub fn disposition() -> impl Strategy<Value = Disposition> {
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

pub fn node_row() -> impl Strategy<Value = NodeRow> {
    (text(), text(), text()).prop_map(|(peer_address, grpc_address, http_address)| NodeRow {
        peer_address,
        grpc_address,
        http_address,
    })
}

fn namespace_command() -> impl Strategy<Value = CatalogCommand> {
    prop_oneof![
        (any::<u64>(), text(), authorization_rules()).prop_map(
            |(request, name, authorization_rules)| {
                CatalogCommand::CreateNamespace { request, name, authorization_rules }
            }
        ),
        (any::<u64>(), text(), authorization_rules()).prop_map(
            |(request, name, authorization_rules)| {
                CatalogCommand::UpdateNamespace { request, name, authorization_rules }
            }
        ),
        (any::<(u64, bool)>(), text()).prop_map(|((request, force), name)| {
            CatalogCommand::DeleteNamespace { request, name, force }
        }),
        (any::<u64>(), text())
            .prop_map(|(request, name)| CatalogCommand::NamespaceDeleted { request, name }),
        (any::<u128>(), vec(namespace_row(), 0..3))
            .prop_map(|(restore, rows)| CatalogCommand::RestoreNamespaces { restore, rows }),
        (any::<u64>(), text(), span()).prop_map(|(request, name, window)| {
            CatalogCommand::SetNamespaceIdle { request, name, window }
        }),
        (any::<u64>(), text(), at()).prop_map(|(request, name, until)| {
            CatalogCommand::UseNamespace { request, name, until }
        }),
        (any::<u64>(), text())
            .prop_map(|(request, name)| CatalogCommand::SealNamespace { request, name }),
        (any::<u64>(), text())
            .prop_map(|(request, name)| CatalogCommand::DeleteIdleNamespace { request, name }),
        (any::<u64>(), text(), profile(), span(), authorization_rules()).prop_map(
            |(request, name, profile, auto_delete_on_idle, authorization_rules)| {
                let new = NewNamespace { name, profile, auto_delete_on_idle, authorization_rules };
                CatalogCommand::CreateNamespaceOf { request, new }
            }
        ),
        (any::<u64>(), text(), profile()).prop_map(|(request, name, profile)| {
            CatalogCommand::ChangeProfile { request, name, profile }
        }),
        (any::<(u64, bool)>(), text(), profile()).prop_map(|((request, fits), name, profile)| {
            CatalogCommand::SettleProfile { request, name, profile, fits }
        }),
    ]
}

fn document_command() -> impl Strategy<Value = CatalogCommand> {
    prop_oneof![
        (text(), text(), any::<bool>()).prop_map(|(name, text, is_new)| {
            let text = DocumentText(text);
            CatalogCommand::PutDocument { name, text, is_new }
        }),
        text().prop_map(|name| CatalogCommand::RemoveDocument { name }),
    ]
}

pub fn catalog_command() -> impl Strategy<Value = CatalogCommand> {
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
        (any::<u64>(), node_row()).prop_map(|(node, row)| CatalogCommand::AddNode { node, row }),
        any::<(u64, bool)>().prop_map(|(node, cancel)| CatalogCommand::Drain { node, cancel }),
        any::<(u64, bool)>().prop_map(|(node, dead)| CatalogCommand::Remove { node, dead }),
        any::<(u64, bool)>().prop_map(|(node, on)| CatalogCommand::SetMaintenance { node, on }),
        (any::<u16>(), vec(any::<(u64, u32)>(), 0..4)).prop_map(|(data_groups, directories)| {
            CatalogCommand::AddGroups { data_groups, directories }
        }),
        any::<u16>().prop_map(|data_groups| CatalogCommand::OpenGroups { data_groups }),
        (any::<u128>(), at())
            .prop_map(|(restore, taken_at)| CatalogCommand::BeginRestore { restore, taken_at }),
        (any::<u128>(), vec(directory_row(), 0..3))
            .prop_map(|(restore, rows)| CatalogCommand::RestoreNames { restore, rows }),
        any::<(u128, u64)>()
            .prop_map(|(restore, next_entity)| CatalogCommand::EndRestore { restore, next_entity }),
        (text(), entity(), any::<(u16, u16)>()).prop_map(|(name, entity, (from, group))| {
            let (from, group) = (GroupId(from), GroupId(group));
            CatalogCommand::SetGroup { name, entity, from, group }
        }),
        any::<(u16, u64, u64, u64)>().prop_map(|(group, from, to, moves)| {
            CatalogCommand::MoveReplica { group: GroupId(group), from, to, moves }
        }),
        any::<(u64, [u8; 32], u64, Option<u64>)>().prop_map(|(id, secret_hash, lasts, node)| {
            CatalogCommand::CreateJoinToken { id, secret_hash, lasts: Span(lasts), node }
        }),
        any::<u64>().prop_map(|id| CatalogCommand::RevokeJoinToken { id }),
        any::<(String, String, Option<u64>)>().prop_map(|(name, text, lasts)| {
            CatalogCommand::PutFaultRule { name, text, lasts: lasts.map(Span) }
        }),
        any::<Option<String>>().prop_map(|name| CatalogCommand::RemoveFaultRules { name }),
        namespace_command(),
        document_command(),
        (any::<u32>(), vec(any::<u64>(), 0..3))
            .prop_map(|(level, nodes)| CatalogCommand::RaiseFeatureLevel { level, nodes }),
        (any::<(u64, [u8; 32], u64, u64)>(), node_row()).prop_map(
            |((token, secret_hash, request, node), row)| CatalogCommand::Join {
                token,
                secret_hash,
                request,
                node,
                row: Box::new(row),
            }
        ),
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

fn relocation_command() -> impl Strategy<Value = RelocationCommand> {
    prop_oneof![
        (entity(), any::<u16>()).prop_map(|(entity, to)| {
            RelocationCommand::Depart(Depart { entity, to: GroupId(to) })
        }),
        (entity(), any::<(u64, u64, bool)>(), at(), vec(row(), 0..4)).prop_map(
            |(entity, (number, cut, is_last), at, rows)| {
                RelocationCommand::Admit(Admit { entity, number, at, cut, rows, is_last })
            }
        ),
        (entity(), any::<u64>())
            .prop_map(|(entity, number)| RelocationCommand::Leave(Leave { entity, number })),
    ]
}

pub fn command() -> impl Strategy<Value = Command> {
    let entities = prop_oneof![
        (entity(), text(), queue_properties()).prop_map(|(entity, name, properties)| {
            Command::CreateQueue(CreateQueue { entity, name, properties: Box::new(properties) })
        }),
        (origin(), entity(), queue_properties()).prop_map(|(origin, entity, properties)| {
            Command::UpdateQueue(UpdateQueue { origin, entity, properties: Box::new(properties) })
        }),
        entity().prop_map(|entity| Command::DeleteEntity { entity }),
        Just(Command::Sweep),
        any::<u64>().prop_map(|units_max| Command::LimitMatching { units_max }),
        any::<u64>().prop_map(|number| Command::Cut { number }),
        any::<u32>().prop_map(|level| Command::ReachLevel { level }),
        (any::<u128>(), vec(row(), 0..4), any::<bool>()).prop_map(|(restore, rows, is_last)| {
            Command::Restore(Restore { restore, rows, is_last })
        }),
        relocation_command().prop_map(Command::Relocate),
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
        (origin(), queue(), receiver(), vec(number(), 0..4)).prop_map(
            |(origin, queue, receiver, numbers)| {
                Command::Select(Select { origin, queue, receiver, numbers })
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

pub fn operation() -> impl Strategy<Value = Operation> {
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

pub fn session_command() -> impl Strategy<Value = SessionCommand> {
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
