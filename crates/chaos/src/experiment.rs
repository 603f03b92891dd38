//! One experiment from its start to its verdict: a cluster, clients, faults one after the other; then
//! healing, draining, a look at what is there, and the checker.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientOptions};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::check::{Promise, Violation, check};
use crate::cluster::{Cluster, Settings};
use crate::faults::{self, Happened};
use crate::observe::{self, drained, observe};
use crate::plan::{Draw, FaultKind, Planned};
use crate::report::{Report, Settled};
use crate::timeline::{Timeline, outages, slices};
use crate::watcher::Watcher;
use crate::workloads::{Bench, Phase, TEMPORARY_IDLE, Workload};
use crate::{Clock, Error, Recorder, Run};

/// After the last fault, until every replica is whole and everything is received.
const WHOLE_WITHIN: Duration = Duration::from_secs(90);
const DRAINED_WITHIN: Duration = Duration::from_secs(60);
/// What was held back on a link that was cut may still be acted upon when its client has given up.
const STRAGGLERS: Duration = Duration::from_secs(1);
/// A new leader's patience, the coordinator's pace, and a busy machine.
const IDLE_GONE_WITHIN: Duration = Duration::from_secs(120);
/// `clock.offset_max`, and what it takes to measure it (TIME-8).
const TOLERANCE_MS: u64 = 510;

/// Whom it is done to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A cluster of its own, of this binary.
    Own { program: PathBuf, nodes: u64, data_groups: u16 },
    /// One that runs already, by the addresses of some of its nodes: only what clients may do is done
    /// to it.
    Given { addresses: Vec<String>, secret: Option<String> },
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub seed: u64,
    /// Of load and faults; healing and draining come after it.
    pub lasts: Duration,
    pub target: Target,
    pub faults: Vec<FaultKind>,
    /// In the place of faults drawn from the seed.
    pub schedule: Option<Vec<Planned>>,
    pub workloads: Vec<Workload>,
    /// Messages per second of all workloads together.
    pub rate: u32,
    /// The command that repeats it.
    pub command: String,
}

/// Told now and then what is going on, in a line.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

impl Experiment {
    /// The faults there will be, on so many nodes and groups with data.
    pub fn plan(&self, nodes: u64, groups: u32) -> Vec<Planned> {
        self.schedule.clone().unwrap_or_else(|| {
            let kinds = self.faults.iter().copied();
            let own = matches!(self.target, Target::Own { .. });
            let kinds = kinds.filter(|kind| own || kind.needs_no_process()).collect();
            let (seed, lasts) = (self.seed, self.lasts);
            Draw { seed, nodes, groups, lasts, kinds }.plan()
        })
    }

    async fn cluster(&self, tell: &Tell) -> Result<(Cluster, Vec<Planned>), Error> {
        match &self.target {
            Target::Own { program, nodes, data_groups } => {
                let (program, nodes, data_groups) = (program.clone(), *nodes, *data_groups);
                let plan = self.plan(nodes, data_groups.into());
                let small_disks = plan.iter().any(|fault| fault.kind == FaultKind::FullDisk);
                tell(&format!("starting {nodes} nodes"));
                let settings = Settings { program, nodes, data_groups, small_disks };
                Ok((Cluster::start(&settings).await?, plan))
            }
            Target::Given { addresses, secret } => {
                let cluster = Cluster::join(addresses, secret.clone()).await?;
                let nodes = cluster.ids().len() as u64;
                let plan = self.plan(nodes, cluster.groups.saturating_sub(1) as u32);
                if let Some(fault) = plan.iter().find(|fault| !fault.kind.needs_no_process()) {
                    let told =
                        format!("{} needs a cluster of its own: leave --connect", fault.kind);
                    return Err(Error::Wrong(told));
                }
                Ok((cluster, plan))
            }
        }
    }

    /// From the first process to the verdict. Everything it starts has ended when it returns.
    pub async fn run(&self, tell: Tell) -> Result<Report, Error> {
        let (mut cluster, plan) = self.cluster(&tell).await?;
        let clock = Clock::start();
        let recorder = Recorder::new(clock);
        let (phase, phases) = watch::channel(Phase::Running);
        let client = cluster.client(patience())?;
        let bench = Bench::new(client, recorder.clone(), self.seed, self.pace(), phases);
        let prefix = format!("chaos-{}-", self.seed);
        let mut tasks = JoinSet::new();
        for workload in &self.workloads {
            for entity in workload.entities(&prefix) {
                bench.create(entity).await?;
            }
        }
        let watcher = Watcher::start(&cluster, clock)?;
        for workload in &self.workloads {
            workload.start(&bench, &prefix, &mut tasks);
        }

        let mut broken = Vec::new();
        let mut happened = self.trouble(&mut cluster, &clock, &plan, &tell).await?;
        let load_ended_ms = clock.now_ms();
        tell("healing");
        self.heal(&mut cluster, &mut broken).await?;
        let healed_ms = clock.now_ms();
        phase.send_replace(Phase::Draining);
        tell("draining");
        let observer = cluster.observer()?;
        while recorder.is_sending() {
            tokio::time::sleep(Duration::from_millis(50)).await; // Clients give up in time.
        }
        tokio::time::sleep(STRAGGLERS).await;
        let known = bench.entities().clone();
        if let Some(left) = drained(&observer, &known, DRAINED_WITHIN).await {
            broken.push(recovers(format!("not drained within {DRAINED_WITHIN:?}: {left}")));
        }
        tell("looking");
        let known = bench.entities().clone();
        let nodes = clients_of_nodes(&cluster)?;
        // Followers apply what the last answers told a moment later.
        if let Err(error) = cluster.wait_equal(WHOLE_WITHIN).await {
            broken.push(recovers(error.to_string()));
        }
        let mut end = observe(&observer, &nodes, &known, &clock).await?;
        if self.workloads.contains(&Workload::Temporary) && cluster.is_own() {
            tell("leaving temporary entities alone");
            idle(&observer, &known, &mut end).await?;
        }
        phase.send_replace(Phase::Over);
        let ending = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(60), ending).await.is_err() {
            broken.push(recovers("clients still wait for answers a minute after the end".into()));
        }
        let leaders = watcher.stop().await;
        for (node, process) in &mut cluster.nodes {
            process.revive()?;
            let told = |death: String| recovers(format!("node {node} ended by itself: {death}"));
            broken.extend(process.deaths.drain(..).map(told));
        }

