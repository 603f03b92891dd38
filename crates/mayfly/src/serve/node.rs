//! A node put together and run until it is told to end.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use audit::Trail;
use auth::{Access, CertificateMap};
use domain::NodeRow;
use http::MetricsPage;
use limits::Ledger;
use metrics_exporter_prometheus::PrometheusHandle;
use replication::{Dialler, Proof, Replication};
use service::{
    Broker, CertificateEnds, ClockConfig, Events, Founding, IdleConfig, NodeHolders, RunningNode,
    Skew,
};
use spans::Exporter;
use store::{DataDir, Durability, Founders, Identity, LogStore, Provenance, RowStore};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use transport::{Encryption, Shown, Tls, TlsError};

use super::config::{
    Addresses, AuditConfig, ClientCertificates, Config, ListenConfig, PeerTlsFiles, TlsFiles,
};
use super::credits::throttle;
use super::front_ends::{FrontEnds, Ports, Records};
use super::peer_tls::PeerTls;
use super::peer_way::PeerWay;
use super::self_report::OwnReport;
use super::{
    ProcessFacts, certificate, collectors, disk, fault_injection, handles, join, private, process,
    telemetry,
};
use crate::emulator::Entities;
use crate::files::{self, Existing, Readers};
use crate::terminal::AllStopped;

/// How long open calls may take to be answered when the node ends.
const FRONTS_END_WITHIN: Duration = Duration::from_secs(3);
/// How long all else may take.
const NODE_ENDS_WITHIN: Duration = Duration::from_secs(10);
/// What is told of the last calls is written within this.
const TRAIL_ENDS_WITHIN: Duration = Duration::from_secs(2);
/// What is told of the last messages reaches the collector within this, or not at all.
const SPANS_END_WITHIN: Duration = Duration::from_secs(2);
/// And its last figures. Leaderships are handed over meanwhile.
const METRICS_END_WITHIN: Duration = Duration::from_secs(2);
/// What still runs when the node has ended lets go of the databases within moments.
const CLOSED_WITHIN: Duration = Duration::from_secs(3);
const CLOSE_LOOK: Duration = Duration::from_millis(5);
/// So often in a row all replicas are seen stopped before the node ends.
const STOPPED_LOOKS: u32 = 3;
const STOPPED_LOOK_EVERY: Duration = Duration::from_secs(1);
/// In the data directory of a node that is a cluster by itself: the id it drew.
const CLUSTER_ID_FILE: &str = "cluster-id";

