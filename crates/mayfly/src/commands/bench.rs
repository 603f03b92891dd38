//! `mayfly bench`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Subcommand, ValueEnum};
use client::Client;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use workload::{
    BacklogBench, ChurnBench, Disturbance, ExpiryBench, LifecycleBench, NeighbourBench, Progress,
    Protocol,
};

use crate::connect::ConnectWithin;
use crate::input::duration;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly bench lifecycle --seconds 20
  mayfly bench lifecycle --rate 2000 --json
  mayfly bench lifecycle --protocol amqp
  mayfly bench expiry --messages 200000 --ttl 5s..25s --rate 2000
  mayfly bench backlog --messages 3000000 --from 1000000
  mayfly bench backlog --messages 1000000 --from 0 --keep     then lifecycle --queue, beside it
  mayfly bench neighbour --with expire,purge --messages 1000000
  mayfly bench churn --cycles 100000 --move-clock

A bench that is interrupted leaves its queues behind, as bench-…";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Send, receive and complete; one settlement per message
    Lifecycle(Lifecycle),
    /// Many deadlines, and an ingest that runs meanwhile
    Expiry(Expiry),
    /// A queue that nobody reads: memory and device bytes as it grows
    Backlog(Backlog),
    /// A queue in steady use, while bulk work strikes another queue of its group
    Neighbour(Neighbour),
    /// Small queues created, used and deleted, and what that leaves behind
    Churn(Churn),
}

/// What producers and consumers speak.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Spoken {
    /// The native API
    Grpc,
    /// What the Azure SDKs speak
    Amqp,
}

#[derive(Debug, clap::Args)]
struct Lifecycle {
    /// What producers and consumers speak
    #[arg(long, value_name = "PROTOCOL", default_value = "grpc")]
    protocol: Spoken,
    /// Where AMQP is spoken; those that do not answer are passed over
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    #[arg(default_value = "127.0.0.1:5672,127.0.0.1:6672,127.0.0.1:7672")]
    amqp: Vec<String>,
    /// Queues, all alike
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    queues: u32,
    /// A queue that is there and stays, with what it holds; at a --rate no more is taken from it than
    /// is sent
    #[arg(long, value_name = "NAME", conflicts_with = "queues")]
    queue: Option<String>,
    /// Producers, spread over the queues
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    producers: u32,
    /// Consumers, spread over the queues
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    consumers: u32,
    /// Messages a producer has under way
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    window: usize,
    /// Messages a consumer fetches ahead
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    prefetch: u32,
    /// Bytes of a body
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// Messages per second of all producers together; without it, as fast as they are answered
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Time to live of each message
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// How long to measure
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    seconds: u64,
    /// Seconds before that, not measured
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    warm_up: u64,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectWithin,
}

#[derive(Debug, clap::Args)]
struct Expiry {
    /// Deadlines to fill
    #[arg(long, value_name = "COUNT", default_value_t = 200_000)]
    messages: u64,
    /// When they fall due, reckoned from the planned end of the filling
    #[arg(long, value_name = "FROM..TO", default_value = "5s..25s")]
    #[arg(value_parser = duration::parse_range)]
    ttl: (Duration, Duration),
    /// Time planned for the filling; without it, what a small cluster needs
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    fill: Option<Duration>,
    /// Messages per second sent meanwhile
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Bytes of a body
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    size: usize,
    /// Queues the deadlines are spread over
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    queues: u32,
    /// Dead-letter what expires; without it, it is dropped
    #[arg(long)]
    dead_letter: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectWithin,
}

#[derive(Debug, clap::Args)]
struct Backlog {
    /// Messages to queue
    #[arg(long, value_name = "COUNT", default_value_t = 3_000_000)]
    messages: u64,
    /// Memory's growth is reckoned from so many on
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    from: u64,
    /// Bytes of a body
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    size: usize,
    /// Time to live of each message: so many deadlines are pending
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// Leave the queue where it is; the report names it
    #[arg(long)]
    keep: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectWithin,
}

#[derive(Debug, clap::Args)]
struct Neighbour {
    /// What strikes the other queue, one after the other; all of them without it
    #[arg(long = "with", value_name = "WHAT", value_delimiter = ',', value_parser = disturbances())]
    disturbances: Vec<Disturbance>,
    /// Messages in the queue that is struck
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    messages: u64,
    /// Bytes of a body
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    size: usize,
    /// The neighbour's messages per second
    #[arg(long, value_name = "PER_SECOND", default_value_t = 500.0)]
    rate: f64,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectWithin,
}

#[derive(Debug, clap::Args)]
struct Churn {
    /// Queues to create, use and delete
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    cycles: u64,
    /// Of them at a time
    #[arg(long, value_name = "COUNT", default_value_t = 32)]
    at_a_time: u32,
    /// Bytes of a body
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    size: usize,
    /// Move the clock of a cluster in development mode by 16 minutes before every twentieth: what is
    /// kept to answer repeats has its full size then, and grows no more
    #[arg(long)]
    move_clock: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectWithin,
}

/// Reads a disturbance by its name.
fn disturbances() -> impl TypedValueParser<Value = Disturbance> {
    PossibleValuesParser::new(Disturbance::ALL.map(Disturbance::name)).map(|given| {
        let named = |disturbance: &Disturbance| disturbance.name() == given;
        Disturbance::ALL.into_iter().find(named).expect("the parser lets only these through")
    })
}

