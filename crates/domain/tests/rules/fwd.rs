//! FWD, as clients see it. A queue is written as in `table`: `main | dead-letter`, messages by
//! number.

use domain::{
    Command, Disposition, EntityStatus, Idleness, Key, NewMessage, NewRule, Outcome, QueueId,
    QueueProperties, Row, SequenceNumber, Settle, Settlement, SubQueue, SubscriptionProperties,
    TopicProperties,
};

use crate::forwards::{dead_to, pair, to};
use crate::support::World;
use crate::table::{DAY, HOUR, MINUTE, SECOND, Sent, at, m, ms, queue, sessions, words};
use crate::topic::says;

#[test]
fn fwd_1_every_message_that_becomes_active_moves() {
    let mut world = pair();
    world.send("a", vec![m(), m().due(10), m()]);
    world.forward("a");
    assert_eq!((world.look("a"), world.look("b")), ("2S".into(), "1 2".into()));
    world.at(10).fire("a", domain::DeadlineKind::Scheduled);
    world.forward("a");
    assert_eq!((world.look("a"), world.look("b")), ("".into(), "1 2 3".into()));
    let with = QueueProperties { forward_to: Some("b".into()), ..sessions() };
    assert_eq!(domain::validate::queue_properties(&with).unwrap_err().name(), INVALID);
    let dead = QueueProperties { forward_dead_letters_to: Some("b".into()), ..sessions() };
    assert_eq!(domain::validate::queue_properties(&dead), Ok(()));
}

const INVALID: &str = "InvalidOperationException";

/// What lay there before moves as well: nobody could receive it (FWD-3).
#[test]
fn fwd_1_a_backlog_moves_once_a_destination_is_set() {
    let mut world = World::new(2);
    world.queue("b", queue());
    world.queue("a", queue());
    world.send("a", vec![m(), m(), m()]);
    assert_eq!(world.update("a", |p| p.forward_to = Some("B".into())), Outcome::Done);
    world.forward("a");
    assert_eq!((world.look("a"), world.look("b")), ("".into(), "1 2 3".into()));
}

/// At creation there is no such entity yet. An update is taken; the hops end what it makes.
#[test]
fn fwd_2_an_entity_forwards_to_itself_once_it_is_there() {
    for to_itself in [to("A"), dead_to("a")] {
        assert_eq!(domain::validate::new_forwarding("a", &to_itself).unwrap_err().name(), INVALID);
    }
    let mut world = World::new(1);
    world.queue("a", queue());
    let change = |p: &mut QueueProperties| {
        (p.forward_to, p.forward_dead_letters_to) = (Some("A".into()), Some("a".into()));
    };
    assert_eq!(world.update("a", change), Outcome::Done);
    world.send("a", vec![m()]);
    for _ in 0..9 {
        world.forward("a");
    }
    assert_eq!(world.look("a"), "| 5");
    assert_eq!(world.reason("a", 5), "MaxTransferHopCountExceeded");
}

#[test]
fn fwd_3_nothing_is_received_from_what_is_forwarded() {
    let mut world = pair();
    world.send("a", vec![m()]);
    assert_eq!(words(&world.take("a", SubQueue::Main)), INVALID);
    assert_eq!(words(&world.take("a", SubQueue::DeadLetter)), "got");
    assert_eq!(words(&world.send("b", vec![m()])), "sent 1");
    assert_eq!(words(&world.take("b", SubQueue::Main)), "got 1");
    world.update("a", |p| (p.forward_to, p.forward_dead_letters_to) = (None, Some("b".into())));
    assert_eq!(words(&world.take("a", SubQueue::Main)), "got 1");
    assert_eq!(words(&world.take("a", SubQueue::DeadLetter)), INVALID);
}

