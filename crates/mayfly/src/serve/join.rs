//! How a node comes into a cluster that is there already. At its first start it tells a node of the
//! cluster its addresses, and is told its number, the cluster's id and everybody's addresses; it
//! keeps them with its data, and asks nobody at its next starts. It shows the secret or a join token; a
//! token's secret only to whoever an authority vouches for that the token names.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use auth::{JoinToken, NoJoinToken};
use client::{Client, ClientOptions, Trust, v1};
use domain::FEATURE_LEVEL_KNOWN;
use serde::{Deserialize, Serialize};
use transport::{Certificate, Fingerprint};

use super::config::{Addresses, Config, JoinTokenPlace};
use crate::files::{self, Existing, Readers};
use crate::terminal;

/// In the data directory of a node that joined.
const FILE: &str = "joined.json";
/// Whether the node of a data directory joined a cluster.
pub fn has_joined(data_dir: &Path) -> bool {
    data_dir.join(FILE).exists()
}

/// The number of a configuration's node; `None` while the cluster that it joins has not taken it in.
pub fn node_of(config: &Config) -> Option<u64> {
    let written = std::fs::read_to_string(config.data_dir.join(FILE)).ok();
    match (&config.cluster_id, written) {
        (None, Some(text)) => Some(serde_json::from_str::<Joined>(&text).ok()?.node),
        _ if config.join.is_some() => None,
        _ => Some(config.node),
    }
}

/// How long nodes of the cluster may be silent.
const ANSWER_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Joined {
    cluster: String,
    node: u64,
    nodes: BTreeMap<u64, Addresses>,
}

/// The configuration with what the cluster says of this node, if it is one that joins or joined.
pub async fn settle(config: Config) -> anyhow::Result<Config> {
    let path = config.data_dir.join(FILE);
    let by_itself = config.cluster_id.is_none();
    match std::fs::read_to_string(&path) {
        Ok(text) if by_itself => {
            let joined: Joined = serde_json::from_str(&text)
                .with_context(|| format!("'{}' is damaged", path.display()))?;
            laid_over(config, joined)
        }
        // The configuration names the cluster's nodes itself.
        Ok(_) => Ok(config),
        Err(_) => match &config.join {
            None => Ok(config),
            Some(seeds) => {
                let joined = ask(&config, seeds).await?;
                std::fs::create_dir_all(&config.data_dir)?;
                let text = serde_json::to_string_pretty(&joined)?;
                files::write(&path, &text, Readers::Owner, Existing::Replaced)?;
                tracing::info!("joined as node {}", joined.node);
                laid_over(config, joined)
            }
        },
    }
}

fn laid_over(config: Config, joined: Joined) -> anyhow::Result<Config> {
    let Joined { cluster, node, mut nodes } = joined;
    let cluster_id = u128::from_str_radix(&cluster, 16).context("the cluster's id is no id")?;
    if config.join.is_some() {
        // What it is told now counts, should it have moved.
        nodes.extend(config.nodes.values().map(|own| (node, own.clone())));
    }
    Ok(Config { node, nodes, cluster_id: Some(cluster_id), joined: true, ..config })
}

/// Asks to be a part of the cluster. May be repeated: who asks again with the same addresses is told
/// the same.
async fn ask(config: &Config, seeds: &[String]) -> anyhow::Result<Joined> {
    if !is_empty(&config.data_dir) {
        bail!(
            "--join takes an empty data directory, and '{}' holds a node's data",
            config.data_dir.display()
        );
    }
    let token = config.join_token.as_ref().map(read).transpose()?;
    let options = config.join_tls.options()?;
    let usual = || options.tls.clone().map_or_else(|| trust(config, seeds), |tls| Ok(Some(tls)));
    let tls = match &token {
        Some(token) if !token.authorities.is_empty() => named(config, seeds, token)?,
        Some(_) | None => usual()?,
    };
    // Whoever has a token needs no other proof, and shows none.
    let secret = config.secret.clone().filter(|_| token.is_none());
    let options = ClientOptions { secret, tls, give_up_after: ANSWER_MAX, ..options };
    let client = Client::with_options(seeds, options)?;
    let Some(own) = config.nodes.get(&config.node).cloned() else {
        bail!("this node has no addresses");
    };
    let node = v1::NodeAddress {
        id: config.node,
        peer_address: own.peer,
        grpc_address: own.grpc,
        http_address: own.http,
    };
    tracing::info!("asking {} to take this node in", seeds.join(", "));
    let told = match token {
        None => client.add_node(node, FEATURE_LEVEL_KNOWN).await,
        Some(JoinToken { id: token_id, secret, .. }) => {
            let (secret, request) = (secret.0.to_vec().into(), rand::random());
            let (node, feature_level) = (Some(node), FEATURE_LEVEL_KNOWN);
            client.join(v1::JoinRequest { node, token_id, secret, request, feature_level }).await
        }
    };
    let told = told.context("the cluster does not take this node in")?;
    let addresses = |node: v1::NodeAddress| {
        let v1::NodeAddress { id, peer_address, grpc_address, http_address } = node;
        (id, Addresses { peer: peer_address, grpc: grpc_address, http: http_address, amqp: None })
    };
    let nodes = told.nodes.into_iter().map(addresses).collect();
    Ok(Joined { cluster: told.cluster_id, node: told.id, nodes })
}

