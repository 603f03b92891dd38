//! The way back of a replica that lost what it held: it asks the group's leader for its node's
//! place, under an id of its own. The leader takes it in as a learner and, once it has caught up,
//! gives it the vote its node had. The old id's vote ends in the same step, so that the group needs
//! as many replicas as before, and never one more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::ShardId;
use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{EmptyNode, Instant as _};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, error, info, warn};

use super::Group;
use super::transfer::LAG_MAX;
use crate::member::node_of;
use crate::peer::connection::Peers;
use crate::peer::v1;
use crate::peer::v1::admit_reply::Answer;
use crate::raft::{Membership, Raft};

const ASK_EVERY: Duration = Duration::from_millis(200);
/// A leader answers at once, but for the moment in which it takes the replica in.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// A leader that heard of no majority for this long does not take itself for one.
const QUORUM_SILENT_MAX: Duration = Duration::from_secs(2);
/// How long there may be no leader to ask before an operator hears of it.
const LEADERLESS_MAX: Duration = Duration::from_secs(5);

/// What is left to do until a replica has its node's place.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// Its node has no place to give.
    Refuse,
    TakeIn,
    /// Learners the node lost before they had a vote.
    Drop(BTreeSet<u64>),
    /// These are the voters then.
    GiveVote(BTreeSet<u64>),
}

fn next_step(membership: &Membership, id: u64) -> Step {
    let ids: BTreeSet<u64> = membership.nodes().map(|(id, _)| *id).collect();
    let former: BTreeSet<u64> = ids
        .iter()
        .copied()
        .filter(|other| *other != id && node_of(*other) == node_of(id))
        .collect();
    if !ids.contains(&id) {
        return if former.is_empty() { Step::Refuse } else { Step::TakeIn };
    }
    let sets = membership.get_joint_config();
    let lost: BTreeSet<u64> = former
        .iter()
        .copied()
        .filter(|former| !sets.iter().any(|set| set.contains(former)))
        .collect();
    if !lost.is_empty() {
        return Step::Drop(lost);
    }
    let voters = sets.last().cloned().unwrap_or_default();
    let mut wanted = &voters - &former;
    if wanted.len() < voters.len() {
        wanted.insert(id);
    }
    match wanted == voters && sets.len() == 1 {
        true => Step::Nothing,
        false => Step::GiveVote(wanted), // Also where a change was left between its two halves.
    }
}

impl Group {
    /// Brings a replica one step nearer to its node's place. `applied` is how far it is.
    pub async fn admit(&self, id: u64, applied: Option<u64>) -> Answer {
        let metrics = self.raft.metrics().borrow_watched().clone();
        // One that hears no majority changes nothing, and may have a successor.
        let heard = metrics.last_quorum_acked.is_some_and(|at| at.elapsed() < QUORUM_SILENT_MAX);
        if !self.leads() || !heard {
            return Answer::NotLeader;
        }
        let last_log = metrics.last_log_index;
        // What is applied is committed: what is not may yet be undone.
        let step = next_step(self.replica.applied().membership.membership(), id);
        let caught_up = applied.is_some_and(|at| at + LAG_MAX >= last_log.unwrap_or_default());
        let change = match step {
            Step::Nothing => return Answer::Admitted,
            Step::Refuse => return Answer::Stranger,
            Step::GiveVote(_) if !caught_up => return Answer::Learner,
            Step::TakeIn => ChangeMembers::AddNodes([(id, EmptyNode {})].into()),
            Step::Drop(lost) => ChangeMembers::RemoveNodes(lost),
            Step::GiveVote(voters) => ChangeMembers::ReplaceAllVoters(voters),
        };
        self.change(change);
        Answer::Learner
    }

    /// Begins a change of the membership, unless one is under way. Whoever asked for it asks again,
    /// so a change that fails is no more than late.
    fn change(&self, change: ChangeMembers<u64, EmptyNode>) {
        let Ok(guard) = self.admitting.clone().try_lock_owned() else { return };
        let (raft, shard) = (self.raft.clone(), self.shard);
        // Its two halves belong together: the asker may hang up.
        tokio::spawn(async move {
            match raft.change_membership(change, false).await {
                Ok(changed) => info!(%shard, members = ?changed.membership, "the members changed"),
                Err(error) => debug!(%shard, %error, "the members did not change this time"),
            }
            drop(guard);
        });
    }
}

