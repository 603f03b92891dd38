//! What is done when: as it is written, and as it is drawn. The same file and seed give the same plan.

use std::time::Duration;

use chaos::{Draw, Planned};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::file::{Deed, ExperimentFile};

/// Programs begin to work first.
const CALM_MS: u64 = 1_500;
/// From one kill to the next, and how long a program is down, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 1_000..4_000;
const DOWN_MS: std::ops::Range<u64> = 200..1_500;
/// Faults of nodes and kills of programs are drawn apart: a change of the one leaves the other as it was.
const OF_PROGRAMS: u64 = 0x70726f67;

/// Everything that is done in a run, by its time since the beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// One after the other.
    pub node_faults: Vec<Planned>,
    /// For each program of the file, in order of time.
    pub programs: Vec<Vec<(Duration, Deed)>>,
}

impl Plan {
    /// For a cluster of so many nodes and groups with data.
    pub fn of(file: &ExperimentFile, nodes: u64, groups: u32) -> Plan {
        let written = file.node_faults.iter().enumerate();
        let written = written.map(|(at, fault)| fault.planned(file.seed.wrapping_add(at as u64)));
        let mut node_faults: Vec<Planned> = written.collect();
        if !file.drawn.node_faults.is_empty() {
            let (seed, lasts, kinds) = (file.seed, file.lasts, file.drawn.node_faults.clone());
            node_faults = Draw { seed, nodes, groups, lasts, kinds }.plan();
        }
        let mut programs: Vec<Vec<(Duration, Deed)>> =
            file.programs.iter().map(|_| Vec::new()).collect();
        for (deeds, program) in programs.iter_mut().zip(&file.programs) {
            deeds.extend(program.starts_at.map(|at| (at, Deed::Start)));
            for event in &program.events {
                deeds.push((event.at, event.deed));
                let undone = event.lasts.zip(event.deed.undone_by());
                deeds.extend(undone.map(|(lasts, by)| (event.at + lasts, by)));
            }
        }
        for (program, at, down) in drawn_kills(file) {
            programs[program].extend([(at, Deed::Kill), (at + down, Deed::Start)]);
        }
        programs.iter_mut().for_each(|deeds| deeds.sort_by_key(|(at, _)| *at));
        Plan { node_faults, programs }
    }
}

/// Which program, when, and for how long.
fn drawn_kills(file: &ExperimentFile) -> Vec<(usize, Duration, Duration)> {
    let is_drawn = |kind: &String| file.drawn.programs.contains(kind);
    let programs = file.programs.iter().enumerate().filter(|(_, of)| is_drawn(&of.kind));
    let programs: Vec<usize> = programs.map(|(at, _)| at).collect();
    let mut random = ChaCha8Rng::seed_from_u64(file.seed ^ OF_PROGRAMS);
    let (mut kills, mut at_ms) = (Vec::new(), CALM_MS);
    while let Some(program) = programs.choose(&mut random) {
        at_ms += random.random_range(PAUSE_MS);
        let down_ms = random.random_range(DOWN_MS);
        if u128::from(at_ms + down_ms) > file.lasts.as_millis() {
            break;
        }
        kills.push((*program, Duration::from_millis(at_ms), Duration::from_millis(down_ms)));
        at_ms += down_ms;
    }
    kills
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, seed: u64) -> ExperimentFile {
        let text = format!(
            "{text}\n[[programs]]\nname = \"worker\"\ncommand = \"true\"\n\
             events = [{{ at = \"2s\", do = \"kill\", lasts = \"1s\" }}, {{ at = \"1s\", do = \"pause\", lasts = \"3s\" }}]\n\
             [[programs]]\nname = \"idle\"\ncommand = \"true\"\nstart = \"never\"\n\
             [[invariants]]\nkind = \"completed-once\"\nentity = \"orders\"\n"
        );
        ExperimentFile::parse(&text, "file.toml", 1, Some(seed)).expect("it is right")
    }

    #[test]
    fn what_is_written_is_done_and_undone_in_its_time() {
        let plan = Plan::of(&file("", 1), 3, 3);
        let ms = Duration::from_millis;
        let worker = [
            (ms(0), Deed::Start),
            (ms(1_000), Deed::Pause),
            (ms(2_000), Deed::Kill),
            (ms(3_000), Deed::Start),
            (ms(4_000), Deed::Resume),
        ];
        assert_eq!(plan.programs, [worker.to_vec(), Vec::new()]);
    }

    #[test]
    fn the_same_seed_is_the_same_plan() {
        let drawn = "lasts = \"60s\"\n[drawn]\nprograms = [\"worker\"]\nnode_faults = [\"kill\"]\n";
        let plan = |seed| Plan::of(&file(drawn, seed), 3, 3);
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7).programs, plan(8).programs);
        assert_ne!(plan(7).node_faults, plan(8).node_faults);
        let kills =
            |plan: &Plan| plan.programs[0].iter().filter(|(_, deed)| *deed == Deed::Kill).count();
        assert!(kills(&plan(7)) > 8, "{:?}", plan(7).programs);
        assert!(!plan(7).node_faults.is_empty());
    }
}
