//! The file with flags over it, its defaults filled in, and what cannot be true refused.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use amqp::server::IdleLimits;
use domain::DATA_GROUPS_MAX;
use service::{IdleConfig, Skew};
use transport::Tls;

use super::file::{self, ConfigFile, Durability, Limit, OneOrMore};
use super::{
    Addresses, AmqpConfig, AuditConfig, AzureConfig, ClockConfig, Config, FaultInjection,
    JoinTokenPlace, ListenConfig, LogConfig, RaftConfig, StorageConfig, collectors, issuers,
    log_filter, message_history, secret, security,
};
use crate::input::duration;
use crate::serve::{ServeArgs, join};

const MEBIBYTE: usize = 1024 * 1024;
/// With less, memtables would be full after a few batches.
const MEMORY_MEBIBYTES_MIN: usize = 64;
/// Raft's own steps are of interest only to whoever looks for a fault in them.
pub const FILTER: &str = "info,openraft=off";
/// A key has 16 characters or more: what counts is that nobody tries for nothing, and that a client with
/// an old key does not shut itself out at its first tries.
const WRONG_KEYS_PER_MINUTE: u32 = 60;
/// Labels of Kubernetes' nodes, where zones are named, have up to 63.
const ZONE_CHARS_MAX: usize = 64;
/// Less than a busy machine can measure, and more than anyone would call right.
const OFFSET_RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
/// Some SDKs refuse less than 5 s, and one sends heartbeats only when it is called.
const AMQP_IDLE_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(10)..=Duration::from_secs(3600);
/// Shorter would strike clients that are merely slow.
const IDLE_LIMIT_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
/// Where SDKs look for AMQP, and for AMQP over TLS.
const AMQP_PORT: u16 = 5672;
const AMQPS_PORT: u16 = 5671;
const AMQP_FRAME_RANGE: RangeInclusive<u32> = 4..=1024;
const TRANSACTIONS_MEBIBYTES: usize = 64;
/// One transaction holds 1 MiB at most (TX-4).
const METRICS_ENTITIES_MAX: usize = 1_000;
/// A page of metrics has some four kilobytes of each.
const METRICS_ENTITIES_MOST: usize = 100_000;
const TRANSACTIONS_RANGE: RangeInclusive<usize> = 1..=65_536;
/// Receivers look for a new leader within a second; a queue is deleted after five minutes at the
/// earliest.
const REATTACH_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(300);

