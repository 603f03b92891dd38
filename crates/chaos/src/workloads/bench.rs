//! What every workload works with.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use client::v1::{self, QueueProperties, SubscriptionProperties, TopicProperties};
use client::{Client, Error};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::sync::watch;

use crate::cluster::AmqpEntries;
use crate::entity::Kind;
use crate::history::{Answer, What};
use crate::{Entities, Entity, Recorder};

/// DUP-3: longer than any run between two sends of the same.
const WINDOW_MS: u64 = 3_600_000;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Running,
    /// Nothing new is sent; what is there is received.
    Draining,
    Over,
}

/// How much one producer sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Between two of its calls.
    pub pause: Duration,
    /// Messages it sends with each.
    pub batch: u64,
}

/// No producer calls more often: every call waits for its answer, and a disk.
const CALL_EVERY_MIN: Duration = Duration::from_millis(50);
/// Messages per second of one producer, for which the workloads' numbers of workers are made, and how often what takes
/// long is done.
const USUAL: f64 = 13.0;
/// So many times the workers at most.
const WORKERS_TIMES_MAX: f64 = 8.0;

/// Messages per second of one producer whose consumers stall, are refused, hold back or open links.
const SLOW_MAX: f64 = 40.0;

/// How many producers there are, of those whose consumers keep up with anything and of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Producers {
    pub quick: f64,
    pub slow: f64,
}

/// How producers share what is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paces {
    pub quick: Pace,
    pub slow: Pace,
}

impl Paces {
    /// Of so many messages a second together. All alike, as far as the slow ones' consumers let them.
    pub fn of(per_second: f64, producers: Producers) -> Paces {
        let Producers { quick, slow } = producers;
        let alike = per_second / (quick + slow).max(1.0);
        let of_slow = alike.min(SLOW_MAX);
        let of_quick = (per_second - of_slow * slow) / quick.max(1.0);
        Paces { quick: Pace::of(of_quick), slow: Pace::of(of_slow) }
    }
}

impl Pace {
    /// Of a producer that sends so many messages a second.
    fn of(per_second: f64) -> Pace {
        let per_second = per_second.max(0.001);
        let batch = (per_second * CALL_EVERY_MIN.as_secs_f64()).ceil().max(1.0);
        Pace { pause: Duration::from_secs_f64(batch / per_second), batch: batch as u64 }
    }

    fn per_second(self) -> f64 {
        self.batch as f64 / self.pause.as_secs_f64().max(1e-6)
    }
}

/// Cheap to clone: one for each client.
#[derive(Clone)]
pub struct Bench {
    pub client: Client,
    /// Who may do what only operators may.
    pub operator: Client,
    pub amqp: AmqpEntries,
    pub recorder: Recorder,
    pub seed: u64,
    /// Of the producers of this one.
    pub pace: Pace,
    paces: Paces,
    phase: watch::Receiver<Phase>,
    entities: Arc<Mutex<Entities>>,
    busy: Arc<AtomicU64>,
}