/// What was under a lock before may be settled, and follows if it comes back.
#[test]
fn fwd_3_a_lock_outlives_the_setting() {
    let mut world = World::new(2);
    world.queue("b", queue());
    world.queue("a", queue());
    world.send("a", vec![m(), m()]);
    let queue = world.main("a");
    let Outcome::Acquired { deliveries, .. } = world.take("a", SubQueue::Main) else { panic!() };
    world.update("a", |p| p.forward_to = Some("b".into()));
    world.send("a", vec![m()]);
    world.forward("a");
    let ends = [Disposition::Complete, Disposition::Release];
    let settlements = deliveries.iter().zip(ends).map(|(delivery, disposition)| Settlement {
        token: delivery.lock.expect("a lock").token,
        disposition,
    });
    let settle = Settle { origin: None, queue, settlements: settlements.collect(), atomic: true };
    assert_eq!(words(&world.apply("a", Command::Settle(settle))), "settled");
    world.forward("a");
    assert_eq!((world.look("a"), world.look("b")), ("".into(), "1 2".into()));
}

#[test]
fn fwd_5_fwd_6_a_message_arrives_in_order_as_if_sent() {
    let mut world = pair();
    world.send("b", vec![m()]);
    world.send("a", vec![m(), says("$MessageId=x;$SessionId=s").id("x").session("s")]);
    world.at(7).forward("a");
    let queue = world.main("b");
    let seen = world.peeked(queue, "b");
    let told: Vec<_> =
        seen.iter().map(|d| (d.sequence.0, d.enqueued_sequence.0, d.enqueued_at)).collect();
    assert_eq!(told, [(1, 1, at(0)), (2, 1, at(7)), (3, 2, at(7))]);
    assert!(seen.iter().all(|d| d.delivery_count == 0 && d.dead_letter_source.is_none()));
    assert_eq!((world.info("b").counts.accepted, world.info("a").counts.moved), (3, 2));
    assert_eq!(world.info("b").accessed_at, at(7), "IDLE-3: arrivals count as sends");
}

#[test]
fn seq_8_the_first_number_is_kept_through_all_hops() {
    let mut world = World::new(2);
    world.queue("c", queue());
    world.queue("b", to("c"));
    world.queue("a", to("b"));
    world.send("b", vec![m(), m()]);
    world.forward("b");
    world.send("a", vec![m()]);
    world.forward("a");
    world.forward("b");
    let queue = world.main("c");
    let told = world.peeked(queue, "c");
    let told: Vec<_> = told.iter().map(|d| (d.sequence.0, d.enqueued_sequence.0)).collect();
    assert_eq!(told, [(1, 1), (2, 2), (3, 1)]);
}

#[test]
fn ttl_28_the_clock_of_a_forwarded_message_starts_anew() {
    let mut world = World::new(2);
    world.queue("c", QueueProperties { default_ttl: ms(HOUR), ..queue() });
    world.queue("b", QueueProperties { default_ttl: ms(30 * MINUTE), ..to("c") });
    world.queue("a", to("b"));
    world.send("a", vec![m().ttl(MINUTE), m().ttl(DAY), m()]);
    world.at(10 * SECOND).forward("a");
    world.at(20 * SECOND).forward("b");
    let queue = world.main("c");
    let told: Vec<_> = world.peeked(queue, "c").iter().map(|d| (d.ttl, d.expires_at)).collect();
    let from = 20 * SECOND;
    let expected = [
        (Some(ms(MINUTE)), Some(at(from + MINUTE))),
        // Lowered at one hop, it stays lowered.
        (Some(ms(30 * MINUTE)), Some(at(from + 30 * MINUTE))),
        (None, None), // Derived, it stays derived (TTL-25).
    ];
    assert_eq!(told, expected);
}

/// Expiry does not stop while a message waits; on its way it is like one under a lock.
#[test]
fn ttl_28_what_waits_expires_and_what_is_away_does_not() {
    let mut world = pair();
    let (of, queue) = (world.id("a"), world.main("a"));
    world.send("a", vec![m().ttl(10), m().ttl(10)]);
    world.ship(of, queue, 1, false);
    let dropped = world.at(10).fire("a", domain::DeadlineKind::Fixed);
    assert_eq!((dropped.as_str(), world.look("a").as_str()), ("fired dropped 1", "1"));
    world.carry(of, queue);
    assert_eq!((world.look("a"), world.look("b")), ("".into(), "1".into()));
}

