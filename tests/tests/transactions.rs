//! Transactions with real processes (TX): leaders and edges die around commits, connections break at
//! any byte, and each transaction is done entirely and once, or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use client::v1::{QueueCounters, QueueProperties, ReceiveMode};
use client::{Client, ClientOptions, Delivery, Disposition, Error, Message, QueuePath};
use mayfly_tests::{Cluster, Harm, Plan, Settings, Toward};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const QUEUE: &str = "steps";

/// A client that soon notices when nobody answers any more.
fn wary_client<A: AsRef<str>>(addresses: impl IntoIterator<Item = A>) -> anyhow::Result<Client> {
    let options = ClientOptions {
        connect_timeout: Duration::from_secs(1),
        attempt_timeout: Duration::from_secs(3),
        give_up_after: Duration::from_secs(30),
        probe_interval: Duration::from_millis(200),
        ..ClientOptions::default()
    };
    Ok(Client::with_options(addresses, options)?)
}

async fn receive(client: &Client) -> Result<Option<Delivery>, Error> {
    receive_from(client, QUEUE).await
}

async fn receive_from(client: &Client, queue: &str) -> Result<Option<Delivery>, Error> {
    let path = QueuePath::main(queue);
    let wait = Duration::from_millis(200);
    let received = client.receive(&path, ReceiveMode::PeekLock, 1, wait).await?;
    Ok(received.into_iter().next())
}

async fn counters(client: &Client) -> anyhow::Result<QueueCounters> {
    Ok(client.get_queue(QUEUE).await?.counters.unwrap_or_default())
}

/// `runner:step`.
fn step(delivery: &Delivery) -> anyhow::Result<(u64, u64)> {
    let text = String::from_utf8_lossy(delivery.body()).into_owned();
    let (runner, step) = text.split_once(':').context("a step")?;
    Ok((runner.parse()?, step.parse()?))
}

/// Takes whoever is there one step further: the old step is completed and the next one sent, as one.
/// Counts the steps that were committed, and those that were perhaps.
async fn walk(client: Client, stop: Arc<AtomicBool>, done: Arc<AtomicU64>, open: Arc<AtomicU64>) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(Some(delivery)) = receive(&client).await else { continue };
        let Ok((runner, step)) = step(&delivery) else { return };
        let mut transaction = client.transaction(QUEUE);
        let next = Message::new(format!("{runner}:{}", step + 1));
        let gathered = async {
            transaction.complete(&delivery).await?;
            transaction.send(vec![next]).await
        };
        // Rolled back: the lock lapses, or is given back by whoever is asked next.
        if gathered.await.is_err() {
            continue;
        }
        match transaction.commit().await {
            Ok(_) => drop(done.fetch_add(1, Ordering::Relaxed)),
            Err(Error::PerhapsDone(_)) => drop(open.fetch_add(1, Ordering::Relaxed)),
            Err(_) => (),
        }
    }
}

