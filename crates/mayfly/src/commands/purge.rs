//! `mayfly purge`: batch deletes until nothing is left (BATCH-5).

use client::QueuePath;

use crate::commands::{QueueArg, counters};
use crate::connect::ConnectWithin;
use crate::input::instant::Instant;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly purge orders
  mayfly purge orders -d                              its dead-letter queue
  mayfly purge orders --before 1h                     what is older than an hour
  mayfly purge orders --before 2026-01-31T00:00:00Z   what was enqueued before

Locked, deferred and scheduled messages stay.";

/// Most messages of one batch delete.
const BATCH: u32 = 500;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PurgeArgs {
    #[command(flatten)]
    queue: QueueArg,
    /// Only what was enqueued before: a time, or so long ago
    #[arg(long, value_name = "TIME", value_parser = Instant::parse)]
    before: Option<Instant>,
    #[command(flatten)]
    connect: ConnectWithin,
}

pub async fn run(args: PurgeArgs) -> anyhow::Result<()> {
    let client = args.connect.client()?;
    let path = args.queue.path(&client).await?;
    // One cut-off for all batches, never ahead: what arrives meanwhile stays.
    let now_ms = client.now().await?.now_ms;
    let before_ms = args.before.map_or(now_ms, |before| before.ago(now_ms).min(now_ms));
    let total = match path.sub_queue {
        // Perhaps a topic's, whose counters are others.
        client::v1::SubQueue::TransferDeadLetter => 0,
        client::v1::SubQueue::Main => counters(&client, &path.queue).await?.active,
        client::v1::SubQueue::DeadLetter => counters(&client, &path.queue).await?.dead_lettered,
    };
    let bar = terminal::bar("purging", total);
    let mut deleted = 0_u64;
    loop {
        match client.delete_batch(&path, BATCH, Some(before_ms)).await? {
            0 => break,
            count => deleted += u64::from(count),
        }
        bar.set_position(deleted);
    }
    bar.finish_and_clear();
    terminal::line(format!("{} messages deleted from {}", terminal::count(deleted), name(&path)))
}

/// A queue as people call it.
pub fn name(path: &QueuePath) -> String {
    match path.sub_queue {
        client::v1::SubQueue::Main => format!("'{}'", path.queue),
        client::v1::SubQueue::DeadLetter => format!("the dead-letter queue of '{}'", path.queue),
        client::v1::SubQueue::TransferDeadLetter => {
            format!("the transfer dead-letter queue of '{}'", path.queue)
        }
    }
}