pub async fn run(
    config: Config,
    entities: Option<Entities>,
    exit_with_parent: bool,
    ledger: Ledger,
    known: ProcessFacts,
) -> anyhow::Result<()> {
    // First, so that nobody is let in to wait along.
    if let Some(why) = disk::wait(&config, exit_with_parent).await? {
        tracing::info!("{why}");
        return Ok(());
    }
    let handles = handles::raise(&config);
    // Before anything is read or written: a port in use is the commonest mistake.
    let ports = Ports::bind(&config, handles).await?;
    let config = join::settle(config).await?;
    let tls = config.tls.as_ref().map(|TlsFiles { certificate, key, clients, .. }| {
        let trust = clients.as_ref().map(|clients| clients.trust.clone());
        Tls::load_asking(certificate, key, trust)
    });
    let tls = tls.transpose()?;
    let recorder = telemetry::metrics()?;
    let cluster_id = cluster_id(&config)?;
    certify(&config, cluster_id);
    let way = PeerWay { proxy: config.fault_injection.peer_proxy.as_deref().map(Arc::from) };
    let peer_tls = config.peer_tls.as_ref().map(|files| {
        let PeerTlsFiles { certificate, key, authority } = files;
        let tls = Tls::load_mutual(certificate, key, authority)?;
        Ok::<_, TlsError>(PeerTls::new(tls, cluster_id, way.clone()))
    });
    let peer_tls = peer_tls.transpose()?;
    announce(&config, cluster_id);
    let events = Events::default();
    let ProcessFacts { settings, recent: log } = known;
    let report = OwnReport { recorder: recorder.clone(), ledger: ledger.clone(), log, settings };
    let facts = grpc::OwnFacts::new(config.node, ledger.clone(), events.clone());
    let facts = facts.with_report(Arc::new(report));
    let trail = trail(&config, events.clone())?;

    let opened = {
        let config = config.clone();
        let sync_delay_ms = fault_injection::sync_delay_ms(&config.fault_injection);
        // Opening replays what a crash left: it may take a while, and blocks.
        tokio::task::spawn_blocking(move || open(&config, cluster_id, sync_delay_ms)).await?
    };
    let (data, log, rows) = match opened {
        Err(full @ store::Error::DiskFull { .. }) => {
            drop(ports); // Who asks is refused at once, and goes elsewhere.
            return Err(disk::start_over(&full.to_string()).await);
        }
        opened => opened?,
    };
    let databases = (log.clone(), rows.clone());
    let ends = CertificateEnds::default();
    let exporter = collectors::of_spans(&config)?;
    let node = service::Node::new(service::Config {
        certificates: ends.clone(),
        spans: exporter.as_ref().map(Exporter::queue),
        facts: Arc::new(facts),
        events,
        ..service_config(&config, cluster_id)
    });
    let peers = replication::Config {
        doorkeeper: ports.doorkeeper(peer_tls.as_ref()),
        dialler: match peer_tls.clone() {
            Some(peer_tls) => Some(Arc::new(peer_tls) as Arc<dyn Dialler>),
            // Straight ways are replication's own.
            None => way.proxy.is_some().then(|| Arc::new(way) as Arc<dyn Dialler>),
        },
        ..replication_config(&config, cluster_id, data)
    };
    let replication = Replication::start(peers, log, rows, node.observer(), node.incoming());
    let mut holders = None;
    let result = match replication {
        Ok(replication) => {
            if let Some(peer_tls) = peer_tls {
                let tls = peer_tls.tls.clone();
                let (node, own) = (config.node, config.nodes.get(&config.node).cloned());
                let accept = move |shown: &Shown| {
                    let address = own.as_ref().map(|own| own.peer.as_str());
                    shown.vouches_for(node, address, &peer_tls.cluster)
                };
                let whom = certificate::Use::Peers;
                tokio::spawn(certificate::keep_fresh(tls, whom, ends.clone(), accept));
            }
            let running = node.start(replication);
            holders = Some(running.holders());
            serve(
                &config,
                exit_with_parent,
                running,
                Clients { ports, tls, ends, recorder, entities, trail: trail.clone(), ledger },
            )
            .await
        }
        Err(error) => Err(error.into()),
    };
    close(databases, holders).await;
    if let Some(exporter) = exporter {
        exporter.end(SPANS_END_WITHIN).await;
    }
    let ended = tokio::task::spawn_blocking(move || trail.end(TRAIL_ENDS_WITHIN)).await;
    result.and_then(|()| Ok(ended?))
}

/// Where it is told who changed what; its file is opened anew on SIGHUP, which ends no node.
fn trail(config: &Config, events: Events) -> anyhow::Result<Trail> {
    let AuditConfig { file, log } = config.audit.clone();
    let Config { node, wrong_keys_per_minute, .. } = *config;
    let settings = audit::Settings { file: file.clone(), log, node, wrong_keys_per_minute, events };
    let trail = Trail::start(settings).with_context(|| {
        let shown =
            file.as_ref().map_or_else(|| "the log".to_owned(), |file| file.display().to_string());
        format!("cannot write the audit trail to '{shown}'; name another file as audit.file")
    })?;
    let mut asked = signal(SignalKind::hangup())?;
    let kept = trail.clone();
    tokio::spawn(async move {
        while asked.recv().await.is_some() {
            kept.reopen();
        }
    });
    Ok(trail)
}

