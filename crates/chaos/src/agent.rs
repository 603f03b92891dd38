//! The agent beside a node, on the node's machine: starts the node, sees what it says to other nodes, and hurts it as one
//! experiment asks.
//!
//! The node reaches others through the agent, which is a proxy on loopback (SOCKS5). So the agents of two nodes together
//! see all connections between them, each those that its own node has opened.

mod passage;
mod service;
mod ward;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use remote::{Audience, ServerTls};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::Error;
use crate::api::agents_server::AgentsServer;
use crate::process::{Launch, Process};
use crate::proxy::Gate;
use passage::Passage;
use service::Service;
use ward::Ward;

/// Whom an experiment proves to that it is the cluster's.
pub(crate) const AUDIENCE: Audience = Audience("mayfly-chaos-agent");
/// Both sides are of one version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What is at an address where something else answers.
pub(crate) const NO_AGENT: &str = "no agent of mayfly chaos";

/// How soon it shows that the node has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The number of the agent's node in its cluster, once it is known.
pub type NodeNumber = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// What starts a node, and hurts it when it is asked to.
pub struct Agent {
    /// The broker's binary.
    pub program: PathBuf,
    /// Of `mayfly serve`.
    pub arguments: Vec<OsString>,
    /// Where the node keeps its data.
    pub data: PathBuf,
    /// Whoever does not know it is refused. None: nobody is.
    pub secret: Option<String>,
    pub tls: Option<ServerTls>,
    pub number: NodeNumber,
}

/// How an agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEnd {
    /// It was told to, and has ended the node in good order.
    Stopped,
    /// The node ended, and nobody had asked the agent for it.
    NodeEnded {
        /// Absent: by a signal.
        code: Option<i32>,
        told: String,
    },
}

impl Agent {
    /// Starts the node and serves experiments until `stop`, or until the node ends while there is no experiment.
    ///
    /// # Errors
    /// The node cannot be started; a certificate or key is none.
    pub async fn run(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<AgentEnd, Error> {
        let Agent { program, mut arguments, data, secret, tls, number } = self;
        let files = TempDir::with_prefix("mayfly-agent-").map_err(Error::io("a directory"))?;
        let passage = Passage::open().await.map_err(Error::io("a port on loopback"))?;
        arguments.extend(["--peer-proxy".into(), passage.address().into()]);
        let launch = Launch {
            program,
            wrapper: Vec::new(),
            arguments,
            environment: Vec::new(),
            log: None,
            data,
            sync_delay_file: files.path().join("sync-delay"),
        };
        let mut process = Process::new(launch, Gate::default());
        process.start(&[])?;
        let ward = Arc::new(tokio::sync::Mutex::new(Ward::new(process, passage)));
        let service = Service { secret, number, ward: ward.clone(), turn: Arc::default() };
        let serving = remote::serve(AgentsServer::new(service), tls, listener, stop);
        let ended = tokio::select! {
            served = serving => served.map_err(Error::Wrong).map(|()| AgentEnd::Stopped),
            ended = watch(&ward) => ended,
        };
        ward.lock().await.end().await;
        ended
    }
}

/// Resolves when the node has ended outside an experiment. During one it is started again.
async fn watch(ward: &tokio::sync::Mutex<Ward>) -> Result<AgentEnd, Error> {
    loop {
        if let Some((code, told)) = ward.lock().await.look()? {
            return Ok(AgentEnd::NodeEnded { code, told });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
