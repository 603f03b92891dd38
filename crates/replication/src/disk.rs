//! This node's disk, watched. A write that fails ends a replica, so a disk must not get full: below a
//! reserve, what adds data is refused above (or left to nodes with more space), and what is left
//! carries the work that frees space.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use store::{LogStore, RowStore};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::blocking::run_blocking;
use crate::metrics;

const PERIOD: Duration = Duration::from_millis(250);
/// While no disk is written fast enough to come near it meanwhile.
const PERIOD_FAR: Duration = Duration::from_secs(1);
/// While the reserve is near: at the rate a disk is written it lasts for many of these.
const PERIOD_NEAR: Duration = Duration::from_millis(25);
/// It is near where less than so many times as much is free.
const NEAR: u64 = 4;
/// And far where more than so many times as much is.
const FAR: u64 = 32;

/// A node's disk at one moment. Where log and rows are on two, that with less space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStatus {
    pub free_bytes: u64,
    pub reserve_bytes: u64,
    /// Less than the reserve is free; or was, and not yet clearly more.
    pub low: bool,
}

impl DiskStatus {
    /// So little is free that the reserve is near.
    pub fn is_short(&self) -> bool {
        self.low || self.free_bytes < self.reserve_bytes.saturating_mul(NEAR)
    }

    fn looked_at_after(&self) -> Duration {
        match self.free_bytes > self.reserve_bytes.saturating_mul(FAR) {
            _ if self.is_short() => PERIOD_NEAR,
            true => PERIOD_FAR,
            false => PERIOD,
        }
    }
}

pub(crate) struct Disk {
    log: LogStore,
    rows: RowStore,
    status: Mutex<DiskStatus>,
    low: watch::Sender<bool>,
    /// Why replicas have stopped, once a write found no space.
    full: watch::Sender<Option<String>>,
}

impl Disk {
    /// Looks at once: a node that starts with little space knows it from the beginning.
    pub fn new(log: LogStore, rows: RowStore, reserve_bytes: u64) -> Disk {
        let status = DiskStatus { free_bytes: u64::MAX, reserve_bytes, low: false };
        let (low, full) = (watch::Sender::new(false), watch::Sender::new(None));
        let disk = Disk { log, rows, status: Mutex::new(status), low, full };
        disk.look();
        disk
    }

    pub fn status(&self) -> DiskStatus {
        *self.status.lock()
    }

    /// Looks for ever.
    pub async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.status().looked_at_after()).await;
            let disk = self.clone();
            // A file system that is far away may let a caller wait.
            if run_blocking(move || disk.look()).await.is_err() {
                return; // The threads are going down.
            }
        }
    }

    /// Whether it is low, and every change of that.
    pub fn lows(&self) -> watch::Receiver<bool> {
        self.low.subscribe()
    }

    /// Resolves once a write has failed for want of space, with what to do about it.
    pub async fn full(&self) -> String {
        let mut full = self.full.subscribe();
        match full.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(why)) => why.clone(),
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    fn look(&self) {
        let failure = self.log.failure().or_else(|| self.rows.failure());
        if let Some(error @ store::Error::DiskFull { .. }) = failure {
            self.full.send_if_modified(|full| full.replace(error.to_string()).is_none());
        }
        match self.log.disk_space().and_then(|log| Ok((log, self.rows.disk_space()?))) {
            Ok((log, rows)) => self.note(log.free_bytes.min(rows.free_bytes)),
            Err(error) => debug!(%error, "cannot tell how much space is left"),
        }
    }

    fn note(&self, free_bytes: u64) {
        let mut status = self.status.lock();
        let low = is_low(free_bytes, status.reserve_bytes, status.low);
        let (free_mebibytes, reserve_mebibytes) = (free_bytes >> 20, status.reserve_bytes >> 20);
        match (status.low, low) {
            (false, true) => warn!(
                free_mebibytes,
                reserve_mebibytes,
                "this node's disk is nearly full: it gives its leaderships away, or takes in no \
                 more messages; free some space"
            ),
            (true, false) => info!(free_mebibytes, "this node's disk has space again"),
            (false, false) | (true, true) => (),
        }
        *status = DiskStatus { free_bytes, low, ..*status };
        metrics::disk(&status);
        drop(status);
        self.low.send_if_modified(|known| std::mem::replace(known, low) != low);
    }
}

/// Enough again is an eighth more than enough: at the edge, leaderships would go to and fro.
fn is_low(free_bytes: u64, reserve_bytes: u64, was_low: bool) -> bool {
    let enough = match was_low {
        true => reserve_bytes.saturating_add(reserve_bytes / 8),
        false => reserve_bytes,
    };
    free_bytes < enough
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_is_below_the_reserve_until_clearly_above_it() {
        assert!(!is_low(80, 80, false));
        assert!(is_low(79, 80, false));
        assert!(is_low(89, 80, true));
        assert!(!is_low(90, 80, true));
        assert!(!is_low(0, 0, false), "without a reserve nothing is refused");
    }

    #[test]
    fn a_disk_is_looked_at_the_more_often_the_nearer_its_reserve_is() {
        let of = |free_bytes, low| DiskStatus { free_bytes, reserve_bytes: 10, low };
        for (status, ms) in [
            (of(321, false), 1_000),
            (of(320, false), 250),
            (of(40, false), 250),
            (of(39, false), 25),
            (of(9, true), 25),
        ] {
            assert_eq!(status.looked_at_after(), Duration::from_millis(ms), "{status:?}");
        }
    }
}
