//! Keys that are exchanged or removed while something is open that was opened with them (ENT-12).

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use amqp_protocol::codec::{DeliveryState, Value};
use amqp_protocol::engine::{LinkId, Mechanism};
use anyhow::{Context, ensure};
use client::v1::{
    AccessRight, AuthorizationRule, AuthorizationRules, QueueProperties, ReceiveMode,
};
use client::{Client, ClientOptions, Error, Message, QueuePath};
use mayfly_tests::{AmqpClient, Cluster, Settings, mayfly, wire};
use nix::sys::signal::Signal;
use tokio::task::JoinHandle;

use super::{SECRET, ask, message, token};

const KEYS: &str = r#"
[[security.key]]
name = "mover"
key = "the-movers-first-key"
secondary_key = "the-movers-second-key"
rights = ["send", "listen"]
"#;
/// A second, and some for a busy machine: far less than any wait or token below.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(50);
/// A queue that takes messages, one of sessions, and for each key that something is opened with one that
/// nobody else receives from.
const QUEUES: [&str; 5] = ["orders", "visits", "parcels-1", "parcels-2", "parcels-3"];

async fn start() -> anyhow::Result<Cluster> {
    let (secret, config) = (Some(SECRET), KEYS);
    let cluster = Cluster::start(Settings {
        nodes: 1,
        data_groups: 1,
        secret,
        config,
        ..Settings::default()
    })
    .await?;
    let client = cluster.client()?;
    for queue in QUEUES {
        let requires_session = Some(queue == "visits");
        let properties = rules(&["the-rules-first-key", "the-rules-second-key"]);
        client.create_queue(queue, QueueProperties { requires_session, ..properties }).await?;
    }
    Ok(cluster)
}

/// One rule with these keys; without any, no rule.
fn rules(keys: &[&str]) -> QueueProperties {
    let rule = |keys: &[&str]| AuthorizationRule {
        name: "ruled".to_owned(),
        rights: vec![AccessRight::Send.into(), AccessRight::Listen.into()],
        primary_key: keys[0].to_owned(),
        secondary_key: keys[1].to_owned(),
        ..Default::default()
    };
    let rules = if keys.is_empty() { Vec::new() } else { vec![rule(keys)] };
    QueueProperties {
        authorization_rules: Some(AuthorizationRules { rules }),
        ..Default::default()
    }
}

fn native(cluster: &Cluster, name: &str, key: &str) -> anyhow::Result<Client> {
    let options = ClientOptions {
        secret: Some(key.to_owned()),
        key_name: Some(name.to_owned()),
        give_up_after: Duration::from_secs(20),
        ..ClientOptions::default()
    };
    Ok(Client::with_options([cluster.addresses(1)[0]], options)?)
}

async fn login(cluster: &Cluster, name: &str, key: &str) -> anyhow::Result<AmqpClient> {
    let stream = wire::tcp(cluster.amqp_address(1))?;
    AmqpClient::over(stream, Mechanism::plain(name, key)).await
}

