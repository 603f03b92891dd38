//! Receivers over AMQP whose links end in every way there is, with messages in their hands: what they hold
//! stays locked (LOCK-18) unless its node ends (LOCK-28), a session is given back by a goodbye and kept by a lost connection (SESS-12,
//! SESS-14, LINK-18), and nothing is settled twice. Some settle in transactions, provisionally (COORD-6).

use std::time::Duration;

use amqp_protocol::engine::Delivery;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use tokio::task::JoinSet;

use super::amqp::{AmqpReceiver, Granted, LinkEnd, Provisional, delivered, native};
use super::worker::{Deed, consume, produce, settle};
use super::{Bench, Phase, sessions};
use crate::Entity;
use crate::history::{Answer, Delivered, How, Sent, What};

const SESSIONS: u64 = 5;
const WORKERS: u64 = 3;
/// More than is taken before most links end, so that some is on its way then.
const CREDIT: u32 = 6;
const MESSAGES_MAX: u32 = 12;
const SESSION_WAIT: Duration = Duration::from_secs(1);
/// A link with nothing for so long is ended.
const IDLE: Duration = Duration::from_millis(300);
/// Before another connection is tried in the place of one that was refused.
const REOPEN_AFTER: Duration = Duration::from_millis(200);

pub fn entities(prefix: &str) -> Vec<Entity> {
    let of =
        |name| Entity { hangs_on_connections: true, ..Entity::queue(format!("{prefix}{name}")) };
    vec![of("links"), Entity { sessions: true, deliveries_max: 30, ..of("links-sessions") }]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let bench = &bench.slow();
    for name in ["links", "links-sessions"] {
        let entity = format!("{prefix}{name}");
        let has_sessions = name == "links-sessions";
        let make = move |count| {
            let session = has_sessions.then(|| format!("session-{}", count % SESSIONS));
            vec![Sent { id: format!("l-{count}"), session, ..Sent::default() }]
        };
        tasks.spawn(produce(bench.clone(), entity.clone(), make));
        for worker in 0..bench.workers(WORKERS) {
            let (bench, entity) = (bench.clone(), entity.clone());
            // Of somebody else's cluster nobody knows where it is entered over AMQP.
            match (bench.amqp.addresses.is_empty(), has_sessions) {
                (false, _) => drop(tasks.spawn(work(bench, entity, has_sessions, worker))),
                (true, true) => drop(tasks.spawn(sessions::work(bench, entity, worker))),
                (true, false) => {
                    let decide = |_: &_| Deed::Settle(How::Complete);
                    tasks.spawn(consume(bench, entity, false, decide));
                }
            }
        }
    }
}

async fn work(mut bench: Bench, entity: String, has_sessions: bool, worker: u64) {
    let mut random = bench.random(&format!("{entity} {worker}"));
    let mut links = 0_u64;
    let mut left = JoinSet::new();
    while bench.phase() < Phase::Over {
        while left.try_join_next().is_some() {}
        links += 1;
        let hold = has_sessions.then(|| format!("{worker}-{links}"));
        let which: usize = random.random_range(0..bench.amqp.addresses.len());
        let Some((receiver, session)) = open(&bench, &entity, which, &hold).await else {
            bench.wait_in(Phase::Draining, REOPEN_AFTER).await;
            continue;
        };
        let holder = LinkHolder { bench: &bench, entity: &entity, hold, session, held: Vec::new() };
        for (delivery, seen) in holder.work(receiver, &mut random).await {
            // By its token, though its link is gone; some only when its lock is, too.
            let pause = Duration::from_millis(random.random_range(0..7_000));
            let bench = bench.clone();
            left.spawn(async move {
                tokio::time::sleep(pause).await;
                settle(&bench, &native(&delivery), &seen, How::Complete).await;
            });
        }
    }
    while left.join_next().await.is_some() {}
}

