//! What is done to a cluster, and how it is undone. One fault at a time: so a minority is hurt, whatever
//! comes; or all nodes, by what takes nothing that was synced.

mod damage;
mod links;
mod message;
mod power;
mod rotation;
mod snapshot;
mod upgrade;

use std::path::Path;
use std::time::Duration;

use client::v1::StatusResponse;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::{Cluster, Harmed, NodeControl};
use crate::plan::{FaultKind, Planned, Victim};
use crate::process::Process;
use crate::{Clock, Error};

/// A node that lost what it held must be whole again before another may.
const WHOLE_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A node that joins is told of by the catalog; one that leaves hands over what it holds, replica by
/// replica, while other nodes may be down.
const JOINED_WITHIN: Duration = Duration::from_secs(20);
const LEFT_WITHIN: Duration = Duration::from_secs(30);

/// A fault as it was.
#[derive(Clone, Debug, Serialize)]
pub struct Happened {
    pub kind: FaultKind,
    pub begun_ms: u64,
    pub ended_ms: u64,
    /// As people read it.
    pub told: String,
    /// Why it was not done.
    pub skipped: Option<String>,
    /// The longest time in which some entity acknowledged no send, from its beginning until after its
    /// end.
    pub outage_ms: u64,
}

/// How a fault that was begun is to be undone.
enum Undo {
    Start(u64),
    Continue(u64),
    Restart(u64),
    /// With what a power failure leaves, drawn from a seed.
    StartLosing(Vec<u64>, u64),
    Heal,
    HealSnapshots,
    SyncAsUsual(u64),
    ClearDisk(u64),
    Dismiss,
    /// Clients meet it no more.
    RemoveRule,
    Nothing,
}

/// Begins a fault, lets it last, unless the run is stopped, and undoes it.
pub async fn carry_out(
    cluster: &mut Cluster,
    clock: &Clock,
    fault: &Planned,
    stopped: &watch::Receiver<bool>,
) -> Result<Happened, Error> {
    let begun_ms = clock.now_ms();
    let done = begin(cluster, fault).await?;
    let lasts = Instant::now() + Duration::from_millis(fault.lasts_ms);
    let (told, skipped) = match done {
        Ok((told, undo)) => {
            watch_while(cluster, lasts, stopped).await?;
            (told + &self::undo(cluster, undo).await?, None)
        }
        Err(why) => (format!("{} of {}", fault.kind, fault.victim), Some(why)),
    };
    let ended_ms = clock.now_ms();
    Ok(Happened { kind: fault.kind, begun_ms, ended_ms, told, skipped, outage_ms: 0 })
}

/// Waits, unless the run is stopped, and starts nodes again that end by themselves.
pub async fn watch_while(
    cluster: &mut Cluster,
    until: Instant,
    stopped: &watch::Receiver<bool>,
) -> Result<(), Error> {
    while Instant::now() < until && !*stopped.borrow() {
        for process in cluster.nodes.values_mut() {
            process.revive()?;
        }
        tokio::time::sleep(LOOK_EVERY.min(until - Instant::now())).await;
    }
    Ok(())
}

/// Says what was done and how it is undone, or why it was not done.
async fn begin(
    cluster: &mut Cluster,
    fault: &Planned,
) -> Result<Result<(String, Undo), String>, Error> {
    let node = victim(cluster, fault.victim).await;
    if fault.kind.needs_whole()
        && let Err(why) = be_whole(cluster, node).await?
    {
        return Ok(Err(format!("another node is not whole yet: {why}")));
    }
    if fault.kind.hurts_process()
        && let Err(why) = cluster.control(node)
    {
        return Ok(Err(why));
    }
    inflict(cluster, fault, node).await
}

/// Waits until no node but this one has lost anything, known or not: what two of three have lost is gone.
async fn be_whole(cluster: &mut Cluster, node: u64) -> Result<Result<(), String>, Error> {
    if let Err(why) = cluster.wait_whole(WHOLE_WITHIN).await {
        return Ok(Err(why.to_string()));
    }
    let Some(Harmed { node: other, identity }) = cluster.harmed.clone() else { return Ok(Ok(())) };
    let process = process(cluster, other)?;
    if other == node || identity_of(process.data())? != identity {
        return Ok(Ok(()));
    }
    // It runs on files whose harm it has not met: it would meet it while the next node is rebuilt.
    process.may_die = true;
    process.kill();
    damage::wipe(process.data()).map_err(Error::io(process.data().display().to_string()))?;
    process.start(&[])?;
    cluster.harmed = None;
    Ok(cluster.wait_whole(WHOLE_WITHIN).await.map_err(|why| why.to_string()))
}

/// Who a node's data say it is. One that found them damaged goes on as another.
fn identity_of(data: &Path) -> Result<Vec<u8>, Error> {
    let path = data.join("mayfly-data");
    match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(Error::io(path.display().to_string())),
    }
}

