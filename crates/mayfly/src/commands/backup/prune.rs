//! `mayfly backup prune`.

use std::time::Duration;

use backup::{Pruned, Retention, Summary};
use serde_json::json;

use super::place::PlaceArgs;
use crate::input::duration;
use crate::terminal::{self, bytes, count};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("kept").required(true).multiple(true))]
pub struct PruneArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Keep so many of the newest
    #[arg(
        long,
        value_name = "COUNT",
        group = "kept",
        default_value_t = 0,
        hide_default_value = true
    )]
    keep: u32,
    /// Keep those of so long before the newest
    #[arg(long, value_name = "DURATION", group = "kept", value_parser = duration::parse)]
    keep_within: Option<Duration>,
    /// Keep the newest of each of the last so many hours that have one
    #[arg(
        long,
        value_name = "COUNT",
        group = "kept",
        default_value_t = 0,
        hide_default_value = true
    )]
    keep_hourly: u32,
    /// Keep the newest of each of the last so many days (UTC) that have one
    #[arg(
        long,
        value_name = "COUNT",
        group = "kept",
        default_value_t = 0,
        hide_default_value = true
    )]
    keep_daily: u32,
    /// Only say what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(args: PruneArgs) -> anyhow::Result<()> {
    let retention = Retention {
        keep_last: args.keep,
        keep_within: args.keep_within,
        keep_hourly: args.keep_hourly,
        keep_daily: args.keep_daily,
    };
    let repository = args.place.open().await?;
    let spinner = terminal::spinner("pruning");
    let pruned = repository.prune(&retention, args.dry_run, super::interrupted()).await;
    spinner.finish_and_clear();
    let pruned = pruned.map_err(|error| match error.is_usage() {
        true => terminal::usage(error.to_string()),
        false => error.into(),
    })?;
    if args.json {
        return terminal::json(&as_json(&pruned));
    }
    let verb = if args.dry_run { "would be deleted" } else { "deleted" };
    for summary in &pruned.removed {
        terminal::line(format!("{} {verb}", summary.name))?;
    }
    terminal::line(format!(
        "{} backups {verb}, and {} chunks that no other needs, {}; {} kept",
        count(pruned.removed.len() as u64),
        count(pruned.chunks),
        bytes(pruned.bytes),
        count(pruned.kept.len() as u64),
    ))
}

fn as_json(pruned: &Pruned) -> serde_json::Value {
    let names = |of: &[Summary]| of.iter().map(|summary| summary.name.clone()).collect::<Vec<_>>();
    json!({
        "kept": names(&pruned.kept),
        "removed": names(&pruned.removed),
        "chunks": pruned.chunks,
        "bytes": pruned.bytes,
    })
}
