//! FWD-14, DLQ-16, TX-5, TX-6: what is sent to one entity via another.

use domain::{
    Command, Commit, Delivery, Disposition, EntityStatus, NewMessage, NewRule, Operation, Outcome,
    QueueId, QueueProperties, Refusal, SendVia, SequenceNumber, Settle, Settlement, SubQueue,
    TRANSFERS_MAX,
};

use crate::forwards::to;
use crate::support::World;
use crate::table::*;
use crate::topic::{says, subscription, topic};

const KILOBYTE: u32 = 1024;

/// `v` on one group, `d` and `e` on another.
fn world() -> World {
    let mut world = World::new(2);
    world.queue("d", queue());
    world.queue("v", queue());
    world.queue("e", queue());
    world
}

impl World {
    fn via(&self, via: &str, to: &str, messages: Vec<NewMessage>) -> Operation {
        let (via, destination) = (self.id(via).entity, self.id(to));
        Operation::SendVia(SendVia { via, destination, messages })
    }

    fn commit(&mut self, name: &str, operations: Vec<Operation>) -> String {
        let entity = self.id(name).entity;
        let commit = Commit { origin: None, entity, operations };
        words(&self.apply(name, Command::Commit(commit)))
    }

    pub fn send_via(&mut self, via: &str, to: &str, messages: Vec<NewMessage>) -> String {
        let operation = self.via(via, to, messages);
        self.commit(via, vec![operation])
    }

    fn transfers(&self, name: &str) -> QueueId {
        QueueId::transfer(self.id(name).entity)
    }

    /// Brings to their destinations what is on its way out of an entity.
    pub fn transfer(&mut self, name: &str) {
        let (of, queue) = (self.id(name), self.transfers(name));
        self.carry(of, queue);
    }

    fn failed(&mut self, name: &str) -> Vec<Delivery> {
        let queue = QueueId::transfer_dead_letter(self.id(name).entity);
        self.peeked(queue, name)
    }

    /// Numbers in the transfer dead-letter queue, and why they are there.
    fn failures(&mut self, name: &str) -> Vec<(u64, String)> {
        let reason = |delivery: Delivery| {
            let overlay = delivery.overlay.expect("a reason");
            match overlay.set.get(domain::DEAD_LETTER_REASON) {
                Some(domain::Value::String(reason)) => (delivery.sequence.0, reason.clone()),
                other => panic!("no reason: {other:?}"),
            }
        };
        self.failed(name).into_iter().map(reason).collect()
    }

    /// Messages on their way, those that failed, and those that arrived.
    fn tally(&mut self, name: &str) -> (u64, u64, u64) {
        let counts = self.info(name).counts;
        assert!(counts.balanced(), "{counts:?}");
        (counts.transfer, counts.transfer_dead_lettered, counts.moved)
    }

    fn settle_failed(&mut self, name: &str, disposition: Disposition) -> Outcome {
        let queue = QueueId::transfer_dead_letter(self.id(name).entity);
        let Outcome::Acquired { deliveries, .. } = self.take(name, SubQueue::TransferDeadLetter)
        else {
            panic!("nothing to take")
        };
        let settlement = |delivery: &Delivery| Settlement {
            token: delivery.lock.expect("a lock").token,
            disposition: disposition.clone(),
        };
        let settlements = deliveries.iter().map(settlement).collect();
        let settle = Settle { origin: None, queue, settlements, atomic: true };
        self.apply(name, Command::Settle(settle))
    }
}

#[test]
fn fwd_14_what_is_sent_via_an_entity_is_never_seen_there_and_arrives_once() {
    let mut world = world();
    assert_eq!(world.send_via("v", "d", vec![m(), m()]), "committed 1 2");
    assert_eq!(world.tally("v"), (2, 0, 0));
    assert_eq!(words(&world.take("v", SubQueue::Main)), "got");
    let main = world.main("v");
    assert!(world.peeked(main, "v").is_empty());
    for (sub, name) in
        [(SubQueue::Transfer, "MessagingEntityNotFound"), (SubQueue::TransferDeadLetter, "got")]
    {
        assert_eq!(words(&world.take("v", sub)), name);
    }
    world.transfer("v");
    assert_eq!((world.look("d"), world.tally("v")), ("1 2".into(), (0, 0, 2)));
    assert_eq!(world.info("v").size_bytes, 0);
    // Nothing is there that could be brought again.
    world.transfer("v");
    assert_eq!(world.look("d"), "1 2");
}

