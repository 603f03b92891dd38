//! Hears of the cluster's feature level. At the catalog's leader: raises it once every node knows a higher one, so that an
//! upgrade is over when the last node runs the new version, and nobody has to say so.

use std::sync::Arc;
use std::time::Duration;

use domain::{CatalogCommand, FEATURE_LEVEL_RAISED};

use crate::edge::{Catalog, Router, catalog, told_by_all};

const ROUND: Duration = Duration::from_secs(1);
/// How often a node looks whether another one has raised the level: until it has heard, its leaders do without what is
/// new.
const LISTEN: Duration = Duration::from_millis(100);

/// Runs until the node ends.
pub(crate) async fn follow_feature_level(router: Arc<Router>) {
    loop {
        let pause = round(&router).await;
        tokio::time::sleep(pause).await;
    }
}

/// How long until the next.
async fn round(router: &Router) -> Duration {
    let Some(cluster) = catalog::cluster(&router.local.catalog()) else { return LISTEN };
    // Before anything here is written that an older version could not read, its binary is refused the directory.
    if let Err(error) = router.local.replication.reach_feature_level(cluster.feature_level).await {
        tracing::warn!(%error, "cannot note the feature level in the data directory; trying again");
        return ROUND;
    }
    router.local.groups.feature_level.heard(cluster.feature_level);
    if cluster.feature_level >= router.local.about.feature_level {
        return ROUND; // Mostly. Then nobody is asked anything.
    }
    if !router.local.leads_the_catalog() {
        return LISTEN;
    }
    let told = told_by_all(router).await;
    let level = told.values().map(|told| told.known).min().unwrap_or(0);
    // Below that, a node does not know the command either.
    if level < FEATURE_LEVEL_RAISED || level <= cluster.feature_level {
        // Whoever founded it waits for that.
        return if cluster.next_entity == 1 { LISTEN } else { ROUND };
    }
    let raise = CatalogCommand::RaiseFeatureLevel { level, nodes: told.into_keys().collect() };
    match Catalog::new(router).propose(raise, "", router.deadline()).await {
        Ok(_) => {
            let text = format!("the cluster's feature level is {level} now: all nodes know it");
            router.config.events.tell(
                "feature-level.rise",
                &level.to_string(),
                text,
                String::new(),
            );
            Duration::ZERO // Here it counts at once; others hear of it in their next round.
        }
        Err(error) => {
            tracing::debug!(level, %error, "the feature level is not raised this time");
            ROUND
        }
    }
}
