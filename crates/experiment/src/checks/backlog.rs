//! The backlog is gone some time after the healing.

use std::time::Duration;

use super::{Evidence, Finding, counted, seconds};
use crate::lives::{Life, Rest};

pub fn check<'a>(evidence: Evidence<'a>, entity: &'a str, within: Duration) -> Finding<'a> {
    let lives: Vec<&Life> = evidence.lives.of(entity).collect();
    let mut finding = Finding { about: lives.len(), ..Finding::default() };
    let due_ms = evidence.healed_ms.saturating_add(within.as_millis() as u64);
    match empty_from(&lives, evidence.healed_ms) {
        Some(at_ms) if at_ms <= due_ms => (),
        None if evidence.now_ms <= due_ms => finding.is_open_until(due_ms),
        found => {
            let left: Vec<&Life> =
                lives.into_iter().filter(|life| is_there(&life.rest())).collect();
            let told = match found {
                Some(at_ms) => {
                    let after = seconds(at_ms.saturating_sub(evidence.healed_ms));
                    format!("it was gone {after} after the healing")
                }
                None => format!("still there: {}", counted(left.len(), "message")),
            };
            finding.fail(told, left);
        }
    }
    finding
}

/// Whether it is part of a backlog.
fn is_there(rest: &Rest) -> bool {
    matches!(rest, Rest::Waiting { .. } | Rest::Locked)
}

/// The first moment, not before this one, in which none was there.
fn empty_from(lives: &[&Life], from_ms: u64) -> Option<u64> {
    let mut changes: Vec<(u64, i64)> = Vec::new();
    for life in lives {
        let mut was_there = false;
        for (at_ms, rest) in life.rests() {
            let is_there = is_there(&rest);
            if is_there != was_there {
                changes.push((at_ms.max(from_ms), if is_there { 1 } else { -1 }));
                was_there = is_there;
            }
        }
    }
    changes.sort_unstable();
    let (mut count, mut at) = (0, from_ms);
    let mut changes = changes.into_iter().peekable();
    loop {
        while let Some((_, change)) = changes.next_if(|(when, _)| *when <= at) {
            count += change;
        }
        match changes.peek() {
            _ if count == 0 => return Some(at),
            Some((when, _)) => at = *when,
            None => return None,
        }
    }
}
