//! The course of one experiment, phase by phase.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, ClientOptions};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::backups::Backups;
use super::rounds::{Judged, Rounds, Site};
use super::{Experiment, Tell};
use crate::check::{Promise, Violation, check};
use crate::cluster::Cluster;
use crate::entity::Kind;
use crate::faults::{self, Happened};
use crate::observe::{self, drained, observe};
use crate::plan::Planned;
use crate::report::{Known, Report, Settled, Tally};
use crate::run::{End, Restored};
use crate::timeline::{Timeline, outages};
use crate::watcher::Watcher;
use crate::workloads::{Bench, Phase, TEMPORARY_IDLE, Workload};
use crate::{Clock, Entities, Error, Recorder, Run};

/// After the last fault, until every replica is whole and everything is received.
const WHOLE_WITHIN: Duration = Duration::from_secs(90);
const DRAINED_WITHIN: Duration = Duration::from_secs(60);
/// Clients give up by themselves long before that.
const CLIENTS_END_WITHIN: Duration = Duration::from_secs(60);
/// What was held back on a link that was cut may still be acted upon when its client has given up.
const STRAGGLERS: Duration = Duration::from_secs(1);
/// A new leader's patience, the coordinator's pace, and a busy machine.
const IDLE_GONE_WITHIN: Duration = Duration::from_secs(120);
/// `clock.offset_max`, and what it takes to measure it (TIME-8).
const TOLERANCE_MS: u64 = 510;

/// A cluster with clients at work, and what is known of it so far.
pub struct Course<'a> {
    experiment: &'a Experiment,
    tell: Tell,
    /// Whether the load is to end early.
    stopped: watch::Receiver<bool>,
    cluster: Cluster,
    /// Past all links.
    observer: Client,
    bench: Bench,
    phase: watch::Sender<Phase>,
    clients: JoinSet<()>,
    watcher: Watcher,
    /// Of what is sent beyond the round that lasts, where that is not all.
    rounds: Option<Rounds>,
    judged: Judged,
    node_ends_ms: Arc<Mutex<Vec<(u64, u64)>>>,
    /// Where disks are lost in the end.
    backups: Option<Backups>,
    restored: Option<Restored>,
    broken: Vec<Violation>,
    settled: Settled,
}

