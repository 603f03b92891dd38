//! Commands.

use super::*;

#[test]
fn forwarding() {
    let message = NewMessage {
        content: Bytes::from_static(b"\x01body"),
        size_bytes: 260,
        header_bytes: 2,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    };
    let travel = Travel { enqueued_sequence: NUMBER, hops: 1, dead_letter_source: None };
    for (given, expected) in [
        (
            ForwardCommand::Ship(Ship {
                queue: QUEUE,
                to: "Orders".into(),
                destination: Some(Destination { entity: ENTITY, group: GroupId(3) }),
                count_max: 512,
                bytes_max: 70_000,
                again: true,
            }),
            "2801ac0201064f726465727301ac02038004f0a20401",
        ),
        (
            ForwardCommand::Arrive(Arrive {
                source: QUEUE,
                serial: 9,
                settled_to: 7,
                follows: 8,
                destination: ENTITY,
                count: 3,
                skipped: 2,
                messages: vec![Arriving { message, travel }],
            }),
            "2802ac0201090708ac020302010501626f647984020200000000004d0100",
        ),
        (
            ForwardCommand::ArriveBehind {
                cut: 300,
                arrive: Arrive {
                    source: QUEUE,
                    serial: 9,
                    settled_to: 7,
                    follows: 8,
                    destination: ENTITY,
                    count: 3,
                    skipped: 3,
                    messages: vec![],
                },
            },
            "2806ac02ac0201090708ac02030300",
        ),
        (
            ForwardCommand::Shipped(Shipped { queue: QUEUE, serial: 9, refused: refused() }),
            "2803ac02010901010201720164",
        ),
        (ForwardCommand::Unpark(Unpark { queue: QUEUE, count_max: 512 }), "2804ac02018004"),
        (
            ForwardCommand::ForgetArrivals(ForgetArrivals { source: QUEUE, destination: ENTITY }),
            "2805ac0201ac02",
        ),
    ] {
        assert_eq!(command(Command::Forward(given.clone())), expected, "{given:?}");
    }
}