/// Somebody who works on what is not waited for, and has not ended that yet.
pub struct Busy(Arc<AtomicU64>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bench {
    pub fn new(
        client: Client,
        operator: Client,
        amqp: AmqpEntries,
        recorder: Recorder,
        seed: u64,
        paces: Paces,
        phase: watch::Receiver<Phase>,
    ) -> Bench {
        Bench {
            client,
            operator,
            amqp,
            recorder,
            seed,
            pace: paces.quick,
            paces,
            phase,
            entities: Arc::default(),
            busy: Arc::default(),
        }
    }

    /// The same, for those whose consumers are slow.
    pub fn slow(&self) -> Bench {
        Bench { pace: self.paces.slow, ..self.clone() }
    }

    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits that long; whether the run is still in this phase then.
    pub async fn wait_in(&mut self, phase: Phase, pause: Duration) -> bool {
        let later = self.phase.wait_for(|now| *now > phase);
        tokio::time::timeout(pause, later).await.is_err()
    }

    /// How many workers it takes where so many are enough at the usual pace.
    pub fn workers(&self, usual: u64) -> u64 {
        let times = (self.pace.per_second() / USUAL / 2.0).ceil().clamp(1.0, WORKERS_TIMES_MAX);
        usual * times as u64
    }

    /// How probable for each message something is that takes a worker long, so that it happens as often as at the usual
    /// pace, where that is its probability.
    pub fn rarely(&self, usual: f64) -> f64 {
        usual * (USUAL / self.pace.per_second()).min(1.0)
    }

    /// Until it is dropped, nobody looks at what is left: what rests in queues may still change.
    pub fn busy(&self) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.busy.clone())
    }

    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    /// Draws for one client of the run.
    pub fn random(&self, whose: &str) -> ChaCha8Rng {
        // Each client draws alike, whatever the others do: their names keep them apart.
        let name = whose.bytes().fold(self.seed, |sum, byte| {
            sum.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(byte))
        });
        ChaCha8Rng::seed_from_u64(name)
    }

    /// All that were created.
    pub fn entities(&self) -> MutexGuard<'_, Entities> {
        self.entities.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Creates an entity, and from then on it is watched. What is there already is taken for it.
    pub async fn create(&self, entity: Entity) -> Result<(), Error> {
        let open = self.recorder.begin(&entity.name, What::Create);
        let created = self.make(&entity).await;
        let created = match created {
            Err(Error::Refused(detail)) if detail.name == "MessagingEntityAlreadyExists" => Ok(()),
            created => created,
        };
        self.entities().insert(entity);
        open.end(&created);
        created
    }

    /// Deletes it; who asks for it later knows.
    pub async fn delete(&self, name: &str) -> Answer {
        let open = self.recorder.begin(name, What::Delete);
        let deleted = self.client.delete_queue(name).await;
        let answer = Answer::of_result(&deleted);
        open.end(&deleted);
        answer
    }

    async fn make(&self, entity: &Entity) -> Result<(), Error> {
        match &entity.kind {
            Kind::Queue => {
                let properties = QueueProperties {
                    lock_duration_ms: Some(entity.lock_ms),
                    max_delivery_count: Some(entity.deliveries_max),
                    dead_letter_on_expiration: Some(entity.dead_letters_expired),
                    requires_session: Some(entity.sessions),
                    requires_duplicate_detection: Some(entity.deduplicates),
                    duplicate_detection_window_ms: entity.deduplicates.then_some(WINDOW_MS),
                    forward_to: entity.forwards_to.clone(),
                    auto_delete_on_idle_ms: entity.idle_ms,
                    ..QueueProperties::default()
                };
                self.client.create_queue(&entity.name, properties).await.map(drop)
            }
            Kind::Topic => {
                let properties = TopicProperties::default();
                self.client.create_topic(&entity.name, properties).await.map(drop)
            }
            Kind::Subscription { topic, class } => {
                let name = entity.name.rsplit('/').next().unwrap_or_default();
                let properties = SubscriptionProperties {
                    lock_duration_ms: Some(entity.lock_ms),
                    max_delivery_count: Some(entity.deliveries_max),
                    ..SubscriptionProperties::default()
                };
                let rule = class.as_deref().map(rule);
                self.client.create_subscription(topic, name, properties, rule).await.map(drop)
            }
        }
    }
}

/// Takes one class: by correlation or by SQL, so that both are tried.
fn rule(class: &str) -> v1::Rule {
    let kind = match class.len() % 2 {
        0 => v1::filter::Kind::Sql(v1::Sql {
            text: format!("sys.Label = '{class}'"),
            ..v1::Sql::default()
        }),
        _ => v1::filter::Kind::Correlation(v1::Correlation {
            subject: Some(class.to_owned()),
            ..v1::Correlation::default()
        }),
    };
    let filter = Some(v1::Filter { kind: Some(kind) });
    v1::Rule { name: "class".to_owned(), filter, ..v1::Rule::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: messages per second of all, and how often quick and slow producers send how many.
    #[test]
    fn producers_share_alike_as_far_as_slow_consumers_let_them_and_send_several_at_once() {
        let producers = Producers { quick: 9.0, slow: 6.0 };
        for (per_second, quick, slow) in [
            (15.0, (1_000, 1), (1_000, 1)),
            (150.0, (100, 1), (100, 1)),
            (1_140.0, (50, 5), (50, 2)),
            (5_280.0, (50, 28), (50, 2)),
        ] {
            let pace = |(pause_ms, batch)| Pace { pause: Duration::from_millis(pause_ms), batch };
            let expected = Paces { quick: pace(quick), slow: pace(slow) };
            assert_eq!(Paces::of(per_second, producers), expected, "{per_second}");
        }
    }
}
