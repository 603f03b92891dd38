//! Which backups are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::manifest::Summary;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// A backup is kept if any of these says so. The newest of each cluster is always, and clusters are counted each by itself.
///
/// Times are the clusters' of the cuts, and "now" is that of the newest: no machine's clock is asked, and where backups
/// have stopped nothing is deleted for its age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// So many of the newest.
    pub keep_last: u32,
    /// Those of so long before the newest.
    pub keep_within: Option<Duration>,
    /// The newest of each of so many hours that have one.
    pub keep_hourly: u32,
    /// The newest of each of so many days (UTC) that have one.
    pub keep_daily: u32,
}

impl Retention {
    /// Whether it says anything.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Retention::default()
    }

    /// Of backups, newest first: which are kept. Those of another cluster are counted by themselves.
    pub(crate) fn kept(&self, backups: &[Summary]) -> Vec<bool> {
        let mut clusters: BTreeMap<&str, Counted> = BTreeMap::new();
        let kept = backups.iter().map(|summary| {
            let at_ms = summary.cut.taken_at_ms;
            let counted = clusters.entry(&summary.cut.cluster_id);
            counted.or_insert_with(|| Counted::new(self, at_ms)).is_kept(self, at_ms)
        });
        kept.collect()
    }
}

/// A cluster's backups so far.
struct Counted {
    newest_ms: u64,
    backups: u64,
    hours: Periods,
    days: Periods,
}

impl Counted {
    fn new(retention: &Retention, newest_ms: u64) -> Counted {
        let hours = Periods::new(HOUR_MS, retention.keep_hourly);
        let days = Periods::new(DAY_MS, retention.keep_daily);
        Counted { newest_ms, backups: 0, hours, days }
    }

    fn is_kept(&mut self, retention: &Retention, at_ms: u64) -> bool {
        self.backups += 1;
        // Each is asked, as each counts.
        let is_newest_of_any = self.hours.is_newest(at_ms) | self.days.is_newest(at_ms);
        let age = Duration::from_millis(self.newest_ms.saturating_sub(at_ms));
        self.backups == 1
            || self.backups <= u64::from(retention.keep_last)
            || retention.keep_within.is_some_and(|within| age <= within)
            || is_newest_of_any
    }
}

/// Of hours or days, those that have had a backup.
struct Periods {
    length_ms: u64,
    count_max: u32,
    seen: BTreeSet<u64>,
}

impl Periods {
    fn new(length_ms: u64, count_max: u32) -> Periods {
        Periods { length_ms, count_max, seen: BTreeSet::new() }
    }

    fn is_newest(&mut self, at_ms: u64) -> bool {
        (self.seen.len() as u64) < u64::from(self.count_max)
            && self.seen.insert(at_ms / self.length_ms)
    }
}
