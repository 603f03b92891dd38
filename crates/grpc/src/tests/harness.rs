//! One node, its server, and a connection to it.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use auth::{Access, Key};
use domain::NodeRow;
use replication::Replication;
use service::{Founding, Node, RunningNode};
use store::{LogStore, RowStore};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tonic::Status;
use tonic::transport::Channel;
use tonic_types::{ErrorInfo, StatusExt};
use wire::v1;

use crate::api::cluster_client::ClusterClient;
use crate::api::entities_client::EntitiesClient;
use crate::api::messaging_client::MessagingClient;

pub struct Server {
    pub channel: Channel,
    pub entities: EntitiesClient<Channel>,
    pub messaging: MessagingClient<Channel>,
    pub cluster: ClusterClient<Channel>,
    stop: Option<oneshot::Sender<()>>,
    served: tokio::task::JoinHandle<Result<(), crate::Error>>,
    _node: RunningNode,
    _dir: TempDir,
}

impl Server {
    pub async fn start(secret: Option<&str>) -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let peer = free_address();
        let row = NodeRow {
            peer_address: peer.to_string(),
            grpc_address: String::new(),
            http_address: String::new(),
        };
        let mut config = service::Config::new(1, row.clone());
        config.development = true;
        config.founding = Some(Founding {
            cluster_id: 7,
            data_groups: 1,
            replication_factor: 1,
            nodes: vec![(1, row)],
        });
        let options = store::Options::default();
        let log = LogStore::open(&dir.path().join("log"), &options).expect("a log");
        let rows = RowStore::open(&dir.path().join("rows"), &options).expect("rows");
        let peers = replication::Config::new(1, [(1, peer.to_string())].into(), peer);
        let node = Node::new(config);
        // A database that is closed while the process ends aborts it: these are left open.
        std::mem::forget((log.clone(), rows.clone()));
        let replication = Replication::start(peers, log, rows, node.observer(), node.incoming());
        let node = node.start(replication.expect("the peer port is free"));
        let broker = node.broker().clone();
        while !broker.cluster().readiness().ready {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let access = secret.map(|secret| Access::keys([Key::root(secret)])).unwrap_or_default();
        let (arrivals, config) =
            (transport::plain(listener), crate::Config { access, ..Default::default() });
        let keys = service::KeyWatch::start(broker.clone(), config.access.clone());
        let served = tokio::spawn(crate::serve(arrivals, config, broker, keys, async {
            let _ = stopped.await;
        }));
        let channel = Channel::from_shared(format!("http://{address}")).expect("an address");
        let channel = channel.connect().await.expect("connected");
        Server {
            entities: EntitiesClient::new(channel.clone()),
            messaging: MessagingClient::new(channel.clone()),
            cluster: ClusterClient::new(channel.clone()),
            channel,
            stop: Some(stop),
            served,
            _node: node,
            _dir: dir,
        }
    }

    /// With a queue `q`.
    pub async fn with_queue(properties: v1::QueueProperties) -> Server {
        let mut server = Server::start(None).await;
        let (name, properties) = ("q".to_owned(), Some(properties));
        let request = v1::CreateQueueRequest { name, properties, request: 0 };
        server.entities.create_queue(request).await.expect("created");
        server
    }

    pub async fn send(&mut self, messages: Vec<v1::Message>) -> Result<Vec<u64>, Status> {
        let request = v1::SendRequest { queue: "q".into(), messages, origin: None };
        let response = self.messaging.send(request).await?;
        Ok(response.into_inner().sequence_numbers)
    }

    pub async fn receive(&mut self, count: u32) -> Vec<v1::ReceivedMessage> {
        let request =
            v1::ReceiveRequest { queue: "q".into(), max_messages: count, ..Default::default() };
        self.messaging.receive(request).await.expect("received").into_inner().messages
    }

    pub async fn queue(&mut self) -> v1::Queue {
        let request = v1::GetQueueRequest { name: "q".into() };
        self.entities.get_queue(request).await.expect("the queue").into_inner()
    }

    pub async fn counters(&mut self) -> v1::QueueCounters {
        self.queue().await.counters.expect("counters")
    }

    /// Stops the server, and waits until it has.
    pub async fn stop(&mut self) {
        drop(self.stop.take());
        let served = tokio::time::timeout(Duration::from_secs(10), &mut self.served).await;
        served.expect("it ends").expect("it does not panic").expect("it ends well");
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address")
}

pub fn message(body: &str) -> v1::Message {
    v1::Message { body: body.to_owned().into(), ..Default::default() }
}

pub fn body(received: &v1::ReceivedMessage) -> &str {
    let message = received.message.as_ref().expect("a message");
    std::str::from_utf8(&message.body).expect("text")
}

pub fn bodies(received: &[v1::ReceivedMessage]) -> Vec<&str> {
    received.iter().map(body).collect()
}

pub fn complete(received: &v1::ReceivedMessage) -> v1::Settlement {
    let lock_token = received.lock_token.clone().expect("a lock");
    v1::Settlement { lock_token, disposition: None }
}

pub fn info(status: &Status) -> ErrorInfo {
    status.get_details_error_info().unwrap_or_else(|| panic!("no ErrorInfo in {status:?}"))
}
