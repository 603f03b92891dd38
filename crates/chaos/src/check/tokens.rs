//! LOCK-6, LOCK-14: a token is good for one settlement, until its lock ends and not a moment longer; and so
//! long it is good, whatever was tried with it in vain (TX-8) and whichever node fell (LOCK-23).

use std::collections::BTreeMap;

use super::fate::{Fate, Fates, Settlement};
use super::{Promise, Violation};
use crate::{Answer, Call, Held, Run, What};

/// LOCK-14.
const LOCK_LOST: &str = "MessageLockLost";

pub fn check(run: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    for fate in fates.all.values() {
        let mut tell = |told: String| {
            let promise = Promise::StaleTokenRefused;
            broken.push(Violation::new(promise, &fate.entity.name, fate.id, told));
        };
        let mut settled: BTreeMap<&str, u32> = BTreeMap::new();
        for it in fate.settlements.iter().filter(|it| it.call.answer == Answer::Done) {
            *settled.entry(&it.held.token).or_default() += 1;
        }
        for (token, times) in settled.iter().filter(|(_, times)| **times > 1) {
            tell(format!("{times} settlements with token {token} succeeded"));
        }
        let settlements = fate.settlements.iter().map(|it| (it.call, it.held));
        let renewals = fate.renewals.iter().map(|(call, held, _)| (*call, *held));
        for (call, held) in settlements.chain(renewals) {
            if call.answer == Answer::Done
                && let Some(why) = stale(run, fate, call, held)
            {
                tell(why);
            }
        }
        for settlement in &fate.settlements {
            if let Some(told) = wrongly_refused(run, fate, settlement) {
                let promise = Promise::LiveTokenGood;
                broken.push(Violation::new(promise, &fate.entity.name, fate.id, told));
            }
        }
    }
    broken
}

/// Why a token was certainly good when it was refused: its lock lasted, nothing that may have been done
/// had ended it, and no transaction that may have been open had it.
fn wrongly_refused(run: &Run, fate: &Fate, refused: &Settlement) -> Option<String> {
    let Settlement { call, held, .. } = refused;
    let is_single = matches!(call.what, What::Settle(..));
    if !is_single || call.answer != Answer::Refused(LOCK_LOST.to_owned()) {
        return None;
    }
    // Under a session its lock is the session's: see `sessions`.
    let own = fate.deliveries.iter().chain(&fate.dead_deliveries);
    let own = own.filter(|it| it.session.is_none()).find(|it| it.token == held.token)?;
    let renewed = fate
        .renewals
        .iter()
        .filter(|(renewal, other, _)| other.token == held.token && renewal.answer == Answer::Done);
    let until_ms = renewed.map(|(_, _, until_ms)| *until_ms).fold(own.locked_until_ms, u64::max);
    let until_ms = until_ms.min(run.given_back_ms(fate.entity, fate.taken_ms(own)));
    if call.answered_ms + run.tolerance_ms >= until_ms {
        return None;
    }
    let mut others = fate.settled(&held.token).filter(|it| !std::ptr::eq(it.call, *call));
    let taken = others.any(|it| {
        (it.call.answer.may_be_done() && it.call.asked_ms <= call.answered_ms)
            || it.may_wait(call.asked_ms..=call.answered_ms, fate)
    });
    (!taken).then(|| {
        let left_ms = until_ms - call.answered_ms;
        format!("its token was refused {left_ms} ms before the end of its lock")
    })
}

/// Why a token was certainly not good any more when it was used.
fn stale(run: &Run, fate: &Fate, call: &Call, held: &Held) -> Option<String> {
    let all = || fate.deliveries.iter().chain(&fate.dead_deliveries);
    let own = all().find(|it| it.token == held.token)?;
    // A lock that was taken later, and told before this was asked, ends the earlier ones.
    let later = all().find(|it| {
        it.dead == own.dead
            && it.number == own.number
            && it.token != own.token
            && it.at_ms < call.asked_ms
            && fate.taken_ms(it) > fate.taken_ms(own)
    });
    if later.is_some() {
        return Some("settled with a token that a later delivery had replaced".to_owned());
    }
    if fate.entity.sessions && !held.dead {
        return None; // It ends with the session's lock: see `sessions`.
    }
    let renewed = fate
        .renewals
        .iter()
        .filter(|(renewal, other, _)| other.token == held.token && renewal.answer.may_be_done());
    // A renewal of unknown outcome may have been done when it was given up.
    let until_ms = renewed
        .map(|(renewal, _, until_ms)| (*until_ms).max(renewal.answered_ms + fate.entity.lock_ms));
    let until_ms = until_ms.fold(own.locked_until_ms, u64::max);
    (call.asked_ms > until_ms + run.tolerance_ms).then(|| {
        let late_ms = call.asked_ms - until_ms;
        format!("its token was good {late_ms} ms after its lock had ended")
    })
}
