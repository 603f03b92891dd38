//! `mayfly up`: a cluster on this machine, every node a process of its own.

mod azure_tools;
mod certificate;
mod cluster;
mod forward;
mod member;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
pub use cluster::{LocalCluster, NodeEvent, Plan};
use fault_rules::WrittenRule;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::emulator::{Entities, Outcome};
use crate::faults;
use crate::serve::config::is_weak;
use crate::serve::private;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly up                                three nodes, data in ./mayfly-data
  mayfly up --nodes 5 --data-dir /tmp/five
  mayfly up --development                  mayfly clock advance 14days works, and mayfly fault
  mayfly up --tls                          AMQP over TLS and WebSockets, HTTPS
  mayfly up --secret …                     clients are asked for it, as MAYFLY_SECRET
  MAYFLY_SECRET=… mayfly up --tls --host 10.0.0.1
                                           for other machines as well
  mayfly up --tls --azure-ports --host-name broker.example
                                           Endpoint=sb://broker.example/;… as for the cloud
  mayfly up --tls --azure                  az and Azure's management SDKs as well
  mayfly up --base-offset 10000            a second cluster beside the first
  mayfly up --emulator-config Config.json  with the entities of a Service Bus emulator's file

Node 1 speaks gRPC on 5310, HTTP on 5300, AMQP on 5672 and to its peers on 5320, node 2 on 6310,
6300, 6672 and 6320, and so on; with --tls also AMQP on 5671, 6671, and so on. The ports of
HTTP and AMQP take either, gRPC and WebSockets too, and so does 5700, whose connections are passed on
to a node that lives. A node that dies is started again after 2 s. All end with this process, however
it ends.";

/// How long a cluster may take until every group has a leader.
const READY_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct UpArgs {
    /// How many nodes
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// Where the nodes keep their data and logs
    #[arg(long, env = "MAYFLY_DATA_DIR", value_name = "PATH", default_value = "mayfly-data")]
    data_dir: PathBuf,
    /// Added to every port
    #[arg(long, value_name = "PORTS", default_value_t = 0)]
    base_offset: u16,
    /// Leave a node that dies down
    #[arg(long)]
    no_restart: bool,
    /// Allow operators to move the clock, and to have clients meet faults
    #[arg(long)]
    development: bool,
    /// Acknowledge what a majority holds in memory, not on disk: faster, and lost if the power of a
    /// majority fails at once
    #[arg(long)]
    replicated: bool,
    /// Speak TLS alone, with a certificate made for this cluster and kept with its data
    #[arg(long)]
    tls: bool,
    /// Take plain text beside TLS from clients
    #[arg(long, requires = "tls")]
    plain: bool,
    /// Names that the certificate is good for, beside localhost and --host
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', requires = "tls")]
    host_name: Vec<String>,
    /// Answer Azure's own tools, as az and the management SDKs, and print what to tell them
    #[arg(long, requires = "tls")]
    azure: bool,
    /// Take everything on 443 and 5671 as well, where clients of Azure look, and pass it on to a node that
    /// lives; needs the right to bind port 443
    #[arg(long, requires = "tls")]
    azure_ports: bool,
    /// Take everything here as well, as where SDKs look for the WebSocket, and pass it on
    #[arg(long, value_name = "ADDRESS:PORT")]
    websocket: Option<String>,
    /// The address to listen on; one that is not loopback takes a secret
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Asked of clients and between nodes
    #[arg(long, env = "MAYFLY_SECRET", hide_env_values = true, value_name = "SECRET")]
    secret: Option<String>,
    /// Listen beyond loopback without a secret, or in plain text: whoever reaches the ports may do everything,
    /// or read along
    #[arg(long, env = "MAYFLY_INSECURE")]
    insecure: bool,
    /// Raft groups for entities that the cluster is founded with
    #[arg(long, value_name = "COUNT")]
    data_groups: Option<u16>,
    /// Memory for the databases of each node
    #[arg(long, value_name = "MEBIBYTES")]
    memory: Option<u32>,
    /// Memory of each node for what happens to messages: recorded, for `mayfly experiment`
    #[arg(long, env = "MAYFLY_MESSAGE_HISTORY", value_name = "MEBIBYTES")]
    message_history: Option<u32>,
    /// What the nodes log
    #[arg(long, env = "MAYFLY_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// Create the entities this file lists: a Config.json of Microsoft's Service Bus emulator
    #[arg(long, env = "MAYFLY_EMULATOR_CONFIG", value_name = "PATH")]
    emulator_config: Option<PathBuf>,
    /// Have clients meet the faults of this file from the start, see `mayfly fault add`
    #[arg(long, value_name = "FILE", requires = "development")]
    faults: Option<PathBuf>,
}

