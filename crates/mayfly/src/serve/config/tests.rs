//! What a configuration says, and what is told of one that is wrong.

use super::*;

fn load(text: &str, args: ServeArgs) -> Result<Config, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mayfly.toml");
    std::fs::write(&path, text).expect("written");
    let result = Config::load(&ServeArgs { config: Some(path.clone()), ..args });
    result.map_err(|told| told.replace(&path.display().to_string(), "mayfly.toml"))
}

const THREE: &str = r#"
[node]
id = 2
data_dir = "data"

[cluster]
id = "000000000000000000000000000000ff"

[[cluster.node]]
id = 1
peer = "127.0.0.1:5320"
grpc = "127.0.0.1:5310"
http = "127.0.0.1:5300"

[[cluster.node]]
id = 2
peer = "127.0.0.1:6320"
grpc = "127.0.0.1:6310"
http = "127.0.0.1:6300"
"#;

#[test]
fn a_node_finds_itself_in_its_cluster() {
    let config = load(THREE, ServeArgs::default()).expect("the file is right");
    assert_eq!((config.node, config.cluster_id, config.nodes.len()), (2, Some(0xff), 2));
    assert_eq!(config.listen.grpc, "127.0.0.1:6310".parse().expect("an address"));
    assert_eq!(config.replication_factor, 2);
    assert!(config.storage.synced && config.open_to_clients().is_empty());
}

#[test]
fn a_node_that_joins_is_told_the_rest_by_the_cluster() {
    let args = |peer: &str, advertise: Option<&str>| ServeArgs {
        data_dir: Some("data".into()),
        join: Some(vec!["127.0.0.1:5310".into()]),
        peer: Some(peer.into()),
        advertise: advertise.map(str::to_owned),
        secret: Some("the-cluster-secret".into()),
        insecure: true,
        ..ServeArgs::default()
    };
    let config = Config::load(&args("127.0.0.1:8320", None)).expect("it is right");
    assert_eq!((config.node, config.cluster_id, config.listen.amqp), (0, None, None));
    assert_eq!(config.nodes[&0].peer, "127.0.0.1:8320");
    let config = Config::load(&args("0.0.0.0:8320", Some("n4.example"))).expect("it is right");
    assert_eq!(config.nodes[&0].peer, "n4.example:8320");
    assert_eq!(config.listen.peer, "0.0.0.0:8320".parse().expect("an address"));
    let told = Config::load(&args("0.0.0.0:8320", None)).expect_err("nobody reaches it");
    assert!(told.contains("name it with --advertise"), "{told}");
    let far = ServeArgs { join: Some(vec!["https://n1:5310".into()]), ..args("[::1]:8320", None) };
    let told = Config::load(&far).expect_err("loopback is not reached from elsewhere");
    assert!(told.contains("is not reached from https://n1:5310"), "{told}");
    let named = ServeArgs { advertise: Some("n4".into()), ..far };
    assert_eq!(Config::load(&named).expect("it is right").nodes[&0].peer, "n4:8320");
    let written = "[node]\ndata_dir = \"data\"\n[listen]\ngrpc = \"0.0.0.0:8310\"\n\
                   http = \"0.0.0.0:8300\"\npeer = \"0.0.0.0:8320\"\n[security]\n\
                   secret = \"the-cluster-secret\"\ninsecure = true\n[cluster]\n\
                   join = \"https://n1:5310\"\nadvertise = \"n4\"\n";
    let config = load(written, ServeArgs::default()).expect("a file says it as well");
    assert_eq!((config.node, config.nodes[&0].peer.as_str()), (0, "n4:8320"));
    let flags = ServeArgs { advertise: Some("n5".into()), ..ServeArgs::default() };
    let config = load(written, flags).expect("a flag is laid over it");
    assert_eq!(config.nodes[&0].peer, "n5:8320");
    let told = load(THREE, ServeArgs { join: Some(vec!["a:1".into()]), ..ServeArgs::default() });
    let told = told.expect_err("it has founders");
    assert!(told.contains("--join is for a node without [[cluster.node]]"), "{told}");
}

