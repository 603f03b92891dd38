//! What AMQP clients of other brokers ask for in an attach, against real nodes: filters, browsers,
//! subscriptions of JMS and temporary queues (LINK-20 to LINK-23). Selectors are in `amqp_selectors`. `tests/sdk/jms` holds
//! the same with such a client, where there is Java.

use std::time::{Duration, Instant};

use amqp::condition;
use amqp_protocol::Limits;
use amqp_protocol::codec::{
    AnyTarget, Attach, DeliveryState, Map, Outcome, Role, SenderSettleMode, Source, Symbol,
    Symbols, Target, Value, descriptor,
};
use amqp_protocol::engine::{Delivery, LinkId, Mechanism};
use amqp_protocol::message::{Message, MessageBuilder};
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use client::{Client, QueuePath};
use mayfly_tests::{AmqpClient, Cluster, Settings, wire};
use message_content::{Body, Neutral};

/// A browser that has seen all looks again after a second, on a busy machine a little later.
const LOOKS_WITHIN: Duration = Duration::from_secs(20);

async fn cluster(nodes: u64) -> anyhow::Result<(Cluster, Client, AmqpClient)> {
    let settings = Settings { nodes, data_groups: 1, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("q", Default::default()).await?;
    let amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    Ok((cluster, client, amqp))
}

fn message(body: &str) -> Bytes {
    let body = Body::Binary(Bytes::copy_from_slice(body.as_bytes()));
    Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

async fn send(amqp: &mut AmqpClient, queue: &str, bodies: &[&str]) -> anyhow::Result<()> {
    let link = amqp.sender(queue).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    for body in bodies {
        assert_eq!(amqp.send(link, 0, message(body)).await?, DeliveryState::ACCEPTED);
    }
    Ok(amqp.detach(link).await?)
}

fn body(delivery: &Delivery) -> anyhow::Result<String> {
    let limits = Limits::default();
    let payload = delivery.payload.clone().ok().context("it is too large")?;
    match Neutral::from_amqp(&Message::parse(payload, &limits)?, &limits)?.body {
        Body::Binary(bytes) => Ok(std::str::from_utf8(&bytes)?.to_owned()),
        Body::Amqp(sections) => anyhow::bail!("no bytes: {sections:?}"),
    }
}

fn symbols(name: &'static str) -> Symbols {
    [Symbol::from_static(name)].into_iter().collect()
}

fn receiver(amqp: &mut AmqpClient, source: Source) -> Attach {
    Attach { source: Some(source), ..Attach::receiver(&amqp.link_name(), "") }
}

async fn browser(amqp: &mut AmqpClient, address: &str) -> anyhow::Result<(LinkId, Attach)> {
    let distribution_mode = Some(Symbol::from_static("copy"));
    let source = Source { address: Some(address.into()), distribution_mode, ..Source::default() };
    let attach = receiver(amqp, source);
    amqp.attach(attach).await?.map_err(|error| anyhow::anyhow!("{error:?}"))
}

/// The words that a link is refused with, which has to be `amqp:not-implemented`.
async fn not_implemented(amqp: &mut AmqpClient, source: Source) -> anyhow::Result<String> {
    let attach = receiver(amqp, source);
    let Err(error) = amqp.attach(attach).await? else { anyhow::bail!("it is accepted") };
    ensure!(error.condition.as_str() == condition::NOT_IMPLEMENTED, "{error:?}");
    Ok(error.description.unwrap_or_default().to_string())
}

/// Each row a filter; nobody is sent what it was to keep away, and the connection goes on.
#[tokio::test(flavor = "multi_thread")]
async fn link_20_a_filter_that_is_not_applied_is_refused() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(1).await?;
    send(&mut amqp, "q", &["red"]).await?;
    let no_local =
        Value::Described(Box::new((Value::Ulong(0x468c_0000_0003), Value::List(Vec::new()))));
    for (name, filter, words) in [
        ("no-local", no_local, "a no-local filter is not offered"),
        ("com.example:mine", Value::Null, "the filter 'com.example:mine' is not offered"),
    ] {
        for mode in [None, Some(Symbol::from_static("copy"))] {
            let filter = Some(Map::default().symbol(name, filter.clone()));
            let address = Some("q".into());
            let source = Source { address, filter, distribution_mode: mode, ..Source::default() };
            let told = not_implemented(&mut amqp, source).await?;
            ensure!(told.starts_with(words), "{name}: {told}");
        }
    }
    let link = amqp.receiver("q").await?.expect("the queue is there");
    amqp.grant(link, 1).await?;
    assert_eq!(body(&amqp.receive(link).await?)?, "red");
    assert_eq!(client.peek(&QueuePath::main("q"), 0, 9).await?.len(), 1);
    Ok(())
}

/// LINK-4, LINK-21: whatever settle mode it asks for, a browser is sent copies. JMS asks for settled ones.
#[tokio::test(flavor = "multi_thread")]
async fn link_21_a_browser_shows_all_and_takes_nothing() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(3).await?;
    let bodies: Vec<String> = (0..150).map(|n| format!("m{n}")).collect();
    let names: Vec<&str> = bodies.iter().map(String::as_str).collect();
    send(&mut amqp, "q", &names).await?;
    let locker = amqp.receiver("q").await?.expect("the queue is there");
    amqp.grant(locker, 1).await?;
    let locked = amqp.receive(locker).await?;
    for mode in [SenderSettleMode::Settled, SenderSettleMode::Unsettled, SenderSettleMode::Mixed] {
        let distribution_mode = Some(Symbol::from_static("copy"));
        let source = Source { address: Some("q".into()), distribution_mode, ..Source::default() };
        let mut attach = receiver(&mut amqp, source);
        attach.snd_settle_mode = mode;
        let (link, answer) = amqp.attach(attach).await?.expect("the queue is there");
        let source = answer.source.context("no source")?;
        assert_eq!(source.distribution_mode, Some(Symbol::from_static("copy")));
        assert_eq!(answer.snd_settle_mode, SenderSettleMode::Settled);
        // Less than there is, then more.
        amqp.grant(link, 100).await?;
        let mut seen = Vec::new();
        for _ in 0..100 {
            seen.push(amqp.receive(link).await?);
        }
        amqp.grant(link, 100).await?;
        amqp.drain(link).await?;
        seen.extend(std::iter::from_fn(|| amqp.received(link)));
        ensure!(seen.iter().all(|delivery| delivery.settled), "copies have no verdict");
        let shown: Vec<String> = seen.iter().map(body).collect::<Result<_, _>>()?;
        assert_eq!(shown, bodies, "{mode:?}");
        amqp.detach(link).await?;
    }
    assert_eq!(amqp.settle(&locked, DeliveryState::ACCEPTED).await?, DeliveryState::ACCEPTED);
    assert_eq!(client.peek(&QueuePath::main("q"), 0, 250).await?.len(), 149, "all the others");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn link_21_a_browser_that_waits_is_shown_what_comes() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(1).await?;
    let (link, _) = browser(&mut amqp, "q").await?;
    amqp.grant(link, 10).await?;
    send(&mut amqp, "q", &["a"]).await?;
    assert_eq!(body(&amqp.receive(link).await?)?, "a");
    send(&mut amqp, "q", &["b"]).await?;
    let since = Instant::now();
    assert_eq!(body(&amqp.receive(link).await?)?, "b");
    ensure!(since.elapsed() < LOOKS_WITHIN, "after {:?}", since.elapsed());
    client.delete_queue("q").await?;
    assert_eq!(amqp.detached(link).await?.condition.as_str(), condition::NOT_FOUND);
    Ok(())
}

