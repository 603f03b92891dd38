//! MSG-10 and SEND-8 on streams: what was submitted in a row is stored in that row, once, whatever
//! becomes of connections and leaders; what is received on a stream is settled once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use client::v1::{QueueCounters, QueueProperties};
use client::{Client, Error, Message, QueuePath, ReceiverOptions, Sender, SenderOptions, Sending};
use mayfly_tests::{Cluster, Harm, Plan, Settings, Toward};
use tokio::time::timeout;

use crate::{ONE_AT_A_TIME, stride, wary_client};

/// Messages in one stream that is cut.
const STREAMED: usize = 40;
/// Small requests, many under way.
const PIPELINED: SenderOptions =
    SenderOptions { window: 64, requests_max: 6, batch_messages_max: 4, batch_bytes_max: 4096 };

/// Every message of a queue by number: that of body `n` is `n`, and none is missing.
async fn stored_in_order(client: &Client, queue: &str, count: usize) -> anyhow::Result<()> {
    let path = QueuePath::main(queue);
    let mut next = 1;
    while next <= count as u64 {
        let page = client.peek(&path, next, 250).await?;
        ensure!(!page.is_empty(), "{queue} ends before {next} of {count}");
        for message in page {
            let body = String::from_utf8_lossy(message.body()).into_owned();
            ensure!(message.sequence_number() == next, "{next} is missing");
            ensure!(body == next.to_string(), "{next} holds what was submitted as {body}");
            next += 1;
        }
    }
    let counters = client.get_queue(queue).await?.counters.unwrap_or_default();
    ensure!(counters.accepted == count as u64, "{counters:?}");
    Ok(())
}

/// Submits messages whose bodies count from 1, and awaits their numbers behind.
struct Row {
    sender: Sender,
    submitted: u64,
    under_way: VecDeque<(u64, Sending)>,
}

impl Row {
    fn on(client: &Client, queue: &str) -> Row {
        let sender = client.sender(queue, PIPELINED);
        Row { sender, submitted: 0, under_way: VecDeque::new() }
    }

    async fn submit(&mut self) -> anyhow::Result<()> {
        self.submitted += 1;
        let message = Message::new(self.submitted.to_string());
        self.under_way.push_back((self.submitted, self.sender.submit(vec![message]).await?));
        while self.under_way.len() > 32 {
            self.answered().await?;
        }
        Ok(())
    }

    async fn answered(&mut self) -> anyhow::Result<()> {
        let Some((body, sending)) = self.under_way.pop_front() else { return Ok(()) };
        let numbers = sending.await.with_context(|| format!("message {body}"))?;
        ensure!(numbers == [body], "message {body} has number {numbers:?}");
        Ok(())
    }

    async fn finish(mut self) -> anyhow::Result<usize> {
        while !self.under_way.is_empty() {
            self.answered().await?;
        }
        self.sender.close().await;
        Ok(self.submitted as usize)
    }
}

async fn stream(victim: &Client, calm: &Client, queue: &str) -> anyhow::Result<()> {
    let mut row = Row::on(victim, queue);
    for _ in 0..STREAMED {
        row.submit().await?;
    }
    stored_in_order(calm, queue, row.finish().await?).await
}

/// Receives and completes until nothing comes and, as another client sees the queue, nothing is left.
async fn consume(
    victim: &Client,
    calm: &Client,
    queue: &str,
    left: fn(&QueueCounters) -> u64,
) -> anyhow::Result<BTreeMap<u64, u32>> {
    let options = ReceiverOptions { prefetch: 8, ..ReceiverOptions::default() };
    let mut receiver = victim.receiver(queue, options);
    let (mut counts, mut settling) = (BTreeMap::new(), Vec::new());
    loop {
        let Ok(delivery) = timeout(Duration::from_millis(700), receiver.recv()).await else {
            let counters = calm.get_queue(queue).await?.counters.unwrap_or_default();
            match left(&counters) {
                0 => break,
                _ => continue,
            }
        };
        let delivery = delivery?;
        let before = counts.insert(delivery.sequence_number(), delivery.delivery_count());
        ensure!(before.is_none(), "{} came twice", delivery.sequence_number());
        settling.push(receiver.complete(&delivery));
    }
    for settled in settling {
        match settled.await {
            // Of a settlement whose answer was lost nobody can tell: it says so.
            Ok(()) | Err(Error::PerhapsDone(_)) => (),
            Err(error) => return Err(error.into()),
        }
    }
    receiver.close().await;
    Ok(counts)
}

/// What was on the wire that broke stays locked: it is not waited for.
fn nothing_available(counters: &QueueCounters) -> u64 {
    counters.available
}

fn all_settled(counters: &QueueCounters) -> u64 {
    counters.active
}

fn plans(whole: [(Toward, u64); 2], steps: [usize; 2]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for ((toward, bytes), step) in whole.into_iter().zip(steps) {
        for (number, bytes) in (1..=bytes).step_by(step).enumerate() {
            let harm = if number % 2 == 0 { Harm::Cut } else { Harm::Reset };
            plans.push(Plan { toward, bytes, harm });
        }
    }
    plans
}

