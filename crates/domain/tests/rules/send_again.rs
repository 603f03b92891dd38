//! SEND-8: what came of a request is told again when the request comes again.

use domain::{
    Command, Disposition, Entry, Key, LockToken, MemoryRows, OUTCOMES_KEPT, Origin, Outcome,
    PRODUCER_KEPT, PRODUCERS_MAX, Refusal, Row, SequenceNumber, Settle, Settlement,
};

use crate::support::{Group, QUEUE};
use crate::table::*;

fn origin(producer: u64, serial: u64) -> Origin {
    Origin { producer, serial, ordered: false, retry: false }
}

fn again(origin: Origin) -> Origin {
    Origin { retry: true, ..origin }
}

fn ask(play: &mut Table, origin: Origin) -> Outcome {
    play.group.apply(request(origin))
}

fn request(origin: Origin) -> Command {
    Command::Send(domain::Send { origin: Some(origin), entity: QUEUE, messages: vec![m()] })
}

#[test]
fn send_8_a_repeat_gets_its_recorded_outcome() {
    let mut play = Table::new(queue());
    assert_eq!(words(&ask(&mut play, origin(1, 1))), "sent 1");
    assert_eq!(words(&ask(&mut play, again(origin(1, 1)))), "sent 1");
    // Whether or not it says that it is one, and after a restart.
    play.group.reset();
    assert_eq!(words(&ask(&mut play, origin(1, 1))), "sent 1");
    // Another producer's serials are its own.
    assert_eq!(words(&ask(&mut play, origin(2, 1))), "sent 2");
    assert_eq!(play.look(), "1 2");
}

#[test]
fn send_8_a_repeat_in_the_same_entry_is_recognised() {
    let mut play = Table::new(queue());
    let entry = Entry {
        at: at(0),
        seed: [0; 16],
        commands: vec![request(origin(1, 1)), request(again(origin(1, 1)))],
    };
    let outcomes = play.group.step(vec![entry]).remove(0);
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(play.look(), "1");
}

#[test]
fn send_8_a_refusal_is_recorded_as_well() {
    let mut play = Table::new(queue());
    play.play(0, Status(domain::EntityStatus::SendDisabled));
    assert_eq!(words(&ask(&mut play, origin(1, 1))), "MessagingEntityDisabled");
    play.play(0, Status(domain::EntityStatus::Active));
    assert_eq!(words(&ask(&mut play, again(origin(1, 1)))), "MessagingEntityDisabled");
    assert_eq!(words(&ask(&mut play, origin(1, 2))), "sent 1");
}

/// A settlement that is asked for twice reports its success twice, and no lost lock.
#[test]
fn send_8_settlement_renewal_cancellation_and_deferral_are_covered() {
    let mut play = Table::new(queue());
    play.check([
        (0, Send(vec![m(), m().due(DAY), m(), m()]), "sent 1 2 3 4", "1 2S 3 4"),
        (0, Take(3), "got 1 3 4", "1L 2S 3L 4L"),
        (0, Defer(&[3]), "settled", "1L 2S 3D+1 4L"),
    ]);
    let settle = |token: LockToken, origin| {
        Command::Settle(Settle {
            origin: Some(origin),
            queue: MAIN,
            settlements: vec![Settlement { token, disposition: Disposition::Complete }],
            atomic: false,
        })
    };
    let renew = domain::Renew { origin: None, queue: MAIN, tokens: vec![play.token(MAIN, 4)] };
    let cancel =
        domain::CancelScheduled { origin: None, entity: QUEUE, numbers: vec![SequenceNumber(2)] };
    let deferred = domain::ReceiveDeferred {
        origin: None,
        queue: MAIN,
        receiver: RECEIVER,
        numbers: vec![SequenceNumber(3)],
    };
    let delete =
        domain::DeleteBatch { origin: None, queue: MAIN, count_max: 9, before: Some(at(DAY)) };
    let mut properties = play.info().properties;
    properties.max_delivery_count = 3;
    let update =
        domain::UpdateQueue { origin: None, entity: QUEUE, properties: Box::new(properties) };
    let token = play.token(MAIN, 1);
    play.play(5, send(m()));
    let commands: Vec<Box<dyn Fn(Origin) -> Command>> = vec![
        Box::new(move |origin| settle(token, origin)),
        Box::new(move |origin| {
            Command::Renew(domain::Renew { origin: Some(origin), ..renew.clone() })
        }),
        Box::new(move |origin| {
            let cancel = domain::CancelScheduled { origin: Some(origin), ..cancel.clone() };
            Command::CancelScheduled(cancel)
        }),
        Box::new(move |origin| {
            let receive = domain::ReceiveDeferred { origin: Some(origin), ..deferred.clone() };
            Command::ReceiveDeferred(receive)
        }),
        Box::new(move |origin| {
            Command::DeleteBatch(domain::DeleteBatch { origin: Some(origin), ..delete.clone() })
        }),
        Box::new(move |origin| {
            Command::UpdateQueue(domain::UpdateQueue { origin: Some(origin), ..update.clone() })
        }),
    ];
    for (index, command) in commands.iter().enumerate() {
        let origin = origin(9, index as u64 + 1);
        play.group.now = at(10 + index as u64);
        let first = play.group.apply(command(origin));
        assert!(!matches!(first, Outcome::Refused(_)), "{index}: {first:?}");
        if let Outcome::Settled { refused } = &first {
            assert!(refused.is_empty(), "{refused:?}");
        }
        let queue = play.look();
        // Later, when the same request would find another queue.
        play.group.now = at(30 * SECOND + index as u64);
        assert_eq!(play.group.apply(command(again(origin))), first, "{index}");
        assert_eq!(play.look(), queue, "{index}");
    }
    assert_eq!(play.look(), "3DL+1 4L | | completed 1 cancelled 1 deleted 1");
}

