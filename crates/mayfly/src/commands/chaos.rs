//! `mayfly chaos`.

mod agent;

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chaos::{Experiment, FaultKind, Target, Workload, parse_schedule, upgrades};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use remote::Places;
use tokio::sync::watch;

use crate::connect::Login;
use crate::interruption::{self, INTERRUPTED};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly chaos                                       a minute of everything, on a cluster of its own
  mayfly chaos --seed 7 --minutes 10 --nodes 5
  mayfly chaos --fault kill,partition --workload queue,sessions
  mayfly chaos --schedule faults.toml --report out   out/report.html has a timeline
  mayfly chaos --durability replicated --fault blackout
                                                     what nodes lose that do not sync
  mayfly chaos --tls --fault rotate-certificate,rotate-authority,kill
                                                     certificates that are replaced under load
  mayfly chaos --keys --fault rotate-key,kill        keys of clients that are rotated under load
  mayfly chaos --previous mayfly-0.1.0 --minutes 3   a rolling upgrade from that release, and back
  mayfly chaos --restore                             all disks are lost in the end, the last backup is restored
  mayfly chaos --connect node-1:5310                 against a cluster that runs: leader transfers only
  mayfly chaos --connect node-1:5310 --agent node-1:5330,node-2:5330,node-3:5330
                                                     and what agents beside its nodes do: see 'mayfly chaos agent'

A schedule is TOML, an entry for each fault; at and lasts are seconds:
  [[fault]]
  at = 5.0
  lasts = 3.0
  kind = \"partition\"
  node = 2            # or leader_of = 1, a group
  direction = \"out\"   # or \"in\"; without it, both
  others = \"nodes\"    # or \"clients\", or a node's number

Faults are drawn from a seed, which is printed; the same seed hurts the same nodes in the same way at
the same times. After it everything is healed and received, and every call of every client is held
against what is there. Ctrl-C ends the load early and does all that nevertheless, for what was done
until then; once more, and everything that was started ends at once.

Exit codes: 0 every promise was kept, 1 one was broken (the command that repeats it is told) or the
experiment could not be carried out, 2 wrong usage, 130 interrupted and none was broken until then.";

/// Said at the first Ctrl-C.
const STOPPING: &str = "interrupted: healing and checking; once more ends it at once";

