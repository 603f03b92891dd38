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

/// Slices of which more may become known.
#[derive(Debug, Default)]
pub struct Slices(Vec<OpenSlice>);

#[derive(Clone, Debug, Default)]
struct OpenSlice {
    known: Slice,
    /// Of sends answered in it: how many took how long, in ms.
    took_ms: BTreeMap<u64, u32>,
}

impl Slices {
    /// Adds what a run did. `begun_ms`: when the first slice began.
    pub fn add(&mut self, run: &Run, begun_ms: u64) {
        for call in &run.history.calls {
            let slice = self.at(call.answered_ms, begun_ms);
            match (&call.what, &call.answer) {
                (What::Send(sent) | What::Commit { sent, .. }, Answer::Done) => {
                    slice.known.sent += sent.len() as u64;
                    let took_ms = call.answered_ms - call.asked_ms;
                    *slice.took_ms.entry(took_ms).or_default() += 1;
                }
                (What::Settle(..), Answer::Done) => slice.known.settled += 1,
                (_, Answer::Done) => (),
                (_, Answer::Refused(_) | Answer::NotDone | Answer::Perhaps) => {
                    slice.known.failed += 1;
                }
            }
        }
        for delivered in &run.history.deliveries {
            let slice = &mut self.at(delivered.at_ms, begun_ms).known;
            slice.delivered += 1;
            // What was held beyond its deadline goes when its holder lets go (TTL-12).
            if delivered.dead
                && delivered.count <= 1
                && delivered.reason.as_deref() == Some(EXPIRED)
                && let Some(late_ms) =
                    delivered.expires_ms.map(|at| delivered.at_ms.saturating_sub(at))
            {
                slice.late_max_ms = slice.late_max_ms.max(Some(late_ms));
            }
        }
    }

    fn at(&mut self, at_ms: u64, begun_ms: u64) -> &mut OpenSlice {
        let slice = (at_ms.saturating_sub(begun_ms) / SLICE_MS) as usize;
        while self.0.len() <= slice {
            let at_ms = self.0.len() as u64 * SLICE_MS;
            self.0.push(OpenSlice {
                known: Slice { at_ms, ..Slice::default() },
                ..OpenSlice::default()
            });
        }
        &mut self.0[slice]
    }

    /// What is known in the end.
    pub fn finish(self) -> Vec<Slice> {
        let finished = self.0.into_iter().map(|OpenSlice { known, took_ms }| {
            let half = took_ms.values().map(|count| u64::from(*count)).sum::<u64>() / 2;
            let mut passed = 0;
            let median = took_ms.iter().find(|(_, count)| {
                passed += u64::from(**count);
                passed > half
            });
            Slice {
                send_p50_ms: median.map(|(took_ms, _)| *took_ms),
                send_max_ms: took_ms.last_key_value().map(|(took_ms, _)| *took_ms),
                ..known
            }
        });
        finished.collect()
    }
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
    use crate::history::{Call, History, Sent};

    #[test]
    fn slices_of_several_runs_add_up() {
        let sent = |asked_ms, answered_ms| Call {
            entity: "q".to_owned(),
            asked_ms,
            answered_ms,
            what: What::Send(vec![Sent::default()]),
            answer: Answer::Done,
        };
        let run =
            |calls| Run { history: History { calls, ..History::default() }, ..Run::default() };
        let mut slices = Slices::default();
        slices.add(&run(vec![sent(1_000, 1_010), sent(1_000, 1_030), sent(1_500, 1_501)]), 1_000);
        slices.add(&run(vec![sent(1_000, 1_020), sent(1_100, 1_104)]), 1_000);
        let told: Vec<_> = slices
            .finish()
            .iter()
            .map(|slice| (slice.at_ms, slice.sent, slice.send_p50_ms, slice.send_max_ms))
            .collect();
        let expected =
            [(0, 4, Some(20), Some(30)), (250, 0, None, None), (500, 1, Some(1), Some(1))];
        assert_eq!(told, expected);
    }

    #[test]
    fn the_longest_gap_counts_from_the_fault_and_to_the_end() {
        assert_eq!(longest_gap(&[10, 20, 90], 15, 100), 70);
        assert_eq!(longest_gap(&[10, 20], 15, 100), 80);
        assert_eq!(longest_gap(&[], 5, 10), 5);
    }
}
