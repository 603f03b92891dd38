//! The failure: the node that leads the queue's group dies by `kill -9`, and comes back later.

use std::time::{Duration, Instant};

use anyhow::Context;
use client::{Client, ClientOptions};

use super::auditor::wall_ms;
use super::ledger::Ledger;
use crate::up::LocalCluster;

/// How long the node stays dead.
const DEAD_FOR: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Far beyond what an election takes.
const LEADER_WITHIN: Duration = Duration::from_secs(20);
const BACK_WITHIN: Duration = Duration::from_secs(15);

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub node: u64,
    pub killed_at_ms: u64,
    pub new_leader: u64,
    /// From the kill until the survivors agreed on another leader.
    pub leaderless: Duration,
    /// From its restart until it had applied what the others had.
    pub caught_up: Option<Duration>,
}

/// Kills the leader and sees the group through. `None`: it had no leader to kill.
pub async fn kill_leader(
    client: &Client,
    cluster: &LocalCluster,
    queue: &str,
    ledger: &Ledger,
) -> anyhow::Result<Option<Failure>> {
    let described = client.get_queue(queue).await.context("cannot find the leader to kill")?;
    let Some(victim) = cluster.member(described.leader_node) else { return Ok(None) };
    let survivors = cluster.members().filter(|member| member.id() != victim.id());
    let options = ClientOptions {
        give_up_after: Duration::from_millis(500),
        attempt_timeout: Duration::from_millis(500),
        ..ClientOptions::default()
    };
    let addresses = survivors.map(|member| member.addresses().grpc.clone());
    let witness = Client::with_options(addresses, options)?;

    let killed = Instant::now();
    let killed_at_ms = wall_ms();
    ledger.killed(killed);
    victim.kill();
    ledger.note(format!("kill -9 of node {}, which led the queue's group", victim.id()));

    let new_leader = loop {
        if let Ok(status) = witness.status(true).await {
            let group = status.groups.iter().find(|group| group.id == described.group);
            match group.map_or(0, |group| group.leader) {
                0 => (),
                leader if leader == victim.id() => (),
                leader => break leader,
            }
        }
        if killed.elapsed() > LEADER_WITHIN {
            victim.revive();
            anyhow::bail!(
                "no new leader within {} s of the death of node {}",
                LEADER_WITHIN.as_secs(),
                victim.id()
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let leaderless = killed.elapsed();
    ledger.note(format!("node {new_leader} leads after {} ms", leaderless.as_millis()));

    tokio::time::sleep(DEAD_FOR.saturating_sub(killed.elapsed())).await;
    victim.revive();
    let revived = Instant::now();
    ledger.note(format!("node {} is started again", victim.id()));
    let caught_up = catch_up(client, described.group, victim.id(), revived).await;
    if let Some(took) = caught_up {
        ledger.note(format!("node {} is back, {} ms later", victim.id(), took.as_millis()));
    }
    Ok(Some(Failure { node: victim.id(), killed_at_ms, new_leader, leaderless, caught_up }))
}

/// How long until the node's replica of the group is reachable and hardly behind.
async fn catch_up(client: &Client, group: u32, node: u64, since: Instant) -> Option<Duration> {
    while since.elapsed() < BACK_WITHIN {
        if let Ok(status) = client.status(false).await {
            let group = status.groups.iter().find(|status| status.id == group);
            let replica = group.and_then(|group| {
                group.replicas.iter().find(|replica| replica.node == node && replica.reachable)
            });
            if replica.is_some_and(|replica| replica.applied_index > 0 && replica.lag <= 64) {
                return Some(since.elapsed());
            }
        }
        tokio::time::sleep(LOOK_EVERY * 5).await;
    }
    None
}