/// Groups with data in a cluster of its own: few, so that faults meet leaders.
const DATA_GROUPS: u16 = 3;
const MINUTES_MAX: f64 = 7.0 * 24.0 * 60.0;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct ChaosArgs {
    #[command(subcommand)]
    command: Option<ChaosCommand>,
    #[command(flatten)]
    experiment: HurtArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ChaosCommand {
    /// Start a node that experiments may hurt, on the node's machine
    Agent(agent::AgentArgs),
}

/// An experiment, and where.
#[derive(Debug, clap::Args)]
struct HurtArgs {
    /// What faults and clients are drawn from; another every time without it
    #[arg(long)]
    seed: Option<u64>,
    /// How long to hurt the cluster
    #[arg(long, value_name = "MINUTES", default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// Nodes of the cluster it starts
    #[arg(long, value_name = "3|5", default_value = "3", value_parser = ["3", "5"])]
    nodes: String,
    /// Kinds of faults; without it all that such a cluster has
    #[arg(long = "fault", value_name = "KIND,…", value_delimiter = ',', value_parser = faults())]
    faults: Vec<FaultKind>,
    /// What clients do; everything without it
    #[arg(long = "workload", value_name = "KIND,…", value_delimiter = ',')]
    #[arg(value_parser = workloads())]
    workloads: Vec<Workload>,
    /// Faults from a file, in the place of faults drawn from the seed
    #[arg(long, value_name = "PATH", conflicts_with = "faults")]
    schedule: Option<PathBuf>,
    /// What an acknowledgement waits for on its nodes: their disks, or their memory
    #[arg(long, value_name = "DURABILITY", default_value = "synced")]
    #[arg(value_parser = ["synced", "replicated"])]
    durability: String,
    /// Nodes in network namespaces, between which the kernel loses packets, in the place of proxies;
    /// needs root and iproute2, and netem in the kernel for delay and loss
    #[arg(long)]
    namespaces: bool,
    /// Nodes that know each other by certificates, which are replaced now and then
    #[arg(long)]
    tls: bool,
    /// Clients with a key, natively and over AMQP, which is rotated now and then
    #[arg(long)]
    keys: bool,
    /// The binary of another release that all nodes begin as: one after the other is upgraded to this one,
    /// and back, until there is no way back
    #[arg(long, value_name = "PATH")]
    previous: Option<PathBuf>,
    /// In the end all disks are lost, and the last of the backups that were made meanwhile is restored: what was
    /// acknowledged before it is all there
    #[arg(long, conflicts_with = "previous")]
    restore: bool,
    /// Messages per second of all clients together
    #[arg(long, value_name = "PER_SECOND", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Where to write report.json, report.html and, if a promise was broken, history.json
    #[arg(long, value_name = "DIRECTORY")]
    report: Option<PathBuf>,
    /// The report as JSON
    #[arg(long)]
    json: bool,
    /// Nodes of a cluster that runs, in the place of one of its own; https://… for TLS
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', help_heading = "Connection")]
    #[arg(conflicts_with_all = ["nodes", "durability", "namespaces", "tls", "keys", "previous", "restore"])]
    connect: Vec<String>,
    /// Agents beside the nodes of --connect, which hurt them: see 'mayfly chaos agent'; https://… for TLS
    #[arg(long = "agent", value_name = "HOST:PORT,…", value_delimiter = ',', requires = "connect")]
    agents: Vec<String>,
    #[command(flatten)]
    login: Login,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("'{text}' is no number of minutes"))?;
    match minutes > 0.0 && minutes <= MINUTES_MAX {
        true => Ok(minutes),
        false => Err(format!("{minutes} minutes; allowed is more than 0, and at most a week")),
    }
}

/// Reads a kind of fault by its name.
fn faults() -> impl TypedValueParser<Value = FaultKind> {
    PossibleValuesParser::new(FaultKind::ALL.map(FaultKind::name)).map(|given| {
        let named = FaultKind::ALL.into_iter().find(|kind| kind.name() == given);
        named.expect("the parser lets only these through")
    })
}

/// Reads a workload by its name.
fn workloads() -> impl TypedValueParser<Value = Workload> {
    PossibleValuesParser::new(Workload::ALL.map(Workload::name)).map(|given| {
        let named = Workload::ALL.into_iter().find(|kind| kind.name() == given);
        named.expect("the parser lets only these through")
    })
}

pub async fn run(args: ChaosArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(ChaosCommand::Agent(args)) => agent::run(args).await,
        None => hurt(args.experiment).await,
    }
}

async fn hurt(args: HurtArgs) -> anyhow::Result<ExitCode> {
    let seed = args.seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u128() as u64 % 1_000_000);
    // First, before anything that can fail.
    terminal::note(&format!("seed {seed}"));
    let experiment = args.experiment(seed)?;
    let (stop, stopped) = watch::channel(false);
    let report = tokio::select! {
        report = experiment.run(Arc::new(terminal::note), stopped) => report,
        // Dropped, it ends the processes it started and removes their files.
        interrupted = interruption::twice(stop, || terminal::note(STOPPING)) => {
            interrupted?;
            terminal::complain("interrupted again; what was started has ended");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    let report = report.map_err(|error| match error {
        chaos::Error::Wrong(told) => terminal::usage(told),
        other => other.into(),
    })?;
    if let Some(dir) = &args.report {
        report.write(dir)?;
        terminal::note(&format!("see {}", dir.join("report.html").display()));
    }
    if args.json {
        terminal::json(&report)?
    } else {
        terminal::line(&report)?
    }
    Ok(match (report.holds, report.interrupted) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(INTERRUPTED),
        (true, false) => ExitCode::SUCCESS,
    })
}

