//! `mayfly backup verify`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use backup::{Fault, FaultyChunk};
use serde_json::json;

use super::place::{PlaceArgs, Which};
use crate::terminal::{self, bytes, count};

#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Which backup
    #[arg(value_name = "NAME", default_value = "latest")]
    which: Which,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(args: VerifyArgs) -> anyhow::Result<()> {
    let repository = args.place.open().await?;
    let manifest = repository.manifest(args.which.0.as_ref()).await?;
    let name = &manifest.summary.name;
    let chunks: BTreeMap<_, u64> =
        manifest.chunks().map(|(_, chunk)| (chunk.id, chunk.bytes)).collect();
    let total = chunks.values().sum();
    let bar = terminal::byte_bar("verifying", total);
    let faulty = repository.verify(&manifest, |more| bar.inc(more)).await?;
    bar.finish_and_clear();
    let groups: BTreeSet<u16> = faulty.iter().flat_map(|chunk| &chunk.groups).copied().collect();
    if args.json {
        terminal::json(&json!({
            "name": name,
            "chunks": chunks.len(),
            "bytes": total,
            "faulty": faulty.iter().map(as_json).collect::<Vec<_>>(),
        }))?;
    } else {
        faulty.iter().try_for_each(|chunk| terminal::line(told(chunk)))?;
    }
    if !faulty.is_empty()
        && let Err(error) = repository.distrust(&faulty).await
    {
        terminal::note(&format!("the next backup will not store them again: {error}"));
    }
    match faulty.len() {
        0 if args.json => Ok(()),
        0 => terminal::line(format!(
            "{name} is whole: {} chunks, {}",
            count(chunks.len() as u64),
            bytes(total)
        )),
        wrong => Err(anyhow!(
            "{wrong} of {} chunks of {name} are missing or damaged: of {} it cannot be restored whole, unless \
             the next backup stores them again, which it does where they are still the same",
            chunks.len(),
            listed(&groups)
        )),
    }
}

fn told(faulty: &FaultyChunk) -> String {
    let fault = match &faulty.fault {
        Fault::Missing => "missing".to_owned(),
        Fault::Damaged(why) => format!("damaged: {why}"),
    };
    format!("{} of {}: {fault}", faulty.object, listed(&faulty.groups))
}

fn listed(groups: &BTreeSet<u16>) -> String {
    let numbers: Vec<String> = groups.iter().map(u16::to_string).collect();
    format!("group{} {}", if numbers.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

fn as_json(faulty: &FaultyChunk) -> serde_json::Value {
    let (fault, why) = match &faulty.fault {
        Fault::Missing => ("missing", None),
        Fault::Damaged(why) => ("damaged", Some(why)),
    };
    json!({ "object": faulty.object, "groups": faulty.groups, "fault": fault, "why": why })
}
