//! `mayfly message`: what became of a message.

use std::process::ExitCode;

use anyhow::Context;
use client::v1::find_messages_request::By;
use client::v1::message_event::Step;
use client::v1::{self, FindMessagesRequest, FindMessagesResponse, HistoryGap};
use client::{Client, Error, step_name, step_text};
use serde_json::json;

use crate::connect::ConnectWithin;
use crate::input::instant;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly message history orders order-17        by its message id, also where it was forwarded to
  mayfly message history orders '#4711'         by its sequence number
  mayfly message history orders --session s-9   of all messages of a session, in this entity
  mayfly message history orders order-17 --json

Nodes record what happens to messages where they are started with --message-history and a size in
mebibytes; the oldest is forgotten first. See docs/operations/message-history.md.

Exit codes: 0 it is told, 1 nothing is recorded of it or the cluster does not answer, 2 wrong usage.";

/// ERR-17.
const MISSING_RIGHT: &str = "UnauthorizedAccessException";
/// Of one answer.
const STEPS_MAX: u32 = 1_000;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct MessageArgs {
    #[command(subcommand)]
    command: MessageCommand,
}

#[derive(Debug, clap::Subcommand)]
enum MessageCommand {
    /// Every step of a message's life: accepted, locked, lapsed, forwarded, expired, completed …
    History(History),
}

#[derive(Debug, clap::Args)]
struct History {
    /// Path of a queue, topic or subscription that it came to
    #[arg(value_name = "ENTITY")]
    entity: String,
    /// Its message id; or '#' and its sequence number
    #[arg(value_name = "ID", value_parser = WantedMessage::parse, required_unless_present = "session")]
    message: Option<WantedMessage>,
    /// All messages of this session
    #[arg(long, value_name = "ID", value_parser = WantedMessage::session, conflicts_with = "message")]
    session: Option<WantedMessage>,
    /// Most steps that are told, the latest ones
    #[arg(long, value_name = "COUNT", default_value_t = STEPS_MAX, value_parser = clap::value_parser!(u32).range(1..=i64::from(STEPS_MAX)))]
    limit: u32,
    /// As JSON, an object for each step
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectWithin,
}

/// By what a message is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WantedMessage {
    Id(String),
    Number(u64),
    Session(String),
}

impl WantedMessage {
    fn parse(text: &str) -> Result<WantedMessage, String> {
        match text.strip_prefix('#') {
            None if text.is_empty() => Err("a message id has one character at least".to_owned()),
            None => Ok(WantedMessage::Id(text.to_owned())),
            Some(number) => number.parse().map(WantedMessage::Number).map_err(|_| {
                format!("'{text}' is no sequence number; write # and digits, as '#4711', or a message id")
            }),
        }
    }

    fn session(text: &str) -> Result<WantedMessage, String> {
        match text {
            "" => Err("a session id has one character at least".to_owned()),
            id => Ok(WantedMessage::Session(id.to_owned())),
        }
    }

    fn shown(&self) -> String {
        match self {
            WantedMessage::Id(id) => format!("message '{id}'"),
            WantedMessage::Number(number) => format!("message number {number}"),
            WantedMessage::Session(id) => format!("session '{id}'"),
        }
    }

    fn by(&self) -> By {
        match self.clone() {
            WantedMessage::Id(id) => By::MessageId(id),
            WantedMessage::Number(number) => By::SequenceNumber(number),
            WantedMessage::Session(id) => By::SessionId(id),
        }
    }
}

pub async fn run(args: MessageArgs) -> anyhow::Result<ExitCode> {
    let MessageCommand::History(args) = args.command;
    let client = args.connect.client()?;
    let Some(wanted) = args.message.as_ref().or(args.session.as_ref()) else {
        anyhow::bail!("name a message id, '#' and a sequence number, or --session");
    };
    let found = find(&client, &args, wanted).await;
    let found = found.context("the record of messages cannot be read")?;
    if found.steps.is_empty() {
        told_beside(&found);
        let since = match found.since_ms {
            Some(at_ms) => format!("the record goes back to {}", instant::show_ms(at_ms)),
            None => "the record has all since the cluster began".to_owned(),
        };
        anyhow::bail!("nothing is recorded of {} in '{}'; {since}", wanted.shown(), args.entity);
    }
    for step in &found.steps {
        match args.json {
            true => terminal::line(shown(step))?,
            false => terminal::line(line(step))?,
        }
    }
    told_beside(&found);
    Ok(ExitCode::SUCCESS)
}

