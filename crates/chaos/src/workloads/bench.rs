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

/// Cheap to clone: one for each client.
#[derive(Clone)]
pub struct Bench {
    pub client: Client,
    /// Who may do what only operators may.
    pub operator: Client,
    pub amqp: AmqpEntries,
    pub recorder: Recorder,
    pub seed: u64,
    /// Between two sends of one producer.
    pub pace: Duration,
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
        pace: Duration,
        phase: watch::Receiver<Phase>,
    ) -> Bench {
        Bench {
            client,
            operator,
            amqp,
            recorder,
            seed,
            pace,
            phase,
            entities: Arc::default(),
            busy: Arc::default(),
        }
    }

    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits that long; whether the run is still in this phase then.
    pub async fn wait_in(&mut self, phase: Phase, pause: Duration) -> bool {
        let later = self.phase.wait_for(|now| *now > phase);
        tokio::time::timeout(pause, later).await.is_err()
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