/// The error names the key and what it may be.
pub fn check(file: ConfigFile, args: &ServeArgs) -> Result<Config, String> {
    let args = &with_join(&file, args);
    let peer_tls = security::peer_tls(&file.tls)?;
    let number = number(&file, args, peer_tls.as_ref().map(|(_, tls)| tls))?;
    let nodes = nodes(&file, args, number)?;
    let node = number.unwrap_or(if args.join.is_some() { 0 } else { 1 });
    let Some(own) = nodes.get(&node) else {
        let known: Vec<String> = nodes.keys().map(u64::to_string).collect();
        return Err(format!(
            "node.id is {node}, but [[cluster.node]] names only {}",
            known.join(", ")
        ));
    };
    let tls = security::tls(&file.tls)?;
    let at = match file.cluster.node.is_empty() {
        // How others reach it may be another matter.
        true => Addresses { amqp: own.amqp.clone(), ..listened(&file, args) },
        false => own.clone(),
    };
    let listen = listen(&file, args, &at, tls.is_some())?;
    let secret = secret::secret(&file.security, args)?;
    let issuers = issuers::issuers(&file.security.issuer)?;
    let data_dir = args.data_dir.clone().or(file.node.data_dir.clone());
    let mut config = Config {
        node,
        data_dir: data_dir.ok_or_else(|| {
            "node.data_dir is missing; name a directory, or give --data-dir".to_owned()
        })?,
        development: args.development || file.node.development,
        faults_allowed: args.development || file.node.development || file.node.fault_rules,
        zone: zone(&file, args)?,
        feature_level_max: args.feature_level_max.or(file.node.feature_level_max),
        listen,
        amqp: amqp(&file)?,
        grpc_connections_max: at_least_one(
            "grpc.connections_max",
            file.grpc.connections_max,
            grpc::Config::CONNECTIONS_MAX,
        )?,
        http_connections_max: at_least_one(
            "http.connections_max",
            file.http.connections_max,
            http::Config::CONNECTIONS_MAX,
        )?,
        cors_origins: cors_origins(&file)?,
        console: file.http.console.unwrap_or(true),
        azure: azure(&file)?,
        cluster_id: cluster_id(&file, nodes.len())?,
        data_groups: data_groups(&file)?,
        replication_factor: replication_factor(&file, nodes.len())?,
        nodes,
        join: args.join.clone(),
        join_tls: args.join_tls.clone(),
        join_token: join_token(args)?,
        require_join_token: file.cluster.require_join_token,
        joined: false,
        access: security::trust(security::access(&file.security, secret.as_deref())?, &issuers)?,
        issuers,
        secret,
        tls,
        peer_tls: peer_tls.as_ref().map(|(files, _)| files.clone()),
        limits: file.limits.settings(),
        wrong_keys_per_minute: file.security.wrong_keys_per_minute.unwrap_or(WRONG_KEYS_PER_MINUTE),
        insecure: args.insecure || file.security.insecure,
        storage: storage(&file)?,
        raft: raft(&file)?,
        clock: clock(&file, args)?,
        idle_reattach: idle_reattach(&file)?,
        transactions_bytes_max: transactions_bytes_max(&file)?,
        message_history: message_history::settings(&file, args)?,
        metrics_entities_max: metrics_entities_max(&file)?,
        metric_export: collectors::of_metrics(&file, args)?,
        tracing: collectors::of_spans(&file, args)?,
        service_name: collectors::service_name(&file, args)?,
        fault_injection: fault_injection(&file, args)?,
        log: log(&file.log, args)?,
        audit: AuditConfig { file: file.audit.file, log: false },
    };
    let is_open = !config.open_to_clients().is_empty();
    // Nobody has to know of it to have it, and nobody has it twice.
    config.audit.log = file.audit.log.unwrap_or(is_open && config.audit.file.is_none());
    security::check_open(&config)?;
    security::check_certificates(&config)?;
    security::check_seeds(&config)?;
    if let Some((_, tls)) = &peer_tls {
        security::check_own(&config, tls)?;
    }
    Ok(config)
}

fn azure(file: &ConfigFile) -> Result<Option<AzureConfig>, String> {
    let file::Azure { enabled, subscription, tenant } = &file.azure;
    let id = |key: &str, written: &Option<String>| {
        let read = written.as_ref().map(|id| {
            let read = uuid::Uuid::parse_str(id);
            read.map_err(|_| {
                format!("azure.{key} is '{id}'; write a GUID, 8-4-4-4-12 hexadecimal digits")
            })
        });
        read.transpose()
    };
    let config = AzureConfig {
        subscription: id("subscription", subscription)?,
        tenant: id("tenant", tenant)?,
    };
    if *enabled && file.tls.certificate.is_none() {
        return Err("azure.enabled takes [tls]: Azure's tools speak nothing else".to_owned());
    }
    Ok(enabled.then_some(config))
}

fn zone(file: &ConfigFile, args: &ServeArgs) -> Result<Option<String>, String> {
    // A variable that is there and empty says nothing, as that of a pod does whose machine stands in no zone.
    let said = args.zone.as_ref().filter(|name| !name.is_empty());
    let Some(name) = said.or(file.node.zone.as_ref()) else { return Ok(None) };
    let is_fit = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    if !(1..=ZONE_CHARS_MAX).contains(&name.len()) || !name.chars().all(is_fit) {
        return Err(format!(
            "node.zone: '{}' is no name of a zone; write 1 to {ZONE_CHARS_MAX} letters, digits, dots, \
             dashes and underscores",
            name.escape_default()
        ));
    }
    Ok(Some(name.clone()))
}

