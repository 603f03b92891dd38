//! Who guesses keys is slowed down and then not listened to; whoever has the key is served all the while.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use amqp_protocol::engine::Mechanism;
use anyhow::ensure;
use client::{Client, ClientOptions, Message};
use mayfly_tests::{AmqpClient, Cluster, Settings, wire};

use super::{SECRET, ask, token};

/// One at once for each key name, one that waits, and then none for half a minute.
const CONFIG: &str = "wrong_keys_per_minute = 2
[[security.key]]
name = \"worker\"
key = \"the-key-of-the-worker\"
rights = [\"listen\", \"send\"]
";
const WRONG: &str = "a-wrong-key-of-the-worker";
const RIGHT: &str = "the-key-of-the-worker";

fn from(own: &str, to: &str) -> anyhow::Result<TcpStream> {
    wire::tcp_from(own.parse()?, to)
}

async fn start() -> anyhow::Result<Cluster> {
    let secret = Some(SECRET);
    let settings =
        Settings { nodes: 1, data_groups: 1, secret, config: CONFIG, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("orders", Default::default()).await?;
    Ok(cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guesser_waits_and_is_refused_unheard_and_nobody_elsewhere_is_held_up()
-> anyhow::Result<()> {
    let cluster = start().await?;
    let http = cluster.addresses(1)[1].to_owned();
    let tries = move |key: &str, own: &str| {
        let headers = format!("Authorization: {}\r\n", auth::authorization(Some("worker"), key));
        let began = Instant::now();
        let (status, text) = ask(from(own, &http)?, "POST /orders/messages", &headers)?;
        anyhow::Ok((status, text, began.elapsed()))
    };
    assert_eq!(tries(WRONG, "127.0.0.2")?.0, 401);
    let (status, _, took) = tries(WRONG, "127.0.0.2")?;
    ensure!(status == 401 && took >= Duration::from_millis(500), "{status} {took:?}");
    let (status, text, _) = tries(WRONG, "127.0.0.2")?;
    let told = text.contains("too many wrong keys came from this address");
    ensure!(status == 429 && told && text.to_lowercase().contains("retry-after: "), "{text}");

    // He goes on and on, and meanwhile whoever has the key is served, under the same name, over each protocol.
    let (guesser, stop) = (tries.clone(), Arc::new(AtomicBool::new(false)));
    let until = stop.clone();
    let guesser = std::thread::spawn(move || {
        let mut statuses = Vec::new();
        while !until.load(Ordering::Relaxed) {
            statuses.push(guesser(WRONG, "127.0.0.2")?.0);
        }
        anyhow::Ok(statuses)
    });
    let (status, text, _) = tries(RIGHT, "127.0.0.1")?;
    ensure!(status == 201, "{text}");
    let (secret, key_name) = (Some(RIGHT.into()), Some("worker".into()));
    let options = ClientOptions { secret, key_name, ..Default::default() };
    let client = Client::with_options([cluster.addresses(1)[0]], options)?;
    client.send("orders", vec![Message::new("x")]).await?;
    let login = Mechanism::plain("worker", RIGHT);
    let mut amqp = AmqpClient::over(wire::tcp(cluster.amqp_address(1))?, login).await?;
    assert!(amqp.sender("orders").await?.is_ok());
    stop.store(true, Ordering::Relaxed);
    let statuses = guesser.join().map_err(|_| anyhow::anyhow!("the guesser"))??;
    ensure!(!statuses.is_empty() && statuses.iter().all(|status| *status == 429), "{statuses:?}");

    // Whatever he sends by that name is not looked at; by another it is.
    assert_eq!(tries(RIGHT, "127.0.0.2")?.0, 429);
    let headers = format!("Authorization: Bearer {SECRET}\r\n");
    let stream = from("127.0.0.2", cluster.addresses(1)[1])?;
    let (status, metrics) = ask(stream, "GET /metrics", &headers)?;
    assert_eq!(status, 200);
    let line = "mayfly_refused_proofs_total{protocol=\"http\",reason=\"too-many\"}";
    ensure!(metrics.contains(line), "{metrics}");
    Ok(())
}

/// Over AMQP a login is refused as any wrong one, and a token is told to come again.
#[tokio::test(flavor = "multi_thread")]
async fn amqp_holds_guessers_too() -> anyhow::Result<()> {
    let cluster = start().await?;
    let from_there = async |login: Mechanism| {
        let stream = from("127.0.0.3", cluster.amqp_address(1))?;
        AmqpClient::over(stream, login).await
    };
    let mut amqp = from_there(Mechanism::Anonymous).await?;
    let mut tokens = amqp.open_cbs().await?;
    let (wrong, audience) = token("orders", "worker", WRONG, 60);
    let (right, _) = token("orders", "worker", RIGHT, 60);
    assert_eq!(amqp.put_token_on(&mut tokens, &wrong, &audience).await?, 401);
    let began = Instant::now();
    assert_eq!(amqp.put_token_on(&mut tokens, &wrong, &audience).await?, 401);
    ensure!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
    for proof in [&wrong, &right] {
        assert_eq!(amqp.put_token_on(&mut tokens, proof, &audience).await?, 503);
    }
    assert!(from_there(Mechanism::plain("worker", RIGHT)).await.is_err());
    assert!(from_there(Mechanism::plain("RootManageSharedAccessKey", SECRET)).await.is_ok());
    let mut elsewhere = AmqpClient::connect(cluster.amqp_address(1)).await?;
    assert_eq!(elsewhere.put_token(&right, &audience).await?, 202);
    Ok(())
}
