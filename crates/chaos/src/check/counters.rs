//! COUNT-5: counters obey their law, and agree with what clients were told and with what is there.

use std::ops::RangeInclusive;

use super::fate::{Fate, Fates};
use super::{Promise, Violation};
use crate::run::Counters;
use crate::{Answer, Entity, Run};

pub fn check(run: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    for (name, found) in &run.end.entities {
        let (Some(entity), Some(counters)) = (run.entities.get(name), &found.counters) else {
            continue;
        };
        let mut tell = |told: String| {
            broken.push(Violation::new(Promise::CountersRight, name, "", told));
        };
        if let Some(told) = unlawful(counters) {
            tell(told);
        }
        let resting = |dead| found.resting.iter().filter(|it| it.dead == dead).count() as u64;
        let (main, dead) = (resting(false), resting(true));
        if (counters.active + counters.scheduled + counters.deferred, counters.dead_lettered)
            != (main, dead)
        {
            tell(format!(
                "{main} messages and {dead} dead ones are there, and it counts {counters:?}"
            ));
        }
        if entity.is_receivable() {
            for (what, counted, allowed) in expected(entity, counters, fates) {
                if !allowed.contains(&counted) {
                    let (least, most) = allowed.into_inner();
                    tell(format!("{what}: {counted}, by the history {least} to {most}"));
                }
            }
        }
    }
    broken
}

fn unlawful(counters: &Counters) -> Option<String> {
    let Counters { accepted, active, scheduled, deferred, dead_lettered, transfer, .. } = counters;
    let Counters { completed, cancelled, expired_dropped, deleted, forwarded, .. } = counters;
    let here = active + scheduled + deferred + dead_lettered + transfer;
    let gone = completed + cancelled + expired_dropped + deleted + forwarded;
    (*accepted != here + gone)
        .then(|| format!("{accepted} accepted, {here} here and {gone} gone do not add up"))
}

fn expected(
    entity: &Entity,
    counters: &Counters,
    fates: &Fates,
) -> [(&'static str, u64, RangeInclusive<u64>); 2] {
    let (mut accepted, mut completed) = ((0, 0), (0, 0));
    for fate in fates.of_entity(&entity.name) {
        let (least, most) = accepted_of(fate);
        accepted = (accepted.0 + least, accepted.1 + most);
        let finals = || fate.settlements.iter().filter(|it| it.is_final());
        // Seen or acknowledged, it was accepted; settled once at most.
        completed.0 += u64::from(finals().any(|it| it.call.answer == Answer::Done));
        completed.1 += u64::from(fate.may_be_completed());
    }
    [
        ("accepted", counters.accepted, accepted.0..=accepted.1),
        ("completed", counters.completed, completed.0..=completed.1),
    ]
}

/// How many of its sends were accepted, at least and at most.
fn accepted_of(fate: &Fate) -> (u64, u64) {
    let done = fate.sends.iter().filter(|(call, _)| call.answer == Answer::Done).count() as u64;
    let most = fate.sends.iter().filter(|(call, _)| call.answer.may_be_done()).count() as u64;
    let least = done.max(u64::from(fate.seen()));
    if fate.entity.deduplicates { (least.min(1), most.min(1)) } else { (least, most) }
}
