//! IDLE-1, IDLE-15: an entity that is left alone is deleted, and none is while somebody uses it.

use std::collections::BTreeMap;

use super::{Promise, Violation};
use crate::{Answer, Run, What};

/// ERR-1.
const NOT_FOUND: &str = "MessagingEntityNotFound";

pub fn check(run: &Run) -> Vec<Violation> {
    let mut broken = Vec::new();
    let mut tell = |entity: &str, told: &str| {
        broken.push(Violation::new(Promise::TemporaryRight, entity, "", told));
    };
    // When each was there for certain, and when somebody began to delete it.
    let mut created: BTreeMap<&str, u64> = BTreeMap::new();
    let mut deleted: BTreeMap<&str, u64> = BTreeMap::new();
    for call in &run.history.calls {
        match (&call.what, &call.answer) {
            (What::Create, Answer::Done) => drop(created.insert(&call.entity, call.answered_ms)),
            (What::Delete, _) => drop(deleted.insert(&call.entity, call.asked_ms)),
            _ => (),
        }
    }
    for call in &run.history.calls {
        let name = call.entity.as_str();
        let there = created.get(name).is_some_and(|at| *at <= call.asked_ms);
        let going = deleted.get(name).is_some_and(|at| *at <= call.answered_ms);
        if there && !going && call.answer == Answer::Refused(NOT_FOUND.to_owned()) {
            tell(name, "gone while it was used");
        }
    }
    for (name, entity) in &run.entities.0 {
        let Some(found) = run.end.entities.get(name) else { continue };
        let (made, deleted) = (created.contains_key(&name[..]), deleted.contains_key(&name[..]));
        match (&found.counters, entity.vanishes) {
            (Some(_), true) => tell(name, "left alone, and still there"),
            (None, false) if made && !deleted => {
                tell(name, "gone, though nobody deleted it and it was in use");
            }
            (Some(_) | None, _) => (),
        }
    }
    broken
}
