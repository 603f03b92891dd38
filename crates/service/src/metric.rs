//! Metrics: a name is a constant, described once, recorded through one function, in base units, and
//! only by the leader where the event is a log entry. Sizes and times of entries are recorded by
//! replication.

use std::time::Duration;

use domain::{Fired, GroupId, SubQueue};
use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use replication::PeerStatus;

use crate::clock::ClockReport;
use crate::exchange::{GroupDepth, GroupHealth};

/// Deadline to applied expiry, activation or release.
pub const LATENESS: &str = "mayfly_timer_lateness_seconds";
/// What timers did, by `what`.
pub const FIRED: &str = "mayfly_timer_messages_total";
/// Commands gathered into one entry.
pub const ENTRY_COMMANDS: &str = "mayfly_entry_commands";
/// Submission of an entry to its outcomes, as the driver sees it.
pub const PROPOSAL: &str = "mayfly_proposal_seconds";
/// Contents not found in memory when they were to be delivered.
pub const BODIES_READ: &str = "mayfly_bodies_read_total";
/// Messages stored, by `state`, in groups led here.
pub const DEPTH: &str = "mayfly_messages";
/// Body and property bytes stored in groups led here.
pub const STORED: &str = "mayfly_stored_bytes";
/// Entities in groups led here.
pub const ENTITIES: &str = "mayfly_entities";
/// 1 if the group has a leader that a majority confirmed lately.
pub const GROUP_LED: &str = "mayfly_group_has_leader";
/// Entries known to be committed and not applied here.
pub const GROUP_LAG: &str = "mayfly_group_lag_entries";
/// Since a majority last confirmed the group's leader, as this node knows it.
pub const GROUP_CONFIRMED: &str = "mayfly_group_leader_confirmed_seconds";
/// 1 if fewer replicas of a group led here than wanted vote, answer and keep up.
pub const UNDER_REPLICATED: &str = "mayfly_group_under_replicated";
/// How many more voters of a group led here may go away before no majority is left.
pub const QUORUM_MARGIN: &str = "mayfly_group_quorum_margin";
/// Entries that a replica of a group led here does not have, by `group` and `node`.
pub const REPLICA_LAG: &str = "mayfly_replica_lag_entries";
/// Since a replica of a group led here last answered, by `group` and `node`.
pub const REPLICA_CONTACT: &str = "mayfly_replica_last_contact_seconds";
/// 1 while another node answers this one.
pub const PEER_UP: &str = "mayfly_peer_up";
/// A peer's wall clock less this node's clock, by `peer`; not a number while it does not answer.
pub const CLOCK_OFFSET: &str = "mayfly_clock_offset_seconds";
/// This node's wall clock less the middle one of the cluster.
pub const CLOCK_OFF: &str = "mayfly_clock_off_seconds";
/// 1 while a majority agrees with this node's clock.
pub const CLOCK_AGREES: &str = "mayfly_clock_agrees";
/// Messages brought to where they are forwarded to, by `outcome`.
pub const FORWARDED: &str = "mayfly_forwarded_messages_total";
/// Idle entities whose deletion was decided, by `outcome`: deleted, or spared because used again.
pub const SEALED: &str = "mayfly_idle_seals_total";
/// Uses written to the log because no other entry told of them.
pub const TOUCHED: &str = "mayfly_touches_total";
/// Requests that were answered with an error, by `reason`.
pub const REFUSED: &str = "mayfly_refused_requests_total";
/// Groups led here.
pub const GROUPS_LED: &str = "mayfly_groups_led";

