//! Who lives, for all groups of a node at once. The node that leads groups says so to each other node in one call, which
//! wakes no replica; whoever hears nothing for long enough asks for votes. So a group that has nothing to do costs nothing:
//! Raft's own timer wakes each group thirty times a second, and its heartbeats are calls of their own.
//!
//! What this does not settle Raft does: a replica that does not follow, or does not know that all is committed, is called by
//! its group's own leader; so is every one of a group whose log has grown lately, for Raft takes proposals only of
//! a leader that it knows to be answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::GroupId;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::group::election::{Turn, turn};
use crate::group::{Group, Groups};
use crate::peer::connection::Peers;
use crate::peer::heartbeats;
use crate::peer::v1;
use crate::raft::{Vote, record};
use crate::{Timings, member};

/// Of a heartbeat's interval: how finely silence is measured.
const LOOKS_PER_HEARTBEAT: u32 = 6;
/// What is not answered within so many intervals is told anew.
const ANSWER_HEARTBEATS: u32 = 2;
/// A group whose log has grown so lately is called by Raft as well, so that the next proposal need not wait until a majority
/// has answered.
const AWAKE: Duration = Duration::from_secs(5);

/// The one task of a node that measures silence, and breaks it.
pub(crate) struct Liveness {
    groups: Groups,
    peers: Arc<Peers>,
    timings: Timings,
    logs: BTreeMap<GroupId, Growth>,
    /// To each peer with replicas of groups that are led here. Its end ends the task behind it.
    lines: BTreeMap<u64, watch::Sender<Vec<v1::GroupHeartbeat>>>,
}

/// How far a group's log was when it was last looked at, and since when.
struct Growth {
    last: Option<u64>,
    since: Instant,
}

impl Liveness {
    pub fn new(groups: Groups, peers: Arc<Peers>, timings: Timings) -> Liveness {
        let (logs, lines) = Default::default();
        Liveness { groups, peers, timings, logs, lines }
    }

    pub async fn run(mut self) {
        let finest = self.timings.heartbeat / LOOKS_PER_HEARTBEAT;
        let mut calls_at = Instant::now();
        let mut due = calls_at;
        loop {
            let look_at = calls_at.min(due.max(Instant::now() + finest));
            sleep_until(look_at).await;
            let now = Instant::now();
            // Whoever stood still heard nobody, and nobody was silent for that.
            let stood_still = (now - look_at).saturating_sub(self.timings.heartbeat / 2);
            let calls = now >= calls_at;
            if calls {
                calls_at = now + self.timings.heartbeat;
            }
            due = self.look(now, stood_still, calls).await.unwrap_or(calls_at);
        }
    }

    /// `calls`: it is time for heartbeats. Returns when the first replica is to ask for votes, should it hear nobody.
    async fn look(&mut self, now: Instant, stood_still: Duration, calls: bool) -> Option<Instant> {
        let mut beats: BTreeMap<u64, Vec<v1::GroupHeartbeat>> = BTreeMap::new();
        let mut due = None::<Instant>;
        let groups = self.groups.all();
        for group in &groups {
            if !stood_still.is_zero() {
                group.timer.excuse(stood_still);
            }
            match ReplicaRole::of(group) {
                ReplicaRole::Leads(vote) => {
                    group.timer.restart(now);
                    group.confirmation.begin(vote, now);
                    if calls && group.confirmation.may_call(group.lease.length()) {
                        self.beat(group, vote, now, &mut beats).await;
                    }
                }
                ReplicaRole::MayLead { alone, turn } => {
                    group.timer.take_turn(turn);
                    if group.timer.campaigns(now) {
                        // An error means that the replica has stopped.
                        drop(group.raft.trigger().elect(!alone).await);
                    }
                    let own = group.timer.due();
                    due = Some(due.map_or(own, |due| due.min(own)));
                }
                ReplicaRole::Hears => (),
            }
        }
        if calls {
            self.logs.retain(|group, _| groups.iter().any(|held| held.id == *group));
            self.tell(beats);
        }
        due
    }

