//! What each operation does to a message in each place: all pairs, played on the machine. A table has
//! a line for each place that the queue's one message may be in, and a column for each operation. It
//! says where the message is then, or why it stays:
//!
//! `S` scheduled, `F` fresh, `R` returned, `Y` ready in its session, `L` locked, `H` held by its
//! session's holder, `D` deferred, `LD` and `HD` deferred and delivered by number, `A` in a shipment,
//! `P` parked, `X` in the dead-letter queue, `-` gone; `.` passed over, `!` refused.

use domain::{
    Command, DeadlineKind, Destination, EntityId, ForwardCommand, GroupId, Key, MessageRow,
    NewMessage, QueueId, QueueProperties, Refused, Row, SequenceNumber, SessionList, Ship, Shipped,
    SubQueue, Unpark,
};

use crate::table::InSession::{Close, Deferral, Get, Purge};
use crate::table::*;

/// An operation on message 1 of a queue. Its name heads a column.
type Operation = (&'static str, fn(&mut Table, QueueId) -> String);

/// How message 1 gets to a place. Its name heads a line.
type Place = (&'static str, fn(&mut Table, NewMessage));

const DUE: u64 = 20 * SECOND;
/// Before a lock lapses.
const EXPIRED: u64 = 30 * SECOND;
const LAPSED: u64 = MINUTE;

/// What a queue may be asked for, sessions or not.
const COMMON: [Operation; 12] = [
    ("activate", |play, _| play.play(DUE, Fire(DeadlineKind::Scheduled))),
    ("cancel", |play, _| play.play(1, Cancel(&[1]))),
    ("renew", |play, queue| on(play, 1, queue, Renew(&[1]))),
    ("complete", |play, queue| on(play, 1, queue, Complete(&[1]))),
    ("abandon", |play, queue| on(play, 1, queue, Abandon(&[1]))),
    ("release", |play, queue| on(play, 1, queue, Release(&[1]))),
    ("defer", |play, queue| on(play, 1, queue, Defer(&[1]))),
    ("dead-letter", |play, queue| on(play, 1, queue, DeadLetter(&[1]))),
    ("lapse", |play, _| play.play(LAPSED, FireLocks)),
    ("expire", |play, _| play.play(EXPIRED, Fire(DeadlineKind::Fixed))),
    ("receive", |play, queue| on(play, 1, queue, Take(1))),
    ("by-number", |play, queue| on(play, 1, queue, Deferred(&[1]))),
];

/// What else a queue without sessions may be asked for, and what forwarding does.
const WITHOUT: [Operation; 6] = [
    ("delete", |play, queue| on(play, 1, queue, Delete(1))),
    ("ship", |play, queue| ship(play, queue)),
    ("arrive", |play, queue| shipped(play, queue, Vec::new())),
    ("refuse", |play, queue| shipped(play, queue, vec![refused()])),
    ("unpark", unpark),
    ("select", |play, queue| on(play, 1, queue, Select(&[1]))),
];

/// What the holder of its session may ask for.
const WITHIN: [Operation; 5] = [
    ("get", |play, _| play.play(1, Within("a", Get(1)))),
    ("get-by-number", |play, _| play.play(1, Within("a", Deferral(&[1])))),
    ("purge", |play, _| play.play(1, Within("a", Purge(1)))),
    ("close", |play, _| play.play(1, Within("a", Close))),
    ("hold-lapses", |play, _| play.play(LAPSED, FireSessions)),
];

fn on(play: &mut Table, ms: u64, queue: QueueId, action: Action) -> String {
    match queue.sub == SubQueue::DeadLetter {
        true => play.play(ms, dead(action)),
        false => play.play(ms, action),
    }
}

fn ship(play: &mut Table, queue: QueueId) -> String {
    match queue.sub == SubQueue::DeadLetter {
        true => play.update(|properties| properties.forward_dead_letters_to = Some("there".into())),
        false => play.update(|properties| properties.forward_to = Some("there".into())),
    };
    let destination = Some(Destination { entity: EntityId(99), group: GroupId(2) });
    let (to, count_max, bytes_max) = ("there".to_owned(), 10, u32::MAX);
    let ship = Ship { queue, to, destination, count_max, bytes_max, again: false };
    words(&play.group.apply(Command::Forward(ForwardCommand::Ship(ship))))
}

fn shipped(play: &mut Table, queue: QueueId, refused: Vec<Refused>) -> String {
    let shipped = Shipped { queue, serial: 1, refused };
    words(&play.group.apply(Command::Forward(ForwardCommand::Shipped(shipped))))
}

fn refused() -> Refused {
    let (reason, description) = ("why".to_owned(), "because".to_owned());
    Refused { first: 0, count: 1, reason, description }
}

fn unpark(play: &mut Table, queue: QueueId) -> String {
    play.update(|properties| {
        (properties.forward_to, properties.forward_dead_letters_to) = (None, None);
    });
    let unpark = ForwardCommand::Unpark(Unpark { queue, count_max: 10 });
    words(&play.group.apply(Command::Forward(unpark)))
}

fn asked<const N: usize>(play: &mut Table, actions: [Action; N]) {
    for action in actions {
        let answer = play.play(0, action);
        assert!(!answer.contains("not 0") && !answer.contains("Exception"), "{answer}");
    }
}

/// Plays each operation in each place of a queue. The table's head names the operations, its first
/// column the places, both in their order.
fn check_all(
    properties: fn() -> QueueProperties,
    queue: QueueId,
    operations: &[Operation],
    places: &[Place],
    table: &str,
) {
    let mut seen: Vec<Vec<String>> = Vec::new();
    seen.push(operations.iter().map(|(name, _)| (*name).to_owned()).collect());
    for (name, prepare) in places {
        let mut line = vec![(*name).to_owned()];
        for (operation, act) in operations {
            let mut play = Table::new(properties());
            // Only what is to expire may: whatever else is done finds it within its time.
            let message = if *operation == "expire" { m().ttl(EXPIRED) } else { m() };
            prepare(&mut play, message);
            let before = place(&play, queue);
            let answer = act(&mut play, queue);
            let after = place(&play, queue);
            line.push(match (before == after, is_refused(&answer)) {
                (true, true) => "!".to_owned(),
                (true, false) => ".".to_owned(),
                (false, false) => after,
                (false, true) => panic!("{operation} of {name}: {answer}, but it is {after}"),
            });
        }
        seen.push(line);
    }
    let lines = table.lines().map(str::split_whitespace).map(|words| words.collect::<Vec<_>>());
    let expected: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let text: Vec<_> = seen.iter().map(|line| line.join(" ")).collect();
    assert!(seen == expected, "it is so:\n{}", text.join("\n"));
}

fn is_refused(answer: &str) -> bool {
    let words = ["got", "done", "fired", "settled", "until", "deleted"];
    answer.contains(" not ") || !words.iter().any(|word| answer.starts_with(word))
}

/// Where the only message is, read off the rows.
fn place(play: &Table, queue: QueueId) -> String {
    let rows = &play.group.rows.0;
    let stored = rows.iter().find_map(|(key, row)| match (key, row) {
        (Key::Scheduled(..), _) => Some("S".to_owned()),
        (Key::Message(of, _), _) if queue.sub == SubQueue::Main && of.sub != SubQueue::Main => {
            Some("X".to_owned())
        }
        (Key::Message(of, number), Row::Message(row)) => Some(place_of(play, *of, *number, row)),
        _ => None,
    });
    stored.unwrap_or_else(|| "-".to_owned())
}

/// By every row that names it; a message without any is fresh or deferred.
fn place_of(play: &Table, queue: QueueId, number: SequenceNumber, row: &MessageRow) -> String {
    let mut places = Vec::new();
    for (key, named) in &play.group.rows.0 {
        match (key, named) {
            (Key::Returned(of, n), _) if (*of, *n) == (queue, number) => places.push("R"),
            (Key::Lock(of, n), _) if (*of, *n) == (queue, number) => places.push("L"),
            (Key::SessionMessage(_, _, SessionList::Ready, n), _) if *n == number => {
                places.push("Y");
            }
            (Key::SessionHeld(_, _, n), _) if *n == number => places.push("H"),
            (Key::Shipment(of, _), Row::Shipment(shipment)) if *of == queue => {
                places.extend(shipment.numbers.iter().filter(|n| **n == number).map(|_| "A"));
            }
            (Key::Parked(of, ..), Row::Parked(numbers)) if *of == queue => {
                places.extend(numbers.iter().filter(|n| **n == number).map(|_| "P"));
            }
            _ => (),
        }
    }
    if row.deferred {
        places.push("D");
    }
    if places.is_empty() {
        let head = play.state().fresh_head[queue.sub as usize];
        assert!(number >= head, "{number} is nowhere, and below the fresh head {head}");
        places.push("F");
    }
    places.concat()
}

fn columns(more: &[Operation]) -> Vec<Operation> {
    COMMON.iter().chain(more).copied().collect()
}

#[test]
fn sched_3_lock_14_ttl_11_defer_4_batch_4_sel_6_what_is_done_in_each_place() {
    let places: [Place; 7] = [
        ("scheduled", |play, message| asked(play, [send(message.due(DUE))])),
        ("fresh", |play, message| asked(play, [send(message)])),
        ("returned", |play, message| asked(play, [send(message), Take(1), Release(&[1])])),
        ("locked", |play, message| asked(play, [send(message), Take(1)])),
        ("again", |play, message| {
            asked(play, [send(message), Take(1), Defer(&[1]), Deferred(&[1])]);
        }),
        ("deferred", |play, message| asked(play, [send(message), Take(1), Defer(&[1])])),
        ("shipped", |play, message| {
            asked(play, [send(message)]);
            ship(play, MAIN);
        }),
    ];
    let table = "
                  activate cancel renew complete abandon release defer dead-letter lapse expire receive by-number delete ship arrive refuse unpark select
        scheduled F        -      !     !        !       !       !     !           .     .      .       !         .      .    .      .      .      .
        fresh     .        !      !     !        !       !       !     !           .     -      L       !         -      A    .      .      .      L
        returned  .        !      !     !        !       !       !     !           .     -      L       !         -      A    .      .      .      L
        locked    .        !      .     -        R       R       D     X           R     .      .       !         .      .    .      .      .      .
        again     .        !      .     -        D       D       D     X           D     .      .       !         .      .    .      .      .      .
        deferred  .        !      !     !        !       !       !     !           .     .      .       LD        .      .    .      .      .      .
        shipped   .        !      !     !        !       !       !     !           .     .      !       !         .      .    -      X      .      !
    ";
    check_all(queue, MAIN, &columns(&WITHOUT), &places, table);
}

/// A dead letter is not dead-lettered, does not expire, and is parked where its destination refuses it.
#[test]
fn dlq_4_ttl_18_defer_11_fwd_9_what_is_done_in_each_place_of_a_dead_letter_queue() {
    fn die(play: &mut Table, message: NewMessage) {
        asked(play, [send(message), Take(1), DeadLetter(&[1])]);
    }
    let places: [Place; 6] = [
        ("fresh", die),
        ("locked", |play, message| {
            die(play, message);
            asked(play, [dead(Take(1))]);
        }),
        ("again", |play, message| {
            die(play, message);
            asked(play, [dead(Take(1)), dead(Defer(&[1])), dead(Deferred(&[1]))]);
        }),
        ("deferred", |play, message| {
            die(play, message);
            asked(play, [dead(Take(1)), dead(Defer(&[1]))]);
        }),
        ("shipped", |play, message| {
            die(play, message);
            ship(play, DEAD);
        }),
        ("parked", |play, message| {
            die(play, message);
            ship(play, DEAD);
            shipped(play, DEAD, vec![refused()]);
        }),
    ];
    let table = "
                  activate cancel renew complete abandon release defer dead-letter lapse expire receive by-number delete ship arrive refuse unpark select
        fresh     .        !      !     !        !       !       !     !           .     .      L       !         -      A    .      .      .      L
        locked    .        !      .     -        R       R       D     !           R     .      .       !         .      .    .      .      .      .
        again     .        !      .     -        D       D       D     !           D     .      .       !         .      .    .      .      .      .
        deferred  .        !      !     !        !       !       !     !           .     .      .       LD        .      .    .      .      .      .
        shipped   .        !      !     !        !       !       !     !           .     .      !       !         .      .    -      P      .      !
        parked    .        !      !     !        !       !       !     !           .     .      !       !         .      .    .      .      R      !
    ";
    check_all(queue, DEAD, &columns(&WITHOUT), &places, table);
}

/// Whoever holds the session is asked for it, so all that is done otherwise is refused.
#[test]
fn sess_10_sess_13_defer_10_batch_7_what_is_done_in_each_place_of_a_session() {
    fn hold(play: &mut Table, message: NewMessage) {
        asked(play, [send(message.session("a")), Accept("a")]);
    }
    let places: [Place; 5] = [
        ("scheduled", |play, message| {
            asked(play, [send(message.session("a").due(DUE)), Accept("a")]);
        }),
        ("ready", hold),
        ("held", |play, message| {
            hold(play, message);
            asked(play, [Within("a", Get(1))]);
        }),
        ("again", |play, message| {
            hold(play, message);
            asked(play, [Within("a", Get(1)), Defer(&[1]), Within("a", Deferral(&[1]))]);
        }),
        ("deferred", |play, message| {
            hold(play, message);
            asked(play, [Within("a", Get(1)), Defer(&[1])]);
        }),
    ];
    let table = "
                  activate cancel renew complete abandon release defer dead-letter lapse expire receive by-number get get-by-number purge close hold-lapses
        scheduled Y        -      !     !        !       !       !     !           .     .      !       !         .   !             .     .     .
        ready     .        !      !     !        !       !       !     !           .     -      !       !         H   !             -     .     .
        held      .        !      !     -        Y       Y       D     X           .     .      !       !         .   !             .     Y     Y
        again     .        !      !     -        D       D       D     X           .     .      !       !         .   !             .     D     D
        deferred  .        !      !     !        !       !       !     !           .     .      !       !         .   HD            .     .     .
    ";
    check_all(sessions, MAIN, &columns(&WITHIN), &places, table);
}
