//! No lock lapses while the program runs that holds it.

use client::v1::message_event::Step;

use super::{Evidence, Finding, seconds};
use crate::timeline::{Moment, MomentKind};

/// A broker hears of a program's end when its connection is closed, and may lock a message for it until then.
const AFTERMATH_MS: u64 = 1_000;

pub fn check<'a>(evidence: Evidence<'a>, entity: &'a str, program: Option<&str>) -> Finding<'a> {
    let interrupted = interruptions(evidence.moments, program);
    let mut finding = Finding::default();
    for life in evidence.lives.of(entity) {
        finding.about += 1;
        let mut locked_ms = None;
        for event in &life.events {
            match &event.step {
                Some(Step::Locked(_)) => locked_ms = Some(event.at_ms),
                Some(Step::LockLapsed(_)) => {
                    let from_ms = locked_ms.take().unwrap_or(event.at_ms);
                    let meets = |(from, to): &(u64, u64)| *from <= event.at_ms && from_ms <= *to;
                    if interrupted.iter().any(meets) {
                        continue;
                    }
                    let held = seconds(event.at_ms - from_ms.min(event.at_ms));
                    let told = format!("the lock of message {} was lost after {held}", life.name());
                    finding.fail(told, vec![life]);
                }
                _ => (),
            }
        }
    }
    finding
}

/// Spans in which a lock may lapse: from a pause until it is over, and a while after an end.
fn interruptions(moments: &[Moment], program: Option<&str>) -> Vec<(u64, u64)> {
    let is_meant = |moment: &&Moment| program.is_none_or(|name| is_one_of(&moment.program, name));
    let meant: Vec<&Moment> = moments.iter().filter(is_meant).collect();
    let mut spans = Vec::new();
    for (at, moment) in meant.iter().enumerate() {
        let ends = |later: &&&Moment| {
            later.program == moment.program
                && matches!(later.kind, MomentKind::Resumed | MomentKind::Ended)
        };
        match moment.kind {
            MomentKind::Ended => spans.push((moment.at_ms, moment.at_ms + AFTERMATH_MS)),
            MomentKind::Paused => {
                let over = meant[at + 1..].iter().find(ends).map_or(u64::MAX, |later| later.at_ms);
                spans.push((moment.at_ms, over));
            }
            // It is to give back what it holds, and may fail.
            MomentKind::Told => spans.push((moment.at_ms, moment.at_ms)),
            MomentKind::Started | MomentKind::Resumed => (),
        }
    }
    spans
}

/// Whether this is a program of that name, or of several of that name one.
fn is_one_of(program: &str, name: &str) -> bool {
    let number = program.strip_prefix(name).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    number.is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()))
}
