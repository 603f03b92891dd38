//! Sessions over AMQP against real nodes (LINK-10 to LINK-14): how they are accepted, held, lost and
//! given back.

use std::time::{Duration, Instant};

use amqp::condition;
use amqp::management::{from_tag, uuid};
use amqp_protocol::Limits;
use amqp_protocol::codec::{Array, Attach, DeliveryState, Detach, Error, Flow, Map, Role, Value};
use amqp_protocol::engine::{Delivery, LinkId};
use amqp_protocol::message::Message;
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use client::v1::QueueProperties;
use mayfly_tests::{AmqpClient, AmqpNode, Cluster, RawAmqp, Settings};
use message_content::{Body, Neutral};

/// ENT-3: the shortest there is.
const LOCK: Duration = Duration::from_secs(5);

async fn cluster(lock: Duration) -> anyhow::Result<Cluster> {
    let cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let properties = QueueProperties {
        requires_session: Some(true),
        lock_duration_ms: Some(u64::try_from(lock.as_millis())?),
        ..QueueProperties::default()
    };
    cluster.client()?.create_queue("q", properties).await?;
    cluster.client()?.create_queue("plain", Default::default()).await?;
    Ok(cluster)
}

fn encoded(body: &str, session: Option<&str>) -> Bytes {
    let neutral = Neutral {
        body: Body::Binary(Bytes::copy_from_slice(body.as_bytes())),
        session_id: session.map(str::to_owned),
        ..Neutral::default()
    };
    neutral.to_amqp(&mut BytesMut::new())
}

async fn send(amqp: &mut AmqpClient, messages: &[(&str, &str)]) -> anyhow::Result<()> {
    let sender = amqp.sender("q").await?.expect("the queue is there");
    for (session, body) in messages {
        let state = amqp.send(sender, 0, encoded(body, Some(session))).await?;
        ensure!(state == DeliveryState::ACCEPTED, "{state:?}");
    }
    Ok(amqp.detach(sender).await?)
}

/// Body, and how many deliveries of it failed.
fn shown(delivery: &Delivery) -> anyhow::Result<(String, u32)> {
    let limits = Limits::default();
    let payload = delivery.payload.clone().ok().context("it is too large")?;
    let message = Message::parse(payload, &limits)?;
    let count = message.header(&limits)?.delivery_count.unwrap_or(0);
    match Neutral::from_amqp(&message, &limits)?.body {
        Body::Binary(bytes) => Ok((String::from_utf8(bytes.to_vec())?, count)),
        Body::Amqp(sections) => anyhow::bail!("no bytes: {sections:?}"),
    }
}

async fn accept(amqp: &mut AmqpClient, session: &str) -> anyhow::Result<(LinkId, Attach)> {
    let answer = amqp.session("q", session.into(), 1000).await?;
    answer.map_err(|error| anyhow::anyhow!("{error:?}"))
}

fn session_value(attach: &Attach) -> Option<&Value> {
    let filter = attach.source.as_ref()?.filter.as_ref()?;
    filter.get("com.microsoft:session-filter")
}

fn session_of(attach: &Attach) -> Option<&str> {
    session_value(attach)?.as_str()
}

/// .NET ticks, as a long.
fn locked_until(attach: &Attach) -> Option<i64> {
    match attach.properties.as_ref()?.get("com.microsoft:locked-until-utc")? {
        Value::Long(ticks) => Some(*ticks),
        _ => None,
    }
}

