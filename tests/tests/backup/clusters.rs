//! Backups of real clusters: made under load, by the API and by the command, restored into clusters of other sizes, and
//! nothing in them twice or not at all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use client::v1::create_backup_response::Part;
use client::v1::{self, QueueProperties, ReceiveMode, TopicProperties};
use client::{
    Client, ClientOptions, Disposition, Message, QueuePath, ReceiverOptions, SenderOptions,
    subscription_path,
};
use mayfly_tests::{Cluster, Settings, mayfly};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A backup as whoever keeps it has it.
#[derive(Default)]
struct Kept {
    header: v1::BackupHeader,
    chunks: Vec<(u32, Bytes)>,
    ends: BTreeMap<u32, (u64, u64)>,
    /// How many chunks came with their data.
    fresh: usize,
}

impl Kept {
    fn entities(&self) -> u64 {
        self.ends.values().map(|(entities, _)| entities).sum()
    }

    fn messages(&self) -> u64 {
        self.ends.values().map(|(_, messages)| messages).sum()
    }
}

/// Makes a backup; `known` has the chunks of those before, and gets those of this one.
async fn back_up(client: &Client, known: &mut HashMap<Bytes, Bytes>) -> anyhow::Result<Kept> {
    let ids: Vec<u8> = known.keys().flatten().copied().collect();
    let mut backup = client.back_up(ids.into()).await?;
    let mut kept = Kept::default();
    while let Some(part) = backup.next().await? {
        match part {
            Part::Header(header) => kept.header = header,
            Part::Chunk(chunk) => {
                let data = match chunk.data {
                    Some(data) => {
                        kept.fresh += 1;
                        known.insert(chunk.id.clone(), data.clone());
                        data
                    }
                    None => known.get(&chunk.id).context("a chunk that nobody has")?.clone(),
                };
                ensure!(data.len() == chunk.bytes as usize, "{} bytes", data.len());
                kept.chunks.push((chunk.group, data));
            }
            Part::GroupEnd(end) => {
                let before = kept.ends.insert(end.group, (end.entities, end.messages));
                ensure!(before.is_none(), "group {} ends twice", end.group);
            }
        }
    }
    let ended: Vec<u32> = kept.ends.keys().copied().collect();
    ensure!(ended == kept.header.groups, "{ended:?} of {:?}", kept.header.groups);
    Ok(kept)
}

async fn restore(client: &Client, kept: &Kept) -> anyhow::Result<v1::RestoreResponse> {
    let v1::BackupHeader { groups, taken_at_ms, .. } = kept.header.clone();
    let mut restore = client.restore(v1::RestoreBegin { groups, taken_at_ms }).await?;
    for (group, data) in &kept.chunks {
        restore.chunk(*group, data.clone()).await?;
    }
    Ok(restore.finish().await?)
}

fn to(name: &str) -> QueueProperties {
    QueueProperties { forward_to: Some(name.to_owned()), ..QueueProperties::default() }
}

/// Runs `mayfly backup`, and reads what it says.
async fn command(words: &[&str]) -> anyhow::Result<serde_json::Value> {
    let done = tokio::process::Command::new(mayfly()?)
        .arg("backup")
        .args(words)
        .arg("--json")
        .stdin(Stdio::null())
        .output()
        .await?;
    let told = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{words:?}: {told}");
    serde_json::from_slice(&done.stdout).with_context(|| format!("{words:?}"))
}

/// Sends one number after the other until it is told to stop.
struct Numbers {
    acknowledged: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    longest_us: Arc<AtomicU64>,
    sending: tokio::task::JoinHandle<anyhow::Result<u64>>,
}

impl Numbers {
    fn start(client: &Client, queue: &str) -> Numbers {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (stop, longest_us) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let sender = client.sender(queue, SenderOptions::default());
        let sending = tokio::spawn({
            let (acknowledged, stop) = (acknowledged.clone(), stop.clone());
            let longest_us = longest_us.clone();
            async move {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    sender.send(Message::new(number.to_string())).await?;
                    longest_us.fetch_max(started.elapsed().as_micros() as u64, Ordering::Relaxed);
                    number += 1;
                    acknowledged.store(number, Ordering::Release);
                }
                Ok(number)
            }
        });
        Numbers { acknowledged, stop, longest_us, sending }
    }

    /// All below this are acknowledged.
    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    async fn finish(self) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.sending.await?
    }
}

