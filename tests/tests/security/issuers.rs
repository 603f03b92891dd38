//! JSON web tokens of an issuer that the configuration names: over AMQP, HTTP and the native API, in two namespaces.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use client::v1::ReceiveMode;
use client::{Client, ClientOptions, Message, QueuePath};
use mayfly_tests::{AmqpClient, Cluster, Settings, wire};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use super::{SECRET, ask, condition, message, now_s};

const CONFIG: &str = r#"
[[security.issuer]]
name = "https://issuer.example/"
keys_file = "KEYS"
[[security.issuer.role]]
value = "orders-writer"
rights = ["send"]
entities = ["orders"]
[[security.issuer.role]]
value = "reader"
rights = ["listen"]
[[security.issuer.role]]
value = "Azure Service Bus Data Owner"
namespace = "shop"
[audit]
log = true
"#;
const UNAUTHORIZED: &str = "amqp:unauthorized-access";
/// A look at the configuration's files, and one at what is open.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// An issuer, as the nodes know it by a file.
struct Issuer {
    pair: Ed25519KeyPair,
    id: &'static str,
}

impl Issuer {
    fn draw(id: &'static str) -> Issuer {
        let random = SystemRandom::new();
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random).expect("random numbers");
        Issuer { pair: Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a key"), id }
    }

    fn keys(&self) -> String {
        let x = BASE64.encode(self.pair.public_key().as_ref());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": x}]}).to_string()
    }

