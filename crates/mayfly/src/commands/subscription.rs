//! `mayfly subscription`.

use clap::Subcommand;
use client::v1;
use serde_json::{Value, json};

use crate::commands::{Output, Status, idle, rule, status_name};
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
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a subscription
    Create {
        #[command(flatten)]
        path: Path,
        /// Messages belong to sessions
        #[arg(long)]
        requires_session: bool,
        #[command(flatten)]
        first: rule::Selection,
        #[command(flatten)]
        properties: Properties,
        #[command(flatten)]
        output: Output,
    },
    /// Properties and counters
    Show {
        #[command(flatten)]
        path: Path,
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
        path: Path,
        #[command(flatten)]
        properties: Properties,
        #[command(flatten)]
        output: Output,
    },
    /// Delete a subscription and all its messages
    Delete {
        #[command(flatten)]
        path: Path,
        /// No error where it does not exist
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        connect: Connect,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct Path {
    /// Name of the topic
    topic: String,
    /// Name of the subscription
    name: String,
}

/// ENT-3.
#[derive(Clone, Debug, clap::Args)]
struct Properties {
    /// Time to live of messages without their own, and ceiling of all; the topic's holds if it is less
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    ttl: Option<u64>,
    /// Move expired messages to the dead-letter queue instead of dropping them
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    dead_letter_on_expiration: Option<bool>,
    /// Move what a filter or an action fails on to the dead-letter queue (default true)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    dead_letter_on_filter_errors: Option<bool>,
    /// How long a received message is locked (default 1m)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    lock_duration: Option<u64>,
    /// Deliveries after which a message is dead-lettered (default 10)
    #[arg(long, value_name = "COUNT")]
    max_delivery_count: Option<u32>,
    /// Delete the subscription when nobody uses it for so long (default never)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    auto_delete_on_idle: Option<u64>,
    /// What is allowed (default active)
    #[arg(long)]
    status: Option<Status>,
    /// Free text kept with the subscription
    #[arg(long, value_name = "TEXT")]
    user_metadata: Option<String>,
}

impl Properties {
    fn into_wire(self) -> v1::SubscriptionProperties {
        v1::SubscriptionProperties {
            lock_duration_ms: self.lock_duration,
            default_ttl_ms: self.ttl,
            auto_delete_on_idle_ms: self.auto_delete_on_idle,
            dead_letter_on_expiration: self.dead_letter_on_expiration,
            dead_letter_on_filter_errors: self.dead_letter_on_filter_errors,
            max_delivery_count: self.max_delivery_count,
            status: self.status.map(Status::into_wire),
            user_metadata: self.user_metadata,
            ..v1::SubscriptionProperties::default()
        }
    }
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Create { path, requires_session, first, properties, output } => {
            let properties = v1::SubscriptionProperties {
                requires_session: requires_session.then_some(true),
                ..properties.into_wire()
            };
            let rule = first.into_rule(None)?;
            let client = output.connect.client()?;
            let Path { topic, name } = &path;
            let created = client.create_subscription(topic, name, properties, rule).await?;
            done(&output, &created, "created")
        }
        Command::Update { path, properties, output } => {
            let properties = properties.into_wire();
            if properties == v1::SubscriptionProperties::default() {
                return Err(terminal::usage("nothing to change; name a property, see --help"));
            }
            let client = output.connect.client()?;
            let updated = client.update_subscription(&path.topic, &path.name, properties).await?;
            done(&output, &updated, "updated")
        }
        Command::Show { path, output } => {
            let client = output.connect.client()?;
            let subscription = client.get_subscription(&path.topic, &path.name).await?;
            match output.json {
                true => terminal::json(&as_json(&subscription)),
                false => show(&subscription),
            }
        }
        Command::List { topic, idle, output } => {
            let client = output.connect.client()?;
            let subscriptions = client.list_subscriptions(&topic).await?;
            match output.json {
                true => terminal::json(&subscriptions.iter().map(as_json).collect::<Vec<_>>()),
                false if idle => {
                    idle::list(&subscriptions, "no subscriptions", client.now().await?.now_ms)
                }
                false => list(&subscriptions),
            }
        }
        Command::Delete { path: Path { topic, name }, if_exists, connect } => {
            let deleted = connect.client()?.delete_subscription(&topic, &name).await;
            super::told_deleted(&format!("subscription '{topic}/{name}'"), deleted, if_exists)
        }
    }
}

fn done(output: &Output, subscription: &v1::Subscription, what: &str) -> anyhow::Result<()> {
    let v1::Subscription { topic, name, .. } = subscription;
    match output.json {
        true => terminal::json(&as_json(subscription)),
        false => terminal::line(format!("subscription '{topic}/{name}' {what}")),
    }
}