#[test]
fn fwd_14_seq_8_ttl_28_it_keeps_its_number_its_schedule_and_its_time_to_live() {
    let mut world = World::new(2);
    world.queue("d", queue());
    world.queue("v", QueueProperties { default_ttl: ms(SECOND), ..queue() });
    world.send("v", vec![m()]);
    world.send_via("v", "d", vec![m().ttl(HOUR), m().due(DAY), m()]);
    // Its time begins where it arrives, and the default on the way is no limit.
    world.at(MINUTE).transfer("v");
    let main = world.main("d");
    let seen = world.peeked(main, "d");
    let of = |delivery: &Delivery| (delivery.sequence.0, delivery.enqueued_sequence.0);
    assert_eq!(seen.iter().map(of).collect::<Vec<_>>(), [(1, 2), (2, 3), (3, 4)]);
    assert_eq!(seen[0].expires_at, Some(at(MINUTE + HOUR)));
    assert_eq!((seen[1].scheduled_at, seen[2].ttl), (Some(at(DAY)), None));
    assert_eq!(world.look("d"), "1 3 2S");
}

/// Each destination has its own order, and none waits for another.
#[test]
fn fwd_14_fwd_5_a_destination_gets_what_is_its_own_in_order() {
    let mut world = world();
    for (to, count) in [("d", 1), ("e", 2), ("d", 2), ("e", 1)] {
        world.send_via("v", to, vec![m(); count]);
    }
    let (of, queue) = (world.id("v"), world.transfers("v"));
    // The second for `d` waits for the first, that for `e` does not.
    let (to, first) = world.arrival(of, queue, 1).expect("the first");
    let (_, third) = world.arrival(of, queue, 3).expect("the third");
    assert_eq!((third.settled_to, third.follows), (0, 1));
    assert!(matches!(
        world.arrive(to, third.clone()),
        Outcome::Refused(Refusal::SerialGap { expected: 1 })
    ));
    let (e, second) = world.arrival(of, queue, 2).expect("the second");
    assert_eq!((second.settled_to, second.follows), (1, 0));
    let arrived = |done| Outcome::Arrived { done, refused: vec![] };
    assert_eq!(world.arrive(e, second), arrived(2));
    assert_eq!(world.arrive(to, first.clone()), arrived(1));
    assert_eq!(world.arrive(to, third), arrived(2));
    // Late and again.
    assert_eq!(world.arrive(to, first), arrived(1));
    world.transfer("v");
    assert_eq!((world.look("d"), world.look("e")), ("1 2 3".into(), "1 2 3".into()));
    assert_eq!(world.tally("v"), (0, 0, 6));
}

#[test]
fn dlq_16_fwd_14_what_is_refused_goes_to_the_transfer_dead_letter_queue() {
    let mut world = world();
    let small = QueueProperties { max_message_size_kilobytes: 1, ..queue() };
    world.queue("small", small);
    world.queue("sessions", sessions());
    world.queue("gone", queue());
    world.send_via("v", "d", vec![m()]);
    world.send_via("v", "small", vec![m(), m().size(2 * KILOBYTE), m()]);
    world.send_via("v", "sessions", vec![m(), says("$SessionId=a").session("a")]);
    world.send_via("v", "gone", vec![m()]);
    world.update("d", |p| p.status = EntityStatus::Disabled);
    world.delete("gone");
    world.transfer("v");
    let because = |number: u64, reason: &str| (number, reason.to_owned());
    let failures = vec![
        because(1, "MessagingEntityDisabledException"),
        because(3, "MessageSizeExceededException"),
        because(5, "Session ID is null."),
        because(7, "MessagingEntityNotFoundException"),
    ];
    assert_eq!(world.failures("v"), failures);
    assert_eq!((world.look("v"), world.look("small")), ("".into(), "1 2".into()));
    assert_eq!(world.tally("v"), (0, 4, 3));
    assert_eq!(world.info("v").available_transfer_dead_letter, 4);
}

