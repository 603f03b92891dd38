//! The ports for clients, and what is spoken on each.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::bail;
use audit::Trail;
use auth::Access;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::MetricsPage;
use limits::Ledger;
use replication::{BoxSocket, Credential, Doorkeeper, Visitor};
use service::{Broker, KeyWatch};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use transport::{
    Arrivals, Encryption, HandleReserve, Lines, Port, Protocol, Reception, Stream, Tls,
};

use super::config::{AzureConfig, Config, ListenConfig};
use super::peer_tls::{PeerCertificate, PeerTls};

/// Where clients are listened to.
pub struct Ports {
    /// All of the node's, that for peers included.
    table: Arc<[Port]>,
    listeners: Vec<(Port, TcpListener)>,
    lines: Lines,
    grpc: Arrivals,
    http: Arrivals,
    amqp: Arrivals,
    handles: HandleReserve,
}

/// The servers, each running until it is told to stop.
pub struct FrontEnds {
    pub grpc: JoinHandle<anyhow::Result<()>>,
    pub http: JoinHandle<anyhow::Result<()>>,
    pub amqp: JoinHandle<anyhow::Result<()>>,
}

/// What front ends tell of what they do.
pub struct Records {
    pub page: MetricsPage,
    pub trail: Trail,
    pub ledger: Ledger,
}

impl Ports {
    /// Takes every port of the node, or says which it cannot.
    pub async fn bind(config: &Config, handles: HandleReserve) -> anyhow::Result<Ports> {
        let of = |key: &str| config.encryption(key);
        let table = table(&config.listen, of, config.peer_tls.is_some());
        let mut listeners = Vec::new();
        for port in &table {
            let listener = bind(port).await?;
            // Peers have threads of their own, where theirs is bound once they run.
            if !port.is_internal {
                listeners.push((port.clone(), listener));
            }
        }
        let [(to_grpc, grpc), (to_http, http), (to_amqp, amqp)] =
            [(); 3].map(|()| transport::channel());
        let lines = Lines { amqp: to_amqp, http_1: to_http, http_2: to_grpc };
        Ok(Ports { table: table.into(), listeners, lines, grpc, http, amqp, handles })
    }

    /// Who listens where the other nodes come in: with certificates, to those of this cluster.
    pub fn doorkeeper(&self, tls: Option<&PeerTls>) -> Option<Arc<dyn Doorkeeper>> {
        let port = self.table.iter().find(|port| port.is_internal)?.clone();
        let (ports, lines) = (self.table.clone(), self.lines.clone());
        let handles = self.handles;
        let reception = Reception { ports, lines, tls: tls.map(|tls| tls.tls.clone()), handles };
        Some(Arc::new(PeerDoor { port, reception, cluster: tls.map(|tls| tls.cluster.clone()) }))
    }

    /// Serves on all of them until `stopping` says so.
    pub fn serve(
        self,
        config: &Config,
        tls: Option<&Tls>,
        broker: &Broker,
        records: Records,
        stopping: &watch::Receiver<bool>,
    ) -> FrontEnds {
        let Ports { table, listeners, lines, grpc, http, amqp, handles } = self;
        let stop = || stopped(stopping.clone());

        let Records { page, trail, ledger } = records;
        // One for all of them: whatever comes over each, keys in use are looked up once.
        let keys = KeyWatch::start(broker.clone(), config.access.clone());
        let (access, connections_max) = (config.access.clone(), config.grpc_connections_max);
        let joining = grpc::Joining {
            takes_a_token: config.require_join_token,
            authority: config.peer_tls.as_ref().map(|files| files.authority.clone()),
        };
        let (told, counted) = (trail.clone(), ledger.clone());
        let settings =
            grpc::Config { access, trail: told, ledger: counted, connections_max, joining };
        let pages = || grpc::LocalApi::new(&settings, broker.clone(), keys.clone());
        let console = config.console.then(|| console::Console::new(pages()));
        let azure = config.azure.map(|ids| {
            let settings = azure_config(config, ids, trail.clone());
            azure::Azure::new(settings, broker.clone(), keys.clone())
        });
        if let (Access::Keys(ring), Some(azure)) = (&config.access, &azure) {
            ring.issuers().trust(azure.token_authority());
        }
        let serve = grpc::serve(grpc, settings, broker.clone(), keys.clone(), stop());
        let grpc = tokio::spawn(async move { serve.await.map_err(anyhow::Error::from) });

        let access = config.access.clone();
        // Whoever takes WebSockets or AMQP speaks AMQP through them.
        let is_spoken = config.listen.speaks_amqp();
        let tunnels = is_spoken.then(|| lines.amqp.clone());
        let cors_origins = config.cors_origins.clone();
        let connections_max = config.http_connections_max;
        let (trail_of_http, counted) = (trail.clone(), ledger.clone());
        let settings = http::Config {
            access,
            trail: trail_of_http,
            tunnels,
            ledger: counted,
            connections_max,
            cors_origins,
            console,
            azure,
        };
        let serve = http::serve(http, settings, broker.clone(), page, keys.clone(), stop());
        let http = tokio::spawn(async move {
            serve.await;
            Ok(())
        });

        let settings = amqp::server::Config { trail, ledger, ..amqp_config(config) };
        let serve = amqp::server::serve(amqp, settings, broker.clone(), keys, stop());
        let amqp = tokio::spawn(async move {
            serve.await;
            Ok(())
        });
        let reception = Reception { ports: table, lines, tls: tls.cloned(), handles };
        for (port, listener) in listeners {
            tokio::spawn(reception.clone().accept(listener, port));
        }
        FrontEnds { grpc, http, amqp }
    }
}

