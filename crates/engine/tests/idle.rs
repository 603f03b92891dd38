//! IDLE, as a leader and the coordinator see it. Rows are real; who waits is told to the engine.

use std::collections::BTreeSet;

use bytes::Bytes;
use domain::{
    Command, CreateQueue, Effect, EntityId, Entry, FEATURE_LEVEL_KNOWN, GroupId, Machine,
    MemoryRows, NewMessage, Outcome, QueueId, QueueProperties, ReceiverId, Seal, Send, Span,
    TOUCH_LASTS, Timestamp,
};
use engine::{Candidate, Engine, EngineOptions, candidates, unused};

const START: u64 = 1_700_000_000_000;
const MINUTE: u64 = 60_000;
const WINDOW: Span = Span::from_secs(300);

/// A group under one leader; minutes are counted from its start.
struct Group {
    rows: MemoryRows,
    machine: Machine,
    engine: Engine,
    now: Timestamp,
    patience: Span,
    entries: u64,
}

impl Group {
    fn new() -> Group {
        Group {
            rows: MemoryRows::at_level(FEATURE_LEVEL_KNOWN),
            machine: Machine::new(),
            engine: Engine::new(EngineOptions::default()),
            now: Timestamp(START),
            patience: Span(0),
            entries: 0,
        }
    }

    /// With temporary queues, created at the start.
    fn of(queues: u64) -> Group {
        let mut group = Group::new();
        (1..=queues).for_each(|id| group.create(id, WINDOW));
        group
    }

    fn create(&mut self, id: u64, window: Span) {
        let properties =
            QueueProperties { auto_delete_on_idle: window, ..QueueProperties::default() };
        let (entity, name) = (EntityId(id), format!("q{id}"));
        let create = CreateQueue { entity, name, properties: Box::new(properties) };
        assert_eq!(self.apply(Command::CreateQueue(create)), Outcome::Done);
    }

    fn apply(&mut self, command: Command) -> Outcome {
        self.entries += 1;
        let seed = u128::from(self.entries).to_be_bytes();
        let mut step = self.machine.step(&self.rows);
        let mut outcomes = step.apply(Entry { at: self.now, seed, commands: vec![command] });
        let changes = step.finish();
        self.rows.erase(&changes.erased);
        self.rows.write(changes.writes);
        changes.effects.into_iter().for_each(|effect: Effect| self.engine.effect(effect));
        outcomes.remove(0)
    }

    /// Leads until an instant, minute by minute: touches what is to be touched, and returns what was
    /// named and how often it was touched.
    fn lead_until(&mut self, ms: u64) -> (Vec<u64>, usize) {
        let (mut named, mut touches) = (BTreeSet::new(), 0);
        loop {
            let looked = self.engine.look(self.now, self.patience, &self.rows);
            named.extend(looked.candidates.iter().map(|candidate| candidate.entity.0));
            touches += looked.touch.len();
            for entity in looked.touch {
                assert_eq!(self.apply(Command::Touch { entity }), Outcome::Done);
            }
            let until = Timestamp(START + ms);
            if self.now == until {
                return (named.into_iter().collect(), touches);
            }
            let beat = self.now.plus(Span(MINUTE));
            let next = self.engine.next_look().unwrap_or(Timestamp::NEVER);
            self.now = next.max(Timestamp(self.now.0 + 1)).min(beat).min(until);
            self.apply(Command::Beat);
        }
    }

    fn attach(&mut self, link: u64, id: u64, credit: u32) -> bool {
        let receiver = ReceiverId { node: 1, link, epoch: 1 };
        self.engine.attach(receiver, QueueId::main(EntityId(id)));
        self.engine.credit(receiver, credit);
        self.touch_if_awaited(id)
    }

    fn touch_if_awaited(&mut self, id: u64) -> bool {
        let entity = EntityId(id);
        let touch = self.engine.awaited(entity, self.now, &self.rows);
        if touch {
            self.apply(Command::Touch { entity });
        }
        touch
    }

    fn detach(&mut self, link: u64) {
        self.engine.detach(ReceiverId { node: 1, link, epoch: 1 });
    }

    fn seal(&mut self, id: u64, idle_since: u64) -> Outcome {
        let idle_since = Timestamp(START + idle_since);
        self.apply(Command::Seal(Seal { entity: EntityId(id), idle_since }))
    }
}

fn message() -> NewMessage {
    NewMessage {
        content: Bytes::from_static(b"body"),
        size_bytes: 4,
        header_bytes: 0,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    }
}