/// How clients are met.
struct Clients {
    ports: Ports,
    tls: Option<Tls>,
    /// Where it is noted until when its certificate counts.
    ends: CertificateEnds,
    recorder: PrometheusHandle,
    /// What they shall find.
    entities: Option<Entities>,
    trail: Trail,
    /// What they take of the node.
    ledger: Ledger,
}

/// Lets clients' certificates stand for keys.
fn certify(config: &Config, cluster_id: u128) {
    let clients = config.tls.as_ref().and_then(|files| files.clients.as_ref());
    if let (Access::Keys(keys), Some(clients)) = (&config.access, clients) {
        keys.certify(CertificateMap::new(format!("{cluster_id:032x}"), clients.rows.clone()));
    }
}

/// Serves until it is told to end, or cannot go on.
async fn serve(
    config: &Config,
    exit_with_parent: bool,
    running: RunningNode,
    clients: Clients,
) -> anyhow::Result<()> {
    tokio::spawn(process::sample(config.data_dir.clone()));
    let Clients { ports, tls, ends, recorder, entities, trail, ledger } = clients;
    if let Some(tls) = &tls {
        let whom = certificate::Use::Clients;
        tokio::spawn(certificate::keep_fresh(tls.clone(), whom, ends, |_| Ok(())));
    }
    let (stop, stopping) = watch::channel(false);
    let throttling = tokio::spawn(throttle(running.broker().clone(), ledger.clone()));
    let page = MetricsPage::new(running.broker().clone(), ledger.clone(), recorder);
    // As it is dropped, whatever ends the node, it lets go of that.
    let exporter = collectors::of_metrics(config, page.clone())?;
    let FrontEnds { mut grpc, mut http, mut amqp } = ports.serve(
        config,
        tls.as_ref(),
        running.broker(),
        Records { page, trail, ledger },
        &stopping,
    );
    if let Some(entities) = entities {
        let broker = running.broker().clone();
        tokio::spawn(super::entities::create(entities, config.clone(), broker));
    }

    let why = tokio::select! {
        why = told_to_end(exit_with_parent) => why?,
        error = running.failed() => return Err(error.into()),
        ended = &mut grpc => bail!("the native API ended: {}", reason(ended)),
        ended = &mut http => bail!("HTTP ended: {}", reason(ended)),
        ended = &mut amqp => bail!("AMQP ended: {}", reason(ended)),
        () = stopped(running.broker()) => return Err(AllStopped.into()),
        full = running.disk_full() => {
            stop.send_replace(true);
            return Err(disk::start_over(&full).await);
        }
    };
    tracing::info!("{why}; handing leaderships over");
    stop.send_replace(true);
    // It holds on to the node, whose databases would stay open.
    throttling.abort();
    let told = async {
        if let Some(exporter) = exporter {
            exporter.end(METRICS_END_WITHIN).await;
        }
    };
    tokio::join!(told, end(running, [grpc, http, amqp]));
    tracing::info!("ended");
    Ok(())
}

/// Resolves when no replica of this node goes on. One that is stopping for want of space says so itself.
async fn stopped(broker: &Broker) {
    let mut looks = 0;
    while looks < STOPPED_LOOKS {
        tokio::time::sleep(STOPPED_LOOK_EVERY).await;
        let groups = broker.cluster().readiness().groups;
        let all = !groups.is_empty() && groups.iter().all(|group| group.failed);
        looks = if all { looks + 1 } else { 0 };
    }
}

