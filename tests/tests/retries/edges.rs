//! The node a client talks to dies in the middle of everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mayfly_tests::{Cluster, Settings};
use tokio::task::JoinSet;

use crate::acts::{Act, Stage};
use crate::{ONE_AT_A_TIME, wary_client};

/// Rounds of each act before the edge dies, and after.
const ROUNDS: u64 = 3;

/// Waits until every act was done so many times more.
async fn progress(rounds: &[Arc<AtomicU64>], acts: &mut JoinSet<Played>) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(60);
    let begun: Vec<u64> = rounds.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    let behind =
        |(count, begun): (&Arc<AtomicU64>, &u64)| count.load(Ordering::Relaxed) < begun + ROUNDS;
    while rounds.iter().zip(&begun).any(behind) {
        if let Some(ended) = acts.try_join_next() {
            ended??;
            anyhow::bail!("an act ended early");
        }
        ensure!(Instant::now() < until, "the acts do not go on: {begun:?}, then {rounds:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

type Played = anyhow::Result<Stage>;

#[tokio::test(flavor = "multi_thread")]
async fn send_8_an_edge_that_dies_in_the_middle_leaves_every_act_done_once() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    cluster.client()?.create_queue("anchor", Default::default()).await?;
    for phase in 0..2 {
        let leader = cluster.leader_of("anchor").await?;
        let edge = cluster.ids().find(|id| *id != leader).context("three nodes")?;
        let others = cluster.ids().filter(|id| *id != edge).map(|id| cluster.addresses(id)[0]);
        let others: Vec<String> = others.map(str::to_owned).collect();
        let addresses = [vec![cluster.addresses(edge)[0].to_owned()], others.clone()].concat();
        let stop = Arc::new(AtomicBool::new(false));
        let (mut acts, mut rounds) = (JoinSet::<Played>::new(), Vec::new());
        for act in Act::ALL {
            let calm = wary_client(&others)?;
            let mut stage = Stage::set(act, &format!("edge-{phase}"), calm).await?;
            let (stop, count) = (stop.clone(), Arc::new(AtomicU64::new(0)));
            rounds.push(count.clone());
            let victim = wary_client(&addresses)?;
            acts.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    stage.play(&victim).await?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(stage)
            });
        }
        progress(&rounds, &mut acts).await?;
        cluster.kill(edge)?;
        progress(&rounds, &mut acts).await?;
        stop.store(true, Ordering::Relaxed);
        let mut audits = JoinSet::new();
        while let Some(stage) = acts.join_next().await {
            audits.spawn(stage??.audit());
        }
        while let Some(audited) = audits.join_next().await {
            audited??;
        }
        cluster.start_node(edge)?;
        cluster.wait_caught_up().await?;
    }
    Ok(())
}
