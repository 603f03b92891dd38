//! Messages by plain HTTP against real nodes: sent, received and settled, and what the other
//! protocols make of them.

use amqp_protocol::Limits;
use amqp_protocol::codec::DeliveryState;
use amqp_protocol::message::Message;
use anyhow::Context;
use bytes::BytesMut;
use client::{Message as Native, ReceiverOptions, SenderOptions, v1, value};
use mayfly_tests::{AmqpClient, Cluster, HttpAnswer, Settings, ask};
use message_content::{Body, Neutral};

const BATCH: &str = "Content-Type: application/vnd.microsoft.servicebus.json\r\n";

async fn cluster() -> anyhow::Result<Cluster> {
    let cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    Ok(cluster)
}

fn properties(answer: &HttpAnswer) -> anyhow::Result<serde_json::Value> {
    Ok(serde_json::from_str(answer.header("brokerproperties").context("no BrokerProperties")?)?)
}

/// MSG-2: what one protocol sends, all receive.
#[tokio::test(flavor = "multi_thread")]
async fn rest_1_rest_3_rest_5_rest_6_a_message_crosses_from_http_to_the_others_and_back()
-> anyhow::Result<()> {
    let cluster = cluster().await?;
    let [one, two] = [1, 2].map(|id| cluster.addresses(id)[1].to_owned());
    let native = cluster.client()?;
    let headers = "Content-Type: text/plain\r\nPriority: \"High\"\r\nCount: 7\r\n\
        BrokerProperties: {\"MessageId\":\"m\",\"Label\":\"l\",\"TimeToLive\":60}\r\n";
    for _ in 0..2 {
        let sent = ask(&one, "POST /Q/messages?timeout=60", headers, "hello")?;
        assert_eq!((sent.status, sent.body.as_str()), (201, ""));
    }

    let mut receiver = native.receiver("q", ReceiverOptions::default());
    let delivery = receiver.recv().await?;
    let seven = v1::Value { kind: Some(v1::value::Kind::IntValue(7)) };
    assert_eq!(delivery.body(), "hello");
    assert_eq!((delivery.message_id(), delivery.property("count")), (Some("m"), Some(&seven)));
    assert!(receiver.complete(&delivery).failures().await.is_empty());
    receiver.close().await;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(2)).await?;
    let link = amqp.receiver("q").await?.expect("the queue is there");
    amqp.grant(link, 1).await?;
    let delivery = amqp.receive(link).await?;
    let limits = Limits::default();
    let payload = delivery.payload.clone().ok().context("it is too large")?;
    let neutral = Neutral::from_amqp(&Message::parse(payload, &limits)?, &limits)?;
    assert_eq!(neutral.body, Body::Binary("hello".into()));
    assert_eq!(
        (neutral.subject.as_deref(), neutral.content_type.as_deref()),
        (Some("l"), Some("text/plain"))
    );
    assert_eq!(neutral.properties["priority"], domain::Value::String("High".to_owned()));
    assert_eq!(amqp.settle(&delivery, DeliveryState::ACCEPTED).await?, DeliveryState::ACCEPTED);
    amqp.drain(link).await?;

    // The reverse.
    let sender = native.sender("q", SenderOptions::default());
    sender
        .send(Native::new("from native").message_id("n").property("Mine", value::long(7)))
        .await?;
    let taken = ask(&two, "DELETE /q/messages/head?timeout=10", "", "")?;
    assert_eq!((taken.status, taken.body.as_str()), (200, "from native"));
    assert_eq!(taken.header("mine"), Some("7"));
    assert_eq!(properties(&taken)?["MessageId"], "n");
    assert_eq!(taken.header("location"), None);
    let link = amqp.sender("q").await?.expect("the queue is there");
    let message = Neutral { body: Body::Binary("from amqp".into()), ..Neutral::default() };
    assert_eq!(
        amqp.send(link, 0, message.to_amqp(&mut BytesMut::new())).await?,
        DeliveryState::ACCEPTED
    );
    let taken = ask(&one, "DELETE /q/messages/head?timeout=10", "", "")?;
    assert_eq!((taken.status, taken.body.as_str()), (200, "from amqp"));
    Ok(())
}

