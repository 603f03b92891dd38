//! Three connections to each peer: votes, heartbeats, transfers and clocks on one, log on another, bulk
//! (snapshots and channels) on the third, so that none waits behind another's bytes.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures::TryFutureExt;
use hyper_util::rt::TokioIo;
use openraft::errors::{NetworkError, RPCError, Unreachable};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};
use tower::{Service, service_fn};
use tracing::{info, warn};

use super::attendance;
use super::identity::{
    FOUNDED_APART, Identity, OUTDATED, PeerAddresses, REFUSED, REMOVED, Sign, TAKEN,
};
use super::knock::Knock;
use super::v1::peer_client::PeerClient;
use super::{CONNECTION_WINDOW_BYTES, FRAME_BYTES, MESSAGE_BYTES_MAX, STREAM_WINDOW_BYTES};
use crate::raft::TypeConfig;
use crate::runs::Runs;
use crate::{BoxSocket, ChannelError, Dialler};

/// A peer that does not answer the handshake in this time is down: on one site it takes
/// milliseconds.
const CONNECT_MAX: Duration = Duration::from_millis(500);

pub(crate) type Client = PeerClient<InterceptedService<Channel, Sign>>;

/// Where the other nodes are reached. Connections are made on first use, and again when lost.
pub(crate) struct Peers {
    identity: Identity,
    addresses: PeerAddresses,
    dialler: Option<Arc<dyn Dialler>>,
    peers: RwLock<BTreeMap<u64, Arc<Peer>>>,
    told: Told,
    runs: Arc<Runs>,
}

/// What peers have said about this process.
#[derive(Clone, Default)]
struct Told {
    taken: Taken,
    /// Set once a peer has told this process that its data directory is an old one.
    outdated: Arc<watch::Sender<Option<Outdated>>>,
    /// Set once a peer has told this process that they are of different foundings; which peer.
    founded_apart: Arc<Mutex<Option<u64>>>,
    /// Set once a peer has said that this node is no part of the cluster any more.
    removed: Arc<watch::Sender<bool>>,
}

/// What a peer has against a data directory.
#[derive(Clone, Debug)]
pub(crate) struct Outdated {
    pub by: u64,
    pub why: String,
}

/// Set once a peer has told this process that another one is this node.
type Taken = Arc<watch::Sender<Option<u64>>>;

impl Peers {
    pub fn new(
        identity: Identity,
        addresses: PeerAddresses,
        dialler: Option<Arc<dyn Dialler>>,
        runs: Arc<Runs>,
    ) -> Peers {
        let (peers, told) = Default::default();
        Peers { identity, addresses, dialler, peers, told, runs }
    }

    /// Where a node is reached from now on. Needs a runtime.
    pub fn set(&self, node: u64, address: &str) {
        {
            let mut addresses = self.addresses.write();
            if addresses.get(&node).is_some_and(|known| known == address) {
                return;
            }
            addresses.insert(node, address.to_owned());
            self.peers.write().remove(&node);
        }
        self.attend();
    }

    /// Connects to all other nodes, so that the end of their processes is noticed. Needs a runtime.
    pub fn attend(&self) {
        let others = self.nodes().into_iter().filter(|node| *node != self.identity.node);
        others.for_each(|node| drop(self.get(node)));
    }

    /// Resolves once a peer says that this node was removed.
    pub async fn removed(&self) {
        let mut told = self.told.removed.subscribe();
        if told.wait_for(|removed| *removed).await.is_err() {
            std::future::pending::<()>().await; // The sender is this object's.
        }
    }

    /// Resolves once a peer hears another process as this node; which peer it is.
    pub async fn taken(&self) -> u64 {
        told_by(&self.told.taken).await
    }

    /// Resolves once a peer refuses this node for its data directory, which it knows to be an old one.
    pub async fn outdated(&self) -> Outdated {
        told_by(&self.told.outdated).await
    }

    /// The peer that refuses this node because they are of different foundings of the cluster.
    pub fn founded_apart(&self) -> Option<u64> {
        *self.told.founded_apart.lock()
    }

