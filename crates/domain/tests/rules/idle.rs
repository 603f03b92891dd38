//! IDLE: what keeps a temporary entity and what does not. The tables' clock runs under a leader: a
//! beat each minute, as the engine of a group with temporary entities gives it.

use domain::{
    CatalogCommand, Command, DirectoryState, EntityStatus, Idleness, Outcome, QueueProperties,
    Seal as SealCommand, Send as SendCommand, Span, TOUCH_LASTS, Timestamp,
};

use crate::catalog::{ask, catalog, create, created, entry};
use crate::support::QUEUE;
use crate::table::*;

pub const WINDOW: u64 = 5 * MINUTE;

fn temporary() -> QueueProperties {
    QueueProperties { auto_delete_on_idle: ms(WINDOW), ..queue() }
}

/// Beats each minute up to an instant.
pub fn lead(play: &mut Table, until: u64) {
    while at(until).since(play.group.now) > ms(MINUTE) {
        let next = play.group.now.plus(ms(MINUTE));
        play.play(next.since(crate::support::EPOCH).0, Beat);
    }
}

/// Plays a table with a beat each minute between its lines.
pub fn check_led<const N: usize>(properties: QueueProperties, table: [Line; N]) -> Table {
    let mut play = Table::new(properties);
    continue_led(&mut play, table);
    play
}

fn continue_led<const N: usize>(play: &mut Table, table: [Line; N]) {
    for line in table {
        lead(play, line.0);
        play.check([line]);
    }
}

/// What was done at `used` keeps the queue to the millisecond: one earlier it is spared, whatever
/// the coordinator believed, and then it goes with all it holds.
pub fn ends_a_window_after(play: &mut Table, used: u64) {
    let due = used + WINDOW;
    lead(play, due - 1);
    let early = play.play(due - 1, Seal(due - 1));
    assert_eq!(early, "InvalidOperationException", "a millisecond early");
    if used > 0 {
        let earlier = used - 1;
        assert_eq!(play.play(due, Seal(earlier)), "spared", "by one who does not know of the use");
    }
    assert_eq!(play.play(due, Seal(used)), "done");
    assert_eq!(play.look(), "no queue");
    assert_eq!(play.play(due, Seal(used)), "done", "a repeat");
}

#[test]
fn idle_1_a_queue_unused_for_its_window_is_deleted_at_five_minutes_at_the_earliest() {
    assert_eq!(queue().auto_delete_on_idle, Span::MAX);
    let mut play = Table::new(temporary());
    ends_a_window_after(&mut play, 0);
    let shorter = |p: &mut QueueProperties| p.auto_delete_on_idle = ms(WINDOW - 1);
    let mut play = Table::new(queue());
    assert_eq!(words(&play.update(shorter)), "ArgumentOutOfRangeException");
    assert_eq!(play.info().properties, queue());
}

