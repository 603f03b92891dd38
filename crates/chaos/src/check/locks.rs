//! LOCK-3: a message has at most one live lock. A lock lives until it lapses or its holder gives it up,
//! and no node's death ends it before (LOCK-23), but that of the node its holder is connected to (LOCK-28).

use super::fate::{Fate, Fates};
use super::{Promise, Violation};
use crate::{Answer, Delivered, Run};

pub fn check(run: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    // Under a session its lock is the session's: see `sessions`.
    for fate in fates.all.values().filter(|fate| !fate.entity.sessions) {
        for deliveries in fate.taken().values() {
            for pair in deliveries.windows(2) {
                let until_ms = held_until_ms(run, fate, pair[0]);
                let taken_ms = fate.taken_ms(pair[1]);
                if taken_ms < until_ms {
                    let told = format!("two locks at a time for {} ms", until_ms - taken_ms);
                    let promise = Promise::OneLock;
                    broken.push(Violation::new(promise, &fate.entity.name, fate.id, told));
                }
            }
        }
    }
    broken
}

/// Until when at least the lock of a delivery lived, on the broker's clock.
fn held_until_ms(run: &Run, fate: &Fate, delivered: &Delivered) -> u64 {
    let renewed = fate
        .renewals
        .iter()
        .filter(|(call, held, _)| held.token == delivered.token && call.answer == Answer::Done);
    let lapses_ms =
        renewed.map(|(_, _, until_ms)| *until_ms).fold(delivered.locked_until_ms, u64::max);
    // Given up at any time since that was asked for.
    let given_up = fate.settled(&delivered.token).filter(|it| it.call.answer.may_be_done());
    let given_up_ms = given_up.map(|it| it.call.asked_ms.saturating_sub(run.tolerance_ms)).min();
    let given_back_ms = run.given_back_ms(fate.entity, fate.taken_ms(delivered));
    lapses_ms.min(given_up_ms.unwrap_or(u64::MAX)).min(given_back_ms)
}
