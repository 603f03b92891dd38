//! HIST: what is told of messages. That it adds up to what is stored is looked at after every step of
//! every test (`support/lives.rs`).

use domain::{
    Acquire, Command, Commit, Disposition, LifeStep, MessageEvent, Operation, Outcome,
    QueueProperties, SequenceNumber, Settle, Settlement, SubQueue,
};

use crate::support::{Group, QUEUE};
use crate::table::*;
use crate::topic::Topic;

/// A step as tests write it: the message's number, its subqueue if it is another, and what happened.
fn told(event: &MessageEvent) -> String {
    let sub = match event.sub {
        SubQueue::Main => "",
        SubQueue::DeadLetter => "dead ",
        SubQueue::Transfer => "transfer ",
        SubQueue::TransferDeadLetter => "transfer dead ",
    };
    let instant = |at: domain::Timestamp| at.since(crate::support::EPOCH).0;
    let step = match &event.step {
        LifeStep::Accepted(accepted) => {
            let until = accepted.expires_at.filter(|at| *at != domain::Timestamp::NEVER);
            let until = until.map(|at| format!(" until {}", instant(at)));
            let due = accepted.scheduled_for.map(|at| format!(" for {}", instant(at)));
            let of = accepted.published_as.map(|number| format!(" of {number}"));
            let id = accepted.texts.message_id.as_ref().map(|id| format!(" as {id}"));
            let parts = [id, of, due, until].map(Option::unwrap_or_default).concat();
            format!("accepted{parts}")
        }
        LifeStep::Activated { scheduled_as, due, .. } => {
            format!("activated from {scheduled_as} due {}", instant(*due))
        }
        LifeStep::Cancelled => "cancelled".to_owned(),
        LifeStep::Published { copies } => format!("published {copies}"),
        LifeStep::Locked { until, delivery_count, .. } => {
            format!("locked until {} after {delivery_count}", instant(*until))
        }
        LifeStep::LockRenewed { until } => format!("renewed until {}", instant(*until)),
        LifeStep::Completed { on_delivery: false } => "completed".to_owned(),
        LifeStep::Completed { on_delivery: true } => "completed on delivery".to_owned(),
        LifeStep::Abandoned { delivery_count } => format!("abandoned, now {delivery_count}"),
        LifeStep::Released => "released".to_owned(),
        LifeStep::LockLapsed { until, delivery_count } => {
            format!("lapsed at {}, now {delivery_count}", instant(*until))
        }
        LifeStep::Deferred => "deferred".to_owned(),
        LifeStep::DeadLettered { reason, .. } => format!("dead-lettered {reason}"),
        LifeStep::Expired { due } => format!("expired due {}", instant(*due)),
        LifeStep::Deleted => "deleted".to_owned(),
        LifeStep::Forwarded { .. } => "forwarded".to_owned(),
        LifeStep::EntityDeleted => "entity deleted".to_owned(),
    };
    format!("{sub}{} {step}", event.number)
}

/// Since this was asked last.
fn all_told(group: &mut Group) -> Vec<String> {
    std::mem::take(&mut group.events).iter().map(told).collect()
}

/// A line: instant, what is asked, the steps it comes to.
fn play(properties: QueueProperties, lines: &[(u64, Action, &[&str])]) {
    let mut table = Table::new(properties);
    for (index, (at, action, expected)) in lines.iter().enumerate() {
        table.play(*at, action.clone());
        assert_eq!(all_told(&mut table.group), *expected, "line {}", index + 1);
    }
}

