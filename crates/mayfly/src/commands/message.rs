//! `mayfly message`: what became of a message.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use client::HistoryGap;
use client::v1::MessageEvent;
use client::v1::message_event::Step;
use experiment::{Life, Lives, is_of, step_name, step_text};
use serde_json::json;

use crate::connect::Connect;
use crate::input::instant;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly message history orders order-17        by its message id, also where it was forwarded to
  mayfly message history orders '#4711'         by its sequence number
  mayfly message history orders order-17 --json

Nodes record what happens to messages where they are started with --message-history and a size in
mebibytes; the oldest is forgotten first. See docs/operations/message-history.md.

Exit codes: 0 it is told, 1 nothing is recorded of it or the cluster does not answer, 2 wrong usage.";

/// For replicas that are behind.
const PATIENCE: Duration = Duration::from_secs(5);

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
    #[arg(value_name = "ID", value_parser = WantedMessage::parse)]
    message: WantedMessage,
    /// As JSON, an object for each step
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

/// By what a message is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WantedMessage {
    Id(String),
    Number(u64),
}

impl WantedMessage {
    fn parse(text: &str) -> Result<WantedMessage, String> {
        match text.strip_prefix('#') {
            None => Ok(WantedMessage::Id(text.to_owned())),
            Some(number) => number.parse().map(WantedMessage::Number).map_err(|_| {
                format!("'{text}' is no sequence number; write # and digits, as '#4711', or a message id")
            }),
        }
    }

    fn shown(&self) -> String {
        match self {
            WantedMessage::Id(id) => format!("'{id}'"),
            WantedMessage::Number(number) => format!("number {number}"),
        }
    }
}

pub async fn run(args: MessageArgs) -> anyhow::Result<ExitCode> {
    let MessageCommand::History(args) = args.command;
    let client = args.connect.client()?;
    let read = client.whole_history().read_to_end(PATIENCE).await;
    let (events, gaps) = read.context("the record of messages cannot be read")?;
    let begins_ms = events.iter().map(|event| event.at_ms).min();
    let mut lives = Lives::default();
    lives.extend(events);
    let steps = steps(&lives, &args.entity, &args.message);
    if steps.is_empty() {
        let since = match begins_ms {
            Some(at_ms) => format!("the record goes back to {}", instant::show_ms(at_ms)),
            None => "the record is empty".to_owned(),
        };
        let (message, entity) = (args.message.shown(), &args.entity);
        anyhow::bail!("nothing is recorded of message {message} in '{entity}'; {since}");
    }
    for (life, event) in &steps {
        match args.json {
            true => terminal::line(shown(life, event))?,
            false => terminal::line(line(event))?,
        }
    }
    for gap in gaps {
        terminal::note(&missing(gap));
    }
    Ok(ExitCode::SUCCESS)
}

fn missing(gap: HistoryGap) -> String {
    let HistoryGap { group, first_index, last_index } = gap;
    format!(
        "no node has the record of the entries {first_index} to {last_index} of group {group} any more: steps in \
         them are not told"
    )
}

/// Of the message where it is looked for, and of what it became elsewhere: there it has the same id, and was handed on. In
/// the order in which they were.
fn steps<'a>(
    lives: &'a Lives,
    entity: &str,
    wanted: &WantedMessage,
) -> Vec<(&'a Life, &'a MessageEvent)> {
    let here = |life: &&Life| is_of(&life.entity, entity);
    let id = match wanted {
        WantedMessage::Id(id) => Some(id.as_str()),
        WantedMessage::Number(number) => {
            let found = lives.all().iter().filter(here).find(|life| has(life, *number));
            let Some(life) = found else { return Vec::new() };
            let Some(id) = life.message_id() else {
                return life.events.iter().map(|event| (life, event)).collect();
            };
            Some(id)
        }
    };
    let of_id = lives.all().iter().filter(|life| life.message_id() == id);
    let meant = of_id.filter(|life| here(life) || is_handed_on(life)).collect::<Vec<_>>();
    if !meant.iter().any(here) {
        return Vec::new();
    }
    let events =
        meant.into_iter().flat_map(|life| life.events.iter().map(move |event| (life, event)));
    let mut steps: Vec<_> = events.collect();
    // Of one entry they stay as they were.
    steps.sort_by_key(|(_, event)| event.at_ms);
    steps
}

/// Whether it has this number, or had it while it was scheduled.
fn has(life: &Life, number: u64) -> bool {
    life.events.iter().any(|event| event.sequence_number == number)
}

