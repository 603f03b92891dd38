//! A broker and its clients in a few plain lists, with a time that is a number; and the bugs that can
//! be planted in it, one at a time.

mod broker;

use std::collections::BTreeMap;

use broker::{Broker, Hold, LOCK_MS};
use chaos::{
    Answer, Call, Delivered, End, Entities, Entity, Held, History, How, Kind, Restored, Run, Sent,
    What,
};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub use broker::Bug;

const TOLERANCE_MS: u64 = 500;
const STEPS: u32 = 1_500;
/// Where messages are deferred.
const DEFERS: &str = "def";
/// Where messages are sent and received without a session.
const PLAIN: [&str; 9] = ["q", "drop", "c", "t/all", "t/red", "d", "later", "tmp-used", "def"];

/// Clients of the model broker: they ask at random, and note what they see.
pub struct Model {
    random: ChaCha8Rng,
    broker: Broker,
    now_ms: u64,
    /// The broker's clock less the experiment's.
    offset_ms: i64,
    history: History,
    held: Vec<Delivered>,
    holds: Vec<Hold>,
    scheduled: Vec<(String, u64)>,
    /// By entity and number, with the id, and whether it is in the dead-letter queue.
    deferred: BTreeMap<(&'static str, u64), (String, bool)>,
    count: u64,
    /// Sessions that are asked for, and since when.
    waiting: BTreeMap<String, u64>,
}

pub fn entities() -> Entities {
    let mut all = Entities::default();
    let queue = Entity::queue;
    all.insert(Entity { dead_letters_expired: true, deliveries_max: 3, ..queue("q") });
    all.insert(queue("drop"));
    all.insert(Entity { deliveries_max: 3, ..queue(DEFERS) });
    all.insert(queue("c"));
    all.insert(Entity { forwards_to: Some("c".into()), ..queue("a") });
    all.insert(Entity { kind: Kind::Topic, ..queue("t") });
    for (name, class) in [("t/all", None), ("t/red", Some("red".to_owned()))] {
        all.insert(Entity { kind: Kind::Subscription { topic: "t".into(), class }, ..queue(name) });
    }
    all.insert(Entity { deduplicates: true, ..queue("d") });
    all.insert(queue("later"));
    all.insert(Entity { sessions: true, ..queue("s") });
    all.insert(Entity { idle_ms: Some(1), ..queue("tmp-used") });
    all.insert(Entity { idle_ms: Some(1), vanishes: true, ..queue("tmp-left") });
    all
}

impl Model {
    pub fn new(seed: u64, bug: Option<Bug>) -> Model {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let offset_ms = random.random_range(-400..400);
        let mut model = Model {
            random,
            broker: Broker::new(entities(), bug),
            now_ms: 1_000_000,
            offset_ms,
            history: History::default(),
            held: Vec::new(),
            holds: Vec::new(),
            scheduled: Vec::new(),
            deferred: BTreeMap::new(),
            count: 0,
            waiting: BTreeMap::new(),
        };
        for name in entities().0.into_keys() {
            model.note(&name, What::Create, Answer::Done);
        }
        model
    }

    pub fn run(mut self) -> Run {
        for _ in 0..STEPS {
            self.tick();
            self.act();
        }
        self.drain();
        let end = End { at_ms: self.now_ms, entities: self.broker.found() };
        let (history, tolerance_ms) = (self.history, TOLERANCE_MS);
        Run { entities: entities(), history, end, tolerance_ms, ..Run::default() }
    }

    /// As [`Model::run`], but that all is lost in the end, and the broker is again as a backup has it that was made
    /// under way: `early`, before it is said to have begun.
    pub fn run_and_restore(mut self, early: bool) -> Run {
        let (made, said) = (if early { STEPS / 3 } else { STEPS / 2 }, STEPS / 2);
        let (mut backup, mut backup_begun_ms) = (None, 0);
        for step in 0..STEPS {
            self.tick();
            if step == said {
                backup_begun_ms = self.now_ms;
            }
            if step == made {
                // Its steps are so long that nothing is asked for before and answered after.
                self.tick();
                backup = Some(self.broker.clone());
            }
            self.act();
        }
        let lost_ms = self.now_ms + 10;
        self.now_ms += 5_000;
        let mut restored = backup.expect("it was made");
        restored.replaces(&self.broker);
        self.broker = restored;
        self.broker.advance(self.now_ms.saturating_add_signed(self.offset_ms));
        let restored_ms = self.now_ms;
        self.held.clear();
        self.now_ms += 10;
        self.drain();
        let end = End { at_ms: self.now_ms, entities: self.broker.found() };
        let restored = Some(Restored { backup_begun_ms, lost_ms, restored_ms });
        let (history, tolerance_ms) = (self.history, TOLERANCE_MS);
        Run { entities: entities(), history, end, restored, tolerance_ms, ..Run::default() }
    }

    fn tick(&mut self) {
        self.now_ms += self.random.random_range(5..120);
        self.broker.advance(self.now_ms.saturating_add_signed(self.offset_ms));
    }