#[test]
fn send_8_a_gap_is_answered_with_where_to_resume() {
    let mut play = Table::new(queue());
    let ordered = |serial| Origin { ordered: true, ..origin(1, serial) };
    let gap = |expected| Outcome::Refused(Refusal::SerialGap { expected });
    // A producer's first request here must be its first, or it may have lost one.
    assert_eq!(words(&ask(&mut play, ordered(1))), "sent 1");
    assert_eq!(ask(&mut play, ordered(4)), gap(2));
    assert_eq!(ask(&mut play, ordered(3)), gap(2));
    assert_eq!(words(&ask(&mut play, ordered(2))), "sent 2");
    assert_eq!(words(&ask(&mut play, ordered(3))), "sent 3");
    assert_eq!(words(&ask(&mut play, ordered(1))), "sent 1");
    assert_eq!(play.look(), "1 2 3");
}

#[test]
fn send_8_an_unordered_producers_requests_may_overtake_each_other() {
    let mut play = Table::new(queue());
    assert_eq!(words(&ask(&mut play, origin(1, 1))), "sent 1");
    assert_eq!(words(&ask(&mut play, origin(1, 3))), "sent 2");
    assert_eq!(words(&ask(&mut play, origin(1, 2))), "sent 3");
    assert_eq!(words(&ask(&mut play, again(origin(1, 2)))), "sent 3");
    assert_eq!(words(&ask(&mut play, again(origin(1, 3)))), "sent 2");
    assert_eq!(play.look(), "1 2 3");
}

#[test]
fn send_8_outcomes_are_kept_for_the_last_1024_requests() {
    let mut play = Table::new(queue());
    let entry = |serials: std::ops::RangeInclusive<u64>| Entry {
        at: at(0),
        seed: [0; 16],
        commands: serials.map(|serial| request(origin(1, serial))).collect(),
    };
    let last = OUTCOMES_KEPT + 1;
    play.group.step(vec![entry(1..=last)]);
    let kept = play.group.rows.0.keys().filter(|key| matches!(key, Key::Outcome(1, _))).count();
    assert_eq!(kept as u64, OUTCOMES_KEPT);
    // The first is too old: it was done, but what came of it is not known.
    assert_eq!(ask(&mut play, again(origin(1, 1))), Outcome::Refused(Refusal::PerhapsDone));
    assert_eq!(words(&ask(&mut play, again(origin(1, 2)))), "sent 2");
    assert_eq!(words(&ask(&mut play, again(origin(1, last)))), format!("sent {last}"));
    assert_eq!(play.counts().accepted, last);
}

