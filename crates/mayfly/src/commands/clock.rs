//! `mayfly clock`.

use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use crate::connect::Connect;
use crate::input::{duration, instant};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly clock show
  mayfly clock advance 14days       what expires within two weeks, expires now

The clock moves in development mode only (mayfly up --development), and only forward.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ClockArgs {
    #[command(subcommand)]
    command: ClockCommand,
}

#[derive(Debug, Subcommand)]
enum ClockCommand {
    /// The cluster's time
    Show {
        #[command(flatten)]
        connect: Connect,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Move the whole cluster's time forward (development mode)
    Advance {
        /// By how much
        #[arg(value_name = "DURATION", value_parser = duration::parse)]
        by: Duration,
        #[command(flatten)]
        connect: Connect,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(args: ClockArgs) -> anyhow::Result<()> {
    let (now_ms, offset_ms, json) = match args.command {
        ClockCommand::Show { connect, json } => {
            let now = connect.client()?.now().await?;
            (now.now_ms, now.offset_ms, json)
        }
        ClockCommand::Advance { by, connect, json } => {
            let now = connect.client()?.advance_clock(by).await?;
            (now.now_ms, now.offset_ms, json)
        }
    };
    if json {
        let now = instant::show_ms(now_ms);
        return terminal::json(&json!({"now": now, "now_ms": now_ms, "offset_ms": offset_ms}));
    }
    let offset = match offset_ms {
        0 => "not moved".to_owned(),
        ms => format!("moved forward by {}", duration::show_ms(ms)),
    };
    terminal::line(format!("{} ({offset})", instant::show_ms(now_ms)))
}