/// Full is no reason: it waits, and what comes after it as well.
#[test]
fn fwd_14_a_full_destination_is_waited_for() {
    let mut world = World::new(2);
    world.queue("d", QueueProperties { max_message_size_kilobytes: 1024, ..queue() });
    world.queue("v", queue());
    world.queue("e", queue());
    for _ in 0..1023 {
        world.send("d", vec![m().size(1024 * KILOBYTE)]);
    }
    world.send("d", vec![m().size(1024 * KILOBYTE - 10)]);
    world.send_via("v", "d", vec![m(), m(), m()]);
    world.send_via("v", "e", vec![m()]);
    world.send_via("v", "d", vec![m()]);
    let full = world.info("d").counts.accepted;
    world.transfer("v");
    // One found room; the others wait for it, whatever is brought elsewhere.
    assert_eq!((world.info("d").counts.accepted, world.tally("v")), (full + 1, (4, 0, 1)));
    assert_eq!(world.look("e"), "1");
    world.transfer("v");
    assert_eq!((world.info("d").counts.accepted, world.tally("v")), (full + 1, (4, 0, 1)));
    world.apply(
        "d",
        Command::DeleteBatch(domain::DeleteBatch {
            origin: None,
            queue: QueueId::main(world.id("d").entity),
            count_max: 2,
            before: Some(at(1)),
        }),
    );
    world.transfer("v");
    assert_eq!((world.info("d").counts.accepted, world.tally("v")), (full + 4, (0, 0, 5)));
}

#[test]
fn dlq_16_the_transfer_dead_letter_queue_is_one_like_any() {
    let mut world = world();
    world.send("v", vec![m()]);
    world.kill("v");
    world.update("d", |p| p.status = EntityStatus::SendDisabled);
    world.send_via("v", "d", vec![m(), m().ttl(10)]);
    world.transfer("v");
    // Neither is the other's.
    assert_eq!(world.look("v"), "| 1");
    assert_eq!(world.failed("v").len(), 2);
    // DLQ-4: not to be dead-lettered again, nothing expires, deliveries have no limit.
    let again = world.at(HOUR).settle_failed("v", dead_letter());
    assert_eq!(words(&again), "InvalidOperationException");
    for round in 0..12 {
        world.at(HOUR + (round + 1) * 2 * MINUTE);
        let entity = world.id("v").entity;
        let sub = SubQueue::TransferDeadLetter;
        let lapsed = lapsed(&mut world, "v", QueueId { entity, sub });
        world.apply("v", lapsed);
        assert_eq!(words(&world.settle_failed("v", abandon())), "settled", "round {round}");
    }
    assert_eq!(world.failed("v").len(), 2);
    assert_eq!(words(&world.settle_failed("v", defer())), "settled");
    assert_eq!(world.info("v").available_transfer_dead_letter, 0);
    let deferred = domain::ReceiveDeferred {
        origin: None,
        queue: QueueId::transfer_dead_letter(world.id("v").entity),
        receiver: RECEIVER,
        numbers: [2, 3].map(SequenceNumber).to_vec(),
    };
    let Outcome::Acquired { deliveries, .. } = world.apply("v", Command::ReceiveDeferred(deferred))
    else {
        panic!("not deferred")
    };
    let queue = QueueId::transfer_dead_letter(world.id("v").entity);
    let complete = |delivery: &Delivery| Settlement {
        token: delivery.lock.expect("a lock").token,
        disposition: Disposition::Complete,
    };
    let settlements = deliveries.iter().map(complete).collect();
    let settle = Settle { origin: None, queue, settlements, atomic: true };
    assert_eq!(words(&world.apply("v", Command::Settle(settle))), "settled");
    assert_eq!((world.tally("v"), world.info("v").counts.completed), ((0, 0, 0), 2));
}