/// Whether it came from another entity, or went to one.
fn is_handed_on(life: &Life) -> bool {
    let came = life.accepted.as_ref().is_some_and(|it| it.hops > 0 || it.published_as.is_some());
    let went =
        |event: &MessageEvent| matches!(event.step, Some(Step::Forwarded(_) | Step::Published(_)));
    came || life.events.iter().any(went)
}

fn line(event: &MessageEvent) -> String {
    let told = step_text(event, instant::show_ms)
        .unwrap_or_else(|| "a step that this release does not know".to_owned());
    format!("{}  {told}", instant::show_ms(event.at_ms))
}

fn shown(life: &Life, event: &MessageEvent) -> serde_json::Value {
    let lock_token = match &event.step {
        Some(Step::Locked(locked)) => Some(&locked.lock_token),
        _ => None,
    };
    json!({
        "at": instant::show_ms(event.at_ms),
        "at_ms": event.at_ms,
        "entity": event.entity,
        "sequence_number": event.sequence_number,
        "message_id": life.message_id(),
        "group": event.group,
        "log_index": event.index,
        "step": event.step.as_ref().map(step_name),
        "lock_token": lock_token,
        "told": step_text(event, instant::show_ms),
    })
}

#[cfg(test)]
mod tests {
    use client::v1::{
        MessageAccepted, MessageCompleted, MessageDeadLettered, MessageForwarded,
        MessageLockLapsed, MessageLocked,
    };

    use super::*;

    fn event(at_ms: u64, entity: &str, sequence_number: u64, step: Step) -> MessageEvent {
        let (entity, step) = (entity.to_owned(), Some(step));
        MessageEvent { at_ms, group: 1, index: at_ms, entity, sequence_number, step }
    }

    fn accepted(id: &str, hops: u32) -> Step {
        let message_id = id.to_owned();
        Step::Accepted(MessageAccepted { message_id, hops, ..MessageAccepted::default() })
    }

    fn lives() -> Lives {
        let mut lives = Lives::default();
        let dead =
            MessageDeadLettered { reason: "TTLExpiredException".into(), ..Default::default() };
        lives.extend([
            event(1, "first", 1, accepted("a", 0)),
            event(1, "other", 1, accepted("a", 0)),
            event(2, "first", 1, Step::Forwarded(MessageForwarded {})),
            event(2, "orders", 7, accepted("a", 1)),
            event(3, "orders", 8, accepted("b", 0)),
            event(4, "orders", 9, accepted("", 0)),
            event(5, "orders", 7, Step::Locked(MessageLocked::default())),
            event(
                6,
                "orders",
                7,
                Step::LockLapsed(MessageLockLapsed { late_ms: 2, delivery_count: 1 }),
            ),
            event(7, "orders", 7, Step::DeadLettered(dead)),
            event(8, "orders", 9, Step::Completed(MessageCompleted { on_delivery: false })),
        ]);
        lives
    }

    fn told(entity: &str, wanted: &str) -> Vec<(u64, String)> {
        let lives = lives();
        let wanted = WantedMessage::parse(wanted).expect("an id or a number");
        let steps = steps(&lives, entity, &wanted);
        steps.iter().map(|(_, event)| (event.at_ms, line(event))).collect()
    }

    /// Each row: the entity, the message, and when its steps were.
    #[test]
    fn a_message_is_followed_to_where_it_was_handed_on_and_no_other_is_taken_for_it() {
        for (entity, wanted, at) in [
            ("orders", "a", &[1, 2, 2, 5, 6, 7][..]),
            ("first", "a", &[1, 2, 2, 5, 6, 7]),
            ("ORDERS", "#7", &[1, 2, 2, 5, 6, 7]),
            ("orders", "b", &[3]),
            ("orders", "#9", &[4, 8]),
            ("orders", "c", &[]),
            ("orders", "#1", &[]),
            ("absent", "a", &[]),
        ] {
            let found: Vec<u64> = told(entity, wanted).into_iter().map(|(at, _)| at).collect();
            assert_eq!(found, at, "{entity} {wanted}");
        }
    }

    #[test]
    fn steps_are_told_with_their_time() {
        let (_, last) = told("orders", "a").pop().expect("steps");
        assert_eq!(last, "1970-01-01T00:00:00.007Z  dead-lettered: TTLExpiredException");
    }

    #[test]
    fn a_wrong_number_is_told() {
        let told = WantedMessage::parse("#x").expect_err("no number");
        assert!(told.contains("write # and digits"), "{told}");
    }
}
