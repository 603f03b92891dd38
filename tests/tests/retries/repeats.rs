//! A client dies, and another that knows its producer and serial asks again.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use client::v1;
use mayfly_tests::{Cluster, Raw, Settings};

use crate::ONE_AT_A_TIME;

const PRODUCER: u64 = 0x5eed;
const SERIALS: u64 = 60;

fn request(serial: u64, retry: bool) -> v1::SendRequest {
    let messages = (0..=serial % 3).map(|part| v1::Message {
        body: format!("{serial}-{part}").into(),
        ..v1::Message::default()
    });
    v1::SendRequest {
        queue: "heirs".to_owned(),
        messages: messages.collect(),
        origin: Some(v1::Origin { producer: PRODUCER, serial, ordered: false, retry }),
    }
}

/// Asks until it is answered, as whoever was there before may still be at work.
async fn ask(node: &mut Raw, serial: u64) -> anyhow::Result<Vec<u64>> {
    for _ in 0..100 {
        match node.send(request(serial, true)).await {
            Ok(response) => return Ok(response.sequence_numbers),
            Err(status) if status.code() == tonic::Code::Unavailable => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(status) => bail!("serial {serial}: {status:?}"),
        }
    }
    bail!("serial {serial} is never answered")
}

#[tokio::test(flavor = "multi_thread")]
async fn send_8_who_repeats_the_request_of_a_dead_client_gets_its_outcome() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue("heirs", Default::default()).await?;
    let node = |cluster: &Cluster, id: u64| Raw::to(cluster.addresses(id)[0]);
    // Known to the group from here on: a repeat of what it never got is done, not in doubt.
    node(&cluster, 1)?.send(request(1, false)).await.context("the first")?;
    let mut outcomes = Vec::new();
    for serial in 2..=SERIALS {
        let mut dying = node(&cluster, 1 + serial % 3)?;
        let life = tokio::spawn(async move { dying.send(request(serial, false)).await });
        tokio::time::sleep(Duration::from_micros(serial * 7 % 41 * 150)).await;
        life.abort();
        let heir = ask(&mut node(&cluster, 1 + (serial + 1) % 3)?, serial).await?;
        ensure!(heir.len() as u64 == serial % 3 + 1, "serial {serial}: {heir:?}");
        outcomes.push((serial, heir));
    }
    // Known to all replicas, and to a new leader.
    let leader = cluster.leader_of("heirs").await?;
    cluster.kill(leader)?;
    let other = cluster.ids().find(|id| *id != leader).context("three nodes")?;
    let mut third = node(&cluster, other)?;
    for (serial, outcome) in &outcomes {
        let again = ask(&mut third, *serial).await?;
        ensure!(again == *outcome, "serial {serial}: {outcome:?}, then {again:?}");
    }
    let mut numbers: Vec<u64> = outcomes.iter().flat_map(|(_, numbers)| numbers.clone()).collect();
    numbers.sort_unstable();
    // The first took two.
    let stored = (1..=SERIALS).map(|serial| serial % 3 + 1).sum::<u64>();
    ensure!(numbers.into_iter().eq(3..=stored), "each number once");
    let counters = client.get_queue("heirs").await?.counters.unwrap_or_default();
    ensure!(counters.accepted == stored && counters.active == stored, "{counters:?}");
    Ok(())
}