/// LINK-21: what cannot be browsed is said; any other mode is a receiver's, and not repeated.
#[tokio::test(flavor = "multi_thread")]
async fn link_3_link_21_the_answer_says_what_is_in_force() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(1).await?;
    client.create_topic("t", Default::default()).await?;
    let mode = |mode| Some(Symbol::from_static(mode));
    for (asked, told) in [(None, None), (mode("move"), mode("move")), (mode("mine"), None)] {
        let address = Some("/Q".into());
        let source = Source { address, distribution_mode: asked.clone(), ..Source::default() };
        let attach = receiver(&mut amqp, source);
        let (_, answer) = amqp.attach(attach).await?.expect("the queue is there");
        let source = answer.source.context("no source")?;
        assert_eq!((source.address.as_deref(), source.distribution_mode), (Some("/Q"), told));
    }
    let refused = browser(&mut amqp, "t").await.map(drop).expect_err("a topic has no messages");
    ensure!(refused.to_string().contains(condition::NOT_ALLOWED), "{refused}");
    let refused = browser(&mut amqp, "none").await.map(drop).expect_err("there is no such queue");
    ensure!(refused.to_string().contains(condition::NOT_FOUND), "{refused}");
    let source = Source {
        address: Some("q".into()),
        distribution_mode: mode("copy"),
        filter: Some(Map::default().symbol("com.microsoft:session-filter", "s".into())),
        ..Source::default()
    };
    not_implemented(&mut amqp, source).await?;
    send(&mut amqp, "q", &["the connection goes on"]).await
}

