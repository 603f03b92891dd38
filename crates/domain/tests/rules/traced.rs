//! What is noted of messages whose senders are traced: each step with what the message was before it, and since when,
//! by a machine that was there all the time and by one that was not.

use domain::{
    Command, Commit, Disposition, LifeStep, Machine, NewMessage, Operation, Phase, PhaseState,
    QueueId, QueueProperties, SequenceNumber, Settle, Settlement, Timestamp, TracedStep,
};

use crate::support::{EPOCH, Group, QUEUE, content};
use crate::table::*;
use crate::topic::Topic;

const UNSAMPLED: &str = "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn traced() -> NewMessage {
    m().content(content::TRACEPARENT)
}

/// The step's first word, the message, and what it was since when.
fn told(step: &TracedStep) -> String {
    let word = format!("{:?}", step.event.step);
    let word = word.split([' ', '(', '{']).next().unwrap_or_default().to_lowercase();
    let instant = |at: Timestamp| at.since(EPOCH).0;
    let before = step.before.map_or_else(String::new, |Phase { state, since }| {
        let state = match state {
            PhaseState::Scheduled => "scheduled",
            PhaseState::Waiting => "waiting",
            PhaseState::Locked { nonce: 0, .. } => "locked by somebody",
            PhaseState::Locked { .. } => "locked",
            PhaseState::Deferred => "deferred",
        };
        let since = since.map_or_else(|| "once".to_owned(), |since| instant(since).to_string());
        format!(", {state} since {since}")
    });
    format!("{} {word}{before}", step.event.number)
}

fn all_told(group: &mut Group) -> Vec<String> {
    std::mem::take(&mut group.traced).iter().map(told).collect()
}

fn play(table: &mut Table, lines: &[(u64, Action, &[&str])]) {
    for (index, (at, action, expected)) in lines.iter().enumerate() {
        table.play(*at, action.clone());
        assert_eq!(all_told(&mut table.group), *expected, "line {}", index + 1);
    }
}

/// A machine that knows nothing but rows.
fn restart(group: &mut Group) {
    group.machine = Machine::reading(content::read)
        .noting_events(content::texts)
        .noting_traces(content::texts, content::trace);
}

#[test]
fn each_step_says_what_was_before_it_and_since_when() {
    let properties =
        QueueProperties { default_ttl: ms(HOUR), lock_duration: ms(MINUTE), ..queue() };
    let mut table = Table::new(properties);
    play(
        &mut table,
        &[
            (0, send(m()), &[]),
            (1, send(m().content(UNSAMPLED)), &[]),
            (2, send(traced()), &["3 accepted"]),
            (10, Take(3), &["3 locked, waiting since 2"]),
            (20, Renew(&[3]), &[]),
            (30, Abandon(&[3]), &["3 abandoned, locked since 10"]),
            (40, Take(1), &["3 locked, waiting since 30"]),
            (50, Release(&[3]), &["3 released, locked since 40"]),
            (60, Take(1), &["3 locked, waiting since 50"]),
            (70, Defer(&[3]), &["3 deferred, locked since 60"]),
            (80, Deferred(&[3]), &["3 locked, deferred since 70"]),
            (MINUTE + 80, FireLocks, &["3 locklapsed, locked since 80"]),
            (MINUTE + 90, Deferred(&[3]), &["3 locked, waiting since 60080"]),
            (MINUTE + 95, DeadLetter(&[3]), &["3 deadlettered, locked since 60090"]),
            (MINUTE + 99, dead(Take(1)), &["3 locked, waiting since 60095"]),
            (2 * MINUTE, dead(Complete(&[3])), &["3 completed, locked since 60099"]),
        ],
    );
    let mut table = Table::new(queue());
    play(
        &mut table,
        &[
            (0, Send(vec![traced().due(10), traced().due(20)]), &["1 accepted", "2 accepted"]),
            (5, Cancel(&[2]), &["2 cancelled, scheduled since 0"]),
            (15, FireAll, &["3 activated, scheduled since 0"]),
            (16, Delete(1), &["3 deleted, waiting since 15"]),
            (17, send(traced().ttl(3)), &["4 accepted"]),
            (20, FireAll, &["4 expired, waiting since 17"]),
            (21, send(traced()), &["5 accepted"]),
            (22, DeleteQueue, &["5 entitydeleted, waiting since 21"]),
        ],
    );
}

