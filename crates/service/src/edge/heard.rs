//! Waiting until a change of the catalog is known everywhere: whoever made it may go on at any node.

use std::time::Duration;

use domain::GroupId;
use tokio::time::Instant;

use crate::edge::catalog;
use crate::edge::router::{PAUSE_MIN, Router};

/// Nodes that live have heard of a change within this.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

/// Waits until all nodes that answer have applied a change, or for as long as one that lives takes. `is_here`: whether
/// this one has.
pub(super) async fn heard(router: &Router, is_here: impl Fn() -> bool) {
    let until = Instant::now() + HEARD_WITHIN;
    let mut pause = PAUSE_MIN;
    while !is_here() && router.wait(&mut pause, until).await {}
    let Some(applied) = router.local.replication.applied(GroupId::CATALOG) else { return };
    let nodes = catalog::nodes(&router.local.catalog());
    for node in nodes.into_keys().filter(|node| *node != router.local.id) {
        let is_behind = async || {
            let report = router.links.report(node).await;
            let groups = report.iter().flat_map(|report| &report.groups);
            let of_catalog = groups.filter(|group| group.id == GroupId::CATALOG);
            of_catalog.filter_map(|group| group.applied).any(|there| there < applied)
        };
        while is_behind().await && router.wait(&mut pause, until).await {}
    }
}
