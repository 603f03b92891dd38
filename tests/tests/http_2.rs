//! HTTP/2 on the HTTP port (HTTP-27): requests side by side on one connection, and what one may cost.

use std::time::Duration;

use anyhow::{Context, ensure};
use mayfly_tests::wire;
use mayfly_tests::{Cluster, Http2Answer, Http2Client, Settings};
use tokio::time::timeout;

const SECRET: &str = "the-cluster-secret";
const BEARER: (&str, &str) = ("authorization", "Bearer the-cluster-secret");
/// Of any answer on a busy machine.
const WITHIN: Duration = Duration::from_secs(30);
/// A connection without a request is told goodbye after 30 s.
const IDLE_ENDS_WITHIN: Duration = Duration::from_secs(75);

async fn guarded() -> anyhow::Result<Cluster> {
    let settings = Settings {
        nodes: 1,
        data_groups: 1,
        tls: true,
        any: true,
        secret: Some(SECRET),
        ..Settings::default()
    };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    Ok(cluster)
}

async fn connect(cluster: &Cluster) -> anyhow::Result<Http2Client> {
    let [_, http, _] = cluster.addresses(1);
    let stream = wire::tls_offering(http, &cluster.certificate(), None, &["h2", "http/1.1"])?;
    ensure!(wire::spoken(&stream).as_deref() == Some("h2"), "{:?}", wire::spoken(&stream));
    Http2Client::over(stream).await
}

/// Each row: what a client offers by ALPN to a port, and what is spoken.
#[tokio::test(flavor = "multi_thread")]
async fn http_27_alpn_settles_on_what_a_port_takes() -> anyhow::Result<()> {
    let cluster = guarded().await?;
    let ([grpc, http, _], any) = (cluster.addresses(1), cluster.any_address(1));
    for (address, offered, spoken) in [
        (http, &["h2", "http/1.1"][..], Some("h2")),
        (http, &["http/1.1", "h2"], Some("h2")),
        (http, &["http/1.1"], Some("http/1.1")),
        (http, &["h2"], Some("h2")),
        (http, &["amqp"], None),
        (http, &[], None),
        (grpc, &["h2"], Some("h2")),
        (any, &["h2"], Some("h2")),
        (any, &["h2", "http/1.1"], Some("http/1.1")),
    ] {
        let stream = wire::tls_offering(address, &cluster.certificate(), None, offered)?;
        ensure!(wire::spoken(&stream).as_deref() == spoken, "{address} {offered:?}");
    }
    Ok(())
}

/// A receiver that waits holds up nobody else on its connection, and gets what another request sends.
#[tokio::test(flavor = "multi_thread")]
async fn http_27_rest_5_requests_of_a_connection_run_beside_each_other() -> anyhow::Result<()> {
    let cluster = guarded().await?;
    let mut client = connect(&cluster).await?;
    let waiting = client.send("POST /q/messages/head?timeout=25", &[BEARER], "").await?;
    let waiting = tokio::spawn(Http2Answer::of(waiting));
    for (request, headers, status) in [
        ("GET /health", &[][..], 200),
        ("GET /metrics", &[], 401),
        ("GET /metrics", &[BEARER], 200),
        ("GET /q", &[], 401),
        ("GET /q", &[BEARER], 200),
        ("GET /$nothing", &[BEARER], 404),
        ("GET /q", &[BEARER, ("host", "elsewhere")], 400),
    ] {
        let answer = timeout(WITHIN, client.ask(request, headers, "")).await??;
        ensure!(answer.status == status, "{request}: {answer:?}");
    }
    let answer = client.ask("GET /q", &[BEARER], "").await?;
    ensure!(answer.body.contains("<id>https://localhost/q"), "{answer:?}");
    ensure!(!waiting.is_finished(), "there is nothing to receive yet");
    let sent = client.ask("POST /q/messages", &[BEARER], "hello").await?;
    ensure!(sent.status == 201, "{sent:?}");
    let received = timeout(WITHIN, waiting).await???;
    ensure!(received.status == 201 && received.body == "hello", "{received:?}");
    let lock = received.headers.get("location").context("an address")?;
    ensure!(lock.starts_with("https://localhost/q/messages/"), "{lock}");
    let path = lock.trim_start_matches("https://localhost");
    let completed = client.ask(&format!("DELETE {path}"), &[BEARER], "").await?;
    ensure!(completed.status == 200, "{completed:?}");
    // gRPC is somewhere else, and is told so in its own words.
    let grpc = [("content-type", "application/grpc"), ("te", "trailers")];
    let told = client.ask("POST /mayfly.v1.Messaging/Send", &grpc, "").await?;
    let port = cluster.addresses(1)[0].rsplit(':').next().context("a port")?.to_owned();
    let message = told.headers.get("grpc-message").context("a message")?;
    ensure!(told.headers["grpc-status"] == "12" && message.contains(&port), "{told:?}");
    Ok(())
}

/// What a stranger may cost: so many requests at a time, heads so long, and requests given up at once.
#[tokio::test(flavor = "multi_thread")]
async fn http_27_a_connection_is_held_to_its_limits() -> anyhow::Result<()> {
    let cluster = guarded().await?;
    let mut client = connect(&cluster).await?;
    let first = client.ask("GET /health", &[], "").await?;
    ensure!(first.status == 200, "{first:?}");
    assert_eq!(client.requests.current_max_send_streams(), 100);
    let long = "x".repeat(70 * 1024);
    let refused = client.ask("GET /health", &[("x-long", &long)], "").await;
    ensure!(refused.as_ref().map_or(true, |answer| answer.status == 431), "{refused:?}");

    // As in CVE-2023-44487: opened, and given up before anybody looks.
    let mut flood = connect(&cluster).await?;
    let ended = timeout(WITHIN, async {
        loop {
            match flood.send("GET /q", &[BEARER], "").await {
                // To be dropped is to be reset.
                Ok(answer) => drop(answer),
                Err(error) => return error,
            }
        }
    });
    let ended = ended.await.context("it goes on for ever")?;
    let log = cluster.node_log(1);
    ensure!(!log.contains("panicked"), "{ended}: {log}");
    // Nobody else notices.
    let answer = connect(&cluster).await?.ask("GET /q", &[BEARER], "").await?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(())
}

/// A connection on which nothing is asked, or only half of something, ends.
#[tokio::test(flavor = "multi_thread")]
async fn http_27_a_connection_without_a_request_ends() -> anyhow::Result<()> {
    let cluster = guarded().await?;
    let idle = connect(&cluster).await?;
    let mut asked = connect(&cluster).await?;
    let answer = asked.ask("GET /health", &[], "").await?;
    ensure!(answer.status == 200, "{answer:?}");
    // It says that a body comes.
    let mut half = connect(&cluster).await?;
    half.requests = half.requests.clone().ready().await?;
    let request = tonic::codegen::http::Request::builder()
        .method("POST")
        .uri("https://localhost/q/messages")
        .header(BEARER.0, BEARER.1);
    let (answer, _body) = half.requests.send_request(request.body(())?, false)?;
    let answer =
        timeout(WITHIN, Http2Answer::of(answer)).await.context("its body is waited for")??;
    ensure!(answer.status == 408, "{answer:?}");
    for (what, connection) in [("idle", idle.connection), ("asked", asked.connection)] {
        // With a goodbye or without, it is over.
        drop(timeout(IDLE_ENDS_WITHIN, connection).await.with_context(|| what)?);
    }
    Ok(())
}
