//! Entries mean what they did to 0.1 until the log says that it goes by the rules of 0.2 (DEFER-7, DLQ-4, TTL-18,
//! SCHED-17, FWD-11, QUOTA-6, ENT-3, ENT-13), on every replica at the same entry.

use domain::{
    Command, CreateQueue, DeadlineKind, EntityId, FEATURE_LEVEL_RULES_OF_0_2, Key, Lifetime,
    MemoryRows, Outcome, QueueProperties, Refusal, Row, Rows, Span,
};

use crate::support::{Group, QUEUE};
use crate::table::*;

/// A queue of a log that is of some level.
fn of_level(level: u32, properties: QueueProperties) -> Table {
    let mut group = Group::over(MemoryRows::at_level(level));
    create(&mut group, QUEUE, "orders", properties);
    Table::over(group)
}

fn create(group: &mut Group, entity: EntityId, name: &str, properties: QueueProperties) -> Outcome {
    let properties = Box::new(properties);
    group.apply(Command::CreateQueue(CreateQueue { entity, name: name.to_owned(), properties }))
}

fn reach(play: &mut Table) {
    let level = FEATURE_LEVEL_RULES_OF_0_2;
    assert_eq!(play.group.apply(Command::ReachLevel { level }), Outcome::Done);
}

#[test]
fn defer_7_dlq_4_deliveries_count_as_the_log_has_it() {
    let mut play = of_level(0, QueueProperties { default_ttl: ms(DAY), ..queue() });
    let rounds = [
        (0, Send(vec![m()]), "sent 1", "1"),
        (0, Take(1), "got 1", "1L"),
        (0, Defer(&[1]), "settled", "1D"),
        (0, Deferred(&[1]), "got 1", "1DL"),
        (0, DeadLetter(&[1]), "settled", "| 1"),
        (0, dead(Take(1)), "got 1", "| 1L"),
        (0, dead(Abandon(&[1])), "settled", "| 1+1"),
    ];
    play.check(rounds);
    assert!(matches!(play.message(DEAD, 1).lifetime, Lifetime::Fixed { .. }));
    reach(&mut play);
    play.check([
        (0, dead(Take(1)), "got 1", "| 1L+1"),
        (0, dead(Abandon(&[1])), "settled", "| 1+1"),
        (0, Send(vec![m()]), "sent 2", "2 | 1+1"),
        (0, Take(1), "got 2", "2L | 1+1"),
        (0, Defer(&[2]), "settled", "2D+1 | 1+1"),
        (0, Deferred(&[2]), "got 2", "2DL+1 | 1+1"),
        (0, DeadLetter(&[2]), "settled", "| 1+1 2+1"),
    ]);
    assert!(matches!(play.message(DEAD, 2).lifetime, Lifetime::Inherited { .. }));
}

#[test]
fn sched_17_a_message_tells_its_schedule_as_the_log_has_it() {
    for (level, tells) in [(0, false), (8, false), (FEATURE_LEVEL_RULES_OF_0_2, true)] {
        let mut play = of_level(level, queue());
        play.play(0, send(m().due(5)));
        play.group.now = at(5);
        play.fire(DeadlineKind::Scheduled, 9);
        assert_eq!(play.message(MAIN, 2).was_scheduled, tells, "{level}");
    }
}

#[test]
fn ent_3_ent_13_fwd_11_what_is_created_is_as_the_log_has_it() {
    let temporary = Span::from_secs(3600);
    let forwards = QueueProperties {
        forward_to: Some("orders".to_owned()),
        auto_delete_on_idle: temporary,
        ..queue()
    };
    for (level, idle, is_of_0_1) in
        [(0, Span::MAX, true), (FEATURE_LEVEL_RULES_OF_0_2, temporary, false)]
    {
        let mut group = of_level(level, queue()).group;
        create(&mut group, EntityId(8), "forwards", forwards.clone());
        let Some(Row::Entity(row)) = group.rows.get(&Key::Entity(EntityId(8))) else { panic!() };
        assert_eq!(row.properties.auto_delete_on_idle, idle);
        let short = QueueProperties { lock_duration: ms(SECOND), ..queue() };
        let outcomes = [
            create(&mut group, EntityId(9), "short", short),
            create(&mut group, EntityId(10), "a~b", queue()),
            create(&mut group, EntityId(11), "q/messages/head", queue()),
        ];
        let refused = outcomes.map(|outcome| matches!(outcome, Outcome::Refused(_)));
        assert_eq!(refused, [is_of_0_1, is_of_0_1, !is_of_0_1]);
    }
}

#[test]
fn quota_6_a_batch_holds_as_many_as_the_log_has_it() {
    for (level, is_of_0_1) in [(0, true), (FEATURE_LEVEL_RULES_OF_0_2, false)] {
        let mut play = of_level(level, queue());
        let outcome = play.send(vec![m(); 4_501]);
        let refused = matches!(outcome, Outcome::Refused(Refusal::ArgumentOutOfRange { .. }));
        assert_eq!(refused, is_of_0_1, "{outcome:?}");
    }
}