/// What a leader fires for locks that have lapsed.
fn lapsed(world: &mut World, name: &str, queue: QueueId) -> Command {
    let of = world.id(name);
    let lock = |(key, row): (&domain::Key, &domain::Row)| match (key, row) {
        (domain::Key::Lock(found, sequence), domain::Row::Lock(lock)) if *found == queue => {
            let token = domain::LockToken { sequence: *sequence, nonce: lock.nonce };
            Some((queue, token))
        }
        _ => None,
    };
    let locks = world.group(of).rows.0.iter().filter_map(lock).collect();
    Command::FireLocks(domain::FireLocks { locks })
}

/// DUP-12, FWD-6: what the destination checks is its own affair, not that of the entity between.
#[test]
fn fwd_14_dup_12_duplicates_are_those_of_the_destination() {
    let mut world = World::new(2);
    let exact = QueueProperties { requires_duplicate_detection: true, ..queue() };
    world.queue("d", exact.clone());
    world.queue("v", exact);
    let same = || says("$MessageId=x").id("x");
    world.send("v", vec![same()]);
    assert_eq!(world.send_via("v", "d", vec![same(), same()]), "committed 2 3");
    world.transfer("v");
    assert_eq!((world.look("v"), world.look("d")), ("1".into(), "1".into()));
    // COUNT-5: moved away, and not accepted.
    assert_eq!((world.tally("v"), world.info("d").counts.accepted), ((0, 0, 2), 1));
}

/// FWD-7: only what users configured counts.
#[test]
fn fwd_14_fwd_7_a_transfer_is_no_hop() {
    let mut world = World::new(2);
    world.queue("z", queue());
    for (name, next) in [("d", "z"), ("c", "d"), ("b", "c"), ("a", "b")] {
        world.queue(name, to(next));
    }
    world.queue("v", queue());
    world.send_via("v", "a", vec![m()]);
    world.transfer("v");
    for name in ["a", "b", "c", "d"] {
        world.forward(name);
    }
    assert_eq!(world.look("z"), "1");
}

/// SEND-1, of the entity between.
#[test]
fn fwd_14_the_entity_between_refuses_like_one_that_is_sent_to() {
    let mut world = world();
    let refused = |world: &mut World, messages| world.send_via("v", "d", messages);
    assert_eq!(refused(&mut world, vec![]), "rolled back by 0: ArgumentOutOfRangeException");
    let large = vec![m().size(300 * KILOBYTE)];
    assert_eq!(refused(&mut world, large), "rolled back by 0: MessageSizeExceeded");
    world.update("v", |p| p.status = EntityStatus::SendDisabled);
    assert_eq!(refused(&mut world, vec![m()]), "rolled back by 0: MessagingEntityDisabled");
    world.update("v", |p| p.status = EntityStatus::Active);
    // What waits is bounded, because a leader remembers it.
    let batch = world.via("v", "d", vec![m(); 100]);
    let of = world.id("v");
    let one = |_| {
        let operations = vec![batch.clone()];
        Command::Commit(Commit { origin: None, entity: of.entity, operations })
    };
    let group = world.group(of);
    let entry = group.entry((0..TRANSFERS_MAX.div_ceil(100)).map(one).collect());
    let outcomes = group.step(vec![entry]).remove(0);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Committed { .. })));
    assert_eq!(refused(&mut world, vec![m()]), "rolled back by 0: QuotaExceeded");
}

/// ENT-7: with the entity goes what was on its way, unless it arrived.
#[test]
fn fwd_14_ent_7_deleting_the_entity_between_deletes_what_is_on_its_way() {
    let mut world = world();
    world.send_via("v", "d", vec![m()]);
    let (of, queue) = (world.id("v"), world.transfers("v"));
    let (to, arrive) = world.arrival(of, queue, 1).expect("on its way");
    world.delete("v");
    while let Outcome::Fired(fired) = world.group(of).apply(Command::Sweep) {
        if !fired.more {
            break;
        }
    }
    let left = world.group(of).rows.0.keys().filter(|key| {
        matches!(key, domain::Key::Message(..) | domain::Key::Body(..) | domain::Key::Shipment(..))
    });
    assert_eq!(left.count(), 0);
    assert_eq!(world.arrive(to, arrive), Outcome::Arrived { done: 1, refused: vec![] });
    assert_eq!(world.look("d"), "1");
}