/// Describes them all to the installed recorder.
pub fn describe() {
    describe_histogram!(LATENESS, Unit::Seconds, "Deadline to applied deed, on the leader.");
    describe_counter!(FIRED, Unit::Count, "Messages that timers moved, by `what` was done.");
    describe_histogram!(ENTRY_COMMANDS, Unit::Count, "Commands in an entry.");
    describe_histogram!(PROPOSAL, Unit::Seconds, "Submission of an entry to its outcomes.");
    describe_counter!(BODIES_READ, Unit::Count, "Contents read from storage for delivery.");
    describe_gauge!(
        DEPTH,
        Unit::Count,
        "Messages stored in groups led here, by `group` and `state`."
    );
    describe_gauge!(STORED, Unit::Bytes, "Bytes of messages stored, by `group` led here.");
    describe_gauge!(ENTITIES, Unit::Count, "Entities, by `group` led here.");
    describe_gauge!(
        GROUP_LED,
        Unit::Count,
        "1 if a majority confirmed a leader of the `group` lately."
    );
    describe_gauge!(
        GROUP_CONFIRMED,
        Unit::Seconds,
        "Since a majority last confirmed the leader of the `group`; not a number if it did not lately."
    );
    describe_gauge!(
        UNDER_REPLICATED,
        Unit::Count,
        "1 if fewer replicas of the `group` led here than wanted vote, answer and keep up."
    );
    describe_gauge!(
        QUORUM_MARGIN,
        Unit::Count,
        "Voters of the `group` led here that may still go away; below 0 there is no majority."
    );
    describe_gauge!(
        REPLICA_LAG,
        Unit::Count,
        "Entries that the replica on `node` of the `group` led here does not have."
    );
    describe_gauge!(
        REPLICA_CONTACT,
        Unit::Seconds,
        "Since the replica on `node` of the `group` led here last answered."
    );
    describe_gauge!(PEER_UP, Unit::Count, "1 while the `peer` answers this node.");
    describe_gauge!(GROUP_LAG, Unit::Count, "Entries committed and not applied here, by `group`.");
    describe_gauge!(
        CLOCK_OFFSET,
        Unit::Seconds,
        "The wall clock of a `peer` less this node's clock."
    );
    describe_gauge!(
        CLOCK_OFF,
        Unit::Seconds,
        "This node's wall clock less the cluster's middle one."
    );
    describe_gauge!(CLOCK_AGREES, Unit::Count, "1 while a majority agrees with this node's clock.");
    describe_counter!(FORWARDED, Unit::Count, "Messages forwarded, by `outcome`.");
    describe_counter!(
        SEALED,
        Unit::Count,
        "Idle entities decided on, by `outcome`: deleted or spared."
    );
    describe_counter!(TOUCHED, Unit::Count, "Uses of temporary entities written for themselves.");
    describe_counter!(
        REFUSED,
        Unit::Count,
        "Requests answered with an error, by `reason`, as ERR names it; not those whose proof or limit was refused."
    );
    describe_gauge!(GROUPS_LED, Unit::Count, "Groups led here.");
}

pub(crate) fn refused(reason: &'static str) {
    counter!(REFUSED, "reason" => reason).increment(1);
}

pub(crate) fn proposed(commands: usize) {
    histogram!(ENTRY_COMMANDS).record(commands as f64);
}

pub(crate) fn committed(took: Duration) {
    histogram!(PROPOSAL).record(took);
}

pub(crate) fn bodies_read(count: usize) {
    counter!(BODIES_READ).increment(count as u64);
}

/// FWD-16: one operation per message, taken or refused by its destination.
pub(crate) fn forwarded(taken: u32, refused: u32) {
    counter!(FORWARDED, "outcome" => "taken").increment(taken.into());
    counter!(FORWARDED, "outcome" => "refused").increment(refused.into());
}

pub(crate) fn sealed(outcome: &'static str) {
    counter!(SEALED, "outcome" => outcome).increment(1);
}

pub(crate) fn touched() {
    counter!(TOUCHED).increment(1);
}

pub(crate) fn peer_clock(peer: u64, off_us: Option<i64>) {
    let seconds = off_us.map_or(f64::NAN, |us| us as f64 / 1e6);
    gauge!(CLOCK_OFFSET, "peer" => peer.to_string()).set(seconds);
}

pub(crate) fn clock(report: &ClockReport) {
    gauge!(CLOCK_OFF).set(report.off_ms.map_or(f64::NAN, |ms| ms as f64 / 1e3));
    gauge!(CLOCK_AGREES).set(f64::from(u8::from(report.agrees)));
}

