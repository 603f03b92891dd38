//! How long the log is kept. The rows are flushed when the log has grown enough; what is flushed
//! here and on disk at every member is forgotten. A member that is away keeps it, up to a bound:
//! beyond that, it gets a snapshot when it returns. So it does while this node's disk is low: then
//! rows are flushed sooner, and no log is kept for anybody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::GroupId;
use futures::future::join_all;
use openraft::RaftMetrics;
use openraft::async_runtime::watch::WatchReceiver;
use store::{LogStore, RowStore};
use tokio::time::Instant;
use tracing::{debug, error, warn};

use crate::blocking::run_blocking;
use crate::disk::{Disk, DiskStatus};
use crate::group::{Group, Groups};
use crate::raft::TypeConfig;
use crate::raft::record::Mark;
use crate::{Limits, metrics};

const PERIOD: Duration = Duration::from_millis(500);
/// How long Raft may take to note a new snapshot, which is a message to its task and back.
const NOTE_MAX: Duration = Duration::from_secs(2);
/// How long Raft may take to forget entries. It puts that off while it sends them to somebody.
const FORGET_MAX: Duration = Duration::from_millis(100);

/// So many deleted rows are worth a merge of all files.
const RECLAIMED_ROWS_MIN: u64 = 1000;
/// Between two of them on a disk that is low.
const RECLAIM_PAUSE: Duration = Duration::from_secs(2);
/// And on one that is not yet.
const RECLAIM_PAUSE_LONG: Duration = Duration::from_secs(20);
/// Fewer rows wait for so long.
const RECLAIM_FEW_AFTER: Duration = Duration::from_secs(10);

pub(crate) struct Retention {
    groups: Groups,
    log: LogStore,
    rows: RowStore,
    disk: Arc<Disk>,
    limits: Limits,
    /// What a group's rows held at some time, and will have on disk once they are flushed.
    candidates: BTreeMap<GroupId, Mark>,
    /// Bytes of log when growth was last reckoned from.
    base_bytes: u64,
    /// When space was last reclaimed, while the disk is low.
    reclaimed_at: Option<Instant>,
}

impl Retention {
    pub fn new(
        groups: Groups,
        log: LogStore,
        rows: RowStore,
        disk: Arc<Disk>,
        limits: Limits,
    ) -> Retention {
        let base_bytes = log.bytes();
        let (candidates, reclaimed_at) = Default::default();
        Retention { groups, log, rows, disk, limits, candidates, base_bytes, reclaimed_at }
    }

    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(PERIOD).await;
            self.round().await;
        }
    }

    async fn round(&mut self) {
        let rows = self.rows.clone();
        match run_blocking(move || rows.write_out_old()).await {
            Ok(Ok(())) => (),
            Ok(Err(error)) => error!(%error, "cannot write rows"),
            Err(error) => error!(%error, "writing rows failed"),
        }
        let groups = self.groups.all();
        let bytes = self.log.bytes();
        self.base_bytes = self.base_bytes.min(bytes);
        let disk = self.disk.status();
        let low = disk.low;
        let reclaims = self.shall_reclaim(disk);
        if reclaims || bytes - self.base_bytes >= flush_log_bytes(&self.limits, low) {
            self.flush(&groups).await;
            self.base_bytes = self.log.bytes();
        }
        let crowded = low || self.log.bytes() > self.limits.log_retain_bytes;
        let flushed = self.flushed(&groups).await;
        let mut forgotten = Vec::new();
        for (group, flushed) in groups.iter().zip(flushed) {
            self.note_flushed(group, flushed);
            learn_what_all_hold(group);
            if let Some(last) = forget(group, crowded).await {
                forgotten.push(are_forgotten(group, last));
            }
        }
        if !forgotten.is_empty() {
            // All of them first: what is not forgotten by then is written a second time.
            join_all(forgotten).await;
            self.log.let_go();
        }
        if low || reclaims {
            self.reclaim(reclaims).await;
        }
    }

    /// Whether it is time to take deleted rows off the disk: at once when space gets short, and then
    /// whenever enough was deleted.
    fn shall_reclaim(&mut self, disk: DiskStatus) -> bool {
        if !disk.is_short() {
            self.reclaimed_at = None;
            return false;
        }
        let since = self.reclaimed_at.map(|at| at.elapsed());
        is_time_to_reclaim(disk.low, self.rows.deleted(), since)
    }

    /// Takes off the disk what is needed no more: of the log each time, of the rows if asked.
    async fn reclaim(&mut self, of_rows: bool) {
        let (rows, log) = (self.rows.clone(), self.log.clone());
        let reclaim = move || {
            log.reclaim()?;
            if of_rows { rows.reclaim() } else { Ok(()) }
        };
        match run_blocking(reclaim).await {
            Ok(Ok(())) => (),
            Ok(Err(error)) => error!(%error, "cannot take what was deleted off the disk"),
            Err(error) => error!(%error, "taking what was deleted off the disk failed"),
        }
        if of_rows {
            let free_mebibytes = self.disk.status().free_bytes >> 20;
            debug!(free_mebibytes, "what was deleted was taken off the disk");
            self.reclaimed_at = Some(Instant::now());
        }
    }

    async fn flush(&mut self, groups: &[Arc<Group>]) {
        for group in groups {
            self.candidates.insert(group.id, group.replica.applied());
        }
        let rows = self.rows.clone();
        match run_blocking(move || rows.flush()).await {
            Ok(Ok(())) => metrics::flushed(),
            Ok(Err(error)) => error!(%error, "cannot flush the rows: the log grows until it works"),
            Err(error) => error!(%error, "flushing the rows failed"),
        }
    }

    /// What is on disk of each group's rows. It may ask the disk, so not on Raft's threads.
    async fn flushed(&self, groups: &[Arc<Group>]) -> Vec<u64> {
        let groups: Vec<GroupId> = groups.iter().map(|group| group.id).collect();
        let rows = self.rows.clone();
        let read = move || groups.into_iter().map(|group| rows.flushed_index(group)).collect();
        run_blocking(read).await.unwrap_or_default()
    }

    /// Moves a group's marker to what is on disk by now, be it by our flush or by the store's own.
    fn note_flushed(&mut self, group: &Group, flushed: u64) {
        let replica = &group.replica;
        // One from before anything was applied says nothing, and gives way to the next.
        if let Some(mark) = self.candidates.get(&group.id)
            && let Some(applied) = mark.applied
        {
            if applied.index > flushed {
                return;
            }
            replica.set_marker(mark.clone());
        }
        self.candidates.insert(group.id, replica.applied());
    }
}

