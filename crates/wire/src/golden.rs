//! The formats, byte for byte. These lines are not to be changed: data written by released versions
//! reads like this. A new variant or format adds a line.

use bytes::Bytes;
use domain::*;

use crate::{Codec, content, encode_entry, encode_row, v1};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const ENTITY: EntityId = EntityId(300);
const QUEUE: QueueId = QueueId { entity: ENTITY, sub: SubQueue::DeadLetter };
const NUMBER: SequenceNumber = SequenceNumber(77);
const TOKEN: LockToken = LockToken { sequence: NUMBER, nonce: 0x0102_0304_0506_0708 };
const RECEIVER: ReceiverId = ReceiverId { node: 2, link: 500, epoch: 3 };
const ORIGIN: Option<Origin> =
    Some(Origin { producer: 0xfeed, serial: 9, ordered: true, retry: false });
const AT: Timestamp = Timestamp(1_700_000_000_000);

fn properties() -> Properties {
    [("a".to_string(), Value::Int(-2)), ("b".to_string(), Value::String("x".into()))].into()
}

fn correlation() -> RuleFilter {
    let system = [(SystemProperty::CorrelationId, "x".to_string())].into();
    RuleFilter::Correlation(Conditions { system, properties: properties() })
}

fn rule(filter: RuleFilter) -> NewRule {
    let action = SqlText { text: "REMOVE a".into(), parameters: Properties::new() };
    NewRule { name: "Red".into(), filter, action: Some(action) }
}

fn kept(NewRule { name, filter, action }: NewRule) -> RuleRow {
    RuleRow { name, filter, action, created_at: AT, order: 3 }
}

fn refused() -> Vec<Refused> {
    let (reason, description) = ("r".into(), "d".into());
    vec![Refused { first: 1, count: 2, reason, description }]
}

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
                destination: Some(Destination { entity: ENTITY, shard: ShardId(3) }),
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

fn command(command: Command) -> String {
    hex(&command.encode())
}

