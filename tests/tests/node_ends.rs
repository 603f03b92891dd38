//! A node's end is not its clients' fault (LOCK-28): what they held through it is available again at once and
//! uncounted, however it ends; and a node that only stands still keeps what it has for them.

use std::time::{Duration, Instant};

use amqp::condition;
use amqp_protocol::Limits;
use amqp_protocol::codec::{DeliveryState, Error, Tag};
use amqp_protocol::engine::{Delivery, Event, LinkId, Outgoing, Payload};
use amqp_protocol::message::Message;
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use client::Message as Native;
use client::v1::{GroupStatus, QueueProperties};
use mayfly_tests::{AmqpClient, Cluster, Load, LoadOptions, Settings};
use message_content::{Body, Neutral};
use nix::sys::signal::Signal;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Nothing here waits until a lock lapses.
const LOCK: Duration = Duration::from_secs(120);
/// An election on a busy machine is part of it.
const BACK_WITHIN: Duration = Duration::from_secs(30);
const STANDS_STILL: Duration = Duration::from_secs(4);
const FORWARDED_QUEUES: usize = 8;
const ENDS_OF_EACH: u32 = 2;
/// On a busy machine. Most take a second or two: as long as clients need to go.
const ENDED_WITHIN: Duration = Duration::from_secs(4);
/// More than a node takes until it has ended.
const SENDS_MAX: u32 = 1_000_000;

#[derive(Clone, Copy, Debug)]
enum End {
    Planned,
    Killed,
    KilledAndStarted,
}

async fn cluster() -> anyhow::Result<Cluster> {
    Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await
}

/// A queue without sessions and one with them, named by a prefix. The second failed delivery of a message
/// would be its last.
async fn create(cluster: &Cluster, of: &str) -> anyhow::Result<()> {
    for requires_session in [false, true] {
        let properties = QueueProperties {
            requires_session: Some(requires_session),
            lock_duration_ms: Some(u64::try_from(LOCK.as_millis())?),
            max_delivery_count: Some(2),
            ..QueueProperties::default()
        };
        let kind = if requires_session { "sessions" } else { "plain" };
        cluster.client()?.create_queue(&format!("{of}-{kind}"), properties).await?;
    }
    Ok(())
}

async fn send(amqp: &mut AmqpClient, queue: &str, session: Option<&str>) -> anyhow::Result<()> {
    let neutral = Neutral {
        body: Body::Binary(Bytes::from_static(b"m")),
        session_id: session.map(str::to_owned),
        ..Neutral::default()
    };
    let sender = amqp.sender(queue).await?.expect("the queue is there");
    let state = amqp.send(sender, 0, neutral.to_amqp(&mut BytesMut::new())).await?;
    ensure!(state == DeliveryState::ACCEPTED, "{state:?}");
    Ok(amqp.detach(sender).await?)
}

/// How many deliveries of it failed.
fn failed(delivery: &Delivery) -> anyhow::Result<u32> {
    let limits = Limits::default();
    let payload = delivery.payload.clone().ok().context("it is too large")?;
    Ok(Message::parse(payload, &limits)?.header(&limits)?.delivery_count.unwrap_or(0))
}

/// What a client holds: a session with a message, and a message of a queue without sessions.
struct Held {
    amqp: AmqpClient,
    plain: Delivery,
}

async fn hold(address: &str, of: &str) -> anyhow::Result<Held> {
    let mut amqp = AmqpClient::connect(address).await?;
    let (plain, sessions) = (format!("{of}-plain"), format!("{of}-sessions"));
    send(&mut amqp, &plain, None).await?;
    send(&mut amqp, &sessions, Some("a")).await?;
    let link = amqp.receiver(&plain).await?.expect("the queue is there");
    amqp.grant(link, 1).await?;
    let plain = amqp.receive(link).await?;
    let answer = amqp.session(&sessions, "a".into(), 5_000).await?;
    let (link, _) = answer.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    amqp.grant(link, 1).await?;
    amqp.receive(link).await?;
    Ok(Held { amqp, plain })
}

/// The session, or why it cannot be had.
async fn session(amqp: &mut AmqpClient, of: &str) -> anyhow::Result<Result<LinkId, Error>> {
    let answer = amqp.session(&format!("{of}-sessions"), "a".into(), 1_000).await?;
    Ok(answer.map(|(link, _)| link))
}