#[test]
fn commands() {
    let message = NewMessage {
        content: Bytes::from_static(b"\x01body"),
        size_bytes: 260,
        header_bytes: 2,
        message_id: Some("id".into()),
        session_id: None,
        partition_key: None,
        ttl: Some(Span(1000)),
        scheduled_at: None,
    };
    let dead_letter = Disposition::DeadLetter {
        reason: Some("r".into()),
        description: None,
        properties: properties(),
    };
    let settlements = [
        Disposition::Complete,
        Disposition::Abandon { properties: Properties::new() },
        Disposition::Defer { properties: Properties::new() },
        dead_letter,
        Disposition::Release,
    ];
    let settlements =
        settlements.map(|disposition| Settlement { token: TOKEN, disposition }).to_vec();
    let properties = Box::new(QueueProperties::default());
    let name = || "Orders".to_string();
    let node = NodeRow {
        peer_address: "a:1".into(),
        grpc_address: "a:2".into(),
        http_address: "a:3".into(),
    };
    for (given, expected) in [
        (
            Command::CreateQueue(CreateQueue {
                entity: ENTITY,
                name: name(),
                properties: properties.clone(),
            }),
            "01ac02064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a0000010000",
        ),
        (
            Command::UpdateQueue(UpdateQueue {
                origin: ORIGIN,
                entity: ENTITY,
                properties: properties.clone(),
            }),
            "0201000000000000feed090100ac02e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a0000010000",
        ),
        (
            Command::CreateQueue(CreateQueue {
                entity: ENTITY,
                name: name(),
                properties: Box::new(QueueProperties {
                    authorization_rules: authorization_rules(),
                    ..QueueProperties::default()
                }),
            }),
            "01ac02064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a00000301016b050170017380d095ffbc31070000",
        ),
        (
            Command::Topic(TopicCommand::Update(UpdateTopic {
                origin: None,
                entity: ENTITY,
                properties: Box::new(TopicProperties {
                    enable_batched_operations: false,
                    authorization_rules: authorization_rules(),
                    support_ordering: false,
                    ..TopicProperties::default()
                }),
            })),
            "140200ac028008800200c0cf24ffffffffffffffffff01ffffffffffffffffff0100000201016b050170017380d095ffbc31070000",
        ),
        (
            Command::Topic(TopicCommand::Update(UpdateTopic {
                origin: None,
                entity: ENTITY,
                properties: Box::new(TopicProperties {
                    authorization_rules: authorization_rules(),
                    enable_express: true,
                    enable_subscription_partitioning: true,
                    ..TopicProperties::default()
                }),
            })),
            "140200ac028008800200c0cf24ffffffffffffffffff01ffffffffffffffffff0100000701016b050170017380d095ffbc31070c0100",
        ),
        (
            Command::CreateQueue(CreateQueue {
                entity: ENTITY,
                name: name(),
                properties: Box::new(QueueProperties {
                    support_ordering: false,
                    enable_partitioning: true,
                    ..QueueProperties::default()
                }),
            }),
            "01ac02064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a000005030000",
        ),
        (Command::DeleteEntity { entity: ENTITY }, "03ac02"),
        (
            Command::Send(Send { origin: ORIGIN, entity: ENTITY, messages: vec![message] }),
            "0401000000000000feed090100ac02010501626f647984020201026964000001e80700",
        ),
        (
            Command::Acquire(Acquire {
                queue: QUEUE,
                receiver: RECEIVER,
                count_max: 10,
                bytes_max: 1000,
            }),
            "05ac020102f403030ae807",
        ),
        (
            Command::Settle(Settle { origin: None, queue: QUEUE, settlements, atomic: true }),
            "0600ac020105000000000000004d010203040506070801000000000000004d01020304050607080200000000000000004d01020304050607080300000000000000004d01020304050607080401017200020161060301620e0178000000000000004d01020304050607080501",
        ),
        (
            Command::Renew(Renew { origin: None, queue: QUEUE, tokens: vec![TOKEN] }),
            "0700ac020101000000000000004d0102030405060708",
        ),
        (
            Command::CancelScheduled(CancelScheduled {
                origin: None,
                entity: ENTITY,
                numbers: vec![NUMBER],
            }),
            "0800ac02014d",
        ),
        (
            Command::ReceiveDeferred(ReceiveDeferred {
                origin: None,
                queue: QUEUE,
                receiver: RECEIVER,
                numbers: vec![NUMBER],
            }),
            "0900ac020102f40303014d",
        ),
        (
            Command::Select(Select {
                origin: None,
                queue: QUEUE,
                receiver: RECEIVER,
                numbers: vec![NUMBER],
            }),
            "3c00ac020102f40303014d",
        ),
        (
            Command::DeleteBatch(DeleteBatch {
                origin: None,
                queue: QUEUE,
                count_max: 4,
                before: Some(AT),
            }),
            "0a00ac0201040180d095ffbc31",
        ),
        (
            Command::Fire(Fire { entity: ENTITY, kind: DeadlineKind::Duplicate, count_max: 4 }),
            "0bac020304",
        ),
        (
            Command::FireLocks(FireLocks { locks: vec![(QUEUE, TOKEN)] }),
            "0c01ac0201000000000000004d0102030405060708",
        ),
        (
            Command::Fire(Fire { entity: ENTITY, kind: DeadlineKind::Matching, count_max: 4 }),
            "0bac020404",
        ),
        (Command::LimitMatching { units_max: 300 }, "3dac02"),
        (Command::ReachLevel { level: 9 }, "4609"),
        (Command::Cut { number: 300 }, "3eac02"),
        (
            Command::Restore(Restore {
                restore: 7,
                rows: vec![
                    (Key::Body(ENTITY, NUMBER), Row::Body(Bytes::from_static(b"x"))),
                    (
                        Key::Shipment(QUEUE, 9),
                        Row::Shipment(ShipmentRow {
                            destination: Destination { entity: ENTITY, group: GroupId(3) },
                            numbers: vec![NUMBER],
                        }),
                    ),
                ],
                is_last: true,
            }),
            "3f0000000000000000000000000000000701021104000000000000012c000000000000004d01781228000000000000012c0100000000000000090601ac0203014d",
        ),
        (
            Command::Relocate(RelocationCommand::Depart(Depart { entity: ENTITY, to: GroupId(3) })),
            "4001ac0203",
        ),
        (
            Command::Relocate(RelocationCommand::Admit(Admit {
                entity: ENTITY,
                number: 2,
                at: AT,
                cut: 300,
                rows: vec![(Key::Body(ENTITY, NUMBER), Row::Body(Bytes::from_static(b"x")))],
                is_last: true,
            })),
            "4002ac020280d095ffbc31ac02011104000000000000012c000000000000004d017801",
        ),
        (
            Command::Relocate(RelocationCommand::Leave(Leave { entity: ENTITY, number: 2 })),
            "4003ac0202",
        ),
        (Command::Sweep, "0d"),
        (Command::Touch { entity: ENTITY }, "16ac02"),
        (Command::Seal(Seal { entity: ENTITY, idle_since: AT }), "17ac0280d095ffbc31"),
        (Command::Beat, "18"),
        (Command::AdvanceClock { by: Span(5) }, "0e05"),
        (Command::RaiseClock { to: Span(6) }, "1106"),
        (
            Command::Catalog(CatalogCommand::Found {
                cluster_id: 7,
                data_groups: 16,
                replication_factor: 3,
                nodes: vec![(1, node.clone())],
            }),
            "0f01000000000000000000000000000000071003010103613a3103613a3203613a33",
        ),
        (
            Command::Catalog(CatalogCommand::Create { request: 9, name: name(), properties }),
            "0f0209064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a0000010000",
        ),
        (
            Command::Catalog(CatalogCommand::Created { name: name(), entity: ENTITY }),
            "0f03064f7264657273ac02",
        ),
        (Command::Catalog(CatalogCommand::Delete { name: name() }), "0f04064f7264657273"),
        (
            Command::Catalog(CatalogCommand::Deleted { name: name(), entity: ENTITY }),
            "0f05064f7264657273ac02",
        ),
        (
            Command::Catalog(CatalogCommand::SetNode { node: 1, row: node.clone() }),
            "0f060103613a3103613a3203613a33",
        ),
        (
            Command::Catalog(CatalogCommand::AddNode { node: 4, row: node.clone() }),
            "0f0d0403613a3103613a3203613a33",
        ),
        (Command::Catalog(CatalogCommand::Drain { node: 1, cancel: true }), "0f0e0101"),
        (Command::Catalog(CatalogCommand::Remove { node: 1, dead: false }), "0f0f0100"),
        (Command::Catalog(CatalogCommand::SetMaintenance { node: 1, on: true }), "0f150101"),
        (
            Command::Catalog(CatalogCommand::MoveReplica {
                group: GroupId(5),
                from: 1,
                to: 4,
                moves: 7,
            }),
            "0f1005010407",
        ),
        (
            Command::Catalog(CatalogCommand::CreateJoinToken {
                id: 300,
                secret_hash: [7; 32],
                lasts: Span(60_000),
                node: Some(4),
            }),
            "0f11ac020707070707070707070707070707070707070707070707070707070707070707e0d4030104",
        ),
        (Command::Catalog(CatalogCommand::RevokeJoinToken { id: 300 }), "0f12ac02"),
        (
            Command::Catalog(CatalogCommand::PutFaultRule {
                name: "f".into(),
                text: "{}".into(),
                lasts: Some(Span(60_000)),
            }),
            "0f1c0166027b7d01e0d403",
        ),
        (Command::Catalog(CatalogCommand::RemoveFaultRules { name: None }), "0f1d00"),
        (
            Command::Catalog(CatalogCommand::CreateNamespace {
                request: 300,
                name: "orders".into(),
                authorization_rules: authorization_rules(),
            }),
            "0f1eac02066f726465727301016b050170017380d095ffbc3107",
        ),
        (
            Command::Catalog(CatalogCommand::UpdateNamespace {
                request: 300,
                name: "orders".into(),
                authorization_rules: Vec::new(),
            }),
            "0f1fac02066f726465727300",
        ),
        (
            Command::Catalog(CatalogCommand::DeleteNamespace {
                request: 300,
                name: "orders".into(),
                force: true,
            }),
            "0f20ac02066f726465727301",
        ),
        (
            Command::Catalog(CatalogCommand::NamespaceDeleted {
                request: 300,
                name: "orders".into(),
            }),
            "0f21ac02066f7264657273",
        ),
        (
            Command::Catalog(CatalogCommand::RestoreNamespaces {
                restore: 7,
                rows: vec![namespace()],
            }),
            "0f220000000000000000000000000000000701066f7264657273ac0280d095ffbc310701016b050170017380d095ffbc310700",
        ),
        (
            Command::Catalog(CatalogCommand::SetNamespaceIdle {
                request: 300,
                name: "orders".into(),
                window: Span(300_000),
            }),
            "0f29ac02066f7264657273e0a712",
        ),
        (
            Command::Catalog(CatalogCommand::UseNamespace {
                request: 300,
                name: "orders".into(),
                until: AT,
            }),
            "0f2aac02066f726465727380d095ffbc31",
        ),
        (
            Command::Catalog(CatalogCommand::SealNamespace { request: 300, name: "orders".into() }),
            "0f2bac02066f7264657273",
        ),
        (
            Command::Catalog(CatalogCommand::DeleteIdleNamespace {
                request: 300,
                name: "orders".into(),
            }),
            "0f2cac02066f7264657273",
        ),
        (
            Command::Catalog(CatalogCommand::CreateNamespaceOf {
                request: 300,
                new: NewNamespace {
                    name: "orders".into(),
                    profile: Profile::Basic,
                    auto_delete_on_idle: Span(300_000),
                    authorization_rules: Vec::new(),
                },
            }),
            "0f23ac02066f726465727301e0a71200",
        ),
        (
            Command::Catalog(CatalogCommand::ChangeProfile {
                request: 300,
                name: "orders".into(),
                profile: Profile::Premium,
            }),
            "0f24ac02066f726465727303",
        ),
        (
            Command::Catalog(CatalogCommand::SettleProfile {
                request: 300,
                name: "orders".into(),
                profile: Profile::Standard,
                fits: true,
            }),
            "0f25ac02066f72646572730201",
        ),
        (
            Command::Catalog(CatalogCommand::PutDocument {
                name: "tags".into(),
                text: DocumentText("{}".into()),
                is_new: true,
            }),
            "0f320474616773027b7d01",
        ),
        (
            Command::Catalog(CatalogCommand::RemoveDocument { name: "tags".into() }),
            "0f330474616773",
        ),
        (
            Command::Catalog(CatalogCommand::Join {
                token: 300,
                secret_hash: [7; 32],
                request: 9,
                node: 0,
                row: Box::new(node.clone()),
            }),
            "0f13ac020707070707070707070707070707070707070707070707070707070707070707090003613a3103613a3203613a33",
        ),
        (
            Command::Catalog(CatalogCommand::RaiseFeatureLevel { level: 3, nodes: vec![1, 300] }),
            "0f14030201ac02",
        ),
        (
            Command::Catalog(CatalogCommand::AddGroups {
                data_groups: 300,
                directories: vec![(1, 300), (2, 7)],
            }),
            "0f16ac020201ac020207",
        ),
        (Command::Catalog(CatalogCommand::OpenGroups { data_groups: 300 }), "0f17ac02"),
        (
            Command::Catalog(CatalogCommand::BeginRestore { restore: 7, taken_at: AT }),
            "0f180000000000000000000000000000000780d095ffbc31",
        ),
        (
            Command::Catalog(CatalogCommand::RestoreNames {
                restore: 7,
                rows: vec![DirectoryRow {
                    entity: ENTITY,
                    group: GroupId(3),
                    name: name(),
                    kind: EntityKind::Topic,
                    request: 9,
                    state: DirectoryState::Ready,
                }],
            }),
            "0f190000000000000000000000000000000701ac0203064f7264657273010901",
        ),
        (
            Command::Catalog(CatalogCommand::EndRestore { restore: 7, next_entity: 300 }),
            "0f1a00000000000000000000000000000007ac02",
        ),
        (
            Command::Catalog(CatalogCommand::SetGroup {
                name: name(),
                entity: ENTITY,
                from: GroupId(2),
                group: GroupId(3),
            }),
            "0f1b064f7264657273ac020203",
        ),
        (
            Command::Catalog(CatalogCommand::Seal { name: name(), entity: ENTITY, idle_since: AT }),
            "0f0a064f7264657273ac0280d095ffbc31",
        ),
        (
            Command::Catalog(CatalogCommand::Spare {
                name: name(),
                entity: ENTITY,
                idle_since: AT,
            }),
            "0f0b064f7264657273ac0280d095ffbc31",
        ),
        (
            Command::Catalog(CatalogCommand::Withdraw { name: name(), entity: ENTITY }),
            "0f0c064f7264657273ac02",
        ),
        (Command::Refuse(Refuse { origin: None, refusal: Refusal::PerhapsDone }), "10000f"),
        (
            Command::Topic(TopicCommand::Create(CreateTopic {
                entity: ENTITY,
                name: name(),
                properties: Box::new(unordered()),
            })),
            "1401ac02064f72646572738008800200c0cf24ffffffffffffffffff01ffffffffffffffffff010000010000",
        ),
        (
            Command::Topic(TopicCommand::Update(UpdateTopic {
                origin: ORIGIN,
                entity: ENTITY,
                properties: Box::new(unordered()),
            })),
            "140201000000000000feed090100ac028008800200c0cf24ffffffffffffffffff01ffffffffffffffffff010000010000",
        ),
        (
            Command::Topic(TopicCommand::CreateSubscription(CreateSubscription {
                entity: EntityId(301),
                topic: ENTITY,
                name: subscription_path("Orders", "Audit"),
                properties: Box::new(SubscriptionProperties::default()),
                rule: Box::new(NewRule::default()),
            })),
            "1403ad02ac021a4f72646572732f537562736372697074696f6e732f4175646974e0d40300ffffffffffffffffff01ffffffffffffffffff0100010a0000010000082444656661756c740000",
        ),
        (
            Command::Topic(TopicCommand::UpdateSubscription(UpdateSubscription {
                origin: None,
                entity: EntityId(301),
                properties: Box::new(SubscriptionProperties::default()),
            })),
            "140400ad02e0d40300ffffffffffffffffff01ffffffffffffffffff0100010a0000010000",
        ),
        (
            Command::Topic(TopicCommand::PutRule(PutRule {
                origin: None,
                entity: EntityId(301),
                rule: Box::new(rule(correlation())),
                replace: true,
            })),
            "140500ad02035265640301060178020161060301620e0178010852454d4f564520610001",
        ),
        (
            Command::Topic(TopicCommand::RemoveRule(RemoveRule {
                origin: None,
                entity: EntityId(301),
                name: "Red".into(),
            })),
            "140600ad0203526564",
        ),
        (
            Command::Catalog(CatalogCommand::CreateTopic {
                request: 9,
                name: name(),
                properties: Box::new(unordered()),
            }),
            "0f0709064f72646572738008800200c0cf24ffffffffffffffffff01ffffffffffffffffff010000010000",
        ),
        (
            Command::Catalog(CatalogCommand::CreateSubscription {
                request: 9,
                topic: name(),
                name: "Audit".into(),
                properties: Box::new(SubscriptionProperties::default()),
                rule: Box::new(NewRule::default()),
            }),
            "0f0809064f7264657273054175646974e0d40300ffffffffffffffffff01ffffffffffffffffff0100010a0000010000082444656661756c740000",
        ),
    ] {
        assert_eq!(command(given.clone()), expected, "{given:?}");
    }
}

/// A topic as it is without a word, but for SupportOrdering, which was false when these bytes were written.
fn unordered() -> TopicProperties {
    TopicProperties { support_ordering: false, ..TopicProperties::default() }
}
