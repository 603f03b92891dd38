//! What versions of nodes have in common: nobody writes into a log what a node of the cluster could not
//! read, and nobody is let in who could not read what is there.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{ClusterRow, FEATURE_LEVEL_JOIN_TOKENS, Refusal};
use futures::future::join_all;
use replication::NodeDescription;
use tokio::time::Instant;

use crate::edge::catalog;
use crate::edge::cluster::Cluster;
use crate::edge::router::Router;
use crate::error::{Error, ErrorKind, Result, Unavailable};

/// What the last versions knew whose nodes did not say so when they joined.
const NOT_TOLD: u32 = FEATURE_LEVEL_JOIN_TOKENS;

/// What a node tells of feature levels; zeroes of one that does not answer.
#[derive(Clone, Copy, Default)]
pub(crate) struct ToldLevels {
    /// What its binary knows.
    pub known: u32,
    /// The cluster's, as its leaders go by it.
    pub reached: u32,
}

/// The feature levels that each node of the cluster tells.
pub(crate) async fn told_by_all(router: &Router) -> BTreeMap<u64, ToldLevels> {
    let levels = |told: NodeDescription| ToldLevels {
        known: told.feature_level,
        reached: told.feature_level_reached,
    };
    let own = router.local.id;
    let others = catalog::nodes(&router.local.catalog()).into_keys().filter(|node| *node != own);
    let asked = others.map(|other| async move {
        (other, router.links.describe(other).await.map_or_else(ToldLevels::default, levels))
    });
    let told_here = (own, levels(router.local.describe()));
    join_all(asked).await.into_iter().chain([told_here]).collect()
}

/// Longest it is waited, in a cluster that never had an entity, that its level rises to what this node knows: who comes
/// right after the founding finds what all its nodes have.
const FRESH_WAIT: Duration = Duration::from_secs(2);

/// Waits until a cluster that was just founded has its feature level, if it is to have that of this node, and until every
/// node has heard: the first entity may be of any group, whose leader goes by older rules until then.
pub(super) async fn settle_fresh(router: &Router) {
    let (deadline, mut pause) = (Instant::now() + FRESH_WAIT, Duration::from_millis(5));
    loop {
        let cluster = catalog::cluster(&router.local.catalog());
        let Some(cluster) = cluster.filter(|cluster| cluster.next_entity == 1) else { return };
        let level = cluster.feature_level;
        let is_settled = level >= router.local.about.feature_level
            && told_by_all(router).await.values().all(|told| told.reached >= level);
        if is_settled || !router.wait(&mut pause, deadline).await {
            return;
        }
    }
}

/// `level`: as the node that is to be let in tells it, 0 of one that does not.
pub(super) fn check_newcomer(cluster: &ClusterRow, level: u32) -> Result<()> {
    let (needed, knows) = (cluster.feature_level, if level == 0 { NOT_TOLD } else { level });
    if knows >= needed {
        return Ok(());
    }
    let why = format!(
        "its version knows feature level {knows}, and this cluster's logs are of level {needed}, which it could \
         not read; install the version that the cluster's nodes have, then let it join"
    );
    Err(Error::new(Refusal::Argument { what: "node", why }, ""))
}

/// Longest it is waited that the level rises: by itself, soon after a cluster was founded or its last node upgraded.
const RISE_WAIT: Duration = Duration::from_secs(5);

impl Cluster<'_> {
    /// The cluster, once its feature level is what something needs.
    pub(super) async fn of_level(self, needed: u32, what: &'static str) -> Result<ClusterRow> {
        let (deadline, mut pause) = (Instant::now() + RISE_WAIT, Duration::from_millis(5));
        loop {
            let cluster = self.formed()?;
            let level = cluster.feature_level;
            if level >= needed {
                return Ok(cluster);
            }
            if !self.router().wait(&mut pause, deadline).await {
                let why = format!(
                    "the cluster's feature level is {level}, and this needs {needed}; upgrade all nodes, whereupon \
                     it rises by itself"
                );
                return Err(Error::new(Refusal::Argument { what, why }, ""));
            }
        }
    }

    pub(super) fn formed(self) -> Result<ClusterRow> {
        let known = catalog::cluster(&self.router().local.catalog());
        known.ok_or_else(|| Error::new(ErrorKind::Unavailable { why: Unavailable::Starting }, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_not_read_the_logs_is_not_let_in() {
        for (needed, told, is_let_in) in
            [(1, 1, true), (2, 0, true), (3, 0, false), (3, 2, false), (3, 3, true), (3, 9, true)]
        {
            let cluster = ClusterRow {
                cluster_id: 1,
                data_groups: 1,
                replication_factor: 1,
                next_entity: 1,
                feature_level: needed,
            };
            let answer = check_newcomer(&cluster, told);
            assert_eq!(answer.is_ok(), is_let_in, "{needed} {told}: {answer:?}");
        }
    }
}
