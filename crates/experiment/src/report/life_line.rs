//! What a message went through, step by step, and what was done around it meanwhile.

use chaos::Happened;
use client::step_text;
use serde::Serialize;

use crate::lives::Life;
use crate::timeline::{Moment, MomentKind};

/// So long after a message's last step it is told what was done to programs and nodes.
const AFTERMATH_MS: u64 = 1_000;
/// Steps that are told of one message; those in the middle are left out.
const STEPS_MAX: usize = 60;

/// A message's life.
#[derive(Clone, Debug, Serialize)]
pub struct LifeLine {
    pub entity: String,
    pub sequence_number: u64,
    pub message_id: Option<String>,
    pub session_id: Option<String>,
    pub steps: Vec<LineStep>,
}

/// A line of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineStep {
    /// Since the beginning; what came before it is below 0.
    pub at_ms: i64,
    pub told: String,
    /// Whether it is the message's own, or was done to a program or a node.
    pub is_own: bool,
}

/// What was done in a run besides.
pub struct Surroundings<'a> {
    pub begun_ms: u64,
    pub moments: &'a [Moment],
    pub node_faults: &'a [Happened],
    pub healed_ms: u64,
}

impl LifeLine {
    pub fn of(life: &Life, around: &Surroundings<'_>) -> LifeLine {
        let since = |at_ms: u64| at_ms as i64 - around.begun_ms as i64;
        let seconds = |at_ms: u64| format!("{:.1} s", since(at_ms) as f64 / 1e3);
        let own = life.events.iter().filter_map(|event| {
            let told = step_text(event, seconds)?;
            Some(LineStep { at_ms: since(event.at_ms), told, is_own: true })
        });
        let mut steps: Vec<LineStep> = own.collect();
        let from_ms = life.events.first().map_or(0, |event| event.at_ms);
        let until_ms = life.events.last().map_or(0, |event| event.at_ms) + AFTERMATH_MS;
        let is_met = |at_ms: u64| (from_ms..=until_ms).contains(&at_ms);
        let mut besides = |at_ms: u64, told: String| {
            if is_met(at_ms) {
                steps.push(LineStep { at_ms: since(at_ms), told, is_own: false });
            }
        };
        // The end of all programs at the end of the run says nothing.
        for moment in around.moments.iter().filter(|it| it.at_ms < around.healed_ms) {
            if moment.kind != MomentKind::Told {
                besides(moment.at_ms, format!("program {} {}", moment.program, moment.told));
            }
        }
        for fault in around.node_faults.iter().filter(|fault| fault.skipped.is_none()) {
            besides(fault.begun_ms, fault.told.clone());
        }
        steps.sort_by_key(|step| step.at_ms);
        if let Some(surplus) = steps.len().checked_sub(STEPS_MAX).filter(|surplus| *surplus > 0) {
            let from = STEPS_MAX / 2;
            let told = format!("… {} steps …", surplus + 1);
            let at_ms = steps[from].at_ms;
            let gap = LineStep { at_ms, told, is_own: false };
            steps.splice(from..=from + surplus, [gap]);
        }
        LifeLine {
            entity: life.entity.clone(),
            sequence_number: life.sequence_number,
            message_id: life.message_id().map(str::to_owned),
            session_id: life.session_id().map(str::to_owned),
            steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::tests::{accepted, completed, lives, locked};

    #[test]
    fn a_life_is_told_with_what_was_done_around_it() {
        let lives = lives(vec![
            (1_200, "q", 5, accepted("a")),
            (2_000, "q", 5, locked()),
            (4_000, "q", 5, completed()),
        ]);
        let moment = |at_ms, told: &str| Moment {
            at_ms,
            program: "worker".to_owned(),
            kind: MomentKind::Ended,
            told: told.to_owned(),
        };
        let moments = [moment(1_000, "was early"), moment(3_000, "was killed: signal: 9")];
        let around =
            Surroundings { begun_ms: 1_000, moments: &moments, node_faults: &[], healed_ms: 9_000 };
        let line = LifeLine::of(&lives.all()[0], &around);
        let told: Vec<(i64, &str)> =
            line.steps.iter().map(|step| (step.at_ms, step.told.as_str())).collect();
        assert_eq!(
            told,
            [
                (200, "accepted by q as number 5"),
                (1_000, "locked until -1.0 s for a receiver from q, delivery 1"),
                (2_000, "program worker was killed: signal: 9"),
                (3_000, "completed in q"),
            ]
        );
    }

    #[test]
    fn a_long_life_is_told_by_its_beginning_and_its_end() {
        let steps = (1..=200).map(|at| (at, "q", 5, locked()));
        let lives = lives([(0, "q", 5, accepted("a"))].into_iter().chain(steps).collect());
        let around = Surroundings { begun_ms: 0, moments: &[], node_faults: &[], healed_ms: 9_000 };
        let line = LifeLine::of(&lives.all()[0], &around);
        assert_eq!(line.steps.len(), STEPS_MAX);
        assert_eq!(line.steps[STEPS_MAX / 2].told, "… 142 steps …");
        assert_eq!(line.steps.last().map(|step| step.at_ms), Some(200));
    }
}
