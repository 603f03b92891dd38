//! `mayfly subscription`.

use clap::Subcommand;
use client::v1;
use domain::{Patch, SubscriptionProperties};
use serde_json::{Value, json};

use crate::commands::properties::{self, Created, Updated, status_name};
use crate::commands::{Output, idle, rule};
use crate::connect::Connect;
use crate::input::{duration, instant};
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
        /// When each was last used, what keeps it, and when it will be deleted if nobody uses it
        #[arg(long)]
        idle: bool,
        #[command(flatten)]
        output: Output,
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
        connect: Connect,
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
            done(&output, &created, "created")
        }
        SubscriptionCommand::Update { path, properties, output } => {
            let properties = properties.some()?.into();
            let client = output.connect.client()?;
            let updated = client.update_subscription(&path.topic, &path.name, properties).await?;
            done(&output, &updated, "updated")
        }
        SubscriptionCommand::Show { path, output } => {
            let client = output.connect.client()?;
            let subscription = client.get_subscription(&path.topic, &path.name).await?;
            match output.json {
                true => terminal::json(&as_json(&subscription)?),
                false => show(&subscription),
            }
        }
        SubscriptionCommand::List { topic, idle, output } => {
            let client = output.connect.client()?;
            let subscriptions = client.list_subscriptions(&topic).await?;
            match output.json {
                true => {
                    let subscriptions = subscriptions.iter().map(as_json);
                    terminal::json(&subscriptions.collect::<anyhow::Result<Vec<_>>>()?)
                }
                false if idle => {
                    idle::list(&subscriptions, "no subscriptions", client.now().await?.now_ms)
                }
                false => list(&subscriptions),
            }
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

fn done(output: &Output, subscription: &v1::Subscription, what: &str) -> anyhow::Result<()> {
    let v1::Subscription { topic, name, .. } = subscription;
    match output.json {
        true => terminal::json(&as_json(subscription)?),
        false => terminal::line(format!("subscription '{topic}/{name}' {what}")),
    }
}

fn list(subscriptions: &[v1::Subscription]) -> anyhow::Result<()> {
    if subscriptions.is_empty() {
        return terminal::line("no subscriptions");
    }
    let row = |subscription: &v1::Subscription| {
        let counters = subscription.counters.unwrap_or_default();
        let properties = told(subscription)?.applied_to(SubscriptionProperties::default());
        Ok(vec![
            subscription.name.clone(),
            status_name(properties.status).to_owned(),
            terminal::count(counters.active),
            terminal::count(counters.deferred),
            terminal::count(counters.dead_lettered),
            terminal::bytes(counters.size_bytes),
            duration::show_ms(properties.default_ttl.0),
        ])
    };
    let header = ["name", "status", "active", "deferred", "dead", "size", "ttl"];
    let rows = subscriptions.iter().map(row).collect::<anyhow::Result<_>>()?;
    terminal::line(terminal::table(&header, &[2, 3, 4, 5], rows))
}

fn told(subscription: &v1::Subscription) -> anyhow::Result<Patch<SubscriptionProperties>> {
    properties::told(subscription.properties.clone())
}

fn show(subscription: &v1::Subscription) -> anyhow::Result<()> {
    let told = told(subscription)?;
    let counters = subscription.counters.unwrap_or_default();
    let (active, available) = (counters.active, counters.available);
    let place = [
        ("topic", subscription.topic.clone()),
        ("name", subscription.name.clone()),
        ("group", format!("{}, led by node {}", subscription.group, subscription.leader_node)),
    ];
    let state = [
        ("created", instant::show_ms(subscription.created_at_ms)),
        ("updated", instant::show_ms(subscription.updated_at_ms)),
        ("accessed", instant::show_ms(subscription.accessed_at_ms)),
        ("deleted as idle", super::deleted_at(subscription.deleted_at_ms)),
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
    ];
    super::show(place.into_iter().chain(properties::shown(&told, false)).chain(state))
}

fn as_json(subscription: &v1::Subscription) -> anyhow::Result<Value> {
    let told = told(subscription)?;
    let counters = subscription.counters.unwrap_or_default();
    Ok(json!({
        "topic": subscription.topic,
        "name": subscription.name,
        "status": properties::status(&told),
        "properties": properties::as_json(&told, false),
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
        "created_at": instant::show_ms(subscription.created_at_ms),
        "updated_at": instant::show_ms(subscription.updated_at_ms),
        "accessed_at": instant::show_ms(subscription.accessed_at_ms),
        "last_use": instant::show_ms(subscription.last_use_ms),
        "idle_since": subscription.idle_since_ms.map(instant::show_ms),
        "deleted_at": subscription.deleted_at_ms.map(instant::show_ms),
        "group": subscription.group,
        "leader_node": subscription.leader_node,
    }))
}
