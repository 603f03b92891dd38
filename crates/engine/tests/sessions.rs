//! Sessions, as tables: who waits for one, who holds one, and what is asked for them.

use domain::{
    Effect, EntityId, Outcome, ReceiverId, Refusal, SessionEffect, SessionId, SessionToken,
    Timestamp,
};
use engine::{Engine, EngineOptions};

const ENTITY: EntityId = EntityId(1);

fn receiver(link: u64) -> ReceiverId {
    ReceiverId { node: 1, link, epoch: 1 }
}

fn token(nonce: u64) -> SessionToken {
    SessionToken { session: SessionId::from("s"), nonce }
}

fn tell(engine: &mut Engine, effect: SessionEffect) {
    engine.effect(Effect::Session(effect));
}

fn free(engine: &mut Engine, count: u64) {
    tell(engine, SessionEffect::Free { entity: ENTITY, count });
}

/// Links of those for whom a session is asked.
fn accepts(engine: &mut Engine) -> Vec<u64> {
    let mut out = Vec::new();
    engine.accepts(&mut out);
    out.iter().map(|accept| accept.receiver.link).collect()
}

/// Links and counts of what holders ask for.
fn receives(engine: &mut Engine) -> Vec<(u64, u32)> {
    let mut out = Vec::new();
    engine.receives(&mut out);
    out.iter().map(|receive| (receive.receiver.link, receive.count_max)).collect()
}

#[test]
fn sess_7_whoever_waits_longest_is_asked_for_first() {
    let mut engine = Engine::new(EngineOptions::default());
    for link in [3, 1, 2] {
        engine.accept(receiver(link), ENTITY);
    }
    assert_eq!(accepts(&mut engine), []);
    free(&mut engine, 2);
    assert_eq!(accepts(&mut engine), [3, 1]);
    // Asked for, and not yet answered.
    assert_eq!(accepts(&mut engine), []);
    let accepted = Outcome::Accepted { token: token(1), until: Timestamp(9) };
    free(&mut engine, 0);
    engine.accepted(receiver(3), &accepted);
    // Somebody else was quicker: it goes on waiting, in front of those who came later.
    engine.accepted(receiver(1), &Outcome::Refused(Refusal::NoSession));
    assert_eq!(accepts(&mut engine), []);
    free(&mut engine, 1);
    assert_eq!(accepts(&mut engine), [1]);
}

#[test]
fn sess_7_who_gives_up_waits_no_more() {
    let mut engine = Engine::new(EngineOptions::default());
    engine.accept(receiver(1), ENTITY);
    engine.accept(receiver(2), ENTITY);
    engine.detach(receiver(1));
    free(&mut engine, 5);
    assert_eq!(accepts(&mut engine), [2]);
}

#[test]
fn sess_9_a_holder_asks_for_what_is_ready_in_its_session() {
    let mut engine = Engine::new(EngineOptions::default());
    let ready = |count| SessionEffect::Ready { entity: ENTITY, session: "s".into(), count };
    tell(
        &mut engine,
        SessionEffect::Locked { entity: ENTITY, token: token(1), until: Timestamp(60) },
    );
    tell(&mut engine, ready(5));
    engine.hold(receiver(1), ENTITY, token(1));
    assert_eq!(receives(&mut engine), []);
    engine.credit(receiver(1), 3);
    assert_eq!(receives(&mut engine), [(1, 3)]);
    assert_eq!(engine.credit_left(receiver(1)), 3);
}

/// SESS-13: the end of a hold is the end of its receiver, but of no other.
#[test]
fn sess_13_a_hold_that_ended_detaches_its_receiver() {
    let mut engine = Engine::new(EngineOptions::default());
    let locked = |nonce, until| SessionEffect::Locked {
        entity: ENTITY,
        token: token(nonce),
        until: Timestamp(until),
    };
    tell(&mut engine, locked(1, 60));
    engine.hold(receiver(1), ENTITY, token(1));
    assert_eq!(engine.next_deadline(), Some(Timestamp(60)));
    tell(&mut engine, locked(1, 90));
    assert_eq!(engine.next_deadline(), Some(Timestamp(90)));
    assert_eq!(engine.poll(Timestamp(90)).len(), 1);
    tell(&mut engine, SessionEffect::Unlocked { entity: ENTITY, token: token(1) });
    tell(&mut engine, locked(2, 150));
    assert_eq!(engine.take_lost(), [(receiver(1), "s".into())]);
    engine.fired(&[Outcome::Fired(domain::Fired::default())]);
    // A late word about the old hold leaves the new one alone.
    engine.hold(receiver(2), ENTITY, token(2));
    tell(&mut engine, SessionEffect::Unlocked { entity: ENTITY, token: token(1) });
    assert_eq!(engine.take_lost(), []);
    assert_eq!(engine.next_deadline(), Some(Timestamp(150)));
    tell(&mut engine, SessionEffect::Unlocked { entity: ENTITY, token: token(2) });
    assert_eq!(engine.take_lost(), [(receiver(2), "s".into())]);
    assert_eq!(engine.next_deadline(), None);
}

/// SESS-13: one that comes with a session it holds no more learns so by its first request, and keeps
/// nothing from who holds the session now.
#[test]
fn sess_13_a_receiver_that_is_refused_holds_no_more() {
    let mut engine = Engine::new(EngineOptions::default());
    let (entity, until) = (ENTITY, Timestamp(60));
    tell(&mut engine, SessionEffect::Locked { entity, token: token(2), until });
    tell(&mut engine, SessionEffect::Ready { entity, session: "s".into(), count: 5 });
    engine.hold(receiver(2), ENTITY, token(2));
    engine.hold(receiver(1), ENTITY, token(1));
    engine.credit(receiver(1), 9);
    engine.credit(receiver(2), 3);
    assert_eq!(receives(&mut engine), [(1, 5)]);
    let refusal = Refusal::SessionLockLost { session: Some("s".into()) };
    assert_eq!(engine.acquired(receiver(1), &Outcome::Refused(refusal)), 0);
    assert_eq!(engine.take_lost(), [(receiver(1), "s".into())]);
    assert_eq!(receives(&mut engine), [(2, 3)]);
}

/// ENT-7.
#[test]
fn ent_7_a_deleted_entity_detaches_holders_and_those_who_wait() {
    let mut engine = Engine::new(EngineOptions::default());
    let (entity, until) = (ENTITY, Timestamp(60));
    tell(&mut engine, SessionEffect::Locked { entity, token: token(1), until });
    engine.hold(receiver(1), ENTITY, token(1));
    engine.accept(receiver(2), ENTITY);
    engine.effect(Effect::Deleted { entity: ENTITY });
    let mut detached = engine.take_detached();
    detached.sort();
    assert_eq!(detached, [receiver(1), receiver(2)]);
    assert_eq!(engine.next_deadline(), None);
}
