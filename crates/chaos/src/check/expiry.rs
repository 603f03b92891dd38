//! Nothing is delivered after its deadline (TTL-9), nothing expires before it (TIME-8), everything
//! does after it (TTL-22), and the deadline is the right one (TTL-1).

use super::fate::{Fate, Fates};
use super::{Promise, Violation};
use crate::{Answer, Delivered, Run};

/// DLQ-7.
pub const EXPIRED: &str = "TTLExpiredException";
/// TTL-22, and a busy machine: how late the end may find a message unexpired.
const LATENESS_MAX_MS: u64 = 5_000;

pub fn check(run: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    for fate in fates.all.values() {
        let mut tell = |promise, told: String| {
            broken.push(Violation::new(promise, &fate.entity.name, fate.id, told));
        };
        for delivered in &fate.deliveries {
            // A session's lock says nothing about when one of its messages was taken.
            let taken_ms = fate.taken_ms(delivered);
            let late = delivered.expires_ms.filter(|expires| taken_ms >= *expires);
            if let Some(expires_ms) = late.filter(|_| !fate.entity.sessions) {
                let late_ms = taken_ms - expires_ms;
                let told = format!("taken {late_ms} ms after its deadline");
                tell(Promise::NotDeliveredAfterExpiry, told);
            }
            if let Some(told) = wrong_instant(run, fate, delivered) {
                tell(Promise::RightInstants, told);
            }
        }
        for delivered in &fate.dead_deliveries {
            if delivered.reason.as_deref() != Some(EXPIRED) {
                continue;
            }
            let early = delivered.expires_ms.filter(|expires| fate.taken_ms(delivered) < *expires);
            if let Some(expires_ms) = early {
                let early_ms = expires_ms - fate.taken_ms(delivered);
                let told = format!("dead-lettered {early_ms} ms before its deadline");
                tell(Promise::NotExpiredEarly, told);
            }
        }
        for resting in &fate.resting {
            let Some(expires_ms) = resting.expires_ms else { continue };
            if resting.dead {
                let at_ms = run.end.at_ms + run.tolerance_ms;
                if resting.reason.as_deref() == Some(EXPIRED) && at_ms < expires_ms {
                    let told = format!("expired {} ms before its deadline", expires_ms - at_ms);
                    tell(Promise::NotExpiredEarly, told);
                }
            } else if run.end.at_ms > expires_ms + run.tolerance_ms + LATENESS_MAX_MS {
                let late_ms = run.end.at_ms - expires_ms;
                let told = format!("still there {late_ms} ms after its deadline");
                tell(Promise::ExpiredInTheEnd, told);
            }
        }
    }
    broken
}

/// Instants against when it was sent: exact where the broker reckons, with the tolerance where the
/// experiment's clock is compared.
fn wrong_instant(run: &Run, fate: &Fate, delivered: &Delivered) -> Option<String> {
    let [(call, sent)] = fate.sends[..] else { return None };
    let lives_ms = delivered.expires_ms.map(|at| at.saturating_sub(delivered.enqueued_ms));
    if sent.ttl_ms.is_some() && lives_ms != sent.ttl_ms {
        return Some(format!("lives {lives_ms:?} ms, and was given {:?} ms", sent.ttl_ms));
    }
    if run.entities.get(&call.entity) != Some(fate.entity) || sent.due_ms.is_some() {
        return None; // Its time began at another hop, or with its schedule.
    }
    let at_ms = delivered.enqueued_ms;
    if at_ms + run.tolerance_ms < call.asked_ms {
        let early_ms = call.asked_ms - at_ms;
        return Some(format!("enqueued {early_ms} ms before it was sent"));
    }
    if call.answer == Answer::Done && at_ms > call.answered_ms + run.tolerance_ms {
        let late_ms = at_ms - call.answered_ms;
        return Some(format!("enqueued {late_ms} ms after it was acknowledged"));
    }
    None
}
