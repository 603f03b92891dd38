//! TX-2: of a commit all is done or nothing, also of one whose outcome nobody was told. COORD-6: nothing is
//! settled before it.

use super::fate::{Fate, Fates};
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
        let sends: Vec<bool> = sent.iter().map(|sent| is_there(run, fates, call, sent)).collect();
        let undone = settled.iter().filter(|(held, how)| is_undone(fates, call, held, how)).count();
        let there = sends.iter().filter(|there| **there).count();
        let told = match call.answer {
            // What was sent is looked for by `arrival`.
            Answer::Done if undone > 0 => {
                format!("committed, and {undone} of {} settlements are not done", settled.len())
            }
            Answer::Perhaps if there > 0 && there < sent.len() => {
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

fn is_there(run: &Run, fates: &Fates, call: &Call, sent: &Sent) -> bool {
    let places = run.entities.places(&call.entity, sent.class.as_deref());
    places
        .iter()
        .any(|place| fates.all.get(&(place.as_str(), sent.id.as_str())).is_some_and(Fate::seen))
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
