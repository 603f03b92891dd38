//! `mayfly backup list`.

use anyhow::anyhow;
use backup::Summary;
use serde_json::{Value, json};

use super::place::PlaceArgs;
use crate::terminal::{self, bytes, count};

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(args: ListArgs) -> anyhow::Result<()> {
    let listing = args.place.open().await?.list().await?;
    match (args.json, listing.backups.is_empty()) {
        (true, _) => terminal::json(&listing.backups.iter().map(as_json).collect::<Vec<_>>())?,
        (false, true) => terminal::line("no backups")?,
        (false, false) => {
            let header = ["name", "messages", "entities", "size", "new chunks", "new", "version"];
            let rows = listing.backups.iter().map(row).collect();
            terminal::line(terminal::table(&header, &[1, 2, 3, 4, 5], rows))?;
        }
    }
    listing.damaged.iter().for_each(|damaged| terminal::complain(&damaged.error.to_string()));
    match listing.damaged.len() {
        0 => Ok(()),
        1 => Err(anyhow!("{} cannot be read", listing.damaged[0].name)),
        damaged => Err(anyhow!("{damaged} backups cannot be read")),
    }
}

fn row(summary: &Summary) -> Vec<String> {
    let (cut, stored) = (&summary.cut, &summary.stored);
    vec![
        summary.name.to_string(),
        count(cut.totals.messages),
        count(cut.totals.entities),
        bytes(cut.totals.bytes),
        count(stored.chunks),
        bytes(stored.bytes),
        cut.version.clone(),
    ]
}

/// What programs are told of a backup.
pub fn as_json(summary: &Summary) -> Value {
    let (cut, stored) = (&summary.cut, &summary.stored);
    json!({
        "name": summary.name,
        "taken_at_ms": cut.taken_at_ms,
        "clock_offset_ms": cut.clock_offset_ms,
        "cluster_id": cut.cluster_id,
        "version": cut.version,
        "feature_level": cut.feature_level,
        "cut": cut.cut,
        "entities": cut.totals.entities,
        "messages": cut.totals.messages,
        "bytes": cut.totals.bytes,
        "groups": summary.groups,
        "chunks": summary.chunks,
        "stored_chunks": stored.chunks,
        "stored_bytes": stored.bytes,
    })
}
