//! Has this node go by the fault rules that the catalog has.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::edge::{Router, fault_rules_in_force};

/// How soon a node goes by a change; whoever makes one waits for that.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs until the node ends, where faults are allowed.
pub(crate) async fn heed_fault_rules(router: Arc<Router>) {
    let Some(book) = router.local.about.faults.clone() else { return };
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heeded = Vec::new();
    loop {
        looks.tick().await;
        let rules = fault_rules_in_force(&router);
        if rules != heeded {
            book.set(&rules);
            heeded = rules;
        }
    }
}