/// What each port takes. Settings that name one address share a port, which takes all of theirs.
fn table(
    listen: &ListenConfig,
    encryption: impl Fn(&str) -> Encryption,
    are_peers_certified: bool,
) -> Vec<Port> {
    use Protocol::{Amqp, Http1, Http2};
    let ListenConfig { grpc, http, peer, amqp, amqps, websocket, any } = listen;
    let mut ports: Vec<Port> = Vec::new();
    let mut add = |key: &str, address: &SocketAddr, protocols: &[Protocol], encryption| {
        let key = format!("listen.{key}");
        let at = ports.iter().position(|port| port.address == *address).unwrap_or_else(|| {
            let (key, is_internal) = (String::new(), key == "listen.peer");
            ports.push(Port { key, address: *address, takes: Vec::new(), is_internal });
            ports.len() - 1
        });
        let port = &mut ports[at];
        port.key = if port.key.is_empty() { key } else { format!("{} and {key}", port.key) };
        for protocol in protocols {
            match port.takes.iter_mut().find(|(taken, _)| taken == protocol) {
                Some((_, taken)) if *taken != encryption => *taken = Encryption::Either,
                Some(_) => (),
                None => port.takes.push((*protocol, encryption)),
            }
        }
        port.takes.sort_by_key(|(protocol, _)| *protocol);
    };
    add("grpc", grpc, &[Http2], encryption("grpc"));
    add("http", http, &[Http1], encryption("http"));
    for address in any {
        add("any", address, &[Http1, Http2, Amqp], encryption("any"));
    }
    for (key, address, protocol, encryption) in [
        ("websocket", websocket, Http1, encryption("websocket")),
        ("amqp", amqp, Amqp, encryption("amqp")),
        ("amqps", amqps, Amqp, Encryption::Always),
    ] {
        if let Some(address) = address {
            add(key, address, &[protocol], encryption);
        }
    }
    let of_peers = if are_peers_certified { Encryption::Always } else { Encryption::Never };
    add("peer", peer, &[Http2], of_peers);
    ports
}

/// Tells peers from strangers, who are told where to go.
#[derive(Debug)]
struct PeerDoor {
    port: Port,
    reception: Reception,
    /// The one whose nodes are known by certificates.
    cluster: Option<Arc<str>>,
}

