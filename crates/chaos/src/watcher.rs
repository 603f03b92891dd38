//! Asks every node now and then who leads, past all links.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Client, ClientOptions};
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::timeline::Leaders;
use crate::{Clock, Error};

const ASK_EVERY: Duration = Duration::from_millis(500);
/// A node that is stopped is not waited for.
const PATIENCE: Duration = Duration::from_millis(400);

/// Watches until it is stopped.
pub struct Watcher {
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Vec<Leaders>>,
}

impl Watcher {
    pub fn start(cluster: &Cluster, clock: Clock) -> Result<Watcher, Error> {
        let options = ClientOptions { give_up_after: PATIENCE, ..ClientOptions::default() };
        let ids = cluster.ids().into_iter();
        let clients: Vec<Client> = ids
            .map(|node| cluster.client_of_with(node, options.clone()))
            .collect::<Result<_, Error>>()?;
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let mut seen = Vec::new();
            while tokio::time::timeout(ASK_EVERY, &mut stopped).await.is_err() {
                let of_group = ask(&clients).await;
                let at_ms = clock.elapsed().as_millis() as u64;
                seen.push(Leaders { at_ms, of_group });
            }
            seen
        });
        Ok(Watcher { stop, task })
    }

    /// What was seen.
    pub async fn stop(self) -> Vec<Leaders> {
        let _ = self.stop.send(());
        self.task.await.unwrap_or_default()
    }
}

/// Of what nodes say of a group, what they say of its highest term.
async fn ask(clients: &[Client]) -> BTreeMap<u32, u64> {
    let mut asking = JoinSet::new();
    for client in clients {
        let client = client.clone();
        asking.spawn(async move { tokio::time::timeout(PATIENCE, client.status(true)).await });
    }
    let mut highest: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    while let Some(answer) = asking.join_next().await {
        let Ok(Ok(Ok(status))) = answer else { continue };
        for group in status.groups.iter().filter(|group| group.leader != 0) {
            let known = highest.entry(group.id).or_default();
            *known = (*known).max((group.term, group.leader));
        }
    }
    highest.into_iter().map(|(group, (_, leader))| (group, leader)).collect()
}
