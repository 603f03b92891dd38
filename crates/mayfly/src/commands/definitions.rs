//! `mayfly definitions`.

mod output;
mod source;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use client::Client;
use definitions::{Definitions, Node, Options, Plan};

use crate::connect::ConnectWithin;
use crate::{terminal, topology};
use source::Source;

const EXAMPLES: &str = "\
Examples:
  mayfly definitions export --output cluster.toml
  mayfly definitions export --secrets --output cluster.json --format json
  mayfly definitions diff cluster.toml                 exit code 2 where they differ
  mayfly definitions apply cluster.toml --dry-run
  mayfly definitions apply cluster.toml --prune        also delete what the file does not name
  mayfly definitions apply Config.json                 of a Service Bus emulator
  mayfly definitions apply main.json --parameters main.parameters.json
  mayfly definitions apply queues.json topics.json     as az servicebus ... list prints them

Files are Mayfly's own form in TOML or JSON, the emulator's Config.json, ARM templates in JSON, and what az prints.";

/// Exit code of `diff` where a cluster is not as the files say.
const DIFFERS: u8 = 2;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DefinitionsArgs {
    #[command(subcommand)]
    command: DefinitionsCommand,
}

#[derive(Debug, Subcommand)]
enum DefinitionsCommand {
    /// Write everything a cluster has: entities, properties, rules, and keys if asked for
    Export {
        /// The form
        #[arg(long, value_name = "FORMAT", value_enum, default_value = "toml")]
        format: Format,
        /// The keys of authorization rules too, into a file for its owner alone
        #[arg(long, requires = "output")]
        secrets: bool,
        /// A file, in the place of one that is there
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        connect: ConnectWithin,
    },
    /// Say what apply would do; exit code 0 is nothing, 2 something, 1 that it cannot be done
    Diff {
        #[command(flatten)]
        source: Source,
        /// What apply --prune would do
        #[arg(long)]
        prune: bool,
        #[command(flatten)]
        connect: ConnectWithin,
    },
    /// Make a cluster what files say: create what is missing, set what they name, leave the rest
    Apply {
        #[command(flatten)]
        source: Source,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
        /// Delete the queues, topics and subscriptions that the files do not name
        #[arg(long)]
        prune: bool,
        /// With --prune: those too that hold messages
        #[arg(long, requires = "prune")]
        yes: bool,
        #[command(flatten)]
        connect: ConnectWithin,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Mayfly's own, in TOML
    Toml,
    /// The same in JSON
    Json,
    /// A template of Azure Resource Manager, without keys
    Arm,
}

pub async fn run(args: DefinitionsArgs) -> anyhow::Result<ExitCode> {
    let code = match args.command {
        DefinitionsCommand::Export { format, secrets, output, connect } => {
            let found = topology::found(&connect.client()?).await?.definitions;
            output::write(&exported(&found, format, secrets)?, output.as_deref(), secrets)?;
            ExitCode::SUCCESS
        }
        DefinitionsCommand::Diff { source, prune, connect } => {
            match planned(&connect.client()?, &source, prune).await? {
                None => ExitCode::FAILURE,
                Some(plan) => {
                    told(&plan)?;
                    if plan.steps.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) }
                }
            }
        }
        DefinitionsCommand::Apply { source, dry_run, prune, yes, connect } => {
            let client = connect.client()?;
            let Some(plan) = planned(&client, &source, prune).await? else {
                return Ok(ExitCode::FAILURE);
            };
            if dry_run {
                told(&plan)?;
            } else {
                check_losses(&plan, yes)?;
                done(&client, &plan).await?;
            }
            ExitCode::SUCCESS
        }
    };
    Ok(code)
}

fn exported(found: &Definitions, format: Format, secrets: bool) -> anyhow::Result<String> {
    match format {
        Format::Toml => Ok(definitions::document::write(found, secrets).to_toml()),
        Format::Json => json(&definitions::document::write(found, secrets)),
        Format::Arm if secrets => {
            Err(terminal::usage("--format arm: a template holds no keys; leave out --secrets"))
        }
        Format::Arm => {
            let (template, notes) = definitions::write_template(found);
            notes.iter().for_each(|note| terminal::note(note));
            json(&template)
        }
    }
}

/// Messages go with their entities only where that was said.
fn check_losses(plan: &Plan, yes: bool) -> anyhow::Result<()> {
    let losses: Vec<String> =
        plan.losses().map(|(entity, messages)| format!("{entity} ({messages})")).collect();
    if losses.is_empty() || yes {
        return Ok(());
    }
    anyhow::bail!(
        "--prune would delete messages of {}; purge them, list the entities in the file, or add --yes; \
         nothing was changed",
        losses.join(", ")
    )
}

fn json(node: &Node) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(node)? + "\n")
}

/// None: what stands in the way is told, a line each.
async fn planned(client: &Client, source: &Source, prune: bool) -> anyhow::Result<Option<Plan>> {
    let Some(wanted) = source.read() else { return Ok(None) };
    let found = topology::found(client).await?;
    let options = Options { prune, keep: false };
    match definitions::plan(&wanted, &found, options) {
        Ok(plan) => Ok(Some(plan)),
        Err(problems) => {
            output::complain(&problems);
            Ok(None)
        }
    }
}

fn told(plan: &Plan) -> anyhow::Result<()> {
    plan.notes.iter().for_each(|note| terminal::note(note));
    plan.steps.iter().try_for_each(terminal::line)?;
    match plan.steps.is_empty() {
        true => terminal::line("nothing to change"),
        false => terminal::line(plan.summary()),
    }
}

/// Each step is told once it is done.
async fn done(client: &Client, plan: &Plan) -> anyhow::Result<()> {
    plan.notes.iter().for_each(|note| terminal::note(note));
    for (index, step) in plan.steps.iter().enumerate() {
        let applied = topology::apply(client, step).await;
        applied.with_context(|| {
            let total = plan.steps.len();
            format!("{index} of {total} steps are done; apply again goes on from there")
        })?;
        terminal::line(step)?;
    }
    match plan.steps.len() {
        0 => terminal::line("nothing to change"),
        1 => terminal::line("1 step done"),
        steps => terminal::line(format!("{steps} steps done")),
    }
}
