//! Metrics: a name is a constant, described once, recorded through one function, in base units.

use std::time::Duration;

use domain::GroupId;
use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::DiskStatus;

pub const ENTRY_BYTES: &str = "mayfly_raft_entry_bytes";
pub const COMMIT_SECONDS: &str = "mayfly_raft_commit_seconds";
pub const APPLY_SECONDS: &str = "mayfly_raft_apply_seconds";
pub const APPLY_ENTRIES: &str = "mayfly_raft_apply_entries";
pub const ROWS_WRITTEN: &str = "mayfly_rows_written_total";
pub const LEADING: &str = "mayfly_raft_leading";
pub const ELECTIONS_WON: &str = "mayfly_raft_elections_won_total";
pub const SNAPSHOTS_SENT: &str = "mayfly_raft_snapshots_sent_total";
pub const SNAPSHOTS_INSTALLED: &str = "mayfly_raft_snapshots_installed_total";
pub const SNAPSHOT_BYTES: &str = "mayfly_raft_snapshot_bytes_total";
pub const FLUSHES: &str = "mayfly_raft_row_flushes_total";
pub const REFUSED: &str = "mayfly_raft_peers_refused_total";
pub const DISK_FREE: &str = "mayfly_disk_free_bytes";
pub const DISK_RESERVE: &str = "mayfly_disk_reserve_bytes";
pub const DISK_LOW: &str = "mayfly_disk_low";

/// Describes them all to the installed recorder.
pub fn describe() {
    describe_histogram!(ENTRY_BYTES, Unit::Bytes, "Size of an entry proposed by this leader.");
    describe_histogram!(COMMIT_SECONDS, Unit::Seconds, "Proposal to commit, on the leader.");
    describe_histogram!(APPLY_SECONDS, Unit::Seconds, "One step: entries applied and written.");
    describe_histogram!(APPLY_ENTRIES, Unit::Count, "Entries in one step.");
    describe_counter!(ROWS_WRITTEN, Unit::Count, "Rows put into or deleted from the database.");
    describe_gauge!(LEADING, Unit::Count, "1 while this node leads the `group`.");
    describe_counter!(ELECTIONS_WON, Unit::Count, "Leaderships this node took up.");
    describe_counter!(SNAPSHOTS_SENT, Unit::Count, "Snapshots sent to followers.");
    describe_counter!(SNAPSHOTS_INSTALLED, Unit::Count, "Snapshots installed here.");
    describe_counter!(SNAPSHOT_BYTES, Unit::Bytes, "Snapshot bytes sent.");
    describe_counter!(FLUSHES, Unit::Count, "Flushes of rows that let the log be shortened.");
    describe_counter!(
        REFUSED,
        Unit::Count,
        "Peer calls refused: wrong cluster, node, secret or certificate."
    );
    describe_gauge!(DISK_FREE, Unit::Bytes, "Free on the disk that holds this node's data.");
    describe_gauge!(DISK_RESERVE, Unit::Bytes, "Kept free for what frees space.");
    describe_gauge!(DISK_LOW, Unit::Count, "1 while less than the reserve is free.");
    // There from the start: the first of its kind is a rise, then.
    for name in
        [ELECTIONS_WON, SNAPSHOTS_SENT, SNAPSHOTS_INSTALLED, SNAPSHOT_BYTES, FLUSHES, REFUSED]
    {
        counter!(name).increment(0);
    }
}

pub(crate) fn proposed(bytes: usize) {
    histogram!(ENTRY_BYTES).record(bytes as f64);
}

pub(crate) fn committed(took: Duration) {
    histogram!(COMMIT_SECONDS).record(took);
}

pub(crate) fn applied(entries: usize, rows: u64, took: Duration) {
    counter!(ROWS_WRITTEN).increment(rows);
    histogram!(APPLY_SECONDS).record(took);
    histogram!(APPLY_ENTRIES).record(entries as f64);
}

pub(crate) fn leading(group: GroupId, leads: bool) {
    gauge!(LEADING, "group" => group.to_string()).set(if leads { 1.0 } else { 0.0 });
    if leads {
        counter!(ELECTIONS_WON).increment(1);
    }
}

pub(crate) fn snapshot_sent(bytes: u64) {
    counter!(SNAPSHOTS_SENT).increment(1);
    counter!(SNAPSHOT_BYTES).increment(bytes);
}

pub(crate) fn snapshot_installed() {
    counter!(SNAPSHOTS_INSTALLED).increment(1);
}

pub(crate) fn flushed() {
    counter!(FLUSHES).increment(1);
}

pub(crate) fn disk(status: &DiskStatus) {
    gauge!(DISK_FREE).set(status.free_bytes as f64);
    gauge!(DISK_RESERVE).set(status.reserve_bytes as f64);
    gauge!(DISK_LOW).set(f64::from(u8::from(status.low)));
}

pub(crate) fn refused() {
    counter!(REFUSED).increment(1);
}
