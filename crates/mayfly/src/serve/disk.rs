//! A node whose disk is full: it waits for space before it starts, and starts over when a write
//! found none. Nothing but a start brings a stopped replica back, and a start is what a node is
//! used to: it may have been killed at any moment.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::config::Config;
use super::node::told_to_end;

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Between failing and starting over: a disk that has space to start and none to go on must not keep
/// a node busy with starting.
const START_OVER_AFTER: Duration = Duration::from_secs(1);
/// One part in so many of the reserve is free where a node starts: opening the databases writes what
/// was in memory only.
const START_SHARE: u64 = 4;

/// Waits until there is space to start. Why the node is to end, if it is told to meanwhile.
pub async fn wait(config: &Config, exit_with_parent: bool) -> anyhow::Result<Option<&'static str>> {
    let dir = &config.data_dir;
    let needed = config.storage.disk_reserve_bytes / START_SHARE;
    if has_space(dir, needed) {
        return Ok(None);
    }
    let free = store::disk_space(dir).map_or(0, |space| space.free_bytes);
    tracing::error!(
        "the disk of '{}' is full: {} MiB are free, and {} MiB are needed to start; free some space, \
         this node waits for it",
        dir.display(),
        free >> 20,
        needed >> 20
    );
    let told = told_to_end(exit_with_parent);
    tokio::pin!(told);
    while !has_space(dir, needed) {
        tokio::select! {
            why = &mut told => return why.map(Some),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    tracing::info!("the disk of '{}' has space again", dir.display());
    Ok(None)
}

/// What cannot be told is left to whoever opens the directory.
fn has_space(dir: &Path, needed: u64) -> bool {
    // At the first start it is not there yet.
    let nearest = dir.ancestors().find(|dir| dir.exists()).unwrap_or(dir);
    store::disk_space(nearest).map_or(true, |space| space.free_bytes >= needed)
}

/// Begins this process anew in its place: same id, same arguments, nothing else kept. Returns only
/// if that fails.
pub async fn start_over(why: &str) -> anyhow::Error {
    tracing::error!("{why}; this node stops serving, and the others go on");
    tokio::time::sleep(START_OVER_AFTER).await;
    match again() {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn again() -> anyhow::Result<std::convert::Infallible> {
    let program = std::env::current_exe().context("cannot start over")?;
    Err(Command::new(program).args(std::env::args_os().skip(1)).exec()).context("cannot start over")
}