/// The numbers a queue has, which are completed.
async fn drain(client: &Client, path: &str) -> anyhow::Result<Vec<u64>> {
    let mut receiver = client.receiver(path, ReceiverOptions::default());
    let mut seen = Vec::new();
    while let Ok(deliveries) =
        tokio::time::timeout(Duration::from_secs(2), receiver.recv_many(200)).await
    {
        let deliveries = deliveries?;
        for delivery in &deliveries {
            seen.push(std::str::from_utf8(delivery.body())?.parse()?);
        }
        receiver.settle_all(&deliveries, Disposition::Complete).failures().await;
    }
    receiver.close().await;
    Ok(seen)
}

async fn counters(client: &Client, queue: &str) -> anyhow::Result<v1::QueueCounters> {
    client.get_queue(queue).await?.counters.context("counters")
}

/// What is on no way anywhere, in every state.
async fn fill(client: &Client) -> anyhow::Result<()> {
    client.create_queue("still", QueueProperties::default()).await?;
    for first in 0..40 {
        let batch = (0..50).map(|n| Message::new(vec![first as u8; 1000 + n]).ttl_ms(86_400_000));
        client.send("still", batch.collect()).await?;
    }
    let path = QueuePath::main("still");
    let locked = client.receive(&path, ReceiveMode::PeekLock, 10, Duration::ZERO).await?;
    ensure!(locked.len() == 10);
    let settlement = |delivery: &client::Delivery, disposition| v1::Settlement {
        lock_token: delivery.lock_token(),
        disposition: Some(disposition),
    };
    let dead = v1::settlement::Disposition::DeadLetter(v1::DeadLetter {
        reason: Some("tried".to_owned()),
        ..v1::DeadLetter::default()
    });
    let settled = vec![
        settlement(&locked[0], dead),
        settlement(&locked[1], v1::settlement::Disposition::Complete(v1::Complete {})),
        settlement(&locked[2], v1::settlement::Disposition::Defer(v1::Defer::default())),
    ];
    ensure!(client.settle(&path, settled, true).await?.is_empty());
    let later = client.now().await?.now_ms + 3_600_000;
    client.send("still", vec![Message::new("later").scheduled_at_ms(later)]).await?;

    client.create_topic("news", TopicProperties::default()).await?;
    for name in ["all", "more"] {
        client
            .create_subscription("news", name, v1::SubscriptionProperties::default(), None)
            .await?;
    }
    for _ in 0..20 {
        client.send("news", (0..10).map(|n| Message::new(vec![n; 2000])).collect()).await?;
    }
    let sessions = QueueProperties { requires_session: Some(true), ..QueueProperties::default() };
    client.create_queue("talks", sessions).await?;
    for session in ["x", "y", "z"] {
        client.send("talks", vec![Message::new(session).session_id(session)]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_restored_elsewhere_to_the_last_message() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut kept = Vec::new();
    let (mut known, mut acknowledged) = (HashMap::new(), Vec::new());
    let mut told = BTreeMap::new();
    let dir = tempfile::tempdir()?;
    let (place, key) = (dir.path().join("backups"), dir.path().join("key"));
    let (place, key) = (place.to_str().context("a path")?, key.to_str().context("a path")?);
    ensure!(std::process::Command::new(mayfly()?).args(["backup", "key", key]).status()?.success());
    let (sent, named) = {
        let settings = Settings { data_groups: 5, ..Settings::default() };
        let cluster = Cluster::start(settings).await?;
        let client = cluster.client()?;
        fill(&client).await?;
        client.create_queue("c", QueueProperties::default()).await?;
        client.create_queue("b", to("c")).await?;
        client.create_queue("a", to("b")).await?;
        let mut groups = BTreeSet::new();
        for name in ["a", "b", "c"] {
            groups.insert(client.get_queue(name).await?.group);
        }
        ensure!(groups.len() == 3, "the chain is to span three groups, not {groups:?}");
        let numbers = Numbers::start(&client, "a");
        for round in 0..4 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let before = numbers.acknowledged();
            numbers.longest_us.store(0, Ordering::Relaxed);
            let started = Instant::now();
            let backup = back_up(&client, &mut known).await?;
            println!(
                "backup {round}: {:?}, {} of {} chunks new, {} messages, longest send {} us",
                started.elapsed(),
                backup.fresh,
                backup.chunks.len(),
                backup.messages(),
                numbers.longest_us.load(Ordering::Relaxed),
            );
            ensure!(backup.entities() == 8, "{}", backup.entities());
            acknowledged.push(before);
            kept.push(backup);
        }
        acknowledged.push(numbers.acknowledged());
        let at = ["--key-file", key, "--connect", cluster.addresses(2)[0]];
        let first = command(&[&["create", place][..], &at].concat()).await?;
        let second = command(&[&["create", place][..], &at].concat()).await?;
        ensure!(second["entities"] == 8, "{second}");
        let stored = |told: &serde_json::Value| told["stored_chunks"].as_u64().unwrap_or_default();
        ensure!(stored(&first) > stored(&second) && stored(&second) > 0, "{first} {second}");
        let named = first["name"].as_str().context("a name")?.to_owned();
        for name in ["still", "talks"] {
            told.insert(name, counters(&client, name).await?);
        }
        (numbers.finish().await?, named)
    };
    let cuts: Vec<u64> = kept.iter().map(|backup| backup.header.cut).collect();
    ensure!(cuts.is_sorted() && cuts[0] < cuts[3], "{cuts:?}");
    // What stands still comes once.
    ensure!(kept[3].fresh < kept[0].fresh, "{} and {}", kept[0].fresh, kept[3].fresh);

    // Those that were kept here, and the one that the command made.
    for (nodes, data_groups, which) in [(1, 2, 3), (2, 1, 0), (3, 7, 4)] {
        let before = acknowledged[which];
        let settings = Settings { nodes, data_groups, ..Settings::default() };
        let cluster = Cluster::start(settings).await?;
        let client = cluster.client()?;
        let started = Instant::now();
        let restored = match kept.get(which) {
            Some(backup) => {
                let restored = restore(&client, backup).await?;
                let v1::RestoreResponse { entities, messages } = restored;
                ensure!(entities == 8 && messages == backup.messages(), "{restored:?}");
                ensure!(cluster.id()? != backup.header.cluster_id, "its identity is its own");
                messages
            }
            None => {
                let to = ["--key-file", key, "--connect", cluster.addresses(1)[0]];
                command(&["verify", place, &named, "--key-file", key]).await?;
                let told = command(&[&["restore", place, &named][..], &to].concat()).await?;
                ensure!(told["entities"] == 8 && told["name"] == *named, "{told}");
                told["messages"].as_u64().context("a number")?
            }
        };
        println!("restored {restored} messages in {:?}", started.elapsed());
        for (name, before) in &told {
            let after = counters(&client, name).await?;
            ensure!(after == *before, "{name}: {after:?} instead of {before:?}");
        }
        for name in ["all", "more"] {
            let found = client.get_subscription("news", name).await?.counters;
            ensure!(found.is_some_and(|counters| counters.active == 200), "{name}: {found:?}");
            let read =
                client.peek(&QueuePath::main(subscription_path("news", name)), 0, 250).await?;
            ensure!(
                read.len() == 200 && read.iter().all(|copy| copy.body().len() == 2000),
                "{name}"
            );
        }
        // All that was acknowledged before it was made, in order and once, and some of what came meanwhile.
        let mut seen = Vec::new();
        while seen.len() < before as usize {
            let more = drain(&client, "c").await?;
            ensure!(!more.is_empty(), "{} of {before} numbers", seen.len());
            seen.extend(more);
        }
        let all: BTreeSet<u64> = seen.iter().copied().collect();
        let missing: Vec<u64> = (0..before).filter(|number| !all.contains(number)).collect();
        ensure!(missing.is_empty(), "lost: {missing:?}");
        ensure!(all.len() == seen.len(), "{} numbers come twice", seen.len() - all.len());
        let turn = seen.windows(2).position(|pair| pair[0] > pair[1]);
        ensure!(turn.is_none(), "out of order: {:?}", turn.map(|at| &seen[at..at + 2]));
        ensure!(seen.len() as u64 <= sent, "{} of {sent}", seen.len());
        for name in ["a", "b", "c"] {
            let now = counters(&client, name).await?;
            ensure!(now.active == 0 && now.transfer == 0, "{name}: {now:?}");
        }
        // It goes on as any other cluster.
        client.create_queue("new", QueueProperties::default()).await?;
        client.send("a", vec![Message::new("1000000")]).await?;
        ensure!(drain(&client, "c").await? == [1_000_000], "what is sent now");
        let again = restore(&client, &kept[0]).await;
        let refused = again.err().context("restored twice")?.to_string();
        ensure!(refused.contains("has entities"), "{refused}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_backup_is_refused_and_nothing_is_made_of_it() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    let now = client.now().await?.now_ms;
    let begin =
        |groups: &[u32], taken_at_ms| v1::RestoreBegin { groups: groups.into(), taken_at_ms };
    for (begin, why) in [
        (begin(&[], now), "does not begin with the catalog"),
        (begin(&[1, 2], now), "does not begin with the catalog"),
        (begin(&[0, 70_000], now), "group is 70000"),
        (begin(&[0, 1], now + 3_600_000), "set the nodes' clocks"),
    ] {
        let refused = client.restore(begin.clone()).await?.finish().await;
        let refused = refused.err().with_context(|| format!("{begin:?}"))?.to_string();
        ensure!(refused.contains(why), "{begin:?}: {refused}");
    }
    // Nothing was begun: entities are created as before, by whoever likes.
    client.create_queue("q", QueueProperties::default()).await?;
    drop(cluster);

    for (chunk, why) in [
        (vec![0, 0, 0, 9, 1], "cut short"),
        (vec![0, 0, 0, 1, 99, 0, 0, 0, 0], "cannot be read by this version"),
    ] {
        let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
        let client = cluster.client()?;
        let mut restore = client.restore(begin(&[0, 1], now)).await?;
        restore.chunk(0, chunk.into()).await?;
        let refused = restore.finish().await.err().context("a broken chunk")?.to_string();
        ensure!(refused.contains(why), "{refused}");
        // What was begun is not taken for a cluster to work with.
        let refused = client.create_queue("q", QueueProperties::default()).await.err();
        let refused = refused.context("created")?.to_string();
        ensure!(refused.contains("being restored"), "{refused}");
        let again = client.restore(begin(&[0, 1], now)).await?.finish().await;
        let again = again.err().context("begun twice")?.to_string();
        ensure!(again.contains("found a new cluster"), "{again}");
    }
    Ok(())
}

/// More of them than one entry of the catalog restores.
#[tokio::test(flavor = "multi_thread")]
async fn ns_3_namespaces_come_back_with_what_is_in_them_and_their_keys() -> anyhow::Result<()> {
    const NAMESPACES: usize = 101;
    let _guard = ONE_AT_A_TIME.lock().await;
    let within = |cluster: &Cluster, namespace: &str| {
        let namespace = Some(namespace.to_owned());
        let options = ClientOptions { namespace, ..ClientOptions::default() };
        Client::with_options([cluster.addresses(1)[0]], options)
    };
    let (kept, namespaces) = {
        let cluster = Cluster::start(Settings::default()).await?;
        let client = cluster.client()?;
        for number in 0..NAMESPACES {
            client.create_namespace(&format!("n{number}"), None).await?;
        }
        for (client, body) in [(within(&cluster, "n7")?, "7"), (cluster.client()?, "1")] {
            client.create_queue("q", QueueProperties::default()).await?;
            client.send("q", vec![Message::new(body)]).await?;
        }
        (back_up(&client, &mut HashMap::new()).await?, client.namespaces().await?)
    };
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    restore(&client, &kept).await?;
    ensure!(namespaces.len() == NAMESPACES, "{}", namespaces.len());
    ensure!(client.namespaces().await? == namespaces, "they or their keys differ");
    ensure!(drain(&within(&cluster, "n7")?, "q").await? == [7]);
    ensure!(drain(&client, "q").await? == [1]);
    Ok(())
}
