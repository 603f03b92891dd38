//! Sessions with real processes (SESS): many workers over many sessions, a leader killed, order kept
//! in every session, nothing lost, and a lock that lapsed taken over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::QueueProperties;
use client::{Client, Disposition, Error, Message, QueuePath, ReceiverOptions, SenderOptions};
use mayfly_tests::{Cluster, Settings};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const QUEUE: &str = "jobs";

fn properties(lock_ms: u64) -> QueueProperties {
    QueueProperties {
        requires_session: Some(true),
        lock_duration_ms: Some(lock_ms),
        ..QueueProperties::default()
    }
}

fn options(prefetch: u32) -> ReceiverOptions {
    ReceiverOptions { prefetch, ..ReceiverOptions::default() }
}

/// Sends `each` numbered messages to every session, round after round.
async fn send(client: &Client, sessions: usize, each: usize) -> anyhow::Result<()> {
    let sender = client.sender(QUEUE, SenderOptions::default());
    let mut under_way = Vec::new();
    for number in 0..each {
        let message = |id: usize| Message::new(number.to_string()).session_id(format!("s{id}"));
        for ids in (0..sessions).collect::<Vec<_>>().chunks(200) {
            let batch = ids.iter().map(|id| message(*id)).collect();
            under_way.push(sender.submit(batch).await?);
        }
    }
    for sending in under_way {
        sending.await?;
    }
    sender.close().await;
    Ok(())
}

/// What was completed, by session, in the order it was.
type Completed = Arc<Mutex<BTreeMap<String, Vec<u64>>>>;