/// The join token, from where it stands.
fn read(place: &JoinTokenPlace) -> anyhow::Result<JoinToken> {
    let (text, from) = match place {
        JoinTokenPlace::Given(text) => (text.clone(), "--token (or MAYFLY_JOIN_TOKEN)".to_owned()),
        JoinTokenPlace::File(path) => {
            let text = files::read_private(path);
            let text = text.map_err(|told| terminal::usage(format!("--token-file: {told}")))?;
            (text, format!("--token-file '{}'", path.display()))
        }
    };
    text.trim().parse().map_err(|why: NoJoinToken| terminal::usage(format!("{from}: {why}")))
}

/// Of the authorities that this node has, those that the token names: nobody else's node is spoken to.
fn named(config: &Config, seeds: &[String], token: &JoinToken) -> anyhow::Result<Option<Trust>> {
    if let Some(seed) = seeds.iter().find(|seed| seed.starts_with("http://")) {
        // Whoever says so means it.
        return match config.insecure {
            true => Ok(None),
            false => Err(terminal::usage(format!(
                "--join {seed} would send the join token to whoever answers in plain text; write https://, so \
                 that the authority is proven that the token names"
            ))),
        };
    }
    let of_peers = config.peer_tls.as_ref().map(|files| &files.authority);
    let Some(path) = config.join_tls.tls_ca.as_ref().or(of_peers) else {
        return Err(terminal::usage(
            "the join token names the authority of the cluster's nodes, and this node has none; copy \
             authority.pem from one of them, and set tls.peer.authority, or --tls-ca",
        ));
    };
    let pem = Certificate::pick(path, &token.authorities)?;
    if pem.is_empty() {
        let shown = path.display();
        let prints = token.authorities.iter().map(|print| Fingerprint(*print).to_string());
        let prints = prints.collect::<Vec<_>>().join(" or ");
        return Err(terminal::usage(format!(
            "'{shown}' has no authority that the join token names, and nothing was sent; copy authority.pem \
             from a node of the cluster (its fingerprint is {prints}), or make a token of this cluster"
        )));
    }
    Ok(Some(Trust::Authorities(pem)))
}

/// Whom nodes that are asked over TLS are to be vouched for by, unless --tls-ca says: the same as peers.
fn trust(config: &Config, seeds: &[String]) -> anyhow::Result<Option<Trust>> {
    let Some(files) = &config.peer_tls else { return Ok(None) };
    if !seeds.iter().any(|seed| seed.starts_with("https://")) {
        return Ok(None); // With it, all would be spoken to over TLS.
    }
    let path = files.authority.display();
    let pem = std::fs::read(&files.authority).with_context(|| format!("cannot read '{path}'"))?;
    Ok(Some(Trust::Authorities(pem)))
}

fn is_empty(data_dir: &Path) -> bool {
    ["mayfly-data", "log", "rows", "cluster-id"].iter().all(|name| !data_dir.join(name).exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::ServeArgs;

    fn config(dir: &Path, join: Option<&str>) -> Config {
        let args = ServeArgs {
            data_dir: Some(dir.to_owned()),
            join: join.map(|seed| vec![seed.to_owned()]),
            peer: Some("127.0.0.1:7320".to_owned()),
            ..ServeArgs::default()
        };
        Config::load(&args).expect("it is right")
    }

    #[tokio::test]
    async fn what_a_node_was_told_counts_at_its_next_starts() {
        let dir = tempfile::tempdir().expect("a directory");
        let told = r#"{"cluster": "ff", "node": 4, "nodes": {
            "1": {"peer": "a:1", "grpc": "a:2", "http": "a:3", "amqp": null},
            "4": {"peer": "b:1", "grpc": "b:2", "http": "b:3", "amqp": null}}}"#;
        std::fs::write(dir.path().join(FILE), told).expect("written");
        for (join, own) in [(None, "b:1"), (Some("127.0.0.1:1"), "127.0.0.1:7320")] {
            let config = settle(config(dir.path(), join)).await.expect("it is told");
            assert_eq!((config.node, config.cluster_id, config.joined), (4, Some(0xff), true));
            assert_eq!(config.nodes[&1].peer, "a:1");
            assert_eq!(config.nodes[&4].peer, own, "who joins says where it listens now");
        }
    }

    /// Its certificate, or its file, says its number, and nothing says the others.
    #[tokio::test]
    async fn a_node_that_joined_starts_again_by_its_number() {
        let dir = tempfile::tempdir().expect("a directory");
        let args = || ServeArgs {
            data_dir: Some(dir.path().to_owned()),
            node: Some(4),
            ..ServeArgs::default()
        };
        let told = Config::load(&args()).expect_err("there is no node 4");
        assert!(told.contains("node.id is 4, but [[cluster.node]] names only 1"), "{told}");
        let told = r#"{"cluster": "ff", "node": 4, "nodes": {
            "1": {"peer": "a:1", "grpc": "a:2", "http": "a:3", "amqp": null},
            "4": {"peer": "b:1", "grpc": "b:2", "http": "b:3", "amqp": null}}}"#;
        std::fs::write(dir.path().join(FILE), told).expect("written");
        let config = settle(Config::load(&args()).expect("it is right")).await.expect("it is told");
        assert_eq!((config.node, config.joined, config.nodes.len()), (4, true, 2));
    }

    #[tokio::test]
    async fn a_directory_with_data_does_not_join() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("log")).expect("made");
        let refused =
            settle(config(dir.path(), Some("127.0.0.1:1"))).await.expect_err("it is full");
        assert!(refused.to_string().contains("takes an empty data directory"), "{refused}");
    }
}
