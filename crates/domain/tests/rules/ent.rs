//! ENT: names, properties, creation, update and deletion.

use domain::{
    AccessRights, AuthorizationRule, CatalogCommand, CatalogOutcome, Command, CreateQueue,
    DirectoryState, EntityId, EntityStatus, Key, LockToken, MemoryRows, Outcome, PROPERTIES, Patch,
    PropertyValue, QueueId, QueueProperties, Refusal, SequenceNumber, Span, TopicProperties,
    UpdateQueue, validate,
};

use crate::catalog::{catalog, create, created};
use crate::support::{Group, QUEUE};
use crate::table::*;

#[test]
fn ent_1_names_are_bounded_and_have_no_forbidden_characters() {
    let longest = "q".repeat(260);
    for name in ["a", "Orders.new-1_x/y~z", &longest, "1", "-", "/".repeat(0).as_str()] {
        let outcome = validate::queue_name(name);
        assert_eq!(outcome.is_ok(), !name.is_empty(), "'{name}'");
    }
    let too_long = "q".repeat(261);
    let bad = ["", "/a", "a/", "a@b", "a?b", "a#b", "a*b", "a b", "a\\b", "ä!", &too_long];
    for name in bad {
        let refusal = validate::queue_name(name).expect_err(name);
        assert_eq!(refusal.name(), "ArgumentException", "'{name}'");
    }
}

#[test]
fn ent_1_names_differ_by_more_than_case_and_keep_their_case() {
    let mut group = catalog(2);
    let entity = created(&mut group, "Orders").entity;
    assert_eq!(refusal_of(create(&mut group, "oRDERS")), "MessagingEntityAlreadyExists");
    let row = domain::directory(&group.rows, "ORDERS").expect("the name");
    assert_eq!((row.name.as_str(), row.entity), ("Orders", entity));
}