/// Mean and greatest lateness of what one command did: a histogram of every message would cost more
/// than the deed.
pub(crate) fn fired(fired: &Fired) {
    let Fired { activated, dropped, dead_lettered, released, late_ms_max, late_ms_sum, more: _ } =
        *fired;
    let deeds = [
        ("activated", activated),
        ("dropped", dropped),
        ("dead_lettered", dead_lettered),
        ("released", released),
    ];
    let count: u32 = deeds.iter().map(|(_, count)| count).sum();
    if count == 0 {
        return;
    }
    for (what, count) in deeds {
        counter!(FIRED, "what" => what).increment(count.into());
    }
    let lateness = histogram!(LATENESS);
    lateness.record(late_ms_max as f64 / 1000.0);
    if count > 1 {
        let mean = late_ms_sum as f64 / f64::from(count) / 1000.0;
        lateness.record_many(mean, count as usize - 1);
    }
}

/// Sampled when metrics are asked for.
/// What is told by a group's leader only is not a number on other nodes.
pub fn sampled(health: &[GroupHealth], peers: &[PeerStatus], depths: &[GroupDepth]) {
    for peer in peers {
        gauge!(PEER_UP, "peer" => peer.node.to_string()).set(f64::from(u8::from(peer.is_up())));
    }
    for group in health {
        let id = group.id.to_string();
        gauge!(GROUP_LED, "group" => id.clone()).set(f64::from(u8::from(group.leader.is_some())));
        gauge!(GROUP_LAG, "group" => id).set(group.lag as f64);
        replication(group, peers);
    }
    gauge!(GROUPS_LED).set(health.iter().filter(|group| group.leads).count() as f64);
    for group in health.iter().filter(|group| group.id != GroupId::CATALOG) {
        match depths.iter().find(|depth| depth.id == group.id) {
            Some(depth) => depth.record(),
            // Led elsewhere by now: what was told of it here is no longer so.
            None => GroupDepth::none(group.id).record(),
        }
    }
}

fn replication(group: &GroupHealth, peers: &[PeerStatus]) {
    let id = group.id.to_string();
    let seconds = |ms: Option<u64>| ms.map_or(f64::NAN, |ms| ms as f64 / 1e3);
    gauge!(GROUP_CONFIRMED, "group" => id.clone()).set(seconds(group.confirmed_ms));
    let (under, margin) = match group.leads {
        true => (f64::from(u8::from(group.is_under_replicated())), group.quorum_margin() as f64),
        false => (f64::NAN, f64::NAN),
    };
    gauge!(UNDER_REPLICATED, "group" => id.clone()).set(under);
    gauge!(QUORUM_MARGIN, "group" => id.clone()).set(margin);
    for node in peers.iter().map(|peer| peer.node) {
        let replica = group.replicas.iter().find(|replica| group.leads && replica.node == node);
        let (lag, contact) = match replica {
            Some(replica) => (replica.lag as f64, seconds(replica.heard_ms)),
            None => (f64::NAN, f64::NAN),
        };
        let labels = [("group", id.clone()), ("node", node.to_string())];
        gauge!(REPLICA_LAG, &labels).set(lag);
        gauge!(REPLICA_CONTACT, &labels).set(contact);
    }
}

impl GroupDepth {
    fn record(&self) {
        let group = self.id.to_string();
        let counts = &self.counts;
        let depth = |state: &'static str, count: u64| {
            gauge!(DEPTH, "group" => group.clone(), "state" => state).set(count as f64);
        };
        depth("active", counts.active);
        depth("scheduled", counts.scheduled);
        depth("deferred", counts.deferred);
        depth("dead_lettered", counts.dead_lettered);
        depth("transfer", counts.transfer);
        depth("transfer_dead_lettered", counts.transfer_dead_lettered);
        let available = |sub: SubQueue| self.available[sub as usize];
        depth("available", available(SubQueue::Main));
        depth("available_dead_lettered", available(SubQueue::DeadLetter));
        depth("available_transfer_dead_lettered", available(SubQueue::TransferDeadLetter));
        gauge!(STORED, "group" => group.clone()).set(self.size_bytes as f64);
        gauge!(ENTITIES, "group" => group.clone()).set(self.entities as f64);
    }
}
