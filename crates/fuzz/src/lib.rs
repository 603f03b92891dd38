//! Every decoder against what clients never send: seeds as SDKs write them, changed at random, and
//! changed again where the answer to them was a new one.
//!
//! No coverage is measured (that takes a nightly compiler); the answers stand for it. An input that is
//! answered with events or an error not seen before joins the pool, so that what gets past one check is
//! tried on the next. Two seconds by default; `MAYFLY_FUZZ_SECONDS=3600` is for `tests/long.sh`, and
//! `MAYFLY_FUZZ_SEED` draws other inputs. What fails prints the line to add to the seeds.

mod answer;
mod mutate;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

pub use answer::Answer;

use mutate::{Rng, mutate};

const SECONDS: u64 = 2;
/// Inputs remembered for one target.
const POOL_MAX: usize = 5_000;
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Of one input: a million times longer than any takes.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// A machine busy with other things may forget about this one for so long. What is slow by itself is
/// slow every time.
const ANSWER_ATTEMPTS: usize = 5;

/// A decoder, or a way through several.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As its seeds call it.
    pub name: &'static str,
    /// Feeds an input and notes what came of it. A panic is a finding.
    pub feed: fn(&[u8], &mut Answer),
}

/// Inputs of one target, those that were answered in new ways last.
struct Pool {
    target: Target,
    inputs: Vec<Vec<u8>>,
    answers: HashSet<u64>,
}

/// Feeds the targets for as long as the environment says. `seeds` has one to a line: a target, and its
/// bytes in hexadecimal digits; `#` begins a remark.
///
/// # Panics
/// With what a target panicked with, if it is too slow, or if a target has no seed.
pub fn run(targets: &[Target], seeds: &str) {
    let (seconds, seed) = (number("MAYFLY_FUZZ_SECONDS", SECONDS), number("MAYFLY_FUZZ_SEED", 1));
    println!("MAYFLY_FUZZ_SEED={seed} for {seconds} s");
    let (mut rng, mut pools, mut count) = (Rng(seed), pools(targets, seeds), 0_u64);
    for pool in &mut pools {
        assert!(!pool.inputs.is_empty(), "no seed for {}", pool.target.name);
        for input in &pool.inputs {
            pool.answers.insert(answer(pool.target, input));
        }
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        for pool in &mut pools {
            let mut input = mutate(&mut rng, &pool.inputs);
            input.truncate(INPUT_BYTES_MAX);
            count += 1;
            let is_new = pool.answers.insert(answer(pool.target, &input));
            if is_new && pool.inputs.len() < POOL_MAX {
                pool.inputs.push(input);
            }
        }
    }
    for Pool { target, inputs, answers } in &pools {
        println!("{}: {} answers, {} inputs kept", target.name, answers.len(), inputs.len());
    }
    println!("{count} inputs");
}

/// Bytes of hexadecimal digits.
///
/// # Panics
/// If they are none.
pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |digit: u8| (digit as char).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks_exact(2).map(|pair| (digit(pair[0]) << 4) | digit(pair[1])).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn pools(targets: &[Target], seeds: &str) -> Vec<Pool> {
    let pool =
        |target: &Target| Pool { target: *target, inputs: Vec::new(), answers: HashSet::new() };
    let mut pools: Vec<Pool> = targets.iter().map(pool).collect();
    for line in seeds.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, digits) = line.split_once(' ').expect("a target and bytes");
        let pool = pools.iter_mut().find(|pool| pool.target.name == name);
        pool.expect("a known target").inputs.push(unhex(digits));
    }
    pools
}

/// What a target says to an input; a panic is told with the line that repeats it.
fn answer(target: Target, input: &[u8]) -> u64 {
    let line = || format!("{} {}", target.name, hex(input));
    for _ in 0..ANSWER_ATTEMPTS {
        let started = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| Answer::of_feeding(target.feed, input))) {
            Ok(answer) if started.elapsed() < ANSWER_WITHIN => return answer,
            Ok(_) => {}
            Err(panic) => {
                eprintln!("it failed on\n{}", line());
                resume_unwind(panic)
            }
        }
    }
    panic!("more than {ANSWER_WITHIN:?} every time for\n{}", line());
}