fn refusal_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Refused(refusal) => refusal.name(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn ent_2_a_taken_name_is_refused() {
    let mut group = catalog(2);
    let first = created(&mut group, "a").entity;
    let second = created(&mut group, "b").entity;
    assert_ne!(first, second);
    let refused = create(&mut group, "a");
    let exists = Refusal::EntityAlreadyExists { name: "a".to_owned() };
    assert_eq!(refused, Outcome::Refused(exists));
    // Until its deletion is confirmed the name is taken; a creation is told to finish that first.
    let delete = CatalogCommand::Delete { name: "A".to_owned() };
    match group.apply(Command::Catalog(delete)) {
        Outcome::Catalog(CatalogOutcome::Entry { row, .. }) => {
            assert_eq!((row.entity, row.state), (first, DirectoryState::Deleting));
        }
        other => panic!("not deleted: {other:?}"),
    }
    match create(&mut group, "a") {
        Outcome::Catalog(CatalogOutcome::Entry { row, fresh: false }) => {
            assert_eq!((row.entity, row.state), (first, DirectoryState::Deleting));
        }
        other => panic!("not told of the deletion: {other:?}"),
    }
    let deleted = CatalogCommand::Deleted { name: "a".to_owned(), entity: first };
    assert_eq!(group.apply(Command::Catalog(deleted)), Outcome::Done);
    assert_eq!(domain::directory(&group.rows, "a"), None);
    let third = created(&mut group, "a").entity;
    assert!(third > second, "ids are never reused");
}

#[test]
fn ent_3_defaults_are_those_of_the_table() {
    let expected = QueueProperties {
        lock_duration: ms(MINUTE),
        max_size_megabytes: 1024,
        max_message_size_kilobytes: 256,
        requires_duplicate_detection: false,
        duplicate_detection_window: ms(10 * MINUTE),
        requires_session: false,
        default_ttl: Span::MAX,
        auto_delete_on_idle: Span::MAX,
        dead_letter_on_expiration: false,
        max_delivery_count: 10,
        status: EntityStatus::Active,
        user_metadata: String::new(),
        enable_batched_operations: true,
        authorization_rules: Vec::new(),
        forward_to: None,
        forward_dead_letters_to: None,
        support_ordering: true,
        enable_partitioning: false,
        enable_express: false,
    };
    assert_eq!(queue(), expected);
    assert_eq!(validate::queue_properties(&queue()), Ok(()));
    assert_eq!(Table::new(queue()).info().properties, expected);
}

fn authorization_rule() -> AuthorizationRule {
    AuthorizationRule {
        name: "worker".to_owned(),
        rights: AccessRights { listen: true, ..AccessRights::default() },
        primary_key: "p".to_owned(),
        secondary_key: "s".to_owned(),
        created_at: at(1),
        modified_at: at(2),
    }
}

type Change = (&'static str, fn(&mut QueueProperties));

/// At a bound of ENT-3's table.
const WITHIN: &[Change] = &[
    ("lock 1 ms", |p| p.lock_duration = ms(1)),
    ("lock 5 min", |p| p.lock_duration = ms(5 * MINUTE)),
    ("size 2048", |p| p.max_size_megabytes = 2048),
    ("size 5120", |p| p.max_size_megabytes = 5120),
    ("size 81920", |p| p.max_size_megabytes = 81920),
    ("message 1 KB", |p| p.max_message_size_kilobytes = 1),
    ("message 1024 KB", |p| p.max_message_size_kilobytes = 1024),
    ("window 20 s", |p| p.duplicate_detection_window = ms(20 * SECOND)),
    ("window 7 d", |p| p.duplicate_detection_window = ms(7 * DAY)),
    ("ttl 1 s", |p| p.default_ttl = ms(SECOND)),
    ("idle 5 min", |p| p.auto_delete_on_idle = ms(5 * MINUTE)),
    ("deliveries 1", |p| p.max_delivery_count = 1),
    ("deliveries int32 max", |p| p.max_delivery_count = i32::MAX as u32),
    ("a rule", |p| p.authorization_rules = vec![authorization_rule()]),
    ("metadata 1024", |p| p.user_metadata = "ü".repeat(1024)),
];

/// Just beyond.
const BEYOND: &[Change] = &[
    ("lock 0", |p| p.lock_duration = ms(0)),
    ("lock above 5 min", |p| p.lock_duration = ms(5 * MINUTE + 1)),
    ("size 0", |p| p.max_size_megabytes = 0),
    ("size 1023", |p| p.max_size_megabytes = 1023),
    ("size 81921", |p| p.max_size_megabytes = 81921),
    ("message 0", |p| p.max_message_size_kilobytes = 0),
    ("message 1025 KB", |p| p.max_message_size_kilobytes = 1025),
    ("window below 20 s", |p| p.duplicate_detection_window = ms(20 * SECOND - 1)),
    ("window above 7 d", |p| p.duplicate_detection_window = ms(7 * DAY + 1)),
    ("ttl below 1 s", |p| p.default_ttl = ms(SECOND - 1)),
    ("idle below 5 min", |p| p.auto_delete_on_idle = ms(5 * MINUTE - 1)),
    ("deliveries 0", |p| p.max_delivery_count = 0),
    ("deliveries above int32", |p| p.max_delivery_count = i32::MAX as u32 + 1),
    ("metadata 1025", |p| p.user_metadata = "u".repeat(1025)),
];

#[test]
fn ent_4_a_value_out_of_range_is_refused_and_changes_nothing() {
    for (what, change) in WITHIN {
        let mut properties = queue();
        change(&mut properties);
        assert_eq!(validate::queue_properties(&properties), Ok(()), "{what}");
        let mut play = Table::new(queue());
        assert_eq!(play.update(*change), Outcome::Done, "{what}");
        assert_eq!(play.info().properties, properties, "{what}");
    }
    for (what, change) in BEYOND {
        let mut properties = queue();
        change(&mut properties);
        let refusal = validate::queue_properties(&properties).expect_err(what);
        assert_eq!(refusal.name(), "ArgumentOutOfRangeException", "{what}");

        let mut play = Table::new(queue());
        assert_eq!(refusal_of(play.update(*change)), "ArgumentOutOfRangeException", "{what}");
        assert_eq!(play.info().properties, queue(), "{what}");
        let mut group = Group::empty();
        let create =
            CreateQueue { entity: QUEUE, name: "q".to_owned(), properties: Box::new(properties) };
        let outcome = group.apply(Command::CreateQueue(create));
        assert_eq!(refusal_of(outcome), "ArgumentOutOfRangeException", "{what}");
        assert_eq!(domain::entity_info(&group.rows, QUEUE), None, "{what}");
    }
}

#[test]
fn ent_5_what_is_fixed_at_creation_is_not_changed() {
    let mut play = Table::new(queue());
    play.group.now = at(5);
    let outcome = play.update(|p| p.requires_duplicate_detection = true);
    assert_eq!(refusal_of(outcome), "InvalidOperationException");
    let outcome = play.update(|p| p.enable_partitioning = true);
    assert_eq!(refusal_of(outcome), "InvalidOperationException");
    let outcome = play.update(|p| {
        p.requires_session = true;
        p.lock_duration = ms(10 * SECOND);
    });
    assert_eq!(refusal_of(outcome), "InvalidOperationException");
    assert_eq!(play.info().properties, queue());
    assert_eq!(play.info().updated_at, at(0));
}

/// Who asks for a shorter window gets the shortest; for none, nothing.
#[test]
fn dup_3_a_window_that_is_too_short_is_raised() {
    let window = PROPERTIES.iter().find(|property| property.name == "duplicate_detection_window");
    for (asked, granted, is_taken) in [
        (0, 0, false),
        (1, 20 * SECOND, true),
        (5 * SECOND, 20 * SECOND, true),
        (20 * SECOND, 20 * SECOND, true),
        (7 * DAY, 7 * DAY, true),
        (7 * DAY + 1, 7 * DAY + 1, false),
    ] {
        let mut given = Patch::<QueueProperties>::default();
        given.set(window.expect("the property"), PropertyValue::Duration(ms(asked)));
        for properties in [given.created(), given.applied_to(queue())] {
            assert_eq!(properties.duplicate_detection_window, ms(granted), "{asked}");
            assert_eq!(validate::queue_properties(&properties).is_ok(), is_taken, "{asked}");
        }
    }
}

/// Each flag with each: only what Service Bus refuses together is refused.
#[test]
fn ent_10_what_is_express_detects_no_duplicates() {
    for bits in 0u8..16 {
        let is = |bit: u8| bits & bit != 0;
        let properties = QueueProperties {
            enable_express: is(1),
            requires_duplicate_detection: is(2),
            enable_partitioning: is(4),
            support_ordering: is(8),
            ..queue()
        };
        let refused = validate::queue_properties(&properties).err().map(|refusal| refusal.name());
        let expected = (is(1) && is(2)).then_some("InvalidOperationException");
        assert_eq!(refused, expected, "{properties:?}");
        let topic = TopicProperties {
            enable_express: is(1),
            requires_duplicate_detection: is(2),
            enable_partitioning: is(4),
            support_ordering: is(8),
            ..TopicProperties::default()
        };
        let refused = validate::topic_properties(&topic).err().map(|refusal| refusal.name());
        assert_eq!(refused, expected, "{topic:?}");
    }
}

/// PART-1: the size is that of one of sixteen partitions; order is not kept unless told.
#[test]
fn part_1_what_is_created_partitioned_has_room_for_sixteen() {
    let property = |name| PROPERTIES.iter().find(|property| property.name == name).expect(name);
    for (told, ordering, size, kept) in [
        (None, None, 16 * 1024, false),
        (Some(3072), None, 49_152, false),
        (Some(5120), Some(true), 81_920, true),
        // As it is read from such an entity.
        (Some(49_152), Some(false), 49_152, false),
    ] {
        let mut given = Patch::<QueueProperties>::default();
        given.set(property("enable_partitioning"), PropertyValue::Flag(true));
        if let Some(size) = told {
            given.set(property("max_size_megabytes"), PropertyValue::Number(size));
        }
        if let Some(ordering) = ordering {
            given.set(property("support_ordering"), PropertyValue::Flag(ordering));
        }
        let created = given.created();
        assert_eq!((created.max_size_megabytes, created.support_ordering), (size, kept));
        assert_eq!(validate::queue_properties(&created), Ok(()));
    }
    assert_eq!(Patch::<QueueProperties>::default().created(), queue());
}

#[test]
fn ent_6_update_get_and_delete_of_what_is_not_there_are_refused() {
    let mut group = Group::empty();
    let update = UpdateQueue { origin: None, entity: QUEUE, properties: Box::new(queue()) };
    let outcome = group.apply(Command::UpdateQueue(update));
    assert_eq!(outcome, Outcome::Refused(Refusal::StaleRoute { entity: QUEUE }));
    assert_eq!(refusal_of(outcome), "MessagingEntityNotFound");
    assert_eq!(domain::entity_info(&group.rows, QUEUE), None);

    let mut group = catalog(2);
    let delete = CatalogCommand::Delete { name: "none".to_owned() };
    let outcome = group.apply(Command::Catalog(delete));
    let refusal = Refusal::EntityNotFound { name: "none".to_owned() };
    assert_eq!(outcome, Outcome::Refused(refusal));
}

/// Rows that name the queue.
pub fn rows_of(rows: &MemoryRows, entity: EntityId) -> usize {
    let owner = |key: &Key| match key {
        // What its shipments left behind elsewhere.
        Key::Arrival(source, _) => Some(source.entity),
        key => key.entity(),
    };
    rows.0.keys().filter(|key| owner(key) == Some(entity)).count()
}

fn with_everything() -> Table {
    check(
        QueueProperties { requires_duplicate_detection: true, ..dead_lettering() },
        [
            (
                0,
                Send(vec![m().id("a"), m().ttl(DAY), m().due(DAY), m(), m(), m(), m()]),
                "sent 1 2 3 4 5 6 7",
                "1 2 3S 4 5 6 7",
            ),
            (0, Take(5), "got 1 2 4 5 6", "1L 2L 3S 4L 5L 6L 7"),
            (0, Defer(&[4]), "settled", "1L 2L 3S 4D+1 5L 6L 7"),
            (0, DeadLetter(&[5]), "settled", "1L 2L 3S 4D+1 6L 7 | 5"),
            (0, Abandon(&[6]), "settled", "1L 2L 3S 4D+1 6+1 7 | 5"),
            (0, dead(Take(1)), "got 5", "1L 2L 3S 4D+1 6+1 7 | 5L"),
        ],
    )
}

#[test]
fn ent_7_deletion_is_one_step_and_takes_every_message_along() {
    let mut play = with_everything();
    play.check([(5, DeleteQueue, "done", "no queue")]);
    let refused = "MessagingEntityNotFound";
    play.check([
        (5, send(m()), refused, "no queue"),
        (5, Take(1), refused, "no queue"),
        (5, dead(Take(1)), refused, "no queue"),
        (5, Complete(&[1]), refused, "no queue"),
        (5, Renew(&[1]), refused, "no queue"),
        (5, Cancel(&[3]), refused, "no queue"),
        (5, Deferred(&[4]), refused, "no queue"),
        (5, Delete(1), refused, "no queue"),
        (5, Peek(0, 1), refused, "no queue"),
        // The catalog asks again when it does not know that it was done.
        (5, DeleteQueue, "done", "no queue"),
        (2 * DAY, FireAll, "fired", "no queue"),
    ]);
    while play.play(2 * DAY, Sweep).ends_with("more") {}
    assert_eq!(rows_of(&play.group.rows, QUEUE), 0);
}

#[test]
fn ent_8_a_queue_created_again_shares_nothing_with_the_former() {
    let mut play = with_everything();
    let old = play.token(MAIN, 1);
    play.check([(5, DeleteQueue, "done", "no queue")]);
    // Not even swept yet.
    let next = entity(QUEUE.0 + 1);
    let create = CreateQueue {
        entity: next,
        name: "Orders".to_owned(),
        properties: Box::new(play_properties()),
    };
    assert_eq!(play.group.apply(Command::CreateQueue(create)), Outcome::Done);
    let main = QueueId::main(next);
    let sent = domain::Send { origin: None, entity: next, messages: vec![m().id("a")] };
    assert_eq!(words(&play.group.apply(Command::Send(sent))), "sent 1");
    // A late settlement, with the number and the nonce it had in the former.
    let settlement = |token: LockToken| domain::Settle {
        origin: None,
        queue: main,
        settlements: vec![domain::Settlement { token, disposition: domain::Disposition::Complete }],
        atomic: false,
    };
    let outcome = play.group.apply(Command::Settle(settlement(old)));
    assert_eq!(words(&outcome), "settled not 0 MessageLockLost");
    let taken = play.taken(main, 10);
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].sequence, SequenceNumber::FIRST);
    let outcome = play.group.apply(Command::Settle(settlement(old)));
    assert_eq!(words(&outcome), "settled not 0 MessageLockLost");
    while play.play(5, Sweep).ends_with("more") {}
    assert_eq!(rows_of(&play.group.rows, QUEUE), 0);
    let info = domain::entity_info(&play.group.rows, next).expect("the queue");
    assert_eq!((info.counts.active, info.created_at), (1, at(5)));
}

fn play_properties() -> QueueProperties {
    QueueProperties { requires_duplicate_detection: true, ..queue() }
}