#[test]
fn tx_5_a_transaction_settles_here_and_sends_there() {
    let mut world = world();
    world.send("v", vec![m()]);
    let Outcome::Acquired { deliveries, .. } = world.take("v", SubQueue::Main) else {
        panic!("nothing to take")
    };
    let token = deliveries[0].lock.expect("a lock").token;
    let settle = |queue, token| {
        let settlements = vec![Settlement { token, disposition: Disposition::Complete }];
        Operation::Settle(Settle { origin: None, queue, settlements, atomic: true })
    };
    let (of, main) = (world.id("v"), world.main("v"));
    let before = world.group(of).rows.clone();
    let lost = domain::LockToken { nonce: token.nonce ^ 1, ..token };
    // TX-2: none of it.
    let sends = [world.via("v", "d", vec![m()]), world.via("v", "e", vec![m()])];
    let spoiled = [&sends[..], &[settle(main, lost)]].concat();
    assert_eq!(world.commit("v", spoiled), "rolled back by 2: MessageLockLost");
    assert_eq!(world.group(of).rows, before);
    let good = [&[settle(main, token)], &sends[..]].concat();
    assert_eq!(world.commit("v", good), "committed done 2 3");
    world.transfer("v");
    assert_eq!(
        (world.look("v"), world.look("d"), world.look("e")),
        ("".into(), "1".into(), "1".into())
    );
    // Later entities are sent to, never received from; and only via the first.
    let elsewhere = settle(world.main("e"), token);
    let said = world.commit("v", vec![elsewhere]);
    assert!(said.starts_with("rolled back by 0: "), "{said}");
    let through_another = world.via("d", "e", vec![m()]);
    let said = world.commit("v", vec![through_another]);
    assert!(said.starts_with("rolled back by 0: "), "{said}");
}

#[test]
fn tx_6_what_is_received_from_a_subscription_goes_elsewhere_via_its_topic() {
    let mut world = World::new(2);
    world.queue("d", queue());
    world.topic("t", topic());
    world.subscription("t", "s", subscription(), NewRule::default());
    world.send("t", vec![m()]);
    let Outcome::Acquired { deliveries, .. } = world.take("t/s", SubQueue::Main) else {
        panic!("nothing to take")
    };
    let token = deliveries[0].lock.expect("a lock").token;
    let settlements = vec![Settlement { token, disposition: Disposition::Complete }];
    let settle = Settle { origin: None, queue: world.main("t/s"), settlements, atomic: true };
    let sent = world.via("t", "d", vec![m(), m().size(200)]);
    assert_eq!(world.commit("t", vec![Operation::Settle(settle), sent]), "committed done 2 3");
    assert_eq!((world.tally("t"), world.info("t").size_bytes), ((2, 0, 0), 210));
    world.transfer("t");
    assert_eq!((world.look("d"), world.look("t/s")), ("1 2".into(), "".into()));
    assert_eq!((world.tally("t"), world.info("t").size_bytes), ((0, 0, 2), 0));
    // ENT-9: the topic has no dead-letter queue, but one for what it could not transfer.
    world.update("d", |p| p.status = EntityStatus::Disabled);
    world.send_via("t", "d", vec![m()]);
    world.transfer("t");
    assert_eq!(world.failures("t"), [(4, "MessagingEntityDisabledException".to_owned())]);
    assert_eq!(words(&world.settle_failed("t", Disposition::Complete)), "settled");
    assert_eq!(world.info("t").size_bytes, 0);
    // SEND-7: through a subscription goes nothing.
    let through = world.via("t/s", "d", vec![m()]);
    let said = world.commit("t", vec![through]);
    assert_eq!(said, "rolled back by 0: InvalidOperationException");
}
