//! Namespaces that go by themselves, on real nodes whose clock is moved.

use std::time::{Duration, Instant, SystemTime};

use anyhow::ensure;
use client::v1::{self, QueueProperties};
use client::{Client, Message, QueuePath};
use mayfly_tests::{Cluster, Settings};

use super::{native, new};

const MINUTE: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(10 * 60);
/// Nobody can have used what was unused before this was over, with the minute for which a use is written down.
const IDLE: Duration = Duration::from_secs(12 * 60);
/// A round of the coordinator, the time that nodes have for an answer, and another round, beside a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(90);

async fn create(operator: &Client, name: &str, window: Option<Duration>) -> anyhow::Result<()> {
    let auto_delete_on_idle_ms = window.map(|window| window.as_millis() as u64);
    let request =
        v1::CreateNamespaceRequest { auto_delete_on_idle_ms, ..new(name, v1::Profile::SelfHosted) };
    operator.create_namespace_of(request).await?;
    Ok(())
}

async fn names(operator: &Client) -> anyhow::Result<Vec<String>> {
    Ok(operator.namespaces().await?.into_iter().map(|it| it.name).collect())
}

async fn wait_for(operator: &Client, expected: &[&str]) -> anyhow::Result<()> {
    let until = Instant::now() + GONE_WITHIN;
    while names(operator).await? != expected {
        ensure!(Instant::now() < until, "{:?}", operator.namespaces().await?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// NS-9, NS-10, IDLE-3, IDLE-4, IDLE-8: what goes and what stays, in one cluster of three nodes. The one that decides
/// dies meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn ns_9_namespaces_that_nobody_uses_go_and_others_stay() -> anyhow::Result<()> {
    let mut cluster =
        Cluster::start(Settings { reattach_seconds: 1, ..Settings::default() }).await?;
    let operator = cluster.client()?;
    for name in ["forwards", "later", "left", "watched"] {
        create(&operator, name, Some(WINDOW)).await?;
    }
    create(&operator, "kept", None).await?;
    let too_short = create(&operator, "short", Some(WINDOW / 3)).await;
    ensure!(too_short.is_err_and(|error| error.to_string().contains("5 min or more")));
    let within = |name| native(&cluster, Some(name), None);
    let [forwards, later, left, watched] =
        [within("forwards")?, within("later")?, within("left")?, within("watched")?];
    for client in [&forwards, &later, &left, &watched] {
        client.create_queue("q", QueueProperties::default()).await?;
        client.send("q", vec![Message::new("stays unread")]).await?;
    }
    // What is forwarded came from a use, and is none of its own.
    let to_q = QueueProperties { forward_to: Some("q".to_owned()), ..Default::default() };
    forwards.create_queue("through", to_q).await?;
    let due = SystemTime::now() + 30 * MINUTE;
    later.send("q", vec![Message::new("later").scheduled_at(due)]).await?;
    let sessions = QueueProperties { requires_session: Some(true), ..Default::default() };
    watched.create_queue("sessions", sessions).await?;
    // Whoever waits keeps it, by whatever node, though nothing ever comes.
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let waiting = tokio::spawn({
        let (watched, path) = (watched.clone(), QueuePath::dead_letter("q"));
        async move {
            while !*stopped.borrow_and_update() {
                let wait = Duration::from_secs(5);
                let none = watched.receive(&path, v1::ReceiveMode::PeekLock, 1, wait).await?;
                ensure!(none.is_empty(), "{none:?}");
            }
            Ok(())
        }
    });
    ensure!(operator.namespace("left").await?.auto_delete_on_idle_ms == Some(600_000));

    operator.advance_clock(IDLE).await?;
    wait_for(&operator, &["kept", "later", "watched"]).await?;
    let refused = left.send("q", vec![Message::new("too late")]).await;
    ensure!(refused.is_err(), "what is gone takes nothing");
    stop.send_replace(true);
    waiting.await??;

    // Nobody waits any more. The one who decides dies on the way.
    operator.advance_clock(IDLE).await?;
    let deciding = catalog_leader(&cluster).await?;
    cluster.kill(deciding)?;
    let survivor = cluster.ids().find(|id| *id != deciding).expect("three nodes");
    let operator = cluster.client_of(survivor)?;
    wait_for(&operator, &["kept", "later"]).await?;
    cluster.start_node(deciding)?;
    cluster.wait_ready().await?;

    // 24 minutes have passed; what is scheduled comes after 30, and then nobody takes it.
    operator.advance_clock(9 * MINUTE).await?;
    let later = native(&cluster, Some("later"), None)?;
    let peeked = later.peek(&QueuePath::main("q"), 0, 10).await?;
    ensure!(peeked.len() == 2, "{peeked:?}");
    operator.advance_clock(IDLE).await?;
    wait_for(&operator, &["kept"]).await
}

async fn catalog_leader(cluster: &Cluster) -> anyhow::Result<u64> {
    let status = cluster.client()?.status(false).await?;
    let catalog = status.groups.iter().find(|group| group.id == 0);
    catalog.map(|group| group.leader).ok_or_else(|| anyhow::anyhow!("{status:?}"))
}