/// Each row how lasting the source is, and what the receiver says that it can be.
#[tokio::test(flavor = "multi_thread")]
async fn link_22_a_subscription_of_jms_is_refused() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(1).await?;
    client.create_topic("t", Default::default()).await?;
    client.create_subscription("t", "s", Default::default(), None).await?;
    for (address, durable, policy, capability) in [
        ("t", 2, "never", "topic"),
        ("t/Subscriptions/s", 2, "never", "topic"),
        ("t", 0, "link-detach", "shared"),
    ] {
        let source = Source {
            address: Some(address.into()),
            durable,
            expiry_policy: Some(Symbol::from_static(policy)),
            capabilities: symbols(capability),
            ..Source::default()
        };
        let told = not_implemented(&mut amqp, source).await?;
        ensure!(told.contains("'TOPIC/Subscriptions/NAME'"), "{told}");
    }
    send(&mut amqp, "t", &["a"]).await?;
    let link = amqp.receiver("t/Subscriptions/s").await?.expect("it is there");
    amqp.grant(link, 1).await?;
    assert_eq!(body(&amqp.receive(link).await?)?, "a");
    Ok(())
}

fn temporary_receiver(amqp: &mut AmqpClient, capability: &'static str) -> Attach {
    let capabilities = symbols(capability);
    receiver(amqp, Source { dynamic: true, capabilities, ..Source::default() })
}

fn temporary_sender(amqp: &mut AmqpClient) -> Attach {
    let target = AnyTarget::Node(Target { dynamic: true, ..Target::default() });
    Attach { target: Some(target), ..Attach::sender(&amqp.link_name(), "") }
}

fn address(attach: &Attach) -> anyhow::Result<String> {
    // Of an answer: who sends is the other side.
    let address = match attach.role {
        Role::Sender => attach.source.as_ref().and_then(|source| source.address.as_deref()),
        Role::Receiver => attach.target.as_ref().and_then(AnyTarget::address),
    };
    address.map(str::to_owned).context("no address")
}

