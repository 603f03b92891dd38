//! What a run looked like over time, read from its history: how much was done, how long it took, how
//! late deadlines were met, and who led.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::check::EXPIRED;
use crate::faults::Happened;
use crate::{Answer, Run, What};

/// Of time, one slice.
const SLICE_MS: u64 = 250;
/// A fault's effect on service is looked for until so long after its end.
const AFTERMATH_MS: u64 = 10_000;
/// Acknowledged sends of an entity that is in steady use.
const SENDS_MIN: usize = 50;

/// A quarter of a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Slice {
    /// Since the run began.
    pub at_ms: u64,
    /// Messages acknowledged, handed over, and settled.
    pub sent: u64,
    pub delivered: u64,
    pub settled: u64,
    /// Calls that were refused, certainly not done, or perhaps done.
    pub failed: u64,
    /// Of sends answered in it; absent where there was none.
    pub send_p50_ms: Option<u64>,
    pub send_max_ms: Option<u64>,
    /// From a deadline until the dead-letter queue handed the message over.
    pub late_max_ms: Option<u64>,
}

/// Who led each group at an instant, as far as any node said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leaders {
    pub at_ms: u64,
    pub of_group: BTreeMap<u32, u64>,
}

/// A run over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    pub slices: Vec<Slice>,
    pub leaders: Vec<Leaders>,
}

/// Cuts a run into slices.
pub fn slices(run: &Run, begun_ms: u64) -> Vec<Slice> {
    let last_call = run.history.calls.iter().map(|call| call.answered_ms).max();
    let last_delivery = run.history.deliveries.iter().map(|it| it.at_ms).max();
    let end_ms = last_call.max(last_delivery).unwrap_or(begun_ms).max(begun_ms);
    let count = ((end_ms - begun_ms) / SLICE_MS + 1) as usize;
    let mut slices: Vec<Slice> = (0..count as u64)
        .map(|slice| Slice { at_ms: slice * SLICE_MS, ..Slice::default() })
        .collect();
    let mut took: Vec<Vec<u64>> = vec![Vec::new(); count];
    let at = |ms: u64| (ms.saturating_sub(begun_ms) / SLICE_MS) as usize;
    for call in &run.history.calls {
        let slice = &mut slices[at(call.answered_ms)];
        match (&call.what, &call.answer) {
            (What::Send(sent) | What::Commit { sent, .. }, Answer::Done) => {
                slice.sent += sent.len() as u64;
                took[at(call.answered_ms)].push(call.answered_ms - call.asked_ms);
            }
            (What::Settle(..), Answer::Done) => slice.settled += 1,
            (_, Answer::Done) => (),
            (_, Answer::Refused(_) | Answer::NotDone | Answer::Perhaps) => slice.failed += 1,
        }
    }
    for delivered in &run.history.deliveries {
        let slice = &mut slices[at(delivered.at_ms)];
        slice.delivered += 1;
        // What was held beyond its deadline goes when its holder lets go (TTL-12).
        if delivered.dead
            && delivered.count <= 1
            && delivered.reason.as_deref() == Some(EXPIRED)
            && let Some(late_ms) = delivered.expires_ms.map(|at| delivered.at_ms.saturating_sub(at))
        {
            slice.late_max_ms = slice.late_max_ms.max(Some(late_ms));
        }
    }
    for (slice, took) in slices.iter_mut().zip(&mut took) {
        took.sort_unstable();
        slice.send_p50_ms = took.get(took.len() / 2).copied();
        slice.send_max_ms = took.last().copied();
    }
    slices
}

/// Says of each fault how long one entity or another acknowledged no send, from its beginning until
/// some time after its end, or until the next one begins.
pub fn outages(run: &Run, faults: &mut [Happened], end_ms: u64) {
    let mut answered: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for call in run.history.calls.iter().filter(|call| call.answer == Answer::Done) {
        if matches!(call.what, What::Send(_)) {
            answered.entry(&call.entity).or_default().push(call.answered_ms);
        }
    }
    // In those that are seldom sent to, silence says nothing.
    answered.retain(|_, instants| instants.len() >= SENDS_MIN);
    answered.values_mut().for_each(|instants| instants.sort_unstable());
    let next: Vec<u64> =
        faults.iter().skip(1).map(|fault| fault.begun_ms).chain([end_ms]).collect();
    for (fault, next_ms) in faults.iter_mut().zip(next) {
        let until_ms = (fault.ended_ms + AFTERMATH_MS).min(next_ms).min(end_ms);
        let until_ms = until_ms.max(fault.begun_ms);
        let gaps = answered.values().map(|it| longest_gap(it, fault.begun_ms, until_ms));
        fault.outage_ms = gaps.max().unwrap_or(0);
    }
}

/// The longest time between two of these instants, or one of them and an end of the span.
fn longest_gap(instants: &[u64], from_ms: u64, to_ms: u64) -> u64 {
    let inside = instants.iter().copied().filter(|at| (from_ms..=to_ms).contains(at));
    let mut last = from_ms;
    let mut longest = 0;
    for at in inside.chain([to_ms]) {
        longest = longest.max(at - last);
        last = at;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_counts_from_the_fault_and_to_the_end() {
        assert_eq!(longest_gap(&[10, 20, 90], 15, 100), 70);
        assert_eq!(longest_gap(&[10, 20], 15, 100), 80);
        assert_eq!(longest_gap(&[], 5, 10), 5);
    }
}
