//! `mayfly backup create`.

use anyhow::{Context, anyhow};
use backup::{Chunk, ChunkId, Cut, Group, Repository, Totals, Writer};
use bytes::Bytes;
use client::v1::{self, create_backup_response::Part};
use client::{BackupStream, Client};

use super::list::as_json;
use super::place::PlaceArgs;
use crate::connect::Connect;
use crate::terminal::{self, bytes, count};

#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    connect: Connect,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Names of chunks that are told the cluster: more find no place in a request, and come again.
const KNOWN_MAX: usize = 500_000;

pub async fn run(args: CreateArgs) -> anyhow::Result<()> {
    let client = args.connect.client()?;
    let repository = Repository::create(&args.place.location, args.place.key()?.as_ref()).await?;
    let mut writer = Writer::begin(&repository).await?;
    let bar = terminal::byte_count("backing up");
    let taken = tokio::select! {
        taken = take(&client, &mut writer, |more| bar.inc(more)) => taken,
        () = super::interrupted() => Err(anyhow!("interrupted; no backup was made")),
    };
    bar.finish_and_clear();
    let (cut, groups) = match taken {
        Ok(taken) => taken,
        Err(error) => {
            writer.abandon().await;
            return Err(error);
        }
    };
    let summary = writer.finish(cut, &groups).await?;
    if args.json {
        return terminal::json(&as_json(&summary));
    }
    let Totals { entities, messages, bytes: all } = summary.cut.totals;
    terminal::line(format!(
        "{}: {} messages of {} entities, {}; {} new chunks of {}, {}",
        summary.name,
        count(messages),
        count(entities),
        bytes(all),
        count(summary.stored.chunks),
        count(summary.chunks),
        bytes(summary.stored.bytes),
    ))
}

/// Has the cluster copied to where it is kept, and says what it was.
async fn take(
    client: &Client,
    writer: &mut Writer,
    mut came: impl FnMut(u64),
) -> anyhow::Result<(Cut, Vec<Group>)> {
    let known = writer.known().iter().take(KNOWN_MAX).flat_map(|id| *id.as_bytes());
    let mut backup = client.back_up(known.collect::<Vec<u8>>().into()).await?;
    let header = header(&mut backup).await?;
    let mut totals = Totals::default();
    let mut groups: Vec<Group> = Vec::new();
    for id in &header.groups {
        groups.push(Group { id: u16::try_from(*id)?, chunks: Vec::new() });
    }
    while let Some(part) = backup.next().await? {
        match part {
            Part::Chunk(part) => {
                let chunk = chunk(&part)?;
                let group = groups.iter_mut().find(|group| u32::from(group.id) == part.group);
                group.context("a chunk of a group that was not announced")?.chunks.push(chunk);
                if let Some(data) = part.data {
                    writer.put(chunk.id, data).await?;
                }
                totals.bytes += chunk.bytes;
                came(chunk.bytes);
            }
            Part::GroupEnd(end) => {
                totals.entities += end.entities;
                totals.messages += end.messages;
            }
            Part::Header(_) => anyhow::bail!("the cluster began the backup twice"),
        }
    }
    let cut = Cut {
        taken_at_ms: header.taken_at_ms,
        clock_offset_ms: i64::try_from(header.clock_offset_ms)?,
        cluster_id: header.cluster_id,
        version: header.version,
        feature_level: header.feature_level,
        cut: header.cut,
        totals,
    };
    Ok((cut, groups))
}

async fn header(backup: &mut BackupStream) -> anyhow::Result<v1::BackupHeader> {
    match backup.next().await? {
        Some(Part::Header(header)) => Ok(header),
        _ => anyhow::bail!("the cluster does not say what it backs up; is it of another version?"),
    }
}

fn chunk(part: &v1::BackupChunk) -> anyhow::Result<Chunk> {
    let id: &Bytes = &part.id;
    let id: [u8; 32] = id[..].try_into().context("a chunk has no id")?;
    Ok(Chunk { id: ChunkId::from_bytes(id), bytes: part.bytes.into(), rows: part.rows })
}
