//! `mayfly topic`.

use clap::Subcommand;
use client::v1;
use domain::{Patch, TopicProperties};
use serde_json::{Value, json};

use crate::commands::properties::{self, Created, Updated, status_name};
use crate::commands::{Output, idle};
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
        properties: Updated<TopicProperties>,
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

pub async fn run(args: TopicArgs) -> anyhow::Result<()> {
    match args.command {
        TopicCommand::Create { name, properties, output } => {
            let client = output.connect.client()?;
            let topic = client.create_topic(&name, properties.0.into()).await?;
            done(&output, &topic, "created")
        }
        TopicCommand::Update { name, properties, output } => {
            let client = output.connect.client()?;
            let topic = client.update_topic(&name, properties.some()?.into()).await?;
            done(&output, &topic, "updated")
        }
        TopicCommand::Show { name, keys, output } => {
            let topic = output.connect.client()?.get_topic(&name).await?;
            match output.json {
                true => terminal::json(&as_json(&topic, keys)?),
                false => show(&topic, keys),
            }
        }
        TopicCommand::List { prefix, idle, output } => {
            let client = output.connect.client()?;
            let topics = client.list_topics(&prefix).await?;
            match output.json {
                true => {
                    let topics = topics.iter().map(|topic| as_json(topic, false));
                    terminal::json(&topics.collect::<anyhow::Result<Vec<_>>>()?)
                }
                false if idle => idle::list(&topics, "no topics", client.now().await?.now_ms),
                false => list(&topics),
            }
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

fn done(output: &Output, topic: &v1::Topic, what: &str) -> anyhow::Result<()> {
    match output.json {
        true => terminal::json(&as_json(topic, false)?),
        false => terminal::line(format!("topic '{}' {what}", topic.name)),
    }
}

fn list(topics: &[v1::Topic]) -> anyhow::Result<()> {
    if topics.is_empty() {
        return terminal::line("no topics");
    }
    let row = |topic: &v1::Topic| {
        let counters = topic.counters.unwrap_or_default();
        let properties = told(topic)?.applied_to(TopicProperties::default());
        Ok(vec![
            topic.name.clone(),
            status_name(properties.status).to_owned(),
            terminal::count(counters.subscriptions.into()),
            terminal::count(counters.published),
            terminal::count(counters.scheduled),
            terminal::bytes(counters.size_bytes),
            duration::show_ms(properties.default_ttl.0),
            topic.leader_node.to_string(),
        ])
    };
    let header =
        ["name", "status", "subscriptions", "published", "scheduled", "size", "ttl", "leader"];
    let rows = topics.iter().map(row).collect::<anyhow::Result<_>>()?;
    terminal::line(terminal::table(&header, &[2, 3, 4, 5, 7], rows))
}

fn told(topic: &v1::Topic) -> anyhow::Result<Patch<TopicProperties>> {
    properties::told(topic.properties.clone())
}

fn show(topic: &v1::Topic, keys: bool) -> anyhow::Result<()> {
    let told = told(topic)?;
    let counters = topic.counters.unwrap_or_default();
    let place = [
        ("name", topic.name.clone()),
        ("group", format!("{}, led by node {}", topic.group, topic.leader_node)),
        ("subscriptions", terminal::count(counters.subscriptions.into())),
        ("SQL filters", terminal::count(counters.sql_filters.into())),
        ("correlation filters", terminal::count(counters.correlation_filters.into())),
    ];
    let state = [
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
    ];
    super::show(place.into_iter().chain(properties::shown(&told, keys)).chain(state))
}

fn as_json(topic: &v1::Topic, keys: bool) -> anyhow::Result<Value> {
    let told = told(topic)?;
    let counters = topic.counters.unwrap_or_default();
    Ok(json!({
        "name": topic.name,
        "status": properties::status(&told),
        "properties": properties::as_json(&told, keys),
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
    }))
}