/// SESS-6, SESS-8, SESS-10, SESS-14, LOCK-26, SEND-4, LINK-10, LINK-12.
#[tokio::test(flavor = "multi_thread")]
async fn sess_6_link_10_link_12_a_session_is_received_by_one_link_in_order() -> anyhow::Result<()> {
    let cluster = cluster(Duration::from_secs(60)).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    send(&mut amqp, &[("a", "1"), ("b", "2"), ("a", "3")]).await?;
    let (link, attach) = accept(&mut amqp, "a").await?;
    assert_eq!(session_of(&attach), Some("a"));
    // 2020 to 2200.
    let ticks = locked_until(&attach).context("a lock")?;
    assert!((637_000_000_000_000_000..694_000_000_000_000_000).contains(&ticks), "{ticks}");

    let mut other = AmqpClient::connect(cluster.amqp_address(2)).await?;
    let held = other.session("q", "a".into(), 1000).await?.expect_err("it is held");
    assert_eq!(&*held.condition, condition::SESSION_CANNOT_BE_LOCKED);
    amqp.grant(link, 10).await?;
    let (first, third) = (amqp.receive(link).await?, amqp.receive(link).await?);
    assert_eq!((shown(&first)?.0, shown(&third)?.0), ("1".to_owned(), "3".to_owned()));
    assert_eq!(amqp.settle(&third, DeliveryState::ACCEPTED).await?, DeliveryState::ACCEPTED);

    // Given back, and at once received by whoever asks for it, in the other form of its name.
    amqp.detach(link).await?;
    let named = Value::Described(Box::new((Value::Ulong(0x13_7000_000C), "a".into())));
    let started = Instant::now();
    let (link, attach) = loop {
        match other.session("q", named.clone(), 1000).await? {
            Ok(answer) => break answer,
            Err(error) => ensure!(started.elapsed() < LOCK, "still held: {error:?}"),
        }
    };
    assert_eq!(session_value(&attach), Some(&named), "in the form it was asked for");
    other.grant(link, 10).await?;
    assert_eq!(shown(&other.receive(link).await?)?, ("1".to_owned(), 0), "SESS-12: not counted");

    let refused = amqp.receiver("q").await?.expect_err("it takes a session");
    assert_eq!(&*refused.condition, condition::NOT_ALLOWED);
    let refused = amqp.session("plain", "a".into(), 1000).await?.expect_err("it has none");
    assert_eq!(&*refused.condition, condition::NOT_ALLOWED);
    let dead = amqp.receiver("q/$DeadLetterQueue").await?;
    assert!(dead.is_ok(), "DLQ-11: {dead:?}");
    let sender = amqp.sender("q").await?.expect("the queue is there");
    let DeliveryState::Outcome(amqp_protocol::codec::Outcome::Rejected(Some(error))) =
        amqp.send(sender, 0, encoded("x", None)).await?
    else {
        anyhow::bail!("it has no session");
    };
    assert_eq!(&*error.condition, condition::NOT_ALLOWED);
    Ok(())
}

/// SESS-7, SESS-20, LINK-11, LINK-13, LINK-14: a link that waits is answered when there is a session,
/// or no more time.
#[tokio::test(flavor = "multi_thread")]
async fn sess_7_sess_20_link_11_link_13_link_14_a_link_waits_for_the_next_session()
-> anyhow::Result<()> {
    let cluster = cluster(Duration::from_secs(60)).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    let none = amqp.session("q", Value::Null, 300).await?.expect_err("there is none");
    assert_eq!(&*none.condition, condition::TIMEOUT);

    // Whoever waits and goes away takes nothing along: neither by detaching, nor by being lost.
    let gone = amqp.ask_for_session("q", Value::Null, 30_000).await?;
    amqp.detach(gone).await?;
    let mut lost = AmqpClient::connect(cluster.amqp_address(3)).await?;
    lost.ask_for_session("q", Value::Null, 30_000).await?;
    drop(lost);
    let mut waiting = AmqpClient::connect(cluster.amqp_address(2)).await?;
    let link = waiting.ask_for_session("q", Value::Null, 30_000).await?;
    send(&mut amqp, &[("next", "m")]).await?;
    let attach = waiting.attached(link, Role::Receiver).await?.expect("there is one");
    assert_eq!(session_of(&attach), Some("next"));
    waiting.grant(link, 1).await?;
    assert_eq!(shown(&waiting.receive(link).await?)?.0, "m");

    let shared = Map::default().symbol(
        "com.microsoft:non-exclusive-session-filter:list",
        Value::Described(Box::new((Value::Ulong(0x13_7000_000E), Value::List(vec![])))),
    );
    let refused = amqp.filtered("q", shared).await?.expect_err("not offered");
    assert_eq!(&*refused.condition, condition::NOT_IMPLEMENTED);
    Ok(())
}

