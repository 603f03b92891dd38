//! What both levels are told by their command lines, and say in the end.

use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Which seeds to run.
#[derive(clap::Args)]
pub struct Seeds {
    /// The first seed; drawn at random if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds to run, counting up.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Goes on with as many again until so many minutes have passed, or a promise is broken.
    #[arg(long, default_value_t = 0)]
    minutes: u64,
}

impl Seeds {
    /// The first, which is printed.
    pub fn first(&self) -> u64 {
        let seed = self.seed.unwrap_or_else(|| rand::random::<u64>() >> 16);
        println!("seed {seed}"); // First, before anything that can panic.
        seed
    }

    /// Runs batch after batch: at least one, none after a violation. How many seeds ran.
    pub fn run(&self, mut batch: impl FnMut(Range<u64>) -> bool) -> u64 {
        let until = Instant::now() + Duration::from_secs(60 * self.minutes);
        let (first, mut count) = (self.first(), 0);
        loop {
            let from = first + count;
            count += self.seeds;
            if !batch(from..from + self.seeds) || Instant::now() >= until {
                return count;
            }
        }
    }
}

/// The last lines; how it ends if a promise was broken.
pub fn told(
    seeds: u64,
    seconds: u64,
    faults: u64,
    digest: u64,
    violations: usize,
) -> Option<ExitCode> {
    println!("seeds {seeds}, simulated hours {:.1}, faults {faults}", seconds as f64 / 3600.0);
    if violations > 0 {
        println!("{violations} of {seeds} seeds violate");
        return Some(ExitCode::FAILURE);
    }
    println!("ok, state digest {digest:016x}");
    None
}
