//! The server: its services, limits and end.

use std::time::Duration;

use audit::Trail;
use auth::Access;
use limits::{FrontEnd, Ledger};
use service::{Broker, KeyWatch};
use thiserror::Error;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use transport::Arrivals;

use crate::admission::AdmissionLayer;
use crate::api::backups_server::BackupsServer;
use crate::api::cluster_server::ClusterServer;
use crate::api::connections_server::ConnectionsServer;
use crate::api::entities_server::EntitiesServer;
use crate::api::events_server::EventsServer;
use crate::api::faults_server::FaultsServer;
use crate::api::history_server::HistoryServer;
use crate::api::messaging_server::MessagingServer;
use crate::api::namespaces_server::NamespacesServer;
use crate::api::sessions_server::SessionsServer;
use crate::api::support_server::SupportServer;
use crate::api::transactions_server::TransactionsServer;
use crate::backups::BackupsService;
use crate::cluster::{ClusterService, Joining};
use crate::connection::ConnectionSlots;
use crate::connection_limit::ConnectionLimit;
use crate::connections::ConnectionsService;
use crate::door::{Door, KeyHolder};
use crate::entities::EntitiesService;
use crate::events::EventsService;
use crate::fault_rules::FaultsService;
use crate::history::HistoryService;
use crate::messaging::MessagingService;
use crate::namespaces::NamespacesService;
use crate::sessions::SessionsService;
use crate::support::SupportService;
use crate::transact_stream::TransactionsService;

/// Largest request. A batch has at most 1 MiB of bodies and properties (QUOTA-6) and some framing;
/// what is larger is refused before it is decoded.
const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Of a backup: the names of as many chunks as some hundred gigabytes are, or a chunk.
const BACKUP_REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Flow control: wide enough that a batch does not wait for window updates.
const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Larger frames than HTTP/2's 16 KiB: fewer per batch.
const FRAME_BYTES: u32 = 256 * 1024;
/// Streams of one connection that their client may have given up before they were taken: one that opens
/// thousands at once, and waits for none for long, is only busy; one that goes on like that is not, and
/// its connection ends (CVE-2023-44487). HTTP/2's usual bound of 20 would break all its streams.
const GIVEN_UP_STREAMS_MAX: usize = 4096;
/// A client that answers no ping for so long is gone, and its receivers with it.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How often the health service looks whether this node can serve.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

/// How the native API is served.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who may ask for what, by what is sent as `authorization`. Health is free, and reflection takes any
    /// key of the node.
    pub access: Access,
    /// What changes entities or the cluster is told to it, and whose proofs are refused.
    pub trail: Trail,
    /// Where it is counted what clients take of the node.
    pub ledger: Ledger,
    /// Most connections at a time; one more is told so, whatever it asks, and closed (QUOTA-13).
    /// Default [`Config::CONNECTIONS_MAX`].
    pub connections_max: usize,
    pub joining: Joining,
}

impl Config {
    /// A client holds one for each node it knows.
    pub const CONNECTIONS_MAX: usize = 5_000;
}

impl Default for Config {
    fn default() -> Config {
        Config {
            access: Access::default(),
            trail: Trail::off(),
            ledger: Ledger::default(),
            connections_max: Config::CONNECTIONS_MAX,
            joining: Joining::default(),
        }
    }
}

