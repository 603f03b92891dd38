//! `mayfly load run`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use client::Trust;
use load::{LoadFile, LoadReport, LoadResult, LoadRun, Sasl, TargetAddress, Watcher, WorkersRun};
use remote::Places;
use tokio::sync::watch;

use super::secret::WorkerSecret;
use super::shipped::{self, ShippedLoad};
use super::view::Screen;
use crate::commands::bench::Spoken;
use crate::commands::run_entities::RunEntities;
use crate::connect::{ConnectWithin, authorities};
use crate::interruption::{self, INTERRUPTED};
use crate::terminal;

/// Said at the first Ctrl-C.
const STOPPING: &str = "interrupted: what is under way is waited for; once more ends it at once";
/// Of what goes on, where no person looks.
const LINE_EVERY: Duration = Duration::from_millis(950);
const SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// The file, or the name of a load that ships where there is no such file
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
    /// Write the report as JSON; '-' is standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Tell nothing while it runs; what goes wrong is told all the same
    #[arg(long, short)]
    quiet: bool,
    /// Where to write report.html, report.json, series.csv and latency.hlog
    #[arg(long, value_name = "DIRECTORY")]
    report: Option<PathBuf>,
    /// Workers that generate the load, 'mayfly load worker'; https://… where they speak TLS
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', help_heading = "Workers")]
    workers: Vec<String>,
    /// Trust workers with the certificates this PEM file vouches for, in place of those the system trusts
    #[arg(long, value_name = "FILE", requires = "workers", help_heading = "Workers")]
    workers_ca: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Workers")]
    worker_secret: WorkerSecret,
    #[command(flatten)]
    connect: ConnectWithin,
}

/// A worker was lost on the way.
const WORKER_LOST: u8 = 3;

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
    let workers = args.workers(&target)?;
    // Before anything is created.
    target.open().map_err(usage)?.offers(&file).await.map_err(usage)?;
    let mut entities = match args.entities {
        EntitySource::Existing => None,
        EntitySource::Created if file.entities.is_empty() => None,
        EntitySource::Created => {
            Some(RunEntities::create(&args.connect.client()?, &file.entities).await?)
        }
    };
    let driven = args.drive(file, target, workers).await;
    if let Some(entities) = entities.as_mut().filter(|_| !args.keep) {
        entities.remove().await;
    }
    let Some(LoadResult { report, interval_log }) = driven? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let json = serde_json::to_string_pretty(&report)? + "\n";
    match &args.json {
        Some(_) if args.is_json_out() => terminal::line(json.trim_end())?,
        Some(path) => write(path, &json)?,
        None => {}
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
    if !args.is_json_out() {
        terminal::line(report.to_string().trim_end())?;
    }
    Ok(exit_code(&report))
}