/// Opens a link, and tells the recorder of the session that comes with it.
async fn open(
    bench: &Bench,
    entity: &str,
    which: usize,
    hold: &Option<String>,
) -> Option<(AmqpReceiver, Option<Granted>)> {
    let Some(hold) = hold else {
        let attaching = bench.recorder.begin(entity, What::Attach);
        let opened = AmqpReceiver::open(&bench.amqp, which, entity, None).await;
        let answer = match &opened {
            Ok(Ok(_)) => Answer::Done,
            Ok(Err(refused)) => Answer::Refused(refused.clone()),
            Err(_) => Answer::Perhaps,
        };
        attaching.end_as(answer, |_| ());
        return opened.ok()?.ok();
    };
    let what = What::Accept { session: String::new(), hold: hold.clone(), until_ms: 0 };
    let accepting = bench.recorder.begin(entity, what);
    let opened = AmqpReceiver::open(&bench.amqp, which, entity, Some(SESSION_WAIT)).await;
    let answer = match &opened {
        Ok(Ok((_, Some(_)))) => Answer::Done,
        Ok(Err(refused)) => Answer::Refused(refused.clone()),
        Ok(Ok((_, None))) | Err(_) => Answer::Perhaps,
    };
    let opened = opened.ok().and_then(Result::ok).filter(|(_, granted)| granted.is_some());
    accepting.end_as(answer, |what| {
        if let (What::Accept { session, until_ms, .. }, Some((_, Some(granted)))) = (what, &opened)
        {
            *session = granted.session.clone();
            *until_ms = granted.until_ms;
        }
    });
    opened
}

/// Somebody with a link.
struct LinkHolder<'a> {
    bench: &'a Bench,
    entity: &'a str,
    hold: Option<String>,
    session: Option<Granted>,
    /// Without a verdict.
    held: Vec<(Delivery, Delivered)>,
}