#[test]
fn send_8_a_forgotten_producer_is_told_perhaps_done() {
    let mut play = Table::new(queue());
    assert_eq!(words(&ask(&mut play, origin(1, 1))), "sent 1");
    // Seen again in time: kept.
    play.group.now = at(PRODUCER_KEPT.0 - MINUTE);
    assert_eq!(words(&ask(&mut play, origin(1, 2))), "sent 2");
    play.group.now = at(2 * PRODUCER_KEPT.0 - 3 * MINUTE);
    assert_eq!(words(&ask(&mut play, origin(2, 1))), "sent 3");
    assert_eq!(words(&ask(&mut play, again(origin(1, 2)))), "sent 2");
    // Unseen for longer: forgotten when others ask.
    play.group.now = at(4 * PRODUCER_KEPT.0);
    assert_eq!(words(&ask(&mut play, origin(3, 1))), "sent 4");
    assert_eq!(words(&ask(&mut play, origin(3, 2))), "sent 5");
    assert!(!play.group.rows.0.contains_key(&Key::Producer(1)));
    assert!(!play.group.rows.0.contains_key(&Key::Outcome(1, 2)));
    assert_eq!(ask(&mut play, again(origin(1, 2))), Outcome::Refused(Refusal::PerhapsDone));
    assert_eq!(play.counts().accepted, 5);
}

/// It sends nothing, so there is nothing to be in doubt about; and what was sent behind the first one
/// and arrives late is recognised.
#[test]
fn send_8_a_greeting_repeated_to_a_group_that_never_heard_it_is_the_first() {
    let mut play = Table::new(queue());
    let ordered = |serial| Origin { ordered: true, ..origin(1, serial) };
    let greeting = |origin| {
        Command::Send(domain::Send { origin: Some(origin), entity: QUEUE, messages: Vec::new() })
    };
    for origin in [again(ordered(1)), ordered(1), again(ordered(1))] {
        assert_eq!(words(&play.group.apply(greeting(origin))), "ArgumentOutOfRangeException");
    }
    assert_eq!(words(&ask(&mut play, again(ordered(2)))), "sent 1");
    assert_eq!(words(&ask(&mut play, ordered(2))), "sent 1");
    // Any other request is in doubt, an empty one further on as well.
    for command in [request(again(origin(2, 1))), greeting(again(origin(2, 2)))] {
        assert_eq!(play.group.apply(command), Outcome::Refused(Refusal::PerhapsDone));
    }
    assert_eq!(play.counts().accepted, 1);
}

/// As after so many producers, each with one request: made by hand, for time's sake.
fn with_producers(count: u64) -> MemoryRows {
    let seen = at(0);
    let mut rows = Table::new(queue()).group.rows.clone();
    for producer in 1..=count {
        let row = domain::ProducerRow { first: 1, highest: 1, seen };
        rows.0.insert(Key::Producer(producer), Row::Producer(row));
        rows.0.insert(Key::ProducerSeen(seen, producer), Row::ProducerSeen);
        let outcome = Outcome::Sent { sequences: Vec::new() };
        rows.0.insert(Key::Outcome(producer, 1), Row::Outcome(outcome));
    }
    if let Some(Row::Meta(meta)) = rows.0.get_mut(&Key::Meta) {
        meta.producers = count;
    }
    rows
}

#[test]
fn send_8_at_most_100_000_producers_are_kept() {
    let mut play = Table::over(Group::over(with_producers(PRODUCERS_MAX)));
    play.group.now = at(MINUTE);
    assert_eq!(words(&ask(&mut play, origin(PRODUCERS_MAX + 1, 1))), "sent 1");
    assert!(domain::meta(&play.group.rows).producers <= PRODUCERS_MAX);
    // The one unseen longest made room.
    assert!(!play.group.rows.0.contains_key(&Key::Producer(1)));
    assert!(play.group.rows.0.contains_key(&Key::Producer(PRODUCERS_MAX)));
}

/// Many short-lived clients: whoever comes when all places are taken takes that of the one unseen
/// longest, with all it left. So what is kept of producers stays what it is.
#[test]
fn send_8_beyond_100_000_producers_every_newcomer_takes_a_place() {
    const NEWCOMERS: u64 = 2000;
    let mut play = Table::over(Group::over(with_producers(PRODUCERS_MAX)));
    let kept = |play: &Table| {
        let of_producers =
            |key: &&Key| matches!(key, Key::Producer(_) | Key::ProducerSeen(..) | Key::Outcome(..));
        play.group.rows.0.keys().filter(of_producers).count() as u64
    };
    let full = kept(&play);
    assert_eq!(full, 3 * PRODUCERS_MAX);
    play.group.now = at(MINUTE);
    let commands = (1..=NEWCOMERS).map(|n| request(origin(PRODUCERS_MAX + n, 1))).collect();
    let outcomes = play.group.step(vec![Entry { at: at(MINUTE), seed: [0; 16], commands }]);
    for (outcome, number) in outcomes[0].iter().zip(1..) {
        assert_eq!(words(outcome), format!("sent {number}"));
    }
    assert_eq!(domain::meta(&play.group.rows).producers, PRODUCERS_MAX);
    assert_eq!(kept(&play), full);
    // Who made room is forgotten and told so; who came is remembered.
    assert_eq!(ask(&mut play, again(origin(NEWCOMERS, 1))), Outcome::Refused(Refusal::PerhapsDone));
    assert_eq!(words(&ask(&mut play, again(origin(PRODUCERS_MAX + 7, 1)))), "sent 7");
    assert_eq!(play.counts().accepted, NEWCOMERS);
}

