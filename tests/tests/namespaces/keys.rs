//! Keys and signatures of one namespace, shown in others.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use auth::sign;
use client::v1::{AuthorizationRule, AuthorizationRules, Namespace, QueueProperties};
use client::{Client, Error, Message};
use mayfly_tests::{AmqpClient, Cluster, Settings};

use super::{native, over_http};

const SECRET: &str = "the-cluster-secret";
const ROOT: &str = "RootManageSharedAccessKey";
/// Keys of the configuration: one that operates nothing, and one for whoever watches.
const KEYS: &str = r#"
wrong_keys_per_minute = 0
[[security.key]]
name = "manager"
key = "the-managers-key"
rights = ["manage"]
"#;
const HOSTS: [(&str, &str); 3] =
    [("alpha", "alpha.bus"), ("beta", "beta.bus"), ("default", "localhost")];

fn ends() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() + 600
}

/// A key with its name, and the host that a signature by it is for.
#[derive(Clone, Debug)]
struct Shown {
    name: String,
    key: String,
}

impl Shown {
    fn token(&self, host: &str) -> String {
        sign(&format!("sb%3A%2F%2F{host}%2Fq"), &self.name, &self.key, ends())
    }
}

fn rule(namespace: &Namespace) -> anyhow::Result<Shown> {
    let rules = namespace.authorization_rules.as_ref().context("rules")?;
    let rule = rules.rules.first().context("a rule")?;
    Ok(Shown { name: rule.name.clone(), key: rule.primary_key.clone() })
}

async fn start() -> anyhow::Result<(Cluster, [Shown; 4])> {
    let settings = Settings { nodes: 1, data_groups: 1, config: KEYS, ..Settings::default() };
    let cluster = Cluster::start(Settings { secret: Some(SECRET), ..settings }).await?;
    let operator = native(&cluster, None, Some(SECRET))?;
    let alpha = rule(&operator.create_namespace("alpha", None).await?)?;
    let beta = rule(&operator.create_namespace("beta", None).await?)?;
    for (name, _) in HOSTS {
        let client = native(&cluster, Some(name), Some(SECRET))?;
        client.create_queue("q", QueueProperties::default()).await?;
    }
    let manager = Shown { name: "manager".into(), key: "the-managers-key".into() };
    let root = Shown { name: ROOT.into(), key: SECRET.into() };
    Ok((cluster, [alpha, beta, manager, root]))
}

/// Whether a key opens the queue over AMQP by a token for a host, put for another.
async fn by_token(
    cluster: &Cluster,
    host: &str,
    shown: &Shown,
    signed_for: &str,
) -> anyhow::Result<bool> {
    let mut client =
        AmqpClient::to_host(cluster.amqp_address(1), host, Mechanism::Anonymous).await?;
    let status = client.put_token(&shown.token(signed_for), &format!("sb://{host}/q")).await?;
    let is_open = client.sender("q").await?.is_ok();
    ensure!(is_open == (status == 202), "{status} and {is_open}: {shown:?} at {host}");
    Ok(is_open)
}

async fn by_login(cluster: &Cluster, host: &str, shown: &Shown) -> anyhow::Result<bool> {
    let login = Mechanism::plain(&shown.name, &shown.key);
    match AmqpClient::to_host(cluster.amqp_address(1), host, login).await {
        Ok(mut client) => Ok(client.sender("q").await?.is_ok()),
        Err(_) => Ok(false),
    }
}

fn by_http(cluster: &Cluster, host: &str, proof: &str) -> anyhow::Result<bool> {
    let header = format!("Authorization: {proof}\r\n");
    let (status, told) = over_http(cluster, host, "POST /q/messages", &header, "hi")?;
    ensure!(status == 201 || status == 401, "{told}");
    Ok(status == 201)
}

