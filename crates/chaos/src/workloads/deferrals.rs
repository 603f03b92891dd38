//! Messages that are set aside and asked for by number, again and again, until they are completed or have
//! failed too often; and what is done to them in the dead-letter queue, where nothing counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use client::v1;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tokio::task::JoinSet;

use super::bench::Busy;
use super::worker::{Deed, consume_until, delivered, path, produce, settle};
use super::{Bench, Phase};
use crate::Entity;
use crate::history::{Delivered, How, Sent, What};

/// LOCK-21: few, so that many a message meets its limit.
const DELIVERIES_MAX: u32 = 4;
/// After so many looks in vain a number is forgotten: its message is gone, or always held.
const LOOKS_MAX: u32 = 12;
const FETCHERS: u64 = 2;
const UNREACHED: Duration = Duration::from_millis(500);
/// A lock, and what it takes to fire.
const LOCKS_LAPSE: Duration = Duration::from_secs(8);

pub fn entities(prefix: &str) -> Vec<Entity> {
    let entity = Entity::queue(format!("{prefix}deferrals"));
    vec![Entity { deliveries_max: DELIVERIES_MAX, ..entity }]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let bench = &bench.slow();
    let entity = format!("{prefix}deferrals");
    let make = |count| vec![Sent { id: format!("d-{count}"), ..Sent::default() }];
    tasks.spawn(produce(bench.clone(), entity.clone(), make));
    for dead in [false, true] {
        let numbers = Numbers::default();
        let (known, mut random) = (numbers.clone(), bench.random(&format!("deferrals {dead}")));
        let phase = bench.clone();
        let decide = move |seen: &Delivered| {
            if phase.phase() > Phase::Running {
                return Deed::Settle(How::Complete);
            }
            let deed = decided(dead, &mut random);
            if deed == Deed::Settle(How::Defer) {
                known.remember(seen);
            }
            deed
        };
        // What is in the dead-letter queue is not waited for, and looked at in the end.
        let until = if dead { Phase::Draining } else { Phase::Over };
        let consuming = consume_until(until, bench.clone(), entity.clone(), dead, decide);
        let busy = dead.then(|| bench.busy());
        tasks.spawn(async move {
            consuming.await;
            rest(busy).await;
        });
        for fetcher in 0..bench.workers(FETCHERS) {
            let random = bench.random(&format!("deferrals fetcher {dead} {fetcher}"));
            let fetcher = Fetcher { entity: entity.clone(), dead, numbers: numbers.clone() };
            let (busy, working) = (Some(bench.busy()), fetcher.work(bench.clone(), random));
            tasks.spawn(async move {
                working.await;
                rest(busy).await;
            });
        }
    }
}

/// Until the locks that were left have lapsed: what rests in queues changes once more then.
async fn rest(busy: Option<Busy>) {
    tokio::time::sleep(LOCKS_LAPSE).await;
    drop(busy);
}

fn decided(dead: bool, random: &mut ChaCha8Rng) -> Deed {
    match (dead, random.random_range(0..20)) {
        (false, 0..10) => Deed::Settle(How::Defer),
        (false, 10..13) => Deed::Settle(How::Abandon),
        (false, 13) => Deed::Settle(How::DeadLetter("unwanted".to_owned())),
        (true, 0..6) => Deed::Settle(How::Abandon),
        (true, 6..10) => Deed::Settle(How::Defer),
        (_, 14) => Deed::Crash,
        _ => Deed::Settle(How::Complete),
    }
}

/// Ids of messages that were perhaps deferred, and looks for them in vain, by number.
#[derive(Clone, Default)]
struct Numbers(Arc<Mutex<BTreeMap<u64, (String, u32)>>>);

impl Numbers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, (String, u32)>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    fn remember(&self, seen: &Delivered) {
        self.all().insert(seen.number, (seen.id.clone(), 0));
    }

    /// Any of them, which others may draw as well meanwhile.
    fn draw(&self, random: &mut ChaCha8Rng) -> Option<(u64, String)> {
        let all = self.all();
        let at = random.random_range(0..all.len().max(1));
        all.iter().nth(at).map(|(number, (id, _))| (*number, id.clone()))
    }

    fn missed(&self, number: u64) {
        let mut all = self.all();
        if let Some((_, looks)) = all.get_mut(&number) {
            *looks += 1;
            if *looks >= LOOKS_MAX {
                all.remove(&number);
            }
        }
    }
}

/// Asks for what was deferred.
struct Fetcher {
    entity: String,
    dead: bool,
    numbers: Numbers,
}

impl Fetcher {
    async fn work(self, mut bench: Bench, mut random: ChaCha8Rng) {
        let mut deeds = JoinSet::new();
        while bench.phase() < Phase::Draining {
            let pace = bench.pace.pause;
            bench.wait_in(Phase::Running, pace).await;
            while deeds.try_join_next().is_some() {}
            let Some((number, id)) = self.numbers.draw(&mut random) else {
                tokio::time::sleep(pace).await;
                continue;
            };
            self.fetch(&bench, number, id, &mut random, &mut deeds).await;
        }
        while deeds.join_next().await.is_some() {}
    }

    async fn fetch(
        &self,
        bench: &Bench,
        number: u64,
        id: String,
        random: &mut ChaCha8Rng,
        deeds: &mut JoinSet<()>,
    ) {
        let (dead, path) = (self.dead, path(&self.entity, self.dead));
        let what = What::ReceiveDeferred { id, number, dead };
        let open = bench.recorder.begin(&self.entity, what);
        let mode = v1::ReceiveMode::PeekLock;
        let received = bench.client.receive_deferred(&path, mode, vec![number]).await;
        open.end(&received);
        match &received {
            Ok(_) => (),
            Err(client::Error::Refused(_)) => self.numbers.missed(number),
            // Whoever cannot be reached is not asked at once again.
            Err(_) => tokio::time::sleep(UNREACHED).await,
        }
        for delivery in received.unwrap_or_default() {
            let seen = delivered(&self.entity, dead, &delivery);
            let seen = bench.recorder.delivered(Delivered { deferred: true, ..seen });
            let (pause, how) = match random.random_range(0..20) {
                0..6 => (Duration::ZERO, Some(How::Defer)),
                6..9 => (Duration::ZERO, Some(How::Abandon)),
                9 if !dead => (Duration::ZERO, Some(How::DeadLetter("by number".to_owned()))),
                // Its lock lapses, which returns it to where it was (DEFER-6).
                10 => (Duration::ZERO, None),
                11 => {
                    (Duration::from_millis(random.random_range(4_000..7_000)), Some(How::Complete))
                }
                _ => (Duration::ZERO, Some(How::Complete)),
            };
            let Some(how) = how else { continue };
            if how == How::Complete {
                self.numbers.all().remove(&number);
            }
            let bench = bench.clone();
            deeds.spawn(async move {
                tokio::time::sleep(pause).await;
                settle(&bench, &delivery, &seen, how).await;
            });
        }
    }
}