fn exit_code(report: &LoadReport) -> ExitCode {
    match report {
        _ if report.workers.iter().any(|of| of.lost.is_some()) => ExitCode::from(WORKER_LOST),
        _ if report.interrupted => ExitCode::from(INTERRUPTED),
        _ if report.holds => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write '{}'", path.display()))
}

impl RunArgs {
    fn read(&self) -> anyhow::Result<LoadFile> {
        let name = self.file.display().to_string();
        let shipped = ShippedLoad::find(&name).filter(|_| !self.file.exists());
        let text = match shipped {
            Some(load) => load.text.to_owned(),
            None => std::fs::read_to_string(&self.file).map_err(|error| {
                let is_name = error.kind() == ErrorKind::NotFound && !name.contains(['/', '.']);
                let told = if is_name { shipped::unknown(&name) } else { error.to_string() };
                terminal::usage(format!("cannot read '{name}': {told}"))
            })?,
        };
        let run = uuid::Uuid::new_v4().as_u128() as u32;
        LoadFile::parse(&text, &name, run, self.seconds).map_err(terminal::usage)
    }

    fn target(&self) -> anyhow::Result<TargetAddress> {
        let options = self.connect.options()?;
        let (spoken, addresses) = match self.protocol {
            Spoken::Grpc => (load::Spoken::Grpc, &self.connect.cluster.connect),
            Spoken::Amqp => {
                let sasl = self.sasl.map(|login| match login {
                    SaslLogin::Anonymous => Sasl::Anonymous,
                    SaslLogin::Plain => Sasl::Plain,
                    SaslLogin::Sas => Sasl::Sas,
                });
                (load::Spoken::Amqp(sasl), &self.amqp)
            }
        };
        let target = TargetAddress { spoken, addresses: addresses.clone(), options };
        Ok(target)
    }

    /// None: this process generates the load.
    fn workers(&self, target: &TargetAddress) -> anyhow::Result<Option<Places>> {
        if self.workers.is_empty() {
            return Ok(None);
        }
        for (at, address) in self.workers.iter().enumerate() {
            if self.workers[..at].contains(address) {
                let told =
                    format!("--workers: {address} is given twice, and takes one part at a time");
                return Err(terminal::usage(told));
            }
            if target.options.secret.is_some() && !is_private(address) {
                return Err(terminal::usage(format!(
                    "--workers: the target's key would go to {address} in plain text; start the worker \
                     with --tls-cert and write https://{address}"
                )));
            }
        }
        let secret = self.worker_secret.read()?;
        let trust = match &self.workers_ca {
            None => Trust::System,
            Some(path) => authorities("--workers-ca", path)?,
        };
        Ok(Some(Places { addresses: self.workers.clone(), secret: Some(secret), trust }))
    }

    fn is_json_out(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// On the screen, or a line a second.
    fn watcher(&self, screen: Option<Arc<Screen>>) -> Watcher {
        if let Some(screen) = screen {
            return Box::new(move |glance| screen.show(glance));
        }
        if self.quiet {
            return Box::new(|_| ());
        }
        let last = Mutex::new(None::<Instant>);
        Box::new(move |glance| {
            let mut last = last.lock().unwrap_or_else(|poison| poison.into_inner());
            if last.is_none_or(|last| last.elapsed() >= LINE_EVERY) {
                *last = Some(Instant::now());
                terminal::note(&glance.to_string());
            }
        })
    }

    /// None: it was interrupted twice, and there is nothing to report.
    async fn drive(
        &self,
        file: LoadFile,
        target: TargetAddress,
        workers: Option<Places>,
    ) -> anyhow::Result<Option<LoadResult>> {
        let title = format!("{}: {} to {}", file.name, target.protocol(), target.name());
        let screen = match self.quiet || self.is_json_out() {
            true => None,
            false => Screen::open(title).map(Arc::new),
        };
        let (stop, stopped) = watch::channel(false);
        let run = LoadRun { file, target, watcher: self.watcher(screen.clone()), stop: stopped };
        let (noted, interrupted) = (screen.clone(), screen.clone());
        let note = move |told: &str| match &noted {
            Some(screen) => screen.note(told),
            None => terminal::complain(told),
        };
        let stopping = move || match &interrupted {
            Some(screen) => screen.note(STOPPING),
            None => terminal::note(STOPPING),
        };
        let run = async move {
            match workers {
                None => run.run().await,
                Some(workers) => {
                    let notice = Box::new(note);
                    WorkersRun { run, workers, notice }.run().await
                }
            }
        };
        let result = tokio::select! {
            result = run => Some(result),
            interrupted = interruption::twice(stop, stopping) => {
                interrupted?;
                None
            }
        };
        drop(screen);
        result.transpose().map_err(usage)
    }
}

fn usage(load::Error::Wrong(told): load::Error) -> anyhow::Error {
    terminal::usage(told.replace('\n', " "))
}

/// Whether nobody overhears what goes there: it is encrypted, or does not leave this machine.
fn is_private(address: &str) -> bool {
    let plain = match address.split_once("://") {
        Some(("https", _)) => return true,
        Some((_, plain)) => plain,
        None => address,
    };
    let host = plain.rsplit_once(':').map_or(plain, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
