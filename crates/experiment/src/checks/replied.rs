//! Every request has exactly one reply, in time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Evidence, Finding, seconds};
use crate::file::ReplyKey;
use crate::lives::{Life, Rest};

pub fn check<'a>(
    evidence: Evidence<'a>,
    requests: &'a str,
    replies: &'a str,
    by: ReplyKey,
    within: Duration,
) -> Finding<'a> {
    let key = |life: &'a Life| match by {
        ReplyKey::MessageId => life.message_id(),
        ReplyKey::CorrelationId => life.correlation_id(),
    };
    let mut asked: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
    let is_asked = |life: &&Life| life.accepted_ms().is_some_and(|at| at <= evidence.healed_ms);
    for life in evidence.lives.sent_to(requests).filter(is_asked) {
        asked.entry(key(life).unwrap_or_default()).or_default().push(life);
    }
    asked.remove("");
    let mut answered: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
    for life in evidence.lives.sent_to(replies) {
        let Some(id) = life.correlation_id().filter(|id| asked.contains_key(id)) else { continue };
        answered.entry(id).or_default().push(life);
    }
    // Of a topic it is its copies that are.
    let is_dead = |life: &&Life| matches!(life.rest(), Rest::DeadLettered { .. });
    let dead: BTreeSet<&str> =
        evidence.lives.of(requests).filter(is_dead).filter_map(key).collect();
    let mut finding = Finding { about: asked.len(), ..Finding::default() };
    for (id, asking) in asked {
        let Some(came_ms) = asking.iter().filter_map(|life| life.came_ms()).min() else { continue };
        let due_ms = came_ms.saturating_add(within.as_millis() as u64);
        let replies = answered.remove(id).unwrap_or_default();
        let first_ms = replies.iter().filter_map(|life| life.accepted_ms()).min();
        let told = match (replies.len(), first_ms) {
            (0, _) if dead.contains(id) => None,
            (0, _) if evidence.now_ms <= due_ms => {
                finding.is_open_until(due_ms);
                None
            }
            (0, _) => Some("has no reply".to_owned()),
            (1, Some(at_ms)) if at_ms > due_ms => {
                Some(format!("has its reply {} after it", seconds(at_ms - came_ms)))
            }
            (1, _) => None,
            (count, _) => Some(format!("has {count} replies")),
        };
        if let Some(told) = told {
            let lives = asking.into_iter().chain(replies).collect();
            finding.fail(format!("request '{id}' {told}"), lives);
        }
    }
    finding
}
