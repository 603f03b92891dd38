//! SESS-9, SESS-10, SESS-13: a session has one holder at a time, its messages come in order, and a hold
//! that is over settles nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Promise, Violation};
use crate::{Answer, Call, Run, What};

/// A session held, as far as its holder knows.
struct Hold<'a> {
    token: &'a str,
    /// On the broker's clock.
    from_ms: u64,
    until_ms: u64,
    /// Given back; absent: its lock ran out.
    released_ms: Option<u64>,
    /// Its holder was told that it is lost: nobody knows since when.
    lost: bool,
    /// When its holder knew of it.
    told_ms: u64,
}

pub fn check(run: &Run) -> Vec<Violation> {
    let mut broken = Vec::new();
    for entity in run.entities.0.values().filter(|entity| entity.sessions) {
        let holds = holds(run, &entity.name, entity.lock_ms);
        for (session, holds) in &holds {
            one_holder(run, &entity.name, session, holds, &mut broken);
        }
        stale_holds(run, &entity.name, &holds, &mut broken);
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
            let (released_ms, lost, told_ms) = (None, false, call.answered_ms);
            let hold = Hold { token: hold, from_ms, until_ms, released_ms, lost, told_ms };
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
            What::EndHold { session, hold, orderly } => {
                if let Some(at) = find(&mut holds, session, hold)
                    && let Some(hold) =
                        holds.get_mut(session.as_str()).and_then(|of| of.get_mut(at))
                {
                    hold.released_ms = Some(call.asked_ms);
                    hold.lost |= !orderly;
                }
            }
            _ => (),
        }
    }
    holds
}

fn one_holder(run: &Run, entity: &str, session: &str, holds: &[Hold], broken: &mut Vec<Violation>) {
    let mut holds: Vec<&Hold> = holds.iter().collect();
    holds.sort_by_key(|hold| hold.from_ms);
    for pair in holds.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let released_ms = first.released_ms.map(|at| at.saturating_sub(run.tolerance_ms));
        let until_ms = first.until_ms.min(released_ms.unwrap_or(u64::MAX));
        if !first.lost && second.from_ms < until_ms {
            let both_ms = until_ms - second.from_ms;
            let told = format!("session {session} had two holders for {both_ms} ms");
            broken.push(Violation::new(Promise::OneHolder, entity, "", told));
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
