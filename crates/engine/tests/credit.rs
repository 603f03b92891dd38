//! Waiting credit, as tables: what receivers grant, what becomes available, what is asked for.

use domain::{
    Acquire, Delivery, Effect, EntityId, MessageState, Outcome, QueueId, ReceiverId, Refusal,
    SequenceNumber, Timestamp,
};
use engine::{Engine, EngineOptions};

const QUEUE: QueueId = QueueId { entity: EntityId(1), sub: domain::SubQueue::Main };

fn receiver(link: u64) -> ReceiverId {
    ReceiverId { node: 1, link, epoch: 1 }
}

/// An engine with two receivers, 1 and 2.
fn engine() -> Engine {
    let mut engine = Engine::new(EngineOptions { acquire_count_max: 10, ..Default::default() });
    engine.attach(receiver(1), QUEUE);
    engine.attach(receiver(2), QUEUE);
    engine
}

fn available(engine: &mut Engine, count: u64) {
    engine.effect(Effect::Available { queue: QUEUE, count, rose: None });
}

fn asked(engine: &mut Engine) -> Vec<(u64, u32)> {
    let mut out = Vec::new();
    engine.acquires(&mut out);
    links(&out)
}

fn links(acquires: &[Acquire]) -> Vec<(u64, u32)> {
    acquires.iter().map(|acquire| (acquire.receiver.link, acquire.count_max)).collect()
}

fn answer(count: u64, more: bool) -> Outcome {
    let delivery = |n| Delivery {
        sequence: SequenceNumber(n),
        body: SequenceNumber(n),
        topic: None,
        size_bytes: 0,
        state: MessageState::Active,
        delivery_count: 0,
        enqueued_at: Timestamp(0),
        dead_letter_source: None,
        enqueued_sequence: SequenceNumber(n),
        scheduled_at: None,
        ttl: None,
        expires_at: None,
        lock: None,
        overlay: None,
    };
    Outcome::Acquired { deliveries: (0..count).map(delivery).collect(), more }
}

#[test]
fn lock_7_credit_is_served_in_order_of_arrival() {
    let mut engine = engine();
    engine.credit(receiver(1), 2);
    engine.credit(receiver(2), 3);
    engine.credit(receiver(1), 4);
    assert_eq!(asked(&mut engine), []);
    available(&mut engine, 6);
    assert_eq!(asked(&mut engine), [(1, 2), (2, 3), (1, 1)]);
    assert_eq!(engine.waiting(QUEUE), 3);
    // All six are spoken for until an outcome is known.
    available(&mut engine, 6);
    assert_eq!(asked(&mut engine), []);
}

#[test]
fn lock_7_unused_credit_returns_to_its_place() {
    let mut engine = engine();
    engine.credit(receiver(1), 5);
    engine.credit(receiver(2), 5);
    available(&mut engine, 5);
    assert_eq!(asked(&mut engine), [(1, 5)]);
    available(&mut engine, 0);
    engine.acquired(receiver(1), &answer(2, false));
    available(&mut engine, 4);
    assert_eq!(asked(&mut engine), [(1, 3), (2, 1)]); // Before 2, who came later.
    engine.acquire_lost(receiver(1));
    available(&mut engine, 9);
    assert_eq!(asked(&mut engine), [(1, 3), (2, 4)]);
}

#[test]
fn one_acquire_is_bounded_and_so_is_what_is_asked_for_at_once() {
    let options =
        EngineOptions { acquire_count_max: 10, reserved_max: 25, ..EngineOptions::default() };
    let mut engine = Engine::new(options);
    engine.attach(receiver(1), QUEUE);
    engine.credit(receiver(1), 100);
    available(&mut engine, 100);
    assert_eq!(asked(&mut engine), [(1, 10), (1, 10), (1, 5)]);
    engine.acquired(receiver(1), &answer(10, true));
    available(&mut engine, 90);
    assert_eq!(asked(&mut engine), [(1, 10)]);
}

