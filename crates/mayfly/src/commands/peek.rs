//! `mayfly peek`.

use crate::commands::QueueArg;
use crate::connect::ConnectWithin;
use crate::input::json;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly peek orders                          the first 20 messages
  mayfly peek orders -d --max 1000            of the dead-letter queue
  mayfly peek orders --from 4711 --max 1      one message by its number";

/// Most messages the broker gives in one answer.
const PAGE: u32 = 250;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PeekArgs {
    #[command(flatten)]
    queue: QueueArg,
    /// First sequence number to look at
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
    /// Most messages to print; 0: all
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    max: u64,
    #[command(flatten)]
    connect: ConnectWithin,
}

pub async fn run(args: PeekArgs) -> anyhow::Result<()> {
    let client = args.connect.client()?;
    let path = args.queue.path(&client).await?;
    let mut left = if args.max == 0 { u64::MAX } else { args.max };
    let mut from = args.from;
    while left > 0 {
        let page = client.peek(&path, from, left.min(PAGE.into()) as u32).await?;
        let Some(last) = page.last() else { return Ok(()) };
        from = last.sequence_number().saturating_add(1);
        left = left.saturating_sub(page.len() as u64);
        for delivery in &page {
            terminal::line(json::delivery(delivery))?;
        }
    }
    Ok(())
}