/// Also where the message came from and went to, as far as whoever asks may know it.
async fn find(
    client: &Client,
    args: &History,
    wanted: &WantedMessage,
) -> Result<FindMessagesResponse, Error> {
    let asked = FindMessagesRequest {
        entity: args.entity.clone(),
        by: Some(wanted.by()),
        follow: true,
        steps_max: args.limit,
        within_ms: 0,
    };
    match client.find_messages(asked.clone()).await {
        Err(Error::Refused(detail)) if detail.name == MISSING_RIGHT => {
            let found =
                client.find_messages(FindMessagesRequest { follow: false, ..asked }).await?;
            terminal::note(&format!(
                "only steps in '{}' are told: to follow a message elsewhere takes the right to listen to the \
                 whole namespace",
                args.entity
            ));
            Ok(found)
        }
        found => found,
    }
}

/// What is not known.
fn told_beside(found: &FindMessagesResponse) {
    for v1::UntoldNode { node, why } in &found.untold {
        terminal::note(&format!("what node {node} has is missing: {why}"));
    }
    for gap in &found.gaps {
        terminal::note(&missing(*gap));
    }
    if found.more {
        terminal::note("there are more steps than are told: earlier ones are left out");
    }
}

fn missing(gap: HistoryGap) -> String {
    let HistoryGap { group, first_index, last_index } = gap;
    format!(
        "no node has the record of the entries {first_index} to {last_index} of group {group} any more: steps in \
         them are not told"
    )
}

fn line(step: &v1::MessageStep) -> String {
    let event = step.event.clone().unwrap_or_default();
    let told = step_text(&event, instant::show_ms)
        .unwrap_or_else(|| "a step that this release does not know".to_owned());
    let by = step.by.as_ref().map(by).unwrap_or_default();
    format!("{}  node {}  {told}{by}", instant::show_ms(event.at_ms), event.leader)
}

fn by(actor: &v1::MessageActor) -> String {
    match actor.key_name.as_str() {
        "" => format!(" (connection {})", actor.connection),
        key => format!(" (connection {}, key '{key}')", actor.connection),
    }
}

fn shown(step: &v1::MessageStep) -> serde_json::Value {
    let event = step.event.clone().unwrap_or_default();
    let lock_token = match &event.step {
        Some(Step::Locked(locked)) => Some(&locked.lock_token).filter(|token| !token.is_empty()),
        _ => None,
    };
    json!({
        "at": instant::show_ms(event.at_ms),
        "at_ms": event.at_ms,
        "node": event.leader,
        "entity": event.entity,
        "sequence_number": event.sequence_number,
        "message_id": Some(&step.message_id).filter(|id| !id.is_empty()),
        "group": event.group,
        "log_index": event.index,
        "step": event.step.as_ref().map(step_name),
        "lock_token": lock_token,
        "connection": step.by.as_ref().map(|by| &by.connection),
        "key_name": step.by.as_ref().map(|by| &by.key_name).filter(|name| !name.is_empty()),
        "told": step_text(&event, instant::show_ms),
    })
}

#[cfg(test)]
mod tests {
    use client::v1::MessageDeadLettered;

    use super::*;

    #[test]
    fn steps_are_told_with_their_time_and_node() {
        let dead =
            MessageDeadLettered { reason: "TTLExpiredException".into(), ..Default::default() };
        let event = v1::MessageEvent {
            at_ms: 7,
            leader: 2,
            step: Some(Step::DeadLettered(dead)),
            ..Default::default()
        };
        let by = v1::MessageActor { connection: "2-000001-7".into(), key_name: "k".into() };
        let (event, message_id) = (Some(event), "a".to_owned());
        let step = v1::MessageStep { event, message_id, by: Some(by) };
        assert_eq!(
            line(&step),
            "1970-01-01T00:00:00.007Z  node 2  dead-lettered: TTLExpiredException (connection \
             2-000001-7, key 'k')"
        );
        assert_eq!(shown(&step)["message_id"], "a");
    }

    #[test]
    fn a_wrong_number_is_told() {
        let told = WantedMessage::parse("#x").expect_err("no number");
        assert!(told.contains("write # and digits"), "{told}");
    }
}
