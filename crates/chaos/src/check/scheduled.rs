//! SCHED-2, SCHED-5: nothing that is scheduled comes before its time, and what was cancelled never does.

use super::fate::Fates;
use super::{Promise, Violation};
use crate::{Answer, Run};

pub fn check(_: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    for fate in fates.all.values() {
        let mut tell = |told: String| {
            broken.push(Violation::new(Promise::ScheduledRight, &fate.entity.name, fate.id, told));
        };
        let due_ms = fate.sends.iter().filter_map(|(_, sent)| sent.due_ms).min();
        // Both instants are the broker's.
        let early = fate.deliveries.iter().filter_map(|it| due_ms?.checked_sub(it.enqueued_ms));
        if let Some(early_ms) = early.filter(|early_ms| *early_ms > 0).max() {
            tell(format!("available {early_ms} ms before its time"));
        }
        if fate.seen() && fate.cancels.iter().any(|call| call.answer == Answer::Done) {
            tell("cancelled, and there nevertheless".to_owned());
        }
    }
    broken
}
