//! Runs simulated clusters over replication as it is and says which seeds break a promise.

use std::process::ExitCode;

use clap::{Parser, value_parser};
use simulation::real::{self, Planted, RealOptions, RealReport};
use simulation::seeds::{Seeds, told};

/// Simulates clusters, each from one seed: the agreement itself, replication as it is with openraft and
/// gRPC inside, over modelled disks and a modelled network.
#[derive(Parser)]
struct RaftArgs {
    #[command(flatten)]
    seeds: Seeds,
    /// Nodes that hold the group.
    #[arg(long, default_value_t = RealOptions::default().nodes, value_parser = value_parser!(u64).range(2..=9))]
    nodes: u64,
    /// Nodes beyond those, to which replicas of the others may move.
    #[arg(long, default_value_t = RealOptions::default().spares, value_parser = value_parser!(u64).range(0..=3))]
    spares: u64,
    /// Seconds of trouble in each run, in the cluster's time.
    #[arg(long, default_value_t = RealOptions::default().seconds)]
    seconds: u64,
    /// How often the group sleeps after that, and its leader meets a fault.
    #[arg(long, default_value_t = RealOptions::default().naps)]
    naps: u64,
    /// A mistake to plant, to see which invariant finds it.
    #[arg(long, value_enum)]
    bug: Option<Planted>,
    /// Runs the one seed in this very process.
    #[arg(long, hide = true)]
    here: bool,
}

fn main() -> ExitCode {
    let RaftArgs { seeds, nodes, spares, seconds, naps, bug, here } = RaftArgs::parse();
    let options = RealOptions { nodes, spares, seconds, naps, bug };
    if here {
        let held = real::tell(seeds.first(), &options);
        return if held { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            println!("cannot find this program: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut total, mut violations) = (RealReport::default(), 0);
    let seeds = seeds.run(|seeds| {
        let (report, found) = real::run_many(&program, seeds, &options);
        found.iter().for_each(|violation| println!("{violation}"));
        total += report;
        violations += found.len();
        found.is_empty()
    });
    println!("{total}");
    told(seeds, total.seconds, total.faults(), total.digest, violations).unwrap_or_default()
}
