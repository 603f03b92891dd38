//! Nothing is dead-lettered.

use super::{Evidence, Finding};
use crate::lives::Rest;

pub fn check<'a>(evidence: Evidence<'a>, entity: &'a str) -> Finding<'a> {
    let mut finding = Finding::default();
    for life in evidence.lives.of(entity) {
        finding.about += 1;
        if let Rest::DeadLettered { reason, .. } = life.rest() {
            let told = format!("message {} was dead-lettered: {reason}", life.name());
            finding.fail(told, vec![life]);
        }
    }
    finding
}
