//! Who leads each group, as far as this node knows: by Raft where it holds a replica, else by what other nodes
//! said.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{GroupId, Key, Row, Rows};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::peer::LocalNode;

pub(crate) struct Leaders {
    local: Arc<LocalNode>,
    /// Of groups this node holds no replica of.
    hints: Mutex<BTreeMap<GroupId, Hint>>,
    /// See [`Router::follow_leaders`](super::Router::follow_leaders).
    changes: mpsc::Sender<(Instant, GroupId)>,
}

/// Who leads a group, as last heard.
#[derive(Clone, Copy, Default)]
struct Hint {
    leader: u64,
    /// The latest in which a node said that it leads; 0 before the first.
    term: u64,
}

impl Leaders {
    pub fn new(local: Arc<LocalNode>, changes: mpsc::Sender<(Instant, GroupId)>) -> Leaders {
        Leaders { local, hints: Mutex::default(), changes }
    }

    /// Who leads a group, as far as this node knows; of a group without a replica here, whoever
    /// said so last, or one of its replicas, which knows better.
    pub fn of(&self, group: GroupId) -> Option<u64> {
        let known = self.local.group(group).and_then(|_| self.local.replication.leader(group));
        if self.hears_raft(group) {
            return known;
        }
        if let Some(hint) = self.hints.lock().get(&group) {
            return Some(hint.leader);
        }
        known.or_else(|| self.replicas(group).first().copied())
    }

    /// Whether Raft tells this node who leads a group: a replica that comes may not know yet, and one
    /// that goes not any more.
    fn hears_raft(&self, group: GroupId) -> bool {
        self.local.group(group).is_some_and(|group| !group.is_guest())
    }

    /// The nodes of a group by the catalog's rows; the catalog's own are all nodes.
    fn replicas(&self, group: GroupId) -> Vec<u64> {
        match self.local.catalog().get(&Key::Group(group)) {
            Some(Row::Group(group)) => group.replicas,
            _ => Vec::new(),
        }
    }

    /// A node said who leads a group, or that it does not know.
    pub fn hear(&self, group: GroupId, leader: Option<u64>) {
        if self.hears_raft(group) {
            return;
        }
        let mut hints = self.hints.lock();
        let hint = hints.get(&group).copied().unwrap_or_default();
        let leader = leader.or_else(|| {
            // Ask the next replica.
            let replicas = self.replicas(group);
            let at = replicas.iter().position(|node| *node == hint.leader).unwrap_or(0);
            replicas.get((at + 1) % replicas.len().max(1)).copied()
        });
        if let Some(leader) = leader {
            hints.insert(group, Hint { leader, ..hint });
        }
    }

    /// A node said that it leads a group, in this term: nodes say so once a second.
    pub fn hear_term(&self, group: GroupId, leader: u64, term: u64) {
        if self.hears_raft(group) {
            return;
        }
        let mut hints = self.hints.lock();
        // One that was frozen or cut off may not know yet that it leads no more.
        if hints.get(&group).is_none_or(|hint| term > hint.term) {
            hints.insert(group, Hint { leader, term });
            let _ = self.changes.try_send((Instant::now(), group)); // Else the node is ending.
        }
    }
}
