//! SESS-9, SESS-10, SESS-13, SESS-14: a session has one holder at a time, its messages come in order, a hold
//! that is over settles nothing, and one that is given back is somebody else's at once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Promise, Violation};
use crate::{Answer, Call, Entity, Run, What};

/// Of sessions that are given back in one way, at most so many in a hundred may wait for the end of their
/// locks: those whose leader was lost just then.
const LATE_MAX_PERCENT: usize = 50;
/// Fewer say nothing.
const GIVEN_BACK_MIN: usize = 10;
/// To a lock's end, when somebody asks for a session already.
const LEFT_MIN_MS: u64 = 1_000;

/// A session held, as far as its holder knows.
pub struct Hold<'a> {
    token: &'a str,
    /// On the broker's clock.
    pub from_ms: u64,
    pub until_ms: u64,
    /// Given back; absent: its lock ran out.
    pub released_ms: Option<u64>,
    /// Its holder was told that it is lost: nobody knows since when.
    pub lost: bool,
    /// What ended it.
    way: &'a str,
    /// When its holder asked for it.
    asked_ms: u64,
    /// When its holder knew of it.
    told_ms: u64,
}

pub fn check(run: &Run) -> Vec<Violation> {
    let mut broken = Vec::new();
    for entity in run.entities.0.values().filter(|entity| entity.sessions) {
        let holds = holds(run, &entity.name, entity.lock_ms);
        for (session, holds) in &holds {
            one_holder(run, entity, session, holds, &mut broken);
        }
        stale_holds(run, &entity.name, &holds, &mut broken);
        released(run, &entity.name, &holds, &mut broken);
        in_order(run, &entity.name, &mut broken);
    }
    broken
}

fn holds<'a>(run: &'a Run, entity: &str, lock_ms: u64) -> BTreeMap<&'a str, Vec<Hold<'a>>> {
    let mut holds: BTreeMap<&str, Vec<Hold>> = BTreeMap::new();
    let done = |call: &&Call| call.entity == entity && call.answer == Answer::Done;
    for call in run.history.calls.iter().filter(done) {
        if let What::Accept { session, hold, until_ms } = &call.what {
            let (from_ms, until_ms) = (until_ms.saturating_sub(lock_ms), *until_ms);
            let (released_ms, lost, way) = (None, false, "");
            let (asked_ms, told_ms) = (call.asked_ms, call.answered_ms);
            let token = hold.as_str();
            let hold = Hold { token, from_ms, until_ms, released_ms, lost, way, asked_ms, told_ms };
            holds.entry(session).or_default().push(hold);
        }
    }
    for call in run.history.calls.iter().filter(|call| call.entity == entity) {
        let find = |holds: &mut BTreeMap<&'a str, Vec<Hold<'a>>>, session: &str, token: &str| {
            let of_session = holds.get_mut(session)?;
            of_session.iter().position(|hold| hold.token == token)
        };
        match &call.what {
            What::RenewSession { session, hold, until_ms } if call.answer == Answer::Done => {
                if let Some(at) = find(&mut holds, session, hold)
                    && let Some(hold) =
                        holds.get_mut(session.as_str()).and_then(|of| of.get_mut(at))
                {
                    hold.until_ms = hold.until_ms.max(*until_ms);
                }
            }
            What::EndHold { session, hold, orderly, way } => {
                if let Some(at) = find(&mut holds, session, hold)
                    && let Some(hold) =
                        holds.get_mut(session.as_str()).and_then(|of| of.get_mut(at))
                {
                    hold.released_ms = Some(call.asked_ms);
                    (hold.lost, hold.way) = (hold.lost || !orderly, way);
                }
            }
            _ => (),
        }
    }
    holds
}

fn one_holder(
    run: &Run,
    entity: &Entity,
    session: &str,
    holds: &[Hold],
    broken: &mut Vec<Violation>,
) {
    let mut holds: Vec<&Hold> = holds.iter().collect();
    holds.sort_by_key(|hold| hold.from_ms);
    for pair in holds.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let released_ms = first.released_ms.map(|at| at.saturating_sub(run.tolerance_ms));
        let given_back_ms = run.given_back_ms(entity, first.from_ms);
        let until_ms = first.until_ms.min(released_ms.unwrap_or(u64::MAX)).min(given_back_ms);
        if !first.lost && second.from_ms < until_ms {
            let both_ms = until_ms - second.from_ms;
            let told = format!("session {session} had two holders for {both_ms} ms");
            broken.push(Violation::new(Promise::OneHolder, &entity.name, "", told));
        }
    }
}

