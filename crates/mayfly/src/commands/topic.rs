//! `mayfly topic`.

use clap::Subcommand;
use client::v1;
use serde_json::{Value, json};

use crate::commands::{Output, Status, authorization, idle, status_name};
use crate::connect::Connect;
use crate::input::{duration, instant};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly topic create prices --ttl 10s
  mayfly subscription create prices audit
  mayfly send prices 'EURUSD 1.08'
  mayfly topic list --idle
  mayfly topic show prices --json | jq .counters
  mayfly topic delete prices                     with all its subscriptions";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a topic
    Create {
        /// Name of the topic
        name: String,
        /// Drop messages whose id was seen within the window
        #[arg(long)]
        duplicate_detection: bool,
        #[command(flatten)]
        properties: Properties,
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
        /// When each was last used, what keeps it, and when it will be deleted if nobody uses it
        #[arg(long)]
        idle: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Change the given properties, leave the others
    Update {
        /// Name of the topic
        name: String,
        #[command(flatten)]
        properties: Properties,
        #[command(flatten)]
        output: Output,
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
        connect: Connect,
    },
}

/// ENT-3.
#[derive(Clone, Debug, clap::Args)]
struct Properties {
    /// Time to live of messages without their own, and ceiling of all, in every subscription
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    ttl: Option<u64>,
    /// How long message ids are remembered (default 10m)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    duplicate_detection_window: Option<u64>,
    /// Delete the topic when nobody uses it for so long (default never)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    auto_delete_on_idle: Option<u64>,
    /// Most megabytes of messages stored, counting every copy (default 1024)
    #[arg(long, value_name = "MB")]
    max_size_megabytes: Option<u32>,
    /// Most kilobytes of one message (default 256)
    #[arg(long, value_name = "KB")]
    max_message_size_kilobytes: Option<u32>,
    /// Refuse a message that no subscription takes
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    filter_before_publishing: Option<bool>,
    /// What is allowed (default active)
    #[arg(long)]
    status: Option<Status>,
    /// Free text kept with the topic
    #[arg(long, value_name = "TEXT")]
    user_metadata: Option<String>,
    #[command(flatten)]
    authorization: authorization::Given,
}

impl Properties {
    fn into_wire(self) -> v1::TopicProperties {
        v1::TopicProperties {
            max_size_megabytes: self.max_size_megabytes,
            max_message_size_kilobytes: self.max_message_size_kilobytes,
            duplicate_detection_window_ms: self.duplicate_detection_window,
            default_ttl_ms: self.ttl,
            auto_delete_on_idle_ms: self.auto_delete_on_idle,
            status: self.status.map(Status::into_wire),
            user_metadata: self.user_metadata,
            authorization_rules: self.authorization.into_wire(),
            filter_before_publishing: self.filter_before_publishing,
            ..v1::TopicProperties::default()
        }
    }
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Create { name, duplicate_detection, properties, output } => {
            let properties = v1::TopicProperties {
                requires_duplicate_detection: duplicate_detection.then_some(true),
                ..properties.into_wire()
            };
            let topic = output.connect.client()?.create_topic(&name, properties).await?;
            done(&output, &topic, "created")
        }
        Command::Update { name, properties, output } => {
            let properties = properties.into_wire();
            if properties == v1::TopicProperties::default() {
                return Err(terminal::usage("nothing to change; name a property, see --help"));
            }
            let topic = output.connect.client()?.update_topic(&name, properties).await?;
            done(&output, &topic, "updated")
        }
        Command::Show { name, keys, output } => {
            let topic = output.connect.client()?.get_topic(&name).await?;
            match output.json {
                true => terminal::json(&as_json(&topic, keys)),
                false => show(&topic, keys),
            }
        }
        Command::List { prefix, idle, output } => {
            let client = output.connect.client()?;
            let topics = client.list_topics(&prefix).await?;
            match output.json {
                true => {
                    let topics = topics.iter().map(|topic| as_json(topic, false));
                    terminal::json(&topics.collect::<Vec<_>>())
                }
                false if idle => idle::list(&topics, "no topics", client.now().await?.now_ms),
                false => list(&topics),
            }
        }
        Command::Delete { names, if_exists, connect } => {
            let client = connect.client()?;
            for name in names {
                let deleted = client.delete_topic(&name).await;
                super::told_deleted(&format!("topic '{name}'"), deleted, if_exists)?;
            }
            Ok(())
        }
    }
}

fn done(output: &Output, topic: &v1::Topic, what: &str) -> anyhow::Result<()> {
    match output.json {
        true => terminal::json(&as_json(topic, false)),
        false => terminal::line(format!("topic '{}' {what}", topic.name)),
    }
}

