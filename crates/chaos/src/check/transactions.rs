//! TX-2: of a commit all is done or nothing, also of one whose outcome nobody was told. COORD-6: nothing is
//! settled before it.

use super::fate::Fates;
use super::{Promise, Violation};
use crate::{Answer, Call, Held, How, Run, Sent, What};

pub fn check(run: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    for call in &run.history.calls {
        if let What::SettledEarly(held) = &call.what {
            let told = "settled in a transaction before its discharge";
            broken.push(Violation::new(Promise::SettledByCommit, &call.entity, &held.id, told));
        }
        let What::Commit { sent, settled } = &call.what else { continue };
        let sends: Vec<Arrived> = sent.iter().map(|sent| arrived(run, fates, call, sent)).collect();
        let undone = settled.iter().filter(|(held, how)| is_undone(fates, call, held, how)).count();
        let count = |arrived| sends.iter().filter(|it| **it == arrived).count();
        let (there, missing) = (count(Arrived::Seen), count(Arrived::Missing));
        let told = match call.answer {
            // What was sent is looked for by `arrival`.
            Answer::Done if undone > 0 => {
                format!("committed, and {undone} of {} settlements are not done", settled.len())
            }
            Answer::Perhaps if there > 0 && missing > 0 => {
                format!("{there} of {} sends are done", sent.len())
            }
            Answer::Perhaps if there > 0 && undone > 0 => {
                format!("sends are done, and {undone} of {} settlements not", settled.len())
            }
            _ => continue,
        };
        let id = sent.first().map(|sent| sent.id.as_str()).unwrap_or_default();
        broken.push(Violation::new(Promise::AllOrNothing, &call.entity, id, told));
    }
    broken
}

/// What is known of a message that was sent in a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrived {
    Seen,
    /// Of a restored cluster: what was received and completed while it was backed up may be gone, and who received it is
    /// of no account.
    Perhaps,
    Missing,
}

fn arrived(run: &Run, fates: &Fates, call: &Call, sent: &Sent) -> Arrived {
    let places = run.entities.places(&call.entity, sent.class.as_deref());
    let (mut is_seen, mut may_be_completed) = (false, false);
    for place in &places {
        if let Some(fate) = fates.all.get(&(place.as_str(), sent.id.as_str())) {
            is_seen |= fate.seen();
            may_be_completed |= fate.may_be_completed();
        }
    }
    match (is_seen, may_be_completed) {
        (true, _) => Arrived::Seen,
        (false, true) => Arrived::Perhaps,
        (false, false) => Arrived::Missing,
    }
}

/// A message that was settled by the transaction, and locked or found after it where it cannot be then.
/// Of one that was given up it cannot be told.
fn is_undone(fates: &Fates, call: &Call, held: &Held, how: &How) -> bool {
    let key = (call.entity.as_str(), held.id.as_str());
    let Some(fate) = fates.all.get(&key) else { return false };
    let own = fate.deliveries.iter().find(|it| it.token == held.token);
    let taken_ms = own.map_or(u64::MAX, |own| fate.taken_ms(own));
    let mut later = fate.deliveries.iter().filter(|it| {
        it.number == held.number && it.token != held.token && fate.taken_ms(it) > taken_ms
    });
    let mut resting = fate.resting.iter().filter(|it| it.number == held.number);
    match how {
        How::Complete => resting.next().is_some() || later.next().is_some(),
        // Others may defer it, or send it there, later.
        How::Defer => resting.any(|it| !it.dead && !it.deferred) || later.any(|it| !it.deferred),
        How::DeadLetter(_) => resting.any(|it| !it.dead) || later.next().is_some(),
        How::Abandon | How::Release => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Delivered, End, Entities, Entity, Found, History, Resting, Restored, check};

    /// Of two messages of a commit whose answer came while a backup was made, one rests in the restored cluster; the other
    /// was delivered and completed before its group was copied, or is just not there.
    #[test]
    fn what_was_completed_while_it_was_backed_up_is_no_half_of_a_transaction() {
        let sent = |id: &str| Sent { id: id.to_owned(), ..Sent::default() };
        let call = |asked_ms, answered_ms, what| {
            let (entity, answer) = ("q".to_owned(), Answer::Done);
            Call { entity, asked_ms, answered_ms, what, answer }
        };
        let commit = What::Commit { sent: vec![sent("a"), sent("b")], settled: Vec::new() };
        let delivered = Delivered {
            entity: "q".to_owned(),
            at_ms: 1_150,
            id: "a".to_owned(),
            number: 1,
            locked_until_ms: 6_150,
            ..Delivered::default()
        };
        let completed = call(1_160, 1_170, What::Settle(delivered.held(), How::Complete));
        for (received, holds) in [(true, true), (false, false)] {
            let mut history =
                History { calls: vec![call(1_100, 1_140, commit.clone())], ..History::default() };
            if received {
                history.deliveries.push(delivered.clone());
                history.calls.push(completed.clone());
            }
            let resting = vec![Resting { id: "b".to_owned(), number: 2, ..Resting::default() }];
            let found = Found { resting, ..Found::default() };
            let end = End { at_ms: 9_000, entities: [("q".to_owned(), found)].into() };
            let mut entities = Entities::default();
            entities.insert(Entity::queue("q"));
            let restored = Restored { backup_begun_ms: 1_000, lost_ms: 4_000, restored_ms: 6_000 };
            let restored = Some(restored);
            let run = Run { entities, history, end, restored, tolerance_ms: 100, ..Run::default() };
            let broken = check(&run);
            let halves = broken.iter().filter(|it| it.promise == Promise::AllOrNothing).count();
            assert_eq!(halves == 0, holds, "{broken:?}");
        }
    }
}