/// LINK-14: what a client said before it went does not keep its end from being seen.
#[tokio::test(flavor = "multi_thread")]
async fn link_14_a_link_that_waits_ends_at_once_behind_a_thousand_flows() -> anyhow::Result<()> {
    let cluster = cluster(Duration::from_secs(60)).await?;
    let mut raw = RawAmqp::open(cluster.amqp_address(1))?;
    let next = Map::default().symbol("com.microsoft:session-filter", Value::Null);
    let mut attach = Attach::receiver("gone", "q");
    attach.source.get_or_insert_default().filter = Some(next);
    ensure!(raw.frame(&attach, &[])?, "an attach is not taken");
    for credit in 1..=1_000 {
        let flow = Flow {
            next_incoming_id: Some(0),
            incoming_window: u32::MAX,
            outgoing_window: 5_000,
            handle: Some(0),
            link_credit: Some(credit),
            drain: credit % 2 == 0,
            ..Flow::default()
        };
        ensure!(raw.frame(&flow, &[])?, "a flow is not taken");
    }
    let detach = Detach { handle: 0, closed: true, error: None };
    ensure!(raw.frame(&detach, &[])?, "a detach is not taken");
    ensure!(raw.hears(b"\x00\x53\x16", Duration::from_secs(5))?, "no answer to a detach");

    let mut amqp = AmqpClient::connect(cluster.amqp_address(2)).await?;
    let link = amqp.ask_for_session("q", Value::Null, 30_000).await?;
    send(&mut AmqpClient::connect(cluster.amqp_address(1)).await?, &[("next", "m")]).await?;
    let attach = amqp.attached(link, Role::Receiver).await?.expect("there is one");
    assert_eq!(session_of(&attach), Some("next"));
    ensure!(raw.is_served()?, "the connection ended with its link");
    Ok(())
}

/// SESS-12, SESS-13: what ends a hold that nobody gave back.
#[tokio::test(flavor = "multi_thread")]
async fn sess_12_settle_6_link_17_a_hold_ends_with_its_lock() -> anyhow::Result<()> {
    let cluster = cluster(LOCK).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    send(&mut amqp, &[("a", "1"), ("b", "2")]).await?;
    let mut lost = AmqpClient::connect(cluster.amqp_address(2)).await?;
    let (link, _) = accept(&mut lost, "a").await?;
    lost.grant(link, 1).await?;
    lost.receive(link).await?;
    let started = Instant::now();
    drop(lost);
    let held = amqp.session("q", "a".into(), 1000).await?.expect_err("its lock is not over");
    assert_eq!(&*held.condition, condition::SESSION_CANNOT_BE_LOCKED);

    // One that is not renewed ends while its link lives.
    let (link, _) = accept(&mut amqp, "b").await?;
    amqp.grant(link, 1).await?;
    let delivery = amqp.receive(link).await?;
    let ended = amqp.detached(link).await?;
    assert_eq!(&*ended.condition, condition::SESSION_LOCK_LOST);
    ensure!(started.elapsed() >= LOCK - Duration::from_secs(1), "{:?}", started.elapsed());
    let mut node = AmqpNode::open(&mut amqp, "q").await?;
    let token = from_tag(&delivery.tag).map(uuid).context("a lock")?;
    let tokens = Array::new(vec![Value::Uuid(token)]).context("uuids")?;
    let late = Map::default()
        .string("disposition-status", "completed".into())
        .string("lock-tokens", Value::Array(tokens))
        .string("session-id", "b".into());
    let late = node.ask(&mut amqp, "update-disposition", late).await?;
    assert_eq!((late.status, late.condition.as_deref()), (410, Some(condition::SESSION_LOCK_LOST)));

    let (link, _) = accept(&mut amqp, "a").await?;
    amqp.grant(link, 1).await?;
    assert_eq!(shown(&amqp.receive(link).await?)?, ("1".to_owned(), 1), "a timeout counts");
    Ok(())
}

const YEAR_9999_END_MS: i64 = 253_402_300_799_999;

