//! TX-2: of a commit all is done or nothing, also of one whose outcome nobody was told.

use super::fate::{Fate, Fates};
use super::{Promise, Violation};
use crate::{Answer, Call, Held, Run, Sent, What};

pub fn check(run: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    for call in &run.history.calls {
        let What::Commit { sent, completed } = &call.what else { continue };
        let sends: Vec<bool> = sent.iter().map(|sent| is_there(run, fates, call, sent)).collect();
        let undone = completed.iter().filter(|held| is_back(fates, call, held)).count();
        let there = sends.iter().filter(|there| **there).count();
        let told = match call.answer {
            // What was sent is looked for by `arrival`.
            Answer::Done if undone > 0 => {
                format!("committed, and {undone} of {} completions are not done", completed.len())
            }
            Answer::Perhaps if there > 0 && there < sent.len() => {
                format!("{there} of {} sends are done", sent.len())
            }
            Answer::Perhaps if there > 0 && undone > 0 => {
                format!("sends are done, and {undone} of {} completions not", completed.len())
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

/// A message that was completed by the transaction, and locked or found after it.
fn is_back(fates: &Fates, call: &Call, held: &Held) -> bool {
    let key = (call.entity.as_str(), held.id.as_str());
    fates.all.get(&key).is_some_and(|fate| {
        let own = fate.deliveries.iter().find(|it| it.token == held.token);
        let taken_ms = own.map_or(u64::MAX, |own| fate.taken_ms(own));
        let later = |it: &&&crate::Delivered| {
            it.number == held.number && it.token != held.token && fate.taken_ms(it) > taken_ms
        };
        fate.resting.iter().any(|it| it.number == held.number)
            || fate.deliveries.iter().find(later).is_some()
    })
}
