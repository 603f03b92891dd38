//! No message is completed more than once, nor two of the same id.

use std::collections::BTreeMap;

use client::v1::message_event::Step;

use super::{Evidence, Finding};
use crate::lives::Life;

pub fn check<'a>(evidence: Evidence<'a>, entity: &'a str) -> Finding<'a> {
    let mut finding = Finding::default();
    let mut by_id: BTreeMap<(&str, &str), Vec<&Life>> = BTreeMap::new();
    for life in evidence.lives.of(entity) {
        finding.about += 1;
        let Some(id) = life.message_id() else { continue };
        by_id.entry((&life.entity, id)).or_default().push(life);
    }
    for ((_, id), lives) in by_id {
        let completed = |life: &Life| {
            life.events.iter().filter(|it| matches!(it.step, Some(Step::Completed(_)))).count()
        };
        let times: usize = lives.iter().map(|life| completed(life)).sum();
        if times > 1 {
            finding.fail(format!("message '{id}' was completed {times} times"), lives);
        }
    }
    finding
}