/// Of a disk that is short of space. `since`: the last time; none yet while it is.
fn is_time_to_reclaim(low: bool, rows_deleted: u64, since: Option<Duration>) -> bool {
    if !low {
        let waited = since.is_none_or(|since| since >= RECLAIM_PAUSE_LONG);
        return rows_deleted >= RECLAIMED_ROWS_MIN && waited;
    }
    let Some(since) = since else { return true };
    (rows_deleted >= RECLAIMED_ROWS_MIN && since >= RECLAIM_PAUSE)
        || (rows_deleted > 0 && since >= RECLAIM_FEW_AFTER)
}

/// Growth of the log that calls for a flush. What is left of a low disk must not go to the log.
fn flush_log_bytes(limits: &Limits, low: bool) -> u64 {
    match low {
        true => limits.flush_log_bytes.min(limits.disk_reserve_bytes / 8),
        false => limits.flush_log_bytes,
    }
}

/// On the leader: the count of entries that every member is known to have on disk.
fn learn_what_all_hold(group: &Group) {
    let metrics = group.raft.metrics();
    let held = held_by_all(&metrics.borrow_watched());
    group.held_by_all.fetch_max(held, Ordering::Relaxed);
}

fn held_by_all(metrics: &RaftMetrics<TypeConfig>) -> u64 {
    let Some(matched) = &metrics.replication else { return 0 };
    let members = metrics.membership_config.membership().nodes();
    members
        .map(|(node, _)| matched.get(node).cloned().flatten().map_or(0, |id| id.index + 1))
        .min()
        .unwrap_or(0)
}

/// Where the log may end to begin: the last index to forget.
fn last_to_forget(group: &Group, crowded: bool) -> Option<u64> {
    let flushed = group.replica.flushed_index()?;
    let wanted = group.held_by_all.load(Ordering::Relaxed).checked_sub(1);
    let kept_for_members = if crowded { Some(flushed) } else { wanted };
    let last = flushed.min(kept_for_members?);
    // A snapshot on its way is worth nothing without the entries that follow it.
    Some(group.replica.lowest_export().map_or(last, |export| last.min(export)))
}

/// Asks Raft to forget entries: up to which, if there are any.
async fn forget(group: &Group, crowded: bool) -> Option<u64> {
    let metrics = group.raft.metrics().borrow_watched().clone();
    let last = last_to_forget(group, crowded)?;
    if Some(last) <= index(metrics.purged) || metrics.running_state.is_err() {
        return None;
    }
    if index(metrics.snapshot) < Some(last) {
        // Raft forgets only what a snapshot holds: name the marker one. An error means that the group
        // has stopped.
        group.raft.trigger().snapshot().await.ok()?;
        let noted = group.raft.wait(Some(NOTE_MAX));
        let noted = noted.metrics(|m| index(m.snapshot) >= Some(last), "marker noted").await;
        if let Err(error) = noted {
            warn!(group = %group.id, %error, "the log is not shortened this time");
            return None;
        }
    }
    debug!(group = %group.id, last, crowded, "forgetting entries");
    group.raft.trigger().purge_log(last).await.ok()?;
    Some(last)
}

/// Waits until entries are forgotten, if Raft does not put it off.
async fn are_forgotten(group: &Group, last: u64) {
    let wait = group.raft.wait(Some(FORGET_MAX));
    drop(wait.metrics(|metrics| index(metrics.purged) >= Some(last), "entries forgotten").await);
}

fn index(id: Option<crate::raft::LogId>) -> Option<u64> {
    id.map(|id| id.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_reclaimed_at_once_and_then_as_much_is_deleted() {
        for (low, rows_deleted, since_s, expected) in [
            (true, 0, None, true),
            (true, 5_000, None, true),
            (true, 0, Some(60), false),
            (true, 1, Some(9), false),
            (true, 1, Some(10), true),
            (true, 1_000, Some(1), false),
            (true, 1_000, Some(2), true),
            (false, 0, None, false),
            (false, 999, Some(60), false),
            (false, 1_000, None, true),
            (false, 1_000, Some(19), false),
            (false, 1_000, Some(20), true),
        ] {
            let since = since_s.map(Duration::from_secs);
            let found = is_time_to_reclaim(low, rows_deleted, since);
            assert_eq!(found, expected, "{low} {rows_deleted} {since:?}");
        }
    }
}
