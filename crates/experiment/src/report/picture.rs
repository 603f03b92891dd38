//! What a page draws of each entity: counts over time, and messages as lines.

use std::collections::{BTreeMap, BTreeSet};

use client::v1::message_event::Step;
use serde::Serialize;

use crate::checks::Finding;
use crate::file::Invariant;
use crate::lives::{Life, Lives, Rest};

const SLICE_MS: u64 = 250;
/// Messages of one entity that are drawn: those that broke something first, then the earliest.
const LINES_MAX: usize = 300;

/// One queue, subscription or topic over time.
#[derive(Clone, Debug, Serialize)]
pub struct EntityPicture {
    pub entity: String,
    pub messages: usize,
    /// What became of them, by its name.
    pub ends: BTreeMap<String, usize>,
    pub slices: Vec<Slice>,
    pub lines: Vec<MessageLine>,
}

/// What happened in a quarter of a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Slice {
    pub at_ms: u64,
    pub accepted: u32,
    pub delivered: u32,
    pub completed: u32,
    /// Abandoned, or its lock lapsed.
    pub failed: u32,
    pub dead_lettered: u32,
}

/// A message as a line.
#[derive(Clone, Debug, Serialize)]
pub struct MessageLine {
    pub name: String,
    /// Whether it broke something.
    pub is_broken: bool,
    pub spans: Vec<Span>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    pub from_ms: u64,
    /// None: it goes on, or it is an end.
    pub to_ms: Option<u64>,
    /// `waiting`, `locked`, `deferred`, `scheduled`, or an end.
    pub kind: &'static str,
}

/// Of every entity that an invariant is about.
pub fn pictures(
    findings: &[(&Invariant, Finding<'_>)],
    lives: &Lives,
    begun_ms: u64,
) -> Vec<EntityPicture> {
    let named: BTreeSet<&str> = findings.iter().flat_map(|(of, _)| of.entities()).collect();
    let broken: BTreeSet<(&str, u64)> = findings
        .iter()
        .flat_map(|(_, finding)| &finding.failures)
        .flat_map(|failure| &failure.lives)
        .map(|life| (life.entity.as_str(), life.sequence_number))
        .collect();
    let mut by_entity: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
    for name in named {
        for life in lives.of(name) {
            by_entity.entry(&life.entity).or_default().push(life);
        }
    }
    let picture = |(entity, lives): (&str, Vec<&Life>)| picture(entity, lives, &broken, begun_ms);
    by_entity.into_iter().map(picture).collect()
}

fn picture(
    entity: &str,
    mut lives: Vec<&Life>,
    broken: &BTreeSet<(&str, u64)>,
    begun_ms: u64,
) -> EntityPicture {
    // One that two invariants name is there twice.
    lives.sort_by_key(|life| life.sequence_number);
    lives.dedup_by_key(|life| life.sequence_number);
    let is_broken = |life: &Life| broken.contains(&(life.entity.as_str(), life.sequence_number));
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for life in &lives {
        *ends.entry(name_of(&life.rest()).to_owned()).or_default() += 1;
    }
    let mut drawn: Vec<&Life> = lives.clone();
    drawn.sort_by_key(|life| !is_broken(life));
    drawn.truncate(LINES_MAX);
    drawn.sort_by_key(|life| life.sequence_number);
    let lines = drawn.into_iter().map(|life| MessageLine {
        name: life.name(),
        is_broken: is_broken(life),
        spans: spans(life, begun_ms),
    });
    EntityPicture {
        entity: entity.to_owned(),
        messages: lives.len(),
        ends,
        slices: slices(&lives, begun_ms),
        lines: lines.collect(),
    }
}

fn slices(lives: &[&Life], begun_ms: u64) -> Vec<Slice> {
    let mut slices: BTreeMap<u64, Slice> = BTreeMap::new();
    for event in lives.iter().flat_map(|life| &life.events) {
        let number = event.at_ms.saturating_sub(begun_ms) / SLICE_MS;
        let at_ms = number * SLICE_MS;
        let slice = slices.entry(number).or_insert(Slice { at_ms, ..Slice::default() });
        match &event.step {
            Some(Step::Accepted(_)) => slice.accepted += 1,
            Some(Step::Locked(_)) => slice.delivered += 1,
            Some(Step::Completed(_)) => slice.completed += 1,
            Some(Step::Abandoned(_) | Step::LockLapsed(_)) => slice.failed += 1,
            Some(Step::DeadLettered(_)) => slice.dead_lettered += 1,
            _ => (),
        }
    }
    // Where nothing happened there is a slice, too: else a chart would join what is apart.
    let last = slices.keys().next_back().map_or(0, |last| last + 1);
    (0..last)
        .map(|number| {
            let at_ms = number * SLICE_MS;
            slices.remove(&number).unwrap_or(Slice { at_ms, ..Slice::default() })
        })
        .collect()
}

fn spans(life: &Life, begun_ms: u64) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (at_ms, rest) in life.rests() {
        let (from_ms, kind) = (at_ms.saturating_sub(begun_ms), name_of(&rest));
        match spans.last_mut() {
            Some(last) if last.kind == kind => continue,
            Some(last) => last.to_ms = Some(from_ms),
            None => (),
        }
        spans.push(Span { from_ms, to_ms: None, kind });
    }
    spans
}

/// As reports call where a message is.
fn name_of(rest: &Rest) -> &'static str {
    match rest {
        Rest::Scheduled => "scheduled",
        Rest::Waiting { .. } => "waiting",
        Rest::Locked => "locked",
        Rest::Deferred => "deferred",
        Rest::DeadLettered { .. } => "dead-lettered",
        Rest::Completed { on_delivery: false, .. } => "completed",
        Rest::Completed { on_delivery: true, .. } => "deleted on delivery",
        Rest::HandedOn => "handed on",
        Rest::Cancelled => "cancelled",
        Rest::Gone { .. } => "gone",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::tests::{accepted, completed, lives, locked};

    #[test]
    fn an_entity_is_drawn_by_slices_and_lines() {
        let lives = lives(vec![
            (1_000, "q", 1, accepted("a")),
            (1_100, "q", 2, accepted("b")),
            (1_600, "q", 1, locked()),
            (1_700, "q", 1, completed()),
        ]);
        let invariant = Invariant::CompletedOnce { entity: "q".to_owned() };
        let all = pictures(&[(&invariant, Finding::default())], &lives, 1_000);
        let [picture] = &all[..] else { panic!("one entity: {all:?}") };
        let counts: Vec<(u64, u32, u32, u32)> = picture
            .slices
            .iter()
            .map(|of| (of.at_ms, of.accepted, of.delivered, of.completed))
            .collect();
        assert_eq!(counts, [(0, 2, 0, 0), (250, 0, 0, 0), (500, 0, 1, 1)]);
        let span = |from_ms, to_ms, kind| Span { from_ms, to_ms, kind };
        assert_eq!(
            picture.lines[0].spans,
            [
                span(0, Some(600), "waiting"),
                span(600, Some(700), "locked"),
                span(700, None, "completed"),
            ]
        );
        assert_eq!(picture.ends["waiting"], 1);
    }
}
