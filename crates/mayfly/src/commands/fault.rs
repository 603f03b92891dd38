//! `mayfly fault`.

use std::path::PathBuf;

use clap::Subcommand;
use client::{Client, v1};
use fault_rules::{Rule, WrittenRule};
use serde_json::{Map, Value, json};

use crate::connect::Connect;
use crate::faults::{put, read, tell_silent};
use crate::input::instant;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly fault add lost-lock --operation receive --entity orders --effect lapse --time 2s
  mayfly fault add busy --operation send --effect refuse --error ServiceBusy --probability 0.1
  mayfly fault add twice --operation complete --effect lose-answer --every 10 --ends-after 1h
  mayfly fault add --file faults.toml
  mayfly fault list
  mayfly fault clear

Clients meet faults in development mode (mayfly up --development), or where node.fault_rules allows them.
docs/message-faults.md says what can be done to what.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FaultArgs {
    #[command(subcommand)]
    command: FaultCommand,
}

#[derive(Debug, Subcommand)]
enum FaultCommand {
    /// Have clients meet a fault, or those of a file
    Add(Box<AddArgs>),
    /// Those there are, and how often each was met
    List {
        #[command(flatten)]
        connect: Connect,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Have one be met no more
    Remove {
        name: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// Have none be met any more
    Clear {
        #[command(flatten)]
        connect: Connect,
    },
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// What it is called; another of that name is replaced
    #[arg(required_unless_present = "file", requires = "operation", requires = "effect")]
    name: Option<String>,
    /// A file of TOML with a table [[faults]] for each: the same keys
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    file: Option<PathBuf>,
    #[command(flatten)]
    rule: FaultRuleArgs,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
#[group(id = "of-a-rule", conflicts_with = "file", multiple = true)]
struct FaultRuleArgs {
    /// What clients do when they meet it, as send, receive or complete
    #[arg(long, value_name = "OPERATION,…", value_delimiter = ',', help_heading = "Where")]
    operation: Vec<String>,
    /// The entity's path; * stands for any text, here and below
    #[arg(long, value_name = "PATTERN", help_heading = "Where")]
    entity: Option<String>,
    /// amqp or http; by default both
    #[arg(long, value_name = "PROTOCOL", help_heading = "Where")]
    protocol: Option<String>,
    /// What the client calls itself: its container id over AMQP
    #[arg(long, value_name = "PATTERN", help_heading = "Where")]
    client: Option<String>,
    /// The link's name
    #[arg(long, value_name = "PATTERN", help_heading = "Where")]
    link: Option<String>,
    /// The name of the key that its token is signed with
    #[arg(long, value_name = "PATTERN", help_heading = "Where")]
    key: Option<String>,
    /// SQL, as in rules of subscriptions, of the message that is sent or received
    #[arg(long, value_name = "SQL", help_heading = "Where")]
    filter: Option<String>,
    /// For each event, from 0 to 1
    #[arg(long, value_name = "SHARE", help_heading = "When")]
    probability: Option<f64>,
    /// What is drawn, is drawn from it; by default another every time
    #[arg(long, value_name = "NUMBER", help_heading = "When")]
    seed: Option<u64>,
    /// The n-th event, the 2n-th and so on
    #[arg(long, value_name = "COUNT", help_heading = "When")]
    every: Option<u64>,
    /// The first so many events only
    #[arg(long, value_name = "COUNT", help_heading = "When")]
    first: Option<u64>,
    /// So often at most
    #[arg(long, value_name = "COUNT", help_heading = "When")]
    hits: Option<u64>,
    /// Not before so long after it was added
    #[arg(long, value_name = "DURATION", help_heading = "When")]
    from: Option<String>,
    /// Not any more so long after it was added
    #[arg(long, value_name = "DURATION", help_heading = "When")]
    until: Option<String>,
    /// It is removed by itself then; by default after 10 minutes
    #[arg(long, value_name = "DURATION|never", help_heading = "When")]
    ends_after: Option<String>,
    /// What they meet
    #[arg(long, value_name = "EFFECT", help_heading = "What")]
    effect: Option<String>,
    /// Of refuse, detach and close: an error's name in Service Bus's SDKs, as ServiceBusy
    #[arg(long, value_name = "NAME", help_heading = "What")]
    error: Option<String>,
    /// Of delay, lapse and silence, as 200ms or 100ms..2s
    #[arg(long, value_name = "DURATION", help_heading = "What")]
    time: Option<String>,
    /// Of delay: before or after the deed
    #[arg(long, value_name = "PHASE", help_heading = "What")]
    phase: Option<String>,
    /// Of throttle
    #[arg(long, value_name = "COUNT", help_heading = "What")]
    per_second: Option<u32>,
}

pub async fn run(args: FaultArgs) -> anyhow::Result<()> {
    match args.command {
        FaultCommand::Add(args) => add(*args).await,
        FaultCommand::List { connect, json } => list(&connect.client()?, json).await,
        FaultCommand::Remove { name, connect } => {
            let silent = connect.client()?.remove_fault_rules(Some(&name)).await?;
            tell_silent(&silent);
            terminal::line(format!("'{name}' is met no more"))
        }
        FaultCommand::Clear { connect } => {
            let silent = connect.client()?.remove_fault_rules(None).await?;
            tell_silent(&silent);
            terminal::line("no fault is met any more")
        }
    }
}

async fn add(args: AddArgs) -> anyhow::Result<()> {
    let AddArgs { name, file, rule, connect } = args;
    let rules = match (&file, name) {
        (Some(file), _) => read(file)?,
        (None, name) => vec![rule.written(name.unwrap_or_default())?],
    };
    put(&connect.client()?, rules).await
}

impl FaultRuleArgs {
    fn written(self, name: String) -> anyhow::Result<WrittenRule> {
        let FaultRuleArgs {
            operation,
            entity,
            protocol,
            client,
            link,
            key,
            filter,
            probability,
            seed,
            every,
            first,
            hits,
            from,
            until,
            ends_after,
            effect,
            error,
            time,
            phase,
            per_second,
        } = self;
        let mut keys = Map::new();
        for (key, value) in [
            ("name", json!(name)),
            ("operation", json!(operation)),
            ("entity", json!(entity)),
            ("protocol", json!(protocol)),
            ("client", json!(client)),
            ("link", json!(link)),
            ("key", json!(key)),
            ("filter", json!(filter)),
            ("probability", json!(probability)),
            ("seed", json!(seed)),
            ("every", json!(every)),
            ("first", json!(first)),
            ("hits", json!(hits)),
            ("from", json!(from)),
            ("until", json!(until)),
            ("ends_after", json!(ends_after)),
            ("effect", json!(effect)),
            ("error", json!(error)),
            ("time", json!(time)),
            ("phase", json!(phase)),
            ("per_second", json!(per_second)),
        ] {
            if value.is_null() {
                continue;
            }
            // One after the other, so that the flag is known that is wrong.
            keys.insert(key.to_owned(), value);
        }
        let written: WrittenRule =
            serde_path_to_error::deserialize(Value::Object(keys)).map_err(|error| {
                let flag = error.path().to_string().replace('_', "-");
                terminal::usage(format!("--{flag}: {}", error.inner()))
            })?;
        match Rule::of(&written) {
            Ok(_) => Ok(written),
            Err(fault) => {
                let flag = fault.key.replace('_', "-");
                Err(terminal::usage(format!("--{flag}: {}", fault.why)))
            }
        }
    }
}

async fn list(client: &Client, as_json: bool) -> anyhow::Result<()> {
    let v1::ListFaultRulesResponse { rules, silent } = client.fault_rules().await?;
    tell_silent(&silent);
    if as_json {
        let rules: Vec<Value> = rules.iter().map(shown).collect();
        return terminal::json(&rules);
    }
    if rules.is_empty() {
        return terminal::line("no fault is met");
    }
    let rows = rules.iter().map(|rule| {
        let ends = rule.ends_at_ms.map_or_else(|| "when removed".to_owned(), instant::show_ms);
        let (events, hits) = (rule.events.to_string(), rule.hits.to_string());
        vec![rule.name.clone(), events, hits, ends, rule.rule.clone()]
    });
    let header = ["name", "events", "met", "ends", "rule"];
    terminal::line(terminal::table(&header, &[1, 2], rows.collect()))
}

fn shown(rule: &v1::FaultRule) -> Value {
    let v1::FaultRule { name, rule, added_at_ms, ends_at_ms, events, hits } = rule;
    json!({
        "name": name,
        "rule": serde_json::from_str::<Value>(rule).unwrap_or_else(|_| json!(rule)),
        "added_at": instant::show_ms(*added_at_ms),
        "ends_at": ends_at_ms.map(instant::show_ms),
        "events": events,
        "hits": hits,
    })
}