fn announce(config: &Config, cluster_id: u128) {
    let Config { node, data_dir, nodes, listen, .. } = config;
    tracing::info!(
        "node {node} of {} in cluster {cluster_id:032x}, version {}, data in '{}'",
        nodes.len(),
        env!("CARGO_PKG_VERSION"),
        data_dir.display()
    );
    let how = |key| match config.encryption(key) {
        Encryption::Never => "",
        Encryption::Always => " over TLS",
        Encryption::Either => " with and without TLS",
    };
    let (grpc, http) = (how("grpc"), how("http"));
    let ListenConfig { grpc: on_grpc, http: on_http, peer, .. } = listen;
    tracing::info!("gRPC{grpc} on {on_grpc}, HTTP{http} on {on_http}, peers on {peer}");
    match listen.amqp {
        Some(address) => tracing::info!("AMQP{} on {address}", how("amqp")),
        None => tracing::info!("AMQP is off"),
    }
    if let Some(address) = listen.amqps {
        tracing::info!("AMQP over TLS on {address}");
    }
    if !listen.any.is_empty() {
        let all: Vec<String> = listen.any.iter().map(ToString::to_string).collect();
        tracing::info!("HTTP, gRPC and AMQP alike{} on {}", how("any"), all.join(", "));
    }
    if let Some(files) = &config.tls {
        tracing::info!("clients are shown '{}'", files.certificate.display());
        if let Some(ClientCertificates { trust, .. }) = &files.clients {
            let how = if trust.is_required { "have to" } else { "may" };
            tracing::info!(
                "clients {how} show a certificate, vouched for by '{}'",
                trust.authority.display()
            );
        }
    }
    match &config.peer_tls {
        Some(files) => tracing::info!(
            "peers speak TLS both ways, vouched for by '{}'",
            files.authority.display()
        ),
        None if config.nodes.len() > 1 => tracing::info!("peers speak plain text"),
        None => (),
    }
    match &config.access {
        Access::Keys(keys) => {
            tracing::info!("clients are asked for one of {} keys", keys.current().len())
        }
        Access::Anyone if config.secret.is_some() => {
            tracing::warn!("security.auth is \"off\": clients may do everything with any key");
        }
        Access::Anyone => tracing::info!("clients are asked for no key"),
    }
    if !config.storage.synced {
        tracing::warn!(
            "durability is \"replicated\": what is acknowledged is in memory at a majority, not on disk"
        );
    }
    if config.development {
        tracing::warn!(
            "development mode: operators may move the clock, and have clients meet faults"
        );
    }
    match &config.audit {
        AuditConfig { file: Some(file), .. } => {
            tracing::info!("changes and refused proofs are audited in '{}'", file.display());
        }
        AuditConfig { file: None, log: true } => {
            tracing::info!("changes and refused proofs are audited in the log, target \"audit\"");
        }
        AuditConfig { file: None, log: false } => (),
    }
    if config.clock.skew != Skew::None {
        tracing::warn!("an experiment: this node's wall clock is bent, {:?} ms", config.clock.skew);
    }
    let unguarded = config.unguarded();
    if !unguarded.is_empty() {
        tracing::warn!("--insecure: no secret is asked for on {unguarded:?}");
    }
    for (key, address) in config.readable_to_clients() {
        tracing::warn!("--insecure: clients speak plain text on {address} (listen.{key})");
    }
    if let Some(address) = config.readable_to_peers() {
        tracing::warn!(
            "--insecure: peers speak plain text on {address}, the secret included; set [tls.peer]"
        );
    }
}

/// The configured id, or the one a node by itself drew at its first start.
fn cluster_id(config: &Config) -> anyhow::Result<u128> {
    if let Some(id) = config.cluster_id {
        return Ok(id);
    }
    let dir = &config.data_dir;
    let path = dir.join(CLUSTER_ID_FILE);
    if let Ok(text) = std::fs::read_to_string(&path) {
        return u128::from_str_radix(text.trim(), 16)
            .ok()
            .with_context(|| format!("'{}' holds no id; it is damaged", path.display()));
    }
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot create the data directory '{}'", dir.display()))?;
    let id = uuid::Uuid::new_v4().as_u128();
    files::write(&path, &format!("{id:032x}\n"), Readers::Owner, Existing::Replaced)?;
    Ok(id)
}

