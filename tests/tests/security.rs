//! Who is let in, over what, and what becomes of those who are not: real nodes, real sockets.

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use amqp_protocol::codec::{DeliveryState, Error};
use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use auth::sign;
use bytes::{Bytes, BytesMut};
use client::{Client, ClientOptions, ReceiverOptions, SenderOptions, Trust};
use mayfly_tests::wire::{self, Wire};
use mayfly_tests::{AmqpClient, Cluster, Settings, mayfly};
use message_content::{Body, Neutral};
use nix::sys::signal::Signal;

const SECRET: &str = "the-cluster-secret";
const KEYS: &str = r#"
[[security.key]]
name = "sender"
key = "sender-key"
secondary_key = "sender-spare"
rights = ["send"]
scope = "orders"
[[security.key]]
name = "listener"
key = "listener-key"
rights = ["listen"]
"#;

fn guarded() -> Settings {
    let secret = Some(SECRET);
    Settings { nodes: 1, data_groups: 1, secret, config: KEYS, ..Settings::default() }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn message() -> Bytes {
    let body = Body::Binary(Bytes::from_static(b"hello"));
    Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

/// A token as Python makes it.
fn token(entity: &str, name: &str, key: &str, seconds: u64) -> (String, String) {
    let audience = format!("sb://localhost:5672/{entity}");
    let resource = audience.replace(':', "%3A").replace('/', "%2F");
    (sign(&resource, name, key, now_s() + seconds), audience)
}

fn condition(refused: Result<amqp_protocol::engine::LinkId, Error>) -> anyhow::Result<String> {
    Ok(refused.err().context("it was let in")?.condition.to_string())
}

/// One request on a connection of its own: status and body.
fn ask(stream: impl Wire, request: &str, headers: &str) -> anyhow::Result<(u16, String)> {
    ask_with(stream, request, headers, if request.starts_with("PUT") { QUEUE } else { "" })
}

fn ask_with(
    mut stream: impl Wire,
    request: &str,
    headers: &str,
    body: &str,
) -> anyhow::Result<(u16, String)> {
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()?;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        ensure!(Instant::now() < until, "no answer to {request}");
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // A server that is done may leave without a word of TLS.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error.into()),
        }
    }
    let text = String::from_utf8(text)?;
    let status = text.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, text))
}

const QUEUE: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><ForwardTo>sb://localhost/target</ForwardTo></QueueDescription></content></entry>"#;

/// ERR-17: over AMQP each link takes a right on its entity, from a token or from a login with a key.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_cbs_1_cbs_14_amqp_links_take_tokens_with_their_right() -> anyhow::Result<()> {
    const UNAUTHORIZED: &str = "amqp:unauthorized-access";
    let cluster = Cluster::start(guarded()).await?;
    for queue in ["orders", "other"] {
        cluster.client()?.create_queue(queue, Default::default()).await?;
    }
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    assert_eq!(condition(amqp.sender("orders").await?)?, UNAUTHORIZED);
    for (name, key, status) in [
        ("sender", "guess", 401),
        ("nobody", "sender-key", 401),
        ("sender", "sender-spare", 202),
        ("sender", "sender-key", 202),
    ] {
        let (token, audience) = token("orders", name, key, 60);
        assert_eq!(amqp.put_token(&token, &audience).await?, status, "{name} {key}");
    }
    let resource = "sb%3A%2F%2Flocalhost%3A5672%2Forders";
    let expired = sign(resource, "sender", "sender-key", now_s() - 1);
    assert_eq!(
        amqp.put_token(&expired, "sb://localhost:5672/orders").await?,
        401,
        "it has expired"
    );
    // A key of one entity signs for no other.
    let (of_other, audience) = token("other", "sender", "sender-key", 60);
    assert_eq!(amqp.put_token(&of_other, &audience).await?, 401);
    let sender = amqp.sender("amqps://localhost:5672/Orders").await?.expect("the token is for it");
    assert_eq!(amqp.send(sender, 0, message()).await?, DeliveryState::ACCEPTED);
    assert_eq!(condition(amqp.sender("other").await?)?, UNAUTHORIZED);
    // However an address is written, what it opens is what the right is asked for.
    for disguise in [
        "orders/$x://h/other",
        "orders/x://h/other",
        "orders/subscriptions/x://h/other",
        "sb://h%2Forders/other",
    ] {
        assert!(amqp.sender(disguise).await?.is_err(), "{disguise}");
    }
    assert_eq!(condition(amqp.settled_receiver("orders").await?)?, UNAUTHORIZED);
    let (token, audience) = token("orders", "listener", "listener-key", 60);
    assert_eq!(amqp.put_token(&token, &audience).await?, 202);
    let receiver = amqp.settled_receiver("orders").await?.expect("it may listen now");
    amqp.grant(receiver, 1).await?;
    amqp.receive(receiver).await?;

    // SASL-4: a login with the key itself needs no token.
    let login = async |user: &str, password: &str| {
        let stream = wire::tcp(cluster.amqp_address(1))?;
        AmqpClient::over(stream, Mechanism::plain(user, password)).await
    };
    assert!(login("sender", "guess").await.is_err());
    let mut amqp = login("RootManageSharedAccessKey", SECRET).await?;
    assert!(amqp.sender("other").await?.is_ok());
    let mut amqp = login("sender", "sender-key").await?;
    assert!(amqp.sender("orders").await?.is_ok());
    assert_eq!(condition(amqp.sender("other").await?)?, UNAUTHORIZED);

    let log = cluster.node_log(1);
    ensure!(log.contains("AMQP client refused"), "{log}");
    for hidden in [SECRET, "sender-key", "sender-spare", "guess"] {
        ensure!(!log.contains(hidden), "{hidden} is in {log}");
    }
    Ok(())
}

