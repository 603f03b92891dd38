//! `mayfly topic`.

use clap::Subcommand;
use client::{Client, v1};
use domain::{Patch, TopicProperties};
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
  mayfly topic create prices --ttl 10s
  mayfly subscription create prices audit
  mayfly send prices 'EURUSD 1.08'
  mayfly topic list --idle
  mayfly topic show prices --json | jq .counters
  mayfly topic move prices --group 5             with all its subscriptions
  mayfly topic delete prices                     with all its subscriptions";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TopicArgs {
    #[command(subcommand)]
    command: TopicCommand,
}

#[derive(Debug, Subcommand)]
enum TopicCommand {
    /// Create a topic
    Create {
        /// Name of the topic
        name: String,
        #[command(flatten)]
        properties: Created<TopicProperties>,
        #[command(flatten)]
        output: Output,
    },
    /// Properties and counters
    Show {
        /// Name of the topic
        name: String,
        /// The keys of its authorization rules too
        #[arg(long)]
        keys: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Topics with their counters, in order of name
    List {
        /// Only names that begin so
        #[arg(long, default_value = "")]
        prefix: String,
        #[command(flatten)]
        listing: Listing,
    },
    /// Change the given properties, leave the others
    Update {
        /// Name of the topic
        name: String,
        #[command(flatten)]
        properties: Updated<TopicProperties>,
        #[command(flatten)]
        output: Output,
    },
    /// Move a topic with its subscriptions to another data group, while it is used
    Move {
        /// Name of the topic
        name: String,
        /// Number of the group
        #[arg(long)]
        group: u32,
        #[command(flatten)]
        connect: ConnectWithin,
    },
    /// Delete a topic, its subscriptions, and all their messages
    Delete {
        /// Names of the topics
        #[arg(required = true)]
        names: Vec<String>,
        /// No error where a topic does not exist
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        connect: ConnectWithin,
    },
}

pub async fn run(args: TopicArgs) -> anyhow::Result<()> {
    match args.command {
        TopicCommand::Create { name, properties, output } => {
            let client = output.connect.client()?;
            let topic = client.create_topic(&name, properties.0.into()).await?;
            entity::done(&output, &topic, "created")
        }
        TopicCommand::Update { name, properties, output } => {
            let client = output.connect.client()?;
            let topic = client.update_topic(&name, properties.some()?.into()).await?;
            entity::done(&output, &topic, "updated")
        }
        TopicCommand::Show { name, keys, output } => {
            let topic = output.connect.client()?.get_topic(&name).await?;
            entity::show(&output, &topic, keys)
        }
        TopicCommand::List { prefix, listing } => {
            let prefix = &prefix;
            listing.show(async |client: &Client| client.list_topics(prefix).await).await
        }
        TopicCommand::Move { name, group, connect } => {
            let client = connect.client()?;
            let topic = client.get_topic(&name).await?;
            entity::relocate(&client, &topic, group).await
        }
        TopicCommand::Delete { names, if_exists, connect } => {
            let client = connect.client()?;
            for name in names {
                let deleted = client.delete_topic(&name).await;
                super::told_deleted(&format!("topic '{name}'"), deleted, if_exists)?;
            }
            Ok(())
        }
    }
}

impl Entity for v1::Topic {
    type Properties = TopicProperties;

    const MANY: &'static str = "topics";
    const HEADER: &'static [&'static str] =
        &["name", "status", "subscriptions", "published", "scheduled", "size", "ttl", "leader"];
    const NUMBERS: &'static [usize] = &[2, 3, 4, 5, 7];

    fn title(&self) -> String {
        format!("topic '{}'", self.name)
    }

    fn told(&self) -> anyhow::Result<Patch<TopicProperties>> {
        properties::told(self.properties.clone())
    }

    fn standing(&self) -> Standing {
        standing!(self, self.counters.unwrap_or_default().scheduled)
    }

    fn flow(&self) -> Flow {
        Flow { came: self.counters.map(|counters| counters.published), went: None }
    }

    fn row(&self) -> anyhow::Result<Vec<String>> {
        let counters = self.counters.unwrap_or_default();
        let properties = self.told()?.applied_to(TopicProperties::default());
        Ok(vec![
            self.name.clone(),
            status_name(properties.status).to_owned(),
            terminal::count(counters.subscriptions.into()),
            terminal::count(counters.published),
            terminal::count(counters.scheduled),
            terminal::bytes(counters.size_bytes),
            duration::show_ms(properties.default_ttl.0),
            self.leader_node.to_string(),
        ])
    }

    fn place(&self) -> Vec<(&'static str, String)> {
        let counters = self.counters.unwrap_or_default();
        vec![
            ("name", self.name.clone()),
            ("group", self.standing().leadership()),
            ("subscriptions", terminal::count(counters.subscriptions.into())),
            ("SQL filters", terminal::count(counters.sql_filters.into())),
            ("correlation filters", terminal::count(counters.correlation_filters.into())),
        ]
    }

    fn counted(&self) -> Vec<(&'static str, String)> {
        let counters = self.counters.unwrap_or_default();
        vec![
            ("scheduled", terminal::count(counters.scheduled)),
            ("size, all copies", terminal::bytes(counters.size_bytes)),
            ("accepted since creation", terminal::count(counters.accepted)),
            ("published", terminal::count(counters.published)),
            ("cancelled", terminal::count(counters.cancelled)),
            ("waiting to be moved on", terminal::count(counters.transfer)),
            ("transfer dead-lettered", terminal::count(counters.transfer_dead_lettered)),
            ("moved on", terminal::count(counters.forwarded)),
        ]
    }

    fn members(&self) -> Value {
        let counters = self.counters.unwrap_or_default();
        json!({
            "name": self.name,
            "counters": {
                "subscriptions": counters.subscriptions,
                "scheduled": counters.scheduled,
                "size_bytes": counters.size_bytes,
                "accepted": counters.accepted,
                "published": counters.published,
                "cancelled": counters.cancelled,
                "sql_filters": counters.sql_filters,
                "correlation_filters": counters.correlation_filters,
                "transfer": counters.transfer,
                "transfer_dead_lettered": counters.transfer_dead_lettered,
                "forwarded": counters.forwarded,
            },
        })
    }
}