impl LinkHolder<'_> {
    /// Until its link ends. What it holds then under a lock that it may still use.
    async fn work(
        mut self,
        mut receiver: AmqpReceiver,
        random: &mut ChaCha8Rng,
    ) -> Vec<(Delivery, Delivered)> {
        let is_draining = self.bench.phase() > Phase::Running;
        let turn =
            if is_draining { 10 * MESSAGES_MAX } else { random.random_range(1..MESSAGES_MAX) };
        let mut lasts = receiver.grant(CREDIT).await.is_ok();
        for _ in 0..turn {
            if !lasts {
                break;
            }
            match receiver.receive(IDLE).await {
                Ok(Some(delivery)) => lasts = self.take(&mut receiver, delivery, random).await,
                Ok(None) => break,
                Err(_) => lasts = false,
            }
        }
        self.end(receiver, lasts, random).await;
        // A session takes its locks along.
        if self.hold.is_some() { Vec::new() } else { self.held }
    }

    /// Whether the link lasts.
    async fn take(
        &mut self,
        receiver: &mut AmqpReceiver,
        delivery: Delivery,
        random: &mut ChaCha8Rng,
    ) -> bool {
        let until_ms = self.session.as_ref().map(|granted| granted.until_ms);
        let Some(seen) = delivered(self.entity, &delivery, until_ms) else { return false };
        let session = self.session.as_ref().map(|granted| granted.session.clone());
        let seen = Delivered { session, hold: self.hold.clone(), ..seen };
        let seen = self.bench.recorder.delivered(seen);
        let how = match random.random_range(0..24) {
            _ if self.bench.phase() > Phase::Running => How::Complete,
            0 | 1 => How::Abandon,
            2 | 3 => How::Release,
            4..7 => {
                self.held.push((delivery, seen));
                return true;
            }
            7..10 => return self.transact(receiver, delivery, seen, random).await,
            _ => How::Complete,
        };
        let open = self.bench.recorder.begin(self.entity, What::Settle(seen.held(), how.clone()));
        if random.random_bool(0.1) {
            // With the goodbye, or never (LINK-18): nobody waits for the answer.
            receiver.settle_later(&delivery, &how);
            drop(open);
            return true;
        }
        let answer = receiver.settle(&delivery, &how).await;
        let lasts = answer != Answer::Perhaps;
        open.end_as(answer, |_| ());
        lasts
    }

    /// COORD-6, COORD-12: a verdict in a transaction, which is committed, or rolled back and given again,
    /// or left open when the link ends. Whether the link lasts.
    async fn transact(
        &mut self,
        receiver: &mut AmqpReceiver,
        delivery: Delivery,
        seen: Delivered,
        random: &mut ChaCha8Rng,
    ) -> bool {
        let Ok(Some(txn_id)) = receiver.declare().await else {
            self.held.push((delivery, seen));
            return false;
        };
        let how = [How::Complete, How::Complete, How::Abandon].choose(random).cloned();
        let how = how.unwrap_or(How::Complete);
        let settled = vec![(seen.held(), how.clone())];
        let what = What::Commit { sent: Vec::new(), settled };
        let open = self.bench.recorder.begin(self.entity, what);
        let taken = receiver.settle_within(&delivery, &how, &txn_id).await;
        if let Ok(Provisional::Settled) = taken {
            let what = What::SettledEarly(seen.held());
            self.bench.recorder.begin(self.entity, what).end_as(Answer::Done, |_| ());
        }
        if !matches!(taken, Ok(Provisional::Taken)) {
            open.end_as(Answer::NotDone, |_| ());
            self.held.push((delivery, seen));
            return taken.is_ok();
        }
        match random.random_range(0..4) {
            0 | 1 => {
                let answer = receiver.discharge(&txn_id, false).await;
                let lasts = answer != Answer::Perhaps;
                open.end_as(answer, |_| ());
                lasts
            }
            2 => {
                let ending = What::RollBack(vec![seen.held()]);
                let ending = self.bench.recorder.begin(self.entity, ending);
                let answer = receiver.discharge(&txn_id, true).await;
                let lasts = answer != Answer::Perhaps;
                ending.end_as(answer, |_| ());
                open.end_as(Answer::NotDone, |_| ());
                if !lasts {
                    return false;
                }
                let what = What::Settle(seen.held(), How::Complete);
                let again = self.bench.recorder.begin(self.entity, what);
                let answer = receiver.settle(&delivery, &How::Complete).await;
                let lasts = answer != Answer::Perhaps;
                again.end_as(answer, |_| ());
                lasts
            }
            _ => {
                open.end_as(Answer::NotDone, |_| ());
                self.held.push((delivery, seen));
                false
            }
        }
    }

    /// Ends the link as chance has it, if it lasts.
    async fn end(&self, receiver: AmqpReceiver, lasts: bool, random: &mut ChaCha8Rng) {
        let drawn = LinkEnd::ALL.choose(random).copied().unwrap_or(LinkEnd::Drop);
        // Nothing is to be held in vain when all is received.
        let is_draining = self.bench.phase() > Phase::Running;
        let how = if is_draining { LinkEnd::Detach } else { drawn };
        let (Some(hold), Some(granted)) = (&self.hold, &self.session) else {
            receiver.end(how).await;
            return;
        };
        if lasts && how == LinkEnd::Drop {
            drop(receiver); // It is held until its lock ends (SESS-12).
            return;
        }
        let (session, hold) = (granted.session.clone(), hold.clone());
        // Of what did not last nobody knows since when it was free.
        let what = What::EndHold { session, hold, orderly: lasts, way: format!("{how:?}") };
        let ending = self.bench.recorder.begin(self.entity, what);
        let is_told = receiver.end(how).await;
        ending.end_as(Answer::Done, |what| {
            if let What::EndHold { orderly, .. } = what {
                *orderly &= is_told;
            }
        });
    }
}
