//! The nodes a client knows: those it was told, and those the cluster named. One connection each,
//! opened when first used and again after it broke.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};
use tonic_health::pb::health_client::HealthClient;

use crate::api::backups_client::BackupsClient;
use crate::api::cluster_client::ClusterClient;
use crate::api::connections_client::ConnectionsClient;
use crate::api::entities_client::EntitiesClient;
use crate::api::events_client::EventsClient;
use crate::api::faults_client::FaultsClient;
use crate::api::history_client::HistoryClient;
use crate::api::messaging_client::MessagingClient;
use crate::api::namespaces_client::NamespacesClient;
use crate::api::sessions_client::SessionsClient;
use crate::api::support_client::SupportClient;
use crate::api::transactions_client::TransactionsClient;
use crate::proof::Proof;
use crate::{ClientOptions, Error, Trust};

/// Flow-control windows: wide enough that a batch of large messages never waits for an update.
const STREAM_WINDOW_BYTES: u32 = 8 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 32 * 1024 * 1024;
/// A delivery batch may hold many large messages; the broker bounds it, not the client.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Streams being opened at one node at a time: thousands would wait for each other until all of them
/// gave up and began anew.
const OPENINGS_MAX: usize = 128;
/// A node that failed is tried after the others for this long.
const AVOID_FOR: Duration = Duration::from_millis(1500);

/// The metadata that says which namespace is meant.
const NAMESPACE: &str = "mayfly-namespace";

fn named(namespace: Option<&str>) -> Result<Option<MetadataValue<Ascii>>, Error> {
    let parsed = namespace.map(str::parse).transpose();
    parsed.map_err(|_| Error::argument("a namespace's name holds letters, digits and '-' only"))
}

/// One node and the way to it.
pub(crate) struct Node {
    /// `http://host:port`, or `https://host:port`.
    pub address: String,
    /// 0: not known yet.
    id: AtomicU64,
    channel: Channel,
    proof: Proof,
    /// As metadata.
    namespace: Option<MetadataValue<Ascii>>,
    /// Milliseconds since `epoch` of the last failure, plus one; 0: none.
    failed: AtomicU64,
    epoch: Instant,
    openings: Semaphore,
}