/// A description with authorization rules, each its name, its rights and its two keys.
fn described(kind: &str, rules: &[(&str, &str, &str, &str)]) -> String {
    let rule = |(name, rights, primary, secondary): &(&str, &str, &str, &str)| {
        let key = |element: &str, key: &str| match key {
            "" => String::new(),
            key => format!("<{element}>{key}</{element}>"),
        };
        let rights = rights.split(' ').filter(|right| !right.is_empty());
        let rights: String =
            rights.map(|right| format!("<AccessRights>{right}</AccessRights>")).collect();
        format!(
            "<AuthorizationRule><Rights>{rights}</Rights><KeyName>{name}</KeyName>{}{}</AuthorizationRule>",
            key("PrimaryKey", primary),
            key("SecondaryKey", secondary)
        )
    };
    let rules: String = rules.iter().map(rule).collect();
    format!(
        r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><{kind}Description xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><AuthorizationRules>{rules}</AuthorizationRules></{kind}Description></content></entry>"#
    )
}

/// The text of an element, of those after `after`.
fn element<'a>(text: &'a str, after: &str, name: &str) -> anyhow::Result<&'a str> {
    let (_, rest) = text.split_once(after).with_context(|| format!("no {after} in {text}"))?;
    let (_, rest) = rest.split_once(&format!("<{name}>")).context("no such element")?;
    rest.split_once('<').map(|(value, _)| value).context("no end")
}