    /// As [`Peers::outdated`], if one has said so already.
    pub fn has_outdated(&self) -> Option<Outdated> {
        self.told.outdated.borrow().clone()
    }

    /// How each node answers that has an address.
    pub fn status(&self) -> Vec<PeerStatus> {
        let nodes = self.nodes();
        let peers = self.peers.read();
        let status = |node: u64| match peers.get(&node) {
            Some(peer) => peer.status(),
            None => PeerStatus { node, heard_ms: None, refuses: None },
        };
        nodes.into_iter().map(status).collect()
    }

    /// Every node that has an address.
    pub fn nodes(&self) -> Vec<u64> {
        self.addresses.read().keys().copied().collect()
    }

    /// The connections to a node; none if it has no usable address. Needs a runtime.
    pub fn get(&self, node: u64) -> Option<Arc<Peer>> {
        if let Some(peer) = self.peers.read().get(&node) {
            return Some(peer.clone());
        }
        // Held until the peer is in its place: a new address takes it out again.
        let addresses = self.addresses.read();
        let address = addresses.get(&node)?;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).ok()?;
        let mut peers = self.peers.write();
        let peer = peers.entry(node).or_insert_with(|| {
            let sign = Sign::new(&self.identity, node);
            let dial = |endpoint: &Endpoint| match &self.dialler {
                None => endpoint.connect_lazy(),
                Some(dialler) => {
                    let connector = connector(node, address.clone(), dialler.clone());
                    endpoint.connect_with_connector_lazy(connector)
                }
            };
            let knock = Knock::new(node, address.clone(), self.dialler.clone(), self.runs.clone());
            Arc::new(Peer::new(node, endpoint, &dial, sign, self.told.clone(), knock))
        });
        Some(peer.clone())
    }
}

/// What was told, once it is.
async fn told_by<T: Clone>(told: &watch::Sender<Option<T>>) -> T {
    match told.subscribe().wait_for(Option::is_some).await.map(|told| told.clone()) {
        Ok(Some(told)) => told,
        Ok(None) | Err(_) => std::future::pending().await, // The sender is there.
    }
}

/// Connects through what is not plain TCP.
fn connector(
    node: u64,
    address: String,
    dialler: Arc<dyn Dialler>,
) -> impl Service<Uri, Response = TokioIo<BoxSocket>, Error = io::Error, Future: Send> + Send + 'static
{
    service_fn(move |_: Uri| dialler.connect(node, address.clone()).map_ok(TokioIo::new))
}

/// The connections to one node.
pub(crate) struct Peer {
    pub node: u64,
    pub control: Client,
    pub log: Client,
    pub bulk: Client,
    /// How its last answer was: only a change is logged, for calls come many times a second.
    state: AtomicU8,
    /// When it last answered.
    heard: Mutex<Option<Instant>>,
    /// What it said when it last refused this node; it counts while that is its state.
    refusal: Mutex<String>,
    told: Told,
    knock: Knock,
    /// Ends with the connections.
    _attendance: JoinSet<()>,
}

/// How a peer answers this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    pub node: u64,
    /// How long ago it last answered, ms. Absent: never since it is reached at its address.
    pub heard_ms: Option<u64>,
    /// Why it refuses this node, if it does.
    pub refuses: Option<String>,
}

impl PeerStatus {
    /// Whether it answered lately. Nodes ask each other for their clocks once a second.
    pub fn is_up(&self) -> bool {
        self.heard_ms.is_some_and(|ms| ms <= SILENT_MS_MAX)
    }
}

/// A peer that answered nothing for so long is down, or the way to it is.
const SILENT_MS_MAX: u64 = 3_000;

const ANSWERS: u8 = 0;
const UNREACHABLE: u8 = 1;
const REFUSES: u8 = 2;