/// Until when an encoded message says that it is locked.
fn lock_end(payload: &Bytes) -> anyhow::Result<Option<i64>> {
    let limits = Limits::default();
    let message = Message::parse(payload.clone(), &limits)?;
    Ok(match message.message_annotations(&limits)?.get("x-opt-locked-until") {
        Some(Value::Timestamp(ms)) => Some(*ms),
        _ => None,
    })
}

/// The case of a client that waits for messages as long as its lock lasts, and holds none: it may end its
/// wait, and hears of its loss when it asks for more.
#[tokio::test(flavor = "multi_thread")]
async fn link_26_who_waits_for_a_session_that_is_lost_ends_its_wait_by_itself() -> anyhow::Result<()>
{
    let cluster = cluster(LOCK).await?;
    let client = cluster.client()?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    send(&mut amqp, &[("a", "1")]).await?;
    for (session, settles) in [("a", true), ("b", false)] {
        let (link, _) = accept(&mut amqp, session).await?;
        amqp.grant(link, 2).await?;
        if settles {
            let delivery = amqp.receive(link).await?;
            amqp.settle(&delivery, DeliveryState::ACCEPTED).await?;
        }
        client.advance_clock(LOCK + Duration::from_secs(1)).await?;
        let mut other = AmqpClient::connect(cluster.amqp_address(2)).await?;
        let (taken, _) = accept(&mut other, session).await?;
        amqp.drain(link).await?;
        amqp.grant(link, 1).await?;
        let ended = amqp.detached(link).await?;
        assert_eq!(&*ended.condition, condition::SESSION_LOCK_LOST);
        other.detach(taken).await?;
    }
    Ok(())
}

/// The case of rhea's `idle()`: a goodbye with a reason is one.
#[tokio::test(flavor = "multi_thread")]
async fn sess_14_a_close_with_an_error_gives_sessions_back() -> anyhow::Result<()> {
    let cluster = cluster(Duration::from_secs(60)).await?;
    for error in [None, Some(Error::new("amqp:connection:forced", "idle"))] {
        let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
        send(&mut amqp, &[("a", "1")]).await?;
        let (link, _) = accept(&mut amqp, "a").await?;
        amqp.grant(link, 1).await?;
        amqp.receive(link).await?;
        amqp.engine().close(error);
        amqp.flush().await?;
        let mut other = AmqpClient::connect(cluster.amqp_address(2)).await?;
        let started = Instant::now();
        let link = loop {
            match other.session("q", "a".into(), 1000).await? {
                Ok((link, _)) => break link,
                Err(error) => ensure!(started.elapsed().as_secs() < 20, "still held: {error:?}"),
            }
        };
        other.grant(link, 1).await?;
        let delivery = other.receive(link).await?;
        assert_eq!(shown(&delivery)?, ("1".to_owned(), 0), "SESS-12: not counted");
        other.settle(&delivery, DeliveryState::ACCEPTED).await?;
        other.detach(link).await?;
    }
    Ok(())
}

