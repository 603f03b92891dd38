//! LOCK-19, LOCK-21: the delivery count is the number of deliveries that failed, plus this one.
//!
//! Not every delivery is seen: one that is lost on its way still counts when its lock lapses. But that
//! takes as long as a lock lasts, so between two deliveries that were seen there is room for so many.

use super::fate::{Fate, Fates};
use super::{Promise, Violation};
use crate::{Delivered, How, Run};

pub fn check(_: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    for fate in fates.all.values() {
        let mut tell = |told: String| {
            broken.push(Violation::new(Promise::RightCount, &fate.entity.name, fate.id, told));
        };
        for deliveries in fate.taken().values() {
            let most = fate.entity.deliveries_max;
            if let Some(over) = deliveries.iter().find(|it| it.count > most) {
                tell(format!("delivery {}; {most} are allowed", over.count));
            }
            if let Some(first) = deliveries.first() {
                let unseen = lapses_max(fate, first.enqueued_ms, instant_ms(fate, first));
                within(1, 1 + unseen, first, &mut tell);
            }
            for pair in deliveries.windows(2) {
                let (least, most) = increase(fate, pair[0], pair[1]);
                let count = pair[0].count;
                within(count + least, count.saturating_add(most), pair[1], &mut tell);
            }
        }
    }
    broken
}

fn within(least: u32, most: u32, delivered: &Delivered, tell: &mut impl FnMut(String)) {
    let count = delivered.count;
    if !(least..=most).contains(&count) {
        tell(format!("delivery {} shows count {count}, not {least} to {most}", delivered.number));
    }
}

/// By how much the count grows from one delivery to the next: at least, and at most.
fn increase(fate: &Fate, from: &Delivered, to: &Delivered) -> (u32, u32) {
    let lapses = lapses_max(fate, instant_ms(fate, from), instant_ms(fate, to));
    let abandoned =
        fate.settled(&from.token).any(|it| *it.how == How::Abandon && it.call.answer.may_be_done());
    match (fate.entity.sessions, abandoned) {
        // SESS-12: a session that is given back takes its deliveries along uncounted.
        (true, _) => (0, 1 + lapses),
        (false, true) => (1, 1 + lapses),
        (false, false) => (1, lapses.max(1)),
    }
}

fn instant_ms(fate: &Fate, delivered: &Delivered) -> u64 {
    if fate.entity.sessions { delivered.at_ms } else { fate.taken_ms(delivered) }
}

fn lapses_max(fate: &Fate, from_ms: u64, to_ms: u64) -> u32 {
    // A session's lock may have begun long before a message of it was locked.
    let begun_before = u64::from(fate.entity.sessions);
    let lapses = to_ms.saturating_sub(from_ms) / fate.entity.lock_ms.max(1) + begun_before;
    u32::try_from(lapses).unwrap_or(u32::MAX - 1)
}
