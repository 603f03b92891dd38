//! Transactions over AMQP (COORD-1 to COORD-9), with a client that is none of ours: what it declares
//! and discharges, and what is left when it goes without a word.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::{QueueCounters, QueueProperties, ReceiveMode};
use client::{Client, Message, QueuePath};
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::transaction::{
    OwnedTransaction, TransactionDischarge, TransactionPosting, TransactionRetirement,
};
use fe2o3_amqp::types::definitions::Fields;
use fe2o3_amqp::types::messaging::{Body, Outcome};
use fe2o3_amqp::types::primitives::{Symbol, Value};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use mayfly_tests::{Cluster, Settings};

const TO: &str = "com.microsoft:transfer-destination-address";

/// A connection with one session.
struct Peer {
    connection: ConnectionHandle<()>,
    session: SessionHandle<()>,
}

impl Peer {
    async fn connect(cluster: &Cluster) -> anyhow::Result<Peer> {
        let url = format!("amqp://{}", cluster.amqp_address(1));
        let builder = Connection::builder().container_id("test");
        let builder = builder.sasl_profile(SaslProfile::Anonymous);
        let mut connection = builder.open(url.as_str()).await?;
        let session = Session::begin(&mut connection).await?;
        Ok(Peer { connection, session })
    }

    async fn sender(&mut self, queue: &str) -> anyhow::Result<Sender> {
        Ok(Sender::attach(&mut self.session, format!("to {queue}"), queue).await?)
    }

    /// To one queue via another (FWD-14).
    async fn sender_via(&mut self, via: &str, to: &str) -> anyhow::Result<Sender> {
        let mut properties = Fields::new();
        properties.insert(Symbol::from(TO), Value::String(to.to_owned()));
        let builder = Sender::builder().name(format!("to {to} via {via}")).target(via);
        Ok(builder.properties(properties).attach(&mut self.session).await?)
    }

    async fn receiver(&mut self, queue: &str) -> anyhow::Result<Receiver> {
        Ok(Receiver::attach(&mut self.session, format!("from {queue}"), queue).await?)
    }

    async fn declare(&mut self, name: &str) -> anyhow::Result<OwnedTransaction> {
        Ok(OwnedTransaction::declare(&mut self.session, name, None).await?)
    }

    async fn close(mut self) -> anyhow::Result<()> {
        self.session.end().await?;
        self.connection.close().await?;
        Ok(())
    }
}