fn list(subscriptions: &[v1::Subscription]) -> anyhow::Result<()> {
    if subscriptions.is_empty() {
        return terminal::line("no subscriptions");
    }
    let row = |subscription: &v1::Subscription| {
        let counters = subscription.counters.unwrap_or_default();
        let properties = subscription.properties.clone().unwrap_or_default();
        vec![
            subscription.name.clone(),
            status_name(properties.status()).to_owned(),
            terminal::count(counters.active),
            terminal::count(counters.deferred),
            terminal::count(counters.dead_lettered),
            terminal::bytes(counters.size_bytes),
            duration::show_ms(properties.default_ttl_ms.unwrap_or(duration::NEVER_MS)),
        ]
    };
    let header = ["name", "status", "active", "deferred", "dead", "size", "ttl"];
    let rows = subscriptions.iter().map(row).collect();
    terminal::line(terminal::table(&header, &[2, 3, 4, 5], rows))
}

fn show(subscription: &v1::Subscription) -> anyhow::Result<()> {
    let properties = subscription.properties.clone().unwrap_or_default();
    let counters = subscription.counters.unwrap_or_default();
    let duration = |ms: Option<u64>| duration::show_ms(ms.unwrap_or(duration::NEVER_MS));
    let yes = |truth: Option<bool>| if truth == Some(true) { "yes" } else { "no" }.to_owned();
    let deliveries = properties.max_delivery_count.map_or_else(String::new, |n| n.to_string());
    let (active, available) = (counters.active, counters.available);
    super::show(&[
        ("topic", subscription.topic.clone()),
        ("name", subscription.name.clone()),
        ("status", status_name(properties.status()).to_owned()),
        ("group", format!("{}, led by node {}", subscription.group, subscription.leader_node)),
        ("time to live", duration(properties.default_ttl_ms)),
        ("dead-letter on expiration", yes(properties.dead_letter_on_expiration)),
        ("dead-letter on rule errors", yes(properties.dead_letter_on_filter_errors)),
        ("lock duration", duration(properties.lock_duration_ms)),
        ("max delivery count", deliveries),
        ("sessions", yes(properties.requires_session)),
        ("delete when idle for", duration(properties.auto_delete_on_idle_ms)),
        ("user metadata", properties.user_metadata.clone().unwrap_or_default()),
        ("created", instant::show_ms(subscription.created_at_ms)),
        ("updated", instant::show_ms(subscription.updated_at_ms)),
        ("accessed", instant::show_ms(subscription.accessed_at_ms)),
        ("deleted as idle", super::deleted_at(subscription.deleted_at_ms)),
        (
            "active",
            format!("{} ({} not locked)", terminal::count(active), terminal::count(available)),
        ),
        ("deferred", terminal::count(counters.deferred)),
        ("dead-lettered", terminal::count(counters.dead_lettered)),
        ("size", terminal::bytes(counters.size_bytes)),
        ("accepted since creation", terminal::count(counters.accepted)),
        ("completed", terminal::count(counters.completed)),
        ("dropped by expiry", terminal::count(counters.expired_dropped)),
        ("deleted", terminal::count(counters.deleted)),
    ])
}

fn as_json(subscription: &v1::Subscription) -> Value {
    let properties = subscription.properties.clone().unwrap_or_default();
    let counters = subscription.counters.unwrap_or_default();
    let duration = |ms: Option<u64>| ms.map(duration::show_ms);
    json!({
        "topic": subscription.topic,
        "name": subscription.name,
        "status": status_name(properties.status()),
        "properties": {
            "lock_duration": duration(properties.lock_duration_ms),
            "requires_session": properties.requires_session,
            "default_ttl": duration(properties.default_ttl_ms),
            "auto_delete_on_idle": duration(properties.auto_delete_on_idle_ms),
            "dead_letter_on_expiration": properties.dead_letter_on_expiration,
            "dead_letter_on_filter_errors": properties.dead_letter_on_filter_errors,
            "max_delivery_count": properties.max_delivery_count,
            "user_metadata": properties.user_metadata,
        },
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
        },
        "created_at": instant::show_ms(subscription.created_at_ms),
        "updated_at": instant::show_ms(subscription.updated_at_ms),
        "accessed_at": instant::show_ms(subscription.accessed_at_ms),
        "last_use": instant::show_ms(subscription.last_use_ms),
        "idle_since": subscription.idle_since_ms.map(instant::show_ms),
        "deleted_at": subscription.deleted_at_ms.map(instant::show_ms),
        "group": subscription.group,
        "leader_node": subscription.leader_node,
    })
}