/// However often leaders die: as many runners as there were, each of them once, and as many messages
/// completed as steps were taken. A transaction in part would lose a runner, double one, or miscount.
#[tokio::test(flavor = "multi_thread")]
async fn tx_2_runners_keep_their_steps_though_leaders_are_killed() -> anyhow::Result<()> {
    const RUNNERS: u64 = 12;
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    let properties = QueueProperties {
        lock_duration_ms: Some(5_000),
        max_delivery_count: Some(1_000),
        ..QueueProperties::default()
    };
    client.create_queue(QUEUE, properties).await?;
    let start = (0..RUNNERS).map(|runner| Message::new(format!("{runner}:0"))).collect();
    client.send(QUEUE, start).await?;

    let stop = Arc::new(AtomicBool::new(false));
    let (done, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let all: Vec<String> = cluster.ids().map(|id| cluster.addresses(id)[0].to_owned()).collect();
    let mut walkers = Vec::new();
    for _ in 0..4 {
        let client = wary_client(&all)?;
        walkers.push(tokio::spawn(walk(client, stop.clone(), done.clone(), open.clone())));
    }
    for round in 1..=3 {
        let goal = done.load(Ordering::Relaxed) + 150;
        let begun = Instant::now();
        while done.load(Ordering::Relaxed) < goal {
            ensure!(begun.elapsed() < Duration::from_secs(60), "no progress in round {round}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let leader = cluster.leader_of(QUEUE).await?;
        cluster.kill(leader)?;
        println!("round {round}: node {leader} killed after {goal} steps");
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.start_node(leader)?;
        cluster.wait_caught_up().await?;
    }
    stop.store(true, Ordering::Relaxed);
    for walker in walkers {
        walker.await?;
    }

    // No locks are waited for: a peek shows what is locked as well.
    let there = client.peek(&QueuePath::main(QUEUE), 0, 250).await?;
    let steps = there.iter().map(step).collect::<anyhow::Result<Vec<_>>>()?;
    let runners: BTreeSet<u64> = steps.iter().map(|(runner, _)| *runner).collect();
    ensure!(there.len() as u64 == RUNNERS, "{} messages: {steps:?}", there.len());
    ensure!(runners.len() as u64 == RUNNERS, "a runner is missing: {steps:?}");
    let taken: u64 = steps.iter().map(|(_, step)| step).sum();
    let counters = counters(&client).await?;
    let (done, open) = (done.load(Ordering::Relaxed), open.load(Ordering::Relaxed));
    println!("{taken} steps: {done} committed, {open} perhaps; {counters:?}");
    ensure!(counters.completed == taken, "{taken} steps: {counters:?}");
    ensure!(counters.accepted == RUNNERS + taken, "{taken} steps: {counters:?}");
    ensure!((done..=done + open).contains(&taken), "{done} were told as committed, {open} perhaps");
    Ok(())
}

/// TX-7, TX-8, TX-9: a transaction is gone with the node that kept it, which is the leader, as clients
/// go there; and its lock is free for whoever asks the next one.
#[tokio::test(flavor = "multi_thread")]
async fn tx_7_a_node_that_dies_rolls_back_the_transactions_it_keeps() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue(QUEUE, QueueProperties::default()).await?;
    client.send(QUEUE, vec![Message::new("a")]).await?;
    let delivery = receive(&client).await?.context("the message")?;
    let leader = cluster.leader_of(QUEUE).await?;
    let others = cluster.ids().filter(|id| *id != leader).map(|id| cluster.addresses(id)[0]);
    let others = wary_client(others)?;

    let bound = wary_client([cluster.addresses(leader)[0]])?;
    let mut transaction = bound.transaction(QUEUE);
    transaction.complete(&delivery).await?;
    transaction.send(vec![Message::new("b")]).await?;
    let path = QueuePath::main(QUEUE);
    let complete = || vec![delivery.settlement(Disposition::Complete)];
    let failures = others.settle(&path, complete(), false).await?;
    let names: Vec<_> = failures.iter().filter_map(|f| f.failure.as_ref()).collect();
    ensure!(names.len() == 1 && names[0].name == "MessageLockLost", "{names:?}");

    cluster.kill(leader)?;
    let begun = Instant::now();
    while !others.settle(&path, complete(), false).await?.is_empty() {
        ensure!(begun.elapsed() < Duration::from_secs(30), "the lock is never free");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("free after {:?}", begun.elapsed());
    let lost = transaction.send(vec![Message::new("c")]).await;
    ensure!(matches!(lost, Err(Error::NotDone(_))), "{lost:?}");
    let lost = transaction.commit().await;
    ensure!(matches!(lost, Err(Error::NotDone(_))), "{lost:?}");
    let counters = counters(&others).await?;
    ensure!((counters.accepted, counters.completed) == (1, 1), "{counters:?}");
    Ok(())
}

/// TX-13, TX-14: a connection that breaks anywhere leaves a transaction done once, or not at all, and
/// whoever asked is told which.
#[tokio::test(flavor = "multi_thread")]
async fn tx_14_a_connection_that_breaks_leaves_no_doubt() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { data_groups: 1, behind_proxies: true, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let direct = cluster.client()?;
    direct.create_queue(QUEUE, QueueProperties::default()).await?;
    let (mut committed, mut sent) = (0, 0);
    let mut told = [0u32; 3];
    for (toward, harm) in [
        (Toward::Node, Harm::Reset),
        (Toward::Client, Harm::Reset),
        (Toward::Client, Harm::Cut),
        (Toward::Client, Harm::Swallow),
    ] {
        for bytes in (1..1_500).step_by(67) {
            sent += 1;
            direct.send(QUEUE, vec![Message::new(format!("{sent}"))]).await?;
            let delivery = receive(&direct).await?.context("the message")?;
            let client =
                wary_client(cluster.ids().map(|id| cluster.proxy(id).address().to_owned()))?;
            let plan = Plan { toward, bytes, harm };
            let arm = || cluster.ids().for_each(|id| cluster.proxy(id).plan(Some(plan)));
            // Anywhere, or with all of it gathered and only the commit to come.
            let outcome = once(&client, &delivery, arm, bytes % 2 == 0).await;
            cluster.ids().for_each(|id| cluster.proxy(id).plan(None));
            let counters = counters(&direct).await?;
            let is_done = match (counters.completed - committed, counters.accepted - sent) {
                (0, 0) => false,
                (1, 1) => true,
                parts => bail!("{parts:?} of the transaction at {bytes} bytes {toward:?}"),
            };
            told[match (&outcome, is_done) {
                (Ok(()), true) => 0,
                (Err(Error::NotDone(_)), false) => 1,
                (Err(Error::PerhapsDone(_)), _) => 2,
                (outcome, done) => {
                    bail!("told {outcome:?}, done {done}, at {bytes} bytes {toward:?} {harm:?}")
                }
            }] += 1;
            if is_done {
                committed += 1;
                sent += 1;
            } else {
                let path = QueuePath::main(QUEUE);
                let complete = vec![delivery.settlement(Disposition::Complete)];
                // The broker may not have seen yet that the connection is gone.
                let begun = Instant::now();
                while !direct.settle(&path, complete.clone(), false).await?.is_empty() {
                    ensure!(begun.elapsed() < Duration::from_secs(30), "the lock is never free");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                committed += 1;
            }
        }
    }
    println!("committed {}, not done {}, perhaps done {}", told[0], told[1], told[2]);
    ensure!(told[0] > 20, "too tame: {told:?}");
    // Every producer was known before its commit was asked, so every repeat was recognised.
    ensure!(told[2] == 0, "{told:?}");
    Ok(())
}

/// One transaction that settles and sends. `arm`: what breaks the connection, from the beginning or
/// from the commit on.
async fn once(
    client: &Client,
    delivery: &Delivery,
    arm: impl Fn(),
    from_commit: bool,
) -> Result<(), Error> {
    let mut transaction = client.transaction(QUEUE);
    if !from_commit {
        arm();
    }
    transaction.complete(delivery).await?;
    transaction.send(vec![Message::new("next")]).await?;
    if from_commit {
        arm();
    }
    transaction.commit().await.map(drop)
}

const INTAKE: &str = "intake";
const ORDERS: &str = "orders";
const UNWANTED: &str = "rolled back";

/// What became of what was moved.
#[derive(Default)]
struct Moves {
    committed: std::sync::Mutex<BTreeSet<u64>>,
    rolled_back: AtomicU64,
    stop: AtomicBool,
}

/// Takes numbers out of the intake and sends them to the orders, as one; now and then it thinks better
/// of it first.
async fn carry(client: Client, moves: Arc<Moves>) {
    while !moves.stop.load(Ordering::Relaxed) {
        let Ok(Some(delivery)) = receive_from(&client, INTAKE).await else { continue };
        let text = String::from_utf8_lossy(delivery.body()).into_owned();
        let Ok(number) = text.parse::<u64>() else { return };
        if number.is_multiple_of(5) && delivery.delivery_count() == 1 {
            let mut transaction = client.transaction(INTAKE);
            let gathered = async {
                transaction.complete(&delivery).await?;
                transaction.send_to(ORDERS, vec![Message::new(UNWANTED)]).await
            };
            let is_gathered = gathered.await.is_ok();
            drop(transaction.rollback().await);
            let back = vec![delivery.settlement(Disposition::Abandon)];
            drop(client.settle(&QueuePath::main(INTAKE), back, false).await);
            moves.rolled_back.fetch_add(u64::from(is_gathered), Ordering::Relaxed);
            continue;
        }
        let mut transaction = client.transaction(INTAKE);
        let gathered = async {
            transaction.complete(&delivery).await?;
            transaction.send_to(ORDERS, vec![Message::new(text.clone())]).await
        };
        if gathered.await.is_ok() && transaction.commit().await.is_ok() {
            moves.committed.lock().expect("nobody panics").insert(number);
        }
    }
}

async fn all_bodies(client: &Client, path: &QueuePath) -> anyhow::Result<Vec<String>> {
    let (mut bodies, mut from) = (Vec::new(), 0);
    loop {
        let page = client.peek(path, from, 250).await?;
        let Some(last) = page.last() else { return Ok(bodies) };
        from = last.sequence_number() + 1;
        let text = |delivery: &Delivery| String::from_utf8_lossy(delivery.body()).into_owned();
        bodies.extend(page.iter().map(text));
    }
}

/// FWD-14, TX-2, TX-12: between two groups, whichever leader dies: what was committed arrives once, and
/// nothing of what was rolled back does.
#[tokio::test(flavor = "multi_thread")]
async fn fwd_14_what_transactions_send_elsewhere_arrives_once_though_leaders_are_killed()
-> anyhow::Result<()> {
    const ROUNDS: [&str; 3] = [INTAKE, ORDERS, INTAKE];
    /// More than are moved before a death, so that there is always something left to move.
    const NUMBERS_OF_ROUND: u64 = 1000;
    const MOVES: u64 = 200;
    const NUMBERS: u64 = NUMBERS_OF_ROUND * ROUNDS.len() as u64;
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { data_groups: 2, ..Settings::default() }).await?;
    let client = cluster.client()?;
    let properties = QueueProperties {
        lock_duration_ms: Some(5_000),
        max_delivery_count: Some(1_000),
        ..QueueProperties::default()
    };
    let mut groups = BTreeSet::new();
    for queue in [INTAKE, ORDERS] {
        groups.insert(client.create_queue(queue, properties.clone()).await?.group);
    }
    ensure!(groups.len() == 2, "both queues are in one group");

    let moves = Arc::new(Moves::default());
    let all: Vec<String> = cluster.ids().map(|id| cluster.addresses(id)[0].to_owned()).collect();
    let mut movers = Vec::new();
    for _ in 0..4 {
        movers.push(tokio::spawn(carry(wary_client(&all)?, moves.clone())));
    }
    let count = || moves.committed.lock().expect("nobody panics").len() as u64;
    let mut numbers = 1..=NUMBERS;
    for (round, queue) in ROUNDS.into_iter().enumerate() {
        let goal = count() + MOVES;
        for _ in 0..NUMBERS_OF_ROUND / 100 {
            let batch = numbers.by_ref().take(100).map(|n| Message::new(n.to_string()));
            client.send(INTAKE, batch.collect()).await?;
        }
        let begun = Instant::now();
        while count() < goal {
            ensure!(begun.elapsed() < Duration::from_secs(90), "no progress in round {round}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let leader = cluster.leader_of(queue).await?;
        cluster.kill(leader)?;
        println!("node {leader}, which led '{queue}', killed after {} moves", count());
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.start_node(leader)?;
        cluster.wait_caught_up().await?;
    }
    let begun = Instant::now();
    loop {
        let counters = client.get_queue(INTAKE).await?.counters.unwrap_or_default();
        if (counters.active, counters.transfer) == (0, 0) {
            println!("{counters:?}");
            ensure!(counters.forwarded == NUMBERS, "{counters:?}");
            ensure!(counters.transfer_dead_lettered == 0, "{counters:?}");
            break;
        }
        ensure!(begun.elapsed() < Duration::from_secs(120), "left at the intake: {counters:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    moves.stop.store(true, Ordering::Relaxed);
    for mover in movers {
        mover.await?;
    }
    let bodies = all_bodies(&client, &QueuePath::main(ORDERS)).await?;
    let arrived: BTreeSet<u64> = bodies.iter().filter_map(|body| body.parse().ok()).collect();
    ensure!(bodies.len() as u64 == NUMBERS, "{} messages arrived", bodies.len());
    ensure!(arrived == (1..=NUMBERS).collect(), "not each of them once");
    let rolled_back = moves.rolled_back.load(Ordering::Relaxed);
    println!("{} told as committed, {rolled_back} rolled back", count());
    ensure!(rolled_back > 0, "too tame");
    Ok(())
}