    /// What it says beside the usual, or in its place.
    fn token(&self, roles: &[&str], more: &Value) -> String {
        let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": self.id});
        let mut claims = json!({
            "iss": "https://issuer.example/", "aud": "https://servicebus.azure.net", "sub": "worker-7",
            "exp": now_s() + 600, "roles": roles,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        let [header, claims] = [header, claims].map(|part| BASE64.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        format!("{signed}.{}", BASE64.encode(self.pair.sign(signed.as_bytes())))
    }
}

struct Issued {
    cluster: Cluster,
    issuer: Issuer,
    keys: PathBuf,
}

impl Issued {
    async fn start() -> anyhow::Result<Issued> {
        let settings =
            Settings { nodes: 1, data_groups: 1, secret: Some(SECRET), ..Settings::default() };
        let mut cluster = Cluster::start(settings).await?;
        let (issuer, keys) = (Issuer::draw("first"), cluster.dir().join("keys.json"));
        fs::write(&keys, issuer.keys())?;
        let config = cluster.config_path(1).to_owned();
        let more = CONFIG.replace("KEYS", &keys.display().to_string());
        fs::write(&config, fs::read_to_string(&config)? + &more)?;
        cluster.stop(1)?;
        cluster.start_node(1)?;
        cluster.wait_ready().await?;
        let operator = cluster.client()?;
        operator.create_namespace("shop", None).await?;
        for namespace in [None, Some("shop")] {
            let client = native(&cluster, namespace, SECRET)?;
            for queue in ["orders", "other"] {
                client.create_queue(queue, Default::default()).await?;
            }
        }
        Ok(Issued { cluster, issuer, keys })
    }

    async fn amqp(&self, host: &str) -> anyhow::Result<AmqpClient> {
        AmqpClient::to_host(self.cluster.amqp_address(1), host, Mechanism::Anonymous).await
    }

    fn http(&self, host: &str, request: &str, token: &str) -> anyhow::Result<u16> {
        let stream = wire::tcp(self.cluster.addresses(1)[1])?;
        let headers = format!("Authorization: Bearer {token}\r\n");
        let request = request.replacen(' ', &format!(" http://{host}"), 1);
        Ok(ask(stream, &request, &headers)?.0)
    }
}

/// With a key, or a token in its place.
fn native(cluster: &Cluster, namespace: Option<&str>, proof: &str) -> anyhow::Result<Client> {
    let options = ClientOptions {
        secret: Some(proof.to_owned()),
        namespace: namespace.map(str::to_owned),
        give_up_after: Duration::from_secs(20),
        ..ClientOptions::default()
    };
    Ok(Client::with_options([cluster.addresses(1)[0]], options)?)
}

/// CBS-6, HTTP-10, NS-8: what a role is for, in its namespace, is let in by every way, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn cbs_6_a_token_of_an_issuer_opens_what_its_roles_are_for() -> anyhow::Result<()> {
    let issued = Issued::start().await?;
    let token = issued.issuer.token(&["orders-writer"], &Value::Null);
    let mut amqp = issued.amqp("localhost").await?;
    for queue in ["orders", "other"] {
        // It is good, whatever it is good for.
        assert_eq!(amqp.put_token(&token, &format!("sb://localhost/{queue}")).await?, 202);
    }
    let sender = amqp.sender("orders").await?.expect("its role");
    assert_eq!(amqp.send(sender, 0, message()).await?, DeliveryState::ACCEPTED);
    assert_eq!(condition(amqp.sender("other").await?)?, UNAUTHORIZED);
    assert_eq!(condition(amqp.settled_receiver("orders").await?)?, UNAUTHORIZED);
    let reader = issued.issuer.token(&["x", "reader"], &Value::Null);
    assert_eq!(amqp.put_token(&reader, "sb://localhost/orders").await?, 202);
    assert!(amqp.settled_receiver("orders").await?.is_ok(), "the newer token is for that");

    let owner = issued.issuer.token(&["Azure Service Bus Data Owner"], &Value::Null);
    for (host, request, token, status) in [
        ("localhost", "POST /orders/messages", &token, 201),
        ("localhost", "POST /other/messages", &token, 401),
        ("localhost", "DELETE /other/messages/head", &token, 401),
        ("localhost", "DELETE /other/messages/head?timeout=0", &reader, 204),
        ("localhost", "GET /orders?api-version=2021-05", &reader, 401),
        ("localhost", "GET /orders?api-version=2021-05", &owner, 401),
        ("shop.localhost", "GET /orders?api-version=2021-05", &owner, 200),
        ("shop.localhost", "POST /orders/messages", &owner, 201),
        ("shop.localhost", "POST /orders/messages", &token, 401),
    ] {
        assert_eq!(issued.http(host, request, token)?, status, "{host} {request}");
    }
    for (namespace, proof, queue, is_let_in) in [
        (None, &token, "orders", true),
        (None, &token, "other", false),
        (None, &owner, "orders", false),
        (Some("shop"), &owner, "orders", true),
        (Some("shop"), &token, "orders", false),
    ] {
        let client = native(&issued.cluster, namespace, proof)?;
        let sent = client.send(queue, vec![Message::new("x")]).await;
        assert_eq!(sent.is_ok(), is_let_in, "{namespace:?} {queue}: {sent:?}");
    }
    let client = native(&issued.cluster, Some("shop"), &owner)?;
    client.create_queue("made", Default::default()).await?;
    let (path, wait) = (QueuePath::main("orders"), Duration::ZERO);
    let found = client.receive(&path, ReceiveMode::ReceiveAndDelete, 10, wait).await?;
    ensure!(found.len() == 2, "{found:?}");
    let log = issued.cluster.node_log(1);
    let told = r#"principal="web-token" subject="worker-7" issuer="https://issuer.example/""#;
    let made = |line: &&str| line.contains("audit: entity.create") && line.contains("made");
    let line = log.lines().find(made).context("an audit record")?;
    ensure!(line.contains(told), "{line}");
    ensure!(!log.contains(&owner), "no token is logged");
    Ok(())
}

/// CBS-6: what is wrong with a token, and what that is answered with over AMQP and HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn cbs_6_a_token_that_is_not_good_opens_nothing() -> anyhow::Result<()> {
    let issued = Issued::start().await?;
    let (issuer, stranger) = (&issued.issuer, Issuer::draw("first"));
    let reader = |more: Value| issuer.token(&["reader"], &more);
    let good = reader(Value::Null);
    let (signed, signature) = good.rsplit_once('.').context("parts")?;
    let none = BASE64.encode(r#"{"alg":"none","typ":"JWT","kid":"first"}"#);
    let claims = signed.split('.').nth(1).context("claims")?;
    let mut amqp = issued.amqp("localhost").await?;
    for (what, token, status) in [
        ("good", good.clone(), 202),
        ("of a stranger", stranger.token(&["reader"], &Value::Null), 401),
        ("of another issuer", reader(json!({"iss": "https://other.example/"})), 401),
        ("for another audience", reader(json!({"aud": "https://storage.azure.com"})), 401),
        ("expired", reader(json!({"exp": now_s() - 1})), 401),
        ("early", reader(json!({"nbf": now_s() + 600})), 401),
        ("endless", reader(json!({"exp": null})), 401),
        ("unsigned", format!("{none}.{claims}."), 401),
        ("cut", signed.to_owned() + "." + &signature[..40], 401),
        ("not JSON", "eyJ.eyJ.eyJ".to_owned(), 400),
        ("no token", "eyJhbGciOiJub25lIn0".to_owned(), 400),
    ] {
        let answered = amqp.put_token(&token, "sb://localhost/orders").await?;
        assert_eq!(answered, status, "{what}");
        let over_http =
            issued.http("localhost", "DELETE /orders/messages/head?timeout=0", &token)?;
        assert_eq!(over_http, if status == 202 { 204 } else { 401 }, "{what}");
    }
    Ok(())
}

/// ERR-25, CBS-11: what a token opened ends with it, lasts on with the next, and ends when its issuer withdraws the key.
#[tokio::test(flavor = "multi_thread")]
async fn err_25_what_a_token_opened_ends_with_it_or_with_its_key() -> anyhow::Result<()> {
    let issued = Issued::start().await?;
    let lasting =
        |seconds: u64| issued.issuer.token(&["reader"], &json!({"exp": now_s() + seconds}));
    let mut amqp = issued.amqp("localhost").await?;
    for queue in ["orders", "other"] {
        let audience = format!("sb://localhost/{queue}");
        assert_eq!(amqp.put_token(&lasting(6), &audience).await?, 202);
    }
    let ends = amqp.settled_receiver("orders").await?.expect("its role");
    let lasts = amqp.settled_receiver("other").await?.expect("its role");
    assert_eq!(amqp.put_token(&lasting(600), "sb://localhost/other").await?, 202);
    let error = amqp.detached(ends).await?;
    assert_eq!(error.condition.as_str(), UNAUTHORIZED);

    let next = Issuer::draw("second");
    fs::write(&issued.keys, next.keys())?;
    let withdrawn_at = Instant::now();
    let error = amqp.detached(lasts).await?;
    assert_eq!(error.condition.as_str(), UNAUTHORIZED);
    ensure!(withdrawn_at.elapsed() < ENDS_WITHIN, "{:?}", withdrawn_at.elapsed());
    assert_eq!(amqp.put_token(&lasting(600), "sb://localhost/other").await?, 401);
    let token = next.token(&["reader"], &Value::Null);
    assert_eq!(amqp.put_token(&token, "sb://localhost/other").await?, 202);
    assert!(amqp.settled_receiver("other").await?.is_ok());
    // What is no set of keys takes none away.
    fs::write(&issued.keys, "{")?;
    let until = Instant::now() + ENDS_WITHIN;
    while !issued.cluster.node_log(1).contains("keys of issuers stay as they were") {
        ensure!(Instant::now() < until, "{}", issued.cluster.last_words(1));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(amqp.put_token(&token, "sb://localhost/orders").await?, 202);
    Ok(())
}
