//! Runs simulated clusters and says which seeds break a promise.

use std::process::ExitCode;

use clap::Parser;
use simulation::{Bug, Options, Report, run_many};

/// Simulates clusters of the broker, each from one seed.
#[derive(Parser)]
struct Args {
    /// The first seed; drawn at random if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds to run, counting up.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
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
    /// A mistake to plant, to see which invariant finds it.
    #[arg(long, value_enum)]
    bug: Option<Bug>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| rand::random::<u64>() >> 16);
    println!("seed {seed}"); // First, before anything that can panic.
    let Args { ticks, nodes, bug, .. } = args;
    let life = match (args.storm, args.topics) {
        (true, _) => Options::storm(),
        (false, true) => Options::topics(),
        (false, false) => Options::default(),
    };
    let options = Options { ticks, nodes, bug, ..life };
    let (report, violations) = run_many(seed..seed + args.seeds, &options);
    for violation in &violations {
        println!("{violation}");
    }
    println!("{report}");
    if !violations.is_empty() {
        println!("{} of {} seeds violate", violations.len(), args.seeds);
        return ExitCode::FAILURE;
    }
    println!("ok, state digest {:016x}", report.digest);
    enough(&report, args.seeds, &options)
}

/// One run may be tame; many together may not.
fn enough(report: &Report, seeds: u64, options: &Options) -> ExitCode {
    let short = report.shortfalls(seeds);
    if seeds < 20
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