/// ENT-11, ENT-12: the rules in an entity's description open it, on every node and every port, with
/// their rights and no others, and a change of them counts at once.
#[tokio::test(flavor = "multi_thread")]
async fn ent_11_ent_12_an_entitys_own_rules_open_it_on_every_node() -> anyhow::Result<()> {
    const UNAUTHORIZED: &str = "amqp:unauthorized-access";
    let cluster = Cluster::start(Settings { secret: Some(SECRET), ..Settings::default() }).await?;
    for queue in ["other", "orders/below"] {
        cluster.client()?.create_queue(queue, Default::default()).await?;
    }
    let ask = |node: u64, request: &str, (name, key): (&str, &str), body: &str| {
        let token = sign("https%3A%2F%2Flocalhost", name, key, now_s() + 60);
        let update = if request.starts_with("PUT") { "If-Match: *\r\n" } else { "" };
        let (request, update) = match request.strip_prefix("CREATE") {
            Some(path) => (format!("PUT{path}"), ""),
            None => (request.to_owned(), update),
        };
        let headers = format!("Authorization: {token}\r\n{update}");
        ask_with(wire::tcp(cluster.addresses(node)[1])?, &request, &headers, body)
    };
    let root = ("RootManageSharedAccessKey", SECRET);
    let rules = [
        ("worker", "Listen", "", ""),
        ("shop", "Send", "shop-first", "shop-second"),
        ("boss", "Manage Send Listen", "boss-first", "boss-second"),
    ];
    let (status, made) = ask(1, "CREATE /orders", root, &described("Queue", &rules))?;
    ensure!(status == 201, "{made}");
    let (status, told) = ask(1, "GET /orders", root, "")?;
    ensure!(status == 200, "{told}");
    let drawn = element(&told, "<KeyName>worker<", "PrimaryKey")?.to_owned();
    ensure!(drawn.len() == 44, "32 bytes as base64: {drawn}");
    assert_eq!(element(&told, "<KeyName>shop<", "SecondaryKey")?, "shop-second");
    ensure!(element(&told, "<AuthorizationRule ", "CreatedTime")?.starts_with("20"), "{told}");
    let topic = described("Topic", &[("reader", "Listen", "reader-first", "reader-second")]);
    assert_eq!(ask(2, "CREATE /news", root, &topic)?.0, 201);
    cluster.client()?.create_subscription("news", "s", Default::default(), None).await?;

    let connect = async |node| AmqpClient::connect(cluster.amqp_address(node)).await;
    let login = async |node: u64, name: &str, key: &str| {
        let stream = wire::tcp(cluster.amqp_address(node))?;
        AmqpClient::over(stream, Mechanism::plain(name, key)).await
    };
    for node in 1..=3 {
        for (entity, name, key, status, sends, listens) in [
            ("orders", "shop", "shop-first", 202, true, false),
            ("orders", "shop", "shop-second", 202, true, false),
            ("Orders", "boss", "boss-first", 202, true, true),
            ("orders", "worker", drawn.as_str(), 202, false, true),
            ("orders/$DeadLetterQueue", "worker", drawn.as_str(), 202, false, true),
            ("news/Subscriptions/s", "reader", "reader-first", 202, false, true),
            ("orders", "shop", "guess", 401, false, false),
            ("orders", "reader", "reader-first", 401, false, false),
            ("other", "shop", "shop-first", 401, false, false),
            ("orders/below", "boss", "boss-first", 401, false, false),
            ("nowhere", "boss", "boss-first", 401, false, false),
        ] {
            let mut amqp = connect(node).await?;
            let (token, audience) = token(entity, name, key, 60);
            assert_eq!(amqp.put_token(&token, &audience).await?, status, "{node} {entity} {name}");
            assert_eq!(amqp.sender(entity).await?.is_ok(), sends, "{node} {entity} {name}");
            assert_eq!(
                amqp.settled_receiver(entity).await?.is_ok(),
                listens,
                "{node} {entity} {name}"
            );
            for elsewhere in ["other", "orders/below"] {
                assert_eq!(condition(amqp.sender(elsewhere).await?)?, UNAUTHORIZED);
            }
            // SASL-5: the key itself as login, which says of no entity that it is for it.
            let mut amqp = login(node, name, key).await?;
            assert_eq!(amqp.sender(entity).await?.is_ok(), sends, "{node} {entity} {name}");
            assert_eq!(
                amqp.settled_receiver(entity).await?.is_ok(),
                listens,
                "{node} {entity} {name}"
            );
            assert_eq!(condition(amqp.sender("other").await?)?, UNAUTHORIZED);
        }
        for (request, name, key, status) in [
            ("POST /orders/messages", "shop", "shop-first", 201),
            ("POST /orders/messages", "worker", drawn.as_str(), 401),
            ("DELETE /orders/messages/head", "worker", drawn.as_str(), 200),
            ("DELETE /orders/messages/head", "shop", "shop-first", 401),
            ("POST /other/messages", "shop", "shop-first", 401),
            ("GET /orders", "boss", "boss-second", 200),
            ("GET /orders", "shop", "shop-first", 401),
            ("GET /other", "boss", "boss-first", 401),
            ("GET /$Resources/queues", "boss", "boss-first", 401),
            ("GET /news/subscriptions/s", "reader", "reader-first", 401),
        ] {
            let (found, body) = ask(node, request, (name, key), "")?;
            assert_eq!(found, status, "{node} {request} {name} {body}");
        }
    }

    // A change counts at once, and a login's links end with the next one it asks for.
    let mut old = login(3, "shop", "shop-first").await?;
    let link = old.sender("orders").await?.expect("not changed yet");
    assert_eq!(old.send(link, 0, message()).await?, DeliveryState::ACCEPTED);
    let changed = [("worker", "Send", "", ""), ("shop", "Send", "shop-third", "shop-fourth")];
    let (status, told) =
        ask(2, "PUT /orders", ("boss", "boss-first"), &described("Queue", &changed))?;
    ensure!(status == 200, "{told}");
    assert_eq!(element(&told, "<KeyName>worker<", "PrimaryKey")?, drawn, "it was not given anew");
    for node in 1..=3 {
        for (name, key, status, sends) in [
            ("shop", "shop-first", 401, false),
            ("shop", "shop-second", 401, false),
            ("boss", "boss-first", 401, false),
            ("shop", "shop-third", 202, true),
            ("worker", drawn.as_str(), 202, true),
        ] {
            let mut amqp = connect(node).await?;
            let (token, audience) = token("orders", name, key, 60);
            assert_eq!(amqp.put_token(&token, &audience).await?, status, "{node} {name} {key}");
            assert_eq!(amqp.sender("orders").await?.is_ok(), sends, "{node} {name} {key}");
            assert!(amqp.settled_receiver("orders").await?.is_err(), "{node} {name} {key}");
        }
    }
    assert_eq!(condition(old.settled_receiver("orders").await?)?, UNAUTHORIZED);
    assert_eq!(old.detached(link).await?.condition.as_str(), UNAUTHORIZED);

    // Each refusal says what is wrong, and changes nothing.
    let many: Vec<String> = (0..13).map(|n| format!("r{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "Send", "", "")).collect();
    for (rules, status, why) in [
        (&many[..], 403, "the entity (authorization rules) holds 13, the limit is 12"),
        (&[("a", "Manage", "", "")][..], 400, "rule 'a' (number 1) has Manage alone"),
        (&[("a", "", "", "")][..], 400, "rule 'a' (number 1) has no rights"),
        (
            &[("a", "Send", "", ""), ("a", "Listen", "", "")][..],
            400,
            "rule 'a' (number 2) is there twice",
        ),
        (&[("a b", "Send", "", "")][..], 400, "rule 'a b' (number 1) has a name with characters"),
        (&[("a", "Send", "k k", "")][..], 400, "rule 'a' (number 1) has a primary key that is not"),
    ] {
        let (found, told) = ask(1, "PUT /orders", root, &described("Queue", rules))?;
        ensure!(found == status && told.contains(&why.replace('\'', "&apos;")), "{why}: {told}");
    }
    let (_, told) = ask(1, "GET /orders", root, "")?;
    assert_eq!(element(&told, "<KeyName>shop<", "PrimaryKey")?, "shop-third");

    for node in 1..=3 {
        let log = cluster.node_log(node);
        for hidden in [drawn.as_str(), "shop-first", "shop-third", "boss-first", "guess"] {
            ensure!(!log.contains(hidden), "{hidden} is in {log}");
        }
    }
    Ok(())
}

/// ERR-25: a link lasts as long as its token, or the next one for the same entity.
#[tokio::test(flavor = "multi_thread")]
async fn err_25_links_of_an_expired_token_are_detached() -> anyhow::Result<()> {
    let cluster = Cluster::start(guarded()).await?;
    for queue in ["orders", "other"] {
        cluster.client()?.create_queue(queue, Default::default()).await?;
    }
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    let put = async |amqp: &mut AmqpClient, entity: &str, seconds: u64| {
        let (token, audience) = token(entity, "RootManageSharedAccessKey", SECRET, seconds);
        amqp.put_token(&token, &audience).await
    };
    for entity in ["orders", "other"] {
        assert_eq!(put(&mut amqp, entity, 8).await?, 202);
    }
    let ends = amqp.sender("orders").await?.expect("authorized");
    let lasts = amqp.sender("other").await?.expect("authorized");
    assert_eq!(put(&mut amqp, "other", 600).await?, 202);
    let started = Instant::now();
    let error = amqp.detached(ends).await?;
    assert_eq!(error.condition.as_str(), "amqp:unauthorized-access");
    ensure!(started.elapsed() < Duration::from_secs(20), "after {:?}", started.elapsed());
    assert_eq!(amqp.send(lasts, 0, message()).await?, DeliveryState::ACCEPTED);
    assert!(amqp.sender("orders").await?.is_err(), "and no new one");
    assert_eq!(put(&mut amqp, "orders", 600).await?, 202);
    assert!(amqp.sender("orders").await?.is_ok());
    Ok(())
}

/// HTTP-12, HTTP-15, HTTP-16: Manage for everything, 401 with a body that SDKs read.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_http_12_http_14_http_15_requests_take_tokens_or_the_secret() -> anyhow::Result<()> {
    let cluster = Cluster::start(guarded()).await?;
    cluster.client()?.create_queue("target", Default::default()).await?;
    let ask =
        |request: &str, header: &str| ask(wire::tcp(cluster.addresses(1)[1])?, request, header);
    let sas = |resource: &str, name: &str, key: &str| {
        format!("Authorization: {}\r\n", sign(resource, name, key, now_s() + 60))
    };
    let root = |resource: &str| sas(resource, "RootManageSharedAccessKey", SECRET);
    let bearer = format!("Authorization: Bearer {SECRET}\r\n");
    for (request, header, status) in [
        ("GET /health/live", String::new(), 200),
        ("GET /metrics", String::new(), 401),
        ("GET /metrics", bearer.clone(), 200),
        ("GET /$Resources/queues", String::new(), 401),
        ("GET /$Resources/queues", root("https%3A%2F%2Flocalhost"), 200),
        ("GET /$Resources/queues", sas("https%3A%2F%2Flocalhost", "sender", "sender-key"), 401),
        ("GET /target", root("https%3a%2f%2flocalhost%2ftarget%3fapi-version%3d2021-05"), 200),
        ("GET /target", root("http%3A%2F%2Flocalhost%2Felsewhere"), 401),
        // FWD-2: Manage on the source is not Send on the target.
        ("PUT /source", root("http%3A%2F%2Flocalhost%2Fsource"), 401),
        ("PUT /source", root("https%3A%2F%2Flocalhost"), 201),
        ("PUT /bearer", bearer, 201),
    ] {
        let (found, body) = ask(request, &header)?;
        assert_eq!(found, status, "{request} {header} {body}");
    }
    let (_, body) = ask("GET /target", "")?;
    ensure!(body.contains("<Error><Code>401</Code><Detail>"), "{body}");
    Ok(())
}

/// CONN-1, CONN-2, HTTP-1: AMQP over TLS and through a WebSocket, HTTP and HTTPS on one port, and a
/// certificate that is replaced while the node runs.
#[tokio::test(flavor = "multi_thread")]
async fn conn_1_conn_2_http_1_tls_and_websockets_carry_what_plain_tcp_does() -> anyhow::Result<()> {
    let settings = Settings { nodes: 1, data_groups: 1, tls: true, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let trusted = cluster.dir().join("trusted.pem");
    std::fs::copy(cluster.certificate(), &trusted)?;
    let http = cluster.addresses(1)[1].to_owned();
    let large = vec![7; 200 * 1024];
    for path in ["", "/$servicebus/websocket", "/$servicebus/websocket/"] {
        let mut amqp = match path {
            "" => {
                AmqpClient::over(
                    wire::tls(cluster.amqps_address(1), &trusted)?,
                    Mechanism::Anonymous,
                )
                .await?
            }
            path => {
                AmqpClient::over(wire::websocket(&http, &trusted, path)?, Mechanism::Anonymous)
                    .await?
            }
        };
        let sender = amqp.sender("q").await?.expect("the queue is there");
        let body = Body::Binary(large.clone().into());
        let payload = Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new());
        assert_eq!(amqp.send(sender, 0, payload).await?, DeliveryState::ACCEPTED);
        let receiver = amqp.settled_receiver("q").await?.expect("the queue is there");
        amqp.grant(receiver, 1).await?;
        let payload = amqp.receive(receiver).await?.payload.ok().context("too large")?;
        ensure!(payload.ends_with(&large), "{path}: {} bytes", payload.len());
    }
    let (status, body) = ask(wire::tcp(&http)?, "GET /q", "")?;
    ensure!(status == 200 && body.contains("<id>http://localhost/q"), "{body}");
    let (status, body) = ask(wire::tls(&http, &trusted)?, "GET /q", "")?;
    ensure!(status == 200 && body.contains("<id>https://localhost/q"), "{body}");
    let (status, _) = ask(wire::tls(&http, &trusted)?, "GET /$servicebus/websocket", "")?;
    ensure!((400..500).contains(&status), "no WebSocket was asked for: {status}");

    cluster.certify_anew()?;
    cluster.signal(1, Signal::SIGHUP)?;
    let renewed = cluster.certificate();
    let until = Instant::now() + Duration::from_secs(20);
    while wire::tls(&http, &renewed).is_err() {
        ensure!(Instant::now() < until, "the certificate is not read again");
        std::thread::sleep(Duration::from_millis(50));
    }
    ensure!(wire::tls(&http, &trusted).is_err(), "the old one is still shown");
    Ok(())
}

/// QUOTA-13: one too many is told so; those that are there notice nothing, and a place that is free is
/// given away.
#[tokio::test(flavor = "multi_thread")]
async fn quota_13_conn_20_a_connection_too_many_is_told_so() -> anyhow::Result<()> {
    let config = "[amqp]\nconnections_max = 2\n";
    let settings = Settings { nodes: 1, data_groups: 1, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let connect = async || AmqpClient::connect(cluster.amqp_address(1)).await;
    let (mut first, second) = (connect().await?, connect().await?);
    let sender = first.sender("q").await?.expect("the queue is there");
    let told = format!("{:#}", connect().await.err().context("a third connection")?);
    ensure!(told.contains("amqp:resource-limit-exceeded"), "{told}");
    ensure!(told.contains("as many connections as it may, 2"), "{told}");
    assert_eq!(first.send(sender, 0, message()).await?, DeliveryState::ACCEPTED);
    drop(second);
    let until = Instant::now() + Duration::from_secs(30);
    while connect().await.is_err() {
        ensure!(Instant::now() < until, "the place of the second stays taken");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The same over the native API: any call on it is refused, certainly not done, and may be tried again.
#[tokio::test(flavor = "multi_thread")]
async fn quota_13_a_native_connection_too_many_is_told_so() -> anyhow::Result<()> {
    let config = "[grpc]\nconnections_max = 2\n";
    let settings = Settings { nodes: 1, data_groups: 1, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let connect = || {
        let give_up_after = Duration::from_secs(4);
        let options = ClientOptions { give_up_after, ..ClientOptions::default() };
        Client::with_options([cluster.addresses(1)[0]], options)
    };
    // The one that waited until the node was ready has gone, or goes at once.
    let until = Instant::now() + Duration::from_secs(30);
    let (first, second) = (connect()?, connect()?);
    for client in [&first, &second] {
        while client.status(true).await.is_err() {
            ensure!(Instant::now() < until, "no place for two");
        }
    }
    first.create_queue("q", Default::default()).await?;
    let third = connect()?;
    let told = third.send("q", vec![client::Message::new("x")]).await;
    let Err(client::Error::NotDone(detail)) = &told else { anyhow::bail!("{told:?}") };
    ensure!(detail.message.contains("as many connections as it may, 2"), "{detail}");
    ensure!(detail.name == "QuotaExceeded" && detail.rule == "ERR-10", "{detail:?}");
    first.send("q", vec![client::Message::new("still here")]).await?;
    drop(second);
    while third.status(true).await.is_err() {
        ensure!(Instant::now() < until + Duration::from_secs(30), "the place stays taken");
    }
    Ok(())
}

/// The native client over TLS: whom it trusts, and that nodes it learns of are reached the same way.
#[tokio::test(flavor = "multi_thread")]
async fn native_clients_speak_tls() -> anyhow::Result<()> {
    let settings = Settings { data_groups: 1, tls: true, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let port = cluster.addresses(1)[0].rsplit_once(':').context("a port")?.1;
    let connect = |address: String, tls: Option<Trust>| {
        let give_up_after = Duration::from_secs(5);
        let options = ClientOptions { tls, give_up_after, ..ClientOptions::default() };
        Client::with_options([address], options)
    };
    let trusted = || std::fs::read(cluster.certificate()).map(Trust::Authorities);
    for address in [format!("https://localhost:{port}"), format!("localhost:{port}")] {
        let client = connect(address.clone(), Some(trusted()?))?;
        let queue = address.replace([':', '/'], "-");
        client.create_queue(&queue, Default::default()).await?;
        // Whichever node leads its group.
        let sender = client.sender(&*queue, SenderOptions::default());
        sender.send(client::Message::new("over TLS")).await?;
        let mut receiver = client.receiver(&*queue, ReceiverOptions::default());
        let delivery = receiver.recv().await?;
        assert_eq!(delivery.body(), "over TLS");
        ensure!(receiver.complete(&delivery).failures().await.is_empty(), "not completed");
        assert_eq!(client.status(false).await?.nodes.len(), 3);
    }
    // Nobody vouches for a certificate that was made here.
    let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let stranger = Trust::Authorities(stranger.cert.pem().into_bytes());
    for (address, tls) in
        [(format!("https://localhost:{port}"), None), (format!("localhost:{port}"), Some(stranger))]
    {
        let Ok(client) = connect(address.clone(), tls) else { continue }; // No system certificates.
        let error = client.status(true).await.err().context("an unknown certificate")?;
        ensure!(matches!(error, client::Error::NotDone(_)), "{error:?}");
        ensure!(error.to_string().contains("certificate"), "{error}");
    }
    for (authority, code) in [(cluster.certificate(), 0), (cluster.dir().join("key.pem"), 2)] {
        let address = format!("localhost:{port}");
        let ran = Command::new(mayfly()?)
            .args(["queue", "list", "--connect", &address, "--tls-ca"])
            .arg(authority)
            .output()?;
        let told = String::from_utf8(ran.stderr)?;
        ensure!(ran.status.code() == Some(code), "{:?}: {told}", ran.status);
    }
    Ok(())
}

/// Clients that begin and never go on, on every port, keep nobody waiting.
#[tokio::test(flavor = "multi_thread")]
async fn stallers_on_every_port_hold_nobody_up() -> anyhow::Result<()> {
    const OF_EACH: usize = 50;
    let settings = Settings { nodes: 1, data_groups: 1, tls: true, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let [grpc, http, _] = cluster.addresses(1);
    let ports = [grpc, http, cluster.amqp_address(1), cluster.amqps_address(1)];
    // Nothing, half a TLS record, half a head, half a SASL frame, a frame of a size nobody sends.
    let beginnings: [&[u8]; 5] = [
        b"",
        &[0x16, 3, 1, 2, 0, 1],
        b"GET /q HTTP/1.1\r\nHost: loc",
        b"AMQP\x03\x01\x00\x00\x00\x00\x00\x26\x02\x01",
        b"AMQP\x03\x01\x00\x00\x7f\xff\xff\xff\x02\x01\x00\x00",
    ];
    let mut stallers = Vec::new();
    for (port, bytes) in ports.iter().flat_map(|port| beginnings.map(|bytes| (port, bytes))) {
        for _ in 0..OF_EACH {
            let mut stream = wire::tcp(port)?;
            // It may be hung up on at once.
            let _ = stream.write_all(bytes);
            stallers.push(stream);
        }
    }
    let started = Instant::now();
    for over_tls in [false, true] {
        let mut amqp = match over_tls {
            false => AmqpClient::connect(cluster.amqp_address(1)).await?,
            true => {
                let stream = wire::tls(cluster.amqps_address(1), &cluster.certificate())?;
                AmqpClient::over(stream, Mechanism::Anonymous).await?
            }
        };
        let sender = amqp.sender("q").await?.expect("the queue is there");
        assert_eq!(amqp.send(sender, 0, message()).await?, DeliveryState::ACCEPTED);
    }
    assert_eq!(ask(wire::tcp(http)?, "GET /q", "")?.0, 200);
    assert_eq!(ask(wire::tls(http, &cluster.certificate())?, "GET /q", "")?.0, 200);
    cluster.client()?.send("q", vec![client::Message::new("still here")]).await?;
    // Before any of them was given up.
    ensure!(started.elapsed() < Duration::from_secs(10), "after {:?}", started.elapsed());
    Ok(())
}
