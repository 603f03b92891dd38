//! One experiment with a given broker binary:
//! `cargo run --release -p chaos --example chaos -- target/release/mayfly 1 20 kill,pause queue,ttl`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use chaos::{Experiment, FaultKind, Target, Workload};

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [program, seed, seconds, rest @ ..] = &given[..] else {
        eprintln!(
            "usage: chaos BINARY SEED SECONDS [FAULTS [WORKLOADS [NODES [REPORT [DURABILITY]]]]]"
        );
        return Ok(ExitCode::from(2));
    };
    let named = |at: usize| rest.get(at).map(String::as_str).unwrap_or("all");
    let among = |list: &str, name: &str| list == "all" || list.split(',').any(|one| one == name);
    let experiment = Experiment {
        seed: seed.parse()?,
        lasts: Duration::from_secs(seconds.parse()?),
        target: Target::Own {
            previous: None,
            program: PathBuf::from(program),
            nodes: rest.get(2).map_or(Ok(3), |nodes| nodes.parse())?,
            data_groups: 3,
            synced: rest.get(4).is_none_or(|durability| durability == "synced"),
            namespaces: false,
            tls: false,
            keys: false,
        },
        faults: FaultKind::ALL.into_iter().filter(|it| among(named(0), it.name())).collect(),
        schedule: None,
        restores: false,
        workloads: Workload::ALL.into_iter().filter(|it| among(named(1), it.name())).collect(),
        rate: 200,
        command: format!("cargo run --release -p chaos --example chaos -- {}", given.join(" ")),
    };
    println!("seed {}", experiment.seed);
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    let report = experiment.run(Arc::new(|told: &str| eprintln!("{told}")), stopped).await?;
    println!("{report}");
    if let Some(dir) = rest.get(3) {
        report.write(&PathBuf::from(dir))?;
    }
    Ok(if report.holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
