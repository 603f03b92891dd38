//! Dead-lettering is one step, for a reason that is so (DLQ-7, DLQ-14, LOCK-21, TTL-17).

use super::expiry::EXPIRED;
use super::fate::{Fate, Fates};
use super::{Promise, Violation};
use crate::{How, Run};

/// DLQ-7.
pub const TOO_OFTEN: &str = "MaxDeliveryCountExceeded";

pub fn check(_: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    for fate in fates.all.values() {
        let mut tell = |told: String| {
            let promise = Promise::DeadLetteredRight;
            broken.push(Violation::new(promise, &fate.entity.name, fate.id, told));
        };
        let dead = fate.resting.iter().filter(|resting| resting.dead);
        // As failed deliveries at the end, and as a delivery shows it: one more. In the dead-letter
        // queue it stays what it was (DLQ-4).
        let resting = dead.clone().map(|it| (it.reason.as_deref(), it.count));
        let delivered =
            fate.dead_deliveries.iter().map(|it| (it.reason.as_deref(), it.count.max(1) - 1));
        for (reason, failed) in resting.chain(delivered) {
            if let Some(told) = wrong_reason(fate, reason, failed) {
                tell(told);
            }
        }
        let is_dead = dead.count() > 0;
        if is_dead && fate.resting.iter().any(|resting| !resting.dead) {
            tell("in the queue and in its dead-letter queue".to_owned());
        }
        let died_ms = fate.dead_deliveries.iter().map(|it| fate.taken_ms(it)).min();
        let back = fate.deliveries.iter().find(|it| {
            let number = fate.dead_deliveries.first().map(|dead| dead.number);
            Some(it.number) == number && died_ms.is_some_and(|died| fate.taken_ms(it) > died)
        });
        if back.is_some() && !fate.entity.sessions {
            tell("delivered from the queue after it was in the dead-letter queue".to_owned());
        }
    }
    broken
}

/// Why the reason cannot be so.
fn wrong_reason(fate: &Fate, reason: Option<&str>, failed: u32) -> Option<String> {
    match reason {
        Some(EXPIRED) => {
            let mortal = fate.sends.iter().any(|(_, sent)| sent.ttl_ms.is_some());
            (!mortal || !fate.entity.dead_letters_expired)
                .then(|| "dead-lettered as expired, and cannot be".to_owned())
        }
        Some(TOO_OFTEN) => (failed != fate.entity.deliveries_max).then(|| {
            let most = fate.entity.deliveries_max;
            format!("dead-lettered for too many deliveries after {failed}; {most} are allowed")
        }),
        given => {
            let asked = fate.settlements.iter().any(|it| {
                matches!(it.how, How::DeadLetter(reason) if Some(reason.as_str()) == given)
                    && it.call.answer.may_be_done()
            });
            (!asked).then(|| format!("dead-lettered for a reason nobody gave: {given:?}"))
        }
    }
}