#[test]
fn a_node_by_itself_is_reached_by_the_name_it_gives() {
    let args = |advertise: Option<&str>| ServeArgs {
        data_dir: Some("data".into()),
        grpc: Some("0.0.0.0:5310".into()),
        advertise: advertise.map(str::to_owned),
        secret: Some("the-cluster-secret".into()),
        insecure: true,
        ..ServeArgs::default()
    };
    for (advertise, own) in [(None, "0.0.0.0:5310"), (Some("n1"), "n1:5310")] {
        let config = Config::load(&args(advertise)).expect("it is right");
        assert_eq!(config.nodes[&1].grpc, own);
        assert_eq!(config.listen.amqp, Some("127.0.0.1:5672".parse().expect("an address")));
    }
}

#[test]
fn a_node_named_in_its_cluster_is_told_where_to_listen() {
    let named = THREE.replace("127.0.0.1:6310", "n2.example:6310");
    let told = load(&named, ServeArgs::default()).expect_err("a name is no address to listen at");
    assert!(told.contains("as in [listen] grpc = \"0.0.0.0:6310\""), "{told}");
    let args = ServeArgs { grpc: Some("127.0.0.1:6310".into()), ..ServeArgs::default() };
    let config = load(&named, args).expect("it is told");
    assert_eq!(config.nodes[&2].grpc, "n2.example:6310");
}

#[test]
fn flags_lie_over_the_file() {
    let args = ServeArgs {
        node: Some(1),
        grpc: Some("127.0.0.1:9999".into()),
        data_dir: Some("elsewhere".into()),
        development: true,
        ..ServeArgs::default()
    };
    let config = load(THREE, args).expect("the file is right");
    assert_eq!((config.node, config.listen.grpc.port()), (1, 9999));
    assert_eq!((config.data_dir, config.development), ("elsewhere".into(), true));
}

/// Nodes of a cluster may share a machine, so one that is told no port of its own takes none.
#[test]
fn a_zone_that_is_empty_was_not_told() {
    for (file, flag, zone) in [
        ("", None, None),
        ("", Some(""), None),
        ("", Some("a"), Some("a")),
        ("zone = \"b\"\n", Some(""), Some("b")),
        ("zone = \"b\"\n", Some("a"), Some("a")),
    ] {
        let args = ServeArgs { zone: flag.map(str::to_owned), ..ServeArgs::default() };
        let config = load(&format!("[node]\ndata_dir = \"x\"\n{file}"), args);
        assert_eq!(config.expect("it is right").zone.as_deref(), zone, "{file:?} {flag:?}");
    }
}

#[test]
fn a_node_speaks_amqp_where_it_is_told_to() {
    let amqp = |text: &str, flag: Option<&str>| {
        let args = ServeArgs { amqp: flag.map(str::to_owned), ..ServeArgs::default() };
        let config = load(text, args).expect("the file is right");
        config.listen.amqp.map(|address| address.port())
    };
    let alone = "[node]\ndata_dir = \"data\"\n";
    let told =
        THREE.replace("grpc = \"127.0.0.1:6310\"", "grpc = \"a:1\"\namqp = \"127.0.0.1:6672\"");
    let told = told.replace("a:1", "127.0.0.1:6310");
    assert_eq!((amqp(alone, None), amqp(alone, Some("off"))), (Some(5672), None));
    assert_eq!((amqp(THREE, None), amqp(THREE, Some("127.0.0.1:9"))), (None, Some(9)));
    assert_eq!((amqp(&told, None), amqp(&told, Some("off"))), (Some(6672), None));
}

/// What is given goes before what is written, and nothing is as good as absent.
#[test]
fn traced_messages_are_told_of_where_a_collector_is_named() {
    let written = "[node]\ndata_dir = \"data\"\n[tracing]\notlp_endpoint = \"http://written:4318/\"\n\
                   otlp_headers = \"a=b\"\n";
    let told = |text: &str, given: Option<&str>| {
        let otlp_endpoint = given.map(str::to_owned);
        let args = ServeArgs { otlp_endpoint, ..ServeArgs::default() };
        load(text, args).expect("the file is right").tracing
    };
    let found = told(written, None).expect("a collector");
    assert_eq!(found.endpoint.to_string(), "http://written:4318");
    assert!(!found.headers.is_empty());
    let given = told(written, Some("http://given:4318")).expect("a collector");
    assert_eq!(given.endpoint.to_string(), "http://given:4318");
    let nothing = "[node]\ndata_dir = \"data\"\n";
    assert_eq!((told(nothing, None), told(nothing, Some(""))), (None, None));
}

