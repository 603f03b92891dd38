//! The native API: each call takes a right, from a key of the configuration or an entity's own (ERR-17).

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use auth::sign;
use client::v1::{
    AccessRight, AuthorizationRule, AuthorizationRules, QueueProperties, ReceiveMode,
};
use client::{Client, ClientOptions, Error, Message, QueuePath};
use mayfly_tests::{Cluster, Settings, mayfly, wire};

use super::{SECRET, ask, now_s};

const KEYS: &str = r#"
[[security.key]]
name = "sender"
key = "the-senders-key-1"
secondary_key = "the-senders-key-2"
rights = ["send"]
scope = "orders"
[[security.key]]
name = "listener"
key = "the-listeners-key"
rights = ["listen"]
[[security.key]]
name = "dead"
key = "the-key-of-the-dead"
rights = ["listen"]
scope = "orders/$DeadLetterQueue"
[[security.key]]
name = "manager"
key = "the-managers-key"
rights = ["manage"]
[[security.key]]
name = "clerk"
key = "the-clerks-key"
rights = ["manage"]
scope = "orders"
[[security.key]]
name = "monitor"
key = "the-monitors-key"
rights = ["monitor"]
[[security.key]]
name = "operator"
key = "the-operators-key"
rights = ["operate"]
"#;

/// What is tried with each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Try {
    Send,
    SendElsewhere,
    SendPrefix,
    SendBelow,
    SendInOtherCase,
    Receive,
    ReceiveDead,
    Transact,
    TransactElsewhere,
    Show,
    List,
    ForwardTo,
    Rules,
    Status,
    Clock,
    Transfer,
}

use Try::*;

const ALL: [Try; 16] = [
    Send,
    SendElsewhere,
    SendPrefix,
    SendBelow,
    SendInOtherCase,
    Receive,
    ReceiveDead,
    Transact,
    TransactElsewhere,
    Show,
    List,
    ForwardTo,
    Rules,
    Status,
    Clock,
    Transfer,
];

impl Try {
    async fn with(self, client: &Client) -> Result<(), Error> {
        let send = async |queue: &str| client.send(queue, vec![Message::new("x")]).await.map(drop);
        let receive = async |path: &QueuePath| {
            let mode = ReceiveMode::ReceiveAndDelete;
            client.receive(path, mode, 1, Duration::ZERO).await.map(drop)
        };
        match self {
            Send => send("orders").await,
            SendElsewhere => send("other").await,
            SendPrefix => send("orders2").await,
            SendBelow => send("orders/below").await,
            SendInOtherCase => send("ORDERS").await,
            Receive => receive(&QueuePath::main("orders")).await,
            ReceiveDead => receive(&QueuePath::dead_letter("orders")).await,
            Transact | TransactElsewhere => {
                let mut transaction = client.transaction("orders");
                match self {
                    Transact => transaction.send(vec![Message::new("x")]).await?,
                    _ => transaction.send_to("other", vec![Message::new("x")]).await?,
                }
                transaction.commit().await.map(drop)
            }
            Show => client.get_queue("orders").await.map(drop),
            List => client.list_queues("").await.map(drop),
            ForwardTo => {
                let forward_to = Some("other".to_owned());
                let given = QueueProperties { forward_to, ..Default::default() };
                client.update_queue("forwarder", given).await.map(drop)
            }
            Rules => client.list_rules("news", "all").await.map(drop),
            Status => client.status(true).await.map(drop),
            Clock => client.advance_clock(Duration::ZERO).await.map(drop),
            Transfer => client.transfer_leader(0, 1).await,
        }
    }
}

fn with_key(cluster: &Cluster, name: Option<&str>, key: &str) -> anyhow::Result<Client> {
    let options = ClientOptions {
        secret: Some(key.to_owned()),
        key_name: name.map(str::to_owned),
        give_up_after: Duration::from_secs(20),
        ..ClientOptions::default()
    };
    Ok(Client::with_options([cluster.addresses(1)[0]], options)?)
}

async fn start() -> anyhow::Result<Cluster> {
    let settings = Settings {
        nodes: 1,
        data_groups: 1,
        secret: Some(SECRET),
        config: KEYS,
        development: true,
        ..Settings::default()
    };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let rule = |name: &str, right: AccessRight| AuthorizationRule {
        name: name.to_owned(),
        rights: vec![right.into()],
        primary_key: format!("the-key-of-the-{name}"),
        secondary_key: format!("the-spare-of-the-{name}"),
        ..Default::default()
    };
    let rules = vec![rule("shop", AccessRight::Send), rule("worker", AccessRight::Listen)];
    let authorization_rules = Some(AuthorizationRules { rules });
    let properties = QueueProperties { authorization_rules, ..Default::default() };
    client.create_queue("orders", properties).await?;
    for queue in ["other", "orders2", "orders/below", "forwarder"] {
        client.create_queue(queue, Default::default()).await?;
    }
    client.create_topic("news", Default::default()).await?;
    client.create_subscription("news", "all", Default::default(), None).await?;
    Ok(cluster)
}

