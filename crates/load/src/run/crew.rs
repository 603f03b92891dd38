//! All producers and consumers of a run, and their links.

use std::sync::Arc;
use std::time::Duration;

use client::Client;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use workload::Noise;

use super::dead_letters;
use crate::consumer::{Consumer, Note, Post};
use crate::draft::Drafts;
use crate::file::{Consumers, LoadFile, Pacing, Producers};
use crate::ledger::{Ledger, Place};
use crate::link::Broken;
use crate::meter::Meter;
use crate::over_amqp::{AmqpReceive, AmqpSend, AmqpTarget};
use crate::over_grpc::{GrpcReceive, GrpcSend};
use crate::place::is_dead_letter;
use crate::plan::Part;
use crate::producer::{Producer, Turns};
use crate::target::Target;
use crate::time_line::TimeLine;
use crate::{Error, plan};

/// Links that are opened at a time.
const AT_A_TIME: usize = 32;
/// Consumers of dead letters in the drain.
const DEAD_PREFETCH: u32 = 256;

/// What a key is answered that has no such right.
const NOT_ALLOWED: &str = "UnauthorizedAccessException";

/// Who takes part, and how they reach what they talk to.
pub(super) struct Crew {
    file: Arc<LoadFile>,
    part: Part,
    target: Target,
    noise: Noise,
    /// By place: how long a lock lasts there.
    lock_ms: Vec<Option<u64>>,
}

/// Links over AMQP, each opened before anything is sent: whoever refuses does so now.
#[derive(Default)]
pub(super) struct AmqpLinks {
    send: Vec<AmqpSend>,
    receive: Vec<AmqpReceive<Note>>,
}

impl Crew {
    /// Sees that everything is there, and opens links where they can be opened before.
    pub async fn open(
        file: &Arc<LoadFile>,
        target: &Target,
        part: Part,
        ledger: &Ledger,
    ) -> Result<(Crew, AmqpLinks), Error> {
        let body_max =
            file.producers.iter().map(|of| of.body.noise_max()).max().unwrap_or_default();
        let mut crew = Crew {
            file: file.clone(),
            part,
            target: target.clone(),
            noise: Noise::new(body_max),
            lock_ms: ledger.places().map(|_| None).collect(),
        };
        let mut links = AmqpLinks::default();
        match target {
            Target::Grpc(client) => crew.probe(client, ledger).await?,
            Target::Amqp(target) => {
                let locks = ledger.places().map(|place| plan::lock_ms(file, &place.path));
                crew.lock_ms = locks.collect();
                links = crew.links(target, ledger).await?;
            }
        }
        Ok((crew, links))
    }

    /// Over the native API: each entity is there, and has sessions where they are asked for.
    async fn probe(&mut self, client: &Client, ledger: &Ledger) -> Result<(), Error> {
        for of in &self.file.producers {
            let Err(no_queue) = client.get_queue(&of.to).await else { continue };
            if is_missing(&no_queue) && client.get_topic(&of.to).await.is_ok() {
                continue;
            }
            refused(&of.to, no_queue)?;
        }
        let mut lock_ms = Vec::new();
        for place in ledger.places() {
            let found = match plan::subscription(&place.path) {
                None => client.get_queue(&place.path).await.map(|queue| {
                    let of = queue.properties.unwrap_or_default();
                    (of.lock_duration_ms, of.requires_session)
                }),
                Some((topic, name)) => client.get_subscription(topic, name).await.map(|its| {
                    let of = its.properties.unwrap_or_default();
                    (of.lock_duration_ms, of.requires_session)
                }),
            };
            let (lock, has_sessions) = match found {
                Ok(found) => found,
                Err(error) => {
                    refused(&place.path, error)?;
                    (None, None)
                }
            };
            lock_ms.push(lock);
            self.same_sessions(&place.path, has_sessions.unwrap_or_default())?;
        }
        self.lock_ms = lock_ms;
        Ok(())
    }

