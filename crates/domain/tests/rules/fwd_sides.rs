//! FWD-4: both sides of a move, where steps are lost, repeated, late or out of turn.

use domain::{
    Arrive, Command, ForgetArrivals, ForwardCommand, Key, NewRule, Outcome, QueueProperties,
    Refusal, SHIPMENT_MESSAGES_MAX, Shipped, SubscriptionProperties, TopicProperties,
};

use crate::forwards::{pair, to};
use crate::support::World;
use crate::table::{HOUR, Sent, m, queue, words};

fn shipped(world: &mut World, count: u32) {
    let (of, queue) = (world.id("a"), world.main("a"));
    world.ship(of, queue, count, false);
}

fn arrival(world: &mut World, serial: u64) -> Arrive {
    let (of, queue) = (world.id("a"), world.main("a"));
    world.arrival(of, queue, serial).expect("a shipment").1
}

fn arrives(world: &mut World, arrive: Arrive) -> String {
    let there = world.id("b");
    words(&world.arrive(there, arrive))
}

#[test]
fn fwd_4_a_shipment_arrives_once_however_often_it_is_brought() {
    let mut world = pair();
    world.send("a", vec![m(), m(), m()]);
    shipped(&mut world, 2);
    let first = arrival(&mut world, 1);
    for _ in 0..3 {
        assert_eq!(arrives(&mut world, first.clone()), "arrived 2");
    }
    assert_eq!((world.look("a"), world.look("b")), ("1 2 3".into(), "1 2".into()));
    let (of, queue) = (world.id("a"), world.main("a"));
    world.carry(of, queue);
    shipped(&mut world, 2);
    let second = arrival(&mut world, 2);
    assert_eq!(arrives(&mut world, second), "arrived 1");
    // Settled long ago, one of the first comes late.
    assert_eq!(arrives(&mut world, first), "arrived 2");
    assert_eq!((world.look("a"), world.look("b")), ("3".into(), "1 2 3".into()));
}

#[test]
fn fwd_4_a_refusal_is_remembered_like_an_acceptance() {
    let mut world = pair();
    world.send("a", vec![m()]);
    shipped(&mut world, 1);
    world.update("b", |p| p.status = domain::EntityStatus::Disabled);
    let arrive = arrival(&mut world, 1);
    let answer = "arrived 1 not 0+1 MessagingEntityDisabledException";
    assert_eq!(arrives(&mut world, arrive.clone()), answer);
    world.update("b", |p| p.status = domain::EntityStatus::Active);
    assert_eq!(arrives(&mut world, arrive), answer);
    assert_eq!(world.look("b"), "");
}

#[test]
fn fwd_5_shipments_are_taken_in_their_order_alone() {
    let mut world = pair();
    world.send("a", vec![m(), m(), m()]);
    (0..3).for_each(|_| shipped(&mut world, 1));
    let all: Vec<Arrive> = (1..=3).map(|serial| arrival(&mut world, serial)).collect();
    assert_eq!(arrives(&mut world, all[1].clone()), "SerialGap");
    for serial in [0, 1, 0, 2] {
        assert_eq!(arrives(&mut world, all[serial].clone()), "arrived 1");
    }
    assert_eq!(world.look("b"), "1 2 3");
}

#[test]
fn fwd_4_what_came_of_a_shipment_is_settled_once() {
    let mut world = pair();
    world.send("a", vec![m(), m()]);
    shipped(&mut world, 1);
    let queue = world.main("a");
    let settled = Shipped { queue, serial: 1, refused: Vec::new() };
    for _ in 0..2 {
        let command = Command::Forward(ForwardCommand::Shipped(settled.clone()));
        assert_eq!(words(&world.apply("a", command)), "done");
    }
    assert_eq!((world.look("a"), world.info("a").counts.moved), ("2".into(), 1));
}

/// Serials go on where the destination changes: what is on its way to the former gets there first.
#[test]
fn fwd_5_a_new_destination_waits_for_what_is_under_way() {
    let mut world = pair();
    world.queue("c", queue());
    let (of, source) = (world.id("a"), world.main("a"));
    world.send("a", vec![m(), m(), m()]);
    shipped(&mut world, 1);
    world.update("a", |p| p.forward_to = Some("c".into()));
    shipped(&mut world, 1);
    let (there, second) = world.arrival(of, source, 2).expect("a shipment");
    assert_eq!(words(&world.arrive(there, second)), "SerialGap");
    world.carry(of, source);
    world.update("a", |p| p.forward_to = Some("b".into()));
    shipped(&mut world, 1);
    world.carry(of, source);
    assert_eq!((world.look("b"), world.look("c")), ("1 2".into(), "1".into()));
}