fn open(
    config: &Config,
    cluster_id: u128,
    sync_delay_ms: Option<Arc<AtomicU64>>,
) -> Result<(DataDir, LogStore, RowStore), store::Error> {
    // Who is a cluster by itself has nobody to be rebuilt from.
    let rebuilt = config.nodes.len() > 1;
    let identity = Identity { cluster_id, node: config.node };
    let data = DataDir::open(&config.data_dir, identity, rebuilt)?;
    // Not before it is known to be this node's: a mistaken path may be anybody's directory.
    private::close(&config.data_dir);
    let durability = match config.storage.synced {
        true => Durability::Synced,
        false => Durability::Replicated,
    };
    fault_injection::lose(&config.data_dir, durability, &config.fault_injection)?;
    let options = store::Options {
        durability,
        sync_delay_ms,
        on_sync: Some(Arc::new(telemetry::synced)),
        ..memory(config)
    };
    let (log, rows) = data.stores(&options, rebuilt)?;
    if config.joined && data.provenance() == Provenance::New {
        // It founded nothing: what it says it says in a name of its own.
        data.settle(Provenance::Returned(Founders::new()))?;
    }
    Ok((data, log, rows))
}

/// Sizes by the memory that was granted. Replicas apply the same entries, so with memtables of one size
/// all of them would flush at the same moments, and no majority be left whose syncs of the log need
/// not wait for that: each node of a few takes a little less than another.
fn memory(config: &Config) -> store::Options {
    let sixteenths = 16 - (config.node.saturating_sub(1) % 4) as usize;
    store::Options::with_memory(config.storage.memory_bytes / 16 * sixteenths)
}

fn service_config(config: &Config, cluster_id: u128) -> service::Config {
    let row = |addresses: &Addresses| NodeRow {
        peer_address: addresses.peer.clone(),
        grpc_address: addresses.grpc.clone(),
        http_address: addresses.http.clone(),
    };
    let nodes: Vec<(u64, NodeRow)> =
        config.nodes.iter().map(|(node, addresses)| (*node, row(addresses))).collect();
    let own = config.nodes.get(&config.node).map(row).unwrap_or_else(|| NodeRow {
        peer_address: config.listen.peer.to_string(),
        grpc_address: config.listen.grpc.to_string(),
        http_address: config.listen.http.to_string(),
    });
    service::Config {
        forwarded: |outgoing, content| {
            message_content::forwarded(outgoing, content).map_err(|error| error.to_string())
        },
        founding: (!config.joined).then_some(Founding {
            cluster_id,
            data_groups: config.data_groups,
            replication_factor: config.replication_factor,
            nodes,
        }),
        development: config.development,
        faults_allowed: config.faults_allowed,
        zone: config.zone.clone(),
        feature_level_max: config.feature_level_max,
        clock: ClockConfig { offset_max: config.clock.offset_max, skew: config.clock.skew },
        idle: IdleConfig { reattach: config.idle_reattach, ..IdleConfig::default() },
        transactions_bytes_max: config.transactions_bytes_max,
        metrics_entities_max: config.metrics_entities_max,
        note: match (config.readable_to_clients().first(), config.readable_to_peers()) {
            (Some(_), Some(_)) => {
                Some("clients and peers speak plain text beyond loopback (--insecure)")
            }
            (Some(_), None) => Some("clients speak plain text beyond loopback (--insecure)"),
            (None, Some(_)) => Some("peers speak plain text beyond loopback (--insecure)"),
            (None, None) => None,
        },
        durability: if config.storage.synced { "synced" } else { "replicated" },
        version: env!("CARGO_PKG_VERSION"),
        ..service::Config::new(config.node, own)
    }
}