#[test]
fn dup_12_a_duplicate_is_removed_from_the_source_and_dropped() {
    let mut world = World::new(2);
    world.queue("b", QueueProperties { requires_duplicate_detection: true, ..queue() });
    world.queue("a", to("b"));
    let same = || says("$MessageId=x").id("x");
    world.send("a", vec![same(), same(), m()]);
    world.forward("a");
    assert_eq!((world.look("a"), world.look("b")), ("".into(), "1 2".into()));
    assert_eq!((world.info("a").counts.moved, world.info("b").counts.accepted), (3, 2));
}

#[test]
fn fwd_7_quota_27_a_fifth_hop_ends_in_the_dead_letter_queue() {
    let mut world = World::new(2);
    world.queue("z", queue());
    world.queue("f", queue());
    for (name, next) in [("e", "f"), ("d", "e"), ("c", "d"), ("b", "c"), ("a", "b")] {
        let properties = QueueProperties { forward_dead_letters_to: Some("z".into()), ..to(next) };
        world.queue(name, properties);
    }
    world.send("a", vec![m()]);
    for name in ["a", "b", "c", "d", "e"] {
        world.forward(name);
    }
    assert_eq!((world.look("e"), world.look("f")), ("| 1".into(), "".into()));
    assert_eq!(world.reason("e", 1), "MaxTransferHopCountExceeded");
    // It is not forwarded out of there either, and can be had once that is taken off.
    assert_eq!((world.look("z"), world.info("e").available_dead_letter), ("".into(), 0));
    let Outcome::Refused(refusal) = world.take("e", SubQueue::DeadLetter) else { panic!() };
    let told = refusal.to_string();
    assert!(!told.contains("receive them at the destination"), "{told}");
    assert!(told.contains("take ForwardDeadLetteredMessagesTo off"), "{told}");
    let (of, queue) = (world.id("e"), world.dead("e"));
    world.update("e", |p| p.forward_dead_letters_to = None);
    world.unpark(of, queue, 100);
    assert_eq!(words(&world.take("e", SubQueue::DeadLetter)), "got 1");
}

#[test]
fn fwd_7_topic_to_subscription_is_no_hop() {
    let mut world = World::new(2);
    world.queue("c", queue());
    world.topic("t", TopicProperties::default());
    let forwards = SubscriptionProperties {
        forward_to: Some("c".into()),
        ..SubscriptionProperties::default()
    };
    world.subscription("t", "s", forwards, NewRule::default());
    world.queue("a", to("t"));
    world.send("a", vec![m()]);
    world.forward("a");
    world.forward("t/s");
    let of = world.id("c");
    let row =
        world.group(of).rows.0.get(&Key::Message(QueueId::main(of.entity), SequenceNumber(1)));
    let Some(Row::Message(row)) = row.cloned() else { panic!("not in c") };
    assert_eq!(row.travel.expect("it travelled").hops, 2);
}

