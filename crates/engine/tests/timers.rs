//! Timers and rounds, as the driver sees them.

use domain::{
    Command, DeadlineKind, Effect, EntityId, Fire, FireLocks, Fired, LockToken, Outcome, QueueId,
    SequenceNumber, Timestamp,
};
use engine::{Engine, EngineOptions, Timer};

const ENTITY: EntityId = EntityId(1);
const QUEUE: QueueId = QueueId { entity: ENTITY, sub: domain::SubQueue::Main };

fn token(sequence: u64, nonce: u64) -> LockToken {
    LockToken { sequence: SequenceNumber(sequence), nonce }
}

fn next(engine: &mut Engine, entity: u64, due: Timestamp) {
    engine.effect(Effect::Next { entity: EntityId(entity), kind: DeadlineKind::Fixed, due });
}

fn lock(engine: &mut Engine, token: LockToken, until: u64) {
    engine.effect(Effect::Locked { queue: QUEUE, token, until: Timestamp(until) });
}

fn unlock(engine: &mut Engine, token: LockToken) {
    engine.effect(Effect::Unlocked { queue: QUEUE, token });
}

fn fire(entity: u64, count_max: u32) -> Command {
    Command::Fire(Fire { entity: EntityId(entity), kind: DeadlineKind::Fixed, count_max })
}

fn fire_locks(tokens: &[LockToken]) -> Command {
    let locks = tokens.iter().map(|token| (QUEUE, *token)).collect();
    Command::FireLocks(FireLocks { locks })
}

fn done(more: bool) -> Outcome {
    Outcome::Fired(Fired { more, ..Fired::default() })
}

#[test]
fn time_8_a_timer_fires_when_due_and_once() {
    let mut engine = Engine::new(EngineOptions::default());
    next(&mut engine, 1, Timestamp(100));
    assert_eq!(engine.next_deadline(), Some(Timestamp(100)));
    assert_eq!(engine.poll(Timestamp(99)), []);
    assert_eq!(engine.poll(Timestamp(100)), [fire(1, 256)]);
    // One round at a time.
    assert_eq!(engine.next_deadline(), None);
    next(&mut engine, 2, Timestamp(50));
    assert_eq!(engine.poll(Timestamp(100)), []);
    next(&mut engine, 1, Timestamp(200)); // What the round did.
    engine.fired(&[done(false)]);
    assert_eq!(engine.poll(Timestamp(150)), [fire(2, 256)]);
    next(&mut engine, 2, Timestamp::NEVER);
    engine.fired(&[done(false)]);
    assert_eq!(engine.next_deadline(), Some(Timestamp(200)));
    assert_eq!(engine.timers().count(), 1);
}

#[test]
fn a_round_that_has_more_or_was_lost_is_due_again() {
    let mut engine = Engine::new(EngineOptions::default());
    next(&mut engine, 1, Timestamp(100));
    lock(&mut engine, token(7, 70), 90);
    let round = [fire_locks(&[token(7, 70)]), fire(1, 256)];
    assert_eq!(engine.poll(Timestamp(100)), round);
    engine.fire_lost();
    assert_eq!(engine.next_deadline(), Some(Timestamp(90)));
    assert_eq!(engine.poll(Timestamp(101)), round);
    unlock(&mut engine, token(7, 70));
    engine.fired(&[done(false), done(true)]);
    assert_eq!(engine.next_deadline(), Some(Timestamp(100)));
    assert_eq!(engine.poll(Timestamp(101)), [fire(1, 256)]);
}

#[test]
fn state_3_what_firing_cannot_move_rests_until_the_entity_is_updated() {
    let mut engine = Engine::new(EngineOptions::default());
    next(&mut engine, 1, Timestamp(100));
    lock(&mut engine, token(7, 70), 90);
    assert_eq!(engine.poll(Timestamp(100)).len(), 2);
    engine.fired(&[done(false), done(false)]);
    assert_eq!(engine.next_deadline(), None);
    assert_eq!(engine.timers_off_wheel(), 2);
    // It is known all the same: a rebuilt engine would have it.
    let all: Vec<_> = engine.timers().collect();
    let deadline = Timer::Deadline(ENTITY, DeadlineKind::Fixed);
    let held = Timer::Lock(QUEUE, token(7, 70));
    assert_eq!(all, [(deadline, Timestamp(100)), (held, Timestamp(90))]);
    engine.effect(Effect::Updated { entity: ENTITY });
    assert_eq!(engine.next_deadline(), Some(Timestamp(90)));
    assert_eq!(engine.poll(Timestamp(100)).len(), 2);
}