/// LOCK-8, LOCK-9, LOCK-13: at the address the answer names.
#[tokio::test(flavor = "multi_thread")]
async fn lock_8_http_8_rest_4_to_rest_8_a_locked_message_is_settled_at_its_address()
-> anyhow::Result<()> {
    let cluster = cluster().await?;
    let one = cluster.addresses(1)[1].to_owned();
    let head = "POST /q/messages/head?timeout=5";
    let at = |answer: &HttpAnswer| -> anyhow::Result<String> {
        let location = answer.header("location").context("no Location")?;
        Ok(location.strip_prefix(&format!("http://{one}")).context("elsewhere")?.to_owned())
    };
    let batch = r#"[{"Body":"one","BrokerProperties":{"Label":"ü"}},{"Body":"two"}]"#;
    assert_eq!(ask(&one, "POST /q/messages", BATCH, batch)?.status, 201);

    let locked = ask(&one, head, "", "")?;
    assert_eq!((locked.status, locked.body.as_str()), (201, "one"));
    let told = properties(&locked)?;
    assert_eq!(
        (&told["SequenceNumber"], &told["DeliveryCount"], &told["Label"]),
        (&1.into(), &1.into(), &"ü".into())
    );
    assert!(told["LockedUntilUtc"].as_str().is_some_and(|at| at.ends_with(" GMT")));
    let renewed = ask(&one, &format!("POST {}", at(&locked)?), "", "")?;
    assert_eq!(renewed.status, 200, "{}", renewed.body);
    assert!(properties(&renewed)?["LockedUntilUtc"].is_string());
    assert_eq!(ask(&one, &format!("PUT {}", at(&locked)?), "", "")?.status, 200);

    let again = ask(&one, head, "", "")?;
    assert_eq!((again.body.as_str(), &properties(&again)?["DeliveryCount"]), ("one", &2.into()));
    assert_eq!(ask(&one, &format!("DELETE {}", at(&again)?), "", "")?.status, 200);
    let lost = ask(&one, &format!("DELETE {}", at(&again)?), "", "")?;
    assert_eq!(lost.status, 404, "{}", lost.body);
    assert!(lost.body.contains("<Code>404</Code>"), "{}", lost.body);
    assert_eq!(ask(&one, "DELETE /q/messages/head?timeout=5", "", "")?.body, "two");
    let none = ask(&one, "DELETE /q/messages/head?timeout=0", "", "")?;
    assert_eq!((none.status, none.body.as_str()), (204, ""));

    // Topics and their subscriptions; dead-letter queues.
    let native = cluster.client()?;
    native.create_topic("t", Default::default()).await?;
    let properties =
        v1::SubscriptionProperties { max_delivery_count: Some(1), ..Default::default() };
    native.create_subscription("t", "s", properties, None).await?;
    assert_eq!(ask(&one, "POST /t/messages", "", "copy")?.status, 201);
    let locked = ask(&one, "POST /t/subscriptions/s/messages/head?timeout=5", "", "")?;
    assert_eq!((locked.status, locked.body.as_str()), (201, "copy"));
    assert_eq!(ask(&one, &format!("PUT {}", at(&locked)?), "", "")?.status, 200);
    let path = "/t/Subscriptions/s/$DeadLetterQueue/messages/head?timeout=5";
    let dead = ask(&one, &format!("POST {path}"), "", "")?;
    assert_eq!(
        dead.header("deadletterreason"),
        Some("\"MaxDeliveryCountExceeded\""),
        "{}",
        dead.head
    );
    assert_eq!(ask(&one, &format!("DELETE {}", at(&dead)?), "", "")?.status, 200);
    let left = native.get_subscription("t", "s").await?.counters.unwrap_or_default();
    assert_eq!((left.active, left.dead_lettered), (0, 0));

    for (request, headers, body, status) in [
        ("POST /none/messages", "", "x".to_owned(), 410),
        ("DELETE /none/messages/head?timeout=0", "", String::new(), 410),
        ("POST /q/messages", "BrokerProperties: {\r\n", "x".to_owned(), 400),
        ("POST /q/messages", BATCH, "[]".to_owned(), 400),
        ("POST /q/messages/head?timeout=soon", "", String::new(), 400),
        ("POST /t/messages/head?timeout=0", "", String::new(), 400),
        ("POST /q/messages", "", "x".repeat(300 * 1024), 403),
        ("GET /q/messages/1/00000000-0000-0001-0000-000000000001", "", String::new(), 405),
    ] {
        let refused = ask(&one, request, headers, &body)?;
        assert_eq!(refused.status, status, "{request}: {}", refused.body);
        assert!(refused.body.contains("<Error><Code>"), "{}", refused.body);
    }
    Ok(())
}

/// HTTP-8, HTTP-19, HTTP-20: what a path takes is told to whoever asks, and pages of the origins that are
/// named may send requests, those of others not.
#[tokio::test(flavor = "multi_thread")]
async fn http_8_http_19_http_20_options_and_origins() -> anyhow::Result<()> {
    let config = "[http]\ncors_origins = [\"https://console.example\"]\n";
    let secret = Some("the-cluster-secret");
    let settings = Settings { nodes: 1, data_groups: 1, secret, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let [_, http, _] = cluster.addresses(1);
    let options = |path: &str, headers: &str| ask(http, &format!("OPTIONS {path}"), headers, "");

    for (path, status, allow) in [
        ("/q", 204, "GET, PUT, DELETE, OPTIONS"),
        ("/$Resources/queues", 204, "GET, OPTIONS"),
        ("/health", 204, "GET, PUT, DELETE, OPTIONS"),
        ("/$nothing", 404, "OPTIONS"),
    ] {
        let answer = options(path, "")?;
        assert_eq!((answer.status, answer.header("allow")), (status, Some(allow)), "{path}");
    }
    let answer =
        ask(http, "POST /$Resources/queues", "Authorization: Bearer the-cluster-secret\r\n", "")?;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, OPTIONS")));

    let preflight = "Access-Control-Request-Method: PUT\r\n\
                     Access-Control-Request-Headers: authorization\r\n";
    for (origin, allowed) in [
        ("https://console.example", Some("https://console.example")),
        ("https://other.example", None),
    ] {
        let from = format!("Origin: {origin}\r\n");
        let answer = options("/q", &format!("{from}{preflight}"))?;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, allowed));
        let answer = ask(
            http,
            "GET /q",
            &format!("{from}Authorization: Bearer the-cluster-secret\r\n"),
            "",
        )?;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (404, allowed));
    }
    Ok(())
}
