//! Every message is completed, or dead-lettered with a reason, in time.

use std::time::Duration;

use super::{Evidence, Finding, seconds};
use crate::lives::Rest;

pub fn check<'a>(
    evidence: Evidence<'a>,
    entity: &'a str,
    within: Duration,
    receive_and_delete: bool,
) -> Finding<'a> {
    let mut finding = Finding::default();
    let within_ms = within.as_millis() as u64;
    for life in evidence.subjects(entity) {
        finding.about += 1;
        // Scheduled, and not come out.
        let Some(came_ms) = life.came_ms() else { continue };
        let due_ms = came_ms.saturating_add(within_ms);
        let late = |at_ms: u64| (at_ms > due_ms).then(|| seconds(at_ms.saturating_sub(came_ms)));
        let failed = match life.rest() {
            Rest::Completed { on_delivery: true, .. } if !receive_and_delete => Some(
                "was deleted as it was delivered; nobody said that it was processed".to_owned(),
            ),
            Rest::Completed { at_ms, .. } => {
                late(at_ms).map(|after| format!("was completed {after} after it came"))
            }
            Rest::DeadLettered { reason, .. } if reason.is_empty() => {
                Some("was dead-lettered without a reason".to_owned())
            }
            Rest::DeadLettered { at_ms, .. } => {
                late(at_ms).map(|after| format!("was dead-lettered {after} after it came"))
            }
            Rest::Gone { why } => Some(why.to_owned()),
            Rest::HandedOn | Rest::Cancelled | Rest::Scheduled => None,
            Rest::Waiting { .. } | Rest::Locked | Rest::Deferred if evidence.now_ms <= due_ms => {
                finding.is_open_until(due_ms);
                None
            }
            Rest::Waiting { .. } => Some("is still there to be received".to_owned()),
            Rest::Locked => Some("is still locked by a receiver".to_owned()),
            Rest::Deferred => Some("is still deferred".to_owned()),
        };
        if let Some(told) = failed {
            finding.fail(format!("message {} {told}", life.name()), vec![life]);
        }
    }
    finding
}