pub async fn run(args: UpArgs) -> anyhow::Result<()> {
    // First: a mistake in it is told before anything is started.
    let entities = args.emulator_config.as_deref().map(Entities::read).transpose()?;
    let rules = args.faults.as_deref().map(faults::read).transpose()?.unwrap_or_default();
    let is_empty = args.secret.as_deref() == Some("");
    let plan = Plan {
        dir: args.data_dir,
        nodes: args.nodes,
        base_offset: args.base_offset,
        restart: !args.no_restart,
        development: args.development,
        synced: !args.replicated,
        data_groups: args.data_groups,
        memory_mebibytes: args.memory,
        message_history_mebibytes: args.message_history,
        log: args.log,
        idle_reattach: None,
        tls: args.tls,
        plain: args.plain,
        host: args.host,
        host_names: args.host_name,
        azure: args.azure,
        azure_ports: args.azure_ports,
        secret: args.secret.filter(|secret| !secret.is_empty()),
        insecure: args.insecure,
    };
    plan.check_open()?;
    match &plan.secret {
        Some(secret) if is_weak(secret) => terminal::complain(
            "the secret has fewer than 16 characters and can be guessed; serve would refuse it",
        ),
        None if is_empty => terminal::complain("MAYFLY_SECRET is empty: no secret is asked for"),
        _ => (),
    }
    private::begin();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut forward_addresses = plan.forward_addresses()?;
    forward_addresses.extend(args.websocket);
    let mut forward_ports = Vec::new();
    for address in &forward_addresses {
        let bound = TcpListener::bind(address).await;
        forward_ports.push(bound.with_context(|| format!("cannot listen on {address}"))?);
    }
    let mut cluster = LocalCluster::start(plan)?;
    let spinner = terminal::spinner("starting the nodes");
    let started = tokio::select! {
        ready = ready(&mut cluster, entities.as_ref(), rules) => ready.map(Some),
        _ = tokio::signal::ctrl_c() => Ok(None),
        _ = terminate.recv() => Ok(None),
    };
    spinner.finish_and_clear();
    let result = match started {
        Ok(Some(outcome)) => {
            if entities.is_some() {
                tell_entities(&outcome)?;
            }
            print(&cluster, &forward_addresses)?;
            let members = cluster.members().cloned().collect();
            tokio::select! {
                _ = tokio::signal::ctrl_c() => (),
                _ = terminate.recv() => (),
                () = tell(&mut cluster) => (),
                () = forward::run(forward_ports, members) => (),
            }
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    let spinner = terminal::spinner("ending the nodes");
    cluster.stop().await;
    spinner.finish_and_clear();
    result
}

/// Waits until the cluster serves, and has what it shall have at start.
async fn ready(
    cluster: &mut LocalCluster,
    entities: Option<&Entities>,
    rules: Vec<WrittenRule>,
) -> anyhow::Result<Outcome> {
    cluster.wait_ready(READY_WITHIN).await?;
    faults::put(&cluster.client()?, rules).await?;
    match entities {
        Some(entities) => entities.create(&cluster.client()?).await,
        None => Ok(Outcome::default()),
    }
}

fn tell_entities(outcome: &Outcome) -> anyhow::Result<()> {
    outcome.differences.iter().for_each(|difference| terminal::note(difference));
    let Outcome { created, found, .. } = outcome;
    terminal::line(format!("{created} entities created, {found} were there"))
}

fn print(cluster: &LocalCluster, forward_addresses: &[String]) -> anyhow::Result<()> {
    let rows = cluster.members().map(|member| {
        vec![
            member.id().to_string(),
            member.pid().map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            member.addresses().grpc.clone(),
            member.addresses().http.clone(),
            member.addresses().peer.clone(),
            member.addresses().amqp.clone().unwrap_or_default(),
            member.log_path().display().to_string(),
        ]
    });
    let header = ["node", "pid", "grpc", "http", "peers", "amqp", "log"];
    terminal::line(terminal::table(&header, &[0, 1], rows.collect()))?;
    if let Some(authority) = cluster.authority() {
        let ports = cluster.amqps_addresses().join(", ");
        let ports = if ports.is_empty() { ports } else { format!("AMQP over TLS: {ports}; ") };
        terminal::line(format!(
            "{ports}TLS {} on all ports; trust {}",
            if cluster.takes_plain() { "beside plain text" } else { "and nothing else" },
            authority.display()
        ))?;
    }
    if let (Some(member), Some(authority)) = (cluster.members().next(), cluster.azure_authority()) {
        let http = &member.addresses().http;
        for line in azure_tools::lines(http, cluster.id(), authority, cluster.has_secret()) {
            terminal::line(line)?;
        }
    }
    let addresses = cluster.client_addresses().join(",");
    let forward_addresses = forward_addresses.join(", ");
    terminal::line(format!("\nAMQP, HTTP and gRPC to any node that lives: {forward_addresses}"))?;
    terminal::line(format!("export MAYFLY_CONNECT={addresses}"))?;
    if let Some(authority) = cluster.authority().filter(|_| !cluster.takes_plain()) {
        terminal::line(format!("export MAYFLY_TLS_CA={}", authority.display()))?;
    }
    terminal::line("ready; Ctrl-C ends all nodes")
}

/// Tells of nodes that die and come back, for ever.
async fn tell(cluster: &mut LocalCluster) {
    while let Some(event) = cluster.next_event().await {
        match event {
            NodeEvent::Died { node, how, again: true, .. } => {
                terminal::note(&format!("node {node} died ({how}); it is started again in 2 s"));
            }
            NodeEvent::Died { node, how, again: false, .. } => {
                terminal::note(&format!("node {node} ended ({how}); it stays down"));
            }
            NodeEvent::Started { node, pid } => {
                terminal::note(&format!("node {node} started again, pid {pid}"));
            }
        }
    }
    std::future::pending().await
}
