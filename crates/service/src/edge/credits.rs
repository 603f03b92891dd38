//! What clients of namespaces that are throttled by their profiles ask for, over all nodes (QUOTA-8). It comes
//! together at the node that leads the catalog; where nobody does, each node goes by what it knows.

use std::time::Duration;

use domain::GroupId;
use tokio::time::sleep;

use crate::edge::namespaces::Namespaces;

/// How soon it is seen that the catalog has come to this node.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Namespaces<'_> {
    /// Hears which namespaces may ask for so many credits a second (QUOTA-34), now and whenever that may be something
    /// else; until the node ends.
    pub async fn follow_credits(self, mut hear: impl FnMut(Vec<(String, u64)>)) {
        let local = &self.router.local;
        let mut changes = loop {
            match local.replication.changes(GroupId::CATALOG) {
                Some(changes) => break changes,
                None => sleep(LOOK_EVERY).await,
            }
        };
        loop {
            let throttled = self.rows().into_iter().filter_map(|row| {
                let credits = row.profile.limits().credits_per_second?;
                Some((row.name, credits))
            });
            hear(throttled.collect());
            if !changes.changed().await {
                return;
            }
        }
    }

    /// So many credits were granted in these namespaces by this node. For how long nothing more is to be granted, by
    /// the word of all.
    pub async fn spend(self, spent: Vec<(String, u64)>) -> Vec<(String, Duration)> {
        let router = self.router;
        let owed = match router.leaders.of(GroupId::CATALOG) {
            Some(leader) if leader == router.local.id => router.local.spend(&spent),
            Some(leader) => router.links.spend(leader, spent.clone()).await,
            None => Vec::new(),
        };
        let owed = owed.into_iter().map(Duration::from_millis);
        spent.into_iter().map(|(name, _)| name).zip(owed).collect()
    }
}
