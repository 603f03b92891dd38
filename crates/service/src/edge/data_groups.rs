//! An operator's wish for more data groups: one entry of the catalog's log, which says who founds them. Their
//! nodes do by themselves, and entities are put on them once they have leaders.

use domain::{CatalogCommand, FEATURE_LEVEL_MORE_GROUPS};
use futures::future::join_all;

use crate::edge::catalog::{self, Catalog, NodeStates};
use crate::edge::cluster::Cluster;
use crate::error::Result;

impl Cluster<'_> {
    /// Has the cluster have so many data groups, 1 to 256 and never fewer than it has. Returns once that is
    /// decided; `status` shows how many entities are put on. A repeat changes nothing.
    pub async fn add_groups(self, data_groups: u16) -> Result<()> {
        let router = self.router();
        self.of_level(FEATURE_LEVEL_MORE_GROUPS, "data groups").await?;
        let rows = router.local.catalog();
        let NodeStates { draining, .. } = NodeStates::read(&rows);
        let staying = catalog::nodes(&rows).into_keys().filter(|node| !draining.contains(node));
        let own = router.local.id;
        let asked = staying.map(|node| async move {
            let told = match node == own {
                true => Some(router.local.replication.directory_id()),
                false => router.links.directory_id(node).await,
            };
            Some((node, told?))
        });
        let directories = join_all(asked).await.into_iter().flatten().collect();
        let add = CatalogCommand::AddGroups { data_groups, directories };
        Catalog::new(router).propose(add, "", router.deadline()).await.map(drop)
    }
}
