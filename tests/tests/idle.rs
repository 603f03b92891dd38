//! Temporary queues on real processes that die: every abandoned one vanishes, none in use does.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::{QueueProperties, ReceiveMode};
use client::{Client, Error, Message, QueuePath, ReceiverOptions};
use mayfly_tests::{Cluster, Settings};
use tokio::task::JoinSet;

const WINDOW: Duration = Duration::from_secs(300);
/// A new leader's patience, the coordinator's pace, and a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn temporary() -> QueueProperties {
    let auto_delete_on_idle_ms = Some(WINDOW.as_millis() as u64);
    QueueProperties { auto_delete_on_idle_ms, ..QueueProperties::default() }
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Refused(detail) if detail.name == "MessagingEntityNotFound")
}

/// Tries until it is certainly done: nodes die all the time. What is perhaps done is asked again.
async fn insist<T, F: Future<Output = Result<T, Error>>>(
    mut ask: impl FnMut() -> F,
) -> anyhow::Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(Error::Refused(detail)) => anyhow::bail!("refused: {detail:?}"),
            Err(error) => ensure!(Instant::now() < until, "{error}"),
        }
    }
}

/// What the workload left and what it knows of.
#[derive(Default)]
struct Left {
    abandoned: Mutex<BTreeSet<String>>,
    /// In use when it was found gone.
    wronged: Mutex<Vec<String>>,
}

/// A request and its reply: a queue is created, sent to, received from and left.
async fn converse(client: &Client, queue: &str, left: &Left) -> anyhow::Result<()> {
    insist(|| client.ensure_queue(queue, temporary())).await?;
    left.abandoned.lock().expect("no panic").insert(queue.to_owned());
    if let Err(error) = answered(client, queue).await {
        left.wronged.lock().expect("no panic").push(format!("{queue}: {error}"));
    }
    Ok(())
}

async fn answered(client: &Client, queue: &str) -> anyhow::Result<()> {
    let path = QueuePath::main(queue);
    let wait = Duration::from_secs(2);
    insist(|| client.send(queue, vec![Message::new("reply")])).await?;
    while insist(|| client.receive(&path, ReceiveMode::PeekLock, 1, wait)).await?.is_empty() {}
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_14_reply_queues_vanish_while_nodes_are_killed_and_none_in_use_does()
-> anyhow::Result<()> {
    const KILLS: u64 = 9;
    const WAITERS: usize = 6;
    let settings = Settings { reattach_seconds: 2, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let left = Arc::new(Left::default());
    let stop = Arc::new(AtomicBool::new(false));

    // Somebody waits on these all the time, through whichever node.
    let mut waiters = Vec::new();
    for waiter in 0..WAITERS {
        let queue = format!("awaited-{waiter}");
        client.create_queue(&queue, temporary()).await?;
        waiters.push(client.receiver(queue, ReceiverOptions::default()));
    }
    let mut workers = JoinSet::new();
    for worker in 0..4 {
        let (client, left, stop) = (cluster.client()?, left.clone(), stop.clone());
        workers.spawn(async move {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                converse(&client, &format!("reply-{worker}-{number}"), &left).await?;
            }
            anyhow::Ok(number)
        });
    }

    for kill in 0..KILLS {
        let victim = kill % 3 + 1;
        // Time enough for some to vanish, of those left three kills ago.
        tokio::time::sleep(Duration::from_secs(5)).await;
        insist(|| client.advance_clock(Duration::from_secs(120))).await?;
        cluster.kill(victim)?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        cluster.start_node(victim)?;
    }
    stop.store(true, Ordering::Relaxed);
    let mut conversations = 0;
    while let Some(worker) = workers.join_next().await {
        conversations += worker??;
    }
    cluster.wait_ready().await?;
    let standing = insist(|| client.list_queues("reply-")).await?.len();
    insist(|| client.advance_clock(WINDOW + Duration::from_secs(60))).await?;

    let abandoned = left.abandoned.lock().expect("no panic").clone();
    let wronged = left.wronged.lock().expect("no panic").clone();
    ensure!(wronged.is_empty(), "deleted in use: {wronged:?}");
    let begun = Instant::now();
    loop {
        let standing = insist(|| client.list_queues("reply-")).await?;
        if standing.is_empty() {
            break;
        }
        let (count, first) = (standing.len(), &standing[0]);
        ensure!(begun.elapsed() < PATIENCE, "{count} are still there, as {first:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let during = abandoned.len() - standing;
    println!(
        "{conversations} conversations, {} queues left and deleted, {during} during the kills; \
         the last {:?} after its window",
        abandoned.len(),
        begun.elapsed()
    );
    ensure!(during > 0, "nothing was deleted while nodes were killed");
    for queue in abandoned.iter().take(20) {
        let error = client.get_queue(queue).await.err().context("it was abandoned")?;
        ensure!(is_gone(&error), "{error}");
    }
    for (waiter, mut receiver) in waiters.into_iter().enumerate() {
        let queue = format!("awaited-{waiter}");
        insist(|| client.send(&queue, vec![Message::new("still there")])).await?;
        let receiving = async {
            loop {
                match receiver.recv().await {
                    // Of a node that was killed; the receiver went on with another.
                    Err(error) if !matches!(error, Error::Refused(_)) => (),
                    result => return result,
                }
            }
        };
        let delivery = tokio::time::timeout(PATIENCE, receiving).await??;
        ensure!(receiver.complete(&delivery).failures().await.is_empty());
        receiver.close().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_2_the_list_says_what_keeps_a_queue() -> anyhow::Result<()> {
    let settings =
        Settings { nodes: 1, data_groups: 1, reattach_seconds: 1, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("kept", QueueProperties::default()).await?;
    for queue in ["peeked", "unused", "waiting"] {
        client.create_queue(queue, temporary()).await?;
    }
    let due = client.now().await?.now_ms + 3_600_000;
    client.send("waiting", vec![Message::new("later").scheduled_at_ms(due)]).await?;
    client.peek(&QueuePath::dead_letter("peeked"), 0, 1).await?;
    let list = |flags: &[&str]| -> anyhow::Result<String> {
        let output = std::process::Command::new(mayfly_tests::mayfly()?)
            .args(["queue", "list", "--connect", cluster.addresses(1)[0]])
            .args(flags)
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let shown = list(&["--idle"])?;
    let line = |queue: &str| {
        shown.lines().find(|line| line.starts_with(queue)).unwrap_or_default().to_owned()
    };
    ensure!(line("kept").contains("its settings"), "{shown}");
    ensure!(line("peeked").contains("a receiver or a peek"), "{shown}");
    ensure!(line("unused").contains("its last use, for"), "{shown}");
    ensure!(line("waiting").contains("1 scheduled"), "{shown}");
    client.advance_clock(WINDOW + Duration::from_secs(61)).await?;
    let begun = Instant::now();
    while client.list_queues("").await?.len() > 2 {
        ensure!(begun.elapsed() < PATIENCE, "{}", list(&["--idle"])?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let shown = list(&["--json"])?;
    ensure!(shown.contains("kept") && shown.contains("waiting"), "{shown}");
    let told = cluster.node_log(1);
    ensure!(told.contains("entity deleted") && told.contains("idle"), "{told}");
    Ok(())
}