fn list(topics: &[v1::Topic]) -> anyhow::Result<()> {
    if topics.is_empty() {
        return terminal::line("no topics");
    }
    let row = |topic: &v1::Topic| {
        let counters = topic.counters.unwrap_or_default();
        let properties = topic.properties.clone().unwrap_or_default();
        vec![
            topic.name.clone(),
            status_name(properties.status()).to_owned(),
            terminal::count(counters.subscriptions.into()),
            terminal::count(counters.published),
            terminal::count(counters.scheduled),
            terminal::bytes(counters.size_bytes),
            duration::show_ms(properties.default_ttl_ms.unwrap_or(duration::NEVER_MS)),
            topic.leader_node.to_string(),
        ]
    };
    let header =
        ["name", "status", "subscriptions", "published", "scheduled", "size", "ttl", "leader"];
    let rows = topics.iter().map(row).collect();
    terminal::line(terminal::table(&header, &[2, 3, 4, 5, 7], rows))
}

fn show(topic: &v1::Topic, keys: bool) -> anyhow::Result<()> {
    let properties = topic.properties.clone().unwrap_or_default();
    let counters = topic.counters.unwrap_or_default();
    let duration = |ms: Option<u64>| duration::show_ms(ms.unwrap_or(duration::NEVER_MS));
    let number = |number: Option<u32>| number.map_or_else(String::new, |n| n.to_string());
    let window = match properties.requires_duplicate_detection {
        Some(true) => duration(properties.duplicate_detection_window_ms),
        _ => "no".to_owned(),
    };
    let refuses = properties.filter_before_publishing == Some(true);
    super::show(&[
        ("name", topic.name.clone()),
        ("status", status_name(properties.status()).to_owned()),
        ("group", format!("{}, led by node {}", topic.group, topic.leader_node)),
        ("subscriptions", terminal::count(counters.subscriptions.into())),
        ("SQL filters", terminal::count(counters.sql_filters.into())),
        ("correlation filters", terminal::count(counters.correlation_filters.into())),
        ("time to live", duration(properties.default_ttl_ms)),
        ("duplicate detection", window),
        ("refuses what nobody takes", if refuses { "yes" } else { "no" }.to_owned()),
        ("delete when idle for", duration(properties.auto_delete_on_idle_ms)),
        ("max size", format!("{} MB", number(properties.max_size_megabytes))),
        ("max message size", format!("{} KB", number(properties.max_message_size_kilobytes))),
        ("user metadata", properties.user_metadata.clone().unwrap_or_default()),
        (
            "authorization rules",
            authorization::shown(properties.authorization_rules.as_ref(), keys),
        ),
        ("created", instant::show_ms(topic.created_at_ms)),
        ("updated", instant::show_ms(topic.updated_at_ms)),
        ("accessed", instant::show_ms(topic.accessed_at_ms)),
        ("deleted as idle", super::deleted_at(topic.deleted_at_ms)),
        ("scheduled", terminal::count(counters.scheduled)),
        ("size, all copies", terminal::bytes(counters.size_bytes)),
        ("accepted since creation", terminal::count(counters.accepted)),
        ("published", terminal::count(counters.published)),
        ("cancelled", terminal::count(counters.cancelled)),
        ("waiting to be moved on", terminal::count(counters.transfer)),
        ("transfer dead-lettered", terminal::count(counters.transfer_dead_lettered)),
        ("moved on", terminal::count(counters.forwarded)),
    ])
}

fn as_json(topic: &v1::Topic, keys: bool) -> Value {
    let properties = topic.properties.clone().unwrap_or_default();
    let counters = topic.counters.unwrap_or_default();
    let duration = |ms: Option<u64>| ms.map(duration::show_ms);
    json!({
        "name": topic.name,
        "status": status_name(properties.status()),
        "properties": {
            "max_size_megabytes": properties.max_size_megabytes,
            "max_message_size_kilobytes": properties.max_message_size_kilobytes,
            "requires_duplicate_detection": properties.requires_duplicate_detection,
            "duplicate_detection_window": duration(properties.duplicate_detection_window_ms),
            "default_ttl": duration(properties.default_ttl_ms),
            "auto_delete_on_idle": duration(properties.auto_delete_on_idle_ms),
            "filter_before_publishing": properties.filter_before_publishing,
            "user_metadata": properties.user_metadata,
            "authorization_rules":
                authorization::as_json(properties.authorization_rules.as_ref(), keys),
        },
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
        "created_at": instant::show_ms(topic.created_at_ms),
        "updated_at": instant::show_ms(topic.updated_at_ms),
        "accessed_at": instant::show_ms(topic.accessed_at_ms),
        "last_use": instant::show_ms(topic.last_use_ms),
        "idle_since": topic.idle_since_ms.map(instant::show_ms),
        "deleted_at": topic.deleted_at_ms.map(instant::show_ms),
        "group": topic.group,
        "leader_node": topic.leader_node,
    })
}