/// A request that comes long after later ones of its producer: whether it was done is not known, and
/// nothing of it is kept beyond its producer.
#[test]
fn send_8_a_request_older_than_all_outcomes_kept_is_not_done() {
    let mut play = Table::new(queue());
    assert_eq!(words(&ask(&mut play, origin(1, 5000))), "sent 1");
    assert_eq!(ask(&mut play, origin(1, 1)), Outcome::Refused(Refusal::PerhapsDone));
    // Of before it was known here, but not so old: it says that it was never sent before.
    assert_eq!(words(&ask(&mut play, origin(1, 4500))), "sent 2");
    assert_eq!(ask(&mut play, again(origin(1, 4499))), Outcome::Refused(Refusal::PerhapsDone));
    play.group.now = at(PRODUCER_KEPT.0);
    assert_eq!(words(&ask(&mut play, origin(2, 1))), "sent 3");
    let left = play.group.rows.0.keys().filter(|key| matches!(key, Key::Outcome(1, _))).count();
    assert_eq!(left, 0);
}

/// A route that was stale is mended by the edge, which asks again under the same serial.
#[test]
fn send_8_a_request_that_met_a_stale_route_is_done_anew() {
    let mut play = Table::new(queue());
    let stale =
        domain::Send { origin: Some(origin(1, 1)), entity: entity(99), messages: vec![m()] };
    assert_eq!(words(&play.group.apply(Command::Send(stale))), "MessagingEntityNotFound");
    assert_eq!(words(&ask(&mut play, again(origin(1, 1)))), "sent 1");
    assert_eq!(words(&ask(&mut play, again(origin(1, 1)))), "sent 1");
    assert_eq!(play.look(), "1");
}

/// What follows in an ordered stream waits for it: else it would be stored before it.
#[test]
fn send_8_a_stale_route_does_not_use_an_ordered_serial_up() {
    let mut play = Table::new(queue());
    let ordered = |serial| Origin { ordered: true, ..origin(1, serial) };
    let stale = |serial| {
        let (origin, messages) = (Some(ordered(serial)), vec![m()]);
        Command::Send(domain::Send { origin, entity: entity(99), messages })
    };
    let gap = |expected| Outcome::Refused(Refusal::SerialGap { expected });
    for serial in [1, 2] {
        assert_eq!(words(&play.group.apply(stale(serial))), "MessagingEntityNotFound");
        assert_eq!(ask(&mut play, ordered(serial + 1)), gap(serial));
        let sent = format!("sent {serial}");
        assert_eq!(words(&ask(&mut play, again(ordered(serial)))), sent);
    }
    assert_eq!(play.look(), "1 2");
}

/// Of a refusal that no row explains the log keeps the outcome alone.
#[test]
fn quota_37_what_a_leader_refused_uses_its_serial_up() {
    let mut play = Table::new(queue());
    let ordered = |serial| Origin { ordered: true, ..origin(1, serial) };
    let refuse = |serial| {
        let refusal = Refusal::StorageFull { on: vec![2] };
        Command::Refuse(domain::Refuse { origin: Some(ordered(serial)), refusal })
    };
    assert_eq!(words(&ask(&mut play, ordered(1))), "sent 1");
    assert_eq!(words(&play.group.apply(refuse(2))), "StorageQuotaExceeded");
    // There is space again: the next one finds no gap, and a repeat is answered as before.
    assert_eq!(words(&ask(&mut play, ordered(3))), "sent 2");
    assert_eq!(words(&ask(&mut play, again(ordered(2)))), "StorageQuotaExceeded");
    // What was stored is not refused when it is asked for again.
    assert_eq!(words(&play.group.apply(refuse(1))), "sent 1");
    assert_eq!(words(&play.group.apply(refuse(5))), "SerialGap");
    assert_eq!(play.look(), "1 2");
}