    fn act(&mut self) {
        match self.random.random_range(0..18) {
            0..=4 => self.send(),
            5..=8 => self.receive(),
            9..=11 => self.settle(),
            12 => self.renew_or_cancel(),
            13 => self.commit(),
            14 => self.hold(),
            15 | 16 => self.receive_deferred(),
            _ => self.receive_dead(),
        }
    }

    fn note(&mut self, entity: &str, what: What, answer: Answer) {
        let (asked_ms, answered_ms) = (self.now_ms - 2, self.now_ms + 2);
        let entity = entity.to_owned();
        self.history.calls.push(Call { entity, asked_ms, answered_ms, what, answer });
    }

    /// Whether it is done, and what is told of it.
    fn luck(&mut self) -> (bool, Answer) {
        match self.random.random_range(0..20) {
            0 => (true, Answer::Perhaps),
            1 => (false, Answer::Perhaps),
            2 => (false, Answer::NotDone),
            _ => (true, Answer::Done),
        }
    }

    fn message(&mut self, entity: &str) -> Sent {
        self.count += 1;
        let mut sent = Sent { id: format!("m-{}", self.count), ..Sent::default() };
        match entity {
            "q" | "drop" if self.random.random_bool(0.6) => {
                sent.ttl_ms = Some(self.random.random_range(200..8_000));
            }
            "t" => {
                let class = if self.random.random_bool(0.5) { "red" } else { "blue" };
                sent.class = Some(class.to_owned());
            }
            "s" => sent.session = Some(format!("s-{}", self.random.random_range(0..3))),
            "later" => {
                let due_ms = self.now_ms.saturating_add_signed(self.offset_ms);
                sent.due_ms = Some(due_ms + self.random.random_range(500..5_000));
            }
            // Often one that was sent before.
            "d" => sent.id = format!("d-{}", self.random.random_range(0..40)),
            _ => (),
        }
        sent
    }

    fn send(&mut self) {
        const TO: [&str; 11] =
            ["q", "q", "drop", "a", "t", "d", "later", "s", "tmp-used", DEFERS, DEFERS];
        let Some(entity) = TO.choose(&mut self.random).copied() else { return };
        let sent = self.message(entity);
        let (done, mut answer) = self.luck();
        let refused = answer == Answer::NotDone && self.broker.has(Bug::StoresRefused);
        let number = (done || refused).then(|| self.broker.send(entity, &sent)).flatten();
        if entity == "tmp-used" && self.broker.is_gone(entity) {
            answer = Answer::Refused("MessagingEntityNotFound".into());
        }
        let number = number.filter(|_| answer == Answer::Done);
        if let Some(number) = number.filter(|_| entity == "later") {
            self.scheduled.push((sent.id.clone(), number));
        }
        self.note(entity, What::Send(vec![Sent { number, ..sent }]), answer);
    }

    fn receive(&mut self) {
        let Some(entity) = PLAIN.choose(&mut self.random).copied() else { return };
        let Some(delivered) = self.broker.receive(entity, false) else { return };
        // Some are lost on their way, and nobody knows of their locks.
        if self.random.random_bool(0.95) {
            self.take(delivered);
        }
    }

    fn take(&mut self, delivered: Delivered) {
        let delivered = Delivered { at_ms: self.now_ms, ..delivered };
        self.history.deliveries.push(delivered.clone());
        self.held.push(delivered);
    }

    fn receive_dead(&mut self) {
        for entity in ["q", DEFERS] {
            if let Some(delivered) = self.broker.receive(entity, true) {
                self.take(delivered);
            }
        }
    }

    fn receive_deferred(&mut self) {
        let all: Vec<_> = self.deferred.iter().map(|(key, told)| (*key, told.clone())).collect();
        let Some(((entity, number), (id, dead))) = all.choose(&mut self.random).cloned() else {
            return;
        };
        let received = self.broker.receive_deferred(entity, number, dead);
        let answer = match &received {
            Some(_) => Answer::Done,
            None => Answer::Refused("MessageNotFound".into()),
        };
        self.note(entity, What::ReceiveDeferred { id, number, dead }, answer);
        received.into_iter().for_each(|delivered| self.take(delivered));
    }

    fn settle(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.held.len());
        // Now and then it is kept, and settled once more, or much later.
        let delivered = match self.random.random_bool(0.85) {
            true => self.held.swap_remove(at),
            false => self.held[at].clone(),
        };
        let how = match self.random.random_range(0..7) {
            0 => How::Abandon,
            2 if delivered.session.is_none() => How::Release,
            3 | 4 if delivered.entity == DEFERS => How::Defer,
            1 if !delivered.dead => How::DeadLetter("unwanted".to_owned()),
            _ => How::Complete,
        };
        self.settle_as(&delivered, how);
    }