#[test]
fn who_was_not_there_looks_it_up_and_does_not_guess() {
    let mut table = Table::new(QueueProperties { lock_duration: ms(MINUTE), ..queue() });
    let mut line = |action: Action, expected: &[&str]| {
        restart(&mut table.group);
        table.play(5, action);
        assert_eq!(all_told(&mut table.group), expected);
    };
    line(Send(vec![traced(), m(), traced().due(9)]), &["1 accepted", "3 accepted"]);
    line(Take(2), &["1 locked, waiting since 5"]);
    line(Complete(&[2]), &[]);
    line(Abandon(&[1]), &["1 abandoned, locked by somebody since once"]);
    // It is not known since when it waits: it was delivered before.
    line(Take(1), &["1 locked, waiting since once"]);
    line(DeadLetter(&[1]), &["1 deadlettered, waiting since once"]);
    line(dead(Take(1)), &["1 locked, waiting since once"]);
    line(Cancel(&[3]), &["3 cancelled, scheduled since once"]);
}

#[test]
fn what_is_taken_back_was_no_step_and_changes_nothing_known() {
    let mut table = Table::new(queue());
    play(
        &mut table,
        &[
            (0, Send(vec![traced(), traced()]), &["1 accepted", "2 accepted"]),
            (5, Take(1), &["1 locked, waiting since 0"]),
        ],
    );
    let known = table.token(MAIN, 1);
    let unknown = domain::LockToken { sequence: SequenceNumber(2), nonce: 1 };
    let settle = |token| {
        let settlement = Settlement { token, disposition: Disposition::Complete };
        let (origin, queue, settlements) = (None, MAIN, vec![settlement]);
        Operation::Settle(Settle { origin, queue, settlements, atomic: false })
    };
    let (origin, entity, messages) = (None, QUEUE, vec![traced()]);
    let sent = Operation::Send(domain::Send { origin, entity, messages });
    for (operations, expected) in [
        (vec![settle(known), sent.clone(), settle(unknown)], &[][..]),
        (vec![settle(known), sent], &["1 completed, locked since 5", "3 accepted"][..]),
    ] {
        let commit = Commit { origin: None, entity: QUEUE, operations };
        table.group.apply(Command::Commit(commit));
        assert_eq!(all_told(&mut table.group), expected);
    }
}

#[test]
fn a_copy_names_its_topic_and_what_arrives_its_shipment() {
    let mut topic = Topic::with(["one", "two"]);
    topic.send(traced());
    let expected = ["1 accepted", "1 published, waiting since 0", "1 accepted", "1 accepted"];
    let steps = std::mem::take(&mut topic.group.traced);
    assert_eq!(steps.iter().map(told).collect::<Vec<_>>(), expected);
    let LifeStep::Accepted(copy) = &steps[2].event.step else { panic!("{:?}", steps[2]) };
    assert_eq!(copy.published_by.map(QueueId::main), Some(steps[1].queue));

    let mut world = crate::forwards::pair();
    world.send("a", vec![m(), traced()]);
    world.forward("a");
    let (source, destination) = (world.id("a"), world.id("b"));
    let gone = std::mem::take(&mut world.group(source).traced);
    let come = std::mem::take(&mut world.group(destination).traced);
    let steps = gone.iter().chain(&come).map(|step| &step.event.step);
    let shipment = steps.clone().find_map(|step| match step {
        LifeStep::Forwarded { serial, position } => Some((*serial, *position)),
        _ => None,
    });
    let arrival = steps.clone().find_map(|step| match step {
        LifeStep::Accepted(accepted) => accepted.arrival,
        _ => None,
    });
    let arrival = arrival.expect("it arrives");
    assert_eq!(arrival.source, QueueId::main(source.entity));
    assert_eq!(shipment, Some((arrival.serial, arrival.position)));
    assert_eq!(arrival.position, 1, "the one before it is not traced, and counts");
}