#[test]
fn fwd_4_a_shipment_and_an_arrival_are_bounded() {
    let mut world = World::new(2);
    world.topic("b", TopicProperties::default());
    for name in ["1", "2", "3", "4", "5", "6", "7", "8", "9"] {
        world.subscription("b", name, SubscriptionProperties::default(), NewRule::default());
    }
    world.queue("a", to("b"));
    world.send("a", vec![m(); 600]);
    shipped(&mut world, u32::MAX);
    let arrive = arrival(&mut world, 1);
    assert_eq!(arrive.count, SHIPMENT_MESSAGES_MAX);
    let there = world.id("b");
    let mut before = 0;
    while before < arrive.count {
        let rest = Arrive {
            skipped: before,
            messages: arrive.messages[before as usize..].to_vec(),
            ..arrive.clone()
        };
        let Outcome::Arrived { done, .. } = world.arrive(there, rest) else { panic!("not taken") };
        assert!(done > before && done - before < 400, "{done} after {before}");
        before = done;
    }
    assert_eq!(world.info("b/9").counts.active, u64::from(SHIPMENT_MESSAGES_MAX));
}

#[test]
fn fwd_4_what_is_known_of_a_source_is_forgotten_late() {
    let mut world = pair();
    world.send("a", vec![m()]);
    world.forward("a");
    let (source, destination) = (world.main("a"), world.id("b").entity);
    let forget = ForwardCommand::ForgetArrivals(ForgetArrivals { source, destination });
    let known = |world: &mut World| {
        let there = world.id("b");
        world.group(there).rows.0.contains_key(&Key::Arrival(source, destination))
    };
    world.at(HOUR - 1).apply("b", Command::Forward(forget.clone()));
    assert!(known(&mut world));
    world.at(HOUR).apply("b", Command::Forward(forget));
    assert!(!known(&mut world));
}

/// ENT-7: a source deleted takes along what is on its way, and what was refused; a destination leaves
/// what it knew.
#[test]
fn ent_7_a_deleted_source_leaves_nothing_and_settles_nothing() {
    for under_way in [false, true] {
        let mut world = World::new(2);
        world.queue("b", QueueProperties { status: domain::EntityStatus::Disabled, ..queue() });
        world.queue("a", crate::forwards::dead_to("b"));
        world.send("a", vec![m(), m()]);
        world.kill("a");
        world.forward_by("a", 1);
        let (of, queue) = (world.id("a"), world.dead("a"));
        if under_way {
            world.ship(of, queue, 1, true);
        }
        let arrival = world.arrival(of, queue, 2);
        assert_eq!(arrival.is_some(), under_way);
        world.delete("a");
        if let Some((there, arrive)) = arrival {
            let said = world.arrive(there, arrive);
            world.settle(of, queue, 2, said);
        }
        world.group(of).apply(Command::Sweep);
        assert_eq!(crate::ent::rows_of(&world.group(of).rows, of.entity), 0);
    }
}

#[test]
fn fwd_2_fwd_8_a_destination_of_a_wrong_kind_refuses() {
    let mut world = World::new(1);
    world.topic("t", TopicProperties::default());
    world.subscription("t", "s", SubscriptionProperties::default(), NewRule::default());
    let there = world.id("t/s");
    world.queue("a", to("t"));
    world.send("a", vec![m().id("x")]);
    shipped(&mut world, 1);
    let arrive = Arrive { destination: there.entity, ..arrival(&mut world, 1) };
    let answer = "arrived 1 not 0+1 InvalidOperationException";
    assert_eq!(words(&world.arrive(there, arrive.clone())), answer);
    let none = Arrive { serial: 2, messages: Vec::new(), ..arrive };
    let refused = world.arrive(there, none);
    assert_eq!(refused, Outcome::Refused(Refusal::SerialGap { expected: 2 }));
}
