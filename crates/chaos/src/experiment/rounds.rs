//! Rounds: what a load beyond the ordinary does, judged a part at a time. Each round has entities, clients and a history of its
//! own; when it has sent enough the next one takes its place, and what it left is received, looked at, judged and
//! forgotten, while faults go on. So the memory that an experiment takes does not grow with its rate, nor much with
//! its time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::Client;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::check::{Promise, Violation, check};
use crate::cluster::AmqpEntries;
use crate::entity::Kind;
use crate::history::Answer;
use crate::observe::{drained, observe};
use crate::report::Tally;
use crate::run::{End, Run};
use crate::timeline::Slices;
use crate::workloads::{Bench, Paces, Phase, Workload};
use crate::{Clock, Entities, Recorder};

/// Messages of one round.
const MESSAGES: f64 = 100_000.0;
/// A round lasts so long at least: what waits for locks and deadlines must have its time.
const LASTS_MIN: Duration = Duration::from_secs(20);
/// Rounds that are being judged at a time; while there are more, nothing beyond the ordinary is sent.
const CLOSING_MAX: usize = 2;
/// Each with faults meanwhile.
const CREATED_WITHIN: Duration = Duration::from_secs(90);
const ENDS_WITHIN: Duration = Duration::from_secs(120);
const DRAINED_WITHIN: Duration = Duration::from_secs(180);
const SEEN_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Tries to delete what a round has left; what stays is in nobody's way.
const DELETIONS_MAX: usize = 5;

/// What all rounds share.
#[derive(Clone)]
pub struct Site {
    pub client: Client,
    pub operator: Client,
    /// Past all links.
    pub observer: Client,
    pub amqp: AmqpEntries,
    pub clock: Clock,
    pub seed: u64,
    pub prefix: String,
    pub workloads: Vec<Workload>,
    pub paces: Paces,
    /// Messages per second of a round.
    pub rate: f64,
    /// As in [`Run::node_ends_ms`], so far.
    pub node_ends_ms: Arc<Mutex<Vec<(u64, u64)>>>,
    pub of_two_releases: bool,
    pub tolerance_ms: u64,
    /// For how long a link may hold back what its client has given up.
    pub held_back: Duration,
}

/// What became of rounds.
#[derive(Default)]
pub struct Judged {
    pub broken: Vec<Violation>,
    pub tally: Tally,
    pub slices: Slices,
    /// The first in which a promise was broken.
    pub example: Option<Run>,
}

/// Rounds that follow one another until they are ended.
pub struct Rounds {
    end: watch::Sender<bool>,
    keeping: JoinHandle<Judged>,
}

impl Rounds {
    pub fn start(site: Site) -> Rounds {
        let (end, ended) = watch::channel(false);
        Rounds { end, keeping: tokio::spawn(keep(site, ended)) }
    }

    /// Nothing new is sent; what came of all of them, once that is known.
    pub async fn end(self) -> Judged {
        self.end.send_replace(true);
        self.keeping.await.unwrap_or_else(|error| Judged {
            broken: vec![not_recovered(format!("a round came to no end: {error}"))],
            ..Judged::default()
        })
    }
}

async fn keep(site: Site, mut ended: watch::Receiver<bool>) -> Judged {
    let mut all = Judged::default();
    let mut closing = JoinSet::new();
    let lasts = Duration::from_secs_f64(MESSAGES / site.rate.max(1.0)).max(LASTS_MIN);
    let mut number = 0;
    while !*ended.borrow() {
        number += 1;
        let round = match Round::begin(&site, number, &ended).await {
            Ok(Some(round)) => round,
            Ok(None) => break,
            Err(told) => {
                all.broken.push(not_recovered(told));
                break;
            }
        };
        let _ = timeout(lasts, ended.wait_for(|ended| *ended)).await;
        round.phase.send_replace(Phase::Draining);
        closing.spawn(round.close());
        while closing.len() > CLOSING_MAX
            && let Some(closed) = closing.join_next().await
        {
            all.absorb(closed);
        }
    }
    while let Some(closed) = closing.join_next().await {
        all.absorb(closed);
    }
    all
}

fn not_recovered(told: String) -> Violation {
    Violation::new(Promise::Recovers, "", "", told)
}

impl Judged {
    fn absorb(&mut self, closed: Result<(Run, Vec<Violation>, u64), tokio::task::JoinError>) {
        match closed {
            Ok((run, broken, begun_ms)) => {
                self.tally.absorb(Tally::of(&run));
                self.slices.add(&run, begun_ms);
                if !broken.is_empty() {
                    self.example.get_or_insert(run);
                }
                self.broken.extend(broken);
            }
            Err(error) => {
                self.broken.push(not_recovered(format!("a round came to no end: {error}")));
            }
        }
    }
}

/// One round, whose clients are at work.
struct Round {
    site: Site,
    bench: Bench,
    phase: watch::Sender<Phase>,
    clients: JoinSet<()>,
    broken: Vec<Violation>,
}

