//! Runs simulated clusters and says which seeds break a promise.

use std::process::ExitCode;

use clap::Parser;
use simulation::seeds::{Seeds, told};
use simulation::{Bug, Options, Report, run_many};

/// Simulates clusters of the broker, each from one seed: what is agreed on, over a model of Raft.
#[derive(Parser)]
struct Args {
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

fn main() -> ExitCode {
    let args = Args::parse();
    let Args { ticks, nodes, bug, swarm, .. } = args;
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