#[test]
fn an_entry() {
    let entry = Entry { at: AT, seed: [9; 16], commands: vec![Command::Sweep] };
    assert_eq!(hex(&encode_entry(&entry)), "0180d095ffbc3109090909090909090909090909090909010d");
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
            Command::Catalog(CatalogCommand::SetNode { node: 1, row: node }),
            "0f060103613a3103613a3203613a33",
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
                properties: Box::new(TopicProperties::default()),
            })),
            "1401ac02064f72646572738008800200c0cf24ffffffffffffffffff01ffffffffffffffffff010000010000",
        ),
        (
            Command::Topic(TopicCommand::Update(UpdateTopic {
                origin: ORIGIN,
                entity: ENTITY,
                properties: Box::new(TopicProperties::default()),
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
                properties: Box::new(TopicProperties::default()),
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

#[test]
fn rows() {
    let state = EntityState {
        next_sequence: SequenceNumber(500),
        fresh_head: [400, 1, 1, 2].map(SequenceNumber),
        returned: [2, 0, 0, 0],
        returned_low: [300, 0, 1, 1].map(SequenceNumber),
        available: [100, 1, 0, 2],
        dead_letter_deferred: 1,
        transfer_dead_letter_deferred: 2,
        counts: Counts {
            accepted: 12,
            active: 8,
            completed: 1,
            transfer: 1,
            transfer_dead_lettered: 2,
            ..Counts::default()
        },
        size_bytes: 4096,
        scheduled_next: None,
        fixed_next: Some((AT, NUMBER)),
        derived_cursor: NUMBER,
        derived_next: Some(AT),
        duplicate_next: None,
        accessed_at: AT,
        last_use: AT,
        sessions: SessionTotals { free: 2, free_low: AT, turns: 9, states: 1 },
        forwarding: [
            Forwarding { serial: 5, in_transit: 2, parked: 1, stuck: 4 },
            Forwarding::default(),
            Forwarding { serial: 3, in_transit: 1, parked: 0, stuck: 0 },
            Forwarding::default(),
        ],
    };
    let message = MessageRow {
        body: NUMBER,
        size_bytes: 1100,
        header_bytes: 40,
        deferred: false,
        delivery_count: 1,
        enqueued_at: AT,
        lifetime: Lifetime::Derived,
        session: None,
        overlay: None,
        travel: None,
    };
    let travel =
        Travel { enqueued_sequence: NUMBER, hops: 2, dead_letter_source: Some("s".into()) };
    let travelled = Some(Box::new(travel.clone()));
    let lifetime = Lifetime::Fixed { ttl: Span(1000), expires_at: AT.plus(Span(1000)) };
    let texts = [(SystemProperty::Subject, Some("s".into())), (SystemProperty::To, None)].into();
    let overlay =
        Overlay { set: properties(), removed: vec!["c".into()], texts, scheduled_at: Some(AT) };
    let entity = EntityRow {
        name: "Orders".into(),
        properties: QueueProperties::default(),
        specifics: Specifics::Queue,
        created_at: AT,
        updated_at: AT,
    };
    let (kind, topic) = (EntityKind::Queue, EntityId(301));
    let directory = |state| {
        let (shard, name) = (ShardId(3), "Orders".into());
        DirectoryRow { entity: ENTITY, shard, name, kind, request: 9, state }
    };
    let rules = RuleCounts { sql: 1, correlation: 2, constant: 3, with_action: 4 };
    let of_topic = TopicSpecifics {
        filter_before_publishing: true,
        support_ordering: false,
        subscriptions: 5,
        rules,
    };
    let of_subscription = SubscriptionSpecifics {
        topic,
        own_default_ttl: Span(7),
        dead_letter_on_filter_errors: true,
        rules,
    };
    let with = |specifics| Row::Entity(Box::new(EntityRow { specifics, ..entity.clone() }));
    for (row, expected) in [
        (
            Row::Meta(Meta {
                last_at: AT,
                clock_offset: Span(0),
                producers: 3,
                unbroken_since: Timestamp(7),
            }),
            "0180d095ffbc31000307",
        ),
        (
            Row::Entity(Box::new(entity.clone())),
            "01064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a00000100000080d095ffbc3180d095ffbc31",
        ),
        (
            Row::EntityState(Box::new(state)),
            "01f403900301010202000000ac020001016401000201020c0800000001000000000102008020000180d095ffbc314d4d0180d095ffbc310080d095ffbc3180d095ffbc310280d095ffbc31090105020104000000000301000000000000",
        ),
        (Row::Body(Bytes::from_static(b"\x01body")), "01626f6479"),
        (Row::Message(message.clone()), "014dcc0828000180d095ffbc3100000000"),
        (
            Row::Message(MessageRow {
                lifetime,
                overlay: Some(Box::new(overlay)),
                travel: travelled,
                ..message
            }),
            "014dcc0828000180d095ffbc3101e807e8d795ffbc310001020161060301620e0178010163020701017308000180d095ffbc31014d02010173",
        ),
        (Row::Returned, ""),
        (
            Row::Lock(LockRow { nonce: TOKEN.nonce, until: AT, receiver: RECEIVER }),
            "01010203040506070880d095ffbc3102f40303",
        ),
        (
            Row::Scheduled(ScheduledRow {
                due: AT,
                accepted_at: AT,
                size_bytes: 10,
                header_bytes: 2,
                ttl: Some(Span(7)),
                session: Some("s".into()),
                travel: None,
            }),
            "0180d095ffbc3180d095ffbc310a02010701017300",
        ),
        (Row::Deadline, ""),
        (Row::DuplicateId { accepted_at: AT, sequence: NUMBER }, "0180d095ffbc314d"),
        (Row::Producer(ProducerRow { first: 1, highest: 5, seen: AT }), "01010580d095ffbc31"),
        (Row::Outcome(Outcome::Done), "0100"),
        (
            Row::Cluster(ClusterRow {
                cluster_id: 7,
                data_groups: 16,
                replication_factor: 3,
                next_entity: 301,
                feature_level: 1,
            }),
            "01000000000000000000000000000000071003ad0201",
        ),
        (Row::Directory(directory(DirectoryState::Ready)), "01ac0203064f7264657273000901"),
        (Row::Directory(directory(DirectoryState::Deleting)), "01ac0203064f7264657273000902"),
        (
            Row::Directory(directory(DirectoryState::Sealing { idle_since: AT })),
            "01ac0203064f726465727300090380d095ffbc31",
        ),
        (Row::Group(GroupRow { replicas: vec![1, 2, 3] }), "0103010203"),
        (
            with(Specifics::Topic(of_topic)),
            "01064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a0000010000010100050102030480d095ffbc3180d095ffbc31",
        ),
        (
            with(Specifics::Subscription(of_subscription)),
            "01064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a000001000002ad0207010102030480d095ffbc3180d095ffbc31",
        ),
        (
            Row::Directory(DirectoryRow {
                kind: EntityKind::Topic,
                ..directory(DirectoryState::Ready)
            }),
            "01ac0203064f7264657273010901",
        ),
        (Row::Subscription, ""),
        (
            Row::Rule(Box::new(kept(rule(RuleFilter::True)))),
            "010352656400010852454d4f564520610080d095ffbc3103",
        ),
        (
            Row::Rule(Box::new(kept(rule(correlation())))),
            "01035265640301060178020161060301620e0178010852454d4f564520610080d095ffbc3103",
        ),
        (Row::BodyCopies(300), "01ac02"),
        (
            Row::Shipment(ShipmentRow {
                destination: Destination { entity: ENTITY, shard: ShardId(3) },
                numbers: vec![NUMBER, NUMBER.next()],
            }),
            "01ac0203024d4e",
        ),
        (Row::Parked(vec![NUMBER]), "01014d"),
        (
            Row::Arrival(ArrivalRow {
                serial: 9,
                at: AT,
                shipments: [(9, ArrivedShipment { count: 3, done: 2, refused: refused() })].into(),
            }),
            "010980d095ffbc310109030201010201720164",
        ),
        (Row::Sweep { topic: None }, ""),
        (Row::Sweep { topic: Some(topic) }, "01ad02"),
    ] {
        assert_eq!(hex(&encode_row(&row)), expected, "{row:?}");
    }
}

#[test]
fn outcomes() {
    let delivery = Delivery {
        sequence: NUMBER,
        body: NUMBER,
        topic: None,
        size_bytes: 9,
        state: MessageState::Deferred,
        delivery_count: 1,
        enqueued_at: AT,
        enqueued_sequence: NUMBER,
        dead_letter_source: None,
        scheduled_at: None,
        ttl: Some(Span(7)),
        expires_at: None,
        lock: Some(HeldLock { token: TOKEN, until: AT }),
        overlay: None,
    };
    let fired =
        Fired { activated: 1, dropped: 2, late_ms_max: 300, more: true, ..Fired::default() };
    for (outcome, expected) in [
        (Outcome::Refused(Refusal::EntityNotFound { name: "q".into() }), "01010171"),
        (Outcome::Refused(Refusal::StaleRoute { entity: ENTITY }), "0102ac02"),
        (Outcome::Refused(Refusal::EntityAlreadyExists { name: "q".into() }), "01030171"),
        (
            Outcome::Refused(Refusal::EntityDisabled { status: "Disabled" }),
            "01040844697361626c6564",
        ),
        (
            Outcome::Refused(Refusal::MessageLockLost { token: TOKEN }),
            "0105000000000000004d0102030405060708",
        ),
        (
            Outcome::Refused(Refusal::MessageNotFound { sequence: NUMBER, needs: "deferred" }),
            "01064d086465666572726564",
        ),
        (
            Outcome::Refused(Refusal::MessageSizeExceeded { what: "body", bytes: 300, max: 256 }),
            "010704626f6479ac028002",
        ),
        (Outcome::Refused(Refusal::QuotaExceeded { what: "q", used: 2, max: 1 }), "010801710201"),
        (Outcome::Refused(Refusal::Argument { what: "w", why: "y".into() }), "010901770179"),
        (
            Outcome::Refused(Refusal::ArgumentOutOfRange {
                what: "w",
                value: "0".into(),
                allowed: "1",
            }),
            "010a017701300131",
        ),
        (
            Outcome::Refused(Refusal::Serialization { what: "w".into(), bytes: 2, max: 1 }),
            "010b01770201",
        ),
        (Outcome::Refused(Refusal::InvalidOperation { why: "y" }), "010c0179"),
        (Outcome::Refused(Refusal::NotSupported { what: "w" }), "010d0177"),
        (Outcome::Refused(Refusal::SerialGap { expected: 5 }), "010e05"),
        (Outcome::Refused(Refusal::PerhapsDone), "010f"),
        (Outcome::Refused(Refusal::StorageFull { on: vec![1, 3] }), "0110020103"),
        (Outcome::Refused(Refusal::NoMatchingSubscription { topic: "q".into() }), "01180171"),
        (
            Outcome::Refused(Refusal::InvalidRule {
                exception: "FilterException",
                why: "y".into(),
            }),
            "01190f46696c746572457863657074696f6e0179",
        ),
        (Outcome::Sent { sequences: vec![NUMBER, NUMBER.next()] }, "02024d4e"),
        (
            Outcome::Acquired { deliveries: vec![delivery], more: true },
            "03014d4d0009010180d095ffbc314d000001070001000000000000004d010203040506070880d095ffbc310001",
        ),
        (Outcome::Settled { refused: vec![(1, Refusal::PerhapsDone)] }, "0401010f"),
        (Outcome::Renewed { until: vec![AT] }, "050180d095ffbc31"),
        (Outcome::Deleted { count: 3, more: false }, "060300"),
        (Outcome::Fired(fired), "0701020000ac020001"),
        (Outcome::Spared, "0c"),
    ] {
        assert_eq!(hex(&outcome.encode()), expected, "{outcome:?}");
    }
}

#[test]
fn property_values() {
    for (value, expected) in [
        (Value::Null, "00"),
        (Value::Bool(true), "0101"),
        (Value::Byte(200), "02c8"),
        (Value::SByte(-1), "0301"),
        (Value::Short(-2), "0403"),
        (Value::UShort(300), "05ac02"),
        (Value::Int(-3), "0605"),
        (Value::UInt(300), "07ac02"),
        (Value::Long(i64::MIN), "08ffffffffffffffffff01"),
        (Value::ULong(u64::MAX), "09ffffffffffffffffff01"),
        (Value::Float(1.5), "0a3fc00000"),
        (Value::Double(-1.5), "0bbff8000000000000"),
        (Value::Decimal([1; 16]), "0c01010101010101010101010101010101"),
        (Value::Char('é'), "0de901"),
        (Value::String("é".into()), "0e02c3a9"),
        (Value::Uri("urn:x".into()), "0f0575726e3a78"),
        (Value::Uuid([2; 16]), "1002020202020202020202020202020202"),
        (Value::DateTime(-1), "1101"),
        (Value::DateTimeOffset(1), "1202"),
        (Value::TimeSpan(64), "138001"),
        (Value::Bytes(vec![1, 2]), "14020102"),
    ] {
        assert_eq!(hex(&value.encode()), expected, "{value:?}");
    }
}

#[test]
fn a_content() {
    let message = v1::Message {
        body: Bytes::from_static(b"body"),
        message_id: Some("id".into()),
        ttl_ms: Some(1000),
        properties: [("a".to_string(), crate::native::value_to_v1(&Value::Int(-2)))].into(),
        ..Default::default()
    };
    assert_eq!(hex(&content::encode(&message)), "010a04626f64791202696458e8076a070a016112021803");
}

#[test]
fn sessions() {
    let token = || SessionToken { session: "s".into(), nonce: TOKEN.nonce };
    let (origin, entity) = (None, ENTITY);
    let commands = [
        (
            SessionCommand::Accept(AcceptSession {
                origin: ORIGIN,
                queue: QUEUE,
                receiver: RECEIVER,
                session: Some("s".into()),
            }),
            "120101000000000000feed090100ac020102f40303010173",
        ),
        (
            SessionCommand::Receive(ReceiveSession {
                entity,
                token: token(),
                receiver: RECEIVER,
                count_max: 10,
                bytes_max: 1000,
            }),
            "1202ac020173010203040506070802f403030ae807",
        ),
        (
            SessionCommand::Renew(RenewSession { origin, entity, token: token() }),
            "120300ac0201730102030405060708",
        ),
        (
            SessionCommand::Release(ReleaseSession { origin, entity, token: token() }),
            "120400ac0201730102030405060708",
        ),
        (
            SessionCommand::SetState(SetSessionState {
                origin,
                entity,
                token: token(),
                state: Some(Bytes::from_static(b"x")),
            }),
            "120500ac0201730102030405060708010178",
        ),
        (
            SessionCommand::ReceiveDeferred(ReceiveSessionDeferred {
                origin,
                entity,
                token: token(),
                receiver: RECEIVER,
                numbers: vec![NUMBER],
            }),
            "120600ac020173010203040506070802f40303014d",
        ),
        (
            SessionCommand::DeleteBatch(DeleteSessionBatch {
                origin,
                entity,
                token: token(),
                count_max: 4,
                before: Some(AT),
            }),
            "120700ac0201730102030405060708040180d095ffbc31",
        ),
        (
            SessionCommand::Fire(FireSessions { locks: vec![(ENTITY, token())] }),
            "120801ac0201730102030405060708",
        ),
        (
            SessionCommand::Resume(ResumeSession {
                entity,
                token: token(),
                receiver: RECEIVER,
                arrived: vec![TOKEN],
            }),
            "1209ac020173010203040506070802f4030301000000000000004d0102030405060708",
        ),
    ];
    for (given, expected) in commands {
        assert_eq!(command(Command::Session(given.clone())), expected, "{given:?}");
    }
    let lock = SessionLock { nonce: TOKEN.nonce, until: AT, receiver: RECEIVER, closed: false };
    let row = SessionRow {
        active: 3,
        deferred: 1,
        ready: Numbers { count: 2, low: NUMBER },
        held: Numbers { count: 1, low: SequenceNumber(70) },
        lock: Some(lock),
        released_at: AT,
        claim: Some(Claim { at: AT, turn: 5 }),
        state: Some(StateMark { size_bytes: 1, changed_at: AT }),
    };
    for (row, expected) in [
        (
            Row::Session(Box::new(row)),
            "010301024d014601010203040506070880d095ffbc3102f403030080d095ffbc310180d095ffbc3105010180d095ffbc31",
        ),
        (Row::SessionMessage, ""),
        (
            Row::SessionHeld(HeldRow { nonce: TOKEN.nonce, receiver: RECEIVER }),
            "01010203040506070802f40303",
        ),
        (Row::SessionFree("s".into()), "010173"),
        (Row::SessionLocked, ""),
        (Row::SessionState(Bytes::from_static(b"x")), "78"),
    ] {
        assert_eq!(hex(&encode_row(&row)), expected, "{row:?}");
    }
    for (outcome, expected) in [
        (Outcome::Accepted { token: token(), until: AT }, "090173010203040506070880d095ffbc31"),
        (Outcome::Refused(Refusal::SessionLockLost { session: Some("s".into()) }), "0111010173"),
        (Outcome::Refused(Refusal::SessionCannotBeLocked { session: "s".into() }), "01120173"),
        (Outcome::Refused(Refusal::NoSession), "0113"),
    ] {
        assert_eq!(hex(&outcome.encode()), expected, "{outcome:?}");
    }
}

#[test]
fn transactions() {
    let message = NewMessage {
        content: Bytes::from_static(b"body"),
        size_bytes: 5,
        header_bytes: 1,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    };
    let settlement = |disposition| Settlement { token: TOKEN, disposition };
    let settlements = vec![settlement(Disposition::Complete), settlement(Disposition::Withheld)];
    let token = SessionToken { session: "s".into(), nonce: TOKEN.nonce };
    let (origin, entity, queue) = (None, ENTITY, QUEUE);
    let destination = Destination { entity: EntityId(301), shard: ShardId(3) };
    let messages = vec![message];
    let operations = vec![
        Operation::Send(Send { origin, entity, messages: messages.clone() }),
        Operation::CancelScheduled(CancelScheduled { origin, entity, numbers: vec![NUMBER] }),
        Operation::Settle(Settle { origin, queue, settlements, atomic: true }),
        Operation::Renew(Renew { origin, queue, tokens: vec![TOKEN] }),
        Operation::SetState(SetSessionState { origin, entity, token, state: None }),
        Operation::SendVia(SendVia { via: entity, destination, messages }),
    ];
    let commit = Commit { origin: ORIGIN, entity, operations };
    assert_eq!(
        command(Command::Commit(commit)),
        "3201000000000000feed090100ac02060100ac020104626f6479050100000000000200ac02014d0300ac020102000000000000004d010203040506070801000000000000004d010203040506070828010400ac020101000000000000004d01020304050607080500ac02017301020304050607080006ac02ad02030104626f647905010000000000"
    );
    let performed = vec![
        Performed::Done,
        Performed::Sent { sequences: vec![NUMBER] },
        Performed::Renewed { until: vec![AT] },
    ];
    let (what, held, max) = ("w", 101, 100);
    let (operation, cause) = (3, Refusal::MessageLockLost { token: TOKEN }.into());
    for (outcome, expected) in [
        (Outcome::Committed { performed }, "28030001014d020180d095ffbc31"),
        (Outcome::Refused(Refusal::TransactionSizeExceeded { what, held, max }), "012801776564"),
        (Outcome::Refused(Refusal::TransactionUnknown), "0129"),
        (Outcome::Refused(Refusal::TransactionTimedOut), "012a"),
        (
            Outcome::Refused(Refusal::TransactionRolledBack { operation, cause }),
            "012b0305000000000000004d0102030405060708",
        ),
    ] {
        assert_eq!(hex(&outcome.encode()), expected, "{outcome:?}");
    }
}

/// However deep bytes claim to nest.
#[test]
fn a_transaction_rolled_back_for_another_is_no_value() {
    let nested = [&[1u8][..], &[43, 0].repeat(100_000), &[41]].concat();
    assert!(Outcome::decode(&nested.into()).is_err());
}
