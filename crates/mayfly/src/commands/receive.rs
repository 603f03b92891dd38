//! `mayfly receive`: deliveries as JSON lines, and what becomes of them.

use std::time::{Duration, Instant};

use client::v1::ReceiveMode;
use client::{Client, Delivery, Disposition, QueuePath, ReceiverOptions, SessionReceiver};

use crate::commands::QueueArg;
use crate::connect::ConnectWithin;
use crate::input::{duration, json};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly receive orders                                  one message, left in the queue
  mayfly receive orders --complete --max 100 --wait 10s
  mayfly receive orders --complete --follow | jq .body
  mayfly receive orders --dead-letter 'cannot parse' --max 1
  mayfly receive orders -d --complete --max 0            empty the dead-letter queue
  mayfly receive orders --session alice --complete       of one session, in order
  mayfly receive orders --next-session --complete --max 0

Without a settlement the messages are released when all are printed: they stay in the queue and
their delivery count stays as it was.";

/// Messages asked for at once.
const BATCH: u64 = 100;
/// How long one request waits at the broker.
const WAIT_AT_ONCE: Duration = Duration::from_secs(20);
/// Longest wait for a session.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReceiveArgs {
    #[command(flatten)]
    queue: QueueArg,
    /// Most messages to receive; 0: all there are
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    max: u64,
    /// How long to wait for a message when there is none
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    wait: Duration,
    /// Go on until Ctrl-C
    #[arg(long, conflicts_with_all = ["max", "wait"])]
    follow: bool,
    #[command(flatten)]
    session: SessionArg,
    #[command(flatten)]
    settle: Settle,
    #[command(flatten)]
    connect: ConnectWithin,
}

/// Of a queue that requires sessions: which one.
#[derive(Clone, Debug, clap::Args)]
#[group(multiple = false)]
struct SessionArg {
    /// Receive the messages of this session, unless another receiver holds it
    #[arg(long, value_name = "ID", help_heading = "Session")]
    session: Option<String>,
    /// Receive the messages of the next session that is free
    #[arg(long, help_heading = "Session")]
    next_session: bool,
}

#[derive(Clone, Debug, clap::Args)]
#[group(multiple = false)]
struct Settle {
    /// Complete each message once it is printed
    #[arg(long, help_heading = "Settlement")]
    complete: bool,
    /// Abandon each message: one more failed delivery
    #[arg(long, help_heading = "Settlement")]
    abandon: bool,
    /// Move each message to the dead-letter queue, for this reason
    #[arg(long, value_name = "REASON", help_heading = "Settlement")]
    dead_letter: Option<String>,
    /// Set each message aside, to be received by number only
    #[arg(long, help_heading = "Settlement")]
    defer: bool,
    /// Receive and delete: gone from the queue before it is printed
    #[arg(long, help_heading = "Settlement")]
    delete: bool,
}

impl Settle {
    /// What to do with each message once it is printed; absent: release it in the end.
    fn disposition(&self) -> Option<Disposition> {
        match self {
            Settle { complete: true, .. } => Some(Disposition::Complete),
            Settle { abandon: true, .. } => Some(Disposition::Abandon),
            Settle { defer: true, .. } => Some(Disposition::Defer),
            Settle { dead_letter: Some(reason), .. } => {
                Some(Disposition::DeadLetter { reason: Some(reason.clone()), description: None })
            }
            _ => None,
        }
    }
}

pub async fn run(args: ReceiveArgs) -> anyhow::Result<()> {
    let client = args.connect.client()?;
    let path = args.queue.path(&client).await?;
    if args.session.session.is_some() || args.session.next_session {
        return receive_session(&args, &client, &path).await;
    }
    let mut held = Vec::new();
    tokio::select! {
        result = receive(&args, &client, &path, &mut held) => result?,
        // Ended by the person who asked; what is held goes back below.
        _ = tokio::signal::ctrl_c() => (),
    }
    settle(&client, &path, &held, &Disposition::Release).await
}

async fn receive(
    args: &ReceiveArgs,
    client: &Client,
    path: &QueuePath,
    held: &mut Vec<Delivery>,
) -> anyhow::Result<()> {
    let mode = match args.settle.delete {
        false => ReceiveMode::PeekLock,
        true => ReceiveMode::ReceiveAndDelete,
    };
    let disposition = args.settle.disposition();
    let mut left = if args.max == 0 || args.follow { u64::MAX } else { args.max };
    let mut waiting_since = Instant::now();
    while left > 0 {
        let wait = match args.follow {
            true => WAIT_AT_ONCE,
            false => args.wait.saturating_sub(waiting_since.elapsed()).min(WAIT_AT_ONCE),
        };
        let deliveries = client.receive(path, mode, left.min(BATCH) as u32, wait).await?;
        if deliveries.is_empty() {
            if !args.follow && waiting_since.elapsed() >= args.wait {
                return Ok(());
            }
            continue;
        }
        waiting_since = Instant::now();
        left -= (deliveries.len() as u64).min(left);
        for delivery in &deliveries {
            terminal::line(json::delivery(delivery))?;
        }
        match &disposition {
            Some(disposition) => settle(client, path, &deliveries, disposition).await?,
            None if mode == ReceiveMode::PeekLock => held.extend(deliveries),
            None => (),
        }
    }
    Ok(())
}

/// The messages of one session. What is not settled goes back with it.
async fn receive_session(
    args: &ReceiveArgs,
    client: &Client,
    path: &QueuePath,
) -> anyhow::Result<()> {
    let mode = match args.settle.delete {
        false => ReceiveMode::PeekLock,
        true => ReceiveMode::ReceiveAndDelete,
    };
    let prefetch = if args.max == 0 { BATCH as u32 } else { args.max.min(BATCH) as u32 };
    let options =
        ReceiverOptions { sub_queue: path.sub_queue, mode, prefetch, ..Default::default() };
    let mut session = match &args.session.session {
        Some(id) => client.accept_session(&path.queue, id, options).await?,
        None => client.accept_next_session(&path.queue, args.wait.min(LONGEST), options).await?,
    };
    let received = tokio::select! {
        result = drain_session(args, &mut session) => result,
        // Ended by the person who asked; the session goes back below.
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    session.close().await;
    received
}

async fn drain_session(args: &ReceiveArgs, session: &mut SessionReceiver) -> anyhow::Result<()> {
    let disposition = args.settle.disposition();
    let mut left = if args.max == 0 || args.follow { u64::MAX } else { args.max };
    while left > 0 {
        let next = match args.follow {
            true => session.recv().await,
            false => match tokio::time::timeout(args.wait, session.recv()).await {
                Ok(next) => next,
                Err(_) => return Ok(()),
            },
        };
        let delivery = next?;
        terminal::line(json::delivery(&delivery))?;
        if let Some(disposition) = &disposition {
            session.settle(&delivery, disposition.clone()).await?;
        }
        left -= 1;
    }
    Ok(())
}

async fn settle(
    client: &Client,
    path: &QueuePath,
    deliveries: &[Delivery],
    disposition: &Disposition,
) -> anyhow::Result<()> {
    let mut refused = 0;
    for batch in deliveries.chunks(BATCH as usize) {
        let settlements =
            batch.iter().map(|delivery| delivery.settlement(disposition.clone())).collect();
        for failure in client.settle(path, settlements, false).await? {
            let error = client::Error::from(failure.failure.unwrap_or_default());
            terminal::complain(&error.to_string());
            refused += 1;
        }
    }
    match refused {
        0 => Ok(()),
        refused => anyhow::bail!("{refused} settlements were refused; those messages come again"),
    }
}