/// Why the server ended.
#[derive(Debug, Error)]
pub enum Error {
    #[error("the native API stopped: {0}")]
    Transport(#[from] tonic::transport::Error),
    #[error("the native API's descriptors are unreadable: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// Serves the native API until `stop` resolves, and then until open calls are answered; streams are
/// ended. `keys`: of the access that is configured.
pub async fn serve(
    arrivals: Arrivals,
    config: Config,
    broker: Broker,
    keys: KeyWatch,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let (stop_streams, stopping) = watch::channel(false);
    let key_holder = KeyHolder { access: config.access.clone(), trail: config.trail.clone() };
    let door = Door::new(broker.clone(), config.access, config.trail, keys);
    let (health, health_service) = tonic_health::server::health_reporter();
    let watcher = tokio::spawn(watch_health(broker, health));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(wire::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Many tools ask in the older version alone.
    let (reflection, older) = (reflection().build_v1()?, reflection().build_v1alpha()?);

    let entities = EntitiesServer::new(EntitiesService { door: door.clone() });
    let cluster = ClusterService { door: door.clone(), joining: config.joining };
    let cluster = ClusterServer::new(cluster);
    let connections_of_clients = ConnectionsServer::new(ConnectionsService { door: door.clone() })
        .max_encoding_message_size(usize::MAX);
    let events = EventsServer::new(EventsService { door: door.clone() })
        .max_encoding_message_size(usize::MAX);
    let support = SupportServer::new(SupportService { door: door.clone() })
        .max_encoding_message_size(usize::MAX);
    let namespaces = NamespacesServer::new(NamespacesService { door: door.clone() });
    let faults = FaultsServer::new(FaultsService { door: door.clone() });
    let history =
        HistoryServer::new(HistoryService { door: door.clone(), stopping: stopping.clone() })
            .max_encoding_message_size(usize::MAX);
    let backups =
        BackupsServer::new(BackupsService { door: door.clone(), stopping: stopping.clone() })
            .max_decoding_message_size(BACKUP_REQUEST_BYTES_MAX)
            .max_encoding_message_size(usize::MAX);
    let sessions = SessionsServer::new(SessionsService { door: door.clone() })
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(usize::MAX);
    let transactions = TransactionsService { door: door.clone(), stopping: stopping.clone() };
    let transactions = TransactionsServer::new(transactions)
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(usize::MAX);
    let messaging = MessagingServer::new(MessagingService { door, stopping })
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(usize::MAX);
    config.ledger.limit_connections(FrontEnd::Grpc, config.connections_max);
    let slots = ConnectionSlots::new(config.ledger);
    let admit = move |arrival| slots.admit(arrival).map(Ok::<_, std::io::Error>);
    let connections = ReceiverStream::new(arrivals).filter_map(admit);
    let served = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .http2_max_pending_accept_reset_streams(Some(GIVEN_UP_STREAMS_MAX))
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .layer(AdmissionLayer)
        .add_service(InterceptedService::new(entities, ConnectionLimit))
        .add_service(InterceptedService::new(messaging, ConnectionLimit))
        .add_service(InterceptedService::new(sessions, ConnectionLimit))
        .add_service(InterceptedService::new(transactions, ConnectionLimit))
        .add_service(InterceptedService::new(cluster, ConnectionLimit))
        .add_service(InterceptedService::new(connections_of_clients, ConnectionLimit))
        .add_service(InterceptedService::new(events, ConnectionLimit))
        .add_service(InterceptedService::new(support, ConnectionLimit))
        .add_service(InterceptedService::new(backups, ConnectionLimit))
        .add_service(InterceptedService::new(namespaces, ConnectionLimit))
        .add_service(InterceptedService::new(faults, ConnectionLimit))
        .add_service(InterceptedService::new(history, ConnectionLimit))
        .add_service(InterceptedService::new(health_service, ConnectionLimit))
        .add_service(InterceptedService::new(reflection, key_holder.clone()))
        .add_service(InterceptedService::new(older, key_holder))
        .serve_with_incoming_shutdown(connections, async move {
            stop.await;
            stop_streams.send_replace(true);
        })
        .await;
    watcher.abort();
    Ok(served?)
}

/// Resolves when the server is stopping.
pub(crate) async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the server is gone, which is a stop as well.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn watch_health(broker: Broker, health: tonic_health::server::HealthReporter) {
    loop {
        let status = match broker.cluster().readiness().ready {
            true => tonic_health::ServingStatus::Serving,
            false => tonic_health::ServingStatus::NotServing,
        };
        for service in [
            "",
            "Entities",
            "Messaging",
            "Sessions",
            "Transactions",
            "Cluster",
            "Namespaces",
            "Connections",
            "Events",
            "Support",
            "Backups",
            "Faults",
            "History",
        ] {
            let service = match service {
                "" => String::new(),
                name => format!("mayfly.v1.{name}"),
            };
            health.set_service_status(service, status).await;
        }
        tokio::time::sleep(HEALTH_EVERY).await;
    }
}