        let mut run = Run {
            entities: bench.entities().clone(),
            history: recorder.history(),
            end,
            tolerance_ms: TOLERANCE_MS,
        };
        run.history.calls.sort_by_key(|call| (call.answered_ms, call.asked_ms));
        tell("checking");
        broken.extend(check(&run));
        outages(&run, &mut happened, load_ended_ms);
        let timeline = Timeline { slices: slices(&run, clock.begun_ms()), leaders };
        let settled = Settled { healed_ms, load_ended_ms, begun_ms: clock.begun_ms() };
        Ok(Report::new(self, cluster.ids().len(), happened, settled, timeline, run, broken))
    }

    /// One fault after the other, each at its time.
    async fn trouble(
        &self,
        cluster: &mut Cluster,
        clock: &Clock,
        plan: &[Planned],
        tell: &Tell,
    ) -> Result<Vec<Happened>, Error> {
        let begun = Instant::now();
        let mut happened = Vec::new();
        for fault in plan {
            let at = begun + Duration::from_millis(fault.at_ms);
            faults::watch_until(cluster, at.min(begun + self.lasts)).await?;
            if begun.elapsed() >= self.lasts {
                break; // Faults before took longer than planned.
            }
            tell(&format!("{} of {}", fault.kind, fault.victim));
            let fault = faults::carry_out(cluster, clock, fault).await?;
            match &fault.skipped {
                None => tell(&fault.told),
                Some(why) => tell(&format!("skipped: {}: {why}", fault.told)),
            }
            happened.push(fault);
        }
        faults::watch_until(cluster, begun + self.lasts).await?;
        Ok(happened)
    }

    /// Whatever is still wrong is put right, and the cluster must become whole by itself.
    async fn heal(&self, cluster: &mut Cluster, broken: &mut Vec<Violation>) -> Result<(), Error> {
        cluster.links.heal();
        for process in cluster.nodes.values_mut() {
            process.revive()?;
            process.start(&[])?;
        }
        if let Err(error) = cluster.wait_whole(WHOLE_WITHIN).await {
            let mut told = format!("not whole within {WHOLE_WITHIN:?}: {error}");
            for (node, process) in &cluster.nodes {
                if let Some(death) = &process.last_death {
                    told += &format!("; node {node} ended by itself: {death}");
                }
            }
            broken.push(recovers(told));
        }
        Ok(())
    }

    /// The rate is shared by the producers, about one and a half to a workload.
    fn pace(&self) -> Duration {
        let producers = self.workloads.len().max(1) as f64 * 1.5;
        Duration::from_secs_f64(producers / f64::from(self.rate.max(1)))
    }
}

fn clients_of_nodes(cluster: &Cluster) -> Result<BTreeMap<u64, Client>, Error> {
    cluster.ids().into_iter().map(|node| Ok((node, cluster.client_of(node)?))).collect()
}

fn recovers(told: String) -> Violation {
    Violation::new(Promise::Recovers, "", "", told)
}

/// Clients that give up in time to try something else.
fn patience() -> ClientOptions {
    let (attempt_timeout, give_up_after) = (Duration::from_secs(3), Duration::from_secs(8));
    ClientOptions { attempt_timeout, give_up_after, ..ClientOptions::default() }
}

/// The cluster's time moves on, and what nobody uses must go; the rest must stay.
async fn idle(
    client: &Client,
    known: &crate::Entities,
    end: &mut crate::run::End,
) -> Result<(), Error> {
    client.advance_clock(TEMPORARY_IDLE + Duration::from_secs(30)).await?;
    let until = Instant::now() + IDLE_GONE_WITHIN;
    let mortal = || known.0.values().filter(|entity| entity.idle_ms.is_some());
    loop {
        let mut waits = false;
        for entity in mortal() {
            let found = observe::counters(client, entity).await?;
            waits |= found.is_some() && entity.vanishes;
            if found.is_none()
                && let Some(end) = end.entities.get_mut(&entity.name)
            {
                end.counters = None;
            }
        }
        if !waits || Instant::now() > until {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
