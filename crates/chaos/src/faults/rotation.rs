//! Certificates and keys that are replaced under load, as operators do it: files first, then a signal.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::{LOOK_EVERY, process};
use crate::Error;
use crate::cluster::Cluster;

/// How long a node may take to read its files again, on a busy machine.
const READ_WITHIN: Duration = Duration::from_secs(20);
/// What it logs then, and where it starts instead.
struct ReadAgain {
    what: &'static str,
    logged: [&'static str; 2],
}

const CERTIFICATE: ReadAgain = ReadAgain {
    what: "certificate",
    logged: ["the certificate for peers was read again", "peers on "],
};
const KEYS: ReadAgain =
    ReadAgain { what: "keys", logged: ["keys were read again", "clients are asked for one of "] };

/// Gives a node another certificate.
pub async fn replace_certificate(cluster: &mut Cluster, node: u64) -> Result<(), Error> {
    cluster.issue_certificates(&[node])?;
    prove_again(cluster, &[node]).await
}

/// Rotates the key of all clients. Until every node has read it they have the one before, which is the
/// secondary then.
pub async fn replace_key(cluster: &mut Cluster) -> Result<(), Error> {
    let nodes: Vec<u64> = cluster.nodes.keys().copied().collect();
    cluster.rotate_key()?;
    take_effect(cluster, &nodes, &KEYS).await?;
    cluster.client_key()?.hand_out()
}

/// Gives all nodes certificates of another authority. Between the steps both are trusted: no node ever
/// meets one that it cannot know.
pub async fn replace_authority(cluster: &mut Cluster) -> Result<(), Error> {
    let nodes: Vec<u64> = cluster.nodes.keys().copied().collect();
    cluster.certificates()?.add_authority()?;
    prove_again(cluster, &nodes).await?;
    cluster.issue_certificates(&nodes)?;
    prove_again(cluster, &nodes).await?;
    cluster.certificates()?.retire_authority()?;
    prove_again(cluster, &nodes).await
}

/// Has nodes read their certificates again, and then all prove themselves again.
async fn prove_again(cluster: &mut Cluster, nodes: &[u64]) -> Result<(), Error> {
    take_effect(cluster, nodes, &CERTIFICATE).await?;
    cluster.links.sever();
    Ok(())
}

/// Has nodes read their files again.
async fn take_effect(cluster: &mut Cluster, nodes: &[u64], read: &ReadAgain) -> Result<(), Error> {
    let ReadAgain { what, logged } = read;
    for node in nodes {
        let process = process(cluster, *node)?;
        let since = process.logged_bytes();
        process.signal(Signal::SIGHUP);
        let until = Instant::now() + READ_WITHIN;
        while logged.iter().all(|told| process.logged(told, since).is_none()) {
            if Instant::now() > until {
                return Err(Error::Cluster(format!(
                    "node {node} has not read its {what} again within {READ_WITHIN:?}"
                )));
            }
            // One that ends by itself reads them as it starts.
            process.revive()?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}
