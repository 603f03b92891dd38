//! `mayfly resubmit`: out of the dead-letter queue, into the queue again (DLQ-13).

use std::collections::BTreeMap;
use std::time::Duration;

use client::v1::ReceiveMode;
use client::{Client, Delivery, Disposition, Message, QueuePath};

use crate::commands::{counters, receivable};
use crate::connect::ConnectWithin;
use crate::input::duration;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly resubmit orders
  mayfly resubmit orders --reason TTLExpiredException --ttl 1h
  mayfly resubmit orders --to orders-again --max 10

Each message is received, sent as a new one and then completed, so a crash in between leaves it in
both places. In a queue with duplicate detection a copy within the window is dropped; --new-ids
avoids that. A subscription's go to its topic, and so to all its subscriptions.";

/// Messages taken at once.
const BATCH: u32 = 100;
/// Written by the broker on dead-lettering; a copy does not carry them (MSG-6).
const BROKER_PROPERTIES: [&str; 2] = ["DeadLetterReason", "DeadLetterErrorDescription"];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ResubmitArgs {
    /// The queue, or topic/subscription, whose dead-letter queue to empty
    queue: String,
    /// Send to this queue instead
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// Only what was dead-lettered for this reason
    #[arg(long)]
    reason: Option<String>,
    /// Most messages to send again; 0: all
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    max: u64,
    /// Time to live of the copies; without it they keep theirs
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    ttl: Option<u64>,
    /// Let the broker draw new message ids
    #[arg(long)]
    new_ids: bool,
    #[command(flatten)]
    connect: ConnectWithin,
}

pub async fn run(args: ResubmitArgs) -> anyhow::Result<()> {
    let client = args.connect.client()?;
    let path = QueuePath::dead_letter(receivable(&client, &args.queue).await?);
    let counters = counters(&client, &path.queue).await?;
    let limit = if args.max == 0 { u64::MAX } else { args.max };
    let bar = terminal::bar("resubmitting", counters.dead_lettered.min(limit));

    // Not asked for: held until the end, so that they do not come again, then released.
    let mut passed_over = Vec::new();
    let mut sent = 0;
    let result = async {
        while sent < limit {
            let count = (limit - sent).min(BATCH.into()) as u32;
            let wait = Duration::ZERO;
            let taken = client.receive(&path, ReceiveMode::PeekLock, count, wait).await?;
            if taken.is_empty() {
                break;
            }
            let (wanted, others): (Vec<_>, Vec<_>) =
                taken.into_iter().partition(|delivery| is_wanted(&args, delivery));
            passed_over.extend(others);
            send_again(&args, &client, &path, &wanted).await?;
            sent += wanted.len() as u64;
            bar.set_position(sent);
        }
        anyhow::Ok(())
    };
    let result = result.await;
    bar.finish_and_clear();
    for batch in passed_over.chunks(BATCH as usize) {
        let release = |delivery: &Delivery| delivery.settlement(Disposition::Release);
        client.settle(&path, batch.iter().map(release).collect(), false).await?;
    }
    result?;
    let to = destination(&args, &path);
    terminal::line(format!("{} messages sent to '{to}' again", terminal::count(sent)))
}

/// Where the copies go: from a subscription back to its topic.
fn destination<'a>(args: &'a ResubmitArgs, path: &'a QueuePath) -> &'a str {
    let own = domain::split_subscription_path(&path.queue);
    args.to.as_deref().unwrap_or(own.map_or(&path.queue, |(topic, _)| topic))
}

fn is_wanted(args: &ResubmitArgs, delivery: &Delivery) -> bool {
    match &args.reason {
        None => true,
        Some(reason) => delivery.text_property("DeadLetterReason") == Some(reason),
    }
}

/// One by one in order, so that one message too large for the queue does not hold up the others.
async fn send_again(
    args: &ResubmitArgs,
    client: &Client,
    path: &QueuePath,
    deliveries: &[Delivery],
) -> anyhow::Result<()> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let to = destination(args, path);
    let sender = client.sender(to, client::SenderOptions::default());
    let mut sendings = Vec::new();
    for delivery in deliveries {
        sendings.push(sender.submit(vec![copy(args, delivery)]).await?);
    }
    let mut done = Vec::new();
    let mut failed = None;
    for (delivery, sending) in deliveries.iter().zip(sendings) {
        match sending.await {
            Ok(_) => done.push(delivery.settlement(Disposition::Complete)),
            Err(error) => {
                failed.get_or_insert((delivery.sequence_number(), error));
            }
        }
    }
    let refused = client.settle(path, done, false).await?;
    if let Some(failure) = refused.into_iter().next() {
        let error = client::Error::from(failure.failure.unwrap_or_default());
        return Err(anyhow::Error::from(error).context(
            "a message was sent again and could not be completed in the dead-letter queue",
        ));
    }
    match failed {
        None => Ok(()),
        Some((number, error)) => Err(anyhow::Error::from(error)
            .context(format!("message {number} stays in the dead-letter queue"))),
    }
}

/// A new message with what the application gave the old one (MSG-6). What counted was its queue's
/// default, perhaps; that stays with the queue (TTL-28).
fn copy(args: &ResubmitArgs, delivery: &Delivery) -> Message {
    let received = delivery.wire();
    let mut message = received.message.clone().unwrap_or_default();
    message.ttl_ms = args.ttl.or(received.sent_ttl_ms);
    message.scheduled_at_ms = None;
    let properties = std::mem::take(&mut message.properties);
    message.properties = properties
        .into_iter()
        .filter(|(name, _)| !BROKER_PROPERTIES.contains(&name.as_str()))
        .collect::<BTreeMap<_, _>>();
    if args.new_ids {
        message.message_id = None;
    }
    Message::from(message)
}
