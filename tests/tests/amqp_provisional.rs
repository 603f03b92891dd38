//! What is settled in a transaction before it ends, and who can settle what afterwards (TX-7 to TX-9,
//! COORD-6, COORD-12), as .NET, AMQPNetLite and JMS ask for it: the first two leave a delivery unsettled
//! until the broker settles it, JMS settles it in the same frame.

use std::time::{Duration, Instant};

use amqp::condition;
use amqp_protocol::codec::{DeliveryState, Error, Modified, Outcome, Value};
use amqp_protocol::engine::{Delivery, Event, LinkId};
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use client::Client;
use client::v1::{QueueCounters, QueueProperties, SubscriptionProperties, TopicProperties};
use mayfly_tests::{AmqpClient, AmqpCoordinator, AmqpNode, Cluster, Settings, refusal, within};
use message_content::{Body, Neutral};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Plain,
    Session,
    Subscription,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Complete,
    Abandon,
    Defer,
    DeadLetter,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Commit,
    RollBack,
    /// The control link goes without a discharge.
    Detach,
}

const SOURCES: [Source; 3] = [Source::Plain, Source::Session, Source::Subscription];
const VERDICTS: [Verdict; 4] =
    [Verdict::Complete, Verdict::Abandon, Verdict::Defer, Verdict::DeadLetter];

impl Source {
    fn send_to(self) -> &'static str {
        match self {
            Source::Plain => "plain",
            Source::Session => "session",
            Source::Subscription => "topic",
        }
    }

    fn receive_from(self) -> &'static str {
        match self {
            Source::Subscription => "topic/Subscriptions/s",
            Source::Plain | Source::Session => self.send_to(),
        }
    }

    async fn counters(self, client: &Client) -> anyhow::Result<QueueCounters> {
        let counters = match self {
            Source::Subscription => client.get_subscription("topic", "s").await?.counters,
            Source::Plain | Source::Session => client.get_queue(self.send_to()).await?.counters,
        };
        Ok(counters.unwrap_or_default())
    }
}

impl Verdict {
    fn outcome(self) -> Outcome {
        match self {
            Verdict::Complete => Outcome::Accepted,
            Verdict::Abandon => Outcome::Modified(Modified::default()),
            Verdict::Defer => Outcome::Modified(Modified {
                undeliverable_here: Some(true),
                ..Modified::default()
            }),
            Verdict::DeadLetter => {
                Outcome::Rejected(Some(Error::new(condition::DEAD_LETTER, "no")))
            }
        }
    }

    /// What the verdict is answered once it is carried out (SETTLE-5).
    fn answered(self) -> Outcome {
        match self {
            Verdict::DeadLetter => Outcome::Rejected(None),
            other => other.outcome(),
        }
    }

    /// How many active, deferred and dead-lettered messages it leaves of one, and how many completed.
    fn leaves(self) -> [u64; 4] {
        match self {
            Verdict::Complete => [0, 0, 0, 1],
            Verdict::Abandon => [1, 0, 0, 0],
            Verdict::Defer => [0, 1, 0, 0],
            Verdict::DeadLetter => [0, 0, 1, 0],
        }
    }
}

fn shape(counters: &QueueCounters) -> [u64; 4] {
    [counters.active, counters.deferred, counters.dead_lettered, counters.completed]
}

async fn cluster(lock: Duration) -> anyhow::Result<(Cluster, Client)> {
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    let lock_duration_ms = Some(u64::try_from(lock.as_millis())?);
    let plain = QueueProperties { lock_duration_ms, ..QueueProperties::default() };
    let session = QueueProperties { requires_session: Some(true), ..plain.clone() };
    client.create_queue("plain", plain).await?;
    client.create_queue("session", session).await?;
    client.create_topic("topic", TopicProperties::default()).await?;
    let properties =
        SubscriptionProperties { lock_duration_ms, ..SubscriptionProperties::default() };
    client.create_subscription("topic", "s", properties, None).await?;
    Ok((cluster, client))
}

fn encoded(body: &str) -> Bytes {
    let neutral = Neutral {
        body: Body::Binary(Bytes::copy_from_slice(body.as_bytes())),
        session_id: Some("s".to_owned()),
        ..Neutral::default()
    };
    neutral.to_amqp(&mut BytesMut::new())
}