fn is_let_in<T>(outcome: Result<T, Error>) -> anyhow::Result<bool> {
    match outcome {
        Ok(_) => Ok(true),
        Err(Error::Refused(detail)) if detail.rule == "ERR-17" => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn by_native(client: &Client) -> anyhow::Result<bool> {
    is_let_in(client.send("q", vec![Message::new("hi")]).await)
}

/// Each key, with each way to show it, in each namespace: it opens its own, and the operator's all.
#[tokio::test(flavor = "multi_thread")]
async fn ns_7_a_key_opens_its_namespace_and_no_other() -> anyhow::Result<()> {
    let (cluster, [alpha, beta, manager, root]) = start().await?;
    let own = [("alpha", &alpha), ("beta", &beta), ("default", &manager)];
    for (name, host) in HOSTS {
        for (of, shown) in own.into_iter().chain([(name, &root)]) {
            let expected = of == name;
            let what = format!("{shown:?} of {of} at {host}");
            ensure!(by_token(&cluster, host, shown, host).await? == expected, "token: {what}");
            ensure!(by_login(&cluster, host, shown).await? == expected, "login: {what}");
            let token = shown.token(host);
            ensure!(by_http(&cluster, host, &token)? == expected, "HTTP: {what}");
            let bearer = format!("Bearer {}", shown.key);
            ensure!(by_http(&cluster, host, &bearer)? == expected, "bearer: {what}");
            for secret in [shown.key.as_str(), &token] {
                let client = native(&cluster, Some(name), Some(secret))?;
                ensure!(by_native(&client).await? == expected, "native: {what}");
            }
        }
    }
    // What is the cluster's own is not a namespace's, whichever namespace it is asked in.
    for namespace in [None, Some("alpha")] {
        let client = native(&cluster, namespace, Some(&alpha.key))?;
        ensure!(!is_let_in(client.status(true).await)?, "status");
        ensure!(!is_let_in(client.namespaces().await)?, "namespaces");
        ensure!(!is_let_in(client.connections(0, "").await)?, "connections");
        ensure!(!is_let_in(client.move_entity("q", 1).await)?, "move");
        ensure!(!is_let_in(client.delete_namespace("beta", true).await)?, "delete");
    }
    for path in ["GET /metrics", "GET /health/details", "GET /$faults"] {
        let proof = format!("Authorization: Bearer {}\r\n", alpha.key);
        let (status, told) = over_http(&cluster, "alpha.bus", path, &proof, "")?;
        ensure!(status == 401, "{path}: {told}");
    }
    // Its manager manages it, and it alone.
    let client = native(&cluster, Some("alpha"), Some(&alpha.key))?;
    client.create_queue("r", QueueProperties::default()).await?;
    client.list_queues("").await?;
    Ok(())
}

/// A key of the same name and value in two namespaces: what it signs for one is worth nothing in the other.
#[tokio::test(flavor = "multi_thread")]
async fn ns_8_a_signature_is_for_the_namespace_that_its_host_means() -> anyhow::Result<()> {
    let (cluster, [.., root]) = start().await?;
    let operator = native(&cluster, None, Some(SECRET))?;
    let twin = Shown { name: "twin".into(), key: "one-key-for-two".into() };
    for name in ["alpha", "beta"] {
        let rules = vec![AuthorizationRule {
            name: twin.name.clone(),
            rights: vec![1, 2, 3],
            primary_key: twin.key.clone(),
            ..AuthorizationRule::default()
        }];
        operator.update_namespace(name, AuthorizationRules { rules }).await?;
    }
    for (name, host) in HOSTS {
        for (signed_for, signed_host) in HOSTS {
            let expected = name == signed_for;
            for shown in [&root, &twin] {
                if shown.name == "twin" && name == "default" {
                    continue; // It is none of its keys.
                }
                let what = format!("{} signed for {signed_host} at {host}", shown.name);
                ensure!(
                    by_token(&cluster, host, shown, signed_host).await? == expected,
                    "AMQP: {what}"
                );
                let token = shown.token(signed_host);
                ensure!(by_http(&cluster, host, &token)? == expected, "HTTP: {what}");
                let client = native(&cluster, Some(name), Some(&token))?;
                ensure!(by_native(&client).await? == expected, "native: {what}");
            }
        }
    }
    // Put for another namespace than the connection is for, whatever it was signed for.
    let mut client =
        AmqpClient::to_host(cluster.amqp_address(1), "alpha.bus", Mechanism::Anonymous).await?;
    let status = client.put_token(&twin.token("beta.bus"), "sb://beta.bus/q").await?;
    ensure!(status == 401, "{status}");
    Ok(())
}

/// What is open ends within moments of a change of the namespace's keys.
#[tokio::test(flavor = "multi_thread")]
async fn ns_7_a_change_of_keys_counts_at_once() -> anyhow::Result<()> {
    let (cluster, [alpha, ..]) = start().await?;
    let operator = native(&cluster, None, Some(SECRET))?;
    let mut amqp =
        AmqpClient::to_host(cluster.amqp_address(1), "alpha.bus", Mechanism::Anonymous).await?;
    ensure!(amqp.put_token(&alpha.token("alpha.bus"), "sb://alpha.bus/q").await? == 202);
    let link = amqp.receiver("q").await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let rules = vec![AuthorizationRule {
        name: "other".to_owned(),
        rights: vec![1, 2, 3],
        ..AuthorizationRule::default()
    }];
    let updated = operator.update_namespace("alpha", AuthorizationRules { rules }).await?;
    let changed = Instant::now();
    let why = amqp.detached(link).await?;
    ensure!(&*why.condition == "amqp:unauthorized-access", "{why:?}");
    ensure!(changed.elapsed() < Duration::from_secs(5), "{:?}", changed.elapsed());
    ensure!(!by_token(&cluster, "alpha.bus", &alpha, "alpha.bus").await?);
    ensure!(by_token(&cluster, "alpha.bus", &rule(&updated)?, "alpha.bus").await?);
    // A login is for the host that it names.
    ensure!(
        by_login(&cluster, "beta.bus", &Shown { name: ROOT.into(), key: SECRET.into() }).await?
    );
    Ok(())
}
