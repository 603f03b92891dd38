//! Many lives: each in a process of its own, for a digest depends on what a process ran before. So a
//! crash of the code that runs ends one life, and is told as a violation like any other.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;

use super::{RealOptions, RealReport, run_here};

/// A life that takes longer than this has hung: it takes seconds.
const LIFE_MAX: Duration = Duration::from_secs(600);

impl RealOptions {
    /// What the command line is told to run such a life.
    pub fn flags(&self) -> Vec<String> {
        let RealOptions { nodes, spares, seconds, naps, bug } = self;
        let mut flags = vec![format!("--nodes={nodes}"), format!("--seconds={seconds}")];
        if *spares > 0 {
            flags.push(format!("--spares={spares}"));
        }
        if *naps > 0 {
            flags.push(format!("--naps={naps}"));
        }
        if let Some(bug) = bug.and_then(|bug| bug.to_possible_value()) {
            flags.push(format!("--bug={}", bug.get_name()));
        }
        flags
    }
}

/// Runs one life here and prints its report or what it broke. Whether it held.
pub fn tell(seed: u64, options: &RealOptions) -> bool {
    std::thread::spawn(|| {
        std::thread::sleep(LIFE_MAX);
        println!("hung");
        std::process::abort();
    });
    match run_here(seed, options) {
        Ok(report) => {
            println!("{report}");
            true
        }
        Err(broken) => {
            println!("{}: {} ({})", broken.invariant, broken.what, broken.source);
            false
        }
    }
}

/// Runs lives by calling this `program`, over all cores. Sums of those that held; and of the others
/// what they broke, with how to see it again.
pub fn run_many(
    program: &Path,
    seeds: std::ops::Range<u64>,
    options: &RealOptions,
) -> (RealReport, Vec<String>) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut told = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return told;
            }
            told.push((seed, run_one(program, seed, options)));
        }
    };
    let mut told: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.flat_map(|told| told.unwrap_or_default()).collect()
    });
    told.sort_by_key(|(seed, _)| *seed);
    let (mut total, mut violations) = (RealReport::default(), Vec::new());
    for (seed, result) in told {
        match result {
            Ok(report) => total += report,
            Err(what) => {
                let flags = options.flags().join(" ");
                violations.push(format!(
                    "seed {seed}: {what}\nreplay: cargo run --release -p simulation --features raft \
                     --bin simulation-raft -- {flags} --seed {seed}"
                ));
            }
        }
    }
    (total, violations)
}

fn run_one(program: &Path, seed: u64, options: &RealOptions) -> Result<RealReport, String> {
    let mut command = Command::new(program);
    command.args(options.flags()).arg(format!("--seed={seed}")).arg("--here");
    let output = command.output().map_err(|error| format!("cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    match output.status.success() {
        true => last.parse().map_err(|()| format!("said '{last}'")),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("{last} ({}) {}", output.status, errors.trim()))
        }
    }
}
