//! A send that began after another was acknowledged has the higher number, whoever led meanwhile.

use super::{Promise, Violation};
use crate::{Answer, Call, Run, Sent, What};

pub fn check(run: &Run) -> Vec<Violation> {
    let mut broken = Vec::new();
    for entity in run.entities.0.values().filter(|entity| !entity.deduplicates) {
        let of_entity = |call: &&Call| call.entity == entity.name && call.answer == Answer::Done;
        let mut asked: Vec<(&Call, u64, &Sent)> = Vec::new();
        for call in run.history.calls.iter().filter(of_entity) {
            let (What::Send(sent) | What::Commit { sent, .. }) = &call.what else { continue };
            // A scheduled message is numbered anew when it is due (SEQ-6).
            let plain = sent.iter().filter(|sent| sent.due_ms.is_none());
            asked.extend(plain.filter_map(|sent| Some((call, sent.number?, sent))));
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
                broken.push(Violation::new(promise, &entity.name, &sent.id, told));
            }
        }
    }
    broken
}
