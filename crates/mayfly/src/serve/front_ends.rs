//! The ports for clients, and what is spoken on each.

use std::net::SocketAddr;

use anyhow::bail;
use metrics_exporter_prometheus::PrometheusHandle;
use service::Broker;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use transport::{Arrival, Arrivals, Offer, Tls};

use super::config::{Config, ListenConfig};

/// Most HTTP connections at a time.
pub const HTTP_CONNECTIONS_MAX: usize = 5_000;
/// What is chosen from when TLS begins.
const HTTP_1: &[&str] = &["http/1.1"];
const HTTP_2: &[&str] = &["h2"];
/// AMQP has no name there.
const AMQP: &[&str] = &[];

/// Where clients are listened to.
pub struct Ports {
    grpc: TcpListener,
    http: TcpListener,
    websocket: Option<TcpListener>,
    amqp: Option<TcpListener>,
    amqps: Option<TcpListener>,
}

/// The servers, each running until it is told to stop.
pub struct FrontEnds {
    pub grpc: JoinHandle<anyhow::Result<()>>,
    pub http: JoinHandle<anyhow::Result<()>>,
    pub amqp: JoinHandle<anyhow::Result<()>>,
}

impl Ports {
    /// Takes every port of the node, or says which it cannot.
    pub async fn bind(listen: &ListenConfig) -> anyhow::Result<Ports> {
        let ports = Ports {
            grpc: bind(listen.grpc, "the native API", "grpc").await?,
            http: bind(listen.http, "HTTP", "http").await?,
            websocket: bind_if(listen.websocket, "the WebSocket", "websocket").await?,
            amqp: bind_if(listen.amqp, "AMQP", "amqp").await?,
            amqps: bind_if(listen.amqps, "AMQP over TLS", "amqps").await?,
        };
        drop(bind(listen.peer, "peers", "peer").await?);
        Ok(ports)
    }

    /// Serves on all of them until `stopping` says so.
    pub fn serve(
        mut self,
        config: &Config,
        tls: Option<&Tls>,
        broker: &Broker,
        recorder: PrometheusHandle,
        stopping: &watch::Receiver<bool>,
    ) -> FrontEnds {
        let (amqp, tunnels) = self.amqp_arrivals(tls);
        let Ports { grpc, http, websocket, .. } = self;
        let stop = || stopped(stopping.clone());

        let (access, connections_max) = (config.access.clone(), config.grpc_connections_max);
        let settings = grpc::Config { access, connections_max };
        let grpc = arrivals([Some(grpc)], tls, HTTP_2);
        let serve = grpc::serve(grpc, settings, broker.clone(), stop());
        let grpc = tokio::spawn(async move { serve.await.map_err(anyhow::Error::from) });

        let access = config.access.clone();
        let settings = http::Config { access, tunnels, connections_max: HTTP_CONNECTIONS_MAX };
        let http = arrivals([Some(http), websocket], tls, HTTP_1);
        let serve = http::serve(http, settings, broker.clone(), recorder, stop());
        let http = tokio::spawn(async move {
            serve.await;
            Ok(())
        });

        let settings = amqp_config(config);
        let serve = amqp::server::serve(amqp, settings, broker.clone(), stop());
        let amqp = tokio::spawn(async move {
            serve.await;
            Ok(())
        });
        FrontEnds { grpc, http, amqp }
    }

    /// From its own ports and through WebSockets; none, if there is no port for any of it.
    fn amqp_arrivals(&mut self, tls: Option<&Tls>) -> (Arrivals, Option<mpsc::Sender<Arrival>>) {
        let (ready, arrivals) = transport::channel();
        let (plain, with_tls) = (self.amqp.take(), self.amqps.take());
        let is_spoken = plain.is_some() || with_tls.is_some() || self.websocket.is_some();
        if let Some(port) = plain {
            tokio::spawn(transport::accept(port, Offer::Plain, ready.clone()));
        }
        if let (Some(port), Some(tls)) = (with_tls, tls) {
            tokio::spawn(transport::accept(port, Offer::Tls(tls.clone(), AMQP), ready.clone()));
        }
        (arrivals, is_spoken.then_some(ready))
    }
}

/// Connections of ports that take TLS beside plain text, once there is a certificate.
fn arrivals<const N: usize>(
    ports: [Option<TcpListener>; N],
    tls: Option<&Tls>,
    protocols: &'static [&'static str],
) -> Arrivals {
    let (ready, arrivals) = transport::channel();
    for port in ports.into_iter().flatten() {
        let offer = match tls {
            Some(tls) => Offer::Either(tls.clone(), protocols),
            None => Offer::Plain,
        };
        tokio::spawn(transport::accept(port, offer, ready.clone()));
    }
    arrivals
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // Fails only with the sender, and then the node is ending as well.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn bind_if(
    address: Option<SocketAddr>,
    what: &str,
    key: &str,
) -> anyhow::Result<Option<TcpListener>> {
    match address {
        Some(address) => bind(address, what, key).await.map(Some),
        None => Ok(None),
    }
}

async fn bind(address: SocketAddr, what: &str, key: &str) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => bail!(
            "{address} ({what}) is in use; end what listens there, or set listen.{key} to another"
        ),
        Err(error) => bail!("cannot listen on {address} ({what}): {error}"),
    }
}

fn amqp_config(config: &Config) -> amqp::server::Config {
    let settings = config.amqp;
    let defaults = amqp::server::Config::default();
    amqp::server::Config {
        access: config.access.clone(),
        limits: amqp::Limits {
            frame_bytes_max: settings.frame_bytes_max,
            idle_ms: settings.idle_ms,
            incoming_unsettled_max: settings.unsettled_max,
            outgoing_unsettled_max: settings.unsettled_max as usize,
            output_bytes_max: settings.unread_bytes_max,
            ..defaults.limits
        },
        idle: settings.idle,
        connections_max: settings.connections_max,
        container_id: format!("mayfly-{}", config.node),
    }
}
