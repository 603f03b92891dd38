//! `mayfly subscription`.

use clap::Subcommand;
use client::{Client, v1};
use domain::{Patch, SubscriptionProperties};
use serde_json::{Value, json};

use crate::commands::entity::{self, Entity, Standing, standing};
use crate::commands::entity_list::{Flow, Listing};
use crate::commands::properties::{self, Created, Updated, status_name};
use crate::commands::{Output, rule};
use crate::connect::ConnectWithin;
use crate::input::duration;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly subscription create prices audit                           everything
  mayfly subscription create prices eur --filter \"currency = 'EUR'\"
  mayfly subscription list prices
  mayfly subscription list prices --idle
  mayfly receive prices/eur --complete --follow
  mayfly subscription delete prices audit";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SubscriptionArgs {
    #[command(subcommand)]
    command: SubscriptionCommand,
}

#[derive(Debug, Subcommand)]
enum SubscriptionCommand {
    /// Create a subscription
    Create {
        #[command(flatten)]
        path: SubscriptionPath,
        #[command(flatten)]
        first: rule::Selection,
        #[command(flatten)]
        properties: Created<SubscriptionProperties>,
        #[command(flatten)]
        output: Output,
    },
    /// Properties and counters
    Show {
        #[command(flatten)]
        path: SubscriptionPath,
        #[command(flatten)]
        output: Output,
    },
    /// A topic's subscriptions with their counters, in order of name
    List {
        /// Name of the topic
        topic: String,
        #[command(flatten)]
        listing: Listing,
    },
    /// Change the given properties, leave the others
    Update {
        #[command(flatten)]
        path: SubscriptionPath,
        #[command(flatten)]
        properties: Updated<SubscriptionProperties>,
        #[command(flatten)]
        output: Output,
    },
    /// Delete a subscription and all its messages
    Delete {
        #[command(flatten)]
        path: SubscriptionPath,
        /// No error where it does not exist
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        connect: ConnectWithin,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct SubscriptionPath {
    /// Name of the topic
    topic: String,
    /// Name of the subscription
    name: String,
}

pub async fn run(args: SubscriptionArgs) -> anyhow::Result<()> {
    match args.command {
        SubscriptionCommand::Create { path, first, properties, output } => {
            let properties = properties.0.into();
            let rule = first.into_rule(None)?;
            let client = output.connect.client()?;
            let SubscriptionPath { topic, name } = &path;
            let created = client.create_subscription(topic, name, properties, rule).await?;
            entity::done(&output, &created, "created")
        }
        SubscriptionCommand::Update { path, properties, output } => {
            let properties = properties.some()?.into();
            let client = output.connect.client()?;
            let updated = client.update_subscription(&path.topic, &path.name, properties).await?;
            entity::done(&output, &updated, "updated")
        }
        SubscriptionCommand::Show { path, output } => {
            let client = output.connect.client()?;
            let subscription = client.get_subscription(&path.topic, &path.name).await?;
            entity::show(&output, &subscription, false)
        }
        SubscriptionCommand::List { topic, listing } => {
            let topic = &topic;
            listing.show(async |client: &Client| client.list_subscriptions(topic).await).await
        }
        SubscriptionCommand::Delete {
            path: SubscriptionPath { topic, name },
            if_exists,
            connect,
        } => {
            let deleted = connect.client()?.delete_subscription(&topic, &name).await;
            super::told_deleted(&format!("subscription '{topic}/{name}'"), deleted, if_exists)
        }
    }
}

impl Entity for v1::Subscription {
    type Properties = SubscriptionProperties;

    const MANY: &'static str = "subscriptions";
    const HEADER: &'static [&'static str] =
        &["name", "status", "active", "deferred", "dead", "size", "ttl"];
    const NUMBERS: &'static [usize] = &[2, 3, 4, 5];

    fn title(&self) -> String {
        format!("subscription '{}/{}'", self.topic, self.name)
    }

    fn told(&self) -> anyhow::Result<Patch<SubscriptionProperties>> {
        properties::told(self.properties.clone())
    }

    fn standing(&self) -> Standing {
        // Messages with a time wait at the topic.
        standing!(self, 0)
    }

    fn flow(&self) -> Flow {
        entity::flow_of(&self.counters.unwrap_or_default())
    }

    fn row(&self) -> anyhow::Result<Vec<String>> {
        let counters = self.counters.unwrap_or_default();
        let properties = self.told()?.applied_to(SubscriptionProperties::default());
        Ok(vec![
            self.name.clone(),
            status_name(properties.status).to_owned(),
            terminal::count(counters.active),
            terminal::count(counters.deferred),
            terminal::count(counters.dead_lettered),
            terminal::bytes(counters.size_bytes),
            duration::show_ms(properties.default_ttl.0),
        ])
    }

    fn place(&self) -> Vec<(&'static str, String)> {
        vec![
            ("topic", self.topic.clone()),
            ("name", self.name.clone()),
            ("group", self.standing().leadership()),
        ]
    }

    fn counted(&self) -> Vec<(&'static str, String)> {
        let counters = self.counters.unwrap_or_default();
        let (active, available) = (counters.active, counters.available);
        vec![
            (
                "active",
                format!("{} ({} not locked)", terminal::count(active), terminal::count(available)),
            ),
            ("waiting to be forwarded", terminal::count(counters.transfer)),
            ("deferred", terminal::count(counters.deferred)),
            ("dead-lettered", terminal::count(counters.dead_lettered)),
            ("size", terminal::bytes(counters.size_bytes)),
            ("accepted since creation", terminal::count(counters.accepted)),
            ("completed", terminal::count(counters.completed)),
            ("dropped by expiry", terminal::count(counters.expired_dropped)),
            ("deleted", terminal::count(counters.deleted)),
            ("forwarded", terminal::count(counters.forwarded)),
        ]
    }

    fn members(&self) -> Value {
        let counters = self.counters.unwrap_or_default();
        json!({
            "topic": self.topic,
            "name": self.name,
            "counters": {
                "active": counters.active,
                "deferred": counters.deferred,
                "dead_lettered": counters.dead_lettered,
                "total": counters.total,
                "size_bytes": counters.size_bytes,
                "available": counters.available,
                "available_dead_letter": counters.available_dead_letter,
                "accepted": counters.accepted,
                "completed": counters.completed,
                "expired_dropped": counters.expired_dropped,
                "deleted": counters.deleted,
                "transfer": counters.transfer,
                "forwarded": counters.forwarded,
            },
        })
    }
}