impl Doorkeeper for PeerDoor {
    fn listen(&self, on: SocketAddr) -> io::Result<BoxStream<'static, io::Result<Visitor>>> {
        let listener = std::net::TcpListener::bind(on)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let (ready, arrivals) = transport::channel();
        let Reception { ports, lines, tls, handles } = self.reception.clone();
        let to_clients = lines.http_2.clone();
        let lines = Lines { http_2: ready, ..lines };
        let reception = Reception { ports, lines, tls, handles };
        tokio::spawn(reception.accept(listener, self.port.clone()));
        let cluster = self.cluster.clone();
        let taken = stream::unfold(arrivals, async |mut arrivals: Arrivals| {
            Some((arrivals.recv().await?, arrivals))
        });
        let taken = taken.filter_map(move |arrival| {
            let (cluster, to_clients) = (cluster.clone(), to_clients.clone());
            async move {
                if arrival.misdirected.is_some() {
                    // Told so by whoever speaks it with clients; fails only when nobody does any more.
                    drop(to_clients.send(arrival).await);
                    return None;
                }
                let shown = arrival.stream.shown();
                let credential = cluster.map(|cluster| {
                    Arc::new(PeerCertificate { shown, cluster }) as Arc<dyn Credential>
                });
                let socket: BoxSocket = match arrival.stream {
                    Stream::Plain(stream) => Box::new(stream),
                    stream => Box::new(stream),
                };
                Some(Ok(Visitor { socket, credential }))
            }
        });
        Ok(taken.boxed())
    }
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // Fails only with the sender, and then the node is ending as well.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn bind(port: &Port) -> anyhow::Result<TcpListener> {
    let Port { key, address, .. } = port;
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            bail!("{address} is in use; end what listens there, or set {key} to another")
        }
        Err(error) => bail!("cannot listen on {address} ({key}): {error}"),
    }
}

fn azure_config(config: &Config, ids: AzureConfig, trail: Trail) -> azure::Config {
    let AzureConfig { subscription, tenant } = ids;
    let ListenConfig { amqps, any, .. } = &config.listen;
    let any = any.iter().map(|address| address.port()).collect();
    let messaging = azure::Messaging { any, amqps: amqps.map(|address| address.port()) };
    azure::Config { access: config.access.clone(), trail, subscription, tenant, messaging }
}

fn amqp_config(config: &Config) -> amqp::server::Config {
    let settings = config.amqp;
    let defaults = amqp::server::Config::default();
    amqp::server::Config {
        access: config.access.clone(),
        trail: Trail::off(),
        limits: amqp::Limits {
            frame_bytes_max: settings.frame_bytes_max,
            idle_ms: settings.idle_ms,
            incoming_unsettled_max: settings.unsettled_max,
            outgoing_unsettled_max: settings.unsettled_max as usize,
            output_bytes_max: settings.unread_bytes_max,
            ..defaults.limits
        },
        idle: settings.idle,
        ledger: Ledger::default(),
        connections_max: settings.connections_max,
        unproved_connections_max: settings.unproved_connections_max,
        container_id: format!("mayfly-{}", config.node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conn_23_settings_that_name_one_address_share_a_port() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let listen = ListenConfig {
            grpc: at(1),
            http: at(2),
            peer: at(3),
            amqp: Some(at(4)),
            amqps: Some(at(5)),
            websocket: Some(at(5)),
            any: vec![at(2), at(6)],
        };
        let found = |encryption: fn(&str) -> Encryption| {
            let told = table(&listen, encryption, false).into_iter().map(|port| {
                let takes = port.takes.iter().map(|(protocol, encryption)| {
                    let mark = match encryption {
                        Encryption::Never => "",
                        Encryption::Always => "+",
                        Encryption::Either => "?",
                    };
                    format!("{protocol:?}{mark}")
                });
                let takes = takes.collect::<Vec<_>>().join(" ");
                format!("{} {}: {takes}", port.address.port(), port.key)
            });
            told.collect::<Vec<_>>()
        };
        let mixed = |key: &str| match key {
            "any" => Encryption::Either,
            _ => Encryption::Always,
        };
        let with = [
            "1 listen.grpc: Http2+",
            "2 listen.http and listen.any: Http1? Http2? Amqp?",
            "6 listen.any: Http1? Http2? Amqp?",
            "5 listen.websocket and listen.amqps: Http1+ Amqp+",
            "4 listen.amqp: Amqp+",
            "3 listen.peer: Http2",
        ];
        assert_eq!(found(mixed), with);
        let never = |_: &str| Encryption::Never;
        assert_eq!(found(never)[2], "6 listen.any: Http1 Http2 Amqp");
        let of_peers = table(&listen, never, true).pop().expect("a port");
        assert_eq!(of_peers.takes, [(Protocol::Http2, Encryption::Always)]);
    }
}