#[test]
fn idle_1_what_is_unused_for_its_window_is_named_then_and_not_before() {
    let mut group = Group::of(2);
    group.create(3, Span::MAX);
    assert_eq!(group.engine.temporary_count(), 2, "what is kept for ever is not even known");
    assert_eq!(group.lead_until(WINDOW.0 - 1), (vec![], 0));
    assert_eq!(group.lead_until(WINDOW.0), (vec![1, 2], 0));
    // Named again after a while, should nobody have heard.
    assert_eq!(group.lead_until(WINDOW.0 + 29_999), (vec![], 0));
    assert_eq!(group.lead_until(WINDOW.0 + 30_000), (vec![1, 2], 0));
    assert_eq!(group.seal(1, 0), Outcome::Done);
    assert_eq!(group.lead_until(WINDOW.0 + 60_000), (vec![2], 0));
    assert_eq!(group.engine.temporary_count(), 1);
}

/// A use tells the engine nothing: it looks once a window, whatever happens.
#[test]
fn idle_2_uses_in_the_log_cost_no_look() {
    let mut group = Group::of(1);
    group.lead_until(0);
    let armed = group.engine.next_look();
    assert_eq!(armed, Some(Timestamp(START).plus(WINDOW)));
    for minute in 1..5 {
        group.lead_until(minute * MINUTE);
        let messages = vec![message()];
        let send = Send { origin: None, entity: EntityId(1), messages };
        group.apply(Command::Send(send));
        assert_eq!(group.engine.next_look(), armed);
    }
    assert_eq!(group.lead_until(9 * MINUTE - 1), (vec![], 0));
    assert_eq!(group.lead_until(9 * MINUTE), (vec![1], 0));
}

#[test]
fn idle_4_who_waits_keeps_an_entity_and_the_window_starts_when_the_wait_ends() {
    let mut group = Group::of(1);
    group.lead_until(MINUTE);
    assert!(group.attach(1, 1, 5), "the first is written at once");
    assert!(!group.attach(2, 1, 5), "the second is covered");
    // Once a minute, however many wait.
    let (named, touches) = group.lead_until(31 * MINUTE);
    assert_eq!((named, touches), (vec![], 30));
    group.detach(1);
    assert_eq!(group.lead_until(40 * MINUTE), (vec![], 9));
    group.detach(2);
    let ended = 40 * MINUTE;
    // IDLE-14: longer by a minute at most, shorter never.
    assert_eq!(group.lead_until(ended + WINDOW.0 - 1), (vec![], 0));
    let covered = ended + TOUCH_LASTS.0 + WINDOW.0;
    assert_eq!(group.lead_until(covered), (vec![1], 0));
    assert_eq!(group.seal(1, covered - WINDOW.0), Outcome::Done);
}

/// IDLE-4: a receiver that is there but asks for nothing does not wait.
#[test]
fn idle_4_a_link_without_credit_is_no_use() {
    let mut group = Group::of(1);
    let receiver = ReceiverId { node: 1, link: 1, epoch: 1 };
    group.engine.attach(receiver, QueueId::dead_letter(EntityId(1)));
    assert_eq!(group.lead_until(WINDOW.0), (vec![1], 0));
    // And with some, of the dead-letter queue as well (IDLE-5), it is one.
    group.engine.credit(receiver, 1);
    assert!(group.touch_if_awaited(1));
    assert_eq!(group.seal(1, WINDOW.0), Outcome::Spared);
    assert_eq!(group.lead_until(3 * WINDOW.0).0, [0_u64; 0]);
    group.engine.drain(receiver);
    assert_eq!(group.lead_until(5 * WINDOW.0).0, [1]);
}

/// An operator moves the clock past the window of what somebody waits for.
#[test]
fn idle_4_a_moved_clock_deletes_nothing_that_is_awaited() {
    let mut group = Group::of(2);
    group.lead_until(0);
    group.attach(1, 1, 1);
    group.apply(Command::AdvanceClock { by: Span(60 * MINUTE) });
    group.now = group.now.plus(Span(60 * MINUTE));
    let looked = group.engine.look(group.now, Span(0), &group.rows);
    assert_eq!(looked.touch, [EntityId(1)]);
    let named: Vec<u64> = looked.candidates.iter().map(|idle| idle.entity.0).collect();
    assert_eq!(named, [2]);
}