async fn inflict(
    cluster: &mut Cluster,
    fault: &Planned,
    node: u64,
) -> Result<Result<(String, Undo), String>, Error> {
    let mut random = ChaCha8Rng::seed_from_u64(fault.seed);
    let seconds = fault.lasts_ms as f64 / 1e3;
    let whose = match fault.victim {
        Victim::Node(_) => format!("node {node}"),
        leader @ Victim::LeaderOf(_) => format!("node {node}, {leader}"),
    };
    Ok(match fault.kind {
        FaultKind::Kill => {
            control(cluster, node)?.kill().await?;
            Ok((format!("killed {whose}; down for {seconds:.1} s"), Undo::Start(node)))
        }
        FaultKind::PowerFailure => {
            power::cut(cluster, &[node])?;
            let told = format!("cut the power of {whose}; down for {seconds:.1} s");
            Ok((told, Undo::StartLosing(vec![node], fault.seed)))
        }
        FaultKind::Blackout => {
            let nodes = cluster.ids();
            power::cut(cluster, &nodes)?;
            let told = format!("cut the power of all nodes; down for {seconds:.1} s");
            Ok((told, Undo::StartLosing(nodes, fault.seed)))
        }
        FaultKind::Pause => {
            control(cluster, node)?.pause().await?;
            Ok((format!("stopped {whose} for {seconds:.1} s"), Undo::Continue(node)))
        }
        FaultKind::Restart => {
            control(cluster, node)?.stop().await?;
            Ok((format!("ended {whose}; down for {seconds:.1} s"), Undo::Start(node)))
        }
        FaultKind::Partition | FaultKind::Delay | FaultKind::Loss | FaultKind::Slow => {
            let hurt = links::hurt(cluster, node, &whose, fault, &mut random).await?;
            hurt.map(|told| (told, Undo::Heal))
        }
        FaultKind::ClockSkew | FaultKind::ClockJump => {
            let flags = wrong_clock(fault.kind, &mut random);
            control(cluster, node)?.kill().await?;
            control(cluster, node)?.start(&flags).await?;
            Ok((format!("restarted {whose} with {}", flags.join(" ")), Undo::Restart(node)))
        }
        FaultKind::SlowSync => {
            let delay = Duration::from_millis(random.random_range(200..2_000));
            control(cluster, node)?.delay_syncs(delay).await?;
            let told = format!("made syncs of {whose} take {delay:?} longer for {seconds:.1} s");
            Ok((told, Undo::SyncAsUsual(node)))
        }
        FaultKind::FullDisk => match cluster.disk(node) {
            None => Err("this process may not mount a small disk; run it as root".to_owned()),
            Some(disk) => {
                disk.fill(0)?;
                process(cluster, node)?.may_die = true;
                let told = format!("filled the disk of {whose} for {seconds:.1} s");
                Ok((told, Undo::ClearDisk(node)))
            }
        },
        FaultKind::BitFlip | FaultKind::Truncate | FaultKind::Wipe => {
            harm(cluster, node, &whose, fault.kind, &mut random).await?
        }
        FaultKind::DamagedSnapshot => snapshot::harm(cluster, node).await?.map(|()| {
            let told = format!("wiped {whose} and damaged the snapshots it was sent");
            (told, Undo::HealSnapshots)
        }),
        FaultKind::Transfer => transfer(cluster, node, fault.victim, &mut random).await,
        FaultKind::MessageFault => {
            let told = message::strike(cluster, &mut random).await;
            told.map(|told| {
                let told = format!("had clients over AMQP meet faults for {seconds:.1} s: {told}");
                (told, Undo::RemoveRule)
            })
        }
        FaultKind::RotateCertificate => {
            rotation::replace_certificate(cluster, node).await?;
            Ok((format!("replaced the certificate of {whose}"), Undo::Nothing))
        }
        FaultKind::RotateAuthority => {
            rotation::replace_authority(cluster).await?;
            let told = "replaced the authority, and the certificates of all nodes".to_owned();
            Ok((told, Undo::Nothing))
        }
        FaultKind::RotateKey if cluster.has_guest() => {
            Err("a node that had joined has not left".to_owned())
        }
        FaultKind::RotateKey => {
            rotation::replace_key(cluster).await?;
            Ok(("rotated the key of all clients".to_owned(), Undo::Nothing))
        }
        FaultKind::Upgrade => {
            upgrade::upgrade(cluster, node).await?.map(|told| (told, Undo::Nothing))
        }
        FaultKind::Downgrade => {
            upgrade::downgrade(cluster, node).await?.map(|told| (told, Undo::Nothing))
        }
        FaultKind::Membership => cluster.invite(JOINED_WITHIN).await?.map(|guest| {
            (
                format!("node {guest} joined and was given replicas; {seconds:.1} s later"),
                Undo::Dismiss,
            )
        }),
    })
}

fn process(cluster: &mut Cluster, node: u64) -> Result<&mut Process, Error> {
    cluster.nodes.get_mut(&node).ok_or_else(|| Error::Wrong(format!("there is no node {node}")))
}

/// The process of a node, wherever it runs.
fn control(cluster: &mut Cluster, node: u64) -> Result<NodeControl<'_>, Error> {
    cluster.control(node).map_err(Error::Wrong)
}

