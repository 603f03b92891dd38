//! `mayfly queue`.

use clap::Subcommand;
use client::v1;
use serde_json::{Value, json};

use crate::commands::{Output, Status, authorization, idle, status_name};
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
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a queue
    Create {
        /// Name of the queue
        name: String,
        #[command(flatten)]
        fixed: FixedProperties,
        #[command(flatten)]
        properties: Properties,
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
        properties: Properties,
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

/// What a queue keeps for ever (ENT-5).
#[derive(Clone, Debug, clap::Args)]
struct FixedProperties {
    /// Drop messages whose id was seen within the window
    #[arg(long)]
    duplicate_detection: bool,
    /// Messages belong to sessions
    #[arg(long)]
    requires_session: bool,
}

/// ENT-3.
#[derive(Clone, Debug, clap::Args)]
struct Properties {
    /// Time to live of messages without their own, and ceiling of all; "never" is the default
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    ttl: Option<u64>,
    /// Move expired messages to the dead-letter queue instead of dropping them
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    dead_letter_on_expiration: Option<bool>,
    /// How long a received message is locked (default 1m)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    lock_duration: Option<u64>,
    /// Deliveries after which a message is dead-lettered (default 10)
    #[arg(long, value_name = "COUNT")]
    max_delivery_count: Option<u32>,
    /// How long message ids are remembered (default 10m)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    duplicate_detection_window: Option<u64>,
    /// Delete the queue when nobody uses it for so long (default never)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    auto_delete_on_idle: Option<u64>,
    /// Most megabytes of messages stored (default 1024)
    #[arg(long, value_name = "MB")]
    max_size_megabytes: Option<u32>,
    /// Most kilobytes of one message (default 256)
    #[arg(long, value_name = "KB")]
    max_message_size_kilobytes: Option<u32>,
    /// What is allowed (default active)
    #[arg(long)]
    status: Option<Status>,
    /// Free text kept with the queue
    #[arg(long, value_name = "TEXT")]
    user_metadata: Option<String>,
    /// Forward messages to this queue or topic; "" forwards no more
    #[arg(long, value_name = "NAME")]
    forward_to: Option<String>,
    /// Forward dead letters to this queue or topic; "" forwards no more
    #[arg(long, value_name = "NAME")]
    forward_dead_letters_to: Option<String>,
    #[command(flatten)]
    authorization: authorization::Given,
}

impl Properties {
    fn into_wire(self) -> v1::QueueProperties {
        v1::QueueProperties {
            lock_duration_ms: self.lock_duration,
            max_size_megabytes: self.max_size_megabytes,
            max_message_size_kilobytes: self.max_message_size_kilobytes,
            duplicate_detection_window_ms: self.duplicate_detection_window,
            default_ttl_ms: self.ttl,
            auto_delete_on_idle_ms: self.auto_delete_on_idle,
            dead_letter_on_expiration: self.dead_letter_on_expiration,
            max_delivery_count: self.max_delivery_count,
            status: self.status.map(Status::into_wire),
            user_metadata: self.user_metadata,
            authorization_rules: self.authorization.into_wire(),
            forward_to: self.forward_to,
            forward_dead_letters_to: self.forward_dead_letters_to,
            ..v1::QueueProperties::default()
        }
    }
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Create { name, fixed, properties, output } => {
            let properties = v1::QueueProperties {
                requires_duplicate_detection: fixed.duplicate_detection.then_some(true),
                requires_session: fixed.requires_session.then_some(true),
                ..properties.into_wire()
            };
            let queue = output.connect.client()?.create_queue(&name, properties).await?;
            done(&output, &queue, "created")
        }
        Command::Update { name, properties, output } => {
            let properties = properties.into_wire();
            if properties == v1::QueueProperties::default() {
                return Err(terminal::usage("nothing to change; name a property, see --help"));
            }
            let queue = output.connect.client()?.update_queue(&name, properties).await?;
            done(&output, &queue, "updated")
        }
        Command::Show { name, keys, output } => {
            let queue = output.connect.client()?.get_queue(&name).await?;
            match output.json {
                true => terminal::json(&as_json(&queue, keys)),
                false => show(&queue, keys),
            }
        }
        Command::List { prefix, idle, output } => {
            let client = output.connect.client()?;
            let queues = client.list_queues(&prefix).await?;
            match output.json {
                true => {
                    let queues = queues.iter().map(|queue| as_json(queue, false));
                    terminal::json(&queues.collect::<Vec<_>>())
                }
                false if idle => idle::list(&queues, "no queues", client.now().await?.now_ms),
                false => list(&queues),
            }
        }
        Command::Delete { names, if_exists, connect } => {
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
        true => terminal::json(&as_json(queue, false)),
        false => terminal::line(format!("queue '{}' {what}", queue.name)),
    }
}

fn list(queues: &[v1::Queue]) -> anyhow::Result<()> {
    if queues.is_empty() {
        return terminal::line("no queues");
    }
    let row = |queue: &v1::Queue| {
        let counters = queue.counters.unwrap_or_default();
        let properties = queue.properties.clone().unwrap_or_default();
        vec![
            queue.name.clone(),
            status_name(properties.status()).to_owned(),
            terminal::count(counters.active),
            terminal::count(counters.scheduled),
            terminal::count(counters.deferred),
            terminal::count(counters.dead_lettered),
            terminal::bytes(counters.size_bytes),
            duration::show_ms(properties.default_ttl_ms.unwrap_or(duration::NEVER_MS)),
            queue.leader_node.to_string(),
        ]
    };
    let header =
        ["name", "status", "active", "scheduled", "deferred", "dead", "size", "ttl", "leader"];
    let rows = queues.iter().map(row).collect();
    terminal::line(terminal::table(&header, &[2, 3, 4, 5, 6, 8], rows))
}

fn show(queue: &v1::Queue, keys: bool) -> anyhow::Result<()> {
    let properties = queue.properties.clone().unwrap_or_default();
    let counters = queue.counters.unwrap_or_default();
    let duration = |ms: Option<u64>| duration::show_ms(ms.unwrap_or(duration::NEVER_MS));
    let yes = |truth: Option<bool>| if truth == Some(true) { "yes" } else { "no" }.to_owned();
    let number = |number: Option<u32>| number.map_or_else(String::new, |n| n.to_string());
    let count = |number: u64| terminal::count(number);
    let window = match properties.requires_duplicate_detection {
        Some(true) => duration(properties.duplicate_detection_window_ms),
        _ => "no".to_owned(),
    };
    super::show(&[
        ("name", queue.name.clone()),
        ("status", status_name(properties.status()).to_owned()),
        ("group", format!("{}, led by node {}", queue.group, queue.leader_node)),
        ("time to live", duration(properties.default_ttl_ms)),
        ("dead-letter on expiration", yes(properties.dead_letter_on_expiration)),
        ("lock duration", duration(properties.lock_duration_ms)),
        ("max delivery count", number(properties.max_delivery_count)),
        ("duplicate detection", window),
        ("sessions", yes(properties.requires_session)),
        ("delete when idle for", duration(properties.auto_delete_on_idle_ms)),
        ("max size", format!("{} MB", number(properties.max_size_megabytes))),
        ("max message size", format!("{} KB", number(properties.max_message_size_kilobytes))),
        ("forwards to", properties.forward_to.clone().unwrap_or_default()),
        (
            "forwards dead letters to",
            properties.forward_dead_letters_to.clone().unwrap_or_default(),
        ),
        ("user metadata", properties.user_metadata.clone().unwrap_or_default()),
        (
            "authorization rules",
            authorization::shown(properties.authorization_rules.as_ref(), keys),
        ),
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
    ])
}

fn as_json(queue: &v1::Queue, keys: bool) -> Value {
    let properties = queue.properties.clone().unwrap_or_default();
    let counters = queue.counters.unwrap_or_default();
    let duration = |ms: Option<u64>| ms.map(duration::show_ms);
    json!({
        "name": queue.name,
        "status": status_name(properties.status()),
        "properties": {
            "lock_duration": duration(properties.lock_duration_ms),
            "max_size_megabytes": properties.max_size_megabytes,
            "max_message_size_kilobytes": properties.max_message_size_kilobytes,
            "requires_duplicate_detection": properties.requires_duplicate_detection,
            "duplicate_detection_window": duration(properties.duplicate_detection_window_ms),
            "requires_session": properties.requires_session,
            "default_ttl": duration(properties.default_ttl_ms),
            "auto_delete_on_idle": duration(properties.auto_delete_on_idle_ms),
            "dead_letter_on_expiration": properties.dead_letter_on_expiration,
            "max_delivery_count": properties.max_delivery_count,
            "user_metadata": properties.user_metadata,
            "authorization_rules":
                authorization::as_json(properties.authorization_rules.as_ref(), keys),
            "forward_to": properties.forward_to.filter(|to| !to.is_empty()),
            "forward_dead_letters_to":
                properties.forward_dead_letters_to.filter(|to| !to.is_empty()),
        },
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
    })
}