/// Accepts one session after the other and completes what it finds, until all is done. A session
/// whose connection broke is left to whoever accepts it next.
async fn work(client: Client, completed: Completed, done: Arc<AtomicUsize>, goal: usize) {
    while done.load(Ordering::Relaxed) < goal {
        let wait = Duration::from_secs(1);
        let Ok(mut session) = client.accept_next_session(QUEUE, wait, options(8)).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        for _ in 0..8 {
            let next = tokio::time::timeout(Duration::from_millis(300), session.recv()).await;
            let Ok(Ok(delivery)) = next else { break };
            let body = String::from_utf8_lossy(delivery.body()).into_owned();
            let number = body.parse().expect("a number");
            // Perhaps done counts as done here: if it was not, it comes next again.
            let outcome = session.complete(&delivery).await;
            if let Ok(()) | Err(Error::PerhapsDone(_)) = outcome {
                let mut completed = completed.lock().await;
                completed.entry(session.session_id().to_owned()).or_default().push(number);
                done.fetch_add(1, Ordering::Relaxed);
            }
            if outcome.is_err() {
                break; // What was fetched ahead goes back with the session.
            }
        }
        session.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn order_is_kept_in_every_session_though_the_leader_is_killed() -> anyhow::Result<()> {
    const SESSIONS: usize = 40;
    const EACH: usize = 50;
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    client.create_queue(QUEUE, properties(5_000)).await?;
    send(&client, SESSIONS, EACH).await?;

    let completed = Completed::default();
    let done = Arc::new(AtomicUsize::new(0));
    let goal = SESSIONS * EACH;
    let workers: Vec<_> = (0..6)
        .map(|_| {
            let (client, completed, done) = (client.clone(), completed.clone(), done.clone());
            tokio::spawn(work(client, completed, done, goal))
        })
        .collect();
    let begun = Instant::now();
    while done.load(Ordering::Relaxed) < goal / 3 {
        ensure!(begun.elapsed() < Duration::from_secs(60), "no progress before the kill");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let leader = cluster.leader_of(QUEUE).await?;
    cluster.kill(leader)?;
    println!("node {leader} killed after {} messages", done.load(Ordering::Relaxed));
    let empty = async {
        loop {
            if let Ok(queue) = client.get_queue(QUEUE).await
                && queue.counters.unwrap_or_default().active == 0
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), empty).await.context("messages were left")?;
    done.store(goal, Ordering::Relaxed);
    for worker in workers {
        worker.await?;
    }

    let completed = completed.lock().await;
    ensure!(completed.len() == SESSIONS, "{} sessions were seen", completed.len());
    for (session, numbers) in completed.iter() {
        // A completion that was perhaps done may have been done: its number may come twice in a row.
        let mut numbers = numbers.clone();
        numbers.dedup();
        let expected: Vec<u64> = (0..EACH as u64).collect();
        ensure!(numbers == expected, "session {session} came as {numbers:?}");
    }
    let counters = client.get_queue(QUEUE).await?.counters.unwrap_or_default();
    ensure!(counters.completed == goal as u64, "{counters:?}");
    cluster.start_node(leader)?;
    cluster.wait_caught_up().await?;
    Ok(())
}

/// SESS-12: a holder that is gone keeps its session until the lock lapses, no longer; and its
/// deliveries count.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_lapsed_is_taken_over() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    client.create_queue(QUEUE, properties(5_000)).await?;
    send(&client, 1, 3).await?;

    let mut first = client.accept_session(QUEUE, "s0", options(2)).await?;
    let delivery = first.recv().await?;
    ensure!(delivery.body().as_ref() == b"0");
    first.set_state(Some("half done".into())).await?;
    let refused = client.accept_session(QUEUE, "s0", options(1)).await;
    let refused = refused.err().context("accepted twice")?;
    ensure!(refused.name() == "SessionCannotBeLocked", "{refused}");

    // Nobody renews it. The next in line waits, and gets it when it lapses.
    let begun = Instant::now();
    let wait = Duration::from_secs(20);
    let mut second = client.accept_next_session(QUEUE, wait, options(8)).await?;
    println!("taken over after {:?}", begun.elapsed());
    ensure!(second.session_id() == "s0");
    ensure!(begun.elapsed() < wait, "after {:?}", begun.elapsed());
    ensure!(second.state().await?.as_deref() == Some(b"half done".as_ref()));

    let lost = loop {
        if let Err(lost) = first.recv().await {
            break lost; // After what had been fetched ahead.
        }
    };
    ensure!(lost.name() == "SessionLockLost", "{lost}");
    let settlement = delivery.settlement(Disposition::Complete);
    let failures = client.settle(&QueuePath::main(QUEUE), vec![settlement], false).await?;
    let failure = failures.into_iter().next().and_then(|failure| failure.failure);
    let name = failure.context("completed without the lock")?.name;
    ensure!(name == "SessionLockLost", "{name}");
    let lost = first.renew().await.err().context("renewed without the lock")?;
    ensure!(lost.name() == "SessionLockLost", "{lost}");

    for number in 0..3u32 {
        let delivery = second.recv().await?;
        ensure!(delivery.body().as_ref() == number.to_string().as_bytes());
        // The others may have been fetched ahead, and then count as well.
        let count = delivery.delivery_count();
        ensure!(count == 2 || (number > 0 && count == 1), "{number} was delivered {count} times");
        second.complete(&delivery).await?;
    }
    // SESS-13: by who holds the session, not by a request that says nothing of it.
    let twice = second.complete(&delivery).await.err().context("completed twice")?;
    ensure!(twice.name() == "MessageLockLost", "{twice}");
    let settlement = delivery.settlement(Disposition::Complete);
    let failures = client.settle(&QueuePath::main(QUEUE), vec![settlement], false).await?;
    let name = failures.into_iter().next().and_then(|failure| failure.failure).map(|it| it.name);
    ensure!(name.as_deref() == Some("SessionLockLost"), "{name:?}");
    second.set_state(None).await?;
    second.close().await;
    ensure!(client.sessions(QUEUE, None).await?.is_empty());
    Ok(())
}

/// A figure: `cargo test --release --workspace --test sessions -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn a_hundred_thousand_sessions_on_one_queue() -> anyhow::Result<()> {
    const SESSIONS: usize = 100_000;
    const ACCEPTED: usize = 5_000;
    const WORKERS: usize = 16;
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    client.create_queue(QUEUE, properties(300_000)).await?;
    let begun = Instant::now();
    send(&client, SESSIONS, 1).await?;
    println!("{SESSIONS} sessions sent in {:?}", begun.elapsed());

    let begun = Instant::now();
    let left = Arc::new(AtomicUsize::new(ACCEPTED));
    let workers = (0..WORKERS).map(|_| {
        let (client, left) = (client.clone(), left.clone());
        tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .is_ok()
            {
                let asked = Instant::now();
                let wait = Duration::from_secs(10);
                let mut session = client.accept_next_session(QUEUE, wait, options(1)).await?;
                longest = longest.max(asked.elapsed());
                let delivery = session.recv().await?;
                session.complete(&delivery).await?;
                session.close().await;
            }
            anyhow::Ok(longest)
        })
    });
    let mut longest = Duration::ZERO;
    for worker in workers.collect::<Vec<_>>() {
        longest = longest.max(worker.await??);
    }
    let rate = ACCEPTED as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{rate:.0} sessions/s accepted, received from, completed and closed by {WORKERS} workers"
    );
    println!("longest wait for a session: {longest:?}");
    let begun = Instant::now();
    let listed = client.sessions(QUEUE, None).await?.len();
    println!("{listed} sessions listed in {:?}", begun.elapsed());
    ensure!(listed == SESSIONS - ACCEPTED, "{listed} sessions are left");
    Ok(())
}
