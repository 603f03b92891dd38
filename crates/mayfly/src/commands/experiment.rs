//! `mayfly experiment`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use client::ClientOptions;
use experiment::{ExperimentFile, ExperimentRun, Report, Stage, Target, Tell, Verdict};
use tempfile::TempDir;
use tokio::sync::watch;

use super::run_entities::RunEntities;
use crate::connect::Login;
use crate::interruption::{self, INTERRUPTED};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly experiment run orders.toml
  mayfly experiment run orders.toml --report out       out/report.html opens without a network
  mayfly experiment run orders.toml --seed 7 --json report.json
  mayfly experiment run orders.toml --connect node-1:5310 --amqp node-1:5672

A file says which programs run, what is done to them, to nodes and to what clients ask for, and what has to
hold of messages; 'Experiments with your programs' in the documents has its form. Programs find the cluster in
MAYFLY_CONNECTION_STRING. Without --connect a cluster is started for the run, and is gone after it; one that
is there has to record what happens to messages (--message-history) and, for faults, to be in development mode.

Exit codes: 0 every invariant held, 1 one was broken, 2 wrong file, usage, program or target,
3 the broker's record or the cluster is not whole, so that nothing is certain, 130 interrupted.";

/// Said at the first Ctrl-C.
const STOPPING: &str = "interrupted: healing and checking; once more ends it at once";
/// A given cluster that does not answer is tried for so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Nobody knows whether everything held.
const UNKNOWN: u8 = 3;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExperimentArgs {
    #[command(subcommand)]
    command: ExperimentCommand,
}

#[derive(Debug, Subcommand)]
enum ExperimentCommand {
    /// Run what a file describes, and say whether its invariants held
    Run(Box<ExperimentRunArgs>),
}

#[derive(Debug, clap::Args)]
struct ExperimentRunArgs {
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What is drawn is drawn from it, in place of the file's; another every time without either
    #[arg(long)]
    seed: Option<u64>,
    /// Where to write report.html, report.json and what programs say
    #[arg(long, value_name = "DIRECTORY")]
    report: Option<PathBuf>,
    /// Write the report as JSON; '-' is standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Tell nothing while it runs
    #[arg(long, short)]
    quiet: bool,
    /// Leave what was created where it is
    #[arg(long, requires = "connect")]
    keep: bool,
    /// Nodes of a cluster that runs, in the place of one of its own; https://… for TLS
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', help_heading = "Connection")]
    connect: Vec<String>,
    /// Where programs find that cluster over AMQP; amqps://… for TLS
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5672")]
    #[arg(requires = "connect")]
    amqp: String,
    /// Where they find it over HTTP
    #[arg(long, value_name = "HOST:PORT", requires = "connect")]
    http: Option<String>,
    #[command(flatten)]
    login: Login,
}

pub async fn run(args: ExperimentArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        ExperimentCommand::Run(args) => args.run().await,
    }
}

impl ExperimentRunArgs {
    async fn run(&self) -> anyhow::Result<ExitCode> {
        let file = self.read()?;
        let target = self.target()?;
        let place = OutputPlace::make(self.report.as_deref())?;
        let (stop, stopped) = watch::channel(false);
        let mut entities = None;
        let mut stage = None;
        let driven = tokio::select! {
            driven = self.drive(&file, &target, &place, stopped, &mut stage, &mut entities) => Some(driven),
            interrupted = interruption::twice(stop, || terminal::note(STOPPING)) => {
                interrupted?;
                None
            }
        };
        self.leave_nothing(stage, entities).await;
        let Some(report) = driven.transpose()? else {
            terminal::complain("interrupted again; what was started has ended");
            return Ok(ExitCode::from(INTERRUPTED));
        };
        self.tell(&report)?;
        Ok(match (report.verdict, report.interrupted) {
            (Verdict::Broken, _) => ExitCode::FAILURE,
            (_, true) => ExitCode::from(INTERRUPTED),
            (Verdict::Unknown, false) => ExitCode::from(UNKNOWN),
            (Verdict::Held, false) => ExitCode::SUCCESS,
        })
    }