fn replication_config(config: &Config, cluster_id: u128, data: DataDir) -> replication::Config {
    let peers =
        config.nodes.iter().map(|(node, addresses)| (*node, addresses.peer.clone())).collect();
    let defaults = replication::Config::new(config.node, peers, config.listen.peer);
    let timings = replication::Timings {
        heartbeat: config.raft.heartbeat,
        election_min: config.raft.election_min,
        election_max: config.raft.election_max,
    };
    let limits = replication::Limits {
        flush_log_bytes: defaults.limits.flush_log_bytes.min(memory(config).flush_log_bytes()),
        log_retain_bytes: config.storage.log_retain_bytes,
        // The rest is for who asked for what, which is noted beside it.
        message_history_bytes: config.message_history.memory_bytes / 4 * 3,
        message_history_keep: config.message_history.keep,
        disk_reserve_bytes: config.storage.disk_reserve_bytes,
        ..defaults.limits
    };
    replication::Config {
        data: Some(data),
        cluster_id: format!("{cluster_id:032x}"),
        proof: match (&config.peer_tls, &config.secret) {
            (Some(_), _) => Proof::Credential,
            (None, Some(secret)) => Proof::Secret(secret.clone()),
            (None, None) => Proof::Nothing,
        },
        timings,
        limits,
        traced: config.tracing.is_some(),
        ..defaults
    }
}

/// Waits for a signal, or the end of whoever holds standard input; why the node ends.
pub async fn told_to_end(exit_with_parent: bool) -> anyhow::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (orphaned, parent_ended) = oneshot::channel();
    if exit_with_parent {
        // Reading blocks; the thread ends with the process.
        std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
            // Whether it ends or fails: nobody holds it any more.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            let _ = orphaned.send(());
        })?;
    } else {
        drop(orphaned);
    }
    let parent_ended = async {
        if parent_ended.await.is_err() {
            // Nobody watches a parent.
            std::future::pending::<()>().await;
        }
    };
    Ok(tokio::select! {
        _ = terminate.recv() => "told to end (SIGTERM)",
        _ = interrupt.recv() => "told to end (SIGINT)",
        _ = parent_ended => "the parent process ended",
    })
}

fn reason(ended: Result<anyhow::Result<()>, tokio::task::JoinError>) -> String {
    match ended {
        Ok(Ok(())) => "without a reason".to_owned(),
        Ok(Err(error)) => format!("{error:#}"),
        Err(error) => error.to_string(),
    }
}

/// Closes the databases once nobody uses them any more. RocksDB cannot close one while the process
/// ends, for what it needs to do so ends then as well: better not at all.
async fn close((log, rows): (LogStore, RowStore), holders: Option<NodeHolders>) {
    let until = Instant::now() + CLOSED_WITHIN;
    while !log.is_last() || !rows.is_last() {
        if Instant::now() > until {
            let (of_log, of_rows) = (log.handles() - 1, rows.handles() - 1);
            std::mem::forget((log, rows));
            let holders = holders.map(|holders| format!("{holders}, ")).unwrap_or_default();
            return tracing::warn!(
                "the databases are left open, and read again at the next start; held by: {holders}log \
                 {of_log}, rows {of_rows}"
            );
        }
        tokio::time::sleep(CLOSE_LOOK).await;
    }
    // They wait for their threads. A panic there was printed.
    let _ = tokio::task::spawn_blocking(move || drop((log, rows))).await;
}

/// Ends the front ends, then the node. What takes too long is left: everything acknowledged is on
/// disk either way.
async fn end(running: RunningNode, front_ends: [JoinHandle<anyhow::Result<()>>; 3]) {
    for front in front_ends {
        let abort = front.abort_handle();
        match tokio::time::timeout(FRONTS_END_WITHIN, front).await {
            Ok(Ok(Ok(()))) => (),
            Ok(ended) => tracing::warn!("a port ended badly: {}", reason(ended)),
            Err(_) => {
                tracing::warn!("some calls were not answered in time");
                abort.abort();
            }
        }
    }
    if tokio::time::timeout(NODE_ENDS_WITHIN, running.stop()).await.is_err() {
        tracing::warn!("leaderships were not handed over in time");
    }
}
