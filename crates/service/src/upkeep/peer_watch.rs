//! Tells which nodes go away and come back. The catalog's leader does, so that each is told once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::edge::{Router, peers};

const ROUND: Duration = Duration::from_millis(500);

/// Runs until the node ends.
pub(crate) async fn watch_peers(router: Arc<Router>) {
    let mut known = BTreeMap::new();
    loop {
        tokio::time::sleep(ROUND).await;
        match router.local.leads_the_catalog() {
            true => round(&router, &mut known),
            // Whoever leads now knows it.
            false => known.clear(),
        }
    }
}

/// `known`: whether each node answered when it was last looked.
fn round(router: &Router, known: &mut BTreeMap<u64, bool>) {
    let events = &router.config.events;
    let peers = peers(router);
    known.retain(|node, _| peers.iter().any(|peer| peer.node == *node));
    for peer in peers {
        let (node, is_up) = (peer.node, peer.is_up());
        let about = format!("node {node}");
        match (known.insert(node, is_up), is_up) {
            // One that has never answered is told with its joining, or is still to be reached by a new leader.
            (None, true) | (Some(true), true) | (Some(false), false) => {}
            (None, false) if peer.heard_ms.is_none() => drop(known.remove(&node)),
            (None | Some(true), false) => {
                let text = format!("node {node} is away: it does not answer");
                events.tell("node.away", &about, text, String::new());
            }
            (Some(false), true) => {
                events.tell("node.back", &about, format!("node {node} is back"), String::new());
            }
        }
    }
}
