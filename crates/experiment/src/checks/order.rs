//! Messages of a session are completed in order.

use std::collections::BTreeMap;

use client::v1::message_event::Step;

use super::{Evidence, Finding};
use crate::lives::Life;

/// When a message was completed, by time and its place in the group's log.
type Completion<'a> = (u64, u64, &'a Life);

pub fn check<'a>(evidence: Evidence<'a>, entity: &'a str) -> Finding<'a> {
    let mut finding = Finding::default();
    // By entity and session.
    let mut sessions: BTreeMap<(&str, &str), Vec<Completion<'_>>> = BTreeMap::new();
    for life in evidence.lives.of(entity) {
        let Some(session) = life.session_id() else { continue };
        finding.about += 1;
        // Its receiver takes it out of the order on purpose.
        if life.events.iter().any(|event| matches!(event.step, Some(Step::Deferred(_)))) {
            continue;
        }
        let is_completion = |event: &&client::v1::MessageEvent| {
            event.entity == life.entity && matches!(event.step, Some(Step::Completed(_)))
        };
        if let Some(event) = life.events.iter().find(is_completion) {
            let completed = sessions.entry((&life.entity, session)).or_default();
            completed.push((event.at_ms, event.index, life));
        }
    }
    for ((_, session), mut completed) in sessions {
        // One entry of a log may settle several, and then they are settled together.
        completed.sort_by_key(|(at_ms, index, life)| (*at_ms, *index, life.sequence_number));
        let mut last: Option<&Life> = None;
        for (_, _, life) in completed {
            match last.filter(|last| last.sequence_number > life.sequence_number) {
                Some(later) => {
                    let (name, after) = (life.name(), later.name());
                    let told = format!(
                        "message {name} of session '{session}' was completed after {after}, which came later"
                    );
                    finding.fail(told, vec![life, later]);
                }
                None => last = Some(life),
            }
        }
    }
    finding
}
