//! Forwarding as a leader paces it.

use domain::{Effect, EntityId, ForwardEffect, Line, QueueId, Span, SubQueue, Timestamp, Waiting};
use engine::{Carried, Engine, EngineOptions, ForwardTask};

fn line(sub: SubQueue) -> Line {
    Line { queue: QueueId { entity: EntityId(1), sub }, to: None }
}

/// As `Ship` or `Shipped` leaves it.
fn stands(engine: &mut Engine, line: Line, ready: u64, parked: u64) {
    let waiting = Waiting { ready, parked, unwanted: 0 };
    engine.effect(Effect::Forward(ForwardEffect::Waiting { queue: line.queue, waiting }));
}

fn shipped(engine: &mut Engine, line: Line, serial: u64, left: u64) {
    engine.effect(Effect::Forward(ForwardEffect::Shipment { line, serial }));
    stands(engine, line, left, 0);
    engine.packed(line.queue, true, Timestamp(0));
}

fn asked(engine: &mut Engine, now: u64) -> Vec<ForwardTask> {
    let mut tasks = Vec::new();
    engine.forward_tasks(Timestamp(now), &mut tasks);
    tasks
}

#[test]
fn fwd_5_what_was_refused_of_a_dead_letter_queue_goes_before_what_is_behind_it() {
    let mut engine = Engine::new(EngineOptions::default());
    let line = line(SubQueue::DeadLetter);
    let (queue, serial) = (line.queue, 1);
    stands(&mut engine, line, 9, 0);
    assert_eq!(asked(&mut engine, 0), [ForwardTask::Ship { queue, again: false }]);
    shipped(&mut engine, line, serial, 6);
    let carry = ForwardTask::Carry { line, serial, settled_to: 0, follows: 0 };
    assert_eq!(asked(&mut engine, 0), [carry], "and no other is packed");

    engine.effect(Effect::Forward(ForwardEffect::Settled { line, serial }));
    stands(&mut engine, line, 6, 2);
    engine.carried(line, serial, Carried::Some, Timestamp(0));
    for now in [0, 500, 999] {
        assert_eq!(asked(&mut engine, now), [], "the rest waits for it");
    }
    assert_eq!(engine.next_forward_task(), Some(Timestamp(1_000)));
    assert_eq!(asked(&mut engine, 1_000), [ForwardTask::Ship { queue, again: true }]);
}

/// FWD-9: nothing got further: each try waits longer. Something did: it is soon tried again.
#[test]
fn fwd_9_refused_dead_letters_are_tried_again_ever_later() {
    let mut engine = Engine::new(EngineOptions::default());
    let line = line(SubQueue::DeadLetter);
    let (queue, mut now) = (line.queue, Timestamp(0));
    stands(&mut engine, line, 3, 0);
    let mut pauses = Vec::new();
    for (serial, carried) in (1..).zip([Carried::Nothing; 10].into_iter().chain([Carried::Some])) {
        assert_eq!(asked(&mut engine, now.0), [ForwardTask::Ship { queue, again: serial > 1 }]);
        shipped(&mut engine, line, serial, 0);
        assert_eq!(asked(&mut engine, now.0).len(), 1);
        engine.effect(Effect::Forward(ForwardEffect::Settled { line, serial }));
        stands(&mut engine, line, 0, 3);
        engine.carried(line, serial, carried, now);
        assert_eq!(asked(&mut engine, now.0), []);
        let next = engine.next_forward_task().expect("it is tried again");
        pauses.push(next.since(now));
        now = next;
    }
    let seconds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 1];
    assert_eq!(pauses, seconds.map(Span::from_secs));
}

/// Nothing of a queue comes again, so several shipments are under way at a time.
#[test]
fn fwd_5_shipments_of_a_queue_follow_one_another_without_waiting() {
    let mut engine = Engine::new(EngineOptions { shipments_max: 2, ..EngineOptions::default() });
    let line = line(SubQueue::Main);
    let ship = ForwardTask::Ship { queue: line.queue, again: false };
    let carry = |serial, follows| ForwardTask::Carry { line, serial, settled_to: 0, follows };
    stands(&mut engine, line, 9, 0);
    assert_eq!(asked(&mut engine, 0), [ship]);
    shipped(&mut engine, line, 1, 6);
    assert_eq!(asked(&mut engine, 0), [carry(1, 0), ship]);
    shipped(&mut engine, line, 2, 3);
    assert_eq!(asked(&mut engine, 0), [carry(2, 1)], "as many as may be");
}
