//! Nothing that was acknowledged is lost, and nothing is there that was not sent: at the end of each
//! chain of forwards, and in each subscription that takes it.

use super::fate::{Fate, Fates};
use super::{Promise, Violation};
use crate::{Answer, Run};

pub fn check(run: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    for fate in fates.all.values() {
        let told = |promise, told: &str| Violation::new(promise, &fate.entity.name, fate.id, told);
        let gone_with_entity = found_gone(run, fate);
        if !gone_with_entity && is_lost(run, fate) {
            broken.push(told(Promise::NothingLost, "acknowledged, and nowhere to be found"));
        }
        if fate.seen() && !fate.sends.iter().any(|(call, _)| call.answer.may_be_done()) {
            let why = match fate.sends.first() {
                None => "there, though nobody sent it here",
                Some(_) => "there, though its send was refused or certainly not done",
            };
            broken.push(told(Promise::NothingPhantom, why));
        }
    }
    for (entity, resting) in &fates.strays {
        let place = if resting.dead { "its dead-letter queue" } else { "it" };
        let reason = resting.reason.as_deref().unwrap_or("none");
        let why = format!("left in {place}, which only forwards; reason: {reason}");
        broken.push(Violation::new(Promise::NothingLost, &entity.name, &resting.id, why));
    }
    broken
}

/// What is stored in a temporary entity goes with it (IDLE-9).
fn found_gone(run: &Run, fate: &Fate) -> bool {
    run.end.entities.get(&fate.entity.name).is_none_or(|found| found.counters.is_none())
}

fn is_lost(run: &Run, fate: &Fate) -> bool {
    let acknowledged = fate.sends.iter().any(|(call, _)| call.answer == Answer::Done);
    let cancelled = fate.cancels.iter().any(|call| call.answer.may_be_done());
    let accounted = !fate.resting.is_empty() || fate.may_be_completed() || cancelled;
    acknowledged && !accounted && !may_have_vanished(run, fate)
}

/// TTL-17: dropped when it expired, without a trace.
fn may_have_vanished(run: &Run, fate: &Fate) -> bool {
    let over = |ttl_ms: u64, answered_ms: u64| {
        run.end.at_ms + run.tolerance_ms >= answered_ms.saturating_add(ttl_ms)
    };
    !fate.entity.dead_letters_expired
        && fate.dead_deliveries.is_empty()
        && fate.sends.iter().any(|(call, sent)| {
            // Sent before it was answered; with its schedule, its time begins later.
            let from_ms = call.asked_ms.max(sent.due_ms.unwrap_or(0));
            sent.ttl_ms.is_some_and(|ttl_ms| over(ttl_ms, from_ms))
        })
}
