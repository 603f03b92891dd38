//! Hears of the cluster's feature level. At the catalog's leader: raises it once every node knows a higher one, so that an
//! upgrade is over when the last node runs the new version, and nobody has to say so.

use std::sync::Arc;
use std::time::Duration;

use domain::{CatalogCommand, FEATURE_LEVEL_KNOWN, FEATURE_LEVEL_RAISED};

use crate::edge::{Catalog, Router, catalog, told_by_all};

const ROUND: Duration = Duration::from_secs(1);

/// Runs until the node ends.
pub(crate) async fn follow_feature_level(router: Arc<Router>) {
    loop {
        round(&router).await;
        tokio::time::sleep(ROUND).await;
    }
}

async fn round(router: &Router) {
    let Some(cluster) = catalog::cluster(&router.local.catalog()) else { return };
    router.local.groups.feature_level.heard(cluster.feature_level);
    if cluster.feature_level >= FEATURE_LEVEL_KNOWN || !router.local.leads_the_catalog() {
        return; // Mostly. Then nobody is asked anything.
    }
    let told = told_by_all(router).await;
    let level = told.values().copied().min().unwrap_or(0);
    // Below that, a node does not know the command either.
    if level < FEATURE_LEVEL_RAISED || level <= cluster.feature_level {
        return;
    }
    let raise = CatalogCommand::RaiseFeatureLevel { level, nodes: told.into_keys().collect() };
    match Catalog::new(router).propose(raise, "", router.deadline()).await {
        Ok(_) => {
            // Others hear of it in their next round; here it counts at once.
            router.local.groups.feature_level.heard(level);
            tracing::info!(level, "all nodes know this feature level, which is the cluster's now")
        }
        Err(error) => tracing::debug!(level, %error, "the feature level is not raised this time"),
    }
}
