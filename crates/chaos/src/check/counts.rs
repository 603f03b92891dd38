//! LOCK-19, LOCK-21, DEFER-7: the delivery count is the number of deliveries that failed, plus this one;
//! and from a dead-letter queue it is what it was on arrival there, whatever becomes of deliveries (DLQ-4).
//!
//! Not every delivery is seen: one that is lost on its way still counts when its lock lapses. But that
//! takes as long as a lock lasts, so between two deliveries that were seen there is room for so many.

use std::collections::BTreeMap;

use super::fate::{Fate, Fates, Settlement};
use super::{Promise, Violation, sessions};
use crate::{Answer, Delivered, How, Run};

type Holds<'a> = BTreeMap<&'a str, sessions::Hold<'a>>;

/// From the end of a lock until nobody can see the message locked any more; and how long a look at what is
/// left may take.
const SETTLES_MS: u64 = 30_000;

pub fn check(run: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    let with_sessions = run.entities.0.values().filter(|entity| entity.sessions);
    let holds: BTreeMap<&str, Holds> =
        with_sessions.map(|it| (it.name.as_str(), sessions::by_token(run, it))).collect();
    for fate in fates.all.values() {
        let holds = holds.get(fate.entity.name.as_str());
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
                let (least, most) = increase(run, fate, holds, pair[0], pair[1]);
                let count = pair[0].count;
                within(count + least, count.saturating_add(most), pair[1], &mut tell);
            }
            left(run, fate, deliveries, &mut tell);
        }
        dead(fate, &mut tell);
    }
    broken
}

fn within(least: u32, most: u32, delivered: &Delivered, tell: &mut impl FnMut(String)) {
    let count = delivered.count;
    if !(least..=most).contains(&count) {
        tell(format!("delivery {} shows count {count}, not {least} to {most}", delivered.number));
    }
}

/// What is still in the queue at the end has failed as often as its last delivery says.
fn left(run: &Run, fate: &Fate, deliveries: &[&Delivered], tell: &mut impl FnMut(String)) {
    let end_ms = run.end.at_ms;
    let before = deliveries.iter().rfind(|it| it.at_ms <= end_ms);
    let Some(last) = before.filter(|_| !fate.entity.sessions) else { return };
    for it in fate.resting.iter().filter(|it| !it.dead && it.number == last.number) {
        let over = fate.taken_ms(last) + fate.entity.lock_ms + SETTLES_MS < end_ms
            && fate.renewals.iter().all(|(_, held, _)| held.token != last.token);
        let released = fate.settled(&last.token).any(|it| *it.how == How::Release);
        let given_back = run.given_back_ms(fate.entity, fate.taken_ms(last)) < end_ms;
        let uncounted = released || given_back || is_deferred_uncounted(run, fate, last);
        let least = if over && !uncounted { last.count } else { last.count - 1 };
        let most = last.count + lapses_max(fate, fate.taken_ms(last), end_ms);
        let most = most.min(fate.entity.deliveries_max - 1);
        if !(least..=most).contains(&it.count) {
            let found = it.count;
            tell(format!("{found} failed deliveries at the end, not {least} to {most}"));
        }
    }
}

/// Whether a delivery may have ended in a deferral that did not count.
fn is_deferred_uncounted(run: &Run, fate: &Fate, delivered: &Delivered) -> bool {
    let is_deferral = |it: &Settlement| *it.how == How::Defer && it.call.answer.may_be_done();
    run.of_two_releases && fate.settled(&delivered.token).any(|it| is_deferral(&it))
}

/// DLQ-4; dead-lettering by the application adds none (DEFER-7).
fn dead(fate: &Fate, tell: &mut impl FnMut(String)) {
    let resting = fate.resting.iter().filter(|it| it.dead).map(|it| (it.number, it.count + 1));
    let delivered = fate.dead_deliveries.iter().map(|it| (it.number, it.count));
    let mut all = delivered.chain(resting);
    let Some((number, count)) = all.next() else { return };
    if let Some((_, other)) = all.find(|(of, other)| *of == number && *other != count) {
        tell(format!("in the dead-letter queue it shows count {other}, and {count} before"));
    }
    let dead_lettered = fate.settlements.iter().filter(|it| {
        let is_asked = matches!(it.how, How::DeadLetter(_)) && it.call.answer == Answer::Done;
        is_asked && it.held.number == number && !it.held.dead
    });
    for it in dead_lettered {
        let own = fate.deliveries.iter().find(|own| own.token == it.held.token);
        if let Some(own) = own.filter(|own| own.count != count) {
            let had = own.count;
            tell(format!("dead-lettered with count {had}, and shows {count} there"));
        }
    }
}

/// How the hold ended that a delivery was under.
enum HoldEnd {
    /// SESS-12: its deliveries go back uncounted.
    GivenBack,
    Lapsed,
}

/// `None`: it is the same hold still, or nobody knows.
fn ended(holds: &Holds, from: &Delivered, to: &Delivered) -> Option<HoldEnd> {
    let (first, second) = (holds.get(from.hold.as_deref()?)?, holds.get(to.hold.as_deref()?)?);
    match first.released_ms {
        _ if from.hold == to.hold || first.lost => None,
        // Else it was perhaps not heard of, and the lock ran out.
        Some(_) => (second.from_ms < first.until_ms).then_some(HoldEnd::GivenBack),
        None => Some(HoldEnd::Lapsed),
    }
}

/// By how much the count grows from one delivery to the next: at least, and at most.
fn increase(
    run: &Run,
    fate: &Fate,
    holds: Option<&Holds>,
    from: &Delivered,
    to: &Delivered,
) -> (u32, u32) {
    let (least, most) = increase_by_clients(fate, holds, from, to);
    // LOCK-28: nothing is counted.
    let given_back_ms = run.given_back_ms(fate.entity, instant_ms(fate, from));
    match given_back_ms <= instant_ms(fate, to) || is_deferred_uncounted(run, fate, from) {
        true => (0, most.max(1)),
        false => (least, most),
    }
}

/// The same where no node's end has a part in it.
fn increase_by_clients(
    fate: &Fate,
    holds: Option<&Holds>,
    from: &Delivered,
    to: &Delivered,
) -> (u32, u32) {
    let lapses = lapses_max(fate, instant_ms(fate, from), instant_ms(fate, to));
    let may_be = || fate.settled(&from.token).filter(|it| it.call.answer.may_be_done());
    let failed = may_be().any(|it| it.counts());
    let released = may_be().find(|it| *it.how == How::Release).map(|it| &it.call.answer);
    match (fate.entity.sessions, failed, released) {
        (true, false, None) => match holds.and_then(|holds| ended(holds, from, to)) {
            Some(HoldEnd::GivenBack) => (0, 0),
            Some(HoldEnd::Lapsed) => (1, 1 + lapses),
            None => (0, 1 + lapses),
        },
        (true, ..) => (0, 1 + lapses),
        (false, true, _) => (1, 1 + lapses),
        (false, false, Some(Answer::Done)) => (0, lapses),
        (false, false, Some(_)) => (0, lapses.max(1)),
        (false, false, None) => (1, lapses.max(1)),
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
