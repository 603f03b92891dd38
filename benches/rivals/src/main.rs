//! NATS JetStream and RabbitMQ under the work of `mayfly bench lifecycle`: the same bodies, windows,
//! pace and histograms, and a report of the same names. `benches/compare.py` runs it.
//!
//! Reading order: what a broker must offer, the work, the two brokers.

mod broker;
mod work;

mod nats;
mod rabbitmq;

use std::time::Duration;

use clap::{Parser, ValueEnum};

use broker::Error;
use work::Work;

/// One broker, one queue: send, receive and acknowledge; prints a report as JSON
#[derive(Debug, Parser)]
struct Args {
    /// Whose client to use
    broker: Kind,
    /// Nodes, the queue's replicas are on all of them: host:port,…
    #[arg(long, value_delimiter = ',', required = true)]
    nodes: Vec<String>,
    #[arg(long, default_value_t = 4)]
    producers: u32,
    #[arg(long, default_value_t = 4)]
    consumers: u32,
    /// Messages a producer has under way
    #[arg(long, default_value_t = 256)]
    window: usize,
    /// Messages a consumer fetches ahead
    #[arg(long, default_value_t = 256)]
    prefetch: u16,
    /// Bytes of a body
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// Messages per second of all producers together; without it, as fast as they are answered
    #[arg(long)]
    rate: Option<f64>,
    /// How long to measure
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Seconds before that, not measured
    #[arg(long, default_value_t = 3)]
    warm_up: u64,
    /// NATS: acknowledgements are sent, and no answer to them is awaited
    #[arg(long)]
    acks_unconfirmed: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Nats,
    Rabbitmq,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let args = Args::parse();
    let work = Work {
        producers: args.producers,
        consumers: args.consumers,
        window: args.window,
        size: args.size,
        rate: args.rate,
        warm_up: Duration::from_secs(args.warm_up),
        measured: Duration::from_secs(args.seconds.max(1)),
    };
    let report = match args.broker {
        Kind::Nats => {
            let ahead = usize::from(args.prefetch) * args.consumers as usize;
            let settings = nats::Settings {
                replicas: args.nodes.len(),
                prefetch: args.prefetch.into(),
                unacknowledged_max: 2 * ahead,
                acks_confirmed: !args.acks_unconfirmed,
            };
            work.run(nats::NatsQueue::create(&args.nodes, settings).await?).await?
        }
        Kind::Rabbitmq => {
            work.run(rabbitmq::RabbitQueue::create(&args.nodes, args.prefetch).await?).await?
        }
    };
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
