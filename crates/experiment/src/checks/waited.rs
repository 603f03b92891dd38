//! No message waits too long to be received.

use std::time::Duration;

use super::{Evidence, Finding, seconds};

pub fn check<'a>(evidence: Evidence<'a>, entity: &'a str, within: Duration) -> Finding<'a> {
    let mut finding = Finding::default();
    let within_ms = within.as_millis() as u64;
    for life in evidence.subjects(entity) {
        finding.about += 1;
        let waits = life.waits();
        let lasted =
            |(from, to): &(u64, Option<u64>)| to.unwrap_or(evidence.now_ms).saturating_sub(*from);
        let longest_ms = waits.iter().map(lasted).max().unwrap_or(0);
        if longest_ms > within_ms {
            let still = match waits.last() {
                Some((_, None)) => ", and waits still",
                _ => "",
            };
            let waited = seconds(longest_ms);
            finding.fail(format!("message {} waited {waited}{still}", life.name()), vec![life]);
        } else if let Some((from, None)) = waits.last() {
            finding.is_open_until(from.saturating_add(within_ms));
        }
    }
    finding
}