#[tokio::test(flavor = "multi_thread")]
async fn send_8_msg_10_a_stream_cut_anywhere_is_stored_once_and_in_order() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings =
        Settings { nodes: 1, data_groups: 1, behind_proxies: true, ..Default::default() };
    let cluster = Cluster::start(settings).await?;
    let (calm, proxy) = (cluster.client()?, cluster.proxy(1));
    let victim = || wary_client([cluster.addresses(1)[0]]);
    let create = async |queue: &str| calm.create_queue(queue, Default::default()).await;
    create("whole").await?;
    proxy.plan(None);
    stream(&victim()?, &calm, "whole").await?;
    let whole = [Toward::Node, Toward::Client].map(|toward| (toward, proxy.passed(toward)));
    for (number, plan) in plans(whole, [stride(197)?, stride(131)?]).into_iter().enumerate() {
        let queue = format!("cut-{number}");
        create(&queue).await?;
        proxy.plan(Some(plan));
        let streamed = stream(&victim()?, &calm, &queue).await;
        streamed.with_context(|| format!("{plan:?}"))?;
    }
    Ok(())
}

/// LOCK-18: what was on the wire comes again when its lock has lapsed, counted; nothing else does.
#[tokio::test(flavor = "multi_thread")]
async fn lock_18_a_receiver_cut_anywhere_gets_everything_and_settles_it_once() -> anyhow::Result<()>
{
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings =
        Settings { nodes: 1, data_groups: 1, behind_proxies: true, ..Default::default() };
    let cluster = Cluster::start(settings).await?;
    let (calm, proxy) = (cluster.client()?, cluster.proxy(1));
    let victim = || wary_client([cluster.addresses(1)[0]]);
    let fill = async |queue: &str| -> anyhow::Result<()> {
        let lock_duration_ms = Some(10_000);
        let properties = QueueProperties { lock_duration_ms, ..Default::default() };
        calm.create_queue(queue, properties).await?;
        let messages = (0..STREAMED).map(|number| Message::new(number.to_string()));
        calm.send(queue, messages.collect()).await?;
        Ok(())
    };
    fill("whole").await?;
    proxy.plan(None);
    ensure!(
        consume(&victim()?, &calm, "whole", all_settled).await?.len() == STREAMED,
        "all of a calm stream"
    );
    let whole = [Toward::Node, Toward::Client].map(|toward| (toward, proxy.passed(toward)));
    let mut cut = Vec::new();
    for (number, plan) in plans(whole, [stride(397)?, stride(797)?]).into_iter().enumerate() {
        let queue = format!("cut-{number}");
        fill(&queue).await?;
        proxy.plan(Some(plan));
        let counts = consume(&victim()?, &calm, &queue, nothing_available).await;
        let counts = counts.with_context(|| format!("{plan:?}"))?;
        ensure!(counts.values().all(|count| *count == 1), "{plan:?}: LOCK-19: {counts:?}");
        cut.push((queue, plan, counts));
    }
    proxy.plan(None);
    for (queue, plan, counts) in cut {
        let rest = consume(&calm, &calm, &queue, all_settled).await?;
        ensure!(rest.values().all(|count| *count == 2), "{plan:?}: LOCK-18: {rest:?}");
        ensure!(rest.len() <= 8, "{plan:?}: more than the prefetch was lost: {rest:?}");
        let overlap = rest.keys().filter(|number| counts.contains_key(number)).count();
        ensure!(overlap == 0, "{plan:?}: {overlap} were settled and came again");
        let counters = calm.get_queue(&queue).await?.counters.unwrap_or_default();
        let all = STREAMED as u64;
        ensure!((counters.accepted, counters.completed) == (all, all), "{plan:?}: {counters:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn send_8_msg_10_a_pipelined_stream_survives_every_change_of_leader() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    let group = client.create_queue("row", Default::default()).await?.group;
    let over = Arc::new(AtomicBool::new(false));
    let sending = tokio::spawn({
        let (client, over) = (client.clone(), over.clone());
        async move {
            let mut row = Row::on(&client, "row");
            while !over.load(Ordering::Relaxed) {
                row.submit().await?;
            }
            row.finish().await
        }
    });
    let pause = || tokio::time::sleep(Duration::from_millis(250));
    for round in 0..6 {
        pause().await;
        let leader = cluster.leader_of("row").await?;
        let next = leader % 3 + 1;
        match round % 3 {
            2 => {
                cluster.kill(leader)?;
                pause().await;
                cluster.start_node(leader)?;
                cluster.wait_caught_up().await?;
            }
            // A transfer that comes too soon after the last is refused: then there is none.
            _ => drop(client.transfer_leader(group, next).await),
        }
    }
    over.store(true, Ordering::Relaxed);
    let count = sending.await??;
    println!("{count} messages in a row");
    stored_in_order(&client, "row", count).await
}