/// SESS-8, SESS-15, SESS-17, PEEK-9, DEFER-10: requests of who holds a session, and of who does not.
#[tokio::test(flavor = "multi_thread")]
async fn sess_15_sess_21_req_28_req_30_a_held_session_is_managed_by_its_name() -> anyhow::Result<()>
{
    let cluster = cluster(Duration::from_secs(60)).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    send(&mut amqp, &[("a", "1"), ("a", "2"), ("b", "3")]).await?;
    let (link, attach) = accept(&mut amqp, "a").await?;
    let mut node = AmqpNode::open(&mut amqp, "Q").await?;
    let named = |id: &str| Map::default().string("session-id", id.into());

    let renewed = node.ask(&mut amqp, "renew-session-lock", named("a")).await?;
    let Value::Timestamp(ms) = renewed.get("expiration")? else { anyhow::bail!("{renewed:?}") };
    assert!(ms * 10_000 + 621_355_968_000_000_000 >= locked_until(&attach).context("a lock")?);
    let state = Value::Binary(Bytes::from_static(b"half-way"));
    let none = node.ask(&mut amqp, "get-session-state", named("a")).await?;
    assert_eq!((none.status, none.get("session-state")?), (200, &Value::Null));
    let set = named("a").string("session-state", state.clone());
    assert_eq!(node.ask(&mut amqp, "set-session-state", set).await?.status, 200);
    let got = node.ask(&mut amqp, "get-session-state", named("a")).await?;
    assert_eq!(got.get("session-state")?, &state);

    let peek = |id: &str| {
        named(id)
            .string("from-sequence-number", Value::Long(0))
            .string("message-count", Value::Int(10))
    };
    let peeked = node.ask(&mut amqp, "peek-message", peek("a")).await?;
    assert_eq!(peeked.get("messages")?.as_items().map(<[Value]>::len), Some(2));
    for (operation, body) in [
        ("peek-message", peek("b")),
        ("renew-session-lock", named("b")),
        ("get-session-state", named("b")),
        ("set-session-state", named("b").string("session-state", Value::Null)),
        ("batch-delete-messages", named("b").string("message-count", Value::Int(1))),
    ] {
        let refused = node.ask(&mut amqp, operation, body).await?;
        let found = (refused.status, refused.condition.as_deref());
        assert_eq!(found, (410, Some(condition::SESSION_LOCK_LOST)), "{operation}");
    }

    amqp.grant(link, 1).await?;
    let delivery = amqp.receive(link).await?;
    amqp.drain(link).await?;
    let later =
        amqp_protocol::codec::Modified { undeliverable_here: Some(true), ..Default::default() };
    amqp.settle(&delivery, DeliveryState::Outcome(amqp_protocol::codec::Outcome::Modified(later)))
        .await?;
    let sequence = from_tag(&delivery.tag).context("a lock")?.sequence.0.cast_signed();
    let deferred = named("a")
        .string("sequence-numbers", Value::Array(Array::longs([sequence])))
        .string("receiver-settle-mode", Value::Uint(1));
    let received = node.ask(&mut amqp, "receive-by-sequence-number", deferred).await?;
    let entry = received.get("messages")?.as_items().and_then(|items| items[0].as_map());
    let Some(Value::Binary(message)) = entry.and_then(|entry| entry.get("message")) else {
        anyhow::bail!("no message")
    };
    // SESS-21: as the message that was received in its turn.
    let received = delivery.payload.clone().ok().context("a message")?;
    for payload in [&received, message] {
        assert_eq!(lock_end(payload)?, Some(YEAR_9999_END_MS));
    }
    let token = entry.and_then(|entry| entry.get("lock-token")).context("a token")?.clone();
    let completed = named("a")
        .string("disposition-status", "completed".into())
        .string("lock-tokens", Array::new(vec![token]).map_or(Value::Null, Value::Array));
    assert_eq!(node.ask(&mut amqp, "update-disposition", completed).await?.status, 200);
    let rest = named("a").string("message-count", Value::Int(10));
    let deleted = node.ask(&mut amqp, "batch-delete-messages", rest).await?;
    assert_eq!(deleted.get("message-count")?, &Value::Int(1));

    let list = |after, skip, top| {
        Map::default()
            .string("last-updated-time", Value::Timestamp(after))
            .string("skip", Value::Int(skip))
            .string("top", Value::Int(top))
    };
    const ANY: i64 = 253_402_300_800_000;
    for (body, expected) in [
        (list(ANY, 0, 10), &["a", "b"][..]),
        (list(ANY, 1, 10), &["b"]),
        (list(ANY, 0, 1), &["a"]),
        (list(ANY, 2, 10), &[]),
        (list(1, 0, 10), &["a"]),
        (list(ANY - 1000, 0, 10), &[]),
    ] {
        let page = node.ask(&mut amqp, "get-message-sessions", body).await?;
        assert_eq!(page.status, if expected.is_empty() { 204 } else { 200 });
        let ids = page.get("sessions-ids")?;
        // .NET reads no list, and Python no empty array (REQ-7).
        assert_eq!(matches!(ids, Value::Array(_)), !expected.is_empty(), "{ids:?}");
        let ids = ids.as_items().context("an array")?;
        let ids: Vec<&str> = ids.iter().filter_map(Value::as_str).collect();
        assert_eq!(ids, expected);
    }
    Ok(())
}