/// All that one key opens and that lasts.
struct Opened {
    login: AmqpClient,
    /// What each of them is, for people.
    links: Vec<(&'static str, LinkId)>,
    sender: LinkId,
    by_token: AmqpClient,
    of_token: LinkId,
    stream: client::Sender,
    deliveries: client::Receiver,
    /// Each ends with the reason it was refused for.
    waits: Vec<(&'static str, JoinHandle<anyhow::Result<String>>)>,
}

async fn open(cluster: &Cluster, turn: u8, name: &str, key: &str) -> anyhow::Result<Opened> {
    let mut by_login = login(cluster, name, key).await?;
    let sender = by_login.sender("orders").await?.expect("its right");
    let links = vec![
        ("a sender", sender),
        (
            "a receiver",
            by_login.settled_receiver("orders/$DeadLetterQueue").await?.expect("its right"),
        ),
        ("requests", by_login.sender("orders/$management").await?.expect("a proof")),
        ("replies", by_login.receiver("orders/$management").await?.expect("a proof")),
        ("messages that say where to", by_login.sender("").await?.expect("a proof")),
        (
            "a session that is waited for",
            by_login.ask_for_session("visits", Value::Null, 50_000).await?,
        ),
    ];
    let mut by_token = AmqpClient::connect(cluster.amqp_address(1)).await?;
    let (put, audience) = token("orders", name, key, 600);
    assert_eq!(by_token.put_token(&put, &audience).await?, 202);
    let of_token = by_token.sender("orders").await?.expect("its right");
    let client = native(cluster, name, key)?;
    let parcels = format!("parcels-{turn}");
    let stream = client.sender(parcels.as_str(), Default::default());
    stream.send(Message::new("while it counts")).await?;
    let mut deliveries = client.receiver(parcels.as_str(), Default::default());
    deliveries.recv().await?;

    let dead = QueuePath::dead_letter("orders");
    let (receiving, accepting) = (native(cluster, name, key)?, native(cluster, name, key)?);
    let address = cluster.addresses(1)[1].to_owned();
    let header = format!("Authorization: {}\r\n", auth::authorization(Some(name), key));
    let waits = vec![
        (
            "a call that receives",
            tokio::spawn(async move {
                let received = receiving.receive(&dead, ReceiveMode::PeekLock, 1, WAIT).await;
                told(received.err())
            }),
        ),
        (
            "a stream that waits for a session",
            tokio::spawn(async move {
                let wait = accepting.accept_next_session("visits", WAIT, Default::default()).await;
                told(wait.err())
            }),
        ),
        (
            "a request that receives",
            tokio::task::spawn_blocking(move || {
                let request = "DELETE /orders/$DeadLetterQueue/messages/head?timeout=50";
                let (status, text) = ask(wire::tcp(&address)?, request, &header)?;
                ensure!(status == 401, "{text}");
                Ok("ERR-17".to_owned())
            }),
        ),
    ];
    let login = by_login;
    Ok(Opened { login, links, sender, by_token, of_token, stream, deliveries, waits })
}

/// The rule that a refusal names.
fn told(error: Option<Error>) -> anyhow::Result<String> {
    Ok(error.context("it was not refused")?.detail().rule.clone())
}

impl Opened {
    /// Everything ends, in time, and says why.
    async fn ends(self) -> anyhow::Result<()> {
        self.ends_within(ENDS_WITHIN).await
    }

    async fn ends_within(mut self, within: Duration) -> anyhow::Result<()> {
        const UNAUTHORIZED: &str = "amqp:unauthorized-access";
        let since = Instant::now();
        for (what, link) in self.links {
            let error = self.login.detached(link).await.with_context(|| what.to_owned())?;
            assert_eq!(error.condition.as_str(), UNAUTHORIZED, "{what}");
        }
        let error = self.by_token.detached(self.of_token).await?;
        assert_eq!(error.condition.as_str(), UNAUTHORIZED);
        loop {
            match self.deliveries.recv().await {
                Ok(_) => (),
                Err(error) => break assert_eq!(error.detail().rule, "ERR-17", "{error}"),
            }
        }
        for (what, wait) in self.waits {
            assert_eq!(wait.await?.with_context(|| what.to_owned())?, "ERR-17", "{what}");
        }
        // Each stream learns of it by itself: this one may take some more, while there is time.
        loop {
            match self.stream.send(Message::new("no more")).await {
                Ok(_) => ensure!(since.elapsed() < within, "the stream goes on"),
                Err(error) => break assert_eq!(error.detail().rule, "ERR-17", "{error}"),
            }
        }
        ensure!(since.elapsed() < within, "after {:?}", since.elapsed());
        Ok(())
    }

    /// Nothing has ended.
    async fn lasts(&mut self) -> anyhow::Result<()> {
        for (client, link) in [(&mut self.login, self.sender), (&mut self.by_token, self.of_token)]
        {
            assert_eq!(client.send(link, 0, message()).await?, DeliveryState::ACCEPTED);
        }
        self.stream.send(Message::new("still")).await?;
        let over = self.waits.iter().find(|(_, wait)| wait.is_finished());
        ensure!(over.is_none(), "{} has ended", over.map(|(what, _)| *what).unwrap_or_default());
        Ok(())
    }
}

/// Waits until a node has logged something so many times.
async fn logged(cluster: &Cluster, what: &str, times: usize) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while cluster.node_log(1).matches(what).count() < times {
        ensure!(Instant::now() < until, "it never said '{what}': {}", cluster.node_log(1));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Writes a key as an operator does.
fn write_key(path: &Path, key: &str) -> anyhow::Result<()> {
    let aside = path.with_extension("new");
    std::fs::write(&aside, key)?;
    std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o600))?;
    Ok(std::fs::rename(&aside, path)?)
}

/// ENT-12: whatever was opened with a key of an entity's rule ends with it; the pair's other key goes on
/// until the rule itself is gone.
#[tokio::test(flavor = "multi_thread")]
async fn ent_12_what_a_rules_key_opened_ends_with_it() -> anyhow::Result<()> {
    let cluster = start().await?;
    let first = open(&cluster, 1, "ruled", "the-rules-first-key").await?;
    let mut second = open(&cluster, 2, "ruled", "the-rules-second-key").await?;
    second.lasts().await?;
    let root = cluster.client()?;
    // As a rotation has it: the second key is still one of the pair.
    for queue in QUEUES {
        root.update_queue(queue, rules(&["the-rules-third-key", "the-rules-second-key"])).await?;
    }
    first.ends().await?;
    second.lasts().await?;
    // Who comes with the new key at once is not taken for one with an old key.
    let mut third = open(&cluster, 3, "ruled", "the-rules-third-key").await?;
    third.lasts().await?;
    for queue in QUEUES {
        root.update_queue(queue, rules(&[])).await?;
    }
    second.ends().await?;
    third.ends().await
}

/// ENT-12: the same for a key of the configuration, in the file itself and in files of its own, on SIGHUP
/// and without. What cannot be read changes nothing, and is told once.
#[tokio::test(flavor = "multi_thread")]
async fn ent_12_keys_of_the_configuration_are_exchanged_under_way() -> anyhow::Result<()> {
    let mut cluster = start().await?;
    let first = open(&cluster, 1, "mover", "the-movers-first-key").await?;
    let mut second = open(&cluster, 2, "mover", "the-movers-second-key").await?;
    let path = cluster.config_path(1).to_owned();
    let text = std::fs::read_to_string(&path)?;
    ensure!(text.contains("the-movers-first-key"), "{text}");
    let (primary, secondary) = (cluster.dir().join("mover.key"), cluster.dir().join("spare.key"));
    write_key(&primary, "the-movers-third-key\n")?;
    write_key(&secondary, "the-movers-second-key\n")?;
    let in_files =
        text.replace("key = \"the-movers-first-key\"", &format!("key_file = {primary:?}")).replace(
            "secondary_key = \"the-movers-second-key\"",
            &format!("secondary_key_file = {secondary:?}"),
        );
    std::fs::write(&path, &in_files)?;
    cluster.signal(1, Signal::SIGHUP)?;
    first.ends().await?;
    second.lasts().await?;
    assert!(
        login(&cluster, "mover", "the-movers-first-key").await.is_err(),
        "it is nobody's key now"
    );
    let third = open(&cluster, 3, "mover", "the-movers-third-key").await?;

    // A file that is open to everyone, one that is empty, one that is gone, a configuration that is none.
    const STAY: &str = "keys stay as they were";
    for (turn, wrong) in (1..).zip([
        Box::new(|| write_key(&primary, "\n")) as Box<dyn Fn() -> anyhow::Result<()>>,
        Box::new(|| {
            write_key(&primary, "the-movers-fourth-key")?;
            Ok(std::fs::set_permissions(&primary, std::fs::Permissions::from_mode(0o644))?)
        }),
        Box::new(|| Ok(std::fs::remove_file(&primary)?)),
        Box::new(|| Ok(std::fs::write(&path, "[[security.key]")?)),
    ]) {
        wrong()?;
        cluster.signal(1, Signal::SIGHUP)?;
        logged(&cluster, STAY, turn).await?;
        second.lasts().await?;
    }
    let log = cluster.node_log(1);
    ensure!(
        log.lines().filter(|line| line.contains(STAY)).all(|line| line.contains("WARN")),
        "{log}"
    );
    ensure!(!log.contains("-key\n") && !log.contains("the-movers-"), "a key in the log: {log}");

    // Nobody says anything: it looks by itself.
    write_key(&primary, "the-movers-fifth-key\n")?;
    std::fs::write(&path, &in_files)?;
    let since = Instant::now();
    logged(&cluster, "keys were read again", 2).await?;
    ensure!(since.elapsed() < Duration::from_secs(10), "after {:?}", since.elapsed());
    third.ends().await?;
    second.lasts().await
}

/// A hangup never ends a node: without keys, without certificates, and while it begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_ends_no_node_whatever_it_has_to_read() -> anyhow::Result<()> {
    let mut cluster =
        Cluster::start(Settings { nodes: 1, data_groups: 1, ..Settings::default() }).await?;
    cluster.signal(1, Signal::SIGHUP)?;
    cluster.client()?.create_queue("orders", Default::default()).await?;
    cluster.stop(1)?;
    let told = cluster.node_log(1).matches("node 1 of 1").count();
    cluster.start_node(1)?;
    logged(&cluster, "node 1 of 1", told + 1).await?;
    cluster.signal(1, Signal::SIGHUP)?;
    cluster.wait_ready().await?;
    cluster.client()?.send("orders", vec![Message::new("served")]).await?;
    Ok(())
}