/// Of a leader, the node that leads now, as far as any says; node 1 where none does, or a guest.
async fn victim(cluster: &Cluster, victim: Victim) -> u64 {
    match victim {
        Victim::Node(node) => node,
        Victim::LeaderOf(group) => match status(cluster).await {
            Some(status) => {
                let ours = |node: &u64| !cluster.is_own() || cluster.nodes.contains_key(node);
                leader(&status, group).filter(ours).unwrap_or(1)
            }
            None => 1,
        },
    }
}

async fn status(cluster: &Cluster) -> Option<StatusResponse> {
    cluster.observer().ok()?.status(true).await.ok()
}

fn leader(status: &StatusResponse, group: u32) -> Option<u64> {
    let found = status.groups.iter().find(|it| it.id == group);
    found.map(|group| group.leader).filter(|leader| *leader != 0)
}

/// A clock of a minority may be wrong by anything (TIME-8).
fn wrong_clock(kind: FaultKind, random: &mut ChaCha8Rng) -> Vec<String> {
    const AMOUNTS: [&str; 6] = ["2s", "5m", "3h", "10d", "1y", "30y"];
    let amount = AMOUNTS.choose(random).unwrap_or(&AMOUNTS[0]);
    let ahead = random.random_bool(0.5);
    match kind {
        FaultKind::ClockJump => vec![format!("--clock-skew-jump={amount}")],
        _ => vec![format!("--clock-skew={}{amount}", if ahead { "+" } else { "-" })],
    }
}

async fn harm(
    cluster: &mut Cluster,
    node: u64,
    whose: &str,
    kind: FaultKind,
    random: &mut ChaCha8Rng,
) -> Result<Result<(String, Undo), String>, Error> {
    let process = process(cluster, node)?;
    process.may_die = true;
    // In good order its rows are flushed: then there are files of both kinds to harm.
    match random.random_bool(0.5) {
        true => process.stop().await,
        false => process.kill(),
    }
    let data = process.data().to_owned();
    let identity = identity_of(&data)?;
    let done = match kind {
        FaultKind::BitFlip => damage::flip_a_bit(&data, random),
        FaultKind::Truncate => damage::truncate(&data, random),
        _ => damage::wipe(&data),
    };
    let done = done.map_err(Error::io(data.display().to_string()))?;
    Ok(match done {
        Some(what) => {
            cluster.harmed = Some(Harmed { node, identity });
            Ok((format!("stopped {whose} and {what}"), Undo::Start(node)))
        }
        None => {
            process.start(&[])?;
            Err("it has no file that could be harmed".to_owned())
        }
    })
}

async fn transfer(
    cluster: &Cluster,
    node: u64,
    victim: Victim,
    random: &mut ChaCha8Rng,
) -> Result<(String, Undo), String> {
    let Some(status) = status(cluster).await else {
        return Err("no node tells who leads".to_owned());
    };
    let group = match victim {
        Victim::LeaderOf(group) => group,
        Victim::Node(_) => random.random_range(0..cluster.groups as u32),
    };
    let from = leader(&status, group).unwrap_or(node);
    let to: Vec<u64> = cluster.ids().into_iter().filter(|node| *node != from).collect();
    let Some(to) = to.choose(random) else { return Err("there is no other node".to_owned()) };
    let observer = cluster.observer().map_err(|error| error.to_string())?;
    let done = observer.transfer_leader(group, *to).await;
    let outcome = done.map_or_else(|error| format!(": {error}"), |()| String::new());
    let told = format!("handed group {group} from node {from} to node {to}{outcome}");
    Ok((told, Undo::Nothing))
}

/// Undoes a fault; what more there is to tell of it.
async fn undo(cluster: &mut Cluster, undo: Undo) -> Result<String, Error> {
    match undo {
        Undo::Start(node) => control(cluster, node)?.start(&[]).await?,
        Undo::Continue(node) => control(cluster, node)?.resume().await?,
        Undo::Restart(node) => {
            let mut process = control(cluster, node)?;
            process.stop().await?;
            process.start(&[]).await?;
        }
        Undo::StartLosing(nodes, seed) => return power::restore(cluster, &nodes, seed).await,
        Undo::Heal => cluster.heal().await?,
        Undo::HealSnapshots => return snapshot::end(cluster).await,
        Undo::SyncAsUsual(node) => {
            control(cluster, node)?.delay_syncs(Duration::ZERO).await?;
        }
        Undo::ClearDisk(node) => {
            if let Some(disk) = cluster.disk(node) {
                disk.clear();
            }
        }
        Undo::Dismiss => {
            return Ok(match cluster.dismiss(LEFT_WITHIN).await? {
                Ok(()) => " it was drained and removed".to_owned(),
                Err(told) => format!(" it was to go: {told}"),
            });
        }
        Undo::RemoveRule => {
            // It ends by itself where nobody answers.
            drop(cluster.observer()?.remove_fault_rules(Some(message::RULE)).await);
        }
        Undo::Nothing => (),
    }
    Ok(String::new())
}
