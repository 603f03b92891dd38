//! A send that began after another was acknowledged has the higher number, whoever led meanwhile.

use std::collections::BTreeMap;

use super::{Promise, Violation};
use crate::{Answer, Call, Run, Sent, What};

pub fn check(run: &Run) -> Vec<Violation> {
    let mut broken = Vec::new();
    for (name, mut asked) in numbered(run) {
        if run.entities.get(name).is_none_or(|entity| entity.deduplicates) {
            continue;
        }
        let mut answered = asked.clone();
        asked.sort_by_key(|(call, ..)| call.asked_ms);
        answered.sort_by_key(|(call, ..)| call.answered_ms);
        let mut before = answered.into_iter().peekable();
        let mut highest: Option<(u64, &Sent)> = None;
        for (call, number, sent) in asked {
            while let Some((_, number, sent)) =
                before.next_if(|(earlier, ..)| earlier.answered_ms < call.asked_ms)
            {
                if highest.is_none_or(|(high, _)| number > high) {
                    highest = Some((number, sent));
                }
            }
            if let Some((high, earlier)) = highest.filter(|(high, _)| number <= *high) {
                let told = format!("number {number}, after {} had number {high}", earlier.id);
                let promise = Promise::NumbersInOrder;
                broken.push(Violation::new(promise, name, &sent.id, told));
            }
        }
    }
    broken
}

/// Every send that was acknowledged with a number, by entity.
fn numbered(run: &Run) -> BTreeMap<&str, Vec<(&Call, u64, &Sent)>> {
    let mut all: BTreeMap<&str, Vec<(&Call, u64, &Sent)>> = BTreeMap::new();
    for call in run.history.calls.iter().filter(|call| call.answer == Answer::Done) {
        let (What::Send(sent) | What::Commit { sent, .. }) = &call.what else { continue };
        // A scheduled message is numbered anew when it is due (SEQ-6).
        let plain = sent.iter().filter(|sent| sent.due_ms.is_none());
        let numbered = plain.filter_map(|sent| Some((call, sent.number?, sent)));
        all.entry(&call.entity).or_default().extend(numbered);
    }
    all
}
