//! Rows.

use super::*;

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
        unmatched: Unmatched::default(),
    };
    let unmatched = Unmatched { count: 2, bytes: 300, head: NUMBER, since: AT };
    let paced = EntityState { unmatched, ..state.clone() };
    let message = MessageRow {
        body: NUMBER,
        size_bytes: 1100,
        header_bytes: 40,
        deferred: false,
        was_scheduled: false,
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
        let (group, name) = (GroupId(3), "Orders".into());
        DirectoryRow { entity: ENTITY, group, name, kind, request: 9, state }
    };
    let rules = RuleCounts { sql: 1, correlation: 2, constant: 3, with_action: 4 };
    let of_topic = TopicSpecifics {
        filter_before_publishing: true,
        support_ordering: false,
        subscription_partitioning: false,
        send_disabled: false,
        subscriptions: 5,
        rules,
    };
    let of_subscription = SubscriptionSpecifics {
        topic,
        own_default_ttl: Span(7),
        dead_letter_on_filter_errors: true,
        receive_disabled: false,
        rules,
    };
    let hidden = HiddenEntity { row: Box::new(entity.clone()), state: Box::new(state.clone()) };
    let relocation = |state| Row::Relocation(Box::new(RelocationRow { number: 2, state }));
    let with = |specifics| Row::Entity(Box::new(EntityRow { specifics, ..entity.clone() }));
    for (row, expected) in [
        (
            Row::Meta(Meta {
                last_at: AT,
                clock_offset: Span(0),
                producers: 3,
                unbroken_since: Timestamp(7),
                cut: 0,
                level: 0,
            }),
            "0180d095ffbc31000307",
        ),
        (
            Row::Meta(Meta {
                last_at: AT,
                clock_offset: Span(0),
                producers: 3,
                unbroken_since: Timestamp(7),
                cut: 300,
                level: 0,
            }),
            "0180d095ffbc31000307ac02",
        ),
        (
            Row::Meta(Meta {
                last_at: AT,
                clock_offset: Span(0),
                producers: 3,
                unbroken_since: Timestamp(7),
                cut: 0,
                level: 9,
            }),
            "0180d095ffbc310003070009",
        ),
        (
            relocation(RelocationState::Departing { to: GroupId(3), hidden: hidden.clone() }),
            "01020103064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a00000100000080d095ffbc3180d095ffbc31f403900301010202000000ac020001016401000201020c0800000001000000000102008020000180d095ffbc314d4d0180d095ffbc310080d095ffbc3180d095ffbc310280d095ffbc31090105020104000000000301000000000000",
        ),
        (
            relocation(RelocationState::Arriving { hidden }),
            "010202064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a00000100000080d095ffbc3180d095ffbc31f403900301010202000000ac020001016401000201020c0800000001000000000102008020000180d095ffbc314d4d0180d095ffbc310080d095ffbc3180d095ffbc310280d095ffbc31090105020104000000000301000000000000",
        ),
        (relocation(RelocationState::Arrived), "010203"),
        (relocation(RelocationState::ArrivedAt { at: AT }), "01020580d095ffbc31"),
        (relocation(RelocationState::Gone { to: GroupId(3) }), "01020403"),
        (
            Row::Restoring(RestoringRow { restore: 7, begun_at: AT, has_ended: true }),
            "010000000000000000000000000000000780d095ffbc3101",
        ),
        (
            Row::FaultRules(vec![FaultRuleRow {
                name: "f".into(),
                text: "{}".into(),
                added_at: AT,
                ends_at: Some(AT),
            }]),
            "01010166027b7d80d095ffbc310180d095ffbc31",
        ),
        (
            Row::Namespace(Box::new(namespace())),
            "01066f7264657273ac0280d095ffbc310701016b050170017380d095ffbc310700",
        ),
        (Row::Document(Box::new(document())), "010474616773027b7d80d095ffbc3107"),
        (
            Row::NamespaceIdle(NamespaceIdleRow {
                request: 300,
                window: Span(300_000),
                used_until: AT,
                is_sealed: true,
            }),
            "01ac02e0a71280d095ffbc3101",
        ),
        (
            Row::Namespace(Box::new(NamespaceRow {
                profile: Profile::Premium,
                next_profile: Some(Profile::Basic),
                ..namespace()
            })),
            "01066f7264657273ac0280d095ffbc310701016b050170017380d095ffbc3107060301",
        ),
        (
            Row::EndedCreations(vec![EndedCreationRow { request: 300, ended_at: AT }]),
            "0101ac0280d095ffbc31",
        ),
        (
            Row::Entity(Box::new(entity.clone())),
            "01064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a00000100000080d095ffbc3180d095ffbc31",
        ),
        (
            Row::EntityState(Box::new(state)),
            "01f403900301010202000000ac020001016401000201020c0800000001000000000102008020000180d095ffbc314d4d0180d095ffbc310080d095ffbc3180d095ffbc310280d095ffbc31090105020104000000000301000000000000",
        ),
        (
            Row::EntityState(Box::new(paced)),
            "01f403900301010202000000ac020001016401000201020c0800000001000000000102008020000180d095ffbc314d4d0180d095ffbc310080d095ffbc3180d095ffbc310280d095ffbc3109010502010400000000030100000000000002ac024d80d095ffbc31",
        ),
        (
            Row::Unmatched(Box::new(UnmatchedRow {
                accepted_at: AT,
                size_bytes: 300,
                header_bytes: 2,
                ttl: Some(Span(7)),
                session: Some("s".into()),
                was_scheduled: true,
                travel: None,
                progress: MatchProgress {
                    subscription: ENTITY,
                    order: Some(3),
                    plain: true,
                    failed: Some(EvaluationError { part: RulePart::Filter, text: "e".into() }),
                    actions: vec![1, 300],
                },
            })),
            "0180d095ffbc31ac020201070101730100ac02010301010001650201ac02",
        ),
        (Row::Body(Bytes::from_static(b"\x01body")), "01626f6479"),
        (Row::Message(message.clone()), "014dcc0828000180d095ffbc3100000000"),
        (
            Row::Message(MessageRow { deferred: true, ..message.clone() }),
            "014dcc0828010180d095ffbc3100000000",
        ),
        (
            Row::Message(MessageRow {
                lifetime: Lifetime::Inherited { ttl: Span(1000), expires_at: AT.plus(Span(1000)) },
                ..message.clone()
            }),
            "014dcc0828000180d095ffbc3102e807e8d795ffbc31000000",
        ),
        (
            Row::Message(MessageRow { deferred: true, was_scheduled: true, ..message.clone() }),
            "014dcc0828030180d095ffbc3100000000",
        ),
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
        (Row::Deadline(None), ""),
        (Row::Deadline(Some(DeadlineRow { body: NUMBER, size_bytes: 300 })), "014dac02"),
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
        (Row::NodeState(NodeState::Draining), "0100"),
        (Row::NodeState(NodeState::Removed), "0101"),
        (Row::NodeState(NodeState::Maintenance), "0102"),
        (Row::Moves(300), "01ac02"),
        (Row::Founders(vec![(1, 300), (2, 7)]), "010201ac020207"),
        (
            Row::JoinToken(JoinTokenRow {
                secret_hash: [7; 32],
                expires_at: AT,
                node: None,
                used: None,
            }),
            "01070707070707070707070707070707070707070707070707070707070707070780d095ffbc310000",
        ),
        (
            Row::JoinToken(JoinTokenRow {
                secret_hash: [7; 32],
                expires_at: AT,
                node: Some(4),
                used: Some(TokenUse { node: 4, at: AT, request: 9 }),
            }),
            "01070707070707070707070707070707070707070707070707070707070707070780d095ffbc310104010480d095ffbc3109",
        ),
        (
            with(Specifics::Topic(of_topic)),
            "01064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a0000010000010100050102030480d095ffbc3180d095ffbc31",
        ),
        (
            with(Specifics::Topic(TopicSpecifics {
                subscription_partitioning: true,
                send_disabled: true,
                ..of_topic
            })),
            "01064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a0000010000010700050102030480d095ffbc3180d095ffbc31",
        ),
        (
            with(Specifics::Subscription(SubscriptionSpecifics {
                receive_disabled: true,
                ..of_subscription
            })),
            "01064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01000a000001000002ad0207030102030480d095ffbc3180d095ffbc31",
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
        (
            Row::Rule(Box::new(kept(rule(written_correlation())))),
            "0103526564030106017802016115046c6f6e67022d32060301620e0178010852454d4f564520610080d095ffbc3103",
        ),
        (Row::BodyCopies(300), "01ac02"),
        (
            Row::Shipment(ShipmentRow {
                destination: Destination { entity: ENTITY, group: GroupId(3) },
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