#[test]
fn fwd_8_what_the_destination_cannot_take_is_dead_lettered() {
    let mut world = pair();
    let disabled = |p: &mut QueueProperties| p.status = EntityStatus::SendDisabled;
    world.update("b", disabled);
    world.send("a", vec![m()]);
    world.forward("a");
    world.update("b", |p| p.status = EntityStatus::Active);
    world.send("a", vec![m().size(300 * 1024)]);
    world.update("a", |p| p.max_message_size_kilobytes = 1024);
    world.send("a", vec![m().size(300 * 1024)]);
    world.forward("a");
    world.delete("b");
    world.send("a", vec![m()]);
    world.forward("a");
    assert_eq!(world.look("a"), "| 1 2 3");
    let reasons: Vec<_> = (1..=3).map(|number| world.reason("a", number)).collect();
    let expected = [
        "MessagingEntityDisabledException",
        "MessageSizeExceededException",
        "MessagingEntityNotFoundException",
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn fwd_8_quota_32_a_full_destination_is_one_that_cannot_take_it() {
    let mut world = World::new(2);
    world.queue("b", QueueProperties { max_message_size_kilobytes: 1024, ..queue() });
    world.queue("a", to("b"));
    for _ in 0..1024 {
        world.send("b", vec![m().size(1024 * 1024)]);
    }
    world.send("a", vec![m()]);
    world.forward("a");
    assert_eq!(
        (world.look("a"), world.reason("a", 1)),
        ("| 1".into(), "QuotaExceededException".into())
    );
}

/// IDLE-17: deleted while a shipment is on its way.
#[test]
fn fwd_8_idle_17_a_destination_deleted_meanwhile() {
    let mut world = pair();
    let (of, queue) = (world.id("a"), world.main("a"));
    world.send("a", vec![m(), m()]);
    world.ship(of, queue, 1, false);
    let (there, arrive) = world.arrival(of, queue, 1).expect("a shipment");
    world.arrive(there, arrive);
    world.ship(of, queue, 1, false);
    world.delete("b");
    world.queue("b", crate::table::queue());
    world.carry(of, queue);
    // The first one went with the queue it had reached; the second never came.
    assert_eq!((world.look("a"), world.look("b")), ("| 2".into(), "".into()));
    assert_eq!(world.info("a").counts.moved, 1);
}

#[test]
fn fwd_9_dlq_12_dead_letters_are_forwarded_with_their_source() {
    let mut world = World::new(2);
    world.queue("b", queue());
    world.queue("a", dead_to("b"));
    world.send("a", vec![m(), m().ttl(MINUTE)]);
    world.kill("a");
    world.at(HOUR).forward("a");
    assert_eq!((world.look("a"), world.look("b")), ("".into(), "1 2".into()));
    let queue = world.main("b");
    let seen = world.peeked(queue, "b");
    assert_eq!(seen[0].dead_letter_source.as_deref(), Some("a"));
    // TTL-29.
    assert_eq!(seen[1].expires_at, Some(at(HOUR + MINUTE)));
}

#[test]
fn ttl_29_a_deadline_out_of_a_dead_letter_queue_is_reckoned_anew() {
    let mut world = World::new(2);
    world.queue("b", QueueProperties { default_ttl: ms(SECOND), ..queue() });
    world.queue("a", dead_to("b"));
    world.send("a", vec![m().ttl(MINUTE)]);
    world.kill("a");
    world.at(DAY).forward("a");
    let queue = world.main("b");
    let seen = world.peeked(queue, "b");
    assert_eq!((seen[0].ttl, seen[0].expires_at), (Some(ms(SECOND)), Some(at(DAY + SECOND))));
}

#[test]
fn fwd_9_dead_letters_that_are_refused_remain_and_are_tried_again() {
    let mut world = World::new(2);
    world.queue("b", QueueProperties { status: EntityStatus::Disabled, ..queue() });
    world.queue("a", dead_to("b"));
    let (of, queue) = (world.id("a"), world.dead("a"));
    world.send("a", vec![m(), m()]);
    world.kill("a");
    world.forward("a");
    assert_eq!((world.look("a"), world.info("a").counts.dead_lettered), ("| 1 2".into(), 2));
    assert_eq!(words(&world.take("a", SubQueue::DeadLetter)), INVALID);
    world.update("b", |p| p.status = EntityStatus::Active);
    world.ship(of, queue, 10, true);
    world.carry(of, queue);
    assert_eq!((world.look("a"), world.look("b")), ("".into(), "1 2".into()));
}

/// One that is refused holds those behind it, in its shipment and after it.
#[test]
fn fwd_5_fwd_9_no_dead_letter_overtakes_one_that_is_refused() {
    let mut world = World::new(2);
    world.queue("b", queue());
    world.queue("a", QueueProperties { max_message_size_kilobytes: 1024, ..dead_to("b") });
    let (of, queue) = (world.id("a"), world.dead("a"));
    world.send("a", vec![m(), m().size(300 * 1024), m()]);
    world.kill("a");
    world.forward("a");
    assert_eq!((world.look("a"), world.look("b")), ("| 2 3".into(), "1".into()));
    world.send("a", vec![m()]);
    world.kill("a");
    world.ship(of, queue, 10, false);
    assert_eq!(world.shipments(of, queue), [], "what was refused goes first");
    for again in [true, true] {
        world.ship(of, queue, 10, again);
        world.carry(of, queue);
    }
    assert_eq!((world.look("a"), world.look("b")), ("| 2 3 4".into(), "1".into()));
    world.update("b", |p| p.max_message_size_kilobytes = 1024);
    world.ship(of, queue, 10, true);
    world.carry(of, queue);
    world.forward("a");
    assert_eq!(world.look("a"), "");
    let there = world.main("b");
    let told: Vec<_> =
        world.peeked(there, "b").iter().map(|d| (d.sequence.0, d.enqueued_sequence.0)).collect();
    assert_eq!(told, [(1, 1), (2, 2), (3, 3), (4, 4)]);
}

/// What came before a refusal is not known of the next shipment until the first is settled.
#[test]
fn fwd_5_dead_letters_have_one_shipment_under_way() {
    let mut world = World::new(2);
    world.queue("b", QueueProperties { status: EntityStatus::Disabled, ..queue() });
    world.queue("a", dead_to("b"));
    let (of, queue) = (world.id("a"), world.dead("a"));
    world.send("a", vec![m(), m()]);
    world.kill("a");
    for again in [false, false, true] {
        world.ship(of, queue, 1, again);
    }
    assert_eq!(world.shipments(of, queue), [1]);
    let (there, first) = world.arrival(of, queue, 1).expect("a shipment");
    let refused = world.arrive(there, first);
    world.update("b", |p| p.status = EntityStatus::Active);
    world.settle(of, queue, 1, refused);
    world.ship(of, queue, 1, false);
    assert_eq!(world.shipments(of, queue), []);
    world.ship(of, queue, 1, true);
    world.carry(of, queue);
    world.forward("a");
    let there = world.main("b");
    let told: Vec<_> = world.peeked(there, "b").iter().map(|d| d.enqueued_sequence.0).collect();
    assert_eq!(told, [1, 2]);
}

#[test]
fn fwd_10_a_message_without_a_session_goes_to_the_dead_letter_queue() {
    let mut world = World::new(2);
    world.queue("b", sessions());
    world.queue("a", to("b"));
    world.send("a", vec![m(), says("$SessionId=s").session("s"), m()]);
    world.forward("a");
    assert_eq!((world.look("a"), world.look("b")), ("| 1 3".into(), "1".into()));
    assert_eq!(world.reason("a", 1), "Session ID is null.");
}

#[test]
fn fwd_11_idle_3_what_forwards_is_never_idle() {
    let mut world = World::new(2);
    world.queue("b", queue());
    let idle = QueueProperties { auto_delete_on_idle: ms(HOUR), ..queue() };
    world.queue("a", QueueProperties { forward_to: Some("b".into()), ..idle.clone() });
    world.queue("c", idle);
    world.update("c", |p| p.forward_dead_letters_to = Some("b".into()));
    world.at(0);
    for name in ["a", "c"] {
        // It reads back as it was set.
        assert_eq!(world.info(name).properties.auto_delete_on_idle, ms(HOUR));
        assert_eq!(world.info(name).idleness, Idleness::Never);
        // What forwards no more is idle from then on.
        world.update(name, |p| (p.forward_to, p.forward_dead_letters_to) = (None, None));
        let (since, due) = (at(0), at(HOUR));
        assert_eq!(world.info(name).idleness, Idleness::Since { since, due }, "{name}");
    }
}

#[test]
fn fwd_12_what_waits_to_be_moved_counts_as_transfer() {
    let mut world = pair();
    let (of, queue) = (world.id("a"), world.main("a"));
    world.send("a", vec![m(), m(), m()]);
    world.ship(of, queue, 1, false);
    let counts = world.info("a").counts;
    assert_eq!((counts.transfer, counts.active, counts.total()), (3, 0, 3));
    assert!(counts.balanced());
    world.carry(of, queue);
    let counts = world.info("a").counts;
    assert_eq!((counts.transfer, counts.moved), (2, 1));
    world.update("a", |p| p.forward_to = None);
    let counts = world.info("a").counts;
    assert_eq!((counts.transfer, counts.active), (0, 2));
    assert!(counts.balanced());
}

#[test]
fn fwd_13_state_3_a_suspended_source_does_not_forward() {
    for status in [EntityStatus::Disabled, EntityStatus::ReceiveDisabled] {
        let mut world = pair();
        let (of, queue) = (world.id("a"), world.main("a"));
        world.send("a", vec![m()]);
        world.update("a", |p| p.status = status);
        world.ship(of, queue, 10, false);
        assert_eq!(world.shipments(of, queue), []);
        world.update("a", |p| p.status = EntityStatus::SendDisabled);
        world.forward("a");
        assert_eq!((world.look("a"), world.look("b")), ("".into(), "1".into()));
    }
}

#[test]
fn fwd_15_without_a_destination_the_rest_is_active() {
    let mut world = pair();
    let (of, queue) = (world.id("a"), world.main("a"));
    world.send("a", vec![m(), m(), m()]);
    world.ship(of, queue, 1, false);
    world.update("a", |p| p.forward_to = None);
    world.carry(of, queue);
    assert_eq!((world.look("a"), world.look("b")), ("2 3".into(), "1".into()));
    assert_eq!(words(&world.take("a", SubQueue::Main)), "got 2 3");
}

#[test]
fn fwd_15_what_was_refused_can_be_had_again() {
    let mut world = World::new(2);
    world.queue("b", QueueProperties { status: EntityStatus::Disabled, ..queue() });
    world.queue("a", dead_to("b"));
    let (of, queue) = (world.id("a"), world.dead("a"));
    world.send("a", vec![m(), m(), m()]);
    world.kill("a");
    world.forward_by("a", 1);
    world.unpark(of, queue, 100);
    world.update("a", |p| p.forward_dead_letters_to = None);
    world.unpark(of, queue, 2);
    assert_eq!(words(&world.take("a", SubQueue::DeadLetter)), "got 1 2 3");
}

/// Each message by itself: the refusal of one is not that of another.
#[test]
fn rule_9_a_topic_that_nobody_takes_it_from_refuses_it() {
    let mut world = World::new(2);
    world.topic("t", TopicProperties { filter_before_publishing: true, ..Default::default() });
    let red = crate::topic::rule("red", "colour = 'red'");
    world.subscription("t", "s", SubscriptionProperties::default(), red);
    world.queue("a", to("t"));
    let messages: Vec<NewMessage> = vec![says("colour=red"), says("colour=blue")];
    world.send("a", messages);
    world.forward("a");
    assert_eq!((world.look("t/s"), world.look("a")), ("1".into(), "| 2".into()));
    assert_eq!(world.reason("a", 2), "NoMatchingSubscriptionException");
}

/// What requires sessions and forwards keeps none.
#[test]
fn fwd_1_a_partitioned_queue_may_require_sessions_and_forward() {
    let both = |enable_partitioning| QueueProperties {
        forward_to: Some("b".into()),
        enable_partitioning,
        ..sessions()
    };
    assert_eq!(domain::validate::queue_properties(&both(true)), Ok(()));
    assert_eq!(domain::validate::queue_properties(&both(false)).unwrap_err().name(), INVALID);
    let mut world = World::new(2);
    world.queue("b", sessions());
    world.queue("a", both(true));
    assert_eq!(words(&world.send("a", vec![m()])), INVALID, "SEND-4");
    world.send(
        "a",
        vec![says("$SessionId=s").session("s"), says("$SessionId=s").session("s").due(10)],
    );
    world.forward("a");
    assert_eq!((world.look("a"), world.look("b")), ("2S".into(), "1".into()));
    world.at(10).fire("a", domain::DeadlineKind::Scheduled);
    world.forward("a");
    assert_eq!((world.look("a"), world.look("b")), ("".into(), "1 2".into()));
    assert_eq!(world.info("b").counts.active, 2);
    // It is one or the other from the beginning.
    assert_eq!(words(&world.update("a", |p| p.forward_to = None)), INVALID);
    assert_eq!(words(&world.update("b", |p| p.forward_to = Some("a".into()))), INVALID);
    assert_eq!(world.update("a", |p| p.max_delivery_count = 3), Outcome::Done);
}
