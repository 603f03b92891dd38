//! Handing leadership over.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use tokio::time::{Instant, sleep, timeout_at};

use super::Group;
use crate::{TransferError, member};

/// A target further behind than this does not get leadership: the group would stand still while it
/// catches up.
pub(super) const LAG_MAX: u64 = 256;
/// How long a target may take to come that near.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);
/// A target that answered no heartbeat for this long is taken for dead.
const HEARD_MS_MAX: u64 = 1_000;
const CHECK: Duration = Duration::from_millis(20);
/// How long the target may take to win, once it was told to.
const TAKE_OVER_MAX: Duration = Duration::from_secs(3);

impl Group {
    /// Hands leadership to a voter that keeps up. Once the target is told, proposals here are
    /// refused; should it fail to take over, any voter may after an election timeout.
    pub async fn transfer(&self, to: u64) -> Result<(), TransferError> {
        let status = self.status();
        if status.leader == Some(to) {
            return Ok(());
        }
        if !status.leading {
            return Err(TransferError::NotLeader { leader: status.leader });
        }
        let Some(id) = self.replicas().voters.get(&to).copied() else {
            return Err(TransferError::NotAVoter { node: to });
        };
        let ready_until = Instant::now() + CATCH_UP_MAX;
        while !self.is_ready(to) {
            if Instant::now() > ready_until {
                return Err(TransferError::NotReady { node: to });
            }
            sleep(CHECK).await;
        }
        if self.lease.give_way(id).await.is_err() {
            return Err(TransferError::NotLeader { leader: None });
        }
        self.taken_over_by(to).await
    }

    /// The voter most fit to lead in this node's place, if one is.
    pub fn heir(&self) -> Option<u64> {
        self.heir_among(&self.replicas().voters.into_keys().collect())
    }

    /// The same, of some of them.
    pub fn heir_among(&self, some: &BTreeSet<u64>) -> Option<u64> {
        let status = self.status();
        let others = status.voters.iter().copied();
        let others = others.filter(|node| *node != self.node && some.contains(node));
        others
            .filter(|node| self.is_ready(*node))
            .max_by_key(|node| status.matched.get(node).copied().flatten())
    }

    fn is_ready(&self, node: u64) -> bool {
        let status = self.status();
        let heard = status.heard_ms.get(&node).copied().flatten();
        let matched = status.matched.get(&node).copied().flatten();
        heard.is_some_and(|ms| ms <= HEARD_MS_MAX)
            && matched.is_some_and(|matched| {
                status.last_log.unwrap_or_default().saturating_sub(matched) <= LAG_MAX
            })
    }

    async fn taken_over_by(&self, to: u64) -> Result<(), TransferError> {
        let until = Instant::now() + TAKE_OVER_MAX;
        let mut server = self.raft.server_metrics();
        loop {
            let leader = server.borrow_watched().current_leader.map(member::node_of);
            match leader {
                Some(leader) if leader == to => return Ok(()),
                Some(leader) if leader != self.node => {
                    return Err(TransferError::NotLeader { leader: Some(leader) });
                }
                Some(_) | None => (),
            }
            match timeout_at(until, server.changed()).await {
                Ok(Ok(())) => (),
                Ok(Err(_)) => return Err(TransferError::NotLeader { leader: None }),
                Err(_) => return Err(TransferError::TimedOut { node: to }),
            }
        }
    }
}
