//! What was sent once is stored once in each place (SEND-8, DUP-2, FWD-4), and what was settled is
//! gone (LOCK-8).

use super::fate::{Fate, Fates};
use super::{Promise, Violation};
use crate::{Answer, Run};

pub fn check(run: &Run, fates: &Fates) -> Vec<Violation> {
    fates.all.values().flat_map(|fate| stored(run, fate).into_iter().chain(settled(fate))).collect()
}

fn stored(run: &Run, fate: &Fate) -> Option<Violation> {
    let deduplicates = |call: &crate::Call| {
        run.entities.get(&call.entity).is_some_and(|entity| entity.deduplicates)
    };
    let sends = fate.sends.iter().filter(|(call, _)| call.answer.may_be_done());
    let most = match fate.sends.iter().any(|(call, _)| deduplicates(call)) {
        true => 1,
        false => sends.count().max(1),
    };
    let numbers = fate.numbers();
    (numbers.len() > most).then(|| {
        let told = format!("stored {} times, under numbers {numbers:?}", numbers.len());
        Violation::new(Promise::StoredOnce, &fate.entity.name, fate.id, told)
    })
}

fn settled(fate: &Fate) -> Vec<Violation> {
    let mut broken = Vec::new();
    let mut tell = |told: String| {
        broken.push(Violation::new(Promise::SettledOnce, &fate.entity.name, fate.id, told));
    };
    for number in fate.numbers() {
        let done = |it: &&super::fate::Settlement| {
            it.held.number == number && it.is_final() && it.call.answer == Answer::Done
        };
        let mut done: Vec<_> = fate.settlements.iter().filter(done).collect();
        done.sort_by_key(|it| it.call.answered_ms);
        let Some(first) = done.first() else { continue };
        if done.len() > 1 {
            tell(format!("completed {} times", done.len()));
        }
        if fate.resting.iter().any(|resting| resting.number == number) {
            tell("completed, and found at the end".to_owned());
        }
        // What was on its way already may still be handed over; what is locked later is another.
        let again = fate.deliveries.iter().filter(|it| it.number == number).find(|it| {
            it.token != first.held.token
                && it.locked_until_ms > 0
                && it.at_ms > first.call.answered_ms
                && fate.taken_ms(it) > locked_ms(fate, &first.held.token)
        });
        if let Some(again) = again {
            let after_ms = again.at_ms - first.call.answered_ms;
            tell(format!("delivered again {after_ms} ms after it was completed"));
        }
    }
    broken
}

/// When the delivery with this token was locked.
fn locked_ms(fate: &Fate, token: &str) -> u64 {
    let all = fate.deliveries.iter().chain(&fate.dead_deliveries);
    all.filter(|it| it.token == token).map(|it| fate.taken_ms(it)).max().unwrap_or(u64::MAX)
}