async fn is_gone(client: &Client, queue: &str) -> anyhow::Result<()> {
    let until = Instant::now() + LOOKS_WITHIN;
    while client.get_queue(queue).await.is_ok() {
        ensure!(Instant::now() < until, "the queue stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The queue is anybody's to send to, on whichever node, and goes with its link or connection.
#[tokio::test(flavor = "multi_thread")]
async fn link_23_a_temporary_queue_goes_with_its_link() -> anyhow::Result<()> {
    let (cluster, client, mut amqp) = cluster(3).await?;
    let attach = temporary_receiver(&mut amqp, "temporary-queue");
    let (own, answer) = amqp.attach(attach).await?.expect("it is made");
    let first = address(&answer)?;
    ensure!(answer.source.is_some_and(|source| source.dynamic), "it is dynamic");
    let mut other = AmqpClient::connect(cluster.amqp_address(2)).await?;
    send(&mut other, &first, &["reply"]).await?;
    amqp.grant(own, 1).await?;
    let delivery = amqp.receive(own).await?;
    assert_eq!(body(&delivery)?, "reply");
    assert_eq!(amqp.settle(&delivery, DeliveryState::ACCEPTED).await?, DeliveryState::ACCEPTED);

    let attach = temporary_sender(&mut amqp);
    let (_, answer) = amqp.attach(attach).await?.expect("it is made");
    let second = address(&answer)?;
    ensure!(first != second, "each has its own");
    let found = client.get_queue(&second).await?;
    let idle = found.properties.and_then(|properties| properties.auto_delete_on_idle_ms);
    assert_eq!(idle, Some(300_000), "of a node that dies none is left");
    amqp.detach(own).await?;
    is_gone(&client, &first).await?;
    client.get_queue(&second).await?;
    drop(amqp); // Lost, without a goodbye.
    is_gone(&client, &second).await
}

/// Nothing goes over the link of a queue that others use; it stays all the same.
#[tokio::test(flavor = "multi_thread")]
async fn link_23_a_temporary_queues_link_is_not_idle() -> anyhow::Result<()> {
    let config = "[amqp]\nlink_idle_timeout = \"1s\"\n";
    let settings = Settings { nodes: 1, data_groups: 1, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("q", Default::default()).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    let attach = temporary_sender(&mut amqp);
    let (_, answer) = amqp.attach(attach).await?.expect("it is made");
    let idle = amqp.receiver("q").await?.expect("the queue is there");
    assert_eq!(amqp.detached(idle).await?.condition.as_str(), condition::DETACH_FORCED);
    send(&mut amqp, &address(&answer)?, &["a"]).await
}

/// To have a queue made takes what making one takes.
#[tokio::test(flavor = "multi_thread")]
async fn link_23_a_temporary_queue_takes_manage() -> anyhow::Result<()> {
    const KEY: &str = r#"
[[security.key]]
name = "user"
key = "user-key"
rights = ["listen", "send"]
"#;
    let (secret, config) = (Some("the-cluster-secret"), KEY);
    let settings = Settings { nodes: 1, data_groups: 1, secret, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    for (name, key, is_made) in
        [("user", "user-key", false), ("RootManageSharedAccessKey", "the-cluster-secret", true)]
    {
        let login = Mechanism::plain(name, key);
        let mut amqp = AmqpClient::over(wire::tcp(cluster.amqp_address(1))?, login).await?;
        for attach in [temporary_sender(&mut amqp), temporary_receiver(&mut amqp, "queue")] {
            match amqp.attach(attach).await? {
                Ok(_) => ensure!(is_made, "{name} has no Manage"),
                Err(error) => {
                    ensure!(!is_made, "{error:?}");
                    assert_eq!(error.condition.as_str(), condition::UNAUTHORIZED_ACCESS);
                }
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn link_23_a_temporary_topic_is_refused() -> anyhow::Result<()> {
    let (_cluster, _client, mut amqp) = cluster(1).await?;
    let attach = temporary_receiver(&mut amqp, "temporary-topic");
    let told = not_implemented(&mut amqp, attach.source.unwrap_or_default()).await?;
    ensure!(told.starts_with("a temporary topic is not offered"), "{told}");
    send(&mut amqp, "q", &["the connection goes on"]).await
}

/// ENT-7, LINK-17: a link of whatever kind hears that its entity is gone, and a new one serves the entity
/// that was made anew under the same name.
#[tokio::test(flavor = "multi_thread")]
async fn ent_7_link_17_links_hear_that_their_entity_is_gone() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(3).await?;
    client.create_topic("t", Default::default()).await?;
    client.create_subscription("t", "s", Default::default(), None).await?;
    client.create_queue("other", Default::default()).await?;
    let stays = amqp.sender("other").await?.expect("the queue is there");
    let mut links = Vec::new();
    for address in ["q", "q/$management", "t", "t/$management", "t/subscriptions/s/$management"] {
        links.push((address, amqp.sender(address).await?.expect("it is there")));
    }
    for address in ["q", "q/$management", "t/subscriptions/s", "t/subscriptions/s/$management"] {
        links.push((address, amqp.receiver(address).await?.expect("it is there")));
    }
    let deleted = Instant::now();
    client.delete_queue("q").await?;
    client.create_queue("q", Default::default()).await?;
    client.delete_topic("t").await?;
    for (address, link) in links {
        let error = amqp.detached(link).await?;
        ensure!(error.condition.as_str() == condition::NOT_FOUND, "{address}: {error:?}");
    }
    ensure!(deleted.elapsed() < LOOKS_WITHIN, "it took {:?}", deleted.elapsed());
    send(&mut amqp, "q", &["to the new one"]).await?;
    assert_eq!(amqp.send(stays, 0, message("x")).await?, DeliveryState::ACCEPTED);
    Ok(())
}

/// LINK-1, LINK-24: each row where a message says it goes, and what it is told if it cannot.
#[tokio::test(flavor = "multi_thread")]
async fn link_24_a_sender_without_a_target_sends_where_each_message_says() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(1).await?;
    client.create_queue("p", Default::default()).await?;
    ensure!(amqp.server().offered_capabilities.contains("ANONYMOUS-RELAY"), "it is not offered");
    for target in [None, Some(AnyTarget::Node(Target::default()))] {
        let attach = Attach { target, ..Attach::sender(&amqp.link_name(), "") };
        let answer = amqp.attach(attach).await?;
        let (link, _) = answer.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        for (to, refused) in [
            (Some("q"), None),
            (Some("amqp://localhost:5672/P"), None),
            (Some("none"), Some(condition::NOT_FOUND)),
            (None, Some(condition::ARGUMENT_ERROR)),
            (Some("q/$deadletterqueue"), Some(condition::NOT_ALLOWED)),
            (Some("t/subscriptions/s"), Some(condition::NOT_ALLOWED)),
            (Some("$cbs"), Some(condition::NOT_ALLOWED)),
        ] {
            let body = Body::Binary(Bytes::from_static(b"x"));
            let to = to.map(str::to_owned);
            let message = Neutral { body, to: to.clone(), ..Neutral::default() };
            let state = amqp.send(link, 0, message.to_amqp(&mut BytesMut::new())).await?;
            let told = match &state {
                DeliveryState::Outcome(Outcome::Rejected(Some(error))) => {
                    Some(error.condition.as_str())
                }
                _ => None,
            };
            ensure!(told == refused, "{to:?}: {state:?}");
        }
        let garbage = amqp.send(link, 0, Bytes::from_static(b"none")).await?;
        ensure!(format!("{garbage:?}").contains(condition::DECODE_ERROR), "{garbage:?}");
        amqp.detach(link).await?;
    }
    for queue in ["q", "p"] {
        assert_eq!(client.peek(&QueuePath::main(queue), 0, 9).await?.len(), 2, "{queue}");
    }
    Ok(())
}

/// LINK-25: what JMS asks for, and then writes.
#[tokio::test(flavor = "multi_thread")]
async fn link_25_a_delivery_time_is_a_schedule() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(1).await?;
    let (link, answer) = {
        let attach = Attach::sender(&amqp.link_name(), "q");
        amqp.attach(attach).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?
    };
    ensure!(answer.offered_capabilities.contains("DELAYED_DELIVERY"), "{answer:?}");
    let at = Map::default().symbol("x-opt-delivery-time", Value::Timestamp(4_000_000_000_000));
    let message = MessageBuilder::default()
        .section(descriptor::MESSAGE_ANNOTATIONS, &at)
        .section(descriptor::AMQP_VALUE, &Value::from("later"));
    assert_eq!(amqp.send(link, 0, message.build()).await?, DeliveryState::ACCEPTED);
    let queue = client.get_queue("q").await?;
    assert_eq!(queue.counters.map(|all| (all.active, all.scheduled)), Some((0, 1)));
    Ok(())
}

/// LINK-11, SESS-20: however a client asks for a session that others may take over, it is not given one
/// that they may not.
#[tokio::test(flavor = "multi_thread")]
async fn sess_20_link_11_a_non_exclusive_session_is_not_offered() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(1).await?;
    let properties =
        client::v1::QueueProperties { requires_session: Some(true), ..Default::default() };
    client.create_queue("sessions", properties).await?;
    let fields = || Value::List(vec!["s".into(), Value::Null]);
    let described = |descriptor| Value::Described(Box::new((descriptor, fields())));
    let name = "com.microsoft:non-exclusive-session-filter";
    let list = "com.microsoft:non-exclusive-session-filter:list";
    for (key, value) in [
        (name, fields()),
        (list, fields()),
        (list, described(Value::Ulong(0x137_0000_000E))),
        ("any", described(Value::Ulong(0x137_0000_000E))),
        ("any", described(Value::Symbol(Symbol::from_static(name)))),
        ("any", described(Value::Symbol(Symbol::from_static(list)))),
    ] {
        for queue in ["sessions", "q"] {
            let filter = Some(Map::default().symbol(key, value.clone()));
            let address = Some(queue.into());
            let source = Source { address, filter, ..Source::default() };
            let told = not_implemented(&mut amqp, source).await?;
            ensure!(told.starts_with("a session without a lock is not supported"), "{told}");
        }
    }
    Ok(())
}