fn command(cluster: &Cluster, words: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let ran = Command::new(mayfly()?)
        .args(words)
        .env("MAYFLY_CONNECT", cluster.addresses(1)[0])
        .env("MAYFLY_SECRET", SECRET)
        .env_remove("MAYFLY_CONFIG")
        .output()?;
    let told = [ran.stdout, ran.stderr].concat();
    Ok((ran.status.code(), String::from_utf8(told)?))
}

/// ENT-12: a rotation by command refuses no client that has the primary, and ends who has what was the
/// secondary. Of a rule.
#[tokio::test(flavor = "multi_thread")]
async fn ent_12_a_rule_is_rotated_by_command() -> anyhow::Result<()> {
    let cluster = start().await?;
    let mut primary = open(&cluster, 1, "ruled", "the-rules-first-key").await?;
    let secondary = open(&cluster, 2, "ruled", "the-rules-second-key").await?;
    let root = cluster.client()?;
    for queue in QUEUES {
        let (code, told) = command(&cluster, &["key", "rotate", "ruled", "--entity", queue])?;
        ensure!(code == Some(0) && !told.contains("the-rules-"), "{told}");
    }
    secondary.ends().await?;
    primary.lasts().await?;
    let key_of = async |queue: &str| {
        let found = root.get_queue(queue).await?.properties.unwrap_or_default();
        let rules = found.authorization_rules.unwrap_or_default().rules;
        let rule = rules.into_iter().next().context("a rule")?;
        anyhow::Ok((rule.primary_key, rule.secondary_key))
    };
    let (new, old) = key_of("orders").await?;
    ensure!(new.len() == 44 && old == "the-rules-first-key", "32 bytes as base64");
    let mut third = login(&cluster, "ruled", &new).await?;
    ensure!(third.sender("orders").await?.is_ok(), "the new key");
    let (_, listed) = command(&cluster, &["key", "list", "--entity", "orders", "--json"])?;
    ensure!(
        listed.contains("ruled") && !listed.contains(&new) && !listed.contains(&old),
        "{listed}"
    );
    for (words, told) in [
        (["key", "rotate", "nobody", "--entity", "orders"], "it has ruled"),
        (["key", "rotate", "ruled", "--entity", "nowhere"], "no queue or topic 'nowhere'"),
    ] {
        let (code, said) = command(&cluster, &words)?;
        ensure!(
            code != Some(0) && said.contains(told) && said.trim().lines().count() == 1,
            "{said}"
        );
    }
    for queue in QUEUES {
        command(&cluster, &["key", "rotate", "ruled", "--entity", queue])?;
    }
    primary.ends().await
}