impl HurtArgs {
    fn experiment(&self, seed: u64) -> anyhow::Result<Experiment> {
        let nodes: u64 = self.nodes.parse().context("3 or 5")?;
        let target = match self.connect.is_empty() {
            true => Target::Own {
                program: std::env::current_exe().context("cannot find this program's own file")?,
                nodes,
                data_groups: DATA_GROUPS,
                synced: self.is_synced(),
                namespaces: self.namespaces,
                tls: self.tls,
                keys: self.keys,
                previous: self.previous.clone(),
            },
            false => {
                let (addresses, options) = (self.connect.clone(), Box::new(self.login.options()?));
                let agents = (!self.agents.is_empty()).then(|| Places {
                    addresses: self.agents.clone(),
                    secret: options.secret.clone(),
                    trust: options.tls.clone().unwrap_or_default(),
                });
                Target::Given { addresses, options, agents }
            }
        };
        if let Some(told) = self.faults.iter().find_map(|kind| target.takes(*kind).err()) {
            return Err(terminal::usage(told));
        }
        let temporary = self.workloads.contains(&Workload::Temporary);
        if self.restore && temporary {
            return Err(terminal::usage(
                "--restore has no workload 'temporary': what was deleted since a backup is back, and the other way round",
            ));
        }
        let lasts = Duration::from_secs_f64(self.minutes * 60.0);
        let schedule = match &self.schedule {
            None if self.previous.is_some() && self.faults.is_empty() => {
                Some(upgrades(nodes, lasts))
            }
            None => None,
            Some(path) => {
                let name = path.display();
                let text = std::fs::read_to_string(path)
                    .map_err(|error| terminal::usage(format!("cannot read '{name}': {error}")))?;
                let plan = parse_schedule(&text, nodes, seed);
                Some(plan.map_err(|told| terminal::usage(format!("{name}: {told}")))?)
            }
        };
        Ok(Experiment {
            seed,
            lasts,
            target,
            faults: either(&self.faults, &FaultKind::ALL),
            schedule,
            workloads: match (&self.previous, self.restore) {
                (Some(_), _) => either(&self.workloads, &Workload::OF_0_1),
                (None, restore) => either(&self.workloads, &Workload::ALL)
                    .into_iter()
                    .filter(|workload| !restore || workload.outlives_restore())
                    .collect(),
            },
            rate: self.rate,
            restores: self.restore,
            command: self.command(seed),
        })
    }

    fn is_synced(&self) -> bool {
        self.durability == "synced"
    }

    /// What repeats it.
    fn command(&self, seed: u64) -> String {
        let mut command = format!("mayfly chaos --seed {seed} --minutes {}", self.minutes);
        // Writing to a string does not fail.
        let mut add = |name: &str, value: String| {
            let _ = write!(command, " --{name} {value}");
        };
        let names = |names: Vec<&str>| names.join(",");
        match self.connect.is_empty() {
            true => add("nodes", self.nodes.clone()),
            false => add("connect", self.connect.join(",")),
        }
        if !self.agents.is_empty() {
            add("agent", self.agents.join(","));
        }
        if !self.faults.is_empty() {
            add("fault", names(self.faults.iter().map(|kind| kind.name()).collect()));
        }
        if !self.workloads.is_empty() {
            add("workload", names(self.workloads.iter().map(|kind| kind.name()).collect()));
        }
        if !self.is_synced() {
            add("durability", self.durability.clone());
        }
        if let Some(path) = &self.schedule {
            add("schedule", path.display().to_string());
        }
        add("rate", self.rate.to_string());
        if self.namespaces {
            command.push_str(" --namespaces");
        }
        if self.tls {
            command.push_str(" --tls");
        }
        if self.keys {
            command.push_str(" --keys");
        }
        if self.restore {
            command.push_str(" --restore");
        }
        if let Some(path) = &self.previous {
            let _ = write!(command, " --previous {}", path.display());
        }
        command
    }
}

/// What was asked for, or all.
fn either<T: Clone>(asked: &[T], all: &[T]) -> Vec<T> {
    if asked.is_empty() { all.to_vec() } else { asked.to_vec() }
}
