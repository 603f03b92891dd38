//! Has this node go by the fault rules that the catalog has.

use std::sync::Arc;
use std::time::Duration;

use domain::GroupId;
use tokio::time::sleep;

use crate::edge::{Router, fault_rules_in_force};

/// How soon a rule whose time is over is gone by no more.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs until the node ends, where faults are allowed.
pub(crate) async fn heed_fault_rules(router: Arc<Router>) {
    let Some(book) = router.local.about.faults.clone() else { return };
    let mut changes = loop {
        match router.local.replication.changes(GroupId::CATALOG) {
            Some(changes) => break changes,
            None => sleep(LOOK_EVERY).await,
        }
    };
    let mut heeded = Vec::new();
    loop {
        let rules = fault_rules_in_force(&router);
        if rules != heeded {
            book.set(&rules);
            heeded = rules;
        }
        match heeded.is_empty() {
            true if !changes.changed().await => return,
            true => (),
            false => sleep(LOOK_EVERY).await,
        }
    }
}
