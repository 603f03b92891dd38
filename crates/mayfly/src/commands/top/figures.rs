//! What is asked of the cluster, apart from each other: nodes are told of while no queue is, and the other way about.

use std::time::Duration;

use client::{Client, Error, v1};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::commands::entity_list::Rates;

/// Topics whose subscriptions are asked for, and how many at a time.
const TOPICS_MAX: usize = 200;
const TOPICS_AT_A_TIME: usize = 8;

/// Something that was told some time ago, if it ever was.
#[derive(Clone, Debug)]
pub struct LastTold<T> {
    pub value: Option<T>,
    /// When it was told, or if it never was, first asked for.
    pub at: Instant,
    /// Why it was not told since.
    pub error: Option<String>,
}

impl<T> LastTold<T> {
    fn nothing() -> LastTold<T> {
        LastTold { value: None, at: Instant::now(), error: None }
    }

    fn take(&mut self, told: Result<T, Error>) {
        match told {
            Ok(value) => {
                *self = LastTold { value: Some(value), at: Instant::now(), error: None };
            }
            Err(error) => self.error = Some(error.to_string()),
        }
    }
}

/// A queue or a subscription.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityFigures {
    pub name: String,
    /// Messages in and out per second; absent at the first look.
    pub came: Option<f64>,
    pub went: Option<f64>,
    pub active: u64,
    pub scheduled: u64,
    pub dead: u64,
    /// 0: none is known.
    pub leader: u64,
}

/// All of them, as far as they were asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityTable {
    pub all: Vec<EntityFigures>,
    /// Topics whose subscriptions were not asked for, as there are too many.
    pub topics_left_out: usize,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub struct TopFigures {
    pub status: LastTold<v1::StatusResponse>,
    pub entities: LastTold<EntityTable>,
    /// When it is looked at.
    pub now: Instant,
    pub interval: Duration,
}

/// Asks until it is dropped.
pub struct Polling {
    status: watch::Receiver<LastTold<v1::StatusResponse>>,
    entities: watch::Receiver<LastTold<EntityTable>>,
    interval: Duration,
    _asking: JoinSet<()>,
}

impl Polling {
    /// # Errors
    /// No node answers, or who asks may not know.
    pub async fn start(client: &Client, every: Duration) -> Result<Polling, Error> {
        let mut known = LastTold::nothing();
        known.take(Ok(client.status(false).await?));
        let (told_status, status) = watch::channel(known);
        let (told_entities, entities) = watch::channel(LastTold::nothing());
        let mut asking = JoinSet::new();
        let of_status = client.clone();
        asking.spawn(async move {
            let mut looks = looks(every);
            loop {
                looks.tick().await;
                let told = of_status.status(false).await;
                told_status.send_modify(|known| known.take(told));
            }
        });
        let of_entities = client.clone();
        asking.spawn(async move {
            let (mut looks, mut rates) = (looks(every), (Rates::default(), Rates::default()));
            loop {
                looks.tick().await;
                let told = entities_of(&of_entities, &mut rates).await;
                told_entities.send_modify(|known| known.take(told));
            }
        });
        Ok(Polling { status, entities, interval: every, _asking: asking })
    }

    pub fn figures(&self) -> TopFigures {
        TopFigures {
            status: self.status.borrow().clone(),
            entities: self.entities.borrow().clone(),
            now: Instant::now(),
            interval: self.interval,
        }
    }

    /// Resolves when something was told, or was not.
    pub async fn changed(&mut self) {
        tokio::select! {
            _ = self.status.changed() => (),
            _ = self.entities.changed() => (),
        }
    }
}

fn looks(every: Duration) -> tokio::time::Interval {
    let mut looks = interval(every);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

async fn entities_of(client: &Client, rates: &mut (Rates, Rates)) -> Result<EntityTable, Error> {
    let mut queues = client.list_queues("").await?;
    let topics = client.list_topics("").await?;
    let names: Vec<String> =
        topics.iter().take(TOPICS_MAX).map(|topic| topic.name.clone()).collect();
    let asked = names.into_iter().map(|topic| subscriptions_of(client.clone(), topic));
    let asked = stream::iter(asked).buffered(TOPICS_AT_A_TIME);
    let subscriptions: Vec<Vec<v1::Subscription>> = asked.try_collect().await?;
    let mut subscriptions: Vec<v1::Subscription> = subscriptions.into_iter().flatten().collect();
    let now = Instant::now();
    let flows = rates.0.look(&queues, now).into_iter().chain(rates.1.look(&subscriptions, now));
    let flows: Vec<_> = flows.collect();
    let queues = queues.drain(..).map(|queue| (queue.name, queue.counters, queue.leader_node));
    let subscriptions = subscriptions.drain(..).map(|found| {
        (format!("{}/{}", found.topic, found.name), found.counters, found.leader_node)
    });
    let all =
        queues.chain(subscriptions).zip(flows).map(|((name, counters, leader), (came, went))| {
            let v1::QueueCounters { active, scheduled, dead_lettered, .. } =
                counters.unwrap_or_default();
            EntityFigures { name, came, went, active, scheduled, dead: dead_lettered, leader }
        });
    Ok(EntityTable { all: all.collect(), topics_left_out: topics.len().saturating_sub(TOPICS_MAX) })
}

/// None where the topic is gone meanwhile.
async fn subscriptions_of(client: Client, topic: String) -> Result<Vec<v1::Subscription>, Error> {
    match client.list_subscriptions(&topic).await {
        Err(Error::Refused(detail)) if detail.name == "MessagingEntityNotFound" => Ok(Vec::new()),
        told => told,
    }
}
