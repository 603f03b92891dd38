//! Which nodes may take over a leadership that is held here, and handing it to one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::GroupId;
use parking_lot::Mutex;
use replication::GroupStatus;

use crate::peer::LocalNode;
use crate::upkeep::leadership_balance::keeps_up;

pub(crate) struct Succession {
    local: Arc<LocalNode>,
    /// Nodes that should lead nothing now, by reason.
    unfit: Mutex<BTreeMap<Unfit, BTreeSet<u64>>>,
    /// How many data groups each other node leads, as it last said.
    led: Mutex<BTreeMap<u64, usize>>,
}

/// Why a node should lead nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unfit {
    /// It is short of disk space (QUOTA-37).
    Disk,
    /// It is drained, or was removed.
    Leaving,
    /// An operator said so for a while.
    Maintenance,
}

impl Succession {
    pub fn new(local: Arc<LocalNode>) -> Succession {
        Succession { local, unfit: Mutex::default(), led: Mutex::default() }
    }

    /// Takes down which nodes should lead nothing for this reason.
    pub fn set_unfit(&self, why: Unfit, nodes: BTreeSet<u64>) {
        self.unfit.lock().insert(why, nodes);
    }

    /// Nodes that should lead nothing, for whatever reason.
    pub fn unfit(&self) -> BTreeSet<u64> {
        self.unfit.lock().values().flatten().copied().collect()
    }

    pub fn set_led(&self, led: BTreeMap<u64, usize>) {
        *self.led.lock() = led;
    }

    /// How many data groups each other node leads, as it last said.
    pub fn led(&self) -> BTreeMap<u64, usize> {
        self.led.lock().clone()
    }

    /// Who might lead a group led here: keeps up with it, has a clock that a majority agrees with,
    /// and is not unfit; of those, who leads least.
    pub fn successor(&self, status: &GroupStatus) -> Option<u64> {
        let agreeing = self.local.group(status.id)?.agreeing();
        let (unfit, led) = (self.unfit(), self.led());
        let fit = |node: &u64| {
            *node != self.local.id
                && agreeing.contains(node)
                && !unfit.contains(node)
                && keeps_up(status, *node)
        };
        let fit = status.voters.iter().copied().filter(fit);
        fit.min_by_key(|node| (led.get(node).copied().unwrap_or(0), *node))
    }

    /// Hands a leadership over; where it stays, whoever wants it gone tries again.
    pub async fn hand_over(&self, group: GroupId, successor: u64, why: &'static str) {
        match self.local.transfer(group, successor).await {
            Ok(()) => tracing::info!(%group, successor, why, "leadership handed over"),
            Err(error) => {
                tracing::debug!(%group, successor, why, error, "leadership stays for now")
            }
        }
    }
}
