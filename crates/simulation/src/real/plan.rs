//! Where the group's replicas shall be. In a real cluster the catalog says so, and nodes learn of a
//! change one after the other, but never of an earlier one after a later one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use replication::Wanted;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub replicas: BTreeSet<u64>,
    /// How often that has changed.
    pub moves: u64,
}

/// What one node has heard of it. Clones share it.
#[derive(Clone)]
pub struct KnownPlan(Arc<Mutex<Option<Plan>>>);

impl Plan {
    pub fn wanted(&self) -> Wanted {
        let Plan { replicas, .. } = self;
        Wanted { replicas: replicas.clone(), voters: replicas.clone(), voters_max: replicas.len() }
    }

    /// A replica shall live on another node.
    pub fn move_one(&mut self, from: u64, to: u64) {
        self.replicas.remove(&from);
        self.replicas.insert(to);
        self.moves += 1;
    }
}

impl KnownPlan {
    pub fn new(plan: &Plan) -> KnownPlan {
        KnownPlan(Arc::new(Mutex::new(Some(plan.clone()))))
    }

    pub fn get(&self) -> Option<Plan> {
        self.lock().clone()
    }

    pub fn is(&self, plan: &Plan) -> bool {
        self.lock().as_ref() == Some(plan)
    }

    pub fn hear(&self, plan: &Plan) {
        *self.lock() = Some(plan.clone());
    }

    /// With its disk.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Plan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
