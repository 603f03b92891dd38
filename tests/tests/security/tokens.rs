//! Tokens and keys of the configuration (CBS, SASL, HTTP-12 to HTTP-16), and how long they let in.

use std::time::{Duration, Instant};

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::Mechanism;
use anyhow::ensure;
use auth::sign;
use mayfly_tests::wire;
use mayfly_tests::{AmqpClient, Cluster};

use super::{SECRET, ask, condition, guarded, message, now_s, token};

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

/// CBS-15: each row an audience, and what a good token for it is answered.
#[tokio::test(flavor = "multi_thread")]
async fn cbs_15_a_token_for_what_does_not_exist_is_answered_so() -> anyhow::Result<()> {
    let cluster = Cluster::start(guarded()).await?;
    let client = cluster.client()?;
    client.create_queue("orders", Default::default()).await?;
    client.create_topic("news", Default::default()).await?;
    client.create_subscription("news", "all", Default::default(), None).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    for (entity, status) in [
        ("", 202),
        ("$cbs", 202),
        ("orders", 202),
        ("Orders/", 202),
        ("orders/$management", 202),
        ("orders/$DeadLetterQueue", 202),
        ("news/Subscriptions/All/$DeadLetterQueue/$management", 202),
        ("gone", 404),
        ("gone/$management", 404),
        ("gone/$DeadLetterQueue", 404),
        ("news/Subscriptions/gone", 404),
        ("orders/below", 404),
    ] {
        let (token, audience) = token(entity, "RootManageSharedAccessKey", SECRET, 60);
        assert_eq!(amqp.put_token(&token, &audience).await?, status, "{audience}");
    }
    // What there is is no affair of who may not know.
    let (token, audience) = token("gone", "RootManageSharedAccessKey", "guess", 60);
    assert_eq!(amqp.put_token(&token, &audience).await?, 401);
    client.create_queue("gone", Default::default()).await?;
    let (token, audience) = self::token("gone", "RootManageSharedAccessKey", SECRET, 60);
    assert_eq!(amqp.put_token(&token, &audience).await?, 202);
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