    fn same_sessions(&self, path: &str, has_sessions: bool) -> Result<(), Error> {
        let differs = |of: &&Consumers| {
            let is_of_it = plan::place(&of.from) == path && !is_dead_letter(&of.from);
            is_of_it && of.sessions != has_sessions
        };
        let Some(of) = self.file.consumers.iter().find(differs) else { return Ok(()) };
        let told = match has_sessions {
            true => "has sessions, and its consumers do not take any; write sessions = true",
            false => "has no sessions, and its consumers ask for some; leave out sessions",
        };
        Err(Error::Wrong(format!("{} {told}", of.from)))
    }

    async fn links(&self, target: &AmqpTarget, ledger: &Ledger) -> Result<AmqpLinks, Error> {
        let wrong = |entity: &str, broken: Broken| {
            Error::Wrong(format!("{}: {entity}: {broken}", target.address(0)))
        };
        let mut senders: Vec<BoxFuture<'_, _>> = Vec::new();
        for (index, of, _) in self.producers() {
            senders.push(Box::pin(async move {
                let opened = AmqpSend::open(target, index, of).await;
                opened.map_err(|broken| wrong(&of.to, broken))
            }));
        }
        let send = stream::iter(senders).buffered(AT_A_TIME).try_collect().await?;
        let reads_ends = self.reads_ends();
        let mut receivers: Vec<BoxFuture<'_, _>> = Vec::new();
        for (index, of, _) in self.consumers(ledger) {
            receivers.push(Box::pin(async move {
                let opened = AmqpReceive::open(target, index, of, reads_ends).await;
                opened.map_err(|broken| wrong(&of.from, broken))
            }));
        }
        let receive = stream::iter(receivers).buffered(AT_A_TIME).try_collect().await?;
        Ok(AmqpLinks { send, receive })
    }

    /// Producers of this part: the number over all, what it is, and which of its kind.
    fn producers(&self) -> Vec<(usize, &Producers, u32)> {
        let all = plan::producers(&self.file).into_iter().enumerate();
        let ours = all.filter(|(index, _)| self.part.has_producer(*index));
        ours.map(|(index, (of, of_kind))| (index, of, of_kind)).collect()
    }

    /// Consumers of this part: the number over all, what it is, and its place.
    fn consumers(&self, ledger: &Ledger) -> Vec<(usize, &Consumers, usize)> {
        let producers: u32 = self.file.producers.iter().map(|of| of.count).sum();
        let all = plan::consumers(&self.file, ledger).into_iter().enumerate();
        let ours = all.filter(|(index, (of, place))| match of.sessions {
            true => self.part.has_place(*place),
            // On from where producers end, so that one of each is on two workers.
            false => self.part.has_producer(producers as usize + index),
        });
        ours.map(|(index, (of, place))| (index, of, place)).collect()
    }

    /// Whether anything may expire: then the ends of lives are of interest.
    fn reads_ends(&self) -> bool {
        self.file.producers.iter().any(|of| plan::is_mortal(&self.file, of))
    }

    /// Starts all consumers, which go on until they are dropped.
    pub fn consume(&self, links: &mut AmqpLinks, shared: &Shared) -> JoinSet<()> {
        let mut consumers = JoinSet::new();
        let mut receivers = std::mem::take(&mut links.receive).into_iter();
        for (index, of, place) in self.consumers(&shared.ledger) {
            self.start(&mut consumers, of.clone(), place, index, receivers.next(), shared);
        }
        consumers
    }

    fn start(
        &self,
        consumers: &mut JoinSet<()>,
        spec: Consumers,
        place: usize,
        index: usize,
        link: Option<AmqpReceive<Note>>,
        shared: &Shared,
    ) {
        let is_dead = is_dead_letter(&spec.from);
        let (lock_ms, epoch_ms) = (self.lock_ms.get(place).copied().flatten(), shared.epoch_ms);
        let seed = self.file.seed ^ ((index as u64 + 1) << 48);
        let consumer = Consumer {
            spec: spec.clone(),
            post: Post { place, is_dead, lock_ms, epoch_ms },
            random: ChaCha8Rng::seed_from_u64(seed),
            time_line: shared.time_line.clone(),
            ledger: shared.ledger.clone(),
            meter: shared.meter.clone(),
        };
        match &self.target {
            Target::Grpc(client) => {
                let client = client.clone();
                let first = GrpcReceive::open(&client, &spec);
                let again = async move || Ok(GrpcReceive::open(&client, &spec));
                consumers.spawn(consumer.run(Some(first), again));
            }
            Target::Amqp(target) => {
                let (target, reads_ends) = (target.clone(), self.reads_ends());
                let again =
                    async move || AmqpReceive::open(&target, index, &spec, reads_ends).await;
                consumers.spawn(consumer.run(link, again));
            }
        }
    }