/// ENT-12: the same of a key of the configuration, whose node is told nothing.
#[tokio::test(flavor = "multi_thread")]
async fn ent_12_a_key_of_the_configuration_is_rotated_by_command() -> anyhow::Result<()> {
    let cluster = start().await?;
    let path = cluster.config_path(1).to_owned();
    let config = path.to_str().context("a path of letters")?;
    let rotate = ["key", "rotate", "mover", "--config", config];
    let (code, told) = command(&cluster, &rotate)?;
    ensure!(code == Some(2) && told.contains("make its key the secondary_key there"), "{told}");
    let (first, second) = (cluster.dir().join("mover.key"), cluster.dir().join("spare.key"));
    write_key(&first, "the-movers-first-key\n")?;
    write_key(&second, "the-movers-second-key\n")?;
    let text = std::fs::read_to_string(&path)?
        .replace(
            "secondary_key = \"the-movers-second-key\"",
            &format!("secondary_key_file = {second:?}"),
        )
        .replace("key = \"the-movers-first-key\"", &format!("key_file = {first:?}"));
    std::fs::write(&path, text)?;
    let mut primary = open(&cluster, 1, "mover", "the-movers-first-key").await?;
    let secondary = open(&cluster, 2, "mover", "the-movers-second-key").await?;
    // One that is given the new key in time.
    let follower = native(&cluster, "mover", "the-movers-first-key")?;
    let stream = follower.sender("orders", Default::default());
    stream.send(Message::new("with the first")).await?;
    let mut deliveries = follower.receiver("orders", Default::default());
    let delivery = deliveries.recv().await?;
    let (code, told) = command(&cluster, &rotate)?;
    ensure!(code == Some(0) && !told.contains("the-movers-"), "{told}");
    secondary.ends_within(Duration::from_secs(10)).await?;
    primary.lasts().await?;
    let new = std::fs::read_to_string(&first)?;
    ensure!(
        login(&cluster, "mover", new.trim()).await?.sender("orders").await?.is_ok(),
        "the new key"
    );
    let (_, listed) = command(&cluster, &["key", "list", "--config", config])?;
    ensure!(listed.contains("mover") && listed.contains("spare.key"), "{listed}");
    ensure!(!listed.contains(new.trim()) && !listed.contains("the-movers-"), "{listed}");
    follower.replace_secret(new.trim())?;
    command(&cluster, &rotate)?;
    primary.ends_within(Duration::from_secs(10)).await?;
    deliveries.complete(&delivery).await?;
    for turn in 0..20 {
        stream.send(Message::new(format!("with the next, {turn}"))).await?;
    }
    for _ in 0..20 {
        let delivery = deliveries.recv().await?;
        deliveries.complete(&delivery).await?;
    }
    Ok(())
}
