//! `mayfly backup restore`.

use backup::{Manifest, Reader, Repository};
use client::{Client, v1};
use serde_json::json;

use super::place::{PlaceArgs, Which};
use crate::connect::Connect;
use crate::terminal::{self, bytes, count};

#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Which backup
    #[arg(value_name = "NAME", default_value = "latest")]
    which: Which,
    #[command(flatten)]
    connect: Connect,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(args: RestoreArgs) -> anyhow::Result<()> {
    let client = args.connect.client()?;
    let repository = args.place.open().await?;
    let manifest = repository.manifest(args.which.0.as_ref()).await?;
    let bar =
        terminal::byte_bar("restoring", manifest.chunks().map(|(_, chunk)| chunk.bytes).sum());
    let restored = restore(&client, &repository, &manifest, |more| bar.inc(more)).await;
    bar.finish_and_clear();
    let v1::RestoreResponse { entities, messages } = restored?;
    let name = &manifest.summary.name;
    if args.json {
        return terminal::json(
            &json!({ "name": name, "entities": entities, "messages": messages }),
        );
    }
    terminal::line(format!(
        "{name} is restored: {} messages of {} entities, {}",
        count(messages),
        count(entities),
        bytes(manifest.summary.cut.totals.bytes),
    ))
}

async fn restore(
    client: &Client,
    repository: &Repository,
    manifest: &Manifest,
    mut went: impl FnMut(u64),
) -> anyhow::Result<v1::RestoreResponse> {
    let begin = v1::RestoreBegin {
        groups: manifest.groups.iter().map(|group| group.id.into()).collect(),
        taken_at_ms: manifest.summary.cut.taken_at_ms,
    };
    let mut reader = Reader::new(repository, manifest);
    // Before the cluster hears of it: what cannot be read is no reason to begin.
    let mut next = reader.next().await?;
    let mut restore = client.restore(begin).await?;
    while let Some(read) = next {
        let more = read.bytes.len() as u64;
        restore.chunk(read.group.into(), read.bytes).await?;
        went(more);
        next = reader.next().await?;
    }
    Ok(restore.finish().await?)
}