async fn send(amqp: &mut AmqpClient, to: &str, body: &str) -> anyhow::Result<()> {
    let link = amqp.sender(to).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let state = amqp.send(link, 0, encoded(body)).await?;
    ensure!(state == DeliveryState::ACCEPTED, "{state:?}");
    Ok(amqp.detach(link).await?)
}

async fn opened(amqp: &mut AmqpClient, source: Source) -> anyhow::Result<LinkId> {
    let address = source.receive_from();
    let link = match source {
        Source::Session => {
            let started = Instant::now();
            loop {
                match amqp.session(address, Value::Null, 20_000).await? {
                    Ok((link, _)) => break link,
                    Err(error) => ensure!(started.elapsed().as_secs() < 20, "{error:?}"),
                }
            }
        }
        Source::Plain | Source::Subscription => {
            let opened = amqp.receiver(address).await?;
            opened.map_err(|error| anyhow::anyhow!("{error:?}"))?
        }
    };
    Ok(link)
}

async fn becomes(client: &Client, source: Source, expected: [u64; 4]) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let found = shape(&source.counters(client).await?);
        if found == expected {
            return Ok(());
        }
        ensure!(started.elapsed().as_secs() < 20, "{source:?}: {found:?}, not {expected:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Empties what a row left behind.
async fn cleared(client: &Client, source: Source) -> anyhow::Result<()> {
    match source {
        Source::Subscription => {
            client.delete_subscription("topic", "s").await?;
            let lock_duration_ms = Some(60_000);
            let properties =
                SubscriptionProperties { lock_duration_ms, ..SubscriptionProperties::default() };
            client.create_subscription("topic", "s", properties, None).await?;
        }
        Source::Plain | Source::Session => {
            let queue = source.send_to();
            client.delete_queue(queue).await?;
            let requires_session = Some(source == Source::Session);
            let lock_duration_ms = Some(60_000);
            let properties = QueueProperties {
                requires_session,
                lock_duration_ms,
                ..QueueProperties::default()
            };
            client.create_queue(queue, properties).await?;
        }
    }
    Ok(())
}

/// Settle, defer, dead-letter; from a queue, a session, a subscription; each end of a transaction; the send
/// before or after. Nothing is settled before the end, everything by a commit, and after anything else the
/// same client settles the same delivery.
#[tokio::test(flavor = "multi_thread")]
async fn tx_8_coord_6_coord_12_a_verdict_is_provisional_until_the_commit() -> anyhow::Result<()> {
    let (cluster, client) = cluster(Duration::from_secs(60)).await?;
    for source in SOURCES {
        for verdict in VERDICTS {
            for (end, sends_first) in [
                (End::Commit, true),
                (End::Commit, false),
                (End::RollBack, true),
                (End::Detach, false),
            ] {
                let row = format!("{source:?}, {verdict:?}, {end:?}, sends first: {sends_first}");
                one_verdict(&cluster, &client, source, verdict, end, sends_first)
                    .await
                    .with_context(|| row)?;
            }
        }
    }
    Ok(())
}

async fn one_verdict(
    cluster: &Cluster,
    client: &Client,
    source: Source,
    verdict: Verdict,
    end: End,
    sends_first: bool,
) -> anyhow::Result<()> {
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    send(&mut amqp, source.send_to(), "one").await?;
    let link = opened(&mut amqp, source).await?;
    amqp.grant(link, 1).await?;
    let delivery = amqp.receive(link).await?;
    let control = AmqpCoordinator::attach(&mut amqp).await?;
    let transaction = control.declare(&mut amqp).await?;
    let sender =
        amqp.sender(source.send_to()).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    if sends_first {
        ensure!(amqp.send_within(sender, encoded("two"), &transaction).await?.is_none());
    }
    let answer = amqp.settle_within(&delivery, verdict.outcome(), &transaction).await?;
    ensure!(!answer.settled, "settled before the discharge");
    ensure!(answer.state == Some(within(&transaction, Some(verdict.answered()))), "{answer:?}");
    if !sends_first {
        ensure!(amqp.send_within(sender, encoded("two"), &transaction).await?.is_none());
    }
    ensure!(shape(&source.counters(client).await?) == [1, 0, 0, 0], "something was done");
    match end {
        End::Commit => {
            let state = control.discharge(&mut amqp, &transaction, false).await?;
            ensure!(state == DeliveryState::ACCEPTED, "{state:?}");
            // It is told before the commit is, and what it already had.
            let settled = settled(&mut amqp, &delivery).await?;
            ensure!(settled == Some(within(&transaction, Some(verdict.answered()))), "{settled:?}");
            let mut expected = verdict.leaves();
            expected[0] += 1;
            becomes(client, source, expected).await?;
        }
        End::RollBack | End::Detach => {
            if end == End::Detach {
                amqp.detach(control.link()).await?;
            } else {
                let state = control.discharge(&mut amqp, &transaction, true).await?;
                ensure!(state == DeliveryState::ACCEPTED, "{state:?}");
            }
            // At once: the rollback was asked for before.
            let outcome = DeliveryState::Outcome(verdict.outcome());
            let state = amqp.settle(&delivery, outcome).await?;
            ensure!(state == DeliveryState::Outcome(verdict.answered()), "{state:?}");
            becomes(client, source, verdict.leaves()).await?;
        }
    }
    drop(amqp);
    cleared(client, source).await
}

/// What a delivery was settled with by its sender.
async fn settled(
    amqp: &mut AmqpClient,
    delivery: &Delivery,
) -> anyhow::Result<Option<DeliveryState>> {
    let id = delivery.id;
    let is_settled = |event: &Event| matches!(event, Event::Settled { id: of, .. } if *of == id);
    match amqp.wait(is_settled, "a settlement").await? {
        Event::Settled { state, .. } => Ok(state),
        other => anyhow::bail!("{other:?}"),
    }
}

/// The case of AMQPNetLite: a verdict of another kind, and in another transaction, after a rollback; and
/// meanwhile nobody else has a say.
#[tokio::test(flavor = "multi_thread")]
async fn tx_8_tx_9_after_a_rollback_any_verdict_may_follow() -> anyhow::Result<()> {
    let (cluster, client) = cluster(Duration::from_secs(60)).await?;
    for source in SOURCES {
        let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
        send(&mut amqp, source.send_to(), "first").await?;
        send(&mut amqp, source.send_to(), "second").await?;
        let link = opened(&mut amqp, source).await?;
        amqp.grant(link, 1).await?;
        let delivery = amqp.receive(link).await?;
        amqp.grant(link, 0).await?; // No verdict asks for another.
        let control = AmqpCoordinator::attach(&mut amqp).await?;
        let first = control.declare(&mut amqp).await?;
        let second = control.declare(&mut amqp).await?;
        let answer = amqp.settle_within(&delivery, Outcome::Accepted, &first).await?;
        ensure!(!answer.settled, "{answer:?}");
        // Pending in one, it is lost to another, and to none.
        let answer = amqp.settle_within(&delivery, Outcome::Accepted, &second).await?;
        let refused = refusal(&answer.state.context("an answer")?)?;
        ensure!(refused == condition::MESSAGE_LOCK_LOST, "{source:?}: {refused}");
        let state = control.discharge(&mut amqp, &first, true).await?;
        ensure!(state == DeliveryState::ACCEPTED, "{state:?}");
        let answer = amqp.settle_within(&delivery, Outcome::Accepted, &second).await?;
        ensure!(answer.state == Some(within(&second, Some(Outcome::Accepted))), "{answer:?}");
        let state = control.discharge(&mut amqp, &second, true).await?;
        ensure!(state == DeliveryState::ACCEPTED, "{state:?}");
        let state = amqp.settle(&delivery, DeliveryState::RELEASED).await?;
        ensure!(state == DeliveryState::RELEASED, "{source:?}: {state:?}");
        amqp.grant(link, 1).await?;
        let again = amqp.receive(link).await?;
        let body = |delivery: &Delivery| delivery.payload.clone().ok();
        ensure!(
            body(&again).is_some_and(|bytes| bytes.windows(5).any(|part| part == b"first")),
            "{source:?}: not the one that was released"
        );
        drop(amqp);
        cleared(&client, source).await?;
    }
    Ok(())
}

/// The case of JMS: what its client settled comes again at once, in order and counted, whatever rolled the
/// transaction back.
#[tokio::test(flavor = "multi_thread")]
async fn tx_8_coord_12_what_a_client_settled_itself_is_abandoned_by_a_rollback()
-> anyhow::Result<()> {
    let (cluster, client) = cluster(Duration::from_secs(60)).await?;
    for source in SOURCES {
        for end in [End::RollBack, End::Detach] {
            let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
            for body in ["first", "second"] {
                send(&mut amqp, source.send_to(), body).await?;
            }
            let link = opened(&mut amqp, source).await?;
            amqp.grant(link, 2).await?;
            let control = AmqpCoordinator::attach(&mut amqp).await?;
            let transaction = control.declare(&mut amqp).await?;
            for _ in 0..2 {
                let delivery = amqp.receive(link).await?;
                let state = within(&transaction, Some(Outcome::Accepted));
                amqp.engine().settle(delivery.id, state)?;
                amqp.flush().await?;
            }
            match end {
                End::Detach => amqp.detach(control.link()).await?,
                _ => {
                    let state = control.discharge(&mut amqp, &transaction, true).await?;
                    ensure!(state == DeliveryState::ACCEPTED, "{state:?}");
                }
            }
            amqp.grant(link, 2).await?;
            for body in ["first", "second"] {
                let again = amqp.receive(link).await?;
                let bytes = again.payload.clone().ok().context("it is too large")?;
                ensure!(
                    bytes.windows(body.len()).any(|part| part == body.as_bytes()),
                    "{source:?}, {end:?}: not {body}"
                );
                let limits = amqp_protocol::Limits::default();
                let message = amqp_protocol::message::Message::parse(bytes, &limits)?;
                let count = message.header(&limits)?.delivery_count.unwrap_or(0);
                ensure!(count == 1, "{source:?}, {end:?}: {body} failed {count} times");
                amqp.settle(&again, DeliveryState::ACCEPTED).await?;
            }
            becomes(&client, source, [0, 0, 0, 2]).await?;
            drop(amqp);
            cleared(&client, source).await?;
        }
    }
    Ok(())
}

/// TX-9: a lock that lapses meanwhile fails the commit, and nothing of it is done.
#[tokio::test(flavor = "multi_thread")]
async fn tx_9_coord_3_a_lock_that_lapses_fails_the_commit() -> anyhow::Result<()> {
    let (cluster, client) = cluster(Duration::from_secs(5)).await?;
    let mut rows = Vec::new();
    for source in [Source::Plain, Source::Subscription] {
        let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
        send(&mut amqp, source.send_to(), "one").await?;
        let link = opened(&mut amqp, source).await?;
        amqp.grant(link, 1).await?;
        let delivery = amqp.receive(link).await?;
        let control = AmqpCoordinator::attach(&mut amqp).await?;
        let transaction = control.declare(&mut amqp).await?;
        let sender =
            amqp.sender(source.send_to()).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        ensure!(amqp.send_within(sender, encoded("two"), &transaction).await?.is_none());
        let answer = amqp.settle_within(&delivery, Outcome::Accepted, &transaction).await?;
        ensure!(!answer.settled, "{answer:?}");
        rows.push((source, amqp, control, transaction, delivery));
    }
    client.advance_clock(Duration::from_secs(6)).await?;
    for (source, mut amqp, control, transaction, delivery) in rows {
        let state = control.discharge(&mut amqp, &transaction, false).await?;
        let refused = refusal(&state)?;
        ensure!(refused == condition::TRANSACTION_ROLLBACK, "{source:?}: {refused}");
        let state = amqp.settle(&delivery, DeliveryState::ACCEPTED).await?;
        let refused = refusal(&state)?;
        ensure!(refused == condition::MESSAGE_LOCK_LOST, "{source:?}: {refused}");
        becomes(&client, source, [1, 0, 0, 0]).await?;
    }
    Ok(())
}

/// The case of .NET: settled twice while the session is held, a message is lost and not its session.
#[tokio::test(flavor = "multi_thread")]
async fn sess_13_lock_14_a_second_settlement_in_a_held_session_has_lost_the_message()
-> anyhow::Result<()> {
    let (cluster, _client) = cluster(Duration::from_secs(60)).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    send(&mut amqp, "session", "one").await?;
    send(&mut amqp, "session", "two").await?;
    let link = opened(&mut amqp, Source::Session).await?;
    amqp.grant(link, 2).await?;
    let (one, two) = (amqp.receive(link).await?, amqp.receive(link).await?);
    let mut node = AmqpNode::open(&mut amqp, "session").await?;
    let control = AmqpCoordinator::attach(&mut amqp).await?;
    let transaction = control.declare(&mut amqp).await?;
    let complete = |delivery: &Delivery, named: Option<&str>| {
        let token = amqp::management::from_tag(&delivery.tag).map(amqp::management::uuid);
        let token = Value::Uuid(token.expect("a lock"));
        let tokens = amqp_protocol::codec::Array::new(vec![token]).expect("uuids");
        let asked = amqp_protocol::codec::Map::default()
            .string("disposition-status", "completed".into())
            .string("lock-tokens", Value::Array(tokens));
        match named {
            Some(session) => asked.string("session-id", session.into()),
            None => asked,
        }
    };
    for (named, expected) in [
        (None, None),
        (Some("s"), Some(condition::MESSAGE_LOCK_LOST)),
        (None, Some(condition::MESSAGE_LOCK_LOST)),
        (Some("another"), Some(condition::SESSION_LOCK_LOST)),
    ] {
        let reply = node.ask(&mut amqp, "update-disposition", complete(&one, named)).await?;
        ensure!(reply.condition.as_deref() == expected, "{named:?}: {reply:?}");
    }
    // On the link, where the broker had not settled it, in a transaction and by itself.
    let answer = amqp.settle_within(&one, Outcome::Accepted, &transaction).await?;
    let refused = refusal(&answer.state.context("an answer")?)?;
    ensure!(refused == condition::MESSAGE_LOCK_LOST, "{refused}");
    let refused = refusal(&amqp.settle(&one, DeliveryState::ACCEPTED).await?)?;
    ensure!(refused == condition::MESSAGE_LOCK_LOST, "{refused}");
    let state = amqp.settle(&two, DeliveryState::ACCEPTED).await?;
    ensure!(state == DeliveryState::ACCEPTED, "the session is held: {state:?}");
    Ok(())
}

/// TX-9, TX-14: the leader of the entity dies while a verdict is provisional. The commit is answered as it
/// turned out, or leaves open how; after a rollback the same client settles the same delivery.
#[tokio::test(flavor = "multi_thread")]
async fn tx_8_tx_14_a_verdict_outlives_the_leader_that_knew_of_it() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    for (verdict, fail) in [
        (Verdict::Complete, false),
        (Verdict::Defer, false),
        (Verdict::DeadLetter, true),
        (Verdict::Complete, true),
    ] {
        let queue = format!("{verdict:?}-{fail}").to_lowercase();
        client.create_queue(&queue, QueueProperties::default()).await?;
        let leader = cluster.leader_of(&queue).await?;
        let edge = cluster.ids().find(|id| *id != leader).context("another node")?;
        let mut amqp = connected(cluster.amqp_address(edge)).await?;
        send(&mut amqp, &queue, "one").await?;
        let opened = amqp.receiver(&queue).await?;
        let link = opened.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        amqp.grant(link, 1).await?;
        let delivery = amqp.receive(link).await?;
        let control = AmqpCoordinator::attach(&mut amqp).await?;
        let transaction = control.declare(&mut amqp).await?;
        let answer = amqp.settle_within(&delivery, verdict.outcome(), &transaction).await?;
        ensure!(!answer.settled && answer.state.is_some(), "{answer:?}");
        cluster.kill(leader)?;
        let state = control.discharge(&mut amqp, &transaction, fail).await?;
        let mut in_doubt = false;
        if fail || state != DeliveryState::ACCEPTED {
            ensure!(!fail || state == DeliveryState::ACCEPTED, "{queue}: {state:?}");
            let outcome = DeliveryState::Outcome(verdict.outcome());
            let again = amqp.settle(&delivery, outcome).await?;
            // What was on its way to the leader that died may have been done (ERR-28).
            let doubts = [condition::UNKNOWN, condition::MESSAGE_LOCK_LOST];
            in_doubt =
                refusal(&again).is_ok_and(|why| doubts[..1 + usize::from(!fail)].contains(&&*why));
            let answered = DeliveryState::Outcome(verdict.answered());
            ensure!(in_doubt || again == answered, "{queue}: {state:?}, then {again:?}");
        }
        cluster.start_node(leader)?;
        cluster.wait_ready().await?;
        let counters = client.get_queue(&queue).await?.counters.unwrap_or_default();
        let found = shape(&counters);
        let is_whole = found == verdict.leaves() || in_doubt && found == [1, 0, 0, 0];
        ensure!(is_whole, "{queue}, in doubt {in_doubt}: {counters:?}");
    }
    Ok(())
}

/// To a node that may have been started again just now, and listens to AMQP last.
async fn connected(address: &str) -> anyhow::Result<AmqpClient> {
    let started = Instant::now();
    loop {
        match AmqpClient::connect(address).await {
            Ok(amqp) => return Ok(amqp),
            Err(error) if started.elapsed().as_secs() > 20 => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