#[test]
fn lock_6_an_old_token_unlocks_nothing_new() {
    let mut engine = Engine::new(EngineOptions::default());
    lock(&mut engine, token(7, 70), 100);
    lock(&mut engine, token(7, 71), 200);
    unlock(&mut engine, token(7, 70));
    assert_eq!(engine.next_deadline(), Some(Timestamp(200)));
    unlock(&mut engine, token(7, 71));
    assert_eq!(engine.next_deadline(), None);
    assert_eq!(engine.timer_count(), 0);
}

#[test]
fn lock_13_a_renewal_moves_the_timer() {
    let mut engine = Engine::new(EngineOptions::default());
    lock(&mut engine, token(7, 70), 100);
    lock(&mut engine, token(7, 70), 150);
    assert_eq!(engine.next_deadline(), Some(Timestamp(150)));
    // Also while a round names it.
    assert_eq!(engine.poll(Timestamp(150)), [fire_locks(&[token(7, 70)])]);
    lock(&mut engine, token(7, 70), 250);
    engine.fired(&[done(false)]);
    assert_eq!(engine.next_deadline(), Some(Timestamp(250)));
}

#[test]
fn a_round_is_bounded_and_its_fires_share_the_bound() {
    let options = EngineOptions {
        fire_count_max: 100,
        fire_entities_max: 4,
        fire_locks_max: 3,
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(options);
    for entity in 1..=6 {
        next(&mut engine, entity, Timestamp(10 + entity));
    }
    for sequence in 1..=5 {
        lock(&mut engine, token(sequence, 1), 20 + sequence);
    }
    let round = engine.poll(Timestamp(100));
    assert_eq!(round, [fire(1, 25), fire(2, 25), fire(3, 25), fire(4, 25)]);
    (1..=4).for_each(|entity| next(&mut engine, entity, Timestamp::NEVER));
    engine.fired(&[(); 4].map(|()| done(false)));
    let round = engine.poll(Timestamp(100));
    let tokens = [token(1, 1), token(2, 1), token(3, 1)];
    assert_eq!(round, [fire_locks(&tokens), fire(5, 50), fire(6, 50)]);
}

/// Larger rounds cost less per message; whoever sends meanwhile waits longer for them.
#[test]
fn rounds_that_fall_behind_grow_and_one_that_keeps_up_ends_it() {
    let mut engine = Engine::new(EngineOptions { fire_count_max: 100, ..EngineOptions::default() });
    next(&mut engine, 1, Timestamp(10));
    let behind =
        |late_ms_max, more| Outcome::Fired(Fired { late_ms_max, more, ..Fired::default() });
    for (count_max, late_ms, more) in [
        (100, 49, true), // More is due, but soon enough.
        (100, 50, true),
        (200, 90, true),
        (400, 90, true),
        (800, 300, true),
        (1024, 300, true), // No more than that.
        (1024, 49, true),
        (100, 90, true),
        (200, 90, false),
    ] {
        assert_eq!(engine.poll(Timestamp(400)), [fire(1, count_max)]);
        engine.fired(&[behind(late_ms, more)]);
        next(&mut engine, 1, Timestamp(10));
    }
    assert_eq!(engine.poll(Timestamp(400)), [fire(1, 100)]);
    engine.fired(&[behind(50, true)]);
    assert_eq!(engine.poll(Timestamp(400)), [fire(1, 200)]);
    engine.fire_lost();
    assert_eq!(engine.poll(Timestamp(400)), [fire(1, 100)], "nobody knows what became of it");
}

#[test]
fn ent_7_a_deleted_entity_has_no_timers_and_is_swept() {
    let mut engine = Engine::new(EngineOptions::default());
    next(&mut engine, 1, Timestamp(10));
    next(&mut engine, 2, Timestamp(10));
    lock(&mut engine, token(1, 1), 20);
    let token = token(2, 1);
    for queue in [QueueId::dead_letter(ENTITY), QueueId::transfer_dead_letter(ENTITY)] {
        engine.effect(Effect::Locked { queue, token, until: Timestamp(30) });
    }
    engine.effect(Effect::Deleted { entity: ENTITY });
    engine.effect(Effect::SweepWanted);
    assert_eq!(engine.timer_count(), 1);
    assert_eq!(engine.next_deadline(), Some(Timestamp::ZERO));
    assert_eq!(engine.poll(Timestamp(5)), [Command::Sweep]);
    engine.fired(&[done(true)]);
    assert_eq!(engine.poll(Timestamp(5)), [Command::Sweep]);
    engine.fired(&[done(false)]);
    assert_eq!(engine.poll(Timestamp(5)), []);
    assert_eq!(engine.poll(Timestamp(10)), [fire(2, 256)]);
}
