//! `mayfly queue`.

use clap::Subcommand;
use client::v1;
use domain::{Patch, QueueProperties};
use serde_json::{Value, json};

use crate::commands::properties::{self, Created, Updated, status_name};
use crate::commands::{Output, idle};
use crate::connect::Connect;
use crate::input::{duration, instant};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly queue create orders --ttl 1h --dead-letter-on-expiration --max-delivery-count 5
  mayfly queue list --prefix test-
  mayfly queue list --idle
  mayfly queue show orders --json | jq .counters
  mayfly queue update orders --status disabled
  mayfly queue create intake --forward-to orders --forward-dead-letters-to graveyard
  mayfly queue update orders --authorization-rule worker=listen --authorization-rule shop=send
  mayfly queue show orders --keys
  mayfly queue delete orders";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct QueueArgs {
    #[command(subcommand)]
    command: QueueCommand,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    /// Create a queue
    Create {
        /// Name of the queue
        name: String,
        #[command(flatten)]
        properties: Created<QueueProperties>,
        #[command(flatten)]
        output: Output,
    },
    /// Properties and counters
    Show {
        /// Name of the queue
        name: String,
        /// The keys of its authorization rules too
        #[arg(long)]
        keys: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Queues with their counters, in order of name
    List {
        /// Only names that begin so
        #[arg(long, default_value = "")]
        prefix: String,
        /// When each was last used, what keeps it, and when it will be deleted if nobody uses it
        #[arg(long)]
        idle: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Change the given properties, leave the others
    Update {
        /// Name of the queue
        name: String,
        #[command(flatten)]
        properties: Updated<QueueProperties>,
        #[command(flatten)]
        output: Output,
    },
    /// Delete a queue and all its messages
    Delete {
        /// Names of the queues
        #[arg(required = true)]
        names: Vec<String>,
        /// No error where a queue does not exist
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        connect: Connect,
    },
}

pub async fn run(args: QueueArgs) -> anyhow::Result<()> {
    match args.command {
        QueueCommand::Create { name, properties, output } => {
            let client = output.connect.client()?;
            let queue = client.create_queue(&name, properties.0.into()).await?;
            done(&output, &queue, "created")
        }
        QueueCommand::Update { name, properties, output } => {
            let client = output.connect.client()?;
            let queue = client.update_queue(&name, properties.some()?.into()).await?;
            done(&output, &queue, "updated")
        }
        QueueCommand::Show { name, keys, output } => {
            let queue = output.connect.client()?.get_queue(&name).await?;
            match output.json {
                true => terminal::json(&as_json(&queue, keys)?),
                false => show(&queue, keys),
            }
        }
        QueueCommand::List { prefix, idle, output } => {
            let client = output.connect.client()?;
            let queues = client.list_queues(&prefix).await?;
            match output.json {
                true => {
                    let queues = queues.iter().map(|queue| as_json(queue, false));
                    terminal::json(&queues.collect::<anyhow::Result<Vec<_>>>()?)
                }
                false if idle => idle::list(&queues, "no queues", client.now().await?.now_ms),
                false => list(&queues),
            }
        }
        QueueCommand::Delete { names, if_exists, connect } => {
            let client = connect.client()?;
            for name in names {
                let deleted = client.delete_queue(&name).await;
                super::told_deleted(&format!("queue '{name}'"), deleted, if_exists)?;
            }
            Ok(())
        }
    }
}

fn done(output: &Output, queue: &v1::Queue, what: &str) -> anyhow::Result<()> {
    match output.json {
        true => terminal::json(&as_json(queue, false)?),
        false => terminal::line(format!("queue '{}' {what}", queue.name)),
    }
}

fn list(queues: &[v1::Queue]) -> anyhow::Result<()> {
    if queues.is_empty() {
        return terminal::line("no queues");
    }
    let row = |queue: &v1::Queue| {
        let counters = queue.counters.unwrap_or_default();
        let properties = told(queue)?.applied_to(QueueProperties::default());
        Ok(vec![
            queue.name.clone(),
            status_name(properties.status).to_owned(),
            terminal::count(counters.active),
            terminal::count(counters.scheduled),
            terminal::count(counters.deferred),
            terminal::count(counters.dead_lettered),
            terminal::bytes(counters.size_bytes),
            duration::show_ms(properties.default_ttl.0),
            queue.leader_node.to_string(),
        ])
    };
    let header =
        ["name", "status", "active", "scheduled", "deferred", "dead", "size", "ttl", "leader"];
    let rows = queues.iter().map(row).collect::<anyhow::Result<_>>()?;
    terminal::line(terminal::table(&header, &[2, 3, 4, 5, 6, 8], rows))
}

fn told(queue: &v1::Queue) -> anyhow::Result<Patch<QueueProperties>> {
    properties::told(queue.properties.clone())
}

fn show(queue: &v1::Queue, keys: bool) -> anyhow::Result<()> {
    let told = told(queue)?;
    let counters = queue.counters.unwrap_or_default();
    let count = |number: u64| terminal::count(number);
    let place = [
        ("name", queue.name.clone()),
        ("group", format!("{}, led by node {}", queue.group, queue.leader_node)),
    ];
    let state = [
        ("created", instant::show_ms(queue.created_at_ms)),
        ("updated", instant::show_ms(queue.updated_at_ms)),
        ("accessed", instant::show_ms(queue.accessed_at_ms)),
        ("deleted as idle", super::deleted_at(queue.deleted_at_ms)),
        (
            "active",
            format!("{} ({} not locked)", count(counters.active), count(counters.available)),
        ),
        ("waiting to be moved on", count(counters.transfer)),
        ("scheduled", count(counters.scheduled)),
        ("deferred", count(counters.deferred)),
        ("dead-lettered", count(counters.dead_lettered)),
        ("transfer dead-lettered", count(counters.transfer_dead_lettered)),
        ("size", terminal::bytes(counters.size_bytes)),
        ("accepted since creation", count(counters.accepted)),
        ("completed", count(counters.completed)),
        ("cancelled", count(counters.cancelled)),
        ("dropped by expiry", count(counters.expired_dropped)),
        ("deleted", count(counters.deleted)),
        ("forwarded", count(counters.forwarded)),
    ];
    super::show(place.into_iter().chain(properties::shown(&told, keys)).chain(state))
}

fn as_json(queue: &v1::Queue, keys: bool) -> anyhow::Result<Value> {
    let told = told(queue)?;
    let counters = queue.counters.unwrap_or_default();
    Ok(json!({
        "name": queue.name,
        "status": properties::status(&told),
        "properties": properties::as_json(&told, keys),
        "counters": {
            "active": counters.active,
            "scheduled": counters.scheduled,
            "deferred": counters.deferred,
            "dead_lettered": counters.dead_lettered,
            "total": counters.total,
            "size_bytes": counters.size_bytes,
            "available": counters.available,
            "available_dead_letter": counters.available_dead_letter,
            "accepted": counters.accepted,
            "completed": counters.completed,
            "cancelled": counters.cancelled,
            "expired_dropped": counters.expired_dropped,
            "deleted": counters.deleted,
            "transfer": counters.transfer,
            "transfer_dead_lettered": counters.transfer_dead_lettered,
            "available_transfer_dead_letter": counters.available_transfer_dead_letter,
            "forwarded": counters.forwarded,
        },
        "created_at": instant::show_ms(queue.created_at_ms),
        "updated_at": instant::show_ms(queue.updated_at_ms),
        "accessed_at": instant::show_ms(queue.accessed_at_ms),
        "last_use": instant::show_ms(queue.last_use_ms),
        "idle_since": queue.idle_since_ms.map(instant::show_ms),
        "deleted_at": queue.deleted_at_ms.map(instant::show_ms),
        "group": queue.group,
        "leader_node": queue.leader_node,
    }))
}