impl Node {
    pub fn open(address: &str, options: &ClientOptions, proof: &Proof) -> Result<Node, Error> {
        let address = normalize(address, options.tls.is_some())?;
        let mut endpoint = Endpoint::from_shared(address.clone())
            .map_err(|_| Error::argument(format!("'{address}' is no address; write host:port")))?
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(options.probe_interval)
            .keep_alive_timeout(options.probe_interval * 3 / 2)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if is_tls(&address) {
            endpoint = with_tls(endpoint, options)?;
        }
        Ok(Node {
            address,
            id: AtomicU64::new(0),
            channel: endpoint.connect_lazy(),
            proof: proof.clone(),
            namespace: named(options.namespace.as_deref())?,
            failed: AtomicU64::new(0),
            epoch: Instant::now(),
            openings: Semaphore::new(OPENINGS_MAX),
        })
    }

    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    pub fn messaging(&self) -> MessagingClient<Channel> {
        MessagingClient::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
            .max_encoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn sessions(&self) -> SessionsClient<Channel> {
        SessionsClient::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
            .max_encoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn transactions(&self) -> TransactionsClient<Channel> {
        TransactionsClient::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
            .max_encoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn entities(&self) -> EntitiesClient<Channel> {
        EntitiesClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn backups(&self) -> BackupsClient<Channel> {
        BackupsClient::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
            .max_encoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn namespaces(&self) -> NamespacesClient<Channel> {
        NamespacesClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn connections(&self) -> ConnectionsClient<Channel> {
        ConnectionsClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn events(&self) -> EventsClient<Channel> {
        EventsClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn support(&self) -> SupportClient<Channel> {
        SupportClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn faults(&self) -> FaultsClient<Channel> {
        FaultsClient::new(self.channel.clone())
    }

    pub fn history(&self) -> HistoryClient<Channel> {
        HistoryClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel.clone())
    }

    /// A request to this node, with its credentials.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(value) = self.proof.header() {
            request.metadata_mut().insert("authorization", value);
        }
        if let Some(name) = &self.namespace {
            request.metadata_mut().insert(NAMESPACE, name.clone());
        }
        request
    }

    /// One attempt on this node, at most `patience` long, noting how it went. The error says what
    /// is known of the request's fate.
    pub async fn attempt<T>(
        &self,
        patience: Duration,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Error> {
        let result = match tokio::time::timeout(patience, call).await {
            Ok(answer) => answer.map_err(|status| Error::from(status).at(&self.address)),
            Err(_) => Err(Error::perhaps_done(format!(
                "{} did not answer within {} ms",
                self.address,
                patience.as_millis()
            ))),
        };
        match &result {
            Ok(_) | Err(Error::Refused(_)) => self.failed.store(0, Ordering::Relaxed),
            Err(Error::NotDone(_) | Error::PerhapsDone(_)) => self.note_failure(),
        }
        result
    }

    /// Waits for the turn to open a stream here, to be kept until the node answers it.
    ///
    /// # Errors
    ///
    /// [`Error::NotDone`] where the node failed meanwhile: another may be better.
    pub async fn turn_to_open(&self) -> Result<SemaphorePermit<'_>, Error> {
        let failed = self.failed.load(Ordering::Relaxed);
        let turn = self.openings.acquire().await;
        match turn {
            Ok(turn) if [0, failed].contains(&self.failed.load(Ordering::Relaxed)) => Ok(turn),
            _ => Err(Error::not_done(format!("{} failed a moment ago", self.address))),
        }
    }

    pub fn note_failure(&self) {
        let since = self.epoch.elapsed().as_millis() as u64 + 1;
        self.failed.store(since, Ordering::Relaxed);
    }

    pub fn is_avoided(&self) -> bool {
        let failed = self.failed.load(Ordering::Relaxed);
        failed != 0 && self.epoch.elapsed() < Duration::from_millis(failed) + AVOID_FOR
    }
}

/// `host:port` or a URI, as a URI; without a scheme it has the one that is usual here.
fn normalize(address: &str, tls: bool) -> Result<String, Error> {
    let address = address.trim().trim_end_matches('/');
    let (scheme, host) = match address.split_once("://") {
        Some((scheme @ ("http" | "https"), host)) => (scheme, host),
        Some(_) => ("", ""),
        None => (if tls { "https" } else { "http" }, address),
    };
    match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(format!("{scheme}://{host}"))
        }
        _ => Err(Error::argument(format!("'{address}' is no address; write host:port"))),
    }
}

/// `0.0.0.0:port` or `[::]:port`: from elsewhere, that is the caller's own machine.
fn is_unspecified(address: &str) -> bool {
    address.parse().is_ok_and(|address: std::net::SocketAddr| address.ip().is_unspecified())
}

fn is_tls(address: &str) -> bool {
    address.starts_with("https://")
}

fn with_tls(endpoint: Endpoint, options: &ClientOptions) -> Result<Endpoint, Error> {
    // A certificate names an IPv6 address without its brackets.
    let host = endpoint.uri().host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let config = ClientTlsConfig::new().domain_name(host);
    let config = match &options.tls {
        None | Some(Trust::System) => config.with_native_roots(),
        Some(Trust::Authorities(pem)) => config.ca_certificate(Certificate::from_pem(pem)),
    };
    let config = match &options.certificate {
        None => config,
        Some(own) => config.identity(Identity::from_pem(&own.certificate, &own.key)),
    };
    endpoint.tls_config(config).map_err(|error| {
        let mut why = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            why = error.to_string();
            cause = error.source();
        }
        Error::argument(format!("no TLS with the certificates that were given: {why}"))
    })
}

/// All nodes known.
pub(crate) struct Nodes {
    options: ClientOptions,
    pub proof: Proof,
    nodes: std::sync::RwLock<Vec<Arc<Node>>>,
    /// Where the next call without preference starts: stays at a node that answers.
    current: AtomicUsize,
}

impl Nodes {
    pub fn new<A: AsRef<str>>(
        addresses: impl IntoIterator<Item = A>,
        mut options: ClientOptions,
    ) -> Result<Nodes, Error> {
        let addresses: Vec<A> = addresses.into_iter().collect();
        let is_shown = options.certificate.is_some();
        if is_shown || addresses.iter().any(|address| is_tls(address.as_ref().trim())) {
            options.tls.get_or_insert_default();
        }
        let proof = Proof::new(options.secret.as_deref(), options.key_name.as_deref())?;
        let nodes = addresses
            .iter()
            .map(|address| Node::open(address.as_ref(), &options, &proof).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        if nodes.is_empty() {
            return Err(Error::argument("no address of a node was given; write host:port"));
        }
        Ok(Nodes { options, proof, nodes: nodes.into(), current: AtomicUsize::new(0) })
    }

    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// The nodes to try, in order: the preferred one, those that work, those that lately failed.
    pub fn order(&self, preferred: Option<u64>) -> Vec<Arc<Node>> {
        let nodes = self.nodes.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let start = self.current.load(Ordering::Relaxed) % nodes.len();
        let mut order: Vec<Arc<Node>> =
            nodes[start..].iter().chain(&nodes[..start]).cloned().collect();
        order.sort_by_key(|node| {
            let preferred = preferred.is_some_and(|id| id != 0 && node.id() == id);
            (node.is_avoided(), !preferred)
        });
        order
    }

    /// The node answered: calls without preference go there first.
    pub fn prefer(&self, answered: &Arc<Node>) {
        let nodes = self.nodes.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(index) = nodes.iter().position(|node| Arc::ptr_eq(node, answered)) {
            self.current.store(index, Ordering::Relaxed);
        }
    }

    /// Takes in what the cluster says of its nodes: ids of the known, addresses of the unknown.
    pub fn learn<'a>(&self, named: impl IntoIterator<Item = (u64, &'a str)>) {
        let mut nodes = self.nodes.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (id, address) in named {
            let tls = self.options.tls.is_some();
            if is_unspecified(address) {
                continue; // It listens everywhere, and says to nobody where that is.
            }
            let Ok(address) = normalize(address, tls) else { continue };
            match nodes.iter().find(|node| node.address == address) {
                Some(node) => node.id.store(id, Ordering::Relaxed),
                // A node known by another name (localhost, a forwarded port) keeps that name.
                None if nodes.iter().any(|node| node.id() == id) => (),
                None => {
                    if let Ok(node) = Node::open(&address, &self.options, &self.proof) {
                        node.id.store(id, Ordering::Relaxed);
                        nodes.push(Arc::new(node));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(addresses: &[&str]) -> Nodes {
        Nodes::new(addresses, ClientOptions::default()).expect("addresses are right")
    }

    #[tokio::test]
    async fn streams_are_opened_in_turns_and_not_where_a_node_failed_meanwhile() {
        let nodes = nodes(&["127.0.0.1:5310"]);
        let node = nodes.order(None).remove(0);
        let mut turns = Vec::new();
        for _ in 0..OPENINGS_MAX {
            turns.push(node.turn_to_open().await.expect("there is room"));
        }
        let waiting = || Box::pin(node.turn_to_open());
        let mut first = waiting();
        assert!(futures::poll!(&mut first).is_pending());
        turns.pop();
        turns.push(first.await.expect("one was given back"));

        let (mut second, mut third) = (waiting(), waiting());
        assert!(
            futures::poll!(&mut second).is_pending() && futures::poll!(&mut third).is_pending()
        );
        node.note_failure();
        turns.clear();
        assert!(matches!(second.await, Err(Error::NotDone(_))));
        assert!(matches!(third.await, Err(Error::NotDone(_))));
        assert!(node.turn_to_open().await.is_ok(), "it may have come back");
    }

    fn order(nodes: &Nodes, preferred: Option<u64>) -> Vec<String> {
        nodes.order(preferred).iter().map(|node| node.address.clone()).collect()
    }

    #[test]
    fn addresses_are_read_or_refused_with_a_line() {
        for (given, plain, with_tls) in [
            ("127.0.0.1:5310", Some("http://127.0.0.1:5310"), Some("https://127.0.0.1:5310")),
            (" http://node:5310/ ", Some("http://node:5310"), Some("http://node:5310")),
            ("[::1]:5310", Some("http://[::1]:5310"), Some("https://[::1]:5310")),
            ("https://node:5310", Some("https://node:5310"), Some("https://node:5310")),
            ("amqp://node:5310", None, None),
            ("node", None, None),
            ("node:port", None, None),
            (":5310", None, None),
            ("", None, None),
        ] {
            assert_eq!(normalize(given, false).as_deref().ok(), plain, "{given}");
            assert_eq!(normalize(given, true).as_deref().ok(), with_tls, "{given}");
        }
    }

    /// One address that asks for TLS asks for it everywhere.
    #[tokio::test]
    async fn nodes_that_are_learned_are_reached_like_those_given() {
        let tls = Some(Trust::Authorities(Vec::new()));
        for (given, options, learned) in [
            ("a:1", ClientOptions::default(), "http://b:1"),
            ("a:1", ClientOptions { tls: tls.clone(), ..Default::default() }, "https://b:1"),
            ("https://a:1", ClientOptions { tls, ..Default::default() }, "https://b:1"),
        ] {
            let nodes = Nodes::new([given], options).expect("an address");
            nodes.learn([(2, "b:1")]);
            assert!(order(&nodes, None).contains(&learned.to_owned()), "{given}");
        }
    }

    #[tokio::test]
    async fn the_leader_comes_first_and_a_failing_node_last() {
        let nodes = nodes(&["a:1", "b:1"]);
        nodes.learn([(2, "b:1"), (3, "c:1"), (4, "0.0.0.0:1")]);
        assert_eq!(order(&nodes, None), ["http://a:1", "http://b:1", "http://c:1"]);
        assert_eq!(order(&nodes, Some(3)), ["http://c:1", "http://a:1", "http://b:1"]);
        nodes.order(Some(3))[0].note_failure();
        assert_eq!(order(&nodes, Some(3)), ["http://a:1", "http://b:1", "http://c:1"]);
        nodes.prefer(&nodes.order(Some(2))[0]);
        assert_eq!(order(&nodes, None), ["http://b:1", "http://a:1", "http://c:1"]);
    }
}
