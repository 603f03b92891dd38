//! `serve --emulator-config`: has a file's entities created once the cluster serves.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use client::{Client, ClientOptions};
use domain::GroupId;
use service::Broker;

use super::config::Config;
use crate::emulator::{Entities, Outcome};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the cluster may be silent.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Waits until this node can serve, and creates them if it leads the catalog: nodes that start together
/// with the same file do it once, and whatever is there already stays as it is.
pub async fn create(entities: Entities, config: Config, broker: Broker) {
    let leader = loop {
        let readiness = broker.cluster().readiness();
        let catalog = readiness.groups.iter().find(|group| group.id == GroupId::CATALOG);
        if let (true, Some(leader)) = (readiness.ready, catalog.and_then(|group| group.leader)) {
            break leader;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    if leader != config.node {
        return tracing::info!("node {leader} leads the catalog: its --emulator-config counts");
    }
    match created(&entities, &config).await {
        Ok(Outcome { created, found, differences }) => {
            for difference in differences {
                tracing::warn!("{difference}");
            }
            tracing::info!("{created} entities created, {found} were there");
        }
        Err(error) => tracing::error!("--emulator-config: {error:#}"),
    }
}

async fn created(entities: &Entities, config: &Config) -> anyhow::Result<Outcome> {
    let options = ClientOptions {
        secret: config.secret.clone(),
        give_up_after: ANSWER_MAX,
        ..ClientOptions::default()
    };
    let client = Client::with_options([reached(config.listen.grpc).to_string()], options)?;
    entities.create(&client).await
}

/// Where this node reaches what it listens on itself.
fn reached(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(at) if at.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, at.port()).into(),
        SocketAddr::V6(at) if at.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, at.port()).into(),
        address => address,
    }
}