#[test]
fn messages_of_the_same_entry_can_be_asked_for_before_they_are_there() {
    let mut engine = engine();
    engine.credit(receiver(1), 3);
    engine.credit(receiver(2), 3);
    let mut out = Vec::new();
    engine.wants(QUEUE, 4, &mut out);
    assert_eq!(links(&out), [(1, 3), (2, 1)]);
    // Stored and handed out in one entry: the count never rose. Another message comes meanwhile.
    available(&mut engine, 1);
    assert_eq!(asked(&mut engine), [(2, 1)]);
}

#[test]
fn an_empty_answer_waits_for_news_instead_of_asking_again() {
    let mut engine = engine();
    engine.credit(receiver(1), 3);
    available(&mut engine, 2);
    assert_eq!(asked(&mut engine), [(1, 2)]);
    engine.acquired(receiver(1), &answer(0, false));
    assert_eq!(asked(&mut engine), []);
    available(&mut engine, 2);
    assert_eq!(asked(&mut engine), [(1, 2)]);
    // News came while it was under way, perhaps of an entry after it: ask again, once.
    available(&mut engine, 2);
    engine.acquired(receiver(1), &answer(0, false));
    assert_eq!(asked(&mut engine), [(1, 2)]);
    engine.acquired(receiver(1), &answer(0, false));
    assert_eq!(asked(&mut engine), []);
}

#[test]
fn state_4_a_refused_acquire_waits_for_the_entitys_update() {
    let mut engine = engine();
    engine.credit(receiver(1), 3);
    available(&mut engine, 2);
    assert_eq!(asked(&mut engine), [(1, 2)]);
    let refusal = Refusal::EntityDisabled { status: "ReceiveDisabled" };
    engine.acquired(receiver(1), &Outcome::Refused(refusal));
    assert_eq!(asked(&mut engine), []);
    engine.effect(Effect::Updated { entity: QUEUE.entity });
    assert_eq!(asked(&mut engine), [(1, 2)]);
}

#[test]
fn a_drained_receiver_waits_no_more_until_it_grants_again() {
    let mut engine = engine();
    engine.credit(receiver(1), 5);
    engine.credit(receiver(2), 1);
    available(&mut engine, 2);
    assert_eq!(asked(&mut engine), [(1, 2)]);
    assert_eq!(engine.drain(receiver(1)), 3);
    available(&mut engine, 0);
    assert_eq!(engine.acquired(receiver(1), &answer(1, false)), 1);
    available(&mut engine, 2);
    assert_eq!(asked(&mut engine), [(2, 1)]);
    engine.credit(receiver(1), 1);
    assert_eq!(asked(&mut engine), [(1, 1)]);
}

#[test]
fn a_detached_receiver_takes_its_credit_and_its_reservations_along() {
    let mut engine = engine();
    engine.credit(receiver(1), 5);
    engine.credit(receiver(2), 5);
    available(&mut engine, 3);
    assert_eq!(asked(&mut engine), [(1, 3)]);
    engine.detach(receiver(1));
    assert_eq!(asked(&mut engine), [(2, 3)]);
    assert_eq!(engine.acquired(receiver(1), &answer(3, false)), 0); // Too late to matter.
}

#[test]
fn ent_7_deleting_an_entity_detaches_its_receivers() {
    let mut engine = engine();
    engine.attach(receiver(3), QueueId::dead_letter(QUEUE.entity));
    engine.attach(receiver(4), QueueId::transfer_dead_letter(QUEUE.entity));
    engine.credit(receiver(1), 5);
    engine.effect(Effect::Deleted { entity: QUEUE.entity });
    assert_eq!(engine.take_detached(), [1, 2, 3, 4].map(receiver));
    assert_eq!(engine.take_detached(), []);
    available(&mut engine, 3);
    assert_eq!(asked(&mut engine), []);
}