/// Each row: what `[metrics]` says, what is given, where metrics are pushed to, and how often.
#[test]
fn metrics_are_pushed_where_a_collector_is_named_for_them() {
    for (written, given, pushed) in [
        ("", None, None),
        ("otlp_interval = \"5s\"", None, None),
        ("otlp_endpoint = \"http://written:4318\"", None, Some(("http://written:4318", 60))),
        (
            "otlp_endpoint = \"http://written:4318\"\notlp_interval = \"5s\"",
            Some("http://given:4318/v1/metrics"),
            Some(("http://given:4318/v1/metrics", 5)),
        ),
        ("otlp_endpoint = \"http://written:4318\"", Some(""), None),
    ] {
        let args = ServeArgs {
            otlp_metrics_endpoint: given.map(str::to_owned),
            // That is for traces.
            otlp_endpoint: Some("http://traces:4318".to_owned()),
            ..ServeArgs::default()
        };
        let text = format!("[node]\ndata_dir = \"data\"\n[metrics]\n{written}\n");
        let found = load(&text, args).expect("the file is right").metric_export;
        let found = found.map(|export| (export.collector.endpoint.to_string(), export.every));
        let found = found.as_ref().map(|(endpoint, every)| (&**endpoint, every.as_secs()));
        assert_eq!(found, pushed, "{written} {given:?}");
    }
}

/// Each row: the port, what `[audit]` says, and whether records go to the log.
#[test]
fn the_audit_is_on_where_others_come_in_unless_it_is_told_otherwise() {
    for (grpc, audit, log) in [
        ("127.0.0.1:1", "", false),
        ("127.0.0.1:1", "log = true", true),
        ("0.0.0.0:1", "", true),
        ("0.0.0.0:1", "log = false", false),
        ("0.0.0.0:1", "file = \"audit.log\"", false),
        ("0.0.0.0:1", "file = \"audit.log\"\nlog = true", true),
    ] {
        let text =
            format!("[node]\ndata_dir = \"data\"\n[listen]\ngrpc = \"{grpc}\"\n[audit]\n{audit}\n");
        let args = ServeArgs { insecure: true, ..ServeArgs::default() };
        let found = load(&text, args).expect("the file is right").audit;
        assert_eq!(found.log, log, "{grpc} {audit}");
        assert_eq!(found.file.is_some(), audit.contains("file"));
    }
}

/// A port that is not told gives way to one that takes everything.
#[test]
fn a_port_for_everything_may_be_one_that_has_a_default() {
    let text = "[node]\ndata_dir = \"data\"\n[listen]\nhttp = \"127.0.0.1:5301\"\n\
                any = [\"[::1]:5672\", \"[::1]:5301\"]\n";
    let listen = load(text, ServeArgs::default()).expect("the file is right").listen;
    assert_eq!(listen.amqp.map(|address| address.to_string()).as_deref(), Some("[::1]:5672"));
    assert_eq!(listen.http.to_string(), "127.0.0.1:5301");
    assert_eq!((listen.any.len(), listen.speaks_amqp()), (2, true));
    let any = Some(vec!["127.0.0.1:443".to_owned(), "127.0.0.1:444".to_owned()]);
    let config = load(text, ServeArgs { any, ..ServeArgs::default() }).expect("it is right");
    assert_eq!(config.listen.any[1].port(), 444);
}

#[test]
fn without_a_file_a_node_is_a_cluster_by_itself() {
    let args = ServeArgs { data_dir: Some("data".into()), ..ServeArgs::default() };
    let config = Config::load(&args).expect("a directory is enough");
    assert_eq!((config.node, config.nodes.len(), config.replication_factor), (1, 1, 1));
    assert_eq!((config.cluster_id, config.listen.peer.port()), (None, 5320));
}

