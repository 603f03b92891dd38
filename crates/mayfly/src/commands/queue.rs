//! `mayfly queue`.

use clap::Subcommand;
use client::{Client, v1};
use domain::{Patch, QueueProperties};
use serde_json::{Value, json};

use crate::commands::Output;
use crate::commands::entity::{self, Entity, Standing, standing};
use crate::commands::entity_list::{Flow, Listing};
use crate::commands::properties::{self, Created, Updated, status_name};
use crate::connect::ConnectWithin;
use crate::input::duration;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly queue create orders --ttl 1h --dead-letter-on-expiration --max-delivery-count 5
  mayfly queue list --prefix test-
  mayfly queue list --idle
  mayfly queue list --watch
  mayfly queue show orders --json | jq .counters
  mayfly queue update orders --status disabled
  mayfly queue create intake --forward-to orders --forward-dead-letters-to graveyard
  mayfly queue update orders --authorization-rule worker=listen --authorization-rule shop=send
  mayfly queue show orders --keys
  mayfly queue move orders --group 5
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
        #[command(flatten)]
        listing: Listing,
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
    /// Move a queue to another data group, while it is used
    Move {
        /// Name of the queue
        name: String,
        /// Number of the group
        #[arg(long)]
        group: u32,
        #[command(flatten)]
        connect: ConnectWithin,
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
        connect: ConnectWithin,
    },
}

pub async fn run(args: QueueArgs) -> anyhow::Result<()> {
    match args.command {
        QueueCommand::Create { name, properties, output } => {
            let client = output.connect.client()?;
            let queue = client.create_queue(&name, properties.0.into()).await?;
            entity::done(&output, &queue, "created")
        }
        QueueCommand::Update { name, properties, output } => {
            let client = output.connect.client()?;
            let queue = client.update_queue(&name, properties.some()?.into()).await?;
            entity::done(&output, &queue, "updated")
        }
        QueueCommand::Show { name, keys, output } => {
            let queue = output.connect.client()?.get_queue(&name).await?;
            entity::show(&output, &queue, keys)
        }
        QueueCommand::List { prefix, listing } => {
            let prefix = &prefix;
            listing.show(async |client: &Client| client.list_queues(prefix).await).await
        }
        QueueCommand::Move { name, group, connect } => {
            let client = connect.client()?;
            let queue = client.get_queue(&name).await?;
            entity::relocate(&client, &queue, group).await
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

impl Entity for v1::Queue {
    type Properties = QueueProperties;

    const MANY: &'static str = "queues";
    const HEADER: &'static [&'static str] =
        &["name", "status", "active", "scheduled", "deferred", "dead", "size", "ttl", "leader"];
    const NUMBERS: &'static [usize] = &[2, 3, 4, 5, 6, 8];

    fn title(&self) -> String {
        format!("queue '{}'", self.name)
    }

    fn told(&self) -> anyhow::Result<Patch<QueueProperties>> {
        properties::told(self.properties.clone())
    }

    fn standing(&self) -> Standing {
        standing!(self, self.counters.unwrap_or_default().scheduled)
    }

    fn flow(&self) -> Flow {
        entity::flow_of(&self.counters.unwrap_or_default())
    }

    fn row(&self) -> anyhow::Result<Vec<String>> {
        let counters = self.counters.unwrap_or_default();
        let properties = self.told()?.applied_to(QueueProperties::default());
        Ok(vec![
            self.name.clone(),
            status_name(properties.status).to_owned(),
            terminal::count(counters.active),
            terminal::count(counters.scheduled),
            terminal::count(counters.deferred),
            terminal::count(counters.dead_lettered),
            terminal::bytes(counters.size_bytes),
            duration::show_ms(properties.default_ttl.0),
            self.leader_node.to_string(),
        ])
    }

    fn place(&self) -> Vec<(&'static str, String)> {
        vec![("name", self.name.clone()), ("group", self.standing().leadership())]
    }

    fn counted(&self) -> Vec<(&'static str, String)> {
        let counters = self.counters.unwrap_or_default();
        vec![
            (
                "active",
                format!(
                    "{} ({} not locked)",
                    terminal::count(counters.active),
                    terminal::count(counters.available)
                ),
            ),
            ("waiting to be moved on", terminal::count(counters.transfer)),
            ("scheduled", terminal::count(counters.scheduled)),
            ("deferred", terminal::count(counters.deferred)),
            ("dead-lettered", terminal::count(counters.dead_lettered)),
            ("transfer dead-lettered", terminal::count(counters.transfer_dead_lettered)),
            ("size", terminal::bytes(counters.size_bytes)),
            ("accepted since creation", terminal::count(counters.accepted)),
            ("completed", terminal::count(counters.completed)),
            ("cancelled", terminal::count(counters.cancelled)),
            ("dropped by expiry", terminal::count(counters.expired_dropped)),
            ("deleted", terminal::count(counters.deleted)),
            ("forwarded", terminal::count(counters.forwarded)),
        ]
    }

    fn members(&self) -> Value {
        let counters = self.counters.unwrap_or_default();
        json!({
            "name": self.name,
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
        })
    }
}