pub async fn run(args: BenchArgs) -> anyhow::Result<()> {
    match args.command {
        BenchCommand::Lifecycle(args) => lifecycle(args).await,
        BenchCommand::Expiry(args) => expiry(args).await,
        BenchCommand::Backlog(args) => backlog(args).await,
        BenchCommand::Neighbour(args) => neighbour(args).await,
        BenchCommand::Churn(args) => churn(args).await,
    }
}

async fn lifecycle(args: Lifecycle) -> anyhow::Result<()> {
    let protocol = match args.protocol {
        Spoken::Grpc => Protocol::Grpc,
        Spoken::Amqp => Protocol::Amqp(args.amqp),
    };
    let bench = LifecycleBench {
        protocol,
        queues: args.queues,
        queue: args.queue,
        producers: args.producers,
        consumers: args.consumers,
        window: args.window,
        prefetch: args.prefetch,
        size: args.size,
        rate: args.rate,
        ttl: args.ttl,
        warm_up: Duration::from_secs(args.warm_up),
        measured: Duration::from_secs(args.seconds.max(1)),
    };
    let run = async |client: &Client, progress: &Progress| bench.run(client, progress).await;
    drive(&args.connect, args.json, run, |report| &report.errors).await
}

async fn expiry(args: Expiry) -> anyhow::Result<()> {
    let bench = ExpiryBench {
        messages: args.messages,
        ttl_from: args.ttl.0,
        ttl_to: args.ttl.1,
        fill: args.fill.unwrap_or_else(|| ExpiryBench::fill_default(args.messages)),
        rate: args.rate,
        size: args.size,
        dead_letter: args.dead_letter,
        queues: args.queues,
    };
    let run = async |client: &Client, progress: &Progress| bench.run(client, progress).await;
    drive(&args.connect, args.json, run, |report| &report.errors).await
}

async fn backlog(args: Backlog) -> anyhow::Result<()> {
    let Backlog { messages, from, size, ttl, keep, .. } = args;
    let bench = BacklogBench { messages, from, size, ttl, keep };
    let run = async |client: &Client, progress: &Progress| bench.run(client, progress).await;
    drive(&args.connect, args.json, run, |report| &report.errors).await
}

async fn neighbour(args: Neighbour) -> anyhow::Result<()> {
    let disturbances = match args.disturbances {
        none if none.is_empty() => Disturbance::ALL.to_vec(),
        some => some,
    };
    let bench =
        NeighbourBench { disturbances, messages: args.messages, size: args.size, rate: args.rate };
    let run = async |client: &Client, progress: &Progress| bench.run(client, progress).await;
    drive(&args.connect, args.json, run, |report| &report.errors).await
}

async fn churn(args: Churn) -> anyhow::Result<()> {
    let Churn { cycles, at_a_time, size, move_clock, .. } = args;
    let bench = ChurnBench { cycles, at_a_time, size, move_clock };
    let run = async |client: &Client, progress: &Progress| bench.run(client, progress).await;
    drive(&args.connect, args.json, run, |report| &report.errors).await
}

/// Runs a bench with a progress bar and prints its report; an error if messages were refused.
async fn drive<R: Serialize + Display>(
    connect: &ConnectWithin,
    json: bool,
    bench: impl AsyncFnOnce(&Client, &Progress) -> Result<R, workload::Error>,
    errors: impl FnOnce(&R) -> &BTreeMap<String, u64>,
) -> anyhow::Result<()> {
    let client = connect.client()?;
    let (bar, progress) = progress();
    let result = bench(&client, &progress).await;
    bar.finish_and_clear();
    let report = result.map_err(wrong_is_usage)?;
    if json { terminal::json(&report) } else { terminal::line(report.to_string().trim_end()) }?;
    match failed(errors(&report)) {
        0 => Ok(()),
        count => {
            Err(anyhow!("{count} messages were refused or failed; the report's errors say why"))
        }
    }
}

/// Messages that were certainly not served: what is in doubt was perhaps done.
fn failed(errors: &BTreeMap<String, u64>) -> u64 {
    errors.iter().filter(|(name, _)| *name != "perhaps done").map(|(_, count)| count).sum()
}

fn wrong_is_usage(error: workload::Error) -> anyhow::Error {
    match error {
        workload::Error::Wrong(message) => terminal::usage(message),
        workload::Error::Client(error) => error.into(),
    }
}

/// A bar, or lines where no person looks.
pub fn progress() -> (ProgressBar, Progress) {
    let bar = ProgressBar::new(1000);
    if bar.is_hidden() {
        return (bar, Progress::new(lines()));
    }
    let style = ProgressStyle::with_template("{prefix:12} {wide_bar:.cyan/dim} {msg}");
    bar.set_style(style.expect("the template is a constant"));
    let told = bar.clone();
    let progress = Progress::new(move |phase, share, figures| {
        told.set_prefix(phase.to_owned());
        told.set_position((share * 1000.0) as u64);
        told.set_message(figures.to_owned());
    });
    (bar, progress)
}

/// How often a phase that lasts is told of in lines.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// A line on standard error for each phase, and more of them while it lasts.
fn lines() -> impl Fn(&str, f64, &str) + Send + Sync {
    let last = Mutex::new((String::new(), Instant::now()));
    move |phase, share, figures| {
        let mut last = last.lock().expect("nobody panics holding it");
        if last.0 != phase || last.1.elapsed() >= LINE_EVERY {
            *last = (phase.to_owned(), Instant::now());
            eprintln!("mayfly: {phase} {:.0} % {figures}", share * 100.0);
        }
    }
}