/// Each row: what stands in the file, and the line a person gets.
#[test]
fn what_is_wrong_is_told_with_file_line_and_key() {
    for (text, told) in [
        (
            "[node]\nid = 1\ndta_dir = \"x\"\n",
            "mayfly.toml:3: unknown key 'dta_dir', expected one of `id`, `data_dir`, `development`, `fault_rules`, `zone`, `feature_level_max`",
        ),
        (
            "[cluster]\n\ndata_groups = 100000\n",
            "mayfly.toml:3: cluster.data_groups is 100000, allowed is 1 to 256",
        ),
        (
            "cluster.data_groups = -1\n",
            "mayfly.toml:1: cluster.data_groups is -1, allowed is 1 to 256",
        ),
        (
            "[amqp]\nunsettled_max = 4294967296\n",
            "mayfly.toml:2: amqp.unsettled_max is 4294967296, allowed is 0 to 4294967295",
        ),
        (
            "[grpc]\nconnections_max = -5\n",
            "mayfly.toml:2: grpc.connections_max is -5, allowed is 1 or more",
        ),
        (
            "[nodes]\n",
            "mayfly.toml:1: unknown key 'nodes', expected one of `node`, `listen`, `grpc`, `http`, \
             `azure`, `amqp`, `cluster`, `security`, `limits`, `tls`, `storage`, `raft`, `clock`, `idle`, \
             `transactions`, `message_history`, `metrics`, `tracing`, `log`, `audit`",
        ),
        ("[node]\nid = \"one\"\n", "mayfly.toml:2: id: invalid type: string \"one\", expected u64"),
        (
            "[raft]\nheartbeat = \"150\"\n",
            "mayfly.toml:2: heartbeat: '150' has no unit; write 150s or 150ms",
        ),
        (
            "[storage]\ndurability = \"maybe\"\n",
            "mayfly.toml:2: durability: unknown variant `maybe`, expected `synced` or `replicated`",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[listen]\ngrpc = \"5310\"\n",
            "mayfly.toml: listen.grpc: '5310' is no address; write one like 127.0.0.1:5310",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[listen]\namqp = \"5672\"\n",
            "mayfly.toml: listen.amqp: '5672' is no address; write one like 127.0.0.1:5672",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[amqp]\nidle_timeout = \"1s\"\n",
            "mayfly.toml: amqp.idle_timeout is 1s, allowed is 10s to 1h",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[amqp]\nlink_idle_timeout = \"500ms\"\n",
            "mayfly.toml: amqp.link_idle_timeout is 500ms, allowed is 1s to 1day, or never",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[tracing]\notlp_endpoint = \"localhost:4318\"\n",
            "mayfly.toml: tracing.otlp_endpoint: 'localhost:4318' is no address of a collector; write one like \
             http://localhost:4318",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[tracing]\notlp_endpoint = \"http://user:word@host:4318\"\n",
            "mayfly.toml: tracing.otlp_endpoint: an address of a collector has no user and no password; write \
             them as otlp_headers",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[metrics]\notlp_endpoint = \"collector:4317\"\n",
            "mayfly.toml: metrics.otlp_endpoint: 'collector:4317' is no address of a collector; write one like \
             http://localhost:4318",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[metrics]\notlp_interval = \"100ms\"\n",
            "mayfly.toml: metrics.otlp_interval is 100ms, allowed is 1s to 1h",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[metrics]\notlp_interval = \"60\"\n",
            "mayfly.toml:4: otlp_interval: '60' has no unit; write 60s or 60ms",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[tracing]\notlp_endpoint = \"http://host\"\notlp_headers = \"s3cret\"\n",
            "mayfly.toml: tracing.otlp_headers: a header is no name=value; write them like \
             authorization=Bearer%20…,x-team=…",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[grpc]\nconnections_max = 0\n",
            "mayfly.toml: grpc.connections_max is 0, allowed is 1 or more",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[http]\ncors_origins = [\"example.com\"]\n",
            "mayfly.toml: http.cors_origins: 'example.com' is no origin; write one like \
             https://console.example:8443, or \"*\"",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[listen]\nany = [\"127.0.0.1:443\", \"443\"]\n",
            "mayfly.toml: listen.any: '443' is no address; write one like 127.0.0.1:443",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[listen]\nany = \"0.0.0.0:443\"\n",
            "mayfly.toml: 0.0.0.0:443 is not loopback; set security.secret (or MAYFLY_SECRET), \
             or pass --insecure",
        ),
        (
            "[node]\ndata_dir = \"x\"\nzone = \"rack 7\"\n",
            "mayfly.toml: node.zone: 'rack 7' is no name of a zone; write 1 to 64 letters, digits, \
             dots, dashes and underscores",
        ),
        (
            "[node]\nid = 1\n",
            "mayfly.toml: node.data_dir is missing; name a directory, or give --data-dir",
        ),
        (
            "[node]\nid = 7\ndata_dir = \"x\"\n[[cluster.node]]\nid = 1\npeer = \"a:1\"\n\
             grpc = \"a:2\"\nhttp = \"a:3\"\n",
            "mayfly.toml: node.id is 7, but [[cluster.node]] names only 1",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[cluster]\nid = \"xyz\"\n",
            "mayfly.toml: cluster.id: 'xyz' is no id; write 32 hexadecimal digits",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[listen]\ngrpc = \"0.0.0.0:5310\"\n",
            "mayfly.toml: 0.0.0.0:5310 is not loopback; set security.secret (or MAYFLY_SECRET), \
             or pass --insecure",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[listen]\npeer = \"0.0.0.0:5320\"\n[security]\nsecret = \"the-cluster-secret\"\n",
            "mayfly.toml: 0.0.0.0:5320 is not loopback, and nodes would speak plain text there; set \
             tls.peer.authority (mayfly cert makes what it takes), or pass --insecure",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[listen]\nhttp = \"0.0.0.0:5300\"\n[security]\nsecret = \"the-cluster-secret\"\n",
            "mayfly.toml: 0.0.0.0:5300 is not loopback, and clients would speak plain text there; set \
             tls.certificate and tls.key (mayfly cert makes them), or pass --insecure",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[tls]\nplain = \"http\"\n",
            "mayfly.toml:4: plain: expected true, false, or a list of names as in [listen]",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[tls.peer]\nauthority = \"a.pem\"\n",
            "mayfly.toml: tls.peer.certificate is missing; name the PEM file with this node's \
             certificate, or set tls.certificate",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[tls.peer]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n",
            "mayfly.toml: tls.peer.authority is missing; name the PEM file with whom other nodes are to \
             be vouched for by",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[tls.peer]\nauthority = \"a.pem\"\ncertificate = \"c.pem\"\n",
            "mayfly.toml: tls.peer.key is missing; name the PEM file with the key of \
             tls.peer.certificate",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[listen]\namqp = \"0.0.0.0:5672\"\n[security]\nsecret = \"the-cluster-secret\"\n\
             auth = \"off\"\n",
            "mayfly.toml: 0.0.0.0:5672 is not loopback and security.auth is \"off\"; set it to \"on\", or \
             pass --insecure",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[security]\nauth = \"on\"\n",
            "mayfly.toml: security.auth is \"on\", which takes a secret; set security.secret (or \
             MAYFLY_SECRET)",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[[security.key]]\nname = \"a\"\nkey = \"k\"\nrights = [\"send\"]\n",
            "mayfly.toml: [[security.key]] 'a' is of no use without a secret for the other ports; set \
             security.secret (or MAYFLY_SECRET)",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[security]\nsecret = \"the-cluster-secret\"\n[[security.key]]\nname = \"a\"\n\
             key = \"k\"\nrights = []\n",
            "mayfly.toml: [[security.key]] 'a': rights is empty; name some of listen, send, manage, \
             monitor, operate and inject-faults",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[[security.key]]\nname = \"a\"\nkey = \"k\"\nrights = [\"read\"]\n",
            "mayfly.toml:6: rights: unknown variant `read`, expected one of `listen`, `send`, `manage`, \
             `monitor`, `operate`, `inject-faults`",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[security]\nsecret = \"the-cluster-secret\"\n[[security.key]]\n\
             name = \"RootManageSharedAccessKey\"\nkey = \"k\"\nrights = [\"send\"]\n",
            "mayfly.toml: [[security.key]] 'RootManageSharedAccessKey' is the name of the secret's own \
             key; choose another, or set security.secret to this key",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[tls]\ncertificate = \"c.pem\"\n",
            "mayfly.toml: tls.key is missing; name the PEM file with the key of tls.certificate",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[listen]\namqps = \"127.0.0.1:5671\"\n",
            "mayfly.toml: listen.amqps takes a certificate; set tls.certificate and tls.key",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[cluster]\nreplication_factor = 3\n",
            "mayfly.toml: cluster.replication_factor is 3, allowed is 1 to the number of nodes, 1",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[raft]\nelection_min = \"2s\"\n",
            "mayfly.toml: raft.election_max is 800ms, and must not be less than election_min, 2s",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[clock]\noffset_max = \"5ms\"\n",
            "mayfly.toml: clock.offset_max is 5ms, allowed is 10ms to 1m",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[idle]\nreattach = \"10m\"\n",
            "mayfly.toml: idle.reattach is 10m, allowed is 1s to 5m",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[message_history]\nkeep = \"0s\"\n",
            "mayfly.toml: message_history.keep is 0s, allowed is 1s to 30days; to record nothing, set \
             memory_mebibytes to 0",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[message_history]\nkeep = \"30d 1s\"\n",
            "mayfly.toml: message_history.keep is 30days 1s, allowed is 1s to 30days; to record nothing, set \
             memory_mebibytes to 0",
        ),
        (
            "[node]\ndata_dir = \"x\"\n[transactions]\nmemory_mebibytes = 0\n",
            "mayfly.toml: transactions.memory_mebibytes is 0, allowed is 1 to 65536",
        ),
    ] {
        assert_eq!(load(text, ServeArgs::default()).expect_err(text), told, "{text}");
    }
}

#[test]
fn keys_have_rights_and_a_scope() {
    const KEYS: &str = r#"
[node]
data_dir = "data"
[security]
secret = "the-cluster-secret"
[[security.key]]
name = "worker"
key = "k1"
secondary_key = "k2"
rights = ["listen", "send"]
scope = "orders"
"#;
    let config = load(KEYS, ServeArgs::default()).expect("the file is right");
    let worker = config.access.login("worker", "k2").expect("its second key");
    assert_eq!((worker.path.as_str(), worker.rights.manage), ("orders", false));
    assert!(worker.rights.listen && worker.rights.send);
    assert!(config.access.login("worker", "the-cluster-secret").is_none());
    let root =
        config.access.login("RootManageSharedAccessKey", "the-cluster-secret").expect("the secret");
    assert!(root.path.is_empty() && root.rights.manage);
    let off = KEYS.replace("secret =", "auth = \"off\"\nsecret =");
    let config = load(&off, ServeArgs::default()).expect("the file is right");
    assert!(config.access.is_anyone() && config.secret.is_some());
    assert!(!format!("{config:?}").contains("k1"), "keys are not shown");
}

#[test]
fn a_clock_is_bent_in_development_mode_only() {
    let bent = |development| {
        let (data_dir, clock_skew) = (Some("data".into()), Some(-5));
        Config::load(&ServeArgs { data_dir, development, clock_skew, ..ServeArgs::default() })
    };
    assert_eq!(bent(true).expect("an experiment").clock.skew, service::Skew::By(-5));
    let told = bent(false).expect_err("no experiment");
    assert!(told.ends_with("--clock-skew is for experiments; it needs --development"), "{told}");
}

#[test]
fn disks_and_ways_behave_badly_in_development_mode_only() {
    let load = |args: ServeArgs| Config::load(&ServeArgs { data_dir: Some("data".into()), ..args });
    let losing = ServeArgs { lose_unsynced: Some(7), ..ServeArgs::default() };
    let slow = ServeArgs { sync_delay_file: Some("delay".into()), ..ServeArgs::default() };
    let seen = ServeArgs { peer_proxy: Some("localhost:1080".into()), ..ServeArgs::default() };
    for (args, flag) in
        [(losing, "--lose-unsynced"), (slow, "--sync-delay-file"), (seen, "--peer-proxy")]
    {
        let told = load(args.clone()).expect_err("no experiment");
        let wanted = format!("{flag} is for experiments; it needs --development");
        assert!(told.ends_with(&wanted), "{told}");
        let fault_injection =
            load(ServeArgs { development: true, ..args.clone() }).expect("one").fault_injection;
        assert_eq!(fault_injection.lose_unsynced, args.lose_unsynced);
        assert_eq!(fault_injection.sync_delay_file, args.sync_delay_file);
        assert_eq!(fault_injection.peer_proxy, args.peer_proxy);
    }
}

#[test]
fn a_half_written_file_is_told_by_its_line() {
    let told = load("[node]\nid = \n", ServeArgs::default()).expect_err("it is no TOML");
    assert!(told.starts_with("mayfly.toml:2: "), "{told}");
    let told = load("[node\n", ServeArgs::default()).expect_err("it is no TOML");
    assert!(told.starts_with("mayfly.toml:1: ") && !told.contains('\n'), "{told}");
    let args = ServeArgs { config: Some("/nowhere/mayfly.toml".into()), ..ServeArgs::default() };
    let told = Config::load(&args).expect_err("there is none");
    assert!(told.starts_with("cannot read the configuration '/nowhere/mayfly.toml': "), "{told}");
}

#[test]
fn the_printed_configuration_is_the_default_one() {
    let printed = load(TEMPLATE, ServeArgs::default()).expect("it is right");
    let args = ServeArgs { data_dir: Some("/var/lib/mayfly".into()), ..ServeArgs::default() };
    assert_eq!(Ok(printed), Config::load(&args));
}
