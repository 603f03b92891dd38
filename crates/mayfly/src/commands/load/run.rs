//! `mayfly load run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use load::{AmqpTarget, LoadFile, LoadResult, LoadRun, Sasl, Target};
use tokio::sync::watch;

use super::entities::RunEntities;
use crate::commands::bench::{Spoken, progress};
use crate::connect::Connect;
use crate::interruption::{self, INTERRUPTED};
use crate::terminal;

/// Said at the first Ctrl-C.
const STOPPING: &str = "interrupted: what is under way is waited for; once more ends it at once";
const SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What producers and consumers speak: gRPC at --connect, AMQP at --amqp
    #[arg(long, value_name = "PROTOCOL", default_value = "grpc")]
    protocol: Spoken,
    /// Where AMQP is spoken: amqp://… for plain text, amqps://… for TLS
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        default_value = "127.0.0.1:5672"
    )]
    amqp: Vec<String>,
    /// How to log in over AMQP; without it plain where there is a key, and anonymous where there is none
    #[arg(long, value_name = "HOW")]
    sasl: Option<SaslLogin>,
    /// The file's queues and topics: created by --connect and removed at the end, or there already
    #[arg(long, value_name = "WHICH", default_value = "created")]
    entities: EntitySource,
    /// Leave what was created where it is
    #[arg(long, conflicts_with = "entities")]
    keep: bool,
    /// Measure for so long, with warm-up, cool-down and profiles of rates in proportion
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to write report.html, report.json, series.csv and latency.hlog
    #[arg(long, value_name = "DIRECTORY")]
    report: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SaslLogin {
    /// As nobody
    Anonymous,
    /// With the key's name and the key
    Plain,
    /// As nobody, and then with a signed token for each entity
    Sas,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EntitySource {
    /// Created before the run and removed after it
    Created,
    /// Used as they are
    Existing,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is no number of seconds"))?;
    match seconds > 0.0 && seconds <= SECONDS_MAX {
        true => Ok(seconds),
        false => Err(format!("{seconds} seconds; allowed is more than 0, and at most a week")),
    }
}

pub(super) async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let file = args.read()?;
    let target = args.target()?;
    let mut entities = match args.entities {
        EntitySource::Existing => None,
        EntitySource::Created if file.entities.is_empty() => None,
        EntitySource::Created => {
            Some(RunEntities::create(&args.connect.client()?, &file.entities).await?)
        }
    };
    let driven = args.drive(file, target).await;
    if let Some(entities) = entities.as_mut().filter(|_| !args.keep) {
        entities.remove().await;
    }
    let Some(LoadResult { report, interval_log }) = driven? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let json = serde_json::to_string_pretty(&report)? + "\n";
    if let Some(path) = &args.json {
        write(path, &json)?;
    }
    if let Some(dir) = &args.report {
        let cannot = || format!("cannot make the directory '{}'", dir.display());
        std::fs::create_dir_all(dir).with_context(cannot)?;
        write(&dir.join("report.json"), &json)?;
        write(&dir.join("report.html"), &report.to_page()?)?;
        write(&dir.join("series.csv"), &report.to_csv())?;
        write(&dir.join("latency.hlog"), &interval_log)?;
        terminal::note(&format!("see {}", dir.join("report.html").display()));
    }
    terminal::line(report.to_string().trim_end())?;
    Ok(match (report.interrupted, report.holds) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write '{}'", path.display()))
}

impl RunArgs {
    fn read(&self) -> anyhow::Result<LoadFile> {
        let name = self.file.display().to_string();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| terminal::usage(format!("cannot read '{name}': {error}")))?;
        let run = uuid::Uuid::new_v4().as_u128() as u32;
        LoadFile::parse(&text, &name, run, self.seconds).map_err(terminal::usage)
    }

    fn target(&self) -> anyhow::Result<Target> {
        match self.protocol {
            Spoken::Grpc => Ok(Target::Grpc(self.connect.client()?)),
            Spoken::Amqp => {
                let sasl = self.sasl.map(|login| match login {
                    SaslLogin::Anonymous => Sasl::Anonymous,
                    SaslLogin::Plain => Sasl::Plain,
                    SaslLogin::Sas => Sasl::Sas,
                });
                let options = self.connect.login.options()?;
                let target = AmqpTarget::new(self.amqp.clone(), &options, sasl);
                Ok(Target::Amqp(target.map_err(terminal::usage)?))
            }
        }
    }

    fn address(&self) -> String {
        match self.protocol {
            Spoken::Grpc => self.connect.connect.join(","),
            Spoken::Amqp => self.amqp.join(","),
        }
    }

    /// None: it was interrupted twice, and there is nothing to report.
    async fn drive(&self, file: LoadFile, target: Target) -> anyhow::Result<Option<LoadResult>> {
        let (bar, progress) = progress();
        let (stop, stopped) = watch::channel(false);
        let run = LoadRun { file, target, address: self.address(), progress, stop: stopped };
        let result = tokio::select! {
            result = run.run() => Some(result),
            interrupted = interruption::twice(stop, STOPPING) => {
                interrupted?;
                None
            }
        };
        bar.finish_and_clear();
        let result = result.transpose();
        result.map_err(|load::Error::Wrong(told)| terminal::usage(told.replace('\n', " ")))
    }
}
