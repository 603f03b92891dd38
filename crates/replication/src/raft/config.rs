//! openraft's knobs, derived from ours.

use std::sync::Arc;
use std::time::Duration;

use openraft::SnapshotPolicy;

use crate::Error;
use crate::config::Timings;

/// Most entries in one append, next to `log::APPEND_BYTES_MAX`.
const APPEND_ENTRIES_MAX: u64 = 256;

pub(crate) fn raft_config(
    cluster_id: &str,
    timings: Timings,
) -> Result<Arc<openraft::Config>, Error> {
    let heartbeat_ms = millis(timings.heartbeat);
    let config = openraft::Config {
        cluster_name: cluster_id.to_owned(),
        heartbeat_interval: heartbeat_ms,
        // A follower that just acknowledged entries needs no heartbeat: under load there are none.
        heartbeat_min_interval: Some(heartbeat_ms),
        election_timeout_min: millis(timings.election_min),
        election_timeout_max: millis(timings.election_max),
        // Elections and heartbeats of all groups are the node's (`liveness`): a tick wakes each group thirty times a second,
        // for nothing. Silence of a leader that no majority answers is, too.
        enable_tick: false,
        // A leader that restarts asks for votes first: what it had committed is saved without a
        // sync, so it may know less than it once did.
        enable_leader_restore: Some(false),
        // Snapshots and purging are the retention task's: openraft never decides on its own.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        replication_lag_threshold: u64::MAX,
        install_snapshot_timeout: 3_600_000,
        max_payload_entries: APPEND_ENTRIES_MAX,
        max_append_entries: Some(APPEND_ENTRIES_MAX),
        // A returning node is reached within the longest of these.
        backoff: "50ms 100ms 200ms ...300ms".to_owned(),
        ..openraft::Config::default()
    };
    config.validate().map(Arc::new).map_err(|error| Error::Config(error.to_string()))
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}