#[test]
fn hist_1_hist_3_every_step_of_a_life_is_told() {
    let properties = QueueProperties {
        default_ttl: ms(HOUR),
        lock_duration: ms(MINUTE),
        max_delivery_count: 2,
        ..queue()
    };
    play(
        properties,
        &[
            (0, send(m().content("$MessageId=a")), &["1 accepted as a until 3600000"]),
            (0, send(m().ttl(9)), &["2 accepted until 9"]),
            (9, FireAll, &["2 expired due 9"]),
            (10, Take(1), &["1 locked until 60010 after 0"]),
            (20, Renew(&[1]), &["1 renewed until 60020"]),
            (30, Abandon(&[1]), &["1 abandoned, now 1"]),
            (40, Take(1), &["1 locked until 60040 after 1"]),
            (50, Release(&[1]), &["1 released"]),
            (60, Take(1), &["1 locked until 60060 after 1"]),
            (70, Defer(&[1]), &["1 dead-lettered MaxDeliveryCountExceeded"]),
            (80, dead(Take(1)), &["dead 1 locked until 60080 after 2"]),
            (90, dead(Complete(&[1])), &["dead 1 completed"]),
        ],
    );
    play(
        queue(),
        &[
            (0, Send(vec![m().due(10), m().due(20)]), &["1 accepted for 10", "2 accepted for 20"]),
            (5, Cancel(&[2]), &["2 cancelled"]),
            (15, FireAll, &["3 activated from 1 due 10"]),
            (15, Take(1), &["3 locked until 60015 after 0"]),
            (16, Defer(&[3]), &["3 deferred"]),
            (17, Deferred(&[3]), &["3 locked until 60017 after 1"]),
            (60_018, FireLocks, &["3 lapsed at 60017, now 2"]),
            (60_019, Deferred(&[3]), &["3 locked until 120019 after 2"]),
            (60_020, DeadLetter(&[3]), &["3 dead-lettered "]),
            (60_021, send(m()), &["4 accepted"]),
            (60_022, Delete(1), &["4 deleted"]),
            (60_023, DeleteQueue, &["0 entity deleted"]),
        ],
    );
    play(
        QueueProperties { default_ttl: ms(SECOND), ..dead_lettering() },
        &[
            (0, send(m()), &["1 accepted until 1000"]),
            (SECOND, FireAll, &["1 dead-lettered TTLExpiredException"]),
        ],
    );
}

#[test]
fn hist_1_what_is_held_in_a_session_is_released_or_lapses_with_it() {
    play(
        sessions(),
        &[
            (0, Send(vec![m().session("s"), m().session("s")]), &["1 accepted", "2 accepted"]),
            (0, Accept("s"), &[]),
            (
                1,
                Within("s", InSession::Get(2)),
                &["1 locked until 60000 after 0", "2 locked until 60000 after 0"],
            ),
            (2, Complete(&[2]), &["2 completed"]),
            (60_000, FireSessions, &["1 lapsed at 60000, now 1"]),
            (60_001, Accept("s"), &[]),
            (60_001, Within("s", InSession::Get(1)), &["1 locked until 120001 after 1"]),
            (60_002, Within("s", InSession::Close), &["1 released"]),
        ],
    );
}

#[test]
fn hist_1_a_topic_tells_of_its_copies() {
    let mut play = Topic::with(["one", "two"]);
    all_told(&mut play.group);
    play.send(m().content("$MessageId=a"));
    let expected =
        ["1 accepted as a", "1 published 2", "1 accepted as a of 1", "1 accepted as a of 1"];
    assert_eq!(all_told(&mut play.group), expected);
}

#[test]
fn hist_2_what_is_taken_back_was_no_step() {
    let mut play = Table::new(queue());
    play.check([(0, Send(vec![m(), m()]), "sent 1 2", "1 2"), (0, Take(1), "got 1", "1L 2")]);
    all_told(&mut play.group);
    let settle = |number| {
        let token = domain::LockToken { sequence: SequenceNumber(number), nonce: 1 };
        let token = if number == 1 { play.token(MAIN, 1) } else { token };
        let settlement = Settlement { token, disposition: Disposition::Complete };
        let (origin, queue, settlements) = (None, MAIN, vec![settlement]);
        Operation::Settle(Settle { origin, queue, settlements, atomic: false })
    };
    let sent = Operation::Send(domain::Send { origin: None, entity: QUEUE, messages: vec![m()] });
    for (operations, expected) in [
        (vec![settle(1), sent.clone(), settle(2)], &[][..]),
        (vec![settle(1), sent], &["1 completed", "3 accepted"][..]),
    ] {
        let commit = Commit { origin: None, entity: QUEUE, operations };
        play.group.apply(Command::Commit(commit));
        assert_eq!(all_told(&mut play.group), expected);
    }
}

#[test]
fn hist_5_what_is_completed_by_its_delivery_says_so() {
    let mut play = Table::new(queue());
    for (receiver, expected) in
        [(RECEIVER, "1 completed"), (RECEIVER.deleting(), "2 completed on delivery")]
    {
        play.send(vec![m()]);
        let acquire = Acquire { queue: MAIN, receiver, count_max: 1, bytes_max: u32::MAX };
        let Outcome::Acquired { deliveries, .. } = play.group.apply(Command::Acquire(acquire))
        else {
            panic!("nothing was acquired")
        };
        let token = deliveries[0].lock.expect("it is locked").token;
        let settlement = Settlement { token, disposition: Disposition::Complete };
        let (origin, queue, settlements) = (None, MAIN, vec![settlement]);
        let settle = Settle { origin, queue, settlements, atomic: false };
        all_told(&mut play.group);
        play.group.apply(Command::Settle(settle));
        assert_eq!(all_told(&mut play.group), [expected]);
    }
}