/// Each row: a key, by its name or as it is, and what is done with it. All else is refused with its name,
/// the right and the entity.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_ent_12_each_call_of_the_native_api_takes_its_right() -> anyhow::Result<()> {
    let cluster = start().await?;
    let own = [Send, SendInOtherCase, Transact];
    let below = [Send, SendBelow, SendInOtherCase, Transact];
    let manager: Vec<Try> =
        ALL.into_iter().filter(|tried| !matches!(tried, Clock | Transfer)).collect();
    let listener = [Receive, ReceiveDead, Rules];
    let clerk = [Send, SendBelow, SendInOtherCase, Receive, ReceiveDead, Transact, Show];
    for (name, key, allowed) in [
        (Some("sender"), "the-senders-key-1", &below[..]),
        (Some("sender"), "the-senders-key-2", &below),
        (None, "the-senders-key-1", &below),
        (Some("listener"), "the-listeners-key", &listener),
        (Some("dead"), "the-key-of-the-dead", &[ReceiveDead]),
        (Some("manager"), "the-managers-key", &manager),
        (Some("clerk"), "the-clerks-key", &clerk),
        (Some("monitor"), "the-monitors-key", &[Status]),
        (Some("operator"), "the-operators-key", &[Status, Clock, Transfer]),
        (None, SECRET, &ALL),
        (Some("RootManageSharedAccessKey"), SECRET, &ALL),
        // An entity's own reach it alone, and none that is named below it.
        (Some("shop"), "the-key-of-the-shop", &own),
        (Some("shop"), "the-spare-of-the-shop", &own),
        (None, "the-key-of-the-shop", &own),
        (Some("worker"), "the-key-of-the-worker", &[Receive, ReceiveDead]),
    ] {
        let client = with_key(&cluster, name, key)?;
        for tried in ALL {
            match (tried.with(&client).await, allowed.contains(&tried)) {
                (Ok(()), true) => (),
                (Ok(()), false) => anyhow::bail!("{name:?} may {tried:?}"),
                (Err(error), true) => anyhow::bail!("{name:?} may not {tried:?}: {error}"),
                (Err(error), false) => {
                    let detail = error.detail();
                    ensure!(matches!(error, Error::Refused(_)), "{error:?}");
                    ensure!(detail.rule == "ERR-17", "{name:?} {tried:?}: {error}");
                    ensure!(!detail.message.contains("the-"), "{error}");
                }
            }
        }
    }
    for (name, key, told) in [
        (Some("sender"), "the-senders-key-1", "key 'sender' has no right 'Listen' on 'orders'"),
        (Some("shop"), "the-key-of-the-shop", "key 'shop' of 'orders' has no right 'Listen'"),
        (Some("sender"), "guess", "the login's key is not that of key 'sender'"),
        (Some("nobody"), "guess", "no key has the name"),
        (None, "guess", "the bearer token is no key of this cluster"),
    ] {
        let refused = Receive.with(&with_key(&cluster, name, key)?).await;
        let refused = refused.err().context("it was let in")?.to_string();
        ensure!(refused.contains(told), "{refused}");
    }
    Ok(())
}

/// A key goes into a file for Prometheus, and into one for a command.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_monitors_read_metrics_and_commands_take_keys() -> anyhow::Result<()> {
    let cluster = start().await?;
    let get = |request: &str, key: &str| {
        let header = format!("Authorization: Bearer {key}\r\n");
        ask(wire::tcp(cluster.addresses(1)[1])?, request, &header).map(|(status, _)| status)
    };
    for (request, key, status) in [
        ("GET /metrics", "the-monitors-key", 200),
        ("GET /health/details", "the-monitors-key", 200),
        ("GET /metrics", "the-operators-key", 200),
        ("GET /metrics", "the-managers-key", 200),
        ("GET /metrics", "the-clerks-key", 401),
        ("GET /metrics", "the-senders-key-1", 401),
        ("GET /metrics", "the-key-of-the-shop", 401),
        ("GET /orders", "the-monitors-key", 401),
        ("GET /orders", "the-clerks-key", 200),
        ("POST /orders/messages", "the-senders-key-1", 201),
        ("POST /orders/messages", "the-key-of-the-shop", 201),
        ("POST /other/messages", "the-senders-key-1", 401),
    ] {
        assert_eq!(get(request, key)?, status, "{request} {key}");
    }
    let (_, body) = {
        let token = sign("https%3A%2F%2Flocalhost", "sender", "the-senders-key-1", now_s() + 60);
        ask(
            wire::tcp(cluster.addresses(1)[1])?,
            "GET /orders",
            &format!("Authorization: {token}\r\n"),
        )?
    };
    let body = body.replace("&apos;", "'");
    ensure!(body.contains("key 'sender' has no right 'Manage' on 'orders'"), "{body}");

    let file = cluster.dir().join("shop.key");
    std::fs::write(&file, "the-key-of-the-shop\n")?;
    let run = |arguments: &[&str]| {
        let program = mayfly()?;
        let ran = Command::new(program)
            .args(arguments)
            .args(["--connect", cluster.addresses(1)[0], "--key-name", "shop", "--secret-file"])
            .arg(&file)
            .env_remove("MAYFLY_SECRET")
            .output()?;
        anyhow::Ok((ran.status.code(), String::from_utf8(ran.stderr)?))
    };
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode));
    mode(0o644)?;
    let (code, told) = run(&["send", "orders", "hello"])?;
    ensure!(code == Some(2) && told.contains("is open to everyone"), "{code:?} {told}");
    mode(0o600)?;
    let (code, told) = run(&["send", "orders", "hello"])?;
    ensure!(code == Some(0), "{code:?} {told}");
    let (code, told) = run(&["peek", "orders"])?;
    ensure!(
        code == Some(1) && told.contains("has no right 'Listen' on 'orders'"),
        "{code:?} {told}"
    );
    let log = cluster.node_log(1);
    ensure!(log.contains("gRPC call refused"), "{log}");
    for line in KEYS.lines().filter_map(|line| line.split_once("key = ")) {
        let key = line.1.trim_matches('"');
        ensure!(!log.contains(key), "{key} is in {log}");
    }
    Ok(())
}