/// How it joins, as the file has it where flags do not say.
fn with_join(file: &ConfigFile, args: &ServeArgs) -> ServeArgs {
    let join = args.join.clone().or(file.cluster.join.as_ref().map(OneOrMore::list));
    let advertise = args.advertise.clone().or(file.cluster.advertise.clone());
    ServeArgs { join, advertise, ..args.clone() }
}

/// Where its join token stands, which is not looked at before the node joins: at its next starts the token's
/// file may be gone.
fn join_token(args: &ServeArgs) -> Result<Option<JoinTokenPlace>, String> {
    let place = match (&args.token, &args.token_file) {
        (Some(_), Some(_)) => {
            return Err("--token (or MAYFLY_JOIN_TOKEN) and --token-file are both given; keep one"
                .to_owned());
        }
        (Some(token), None) => Some(JoinTokenPlace::Given(token.clone())),
        (None, Some(path)) => Some(JoinTokenPlace::File(path.clone())),
        (None, None) => None,
    };
    match (&place, &args.join) {
        (Some(_), None) => Err(
            "a join token is for a node that joins others; name some of them with --join, or leave the \
             token out"
                .to_owned(),
        ),
        _ => Ok(place),
    }
}

/// This node's number: as it is told, or as its certificate has it.
fn number(
    file: &ConfigFile,
    args: &ServeArgs,
    peer_tls: Option<&Tls>,
) -> Result<Option<u64>, String> {
    let told = args.node.or(file.node.id);
    match (told, peer_tls) {
        (None, Some(tls)) => {
            let named = tls.own().node().map_err(|why| format!("tls.peer.certificate: {why}"))?;
            Ok(named.map(|uri| uri.node))
        }
        (told, _) => Ok(told),
    }
}

fn nodes(
    file: &ConfigFile,
    args: &ServeArgs,
    number: Option<u64>,
) -> Result<BTreeMap<u64, Addresses>, String> {
    let mut nodes = BTreeMap::new();
    for node in &file.cluster.node {
        if node.id == 0 {
            return Err("a [[cluster.node]] has id 0; nodes count from 1".to_owned());
        }
        if node.id > u64::from(u16::MAX) {
            return Err(format!("a [[cluster.node]] has id {}; 65535 is the highest", node.id));
        }
        for (key, address) in [("grpc", &node.grpc), ("http", &node.http), ("peer", &node.peer)] {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none() {
                return Err(format!(
                    "[[cluster.node]] {}: {key}: '{address}' is no address; write host:port",
                    node.id
                ));
            }
        }
        if nodes.insert(node.id, node.addresses()).is_some() {
            return Err(format!("two [[cluster.node]] have id {}", node.id));
        }
    }
    if args.join.is_some() {
        if !nodes.is_empty() {
            let why =
                "--join is for a node without [[cluster.node]]: the cluster tells it the others";
            return Err(why.to_owned());
        }
        return Ok([(number.unwrap_or(0), advertised(file, args)?)].into());
    }
    if nodes.is_empty() {
        // A cluster by itself.
        let amqp = args.amqp.clone().or(file.listen.amqp.clone());
        let amqp = Some(amqp.unwrap_or_else(|| "127.0.0.1:5672".to_owned()));
        let alone = Addresses { amqp, ..advertised(file, args)? };
        // One that joined others once is told of them by what it keeps.
        let data_dir = args.data_dir.as_ref().or(file.node.data_dir.as_ref());
        let has_joined = data_dir.is_some_and(|dir| join::has_joined(dir));
        nodes.insert(number.filter(|_| has_joined).unwrap_or(1), alone);
    }
    Ok(nodes)
}

/// Where a node listens that no file gives an address.
fn listened(file: &ConfigFile, args: &ServeArgs) -> Addresses {
    let address = |flag: &Option<String>, file: &Option<String>, default: &str| {
        flag.clone().or(file.clone()).unwrap_or_else(|| default.to_owned())
    };
    Addresses {
        grpc: address(&args.grpc, &file.listen.grpc, "127.0.0.1:5310"),
        http: address(&args.http, &file.listen.http, "127.0.0.1:5300"),
        peer: address(&args.peer, &file.listen.peer, "127.0.0.1:5320"),
        amqp: None,
    }
}