impl<'a> Course<'a> {
    /// Creates what the workloads need and starts their clients.
    pub async fn begin(
        experiment: &'a Experiment,
        cluster: Cluster,
        tell: Tell,
        stopped: watch::Receiver<bool>,
        plan: &[Planned],
    ) -> Result<Course<'a>, Error> {
        let clock = Clock::start();
        let (phase, phases) = watch::channel(Phase::Running);
        let (seed, rate) = (experiment.seed, experiment.lasting_rate());
        let paces = experiment.paces(rate, &experiment.workloads);
        let (client, operator) = (cluster.client(patience())?, cluster.observer()?);
        let entries = cluster.amqp();
        let bench =
            Bench::new(client, operator, entries, Recorder::new(clock), seed, paces, phases);
        let prefix = format!("chaos-{seed}-");
        for workload in &experiment.workloads {
            for entity in workload.entities(&prefix) {
                bench.create(entity).await?;
            }
        }
        let (watcher, observer) = (Watcher::start(&cluster, clock)?, cluster.observer()?);
        let mut clients = JoinSet::new();
        for workload in &experiment.workloads {
            workload.start(&bench, &prefix, &mut clients);
        }
        let node_ends_ms = Arc::default();
        let beyond = f64::from(experiment.rate) - rate;
        let site = (beyond >= 1.0).then(|| {
            let of_rounds = experiment.workloads.iter().copied();
            let workloads: Vec<_> = of_rounds.filter(|it| it.comes_in_rounds()).collect();
            Site {
                client: bench.client.clone(),
                operator: bench.operator.clone(),
                observer: observer.clone(),
                amqp: bench.amqp.clone(),
                clock,
                seed,
                prefix: prefix.clone(),
                paces: experiment.paces(beyond, &workloads),
                workloads,
                rate: beyond,
                node_ends_ms: Arc::clone(&node_ends_ms),
                of_two_releases: cluster.releases().is_ok(),
                tolerance_ms: TOLERANCE_MS,
                held_back: STRAGGLERS + longest(plan),
            }
        });
        let rounds = site.filter(|site| !site.workloads.is_empty()).map(Rounds::start);
        let backups = match experiment.restores {
            true => Some(Backups::start(&cluster, clock)?),
            false => None,
        };
        let begun_ms = clock.begun_ms();
        let settled = Settled { begun_ms, load_ended_ms: begun_ms, healed_ms: begun_ms };
        let broken = Vec::new();
        Ok(Course {
            experiment,
            tell,
            stopped,
            cluster,
            observer,
            bench,
            phase,
            clients,
            watcher,
            rounds,
            judged: Judged::default(),
            node_ends_ms,
            backups,
            restored: None,
            broken,
            settled,
        })
    }

    fn clock(&self) -> Clock {
        self.bench.recorder.clock
    }

    fn not_recovered(&mut self, told: String) {
        self.broken.push(Violation::new(Promise::Recovers, "", "", told));
    }

    /// One fault after the other, each at its time.
    pub async fn trouble(&mut self, plan: &[Planned]) -> Result<Vec<Happened>, Error> {
        let (begun, clock) = (Instant::now(), self.clock());
        let end = begun + self.experiment.lasts;
        let mut happened = Vec::new();
        for fault in plan {
            let at = begun + Duration::from_millis(fault.at_ms);
            faults::watch_while(&mut self.cluster, at.min(end), &self.stopped).await?;
            if Instant::now() >= end || *self.stopped.borrow() {
                break; // Those before may have taken longer than planned.
            }
            let fault = faults::carry_out(&mut self.cluster, &clock, fault, &self.stopped).await?;
            match &fault.skipped {
                None => (self.tell)(&fault.told),
                Some(why) => (self.tell)(&format!("skipped: {}: {why}", fault.told)),
            }
            if fault.kind.ends_nodes() {
                let mut ends =
                    self.node_ends_ms.lock().unwrap_or_else(|poison| poison.into_inner());
                ends.push((fault.begun_ms, fault.ended_ms));
            }
            happened.push(fault);
        }
        faults::watch_while(&mut self.cluster, end, &self.stopped).await?;
        self.settled.load_ended_ms = clock.now_ms();
        Ok(happened)
    }

    /// Whatever is still wrong is put right, and the cluster must become whole by itself.
    pub async fn heal(&mut self) -> Result<(), Error> {
        (self.tell)("healing");
        self.cluster.put_right().await?;
        if let Err(told) = self.cluster.dismiss(WHOLE_WITHIN).await? {
            self.not_recovered(told);
        }
        if let Err(error) = self.cluster.wait_whole(WHOLE_WITHIN).await {
            let mut told = format!("not whole within {WHOLE_WITHIN:?}: {error}");
            for (node, process) in &self.cluster.nodes {
                if let Some(death) = &process.last_death {
                    told += &format!("; node {node} ended by itself: {death}");
                }
            }
            self.not_recovered(told);
        }
        self.settled.healed_ms = self.clock().now_ms();
        Ok(())
    }

    /// All but the round that lasts come to their end.
    pub async fn end_rounds(&mut self) {
        if let Some(rounds) = self.rounds.take() {
            (self.tell)("judging what was sent in rounds");
            self.judged = rounds.end().await;
        }
    }

    /// Nothing new is sent from here on, nor on its way.
    pub async fn end_sends(&mut self) {
        (self.tell)("draining");
        self.phase.send_replace(Phase::Draining);
        let recorder = self.bench.recorder.clone();
        let sending = async {
            while recorder.is_sending() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if timeout(CLIENTS_END_WITHIN, sending).await.is_err() {
            self.not_recovered(format!("sends wait for answers for {CLIENTS_END_WITHIN:?}"));
        }
    }

    /// Where the experiment says so, all disks are lost while clients receive, and the last backup is restored. Nothing is
    /// on its way in: a client that sends again what it is not sure of is not recognised by a restored cluster.
    pub async fn restore(&mut self) -> Result<(), Error> {
        let Some(mut backups) = self.backups.take() else { return Ok(()) };
        let (place, made) = backups.finish().await?;
        let Some(backup_begun_ms) = made.last_begun_ms else { return Ok(()) };
        let lost_ms = self.clock().now_ms();
        let age_s = lost_ms.saturating_sub(backup_begun_ms) as f64 / 1e3;
        (self.tell)(&format!(
            "losing all disks; the last of {} backups, which began {age_s:.1} s ago, is restored",
            made.count
        ));
        self.cluster.found_again().await?;
        let restoring = tokio::task::spawn_blocking(move || place.restore());
        match restoring.await {
            Ok(Ok(())) => (),
            Ok(Err(error)) => self.not_recovered(error.to_string()),
            Err(error) => self.not_recovered(error.to_string()),
        }
        let restored_ms = self.clock().now_ms();
        self.restored = Some(Restored { backup_begun_ms, lost_ms, restored_ms });
        Ok(())
    }

    /// What is there is received.
    pub async fn drain(&mut self) -> Result<(), Error> {
        let bench = self.bench.clone();
        let busy = async {
            while bench.is_busy() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if timeout(CLIENTS_END_WITHIN, busy).await.is_err() {
            self.not_recovered(format!("clients settle what they hold for {CLIENTS_END_WITHIN:?}"));
        }
        tokio::time::sleep(STRAGGLERS).await;
        let known = self.bench.entities().clone();
        if let Some(left) = drained(&self.observer, &known, DRAINED_WITHIN).await {
            self.not_recovered(format!("not drained within {DRAINED_WITHIN:?}: {left}"));
        }
        Ok(())
    }

    /// What is there; nothing where the cluster does not say.
    pub async fn look(&mut self) -> Result<Option<End>, Error> {
        (self.tell)("looking");
        // Followers apply what the last answers told a moment later. Others use a cluster that was
        // given, so that its groups never stand still.
        if self.cluster.is_own()
            && let Err(error) = self.cluster.wait_equal(WHOLE_WITHIN).await
        {
            self.not_recovered(error.to_string());
        }
        let known = self.bench.entities().clone();
        let ids = self.cluster.ids().into_iter();
        let nodes: BTreeMap<u64, Client> = ids
            .map(|node| Ok((node, self.cluster.client_of(node)?)))
            .collect::<Result<_, Error>>()?;
        let seen = match observe(&self.observer, &nodes, &known, &self.clock()).await {
            Ok(end) => self.leave_alone(&known, end).await,
            Err(error) => Err(error),
        };
        match seen {
            Ok(end) => Ok(Some(end)),
            Err(error) => {
                self.not_recovered(format!("the cluster does not say what is there: {error}"));
                Ok(None)
            }
        }
    }

    /// The cluster's time moves on, and what nobody uses must go; the rest must stay.
    async fn leave_alone(&self, known: &Entities, mut end: End) -> Result<End, client::Error> {
        if !self.experiment.workloads.contains(&Workload::Temporary) {
            return Ok(end);
        }
        if !self.cluster.is_own() {
            // Its time is not ours to move.
            let vanishes = |name: &str| known.get(name).is_some_and(|entity| entity.vanishes);
            end.entities.retain(|name, _| !vanishes(name));
            return Ok(end);
        }
        (self.tell)("leaving temporary entities alone");
        self.observer.advance_clock(TEMPORARY_IDLE + Duration::from_secs(30)).await?;
        let until = Instant::now() + IDLE_GONE_WITHIN;
        loop {
            let mut waits = false;
            for entity in known.0.values().filter(|entity| entity.idle_ms.is_some()) {
                let found = observe::counters(&self.observer, entity).await?;
                waits |= found.is_some() && entity.vanishes;
                if found.is_none()
                    && let Some(end) = end.entities.get_mut(&entity.name)
                {
                    end.counters = None;
                }
            }
            if !waits || Instant::now() > until {
                return Ok(end);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Ends everything, and holds what clients were told against what is there.
    pub async fn judge(
        mut self,
        mut faults: Vec<Happened>,
        end: Option<End>,
    ) -> Result<Report, Error> {
        self.phase.send_replace(Phase::Over);
        let ending = async { while self.clients.join_next().await.is_some() {} };
        if timeout(CLIENTS_END_WITHIN, ending).await.is_err() {
            self.not_recovered(format!("clients wait for answers for {CLIENTS_END_WITHIN:?}"));
        }
        for (node, process) in &mut self.cluster.nodes {
            process.revive()?;
            for death in process.deaths.drain(..) {
                let told = format!("node {node} ended by itself: {death}");
                self.broken.push(Violation::new(Promise::Recovers, "", "", told));
            }
        }
        for (node, agent) in &self.cluster.agents {
            for death in agent.take_deaths().await {
                let told = format!("node {node} ended by itself: {death}");
                self.broken.push(Violation::new(Promise::Recovers, "", "", told));
            }
        }
        if !self.cluster.is_own() {
            self.clean_up().await;
        }
        (self.tell)("checking");
        let Course {
            experiment,
            cluster,
            bench,
            watcher,
            judged,
            node_ends_ms,
            restored,
            mut broken,
            settled,
            stopped,
            ..
        } = self;
        let leaders = watcher.stop().await;
        let (entities, history) = (bench.entities().clone(), bench.recorder.take_history());
        let was_seen = end.is_some();
        let end = end.unwrap_or_default();
        let node_ends_ms = node_ends_ms.lock().unwrap_or_else(|poison| poison.into_inner()).clone();
        let of_two_releases = cluster.releases().is_ok();
        let tolerance_ms = TOLERANCE_MS;
        let mut run =
            Run { entities, history, end, node_ends_ms, of_two_releases, restored, tolerance_ms };
        run.history.calls.sort_by_key(|call| (call.answered_ms, call.asked_ms));
        if was_seen {
            broken.extend(check(&run));
        }
        outages(&run, &mut faults, settled.load_ended_ms);
        let Judged { broken: in_rounds, mut tally, mut slices, example } = judged;
        tally.absorb(Tally::of(&run));
        slices.add(&run, settled.begun_ms);
        let timeline = Timeline { slices: slices.finish(), leaders };
        let run = example.filter(|_| broken.is_empty()).unwrap_or(run);
        broken.extend(in_rounds);
        let (nodes, known) = (cluster.ids().len(), Known { faults, settled, timeline, tally, run });
        let mut report = Report::new(experiment, nodes, known, broken);
        report.interrupted = *stopped.borrow();
        Ok(report)
    }

    /// Leaves nothing in somebody else's cluster, as far as it lets itself be asked.
    async fn clean_up(&self) {
        let known = self.bench.entities().clone();
        for entity in known.0.values() {
            let _ = match entity.kind {
                Kind::Queue => self.observer.delete_queue(&entity.name).await,
                Kind::Topic => self.observer.delete_topic(&entity.name).await,
                Kind::Subscription { .. } => Ok(()), // Goes with its topic.
            };
        }
    }
}

/// The longest that any of these faults lasts.
fn longest(plan: &[Planned]) -> Duration {
    let longest_ms = plan.iter().map(|fault| fault.lasts_ms).max().unwrap_or_default();
    Duration::from_millis(longest_ms)
}

/// Clients that give up in time to try something else.
fn patience() -> ClientOptions {
    let (attempt_timeout, give_up_after) = (Duration::from_secs(2), Duration::from_secs(8));
    ClientOptions { attempt_timeout, give_up_after, ..ClientOptions::default() }
}
