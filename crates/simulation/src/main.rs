//! Runs simulated clusters and says which seeds break a promise.

use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use simulation::real::{self, Planted, RealOptions};
use simulation::{Bug, Options, Report, run_many};

/// Simulates clusters of the broker, each from one seed: what is agreed on, over a model of Raft.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    level: Option<Level>,
    #[command(flatten)]
    seeds: Seeds,
    /// Steps of trouble in each run.
    #[arg(long, default_value_t = Options::default().ticks)]
    ticks: u32,
    /// Nodes of each cluster.
    #[arg(long, default_value_t = Options::default().nodes)]
    nodes: u8,
    /// Smaller clusters with more faults of nodes, disks and clocks.
    #[arg(long)]
    storm: bool,
    /// Clusters with topics and sessions.
    #[arg(long, conflicts_with = "storm")]
    topics: bool,
    /// Every seed draws which faults it has, and how often.
    #[arg(long)]
    swarm: bool,
    /// A mistake to plant, to see which invariant finds it.
    #[arg(long, value_enum)]
    bug: Option<Bug>,
}

#[derive(Subcommand)]
enum Level {
    /// The agreement itself: replication as it is, with openraft and gRPC inside, over modelled disks
    /// and a modelled network.
    Raft(RaftArgs),
}

#[derive(clap::Args)]
struct Seeds {
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

#[derive(clap::Args)]
struct RaftArgs {
    #[command(flatten)]
    seeds: Seeds,
    /// Nodes of each cluster.
    #[arg(long, default_value_t = RealOptions::default().nodes, value_parser = clap::value_parser!(u64).range(2..=9))]
    nodes: u64,
    /// Seconds of trouble in each run, in the cluster's time.
    #[arg(long, default_value_t = RealOptions::default().seconds)]
    seconds: u64,
    /// A mistake to plant, to see which invariant finds it.
    #[arg(long, value_enum)]
    bug: Option<Planted>,
    /// Runs the one seed in this very process.
    #[arg(long, hide = true)]
    here: bool,
}

impl Seeds {
    /// The seeds to run: first, count, and until when there are more.
    fn first(&self) -> u64 {
        let seed = self.seed.unwrap_or_else(|| rand::random::<u64>() >> 16);
        println!("seed {seed}"); // First, before anything that can panic.
        seed
    }

    /// Runs batch after batch: at least one, none after a violation. How many seeds ran.
    fn run(&self, mut batch: impl FnMut(Range<u64>) -> bool) -> u64 {
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

fn main() -> ExitCode {
    let args = Args::parse();
    match &args.level {
        Some(Level::Raft(args)) => run_raft(args),
        None => run_model(&args),
    }
}

fn run_model(args: &Args) -> ExitCode {
    let &Args { ticks, nodes, bug, swarm, .. } = args;
    let life = match (args.storm, args.topics) {
        (true, _) => Options::storm(),
        (false, true) => Options::topics(),
        (false, false) => Options::default(),
    };
    let options = Options { ticks, nodes, bug, swarm, ..life };
    let (mut total, mut violations) = (Report::default(), 0);
    let seeds = args.seeds.run(|seeds| {
        let (report, found) = run_many(seeds, &options);
        found.iter().for_each(|violation| println!("{violation}"));
        total += report;
        violations += found.len();
        found.is_empty()
    });
    println!("{total}");
    if let Some(failed) = told(seeds, total.seconds, total.faults(), total.digest, violations) {
        return failed;
    }
    enough(&total, seeds, &options)
}

fn run_raft(args: &RaftArgs) -> ExitCode {
    let &RaftArgs { nodes, seconds, bug, .. } = args;
    let options = RealOptions { nodes, seconds, bug };
    if args.here {
        let held = real::tell(args.seeds.first(), &options);
        return if held { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            println!("cannot find this program: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut total, mut violations) = (real::RealReport::default(), 0);
    let seeds = args.seeds.run(|seeds| {
        let (report, found) = real::run_many(&program, seeds, &options);
        found.iter().for_each(|violation| println!("{violation}"));
        total += report;
        violations += found.len();
        found.is_empty()
    });
    println!("{total}");
    told(seeds, total.seconds, total.faults(), total.digest, violations).unwrap_or_default()
}

/// The last lines; how it ends if a promise was broken.
fn told(seeds: u64, seconds: u64, faults: u64, digest: u64, violations: usize) -> Option<ExitCode> {
    println!("seeds {seeds}, simulated hours {:.1}, faults {faults}", seconds as f64 / 3600.0);
    if violations > 0 {
        println!("{violations} of {seeds} seeds violate");
        return Some(ExitCode::FAILURE);
    }
    println!("ok, state digest {digest:016x}");
    None
}

/// One run may be tame; many together may not.
fn enough(report: &Report, seeds: u64, options: &Options) -> ExitCode {
    let short = report.shortfalls(seeds);
    if seeds < 20
        || options.swarm
        || options.groups < Options::default().groups
        || options.nodes < Options::default().nodes
        || options.ticks < Options::default().ticks
        || short.is_empty()
    {
        return ExitCode::SUCCESS;
    }
    short.iter().for_each(|what| println!("too few {what}"));
    ExitCode::FAILURE
}