    /// What is made on the way is left in its place, for whoever cleans up.
    async fn drive(
        &self,
        file: &ExperimentFile,
        target: &Target,
        place: &OutputPlace,
        stopped: watch::Receiver<bool>,
        stage: &mut Option<Stage>,
        entities: &mut Option<RunEntities>,
    ) -> anyhow::Result<Report> {
        let tell = self.teller();
        tell(&format!("seed {}", file.seed));
        let stage = stage.insert(Stage::set_up(file, target, &tell).await.map_err(usage)?);
        if !file.entities.is_empty() {
            *entities = Some(RunEntities::create(stage.client(), &file.entities).await?);
        }
        let (logs, command) = (place.path().to_owned(), self.command(file.seed));
        let run = ExperimentRun { file, stage, logs, command, tell, stopped };
        run.run().await.map_err(usage)
    }

    /// Entities and rules of a cluster that stays. One of its own goes with all it has.
    async fn leave_nothing(&self, stage: Option<Stage>, entities: Option<RunEntities>) {
        if self.connect.is_empty() {
            return;
        }
        if let Some(mut stage) = stage
            && let Err(error) = stage.clear().await
        {
            terminal::complain(&format!("a fault rule is left behind: {error}"));
        }
        if let Some(mut entities) = entities.filter(|_| !self.keep) {
            entities.remove().await;
        }
    }

    fn read(&self) -> anyhow::Result<ExperimentFile> {
        let name = self.file.display().to_string();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| terminal::usage(format!("cannot read '{name}': {error}")))?;
        let run = uuid::Uuid::new_v4().as_u128() as u32;
        ExperimentFile::parse(&text, &name, run, self.seed).map_err(terminal::usage)
    }

    fn target(&self) -> anyhow::Result<Target> {
        if self.connect.is_empty() {
            let program = std::env::current_exe().context("cannot find this program's own file")?;
            return Ok(Target::Own { program });
        }
        let options = ClientOptions { give_up_after: PATIENCE, ..self.login.options()? };
        let addresses = self.connect.clone();
        Ok(Target::Given {
            addresses,
            options: Box::new(options),
            amqp: self.amqp.clone(),
            http: self.http.clone(),
        })
    }

    fn teller(&self) -> Tell {
        match self.quiet {
            true => Arc::new(|_| ()),
            false => Arc::new(terminal::note),
        }
    }

    /// What repeats it.
    fn command(&self, seed: u64) -> String {
        let mut command = format!("mayfly experiment run {} --seed {seed}", self.file.display());
        if !self.connect.is_empty() {
            command += &format!(" --connect {} --amqp {}", self.connect.join(","), self.amqp);
        }
        command
    }

    fn is_json_out(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    fn tell(&self, report: &Report) -> anyhow::Result<()> {
        if let Some(path) = self.json.as_ref().filter(|_| !self.is_json_out()) {
            let json = serde_json::to_string_pretty(report)? + "\n";
            std::fs::write(path, json)
                .with_context(|| format!("cannot write '{}'", path.display()))?;
        }
        if let Some(dir) = &self.report {
            let written = report.write(dir);
            written.with_context(|| format!("cannot write to '{}'", dir.display()))?;
            terminal::note(&format!("see {}", dir.join("report.html").display()));
        }
        match self.is_json_out() {
            true => terminal::json(report),
            false => terminal::line(report),
        }
    }
}

/// Where programs' outputs go: beside the report, or where nobody keeps them.
enum OutputPlace {
    Kept(PathBuf),
    Passing(TempDir),
}

impl OutputPlace {
    fn make(report: Option<&Path>) -> anyhow::Result<OutputPlace> {
        let Some(dir) = report else {
            let dir = TempDir::with_prefix("mayfly-experiment-");
            return Ok(OutputPlace::Passing(
                dir.context("cannot make a directory for programs' outputs")?,
            ));
        };
        let made = std::fs::create_dir_all(dir);
        made.map_err(|error| {
            let told = format!("--report: cannot make '{}': {error}", dir.display());
            terminal::usage(told)
        })?;
        Ok(OutputPlace::Kept(dir.to_owned()))
    }

    fn path(&self) -> &Path {
        match self {
            OutputPlace::Kept(dir) => dir,
            OutputPlace::Passing(dir) => dir.path(),
        }
    }
}

/// What was asked for wrongly is told so.
fn usage(error: experiment::Error) -> anyhow::Error {
    match error {
        experiment::Error::Wrong(told) => terminal::usage(told.replace('\n', " ")),
        other => other.into(),
    }
}