fn is_held(answer: &Result<LinkId, Error>) -> bool {
    matches!(answer, Err(error) if *error.condition == *condition::SESSION_CANNOT_BE_LOCKED)
}

/// Receives all of it through another node, and says after how long, and how many deliveries of each had
/// failed.
async fn take_over(
    address: &str,
    of: &str,
    since: Instant,
) -> anyhow::Result<(Duration, [u32; 2])> {
    let mut amqp = AmqpClient::connect(address).await?;
    let link = loop {
        match session(&mut amqp, of).await? {
            Ok(link) => break link,
            Err(error) => ensure!(since.elapsed() < BACK_WITHIN, "no session yet: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    amqp.grant(link, 1).await?;
    let of_session = amqp.receive(link).await?;
    let link = amqp.receiver(&format!("{of}-plain")).await?.expect("the queue is there");
    amqp.grant(link, 1).await?;
    let left = BACK_WITHIN.saturating_sub(since.elapsed());
    let plain = timeout(left, amqp.receive(link)).await.context("the message is still held")??;
    Ok((since.elapsed(), [failed(&of_session)?, failed(&plain)?]))
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_28_what_clients_of_an_ended_node_held_is_back_at_once_and_uncounted()
-> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = cluster().await?;
    for end in [End::Planned, End::Killed, End::KilledAndStarted] {
        for leads in [false, true] {
            let of = format!("{end:?}-{leads}");
            create(&cluster, &of).await?;
            let leader = cluster.leader_of(&format!("{of}-plain")).await?;
            let victim = match leads {
                true => leader,
                false => cluster.ids().find(|id| *id != leader).expect("three nodes"),
            };
            let other = cluster.ids().find(|id| ![victim, leader].contains(id));
            let other = cluster.amqp_address(other.expect("three nodes")).to_owned();
            let _held = hold(cluster.amqp_address(victim), &of).await?;
            let mut looking = AmqpClient::connect(&other).await?;
            let found = session(&mut looking, &of).await?;
            ensure!(is_held(&found), "{of}: {found:?}");

            let since = Instant::now();
            match end {
                End::Planned => cluster.signal(victim, Signal::SIGTERM)?,
                End::Killed => cluster.kill(victim)?,
                End::KilledAndStarted => {
                    cluster.kill(victim)?;
                    cluster.start_node(victim)?;
                }
            }
            let (after, failed) = take_over(&other, &of, since).await.context(of.clone())?;
            println!("{of}: all is back after {after:?}");
            assert_eq!(failed, [0, 0], "{of}: nothing is counted");
            match end {
                End::Planned => cluster.stop(victim)?,
                End::Killed | End::KilledAndStarted => (),
            }
            if cluster.pid(victim).is_none() {
                cluster.start_node(victim)?;
            }
            cluster.wait_caught_up().await?;
        }
    }
    Ok(())
}

/// LOCK-18: who is silent may live.
#[tokio::test(flavor = "multi_thread")]
async fn lock_28_a_node_that_stands_still_keeps_what_its_clients_hold() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = cluster().await?;
    create(&cluster, "q").await?;
    let leader = cluster.leader_of("q-plain").await?;
    let victim = cluster.ids().find(|id| *id != leader).expect("three nodes");
    let mut held = hold(cluster.amqp_address(victim), "q").await?;
    let mut other = AmqpClient::connect(cluster.amqp_address(leader)).await?;
    let link = other.receiver("q-plain").await?.expect("the queue is there");
    other.grant(link, 1).await?;
    cluster.signal(victim, Signal::SIGSTOP)?;
    let received = timeout(STANDS_STILL, other.receive(link)).await;
    let session = session(&mut other, "q").await;
    cluster.signal(victim, Signal::SIGCONT)?;
    ensure!(received.is_err(), "the message was given to another: {received:?}");
    let session = session?;
    ensure!(is_held(&session), "the session was given to another: {session:?}");
    let settled = held.amqp.settle(&held.plain, DeliveryState::ACCEPTED).await?;
    assert_eq!(settled, DeliveryState::ACCEPTED);
    Ok(())
}

/// SDKs try three times, which takes them four seconds or so: a node that ends is to be back by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_under_load_ends_soon_and_closes_its_databases() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    // What is forwarded is under way with nobody waiting for it.
    for queue in 0..FORWARDED_QUEUES {
        let to = format!("out-{queue}");
        client.create_queue(&to, QueueProperties::default()).await?;
        let properties = QueueProperties { forward_to: Some(to), ..QueueProperties::default() };
        client.create_queue(&format!("in-{queue}"), properties).await?;
    }
    let sending = tokio::spawn(async move {
        for queue in (0..FORWARDED_QUEUES).cycle() {
            // Refused, or in doubt, while a node ends.
            drop(client.send(&format!("in-{queue}"), vec![Native::new("m"); 20]).await);
        }
    });
    let load = Load::start(&cluster.client()?, "orders", LoadOptions::default()).await?;
    let mut slow = Vec::new();
    for turn in 0..ENDS_OF_EACH {
        for node in cluster.ids() {
            // Under this load a replica may always be some entries behind.
            cluster
                .wait_for_status("every replica to be there", |status| {
                    let is_whole = |group: &GroupStatus| {
                        group.leader != 0
                            && group.replicas.iter().all(|it| it.reachable && it.voter)
                    };
                    status.groups.iter().all(is_whole)
                })
                .await?;
            let since = Instant::now();
            cluster.stop(node)?;
            let took = since.elapsed();
            println!("turn {turn}, node {node}: {took:?}");
            if took > ENDED_WITHIN {
                slow.push(took);
            }
            cluster.start_node(node)?;
        }
    }
    sending.abort();
    let verdict = load.finish().await?;
    ensure!(verdict.holds(), "{verdict:?}");
    for node in cluster.ids() {
        let log = cluster.node_log(node);
        let left = log.lines().find(|line| line.contains("left open"));
        ensure!(left.is_none(), "node {node}: {}", left.unwrap_or_default());
    }
    ensure!(slow.is_empty(), "longer than {ENDED_WITHIN:?}: {slow:?}");
    Ok(())
}

/// CONN-21: what a client was not told is what the node never took.
#[tokio::test(flavor = "multi_thread")]
async fn conn_21_what_clients_have_asked_is_answered_before_the_node_lets_go() -> anyhow::Result<()>
{
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = cluster().await?;
    for is_python in [false, true] {
        let of = format!("q-{is_python}");
        cluster.client()?.create_queue(&of, QueueProperties::default()).await?;
        let leader = cluster.leader_of(&of).await?;
        let address = cluster.amqp_address(leader);
        let mut amqp = match is_python {
            true => AmqpClient::as_python(address).await?,
            false => AmqpClient::connect(address).await?,
        };
        let link = amqp.sender(&of).await?.expect("the queue is there");
        let (mut sent, mut accepted) = (0, 0);
        loop {
            let room = amqp.engine().credit(link).min(amqp.engine().room(link));
            for _ in 0..room.min(SENDS_MAX - sent) {
                amqp.engine().send(link, &outgoing())?;
                sent += 1;
            }
            if let Err(error) = amqp.turn().await {
                println!("{of}: {accepted} of {sent} were accepted, then: {error}");
                break;
            }
            let before = accepted;
            while let Some(event) = amqp.poll() {
                let state = match event {
                    Event::Disposed { state, settled: true, .. } => state,
                    _ => continue,
                };
                ensure!(state == Some(DeliveryState::ACCEPTED), "{state:?}");
                accepted += 1;
            }
            if before == 0 && accepted > 0 {
                cluster.signal(leader, Signal::SIGTERM)?;
            }
        }
        cluster.stop(leader)?;
        ensure!(accepted < sent, "the node ended after all was sent, which shows nothing");
        let other = cluster.ids().find(|id| *id != leader).expect("three nodes");
        let queue = cluster.client_of(other)?.get_queue(&of).await?;
        let stored = queue.counters.context("no counters")?.accepted;
        assert_eq!(stored, u64::from(accepted), "{of}: stored, and answered");
        cluster.start_node(leader)?;
        cluster.wait_caught_up().await?;
    }
    Ok(())
}

fn outgoing() -> Outgoing {
    let neutral = Neutral { body: Body::Binary(Bytes::from_static(b"m")), ..Neutral::default() };
    Outgoing {
        tag: Tag::new(b"t").unwrap_or_default(),
        message_format: 0,
        settled: false,
        state: None,
        payload: Payload::from(neutral.to_amqp(&mut BytesMut::new())),
    }
}