async fn cluster(lock_duration_ms: u64) -> anyhow::Result<(Cluster, Client)> {
    let settings = Settings { nodes: 1, data_groups: 2, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    for queue in ["q", "r"] {
        let lock_duration_ms = Some(lock_duration_ms);
        let properties = QueueProperties { lock_duration_ms, ..QueueProperties::default() };
        client.create_queue(queue, properties).await?;
    }
    Ok((cluster, client))
}

async fn counters(client: &Client, queue: &str) -> anyhow::Result<QueueCounters> {
    Ok(client.get_queue(queue).await?.counters.unwrap_or_default())
}

/// Waits until it is so: what a client settles itself it is told nothing about.
async fn becomes(
    client: &Client,
    queue: &str,
    is_so: impl Fn(&QueueCounters) -> bool,
) -> anyhow::Result<QueueCounters> {
    let begun = Instant::now();
    loop {
        let counters = counters(client, queue).await?;
        if is_so(&counters) {
            return Ok(counters);
        }
        ensure!(begun.elapsed() < Duration::from_secs(30), "'{queue}' stays {counters:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn arrived(client: &Client, queue: &str) -> anyhow::Result<()> {
    let path = QueuePath::main(queue);
    let wait = Duration::from_secs(20);
    let got = client.receive(&path, ReceiveMode::ReceiveAndDelete, 1, wait).await?;
    got.into_iter().next().map(drop).context("nothing arrived")
}

fn is_accepted(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Accepted(_))
}

/// The condition an outcome was rejected with.
fn condition(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Rejected(rejected) => rejected
            .error
            .as_ref()
            .map(|error| format!("{:?}", error.condition))
            .unwrap_or_default(),
        other => format!("{other:?}"),
    }
}

/// TX-2: a completion and a send become visible together, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn tx_2_coord_2_to_coord_6_what_is_declared_and_committed_is_done_as_one()
-> anyhow::Result<()> {
    let (cluster, client) = cluster(60_000).await?;
    client.send("q", vec![Message::new("a")]).await?;
    let mut peer = Peer::connect(&cluster).await?;
    let (mut sender, mut receiver) = (peer.sender("q").await?, peer.receiver("q").await?);
    let delivery: Delivery<Body<Value>> = receiver.recv().await?;
    let transaction = peer.declare("control").await?;
    transaction.accept(&mut receiver, &delivery).await?;
    let outcome = transaction.post(&mut sender, "b").await?;
    ensure!(is_accepted(&outcome), "{outcome:?}");
    let before = counters(&client, "q").await?;
    ensure!((before.accepted, before.completed) == (1, 0), "{before:?}");
    transaction.commit().await?;
    let after = counters(&client, "q").await?;
    ensure!((after.accepted, after.completed, after.active) == (2, 1, 1), "{after:?}");
    // Nothing of it is left to be seen of one that is rolled back.
    let rolled_back = peer.declare("another").await?;
    let outcome = rolled_back.post(&mut sender, "c").await?;
    ensure!(is_accepted(&outcome), "{outcome:?}");
    rolled_back.rollback().await?;
    let after = counters(&client, "q").await?;
    ensure!(after.accepted == 2, "{after:?}");
    peer.close().await
}

/// TX-7, TX-8: what is open when its connection goes is rolled back; its message comes again when the
/// lock has lapsed.
#[tokio::test(flavor = "multi_thread")]
async fn tx_7_coord_9_a_connection_that_goes_takes_its_transactions_along() -> anyhow::Result<()> {
    let (cluster, client) = cluster(5_000).await?;
    client.send("q", vec![Message::new("a")]).await?;
    let mut peer = Peer::connect(&cluster).await?;
    let (mut sender, mut receiver) = (peer.sender("q").await?, peer.receiver("q").await?);
    let delivery: Delivery<Body<Value>> = receiver.recv().await?;
    let transaction = peer.declare("control").await?;
    transaction.accept(&mut receiver, &delivery).await?;
    let outcome = transaction.post(&mut sender, "b").await?;
    ensure!(is_accepted(&outcome), "{outcome:?}");
    // Another connection knows nothing of it.
    let mut other = Peer::connect(&cluster).await?;
    let mut stranger = other.sender("q").await?;
    // It is told so by a plain outcome, where this client insists on one within the transaction.
    let refused = transaction.post(&mut stranger, "x").await.map_err(|error| error.to_string());
    let why = "Transactional state found on non-transactional delivery";
    ensure!(refused.as_ref().is_err_and(|error| error == why), "{refused:?}");
    other.close().await?;
    peer.connection.close().await?;
    drop((transaction, sender, receiver));
    let path = QueuePath::main("q");
    let wait = Duration::from_secs(20);
    let again = client.receive(&path, ReceiveMode::PeekLock, 2, wait).await?;
    ensure!(again.len() == 1 && again[0].body() == "a", "{again:?}");
    let counters = counters(&client, "q").await?;
    ensure!((counters.accepted, counters.completed) == (1, 0), "{counters:?}");
    Ok(())
}

/// TX-5: messages are received from one entity only; what is sent elsewhere goes via it.
#[tokio::test(flavor = "multi_thread")]
async fn tx_5_coord_8_a_transaction_receives_from_one_entity_and_sends_to_any() -> anyhow::Result<()>
{
    let (cluster, client) = cluster(60_000).await?;
    for queue in ["q", "r"] {
        client.send(queue, vec![Message::new("a")]).await?;
    }
    let mut peer = Peer::connect(&cluster).await?;
    let (mut from_q, mut from_r) = (peer.receiver("q").await?, peer.receiver("r").await?);
    let mut to_r = peer.sender("r").await?;
    let delivery: Delivery<Body<Value>> = from_q.recv().await?;
    let elsewhere: Delivery<Body<Value>> = from_r.recv().await?;
    let transaction = peer.declare("control").await?;
    transaction.accept(&mut from_q, &delivery).await?;
    let outcome = transaction.post(&mut to_r, "b").await?;
    ensure!(is_accepted(&outcome), "{outcome:?}");
    transaction.commit().await?;
    becomes(&client, "q", |q| (q.completed, q.forwarded, q.transfer) == (1, 1, 0)).await?;
    becomes(&client, "r", |r| (r.accepted, r.completed) == (2, 0)).await?;
    // This client settles without asking, so it hears of it from the commit.
    let spanning = peer.declare("spanning").await?;
    let mut to_q = peer.sender("q").await?;
    let outcome = spanning.post(&mut to_q, "c").await?;
    ensure!(is_accepted(&outcome), "{outcome:?}");
    spanning.accept(&mut from_r, &elsewhere).await?;
    let refused = spanning.commit().await;
    ensure!(refused.is_err(), "it was committed");
    let q = counters(&client, "q").await?;
    ensure!(q.accepted == 2, "{q:?}");
    peer.close().await
}

/// FWD-14, DLQ-16: a sender link with another destination than its target, in a transaction or by
/// itself.
#[tokio::test(flavor = "multi_thread")]
async fn fwd_14_link_15_a_sender_link_may_name_another_destination() -> anyhow::Result<()> {
    let (cluster, client) = cluster(60_000).await?;
    let mut peer = Peer::connect(&cluster).await?;
    let mut sender = peer.sender_via("q", "r").await?;
    let outcome = sender.send("a").await?;
    ensure!(is_accepted(&outcome), "{outcome:?}");
    arrived(&client, "r").await?;
    let transaction = peer.declare("control").await?;
    let outcome = transaction.post(&mut sender, "b").await?;
    ensure!(is_accepted(&outcome), "{outcome:?}");
    let q = counters(&client, "q").await?;
    ensure!((q.accepted, q.active) == (1, 0), "{q:?}");
    transaction.commit().await?;
    arrived(&client, "r").await?;
    becomes(&client, "q", |q| (q.forwarded, q.transfer, q.active) == (2, 0, 0)).await?;
    // Deleted, it is not found any more; what was on its way is kept at the entity between.
    client.delete_queue("r").await?;
    let outcome = sender.send("c").await?;
    ensure!(condition(&outcome).to_lowercase().contains("not"), "{outcome:?}");
    ensure!(peer.sender_via("q", "none").await.is_err(), "there is no such queue");
    peer.close().await
}