/// Where others reach a node that no file gives an address: where it listens, by the host it is told
/// to name. One that joins others must name what these can reach.
fn advertised(file: &ConfigFile, args: &ServeArgs) -> Result<Addresses, String> {
    let seeds = args.join.as_deref().unwrap_or_default();
    let elsewhere = seeds.iter().find(|seed| !is_loopback(host_of(seed)));
    let address = |listened: String| {
        let (host, port) = listened.rsplit_once(':').unwrap_or((&listened, ""));
        let unspecified = ["0.0.0.0", "[::]"].contains(&host);
        match (&args.advertise, elsewhere) {
            (Some(host), _) => Ok(format!("{host}:{port}")),
            (None, _) if unspecified && !seeds.is_empty() => Err(format!(
                "{listened} does not tell the other nodes which host this is; name it with --advertise"
            )),
            (None, Some(seed)) if is_loopback(host) => Err(format!(
                "{listened} is not reached from {seed}; listen on an address that is, and name this host \
                 with --advertise"
            )),
            (None, _) => Ok(listened),
        }
    };
    let Addresses { grpc, http, peer, amqp } = listened(file, args);
    Ok(Addresses { grpc: address(grpc)?, http: address(http)?, peer: address(peer)?, amqp })
}

/// Of `host:port`, perhaps with `https://` before it.
fn host_of(address: &str) -> &str {
    let address = address.split_once("://").map_or(address, |(_, address)| address);
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

fn is_loopback(host: &str) -> bool {
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    ip.map_or(host == "localhost", |ip| ip.is_loopback())
}

fn listen(
    file: &ConfigFile,
    args: &ServeArgs,
    own: &Addresses,
    has_certificate: bool,
) -> Result<ListenConfig, String> {
    let is_named = !file.cluster.node.is_empty();
    let address = |key: &str, flag: &Option<String>, file: &Option<String>, own: &String| {
        let told = flag.as_ref().or(file.as_ref());
        let text = told.unwrap_or(own);
        let address: Result<SocketAddr, _> = text.replace("localhost", "127.0.0.1").parse();
        let example = match key {
            "grpc" => "127.0.0.1:5310",
            "http" => "127.0.0.1:5300",
            "amqp" => "127.0.0.1:5672",
            "amqps" => "127.0.0.1:5671",
            "websocket" | "any" => "127.0.0.1:443",
            _ => "127.0.0.1:5320",
        };
        let is_of_cluster = told.is_none() && is_named;
        address.map_err(|_| match is_of_cluster {
            false => format!("listen.{key}: '{text}' is no address; write one like {example}"),
            // A name, then: each has a port.
            true => format!(
                "[[cluster.node]]: '{text}' is where others reach this node; say where it listens, as \
                 in [listen] {key} = \"0.0.0.0:{}\"",
                text.rsplit(':').next().unwrap_or_default()
            ),
        })
    };
    let optional = |key: &str, text: Option<&String>| match text {
        None => Ok(None),
        Some(off) if off == "off" => Ok(None),
        Some(text) => address(key, &None, &Some(text.clone()), text).map(Some),
    };
    let amqp = args.amqp.as_ref().or(file.listen.amqp.as_ref()).or(own.amqp.as_ref());
    let amqp = optional("amqp", amqp)?;
    let is_alone = file.cluster.node.is_empty() && args.join.is_none();
    let amqps = match args.amqps.as_ref().or(file.listen.amqps.as_ref()) {
        // Nodes of a cluster may share a machine: of these one at most has the port of AMQP, and that of AMQPS
        // with it. The others' takes TLS as well.
        None if has_certificate => amqp
            .filter(|amqp| is_alone || amqp.port() == AMQP_PORT)
            .map(|amqp| SocketAddr::new(amqp.ip(), AMQPS_PORT)),
        told => optional("amqps", told)?,
    };
    if amqps.is_some() && !has_certificate {
        return Err("listen.amqps takes a certificate; set tls.certificate and tls.key".to_owned());
    }
    let any =
        args.any.clone().or(file.listen.any.as_ref().map(OneOrMore::list)).unwrap_or_default();
    let any: Result<Vec<Option<SocketAddr>>, String> =
        any.iter().map(|text| optional("any", Some(text))).collect();
    let any: Vec<SocketAddr> = any?.into_iter().flatten().collect();
    // A default gives way to what is told: it is the same port.
    let shared = |told: bool, address: SocketAddr| {
        let same = any.iter().find(|any| !told && any.port() == address.port());
        same.copied().unwrap_or(address)
    };
    let is_told = |flag: &Option<String>, file: &Option<String>| flag.is_some() || file.is_some();
    let grpc = address("grpc", &args.grpc, &file.listen.grpc, &own.grpc)?;
    let http = address("http", &args.http, &file.listen.http, &own.http)?;
    Ok(ListenConfig {
        grpc: shared(is_told(&args.grpc, &file.listen.grpc), grpc),
        http: shared(is_told(&args.http, &file.listen.http), http),
        peer: address("peer", &args.peer, &file.listen.peer, &own.peer)?,
        amqp: amqp.map(|amqp| shared(is_told(&args.amqp, &file.listen.amqp), amqp)),
        amqps: amqps.map(|amqps| shared(is_told(&args.amqps, &file.listen.amqps), amqps)),
        websocket: optional("websocket", file.listen.websocket.as_ref())?,
        any,
    })
}

fn amqp(file: &ConfigFile) -> Result<AmqpConfig, String> {
    let defaults = amqp::Limits::default();
    let idle = file.amqp.idle_timeout.unwrap_or(Duration::from_millis(defaults.idle_ms.into()));
    if !AMQP_IDLE_RANGE.contains(&idle) {
        let (least, most) = (show(*AMQP_IDLE_RANGE.start()), show(*AMQP_IDLE_RANGE.end()));
        return Err(format!("amqp.idle_timeout is {}, allowed is {least} to {most}", show(idle)));
    }
    let frame = file.amqp.frame_kibibytes.unwrap_or(defaults.frame_bytes_max / 1024);
    if !AMQP_FRAME_RANGE.contains(&frame) {
        return Err(format!("amqp.frame_kibibytes is {frame}, allowed is 4 to 1024"));
    }
    let unread = file.amqp.unread_kibibytes.unwrap_or(defaults.output_bytes_max / 1024);
    Ok(AmqpConfig {
        connections_max: file.amqp.connections_max.unwrap_or(20_000),
        unproved_connections_max: at_least_one(
            "amqp.unproved_connections_max",
            file.amqp.unproved_connections_max,
            1_000,
        )?,
        idle_ms: u32::try_from(idle.as_millis()).unwrap_or(defaults.idle_ms),
        frame_bytes_max: frame * 1024,
        unsettled_max: file.amqp.unsettled_max.unwrap_or(defaults.incoming_unsettled_max).max(1),
        unread_bytes_max: unread.saturating_mul(1024),
        idle: idle_limits(&file.amqp)?,
    })
}

fn idle_limits(written: &file::Amqp) -> Result<IdleLimits, String> {
    let limit = |key: &str, written: Option<Limit>, default: Option<Duration>| match written {
        None => Ok(default),
        Some(Limit::Never) => Ok(None),
        Some(Limit::After(limit)) if IDLE_LIMIT_RANGE.contains(&limit) => Ok(Some(limit)),
        Some(Limit::After(limit)) => {
            let (least, most) = (show(*IDLE_LIMIT_RANGE.start()), show(*IDLE_LIMIT_RANGE.end()));
            Err(format!("amqp.{key} is {}, allowed is {least} to {most}, or never", show(limit)))
        }
    };
    let defaults = IdleLimits::default();
    Ok(IdleLimits {
        link: limit("link_idle_timeout", written.link_idle_timeout, defaults.link)?,
        linkless: limit("linkless_timeout", written.linkless_timeout, defaults.linkless)?,
        first_link: limit("first_link_timeout", written.first_link_timeout, defaults.first_link)?,
        token: limit("token_timeout", written.token_timeout, defaults.token)?,
    })
}

fn at_least_one(key: &str, written: Option<usize>, default: usize) -> Result<usize, String> {
    match written {
        None => Ok(default),
        Some(0) => Err(format!("{key} is 0, allowed is 1 or more")),
        Some(most) => Ok(most),
    }
}

fn cors_origins(file: &ConfigFile) -> Result<Vec<String>, String> {
    let is_origin = |text: &str| match text.split_once("://") {
        Some(("http" | "https", rest)) => {
            // Browsers send no more, and compare letter for letter.
            let is_of_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
            !rest.is_empty() && rest.chars().all(is_of_host)
        }
        _ => text == "*",
    };
    let origins = &file.http.cors_origins;
    match origins.iter().find(|origin| !is_origin(origin)) {
        None => Ok(origins.clone()),
        Some(wrong) => Err(format!(
            "http.cors_origins: '{wrong}' is no origin; write one like https://console.example:8443, or \"*\""
        )),
    }
}

fn cluster_id(file: &ConfigFile, nodes: usize) -> Result<Option<u128>, String> {
    match &file.cluster.id {
        Some(text) => match u128::from_str_radix(&text.replace('-', ""), 16) {
            Ok(id) if text.replace('-', "").len() == 32 => Ok(Some(id)),
            _ => Err(format!("cluster.id: '{text}' is no id; write 32 hexadecimal digits")),
        },
        None if nodes > 1 => {
            Err("cluster.id is missing; write 32 hexadecimal digits, the same on every node"
                .to_owned())
        }
        None => Ok(None),
    }
}

fn data_groups(file: &ConfigFile) -> Result<u16, String> {
    match file.cluster.data_groups.unwrap_or(16) {
        groups @ 1..=DATA_GROUPS_MAX => Ok(groups),
        groups => {
            Err(format!("cluster.data_groups is {groups}, allowed is 1 to {DATA_GROUPS_MAX}"))
        }
    }
}

fn replication_factor(file: &ConfigFile, nodes: usize) -> Result<u8, String> {
    let most = u8::try_from(nodes).unwrap_or(u8::MAX);
    match file.cluster.replication_factor {
        None => Ok(most.min(3)),
        Some(factor) if (1..=most).contains(&factor) => Ok(factor),
        Some(factor) => Err(format!(
            "cluster.replication_factor is {factor}, allowed is 1 to the number of nodes, {nodes}"
        )),
    }
}

fn storage(file: &ConfigFile) -> Result<StorageConfig, String> {
    let memory = file.storage.memory_mebibytes.unwrap_or(1056);
    if memory < MEMORY_MEBIBYTES_MIN {
        return Err(format!(
            "storage.memory_mebibytes is {memory}, allowed is {MEMORY_MEBIBYTES_MIN} or more"
        ));
    }
    let retain = file.storage.log_retain_mebibytes.unwrap_or(2048);
    let reserve = file.storage.disk_reserve_mebibytes.unwrap_or(512);
    Ok(StorageConfig {
        synced: file.storage.durability == Durability::Synced,
        memory_bytes: memory.saturating_mul(MEBIBYTE),
        log_retain_bytes: retain.saturating_mul(MEBIBYTE as u64),
        disk_reserve_bytes: reserve.saturating_mul(MEBIBYTE as u64),
    })
}

fn raft(file: &ConfigFile) -> Result<RaftConfig, String> {
    let millis = Duration::from_millis;
    let raft = RaftConfig {
        heartbeat: file.raft.heartbeat.unwrap_or(millis(150)),
        election_min: file.raft.election_min.unwrap_or(millis(600)),
        election_max: file.raft.election_max.unwrap_or(millis(800)),
    };
    if raft.election_max < raft.election_min {
        return Err(format!(
            "raft.election_max is {}, and must not be less than election_min, {}",
            show(raft.election_max),
            show(raft.election_min)
        ));
    }
    if raft.heartbeat * 2 > raft.election_min || raft.heartbeat.is_zero() {
        return Err(format!(
            "raft.heartbeat is {}, and must be above 0 and at most half of election_min, {}",
            show(raft.heartbeat),
            show(raft.election_min)
        ));
    }
    Ok(raft)
}

fn clock(file: &ConfigFile, args: &ServeArgs) -> Result<ClockConfig, String> {
    let skew = match (args.clock_skew, args.clock_skew_jump) {
        (Some(ms), _) => Skew::By(ms),
        (None, Some(ms)) => Skew::Jumping(ms),
        (None, None) => Skew::None,
    };
    if skew != Skew::None {
        experiment("--clock-skew", file, args)?;
    }
    let offset_max = file.clock.offset_max.unwrap_or(Duration::from_millis(500));
    if !OFFSET_RANGE.contains(&offset_max) {
        let (least, most) = (show(*OFFSET_RANGE.start()), show(*OFFSET_RANGE.end()));
        return Err(format!(
            "clock.offset_max is {}, allowed is {least} to {most}",
            show(offset_max)
        ));
    }
    Ok(ClockConfig { offset_max, skew })
}

fn fault_injection(file: &ConfigFile, args: &ServeArgs) -> Result<FaultInjection, String> {
    let fault_injection = FaultInjection {
        lose_unsynced: args.lose_unsynced,
        sync_delay_file: args.sync_delay_file.clone(),
        peer_proxy: args.peer_proxy.clone(),
    };
    if fault_injection.lose_unsynced.is_some() {
        experiment("--lose-unsynced", file, args)?;
    }
    if fault_injection.sync_delay_file.is_some() {
        experiment("--sync-delay-file", file, args)?;
    }
    if fault_injection.peer_proxy.is_some() {
        experiment("--peer-proxy", file, args)?;
    }
    Ok(fault_injection)
}

/// Refuses a flag outside development mode.
fn experiment(flag: &str, file: &ConfigFile, args: &ServeArgs) -> Result<(), String> {
    match args.development || file.node.development {
        true => Ok(()),
        false => Err(format!("{flag} is for experiments; it needs --development")),
    }
}

fn transactions_bytes_max(file: &ConfigFile) -> Result<usize, String> {
    let mebibytes = file.transactions.memory_mebibytes.unwrap_or(TRANSACTIONS_MEBIBYTES);
    if !TRANSACTIONS_RANGE.contains(&mebibytes) {
        let (least, most) = (TRANSACTIONS_RANGE.start(), TRANSACTIONS_RANGE.end());
        return Err(format!(
            "transactions.memory_mebibytes is {mebibytes}, allowed is {least} to {most}"
        ));
    }
    Ok(mebibytes * MEBIBYTE)
}

fn metrics_entities_max(file: &ConfigFile) -> Result<usize, String> {
    let told = file.metrics.entities_max.unwrap_or(METRICS_ENTITIES_MAX);
    if told > METRICS_ENTITIES_MOST {
        return Err(format!(
            "metrics.entities_max is {told}, allowed is 0 to {METRICS_ENTITIES_MOST}"
        ));
    }
    Ok(told)
}

/// `[log]`.
pub fn log(written: &file::Log, args: &ServeArgs) -> Result<LogConfig, String> {
    let filter = args.log.as_deref().or(written.filter.as_deref()).unwrap_or(FILTER).to_owned();
    log_filter::check(&filter)?;
    Ok(LogConfig { filter, format: args.log_format.or(written.format).unwrap_or_default() })
}

fn idle_reattach(file: &ConfigFile) -> Result<Duration, String> {
    let reattach = file.idle.reattach.unwrap_or(IdleConfig::default().reattach);
    if !REATTACH_RANGE.contains(&reattach) {
        let (least, most) = (show(*REATTACH_RANGE.start()), show(*REATTACH_RANGE.end()));
        let told = show(reattach);
        return Err(format!("idle.reattach is {told}, allowed is {least} to {most}"));
    }
    Ok(reattach)
}

fn show(duration: Duration) -> String {
    duration::show_ms(duration.as_millis() as u64)
}
