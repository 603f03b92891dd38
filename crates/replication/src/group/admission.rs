//! Changes of a group's members, at its leader. A replica that is to come asks for its place under
//! an id of its own (`membership`): the leader takes it in as a learner and, once it has caught up,
//! gives it a vote, that of an earlier incarnation of its node, or that of a node that is to go.
//! The rest the leader does by itself. What comes next is `change`'s to say.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::{ChangeMembers, EmptyNode};
use tracing::{debug, info};

use super::Group;
use super::change::{self, Step};
use super::transfer::LAG_MAX;
use crate::Wanted;
use crate::peer::v1::admit_reply::Answer;

/// A leader that heard of no majority for this long does not take itself for one.
const QUORUM_SILENT_MAX: Duration = Duration::from_secs(2);

impl Group {
    /// Brings a replica one step nearer to its place. `applied` is how far it is.
    pub async fn admit(self: &Arc<Group>, id: u64, applied: Option<u64>) -> Answer {
        if !self.rules() {
            return Answer::NotLeader;
        }
        let last_log = self.raft.metrics().borrow_watched().last_log_index;
        let caught_up =
            applied.is_some_and(|at| at.saturating_add(LAG_MAX) >= last_log.unwrap_or_default());
        let step = self.step_for(id);
        match step {
            Step::Nothing => Answer::Admitted,
            // On this word a replica may forget all it has: it must be the word of who leads now.
            Step::Refuse => match self.read_index().await {
                Ok(()) if self.step_for(id) == Step::Refuse => Answer::Stranger,
                Ok(()) | Err(_) => Answer::NotLeader,
            },
            Step::Votes { .. } if !caught_up => Answer::Learner,
            step => {
                self.take(step, Some(id));
                Answer::Learner
            }
        }
    }

    /// Which nodes shall hold the group, from now on. The leader does what can be done about it
    /// without being asked.
    pub fn want(self: &Arc<Group>, wanted: Wanted) {
        self.wanted.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&wanted);
            *known = Some(wanted.clone());
            changed
        });
        if !self.rules() {
            return;
        }
        // What is applied is committed: what is not may yet be undone.
        let membership = self.replica.applied().membership;
        match change::by_itself(membership.membership(), &wanted) {
            Step::Nothing => (),
            step => self.take(step, None),
        }
    }

    fn step_for(&self, id: u64) -> Step {
        let membership = self.replica.applied().membership;
        change::for_replica(membership.membership(), id, self.wanted.borrow().as_ref())
    }

    /// Whether this node leads and was heard by a majority lately, which it is by itself where there is no
    /// other voter: one that was not changes nothing, and may have a successor.
    fn rules(&self) -> bool {
        let confirmed = self.confirmation.as_leader();
        self.leads() && confirmed.is_some_and(|at| at.elapsed() < QUORUM_SILENT_MAX)
    }

    /// Begins a step, unless one is under way. Whoever wants it wants it again, so one that fails is
    /// no more than late.
    fn take(self: &Arc<Group>, step: Step, asked: Option<u64>) {
        let (change, keep) = match step {
            Step::Nothing | Step::Refuse => return,
            Step::TakeIn => {
                let nodes = asked.map(|id| (id, EmptyNode {})).into_iter().collect();
                (ChangeMembers::AddNodes(nodes), false)
            }
            Step::Drop(lost) => (ChangeMembers::RemoveNodes(lost), false),
            Step::Votes { voters, .. } if !voters.contains(&self.replica_id) => {
                return self.give_way(voters);
            }
            Step::Votes { voters, keep } => (ChangeMembers::ReplaceAllVoters(voters), keep),
        };
        let Ok(guard) = self.changing.clone().try_lock_owned() else { return };
        let (lease, group) = (self.lease.clone(), self.id);
        // The two halves of an admission belong together: the replica that asked may hang up.
        tokio::spawn(async move {
            // Without it Raft refuses the change.
            let _ = lease.wait().await;
            match lease.raft.change_membership(change, keep).await {
                Ok(changed) => info!(%group, members = ?changed.membership, "the members changed"),
                Err(error) => debug!(%group, %error, "the members did not change this time"),
            }
            drop(guard);
        });
    }

    /// A leader that is to go hands over first, to one that stays.
    fn give_way(self: &Arc<Group>, voters: BTreeSet<u64>) {
        let Ok(guard) = self.changing.clone().try_lock_owned() else { return };
        let stay = self.replicas().voters.into_iter().filter(|(_, id)| voters.contains(id));
        let Some(heir) = self.heir_among(&stay.map(|(node, _)| node).collect()) else { return };
        let group = self.clone();
        tokio::spawn(async move {
            match group.transfer(heir).await {
                Ok(()) => info!(group = %group.id, heir, "leadership given away before leaving"),
                Err(error) => {
                    debug!(group = %group.id, heir, %error, "leadership not given away")
                }
            }
            drop(guard);
        });
    }
}