/// A replica's request for its place, made until it is granted.
pub(crate) struct Petition {
    pub shard: ShardId,
    pub id: u64,
    pub raft: Raft,
    pub peers: Arc<Peers>,
    /// The group's nodes.
    pub members: BTreeSet<u64>,
}

impl Petition {
    pub async fn run(self) {
        let shard = self.shard;
        let (mut taken_in, mut led_at, mut told) = (false, Instant::now(), false);
        while self.raft.metrics().borrow_watched().running_state.is_ok() {
            match self.ask().await {
                Answer::Admitted => {
                    return info!(%shard, id = self.id, "this replica is a full member");
                }
                Answer::Stranger => {
                    return error!(%shard, "the group has no place for this node: it was removed");
                }
                Answer::Learner => {
                    if !std::mem::replace(&mut taken_in, true) {
                        info!(%shard, id = self.id, "this replica is rebuilt by its peers");
                    }
                    (led_at, told) = (Instant::now(), false);
                }
                Answer::NotLeader if led_at.elapsed() > LEADERLESS_MAX && !told => {
                    warn!(
                        %shard,
                        "this replica cannot be rebuilt: the group has no leader, and none can be \
                         chosen before a majority of its other replicas is back"
                    );
                    told = true;
                }
                Answer::NotLeader => (),
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Asks the others one after the other, the leader first if it is known.
    async fn ask(&self) -> Answer {
        let (leader, applied) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            (metrics.current_leader.map(node_of), metrics.last_applied.map(|applied| applied.index))
        };
        let others = self.members.iter().copied().filter(|node| *node != node_of(self.id));
        let mut others: Vec<u64> = others.collect();
        others.sort_by_key(|node| Some(*node) != leader);
        for node in others {
            let Some(peer) = self.peers.get(node) else { continue };
            let mut client = peer.control.clone();
            let request = v1::AdmitRequest { shard: self.shard.0.into(), id: self.id, applied };
            // Who does not answer does not lead.
            if let Ok(Ok(reply)) = timeout(ANSWER_MAX, client.admit(request)).await {
                match reply.into_inner().answer() {
                    Answer::NotLeader => (),
                    answer => return answer,
                }
            }
        }
        Answer::NotLeader
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::member::id_of;

    fn step(sets: &[&[u64]], learners: &[u64], id: u64) -> Step {
        let sets: Vec<BTreeSet<u64>> =
            sets.iter().map(|set| set.iter().copied().collect()).collect();
        let nodes: BTreeMap<u64, EmptyNode> =
            sets.iter().flatten().chain(learners).map(|id| (*id, EmptyNode {})).collect();
        next_step(&Membership::new(sets, nodes).expect("a membership"), id)
    }

    #[test]
    fn a_node_that_returns_is_taken_in_then_takes_its_old_vote() {
        let (again, third) = (id_of(3, 7), id_of(3, 9));
        let founders: &[u64] = &[1, 2, 3];
        let after: &[u64] = &[1, 2, again];
        for (sets, learners, id, expected) in [
            (&[founders][..], &[][..], again, Step::TakeIn),
            (&[founders], &[again], again, Step::GiveVote(after.iter().copied().collect())),
            (&[founders, after], &[], again, Step::GiveVote(after.iter().copied().collect())),
            (&[after], &[], again, Step::Nothing),
            // It lost its disk once more on the way.
            (&[founders], &[again], third, Step::TakeIn),
            (&[founders], &[again, third], third, Step::Drop([again].into())),
            (&[founders, after], &[third], third, Step::GiveVote([1, 2, third].into())),
            // A learner gets no vote, and a stranger nothing.
            (&[&[1, 2]], &[3, again], again, Step::Drop([3].into())),
            (&[&[1, 2]], &[again], again, Step::Nothing),
            (&[&[1, 2]], &[], again, Step::Refuse),
        ] {
            assert_eq!(step(sets, learners, id), expected, "{sets:?} {learners:?} {id}");
        }
    }
}