/// All holds of an entity's sessions, by their tokens.
pub fn by_token<'a>(run: &'a Run, entity: &Entity) -> BTreeMap<&'a str, Hold<'a>> {
    let all = holds(run, &entity.name, entity.lock_ms).into_values().flatten();
    all.map(|hold| (hold.token, hold)).collect()
}

/// What was given back with messages left in it goes to who asks for a session, not only when its lock
/// would have ended.
fn released(
    run: &Run,
    entity: &str,
    holds: &BTreeMap<&str, Vec<Hold>>,
    broken: &mut Vec<Violation>,
) {
    let settled: BTreeSet<&str> = run
        .history
        .calls
        .iter()
        .filter(|call| call.entity == entity && call.answer.may_be_done())
        .flat_map(|call| match &call.what {
            What::Settle(held, _) => vec![held.token.as_str()],
            What::Commit { settled, .. } => {
                settled.iter().map(|(held, _)| held.token.as_str()).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    let of_entity = run.history.deliveries.iter().filter(|it| it.entity == entity && !it.dead);
    let left: BTreeSet<&str> = of_entity
        .filter(|it| !settled.contains(it.token.as_str()))
        .filter_map(|it| it.hold.as_deref())
        .collect();
    let mut by_way: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for holds in holds.values() {
        let mut holds: Vec<&Hold> = holds.iter().collect();
        holds.sort_by_key(|hold| hold.from_ms);
        for pair in holds.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            let given_back =
                first.released_ms.filter(|_| !first.lost && left.contains(first.token));
            let until_ms = first.until_ms.saturating_sub(LEFT_MIN_MS + run.tolerance_ms);
            if given_back.is_some_and(|at_ms| at_ms < until_ms) && second.asked_ms < until_ms {
                let (all, late) = by_way.entry(first.way).or_default();
                *all += 1;
                *late += usize::from(second.from_ms >= first.until_ms);
            }
        }
    }
    for (way, (all, late)) in by_way {
        if all >= GIVEN_BACK_MIN && late * 100 > all * LATE_MAX_PERCENT {
            let told = format!("{late} of {all} sessions given back by a {way} stayed locked");
            broken.push(Violation::new(Promise::SessionReleased, entity, "", told));
        }
    }
}

/// Under a hold nothing is settled once somebody else was told that the session is his.
fn stale_holds(
    run: &Run,
    entity: &str,
    holds: &BTreeMap<&str, Vec<Hold>>,
    broken: &mut Vec<Violation>,
) {
    let of_entity = |it: &&crate::Delivered| it.entity == entity && !it.dead;
    let held: BTreeMap<&str, (&str, &str)> = run
        .history
        .deliveries
        .iter()
        .filter(of_entity)
        .filter_map(|it| Some((it.token.as_str(), (it.session.as_deref()?, it.hold.as_deref()?))))
        .collect();
    for call in run.history.calls.iter().filter(|call| call.entity == entity) {
        let What::Settle(settled, _) = &call.what else { continue };
        let Some((session, token)) = held.get(settled.token.as_str()) else { continue };
        let Some(of_session) = holds.get(session) else { continue };
        let Some(own) = of_session.iter().find(|hold| hold.token == *token) else { continue };
        let later = of_session
            .iter()
            .any(|hold| hold.from_ms > own.from_ms && hold.told_ms < call.asked_ms);
        if later && call.answer == Answer::Done {
            let told = format!("settled under a hold of session {session} that was over");
            let promise = Promise::StaleTokenRefused;
            broken.push(Violation::new(promise, entity, &settled.id, told));
        }
    }
}

/// Each session's messages are handed over for the first time in the order of their numbers.
fn in_order(run: &Run, entity: &str, broken: &mut Vec<Violation>) {
    let mut highest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    for it in run.history.deliveries.iter().filter(|it| it.entity == entity && !it.dead) {
        let Some(session) = &it.session else { continue };
        if !seen.insert(it.number) {
            continue;
        }
        let high = highest.entry(session).or_default();
        if it.number < *high {
            let told = format!("session {session}: number {} came after {high}", it.number);
            broken.push(Violation::new(Promise::SessionInOrder, entity, &it.id, told));
        }
        *high = it.number.max(*high);
    }
}