    fn settle_as(&mut self, delivered: &Delivered, how: How) {
        let (done, mut answer) = self.luck();
        if how == How::Defer {
            let told = (delivered.id.clone(), delivered.dead);
            self.deferred.insert((DEFERS, delivered.number), told);
        }
        if !self.broker.is_held(delivered) {
            answer = Answer::Refused("MessageLockLost".into());
        } else if done {
            self.broker.settle(delivered, &how);
        }
        self.note(&delivered.entity, What::Settle(delivered.held(), how), answer);
    }

    fn renew_or_cancel(&mut self) {
        if let Some((id, number)) = self.scheduled.pop() {
            let answer = match self.broker.cancel(number) {
                true => Answer::Done,
                false => Answer::Refused("MessageNotFound".into()),
            };
            self.note("later", What::Cancel { id, number }, answer);
        }
        let Some(delivered) = self.held.choose(&mut self.random).cloned() else { return };
        if delivered.session.is_none() && self.broker.is_held(&delivered) {
            let until_ms = self.broker.renew(&delivered);
            self.note(&delivered.entity, What::Renew(delivered.held(), until_ms), Answer::Done);
        }
    }

    fn commit(&mut self) {
        let parents: Vec<Delivered> =
            self.held.iter().filter(|it| it.entity == "q" && !it.dead).take(2).cloned().collect();
        let sent: Vec<Sent> = (0..2).map(|_| self.message("child")).collect();
        let held: Vec<Held> = parents.iter().map(Delivered::held).collect();
        let settled: Vec<_> = held.iter().map(|held| (held.clone(), How::Complete)).collect();
        if self.random.random_bool(0.3) {
            // Nothing of it may be done, and its messages can be settled again.
            parents.iter().for_each(|it| self.broker.roll_back(it));
            if self.broker.has(Bug::SettlesAtOnce) {
                let early = held.first().cloned().map(What::SettledEarly);
                early.into_iter().for_each(|what| self.note("q", what, Answer::Done));
            }
            self.note("q", What::Commit { sent, settled }, Answer::NotDone);
            self.note("q", What::RollBack(held), Answer::Done);
            self.now_ms += 10;
            return parents.iter().for_each(|it| self.settle_as(it, How::Complete));
        }
        let (done, mut answer) = self.luck();
        if !parents.iter().all(|it| self.broker.is_held(it)) {
            answer = Answer::Refused("MessageLockLost".into());
        } else if done {
            let in_part = self.broker.has(Bug::CommitsInPart);
            for sent in sent.iter().take(if in_part { 1 } else { 2 }) {
                self.broker.send("q", sent);
            }
            if !in_part {
                parents.iter().for_each(|it| self.broker.settle(it, &How::Complete));
            }
        }
        if answer == Answer::Done {
            self.held.retain(|it| !parents.contains(it));
        }
        self.note("q", What::Commit { sent, settled }, answer);
    }

    /// Takes a session, or goes on with one, or gives one back.
    fn hold(&mut self) {
        let session = format!("s-{}", self.random.random_range(0..3));
        // Whoever asks for a session that is held waits for it.
        let asked_ms = *self.waiting.entry(session.clone()).or_insert(self.now_ms - 2);
        if let Some(hold) = self.broker.accept(&session) {
            self.waiting.remove(&session);
            let Hold { session, token, until_ms } = hold.clone();
            self.note("s", What::Accept { session, hold: token, until_ms }, Answer::Done);
            self.history.calls.last_mut().expect("it was noted").asked_ms = asked_ms;
            self.holds.push(hold);
        }
        for _ in 0..4 {
            let Some(hold) = self.holds.choose(&mut self.random).cloned() else { return };
            let Some(delivered) = self.broker.receive_session(&hold) else { continue };
            self.take(delivered);
        }
        if self.random.random_bool(0.1)
            && let Some(hold) = self.holds.pop()
            && self.broker.has(Bug::FreesUnheard)
        {
            // Its connection was lost: nobody says goodbye, and its lock goes on.
            self.broker.release(&hold);
        }
        if self.random.random_bool(0.3)
            && let Some(hold) = self.holds.pop()
        {
            let orderly = self.broker.release(&hold);
            let Hold { session, token, .. } = hold;
            let what = What::EndHold { session, hold: token, orderly, way: String::new() };
            self.note("s", what, Answer::Done);
        }
    }

    /// Receives and completes everything, until nothing comes any more.
    fn drain(&mut self) {
        for _ in 0..80 {
            self.now_ms += LOCK_MS / 4;
            self.broker.advance(self.now_ms.saturating_add_signed(self.offset_ms));
            for entity in PLAIN {
                while let Some(delivered) = self.broker.receive(entity, false) {
                    self.take(delivered.clone());
                    self.settle_as(&delivered, How::Complete);
                }
            }
            self.holds.clear();
            for _ in 0..20 {
                self.hold();
            }
            for delivered in std::mem::take(&mut self.held) {
                if delivered.session.is_some() {
                    self.settle_as(&delivered, How::Complete);
                }
            }
        }
    }
}