#[test]
fn idle_8_scheduled_messages_keep_an_entity_without_a_receiver() {
    let mut group = Group::of(1);
    let due = Some(Timestamp(START + 60 * MINUTE));
    let messages = vec![NewMessage { scheduled_at: due, ..message() }];
    let sent = group.apply(Command::Send(Send { origin: None, entity: EntityId(1), messages }));
    assert!(matches!(sent, Outcome::Sent { .. }));
    assert_eq!(group.lead_until(60 * MINUTE), (vec![], 0));
    group.engine.poll(group.now).into_iter().for_each(|command| drop(group.apply(command)));
    assert_eq!(group.lead_until(65 * MINUTE - 1), (vec![], 0));
    assert_eq!(group.lead_until(65 * MINUTE), (vec![1], 0));
}

#[test]
fn idle_13_an_update_moves_the_look() {
    let mut group = Group::of(1);
    group.lead_until(MINUTE);
    let update = |window| {
        let properties = QueueProperties { auto_delete_on_idle: window, ..Default::default() };
        let (origin, properties) = (None, Box::new(properties));
        Command::UpdateQueue(domain::UpdateQueue { origin, entity: EntityId(1), properties })
    };
    group.apply(update(Span(20 * MINUTE)));
    assert_eq!(group.lead_until(21 * MINUTE - 1), (vec![], 0));
    group.apply(update(WINDOW));
    assert_eq!(group.lead_until(26 * MINUTE), (vec![1], 0));
    group.apply(update(Span::MAX));
    assert_eq!((group.engine.temporary_count(), group.engine.next_look()), (0, None));
}

/// Another leader finds in the rows what the one before knew.
#[test]
fn idle_14_a_new_leader_deletes_no_sooner() {
    let mut group = Group::of(1);
    group.lead_until(4 * MINUTE);
    assert!(group.attach(1, 1, 1));
    group.lead_until(4 * MINUTE + 59_999); // And falls, and the receiver with it.
    group.engine = Engine::rebuild(&group.rows, EngineOptions::default());
    let seen = 4 * MINUTE + 59_999 + TOUCH_LASTS.0;
    // It cannot know when the wait ended, so it counts it until its own beginning.
    assert_eq!(group.lead_until(seen + WINDOW.0 - 1), (vec![], 1));
    assert_eq!(group.lead_until(seen + WINDOW.0), (vec![1], 0));

    // After an outage the windows start anew.
    let mut group = Group::of(1);
    group.lead_until(4 * MINUTE);
    group.now = Timestamp(START + 60 * MINUTE);
    group.engine = Engine::rebuild(&group.rows, EngineOptions::default());
    assert_eq!(group.seal(1, 0), Outcome::Spared);
    assert_eq!(group.lead_until(65 * MINUTE - 1), (vec![], 0));
    assert_eq!(group.lead_until(65 * MINUTE), (vec![1], 0));
}

/// Its edges have a minute to attach, and then it names at once what was due meanwhile.
#[test]
fn idle_14_a_new_leader_is_patient() {
    let mut group = Group::of(1);
    group.now = Timestamp(START).plus(WINDOW);
    let mut look = |now: u64, patience| {
        let now = Timestamp(now).plus(WINDOW);
        group.engine.look(now, Span(patience), &group.rows).candidates.len()
    };
    assert_eq!(look(START, 60_000), 0);
    assert_eq!(look(START + 59_999, 1), 0);
    assert_eq!(look(START + 60_000, 0), 1);
}

#[test]
fn idle_15_the_coordinator_seals_what_nobody_uses() {
    let named = |group, id, since| {
        let (name, idle_since) = (format!("q{id}"), Timestamp(since));
        (GroupId(group), Candidate { entity: EntityId(id), name, idle_since })
    };
    // Two nodes believe to lead group 1.
    let all = candidates([named(1, 1, 50), named(2, 2, 30), named(1, 1, 70), named(1, 3, 20)]);
    let used = BTreeSet::from([EntityId(3)]);
    assert_eq!(unused(all.clone(), &used), [named(2, 2, 30), named(1, 1, 70)]);
    let everybody = all.keys().copied().collect();
    assert_eq!(unused(all, &everybody), []);
}

/// 100,000 entities are looked at a few hundred at a time.
#[test]
fn many_idle_entities_are_looked_at_a_few_at_a_time() {
    let mut group = Group::of(1000);
    group.now = Timestamp(START).plus(WINDOW);
    let mut named = 0;
    let mut looks = 0;
    while group.engine.next_look().is_some_and(|look_at| look_at <= group.now) {
        let looked = group.engine.look(group.now, Span(0), &group.rows);
        assert!(looked.candidates.len() <= 256);
        named += looked.candidates.len();
        looks += 1;
    }
    assert_eq!((named, looks), (1000, 4));
}
