//! Commands of those who work with queues, one file each.

mod authorization;
pub mod backup;
pub mod bench;
pub mod cert;
pub mod chaos;
pub mod clock;
pub mod cluster;
pub mod completions;
pub mod config;
pub mod connection;
pub mod definitions;
mod entity;
mod entity_list;
pub mod experiment;
pub mod fault;
pub mod health;
mod idle;
pub mod key;
pub mod load;
pub mod man;
pub mod message;
pub mod namespace;
pub mod peek;
pub mod properties;
pub mod purge;
pub mod queue;
pub mod receive;
pub mod resubmit;
pub mod rule;
mod run_entities;
pub mod send;
mod server_tls;
pub mod session;
pub mod subscription;
pub mod support;
pub mod top;
pub mod topic;

use client::{Client, QueuePath, subscription_path};

use crate::connect::ConnectWithin;
use crate::terminal;

/// A queue or a subscription on the command line, or one of its dead-letter queues.
#[derive(Clone, Debug, clap::Args)]
pub struct QueueArg {
    /// Name of the queue, or topic/subscription
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Its dead-letter queue instead
    #[arg(short = 'd', long)]
    pub dead_letter_queue: bool,
    /// What was sent via it, or via a topic, and not taken where it should go
    #[arg(long, conflicts_with = "dead_letter_queue")]
    pub transfer_dead_letter_queue: bool,
}

impl QueueArg {
    pub async fn path(&self, client: &Client) -> anyhow::Result<QueuePath> {
        let queue = receivable(client, &self.queue).await?;
        Ok(match (self.dead_letter_queue, self.transfer_dead_letter_queue) {
            (true, _) => QueuePath::dead_letter(queue),
            (_, true) => QueuePath::transfer_dead_letter(queue),
            (false, false) => QueuePath::main(queue),
        })
    }
}

/// The path of what a name on the command line means: `topic/subscription` is a subscription if there
/// is one, otherwise it is a queue of that name.
pub async fn receivable(client: &Client, name: &str) -> anyhow::Result<String> {
    let Some((topic, subscription)) = name.rsplit_once('/') else { return Ok(name.to_owned()) };
    if name.to_ascii_lowercase().contains("/subscriptions/") {
        return Ok(name.to_owned());
    }
    match client.get_subscription(topic, subscription).await {
        Ok(found) => Ok(subscription_path(&found.topic, &found.name)),
        Err(client::Error::Refused(_)) => Ok(name.to_owned()),
        Err(error) => Err(error.into()),
    }
}

/// Counters of a queue or a subscription.
pub async fn counters(client: &Client, path: &str) -> anyhow::Result<client::v1::QueueCounters> {
    let counters = match domain::split_subscription_path(path) {
        Some((topic, name)) => client.get_subscription(topic, name).await?.counters,
        None => client.get_queue(path).await?.counters,
    };
    Ok(counters.unwrap_or_default())
}

#[derive(Clone, Debug, clap::Args)]
pub struct Output {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectWithin,
}

/// Says that something is deleted; that it was not there is no error if it need not be.
fn told_deleted(
    what: &str,
    deleted: Result<(), client::Error>,
    if_exists: bool,
) -> anyhow::Result<()> {
    match deleted {
        Err(client::Error::Refused(detail))
            if if_exists && detail.name == "MessagingEntityNotFound" =>
        {
            terminal::line(format!("{what} does not exist"))
        }
        result => {
            result?;
            terminal::line(format!("{what} deleted"))
        }
    }
}

/// Names and values, one to a line.
fn show<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> anyhow::Result<()> {
    for (name, value) in rows {
        terminal::line(format!("{name:<26} {value}").trim_end())?;
    }
    Ok(())
}