    /// Starts all producers, which end when everything is sent and answered.
    pub fn produce(&self, links: &mut AmqpLinks, shared: &Shared) -> JoinSet<()> {
        let mut producers = JoinSet::new();
        let mut senders = std::mem::take(&mut links.send).into_iter();
        let epoch = shared.time_line.instant(Duration::ZERO);
        for (index, spec, of_kind) in self.producers() {
            let producer = self.producer(spec, index, of_kind, shared);
            let spec = spec.clone();
            match &self.target {
                Target::Grpc(client) => {
                    let client = client.clone();
                    let first = GrpcSend::open(&client, &spec);
                    let again = async move || Ok(GrpcSend::open(&client, &spec));
                    producers.spawn(async move {
                        sleep_until(epoch.into()).await;
                        producer.run(Some(first), again).await;
                    });
                }
                Target::Amqp(target) => {
                    let target = target.clone();
                    let again = async move || AmqpSend::open(&target, index, &spec).await;
                    let first = senders.next();
                    producers.spawn(async move {
                        sleep_until(epoch.into()).await;
                        producer.run(first, again).await;
                    });
                }
            }
        }
        producers
    }

    fn producer(&self, spec: &Producers, index: usize, of_kind: u32, shared: &Shared) -> Producer {
        let due = match &spec.pacing {
            Pacing::Closed => None,
            Pacing::Open(rate) => Some(rate.clone().due()),
        };
        // Producers of a kind take turns, so that together they are as even as one.
        let turns = Turns { due, next: u64::from(of_kind), step: u64::from(spec.count) };
        let limits = (spec.window, spec.unit());
        let (file, noise) = (&self.file, self.noise.clone());
        let drafts = Drafts::new(
            spec.clone(),
            noise,
            file.seed,
            file.source.run,
            index as u32,
            shared.epoch_ms,
        );
        let Shared { time_line, ledger, meter, .. } = shared.clone();
        Producer::new(index, drafts, turns, limits, time_line, ledger, meter)
    }

    /// Takes what was dead-lettered where the run made the place: it is missing nowhere.
    pub fn take_dead_letters(&self, consumers: &mut JoinSet<()>, shared: &Shared) {
        let places = shared.ledger.places().enumerate();
        let is_ours = |at: usize, place: &Place| {
            self.part.has_place(at) && plan::is_own(&self.file, &place.path)
        };
        for (at, place) in places.filter(|(at, place)| is_ours(*at, place)) {
            let spec = Consumers::plain(dead_letters(&place.path), DEAD_PREFETCH);
            self.start(consumers, spec, at, at, None, shared);
        }
    }
}

/// What all who take part share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub time_line: Arc<TimeLine>,
    pub ledger: Arc<Ledger>,
    pub meter: Arc<Meter>,
    /// What the broker's clock showed at the beginning.
    pub epoch_ms: u64,
}

fn is_missing(error: &client::Error) -> bool {
    error.name() == "MessagingEntityNotFound"
}

/// What a look at an entity was refused with. Who may send or receive there need not be allowed to look.
fn refused(entity: &str, error: client::Error) -> Result<(), Error> {
    match error {
        error if is_missing(&error) => Err(Error::Wrong(format!(
            "'{entity}' is not there; create it, or have the file make it with [[queues]] or [[topics]]"
        ))),
        error if error.name() == NOT_ALLOWED => Ok(()),
        error => Err(Error::of_target(error)),
    }
}