/// Everything IDLE-2 and IDLE-5 name that a group is told of by a command of its own.
#[test]
fn idle_2_idle_5_every_use_starts_the_window_again() {
    type Use = (&'static str, fn() -> Action);
    let uses: [Use; 13] = [
        ("a send", || send(m())),
        ("a receive", || Take(1)),
        ("an update", || Update(|p| p.user_metadata = "u".to_owned())),
        ("a completion", || Complete(&[2])),
        ("a renewal", || Renew(&[3])),
        ("an abandonment", || Abandon(&[3])),
        ("a receive by number", || Deferred(&[4])),
        ("a cancellation", || Cancel(&[1])),
        ("a batch delete", || Delete(1)),
        ("a receive from the dead-letter queue", || dead(Take(1))),
        ("a completion there", || dead(Complete(&[5]))),
        ("a batch delete there", || dead(Delete(1))),
        ("a receive that finds nothing", || dead(Take(1))),
    ];
    for (what, used) in uses {
        let mut play = check_led(
            QueueProperties { lock_duration: ms(5 * MINUTE), ..temporary() },
            [
                (0, send(m().due(DAY)), "sent 1", "1S"),
                (0, Send(vec![m(), m(), m(), m(), m()]), "sent 2 3 4 5 6", "1S 2 3 4 5 6"),
                (0, Take(4), "got 2 3 4 5", "1S 2L 3L 4L 5L 6"),
                (0, Defer(&[4]), "settled", "1S 2L 3L 4D+1 5L 6"),
                (0, DeadLetter(&[5]), "settled", "1S 2L 3L 4D+1 6 | 5"),
            ],
        );
        if what == "a completion there" {
            play.play(0, dead(Take(1)));
        }
        if what != "a cancellation" {
            play.play(0, Cancel(&[1])); // What is scheduled would keep it.
        }
        lead(&mut play, 4 * MINUTE);
        play.play(4 * MINUTE, used());
        println!("{what}");
        ends_a_window_after(&mut play, 4 * MINUTE);
    }
}

/// What no log sees is written as a touch: a browse, and whoever waits.
#[test]
fn idle_2_idle_14_a_touch_counts_for_a_minute() {
    let mut play = check_led(
        temporary(),
        [
            (4 * MINUTE, Touch, "done", ""),
            (4 * MINUTE, send(m()), "sent 1", "1"), // Takes nothing of it back.
        ],
    );
    assert_eq!(play.info().last_use, at(4 * MINUTE).plus(TOUCH_LASTS));
    assert_eq!(play.info().accessed_at, at(4 * MINUTE), "COUNT-6");
    ends_a_window_after(&mut play, 5 * MINUTE);
    assert_eq!(play.play(20 * MINUTE, Touch), "MessagingEntityNotFound");
}

/// IDLE-7, IDLE-12: who only looks at a description, and what the broker does by itself.
#[test]
fn idle_7_idle_12_reads_and_the_brokers_own_deeds_are_no_use() {
    let properties = QueueProperties {
        lock_duration: ms(5 * SECOND),
        dead_letter_on_expiration: true,
        ..temporary()
    };
    let mut play = check_led(
        properties,
        [
            (0, Send(vec![m().ttl(MINUTE), m()]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            (MINUTE, FireAll, "fired dead-lettered 1 released 1", "2 | 1+1"),
            (2 * MINUTE, Sweep, "fired", "2 | 1+1"),
        ],
    );
    assert_eq!(play.info().counts.dead_lettered, 1);
    ends_a_window_after(&mut play, 0);
}

#[test]
fn idle_8_a_scheduled_message_keeps_its_queue_until_it_activates() {
    let mut play = check_led(
        temporary(),
        [
            (0, Send(vec![m().due(20 * MINUTE), m().due(HOUR)]), "sent 1 2", "1S 2S"),
            (10 * MINUTE, Seal(10 * MINUTE), "spared", "1S 2S"),
            (20 * MINUTE, FireAll, "fired activated 1", "2S 3"),
            (30 * MINUTE, Seal(30 * MINUTE), "spared", "2S 3"),
        ],
    );
    assert_eq!(play.info().idleness, Idleness::Scheduled);
    continue_led(&mut play, [(HOUR, FireAll, "fired activated 1", "3 4")]);
    ends_a_window_after(&mut play, HOUR);

    let mut play = check_led(
        temporary(),
        [
            (0, send(m().due(HOUR)), "sent 1", "1S"),
            (20 * MINUTE, Cancel(&[1]), "done", " | | cancelled 1"),
        ],
    );
    ends_a_window_after(&mut play, 20 * MINUTE);
}

#[test]
fn idle_9_stored_messages_go_with_their_queue() {
    let mut play = check_led(
        temporary(),
        [
            (0, Send(vec![m(), m(), m(), m()]), "sent 1 2 3 4", "1 2 3 4"),
            (0, Take(3), "got 1 2 3", "1L 2L 3L 4"),
            (0, Defer(&[1]), "settled", "1D+1 2L 3L 4"),
            (0, DeadLetter(&[2]), "settled", "1D+1 3L 4 | 2"),
        ],
    );
    ends_a_window_after(&mut play, 0);
    play.play(WINDOW, Sweep);
    let left = play.group.rows.0.keys().filter(|key| format!("{key:?}").contains("EntityId(7)"));
    assert_eq!(left.count(), 0);
}

/// IDLE-11: there is nothing else to hold it, and what holds it can be taken off.
#[test]
fn idle_11_only_never_keeps_an_unused_queue() {
    let mut play = check_led(queue(), [(DAY, Seal(DAY), "spared", "")]);
    assert_eq!(play.info().idleness, Idleness::Never);
    continue_led(&mut play, [(DAY, Update(|p| p.auto_delete_on_idle = ms(WINDOW)), "done", "")]);
    ends_a_window_after(&mut play, DAY);
}

#[test]
fn idle_13_an_update_grants_a_full_new_window() {
    let long = QueueProperties { auto_delete_on_idle: ms(HOUR), ..queue() };
    let mut play = check_led(
        long,
        [(50 * MINUTE, Update(|p| p.auto_delete_on_idle = ms(WINDOW)), "done", "")],
    );
    ends_a_window_after(&mut play, 50 * MINUTE);
}

/// One entry, one order: what stands before the seal spares the queue, what stands after finds none.
#[test]
fn idle_15_an_operation_before_the_seal_prevents_it_and_one_after_finds_no_queue() {
    let seal = || Command::Seal(SealCommand { entity: QUEUE, idle_since: at(0) });
    let send = || {
        let messages = vec![m()];
        Command::Send(SendCommand { origin: None, entity: QUEUE, messages })
    };
    let touch = || Command::Touch { entity: QUEUE };
    let outcomes = |commands: Vec<Command>| {
        let mut play = Table::new(temporary());
        lead(&mut play, WINDOW);
        play.group.now = at(WINDOW);
        let entry = play.group.entry(commands);
        let outcomes = play.group.step(vec![entry]).remove(0);
        (outcomes.iter().map(words).collect::<Vec<_>>(), play.look())
    };
    let found = |outcomes: &[&str], queue: &str| {
        (outcomes.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), queue.to_owned())
    };
    let gone = "MessagingEntityNotFound";
    assert_eq!(outcomes(vec![send(), seal()]), found(&["sent 1", "spared"], "1"));
    assert_eq!(outcomes(vec![seal(), send()]), found(&["done", gone], "no queue"));
    assert_eq!(outcomes(vec![touch(), seal()]), found(&["done", "spared"], ""));
    assert_eq!(outcomes(vec![seal(), touch()]), found(&["done", gone], "no queue"));
}

#[test]
fn idle_16_a_disabled_queue_ages_as_well() {
    for status in
        [EntityStatus::Disabled, EntityStatus::SendDisabled, EntityStatus::ReceiveDisabled]
    {
        let mut play = check_led(temporary(), [(MINUTE, Status(status), "done", "")]);
        // What it refuses is no use.
        play.play(2 * MINUTE, Take(1));
        play.play(2 * MINUTE, send(m()));
        let used = if status == EntityStatus::Disabled { MINUTE } else { 2 * MINUTE };
        ends_a_window_after(&mut play, used);
    }
}

/// Architecture 4: nobody could use it while the group had no leader.
#[test]
fn idle_14_a_silence_without_a_leader_does_not_count() {
    let mut play = check_led(temporary(), [(4 * MINUTE, Beat, "done", "")]);
    // Out for an hour; the next leader's first entry says so.
    play.play(HOUR, Seal(0));
    assert_eq!(play.look(), "");
    ends_a_window_after(&mut play, HOUR);

    // A change of leader within two minutes costs nothing.
    let mut play = check_led(temporary(), [(3 * MINUTE, Beat, "done", "")]);
    play.play(5 * MINUTE - 1, Beat);
    ends_a_window_after(&mut play, 0);

    // A clock that an operator moves is no outage.
    let mut play = Table::new(temporary());
    let by = Span(WINDOW);
    assert_eq!(words(&play.group.apply(Command::AdvanceClock { by })), "done");
    assert_eq!(play.play(WINDOW, Seal(0)), "done");
}

#[test]
fn idle_17_the_name_is_free_at_once_and_an_intent_refuses_nothing() {
    let mut group = catalog(1);
    let row = created(&mut group, "a");
    let idle_since = Timestamp(5);
    let (name, entity) = ("A".to_owned(), row.entity);
    let seal = || CatalogCommand::Seal { name: name.clone(), entity, idle_since };
    let (intent, fresh) = entry(ask(&mut group, seal()));
    assert_eq!((&intent.state, fresh), (&DirectoryState::Sealing { idle_since }, true));
    assert!(intent.is_there());
    assert_eq!(entry(ask(&mut group, seal())), (intent.clone(), false));
    // Whoever creates the name is told of it, and finishes it first.
    assert_eq!(entry(create(&mut group, "a")), (intent, false));

    // The group spared it. Who withdraws an intent of which there is another by now, does not.
    let other = CatalogCommand::Spare { name: name.clone(), entity, idle_since: Timestamp(4) };
    assert_eq!(ask(&mut group, other), Outcome::Done);
    assert!(!entry(ask(&mut group, seal())).1, "it stands");
    let spare = || CatalogCommand::Spare { name: name.clone(), entity, idle_since };
    assert_eq!(ask(&mut group, spare()), Outcome::Done);
    assert_eq!(words(&create(&mut group, "a")), "MessagingEntityAlreadyExists");

    // The group deleted it.
    ask(&mut group, seal());
    let deleted = CatalogCommand::Deleted { name: name.clone(), entity };
    assert_eq!(ask(&mut group, deleted), Outcome::Done);
    let second = created(&mut group, "a").entity;
    assert!(second > entity);
    // What comes late is about another entity.
    assert_eq!(words(&ask(&mut group, seal())), "MessagingEntityNotFound");
    assert_eq!(ask(&mut group, spare()), Outcome::Done);

    // A user's deletion takes an intent's place, and is not withdrawn with it.
    let name = "a".to_owned();
    ask(&mut group, CatalogCommand::Seal { name: name.clone(), entity: second, idle_since });
    let (row, fresh) = entry(ask(&mut group, CatalogCommand::Delete { name: name.clone() }));
    assert_eq!((row.state, fresh), (DirectoryState::Deleting, true));
    ask(&mut group, CatalogCommand::Spare { name: name.clone(), entity: second, idle_since });
    assert_eq!(entry(create(&mut group, "a")).0.state, DirectoryState::Deleting);
    let late = CatalogCommand::Seal { name, entity: second, idle_since };
    assert_eq!(entry(ask(&mut group, late)).0.state, DirectoryState::Deleting);
}