impl Peer {
    /// Needs a runtime.
    fn new(
        node: u64,
        endpoint: Endpoint,
        dial: &dyn Fn(&Endpoint) -> Channel,
        sign: Sign,
        told: Told,
        knock: Knock,
    ) -> Peer {
        let client = |silence: Duration| {
            let endpoint = endpoint
                .clone()
                .connect_timeout(CONNECT_MAX)
                .tcp_nodelay(true)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .max_frame_size(FRAME_BYTES)
                // Finds a peer that is gone without a word: its machine, or the wire to it.
                .http2_keep_alive_interval(silence / 2)
                .keep_alive_timeout(silence)
                .keep_alive_while_idle(true);
            PeerClient::with_interceptor(dial(&endpoint), sign.clone())
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX)
        };
        let control = client(Duration::from_secs(2));
        let mut attendance = JoinSet::new();
        attendance.spawn(attendance::attend(control.clone(), knock.clone()));
        Peer {
            node,
            control,
            log: client(Duration::from_secs(4)),
            bulk: client(Duration::from_secs(10)),
            state: AtomicU8::new(ANSWERS),
            heard: Mutex::default(),
            refusal: Mutex::default(),
            told,
            knock,
            _attendance: attendance,
        }
    }

    /// Notes that the peer took a call.
    pub fn accepted(&self) {
        *self.heard.lock() = Some(Instant::now());
        if self.changes_to(ANSWERS) {
            info!(node = self.node, "a peer is back");
        }
    }

    /// What Raft makes of a failed call. `Unreachable` makes it wait before the next, so it is said
    /// only of a peer that is down, not there yet, or refuses us.
    pub fn failed(&self, status: &Status) -> RPCError<TypeConfig> {
        if self.is_refusal(status) {
            return RPCError::Unreachable(Unreachable::from_string(status.message()));
        }
        self.knock.if_refused(status);
        let reason = describe(status);
        match status.code() {
            // Another incarnation of this node: as good as down, and no news of the node itself.
            Code::FailedPrecondition => {
                RPCError::Unreachable(Unreachable::from_string(status.message()))
            }
            Code::Unavailable | Code::NotFound => {
                // What has no cause the peer itself has said, of one group.
                if status.source().is_some() && self.changes_to(UNREACHABLE) {
                    warn!(node = self.node, reason, "a peer is away");
                }
                RPCError::Unreachable(Unreachable::from_string(reason))
            }
            _ => RPCError::Network(NetworkError::from_string(reason)),
        }
    }

    /// What the layer above is told of a failed call.
    pub fn not_reached(&self, status: &Status) -> ChannelError {
        let node = self.node;
        match self.is_refusal(status) {
            true => ChannelError::Refused { node, reason: status.message().to_owned() },
            false => {
                self.knock.if_refused(status);
                ChannelError::Unreachable { node, reason: describe(status) }
            }
        }
    }

    /// Whether the peer refused us.
    pub fn is_refusal(&self, status: &Status) -> bool {
        if status.code() != Code::PermissionDenied {
            return false;
        }
        let why = status.metadata().get(REFUSED).and_then(|why| why.to_str().ok());
        if why == Some(FOUNDED_APART) {
            *self.told.founded_apart.lock() = Some(self.node);
        }
        match why {
            Some(TAKEN) => drop(self.told.taken.send_replace(Some(self.node))),
            Some(OUTDATED) => {
                let told = Outdated { by: self.node, why: status.message().to_owned() };
                self.told.outdated.send_replace(Some(told));
            }
            Some(REMOVED) => drop(self.told.removed.send_replace(true)),
            _ => {
                status.message().clone_into(&mut self.refusal.lock());
                if self.changes_to(REFUSES) {
                    warn!(node = self.node, reason = status.message(), "a peer refuses this node");
                }
            }
        }
        true
    }

    fn status(&self) -> PeerStatus {
        let heard = *self.heard.lock();
        let refuses = self.state.load(Ordering::Relaxed) == REFUSES;
        PeerStatus {
            node: self.node,
            heard_ms: heard.map(|at| at.elapsed().as_millis() as u64),
            refuses: refuses.then(|| self.refusal.lock().clone()),
        }
    }

    fn changes_to(&self, state: u8) -> bool {
        self.state.load(Ordering::Relaxed) != state
            && self.state.swap(state, Ordering::Relaxed) != state
    }
}

/// A status with its cause: the message alone is often "transport error".
pub(crate) fn describe(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = status.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