    /// Adds what is said of a group that is led here, to each of its other members; and has Raft call them, if that is not
    /// enough.
    async fn beat(
        &mut self,
        group: &Group,
        vote: Vote,
        now: Instant,
        beats: &mut BTreeMap<u64, Vec<v1::GroupHeartbeat>>,
    ) {
        // One that is no member any more leaves the group to others by itself, and Raft knows when.
        let goes = {
            let server = group.raft.server_metrics();
            let server = server.borrow_watched();
            server.committed_membership_config.voter_ids().all(|id| id != group.replica_id)
        };
        if goes {
            drop(group.raft.trigger().heartbeat().await);
            return;
        }
        let (last, committed, members) = {
            let metrics = group.raft.metrics();
            let metrics = metrics.borrow_watched();
            let members = metrics.membership_config.membership().nodes().map(|(id, _)| *id);
            let others: Vec<u64> = members.filter(|id| *id != group.replica_id).collect();
            (metrics.last_log_index, metrics.cluster_committed, others)
        };
        if members.is_empty() {
            return;
        }
        let beat = v1::GroupHeartbeat {
            group: group.id.0.into(),
            addressee: 0,
            vote: Some(record::vote_to_proto(&vote)),
            committed: committed.as_ref().map(record::log_id_to_proto),
            held_by_all: group.held_by_all.load(Ordering::Relaxed),
            confirmed_ms: group.confirmation.word_ms(),
        };
        let answered = |id: &u64| {
            let at = group.confirmation.acknowledged(&vote, *id);
            at.is_some_and(|at| now - at <= self.timings.heartbeat * (ANSWER_HEARTBEATS + 1))
        };
        let growth = self.logs.entry(group.id).or_insert(Growth { last: None, since: now });
        if growth.last != last {
            *growth = Growth { last, since: now };
        }
        if now - growth.since < AWAKE || !members.iter().all(answered) {
            // An error means that the replica has stopped.
            drop(group.raft.trigger().heartbeat().await);
        }
        for id in members {
            let to = beats.entry(member::node_of(id)).or_default();
            to.push(v1::GroupHeartbeat { addressee: id, ..beat });
        }
    }

    /// Each peer is told by a task of its own, so that none waits for another.
    fn tell(&mut self, beats: BTreeMap<u64, Vec<v1::GroupHeartbeat>>) {
        self.lines.retain(|node, _| beats.contains_key(node));
        for (node, beats) in beats {
            let line = self.lines.entry(node).or_insert_with(|| {
                let (line, news) = watch::channel(Vec::new());
                let answer_max = self.timings.heartbeat * ANSWER_HEARTBEATS;
                let (peers, groups) = (self.peers.clone(), self.groups.clone());
                tokio::spawn(heartbeats::tell(node, peers, groups, news, answer_max));
                line
            });
            line.send_replace(beats);
        }
    }
}

/// What a replica is to its group.
enum ReplicaRole {
    Leads(Vote),
    /// It votes. `alone`: nobody else does.
    MayLead {
        alone: bool,
        turn: Turn,
    },
    Hears,
}

impl ReplicaRole {
    fn of(group: &Group) -> ReplicaRole {
        let server = group.raft.server_metrics();
        let server = server.borrow_watched();
        if server.state.is_leader() {
            return ReplicaRole::Leads(server.vote);
        }
        let votes = |id: u64| id == group.replica_id;
        let effective = server.membership_config.voter_ids().any(votes);
        match effective || server.committed_membership_config.voter_ids().any(votes) {
            true => {
                let alone = effective && server.membership_config.voter_ids().count() == 1;
                let others = |id: &u64| Some(*id) != server.current_leader;
                let survivors: Vec<u64> =
                    server.membership_config.voter_ids().filter(others).collect();
                ReplicaRole::MayLead { alone, turn: turn(group.id, &survivors, group.replica_id) }
            }
            false => ReplicaRole::Hears,
        }
    }
}