impl Round {
    /// Nothing, if rounds are ended before it has begun.
    async fn begin(
        site: &Site,
        number: u64,
        ended: &watch::Receiver<bool>,
    ) -> Result<Option<Round>, String> {
        let (phase, phases) = watch::channel(Phase::Running);
        let bench = Bench::new(
            site.client.clone(),
            site.operator.clone(),
            site.amqp.clone(),
            Recorder::new(site.clock),
            site.seed.wrapping_add(number),
            site.paces,
            phases,
        );
        let prefix = format!("{}r{number}-", site.prefix);
        let until = Instant::now() + CREATED_WITHIN;
        for workload in &site.workloads {
            for entity in workload.entities(&prefix) {
                while let Err(error) = bench.create(entity.clone()).await {
                    if *ended.borrow() {
                        return Ok(None);
                    }
                    if Instant::now() > until {
                        return Err(format!("{}: not created: {error}", entity.name));
                    }
                    sleep(LOOK_EVERY).await;
                }
            }
        }
        let mut clients = JoinSet::new();
        for workload in &site.workloads {
            workload.start(&bench, &prefix, &mut clients);
        }
        let (site, broken) = (site.clone(), Vec::new());
        Ok(Some(Round { site, bench, phase, clients, broken }))
    }

    /// Receives what is left, ends the clients, looks and judges; the run, what it broke, and when the experiment began.
    async fn close(mut self) -> (Run, Vec<Violation>, u64) {
        let bench = self.bench.clone();
        self.wait("sends wait for answers", || bench.recorder.is_sending()).await;
        self.wait("clients settle what they hold", || bench.is_busy()).await;
        let known = bench.entities().clone();
        if let Some(left) = drained(&self.site.observer, &known, DRAINED_WITHIN).await {
            self.not_recovered(format!("not drained within {DRAINED_WITHIN:?}: {left}"));
        }
        // While faults go on, what clients do now could be seen half done.
        self.phase.send_replace(Phase::Over);
        let ending = async { while self.clients.join_next().await.is_some() {} };
        if timeout(ENDS_WITHIN, ending).await.is_err() {
            self.not_recovered(format!("clients wait for answers for {ENDS_WITHIN:?}"));
            self.clients.abort_all();
        }
        sleep(self.site.held_back).await;
        let end = self.look(&known).await;
        let (history, entities) = (bench.recorder.take_history(), bench.entities().clone());
        let was_seen = end.is_some();
        let node_ends_ms = lock(&self.site.node_ends_ms).clone();
        let mut run = Run {
            entities,
            history,
            end: end.unwrap_or_default(),
            node_ends_ms,
            of_two_releases: self.site.of_two_releases,
            restored: None,
            tolerance_ms: self.site.tolerance_ms,
        };
        run.history.calls.sort_by_key(|call| (call.answered_ms, call.asked_ms));
        let Round { site, bench, mut broken, .. } = self;
        let checking = tokio::task::spawn_blocking(move || {
            let found = if was_seen { check(&run) } else { Vec::new() };
            (run, found)
        });
        clean_up(&site.observer, &bench).await;
        let (run, found) = checking.await.unwrap_or_else(|error| {
            let told = not_recovered(format!("the checker failed: {error}"));
            (Run::default(), vec![told])
        });
        broken.extend(found);
        (run, broken, site.clock.begun_ms())
    }

    fn not_recovered(&mut self, told: String) {
        let prefix = self.bench.entities().0.keys().next().cloned().unwrap_or_default();
        self.broken.push(not_recovered(format!("the round of {prefix}: {told}")));
    }

    async fn wait(&mut self, what: &str, is_so: impl Fn() -> bool) {
        let waiting = async {
            while is_so() {
                sleep(LOOK_EVERY).await;
            }
        };
        if timeout(ENDS_WITHIN, waiting).await.is_err() {
            self.not_recovered(format!("{what} for {ENDS_WITHIN:?}"));
        }
    }

    /// What is there, asked again while the cluster is hurt. What replicas hold by themselves is looked at when all is
    /// healed, of the round that lasts.
    async fn look(&mut self, known: &Entities) -> Option<End> {
        let (until, no_replicas) = (Instant::now() + SEEN_WITHIN, BTreeMap::new());
        loop {
            match observe(&self.site.observer, &no_replicas, known, &self.site.clock).await {
                Ok(end) => return Some(end),
                Err(_) if Instant::now() < until => sleep(LOOK_EVERY).await,
                Err(error) => {
                    self.not_recovered(format!("the cluster does not say what is there: {error}"));
                    return None;
                }
            }
        }
    }
}

/// As far as it lets itself be asked.
async fn clean_up(observer: &Client, bench: &Bench) {
    let known = bench.entities().clone();
    for entity in known.0.values() {
        for _ in 0..DELETIONS_MAX {
            let deleted = match entity.kind {
                Kind::Queue => observer.delete_queue(&entity.name).await,
                Kind::Topic => observer.delete_topic(&entity.name).await,
                Kind::Subscription { .. } => Ok(()), // Goes with its topic.
            };
            match Answer::of_result(&deleted) {
                Answer::Done | Answer::Refused(_) => break,
                Answer::NotDone | Answer::Perhaps => sleep(LOOK_EVERY).await,
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}
