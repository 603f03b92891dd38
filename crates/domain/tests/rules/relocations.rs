//! ENT-14: entities move between groups. That all rules of a queue hold wherever it is, is checked with their
//! tables (`table::check`); that nothing is lost or done twice between groups, with cuts.

use domain::{
    Admit, CatalogCommand, Command, CreateQueue, DirectoryRow, EntityId, GroupId, Key, Origin,
    Outcome, QueueId, Refusal, RelocationCommand, RelocationState, Row, SWEEPING, Seal,
    SequenceNumber, SubQueue, Timestamp,
};

use crate::catalog::{catalog, created, subscribed, topic_created};
use crate::forwards::pair;
use crate::mover::{depart, leave, parts};
use crate::support::{Group, QUEUE, World};
use crate::table::*;
use crate::topic::{TOPIC, Topic, says};

const THERE: GroupId = GroupId(2);

fn relocated(to: Option<GroupId>) -> Outcome {
    Outcome::Refused(Refusal::Relocated { entity: QUEUE, to })
}

fn number(group: &Group, entity: EntityId) -> u64 {
    domain::relocation(&group.rows, entity).expect("it moved").number
}

/// All that a group says of the entities it has.
fn told(group: &Group, entities: &[EntityId]) -> Vec<String> {
    let peeked = |entity: EntityId| {
        SubQueue::ALL.map(|sub| {
            let queue = QueueId { entity, sub };
            domain::peek(&group.rows, queue, domain::SequenceNumber(0), 250)
        })
    };
    let each = entities.iter().map(|entity| {
        format!("{:?} {:?}", domain::entity_info(&group.rows, *entity), peeked(*entity))
    });
    each.collect()
}

#[test]
fn ent_14_while_it_is_on_its_way_whoever_asks_is_told_so_and_then_where() {
    let mut play = Table::new(queue());
    play.play(0, Send(vec![m(), m()]));
    let mut there = Group::empty();
    there.now = at(1);
    let group = &mut play.group;
    assert_eq!(group.apply(depart(QUEUE, THERE)), Outcome::Done);
    let brought = parts(&group.rows, QUEUE, 2);
    let send = || Command::Send(domain::Send { origin: None, entity: QUEUE, messages: vec![m()] });
    let asked = || {
        let name = "Orders".to_owned();
        let again = CreateQueue { entity: QUEUE, name, properties: Box::new(queue()) };
        let seal = Seal { entity: QUEUE, idle_since: Timestamp::NEVER };
        vec![
            send(),
            depart(QUEUE, GroupId(3)),
            Command::DeleteEntity { entity: QUEUE },
            Command::CreateQueue(again),
            Command::Seal(seal),
            Command::Touch { entity: QUEUE },
        ]
    };
    for (index, part) in brought.iter().enumerate() {
        for command in asked() {
            assert_eq!(group.apply(command.clone()), relocated(None), "{command:?}");
            if index > 0 {
                assert_eq!(there.apply(command.clone()), relocated(None), "{command:?}");
            }
        }
        // It can be looked at, and not into.
        let info = domain::entity_info(&group.rows, QUEUE).expect("it is told of");
        assert_eq!(info.counts.active, 2);
        let peeked = domain::peek(&group.rows, MAIN, domain::SequenceNumber(0), 1);
        assert_eq!(peeked, Err(Refusal::Relocated { entity: QUEUE, to: None }));
        assert_eq!(there.apply(part.clone()), Outcome::Done);
    }
    // Not before it is said to be there.
    assert_eq!(group.apply(send()), relocated(None));
    assert!(matches!(there.apply(send()), Outcome::Sent { .. }));
    for _ in 0..2 {
        let number = number(group, QUEUE);
        assert_eq!(group.apply(leave(QUEUE, number)), Outcome::Done);
        for command in asked() {
            assert_eq!(group.apply(command.clone()), relocated(Some(THERE)), "{command:?}");
        }
    }
    assert_eq!(domain::entity_info(&group.rows, QUEUE), None);
    // Deleted there, it is nowhere.
    assert_eq!(there.apply(Command::DeleteEntity { entity: QUEUE }), Outcome::Done);
    let unknown = Outcome::Refused(Refusal::StaleRoute { entity: QUEUE });
    assert_eq!(there.apply(send()), unknown);
}

#[test]
fn ent_14_what_comes_late_of_a_move_changes_nothing() {
    let mut play = Table::new(queue());
    play.play(0, Send(vec![m()]));
    let (mut here, mut there) = (play.group, Group::empty());
    there.now = at(1);
    let mut late = Vec::new();
    // There, and back, and there.
    for _ in 0..3 {
        assert_eq!(here.apply(depart(QUEUE, THERE)), Outcome::Done);
        let brought = parts(&here.rows, QUEUE, 2);
        for part in brought {
            assert_eq!(there.apply(part.clone()), Outcome::Done);
            late.push(part);
            for part in &late {
                if number_of(part) < number_of(late.last().expect("one")) {
                    let before = there.rows.clone();
                    assert_eq!(there.apply(part.clone()), Outcome::Done);
                    assert_eq!(there.rows.0, before.0);
                }
            }
        }
        let number = number(&here, QUEUE);
        assert_eq!(here.apply(leave(QUEUE, number)), Outcome::Done);
        assert_eq!(here.apply(Command::Sweep), Outcome::Fired(domain::Fired::default()));
        for group in [&mut here, &mut there] {
            let before = group.rows.clone();
            for part in &late {
                assert_eq!(group.apply(part.clone()), Outcome::Done);
            }
            for number in 0..number {
                assert_eq!(group.apply(leave(QUEUE, number)), Outcome::Done);
            }
            let without_meta = |rows: &domain::MemoryRows| {
                let rows = rows.0.clone().into_iter();
                rows.filter(|(key, _)| *key != Key::Meta).collect::<Vec<_>>()
            };
            assert_eq!(without_meta(&group.rows), without_meta(&before));
        }
        std::mem::swap(&mut here, &mut there);
    }
    assert_eq!(number(&here, QUEUE), 3);
}

fn number_of(part: &Command) -> u64 {
    match part {
        Command::Relocate(RelocationCommand::Admit(admit)) => admit.number,
        other => panic!("{other:?}"),
    }
}

/// A request that the group did not see may have been done where the queue was meanwhile: its repeat is told so, or
/// is told where to ask, and never that it was not done.
#[test]
fn ent_14_a_repeat_is_not_told_that_it_was_not_done() {
    let mut play = Table::new(queue());
    let send = |serial, retry| {
        let origin = Some(Origin { producer: 9, serial, ordered: true, retry });
        Command::Send(domain::Send { origin, entity: QUEUE, messages: vec![m()] })
    };
    let gap = Outcome::Refused(Refusal::SerialGap { expected: 2 });
    let group = &mut play.group;
    assert!(matches!(group.apply(send(1, false)), Outcome::Sent { .. }));
    for retry in [false, true] {
        assert_eq!(group.apply(send(5, retry)), gap);
    }
    assert_eq!(group.apply(depart(QUEUE, THERE)), Outcome::Done);
    let mut there = Group::empty();
    for part in parts(&group.rows, QUEUE, 2) {
        assert_eq!(group.apply(send(5, true)), relocated(None));
        assert_eq!(there.apply(part), Outcome::Done);
    }
    assert_eq!(group.apply(leave(QUEUE, 1)), Outcome::Done);
    assert_eq!(group.apply(send(5, true)), relocated(Some(THERE)));
    // What was done before it went is known still.
    assert!(matches!(group.apply(send(1, true)), Outcome::Sent { .. }));
    assert_eq!(group.apply(Command::Sweep), Outcome::Fired(domain::Fired::default()));
    assert_eq!(there.apply(depart(QUEUE, GroupId(1))), Outcome::Done);
    for part in parts(&there.rows, QUEUE, 2) {
        assert_eq!(group.apply(part), Outcome::Done);
    }
    assert_eq!(group.apply(send(5, true)), Outcome::Refused(Refusal::PerhapsDone));
    assert_eq!(group.apply(send(5, false)), gap);
}

/// A producer that the group knows from before the queue went: what it sent elsewhere meanwhile, and asks for again
/// here, is not done twice.
#[test]
fn ent_14_send_8_a_repeat_is_not_done_twice_where_the_queue_came_to() {
    let mut play = Table::new(queue());
    let send = |serial, retry| {
        let origin = Some(Origin { producer: 9, serial, ordered: false, retry });
        Command::Send(domain::Send { origin, entity: QUEUE, messages: vec![m()] })
    };
    let sent = |number| Outcome::Sent { sequences: vec![SequenceNumber(number)] };
    let perhaps = Outcome::Refused(Refusal::PerhapsDone);
    let group = &mut play.group;
    assert_eq!(group.apply(send(1, false)), sent(1));
    assert_eq!(group.apply(depart(QUEUE, THERE)), Outcome::Done);
    let mut there = Group::empty();
    for part in parts(&group.rows, QUEUE, 2) {
        assert_eq!(there.apply(part), Outcome::Done);
    }
    assert_eq!(group.apply(leave(QUEUE, 1)), Outcome::Done);
    assert_eq!(there.apply(send(2, false)), sent(2));
    assert_eq!(group.apply(Command::Sweep), Outcome::Fired(domain::Fired::default()));
    assert_eq!(there.apply(depart(QUEUE, GroupId(1))), Outcome::Done);
    for part in parts(&there.rows, QUEUE, 2) {
        assert_eq!(group.apply(part), Outcome::Done);
    }
    // Nobody knows here that it was done, nor of the third that it was not.
    assert_eq!(
        [send(2, true), send(3, true)].map(|again| group.apply(again)),
        [perhaps.clone(), perhaps]
    );
    // What was done here, or comes for the first time, is as ever.
    assert_eq!(group.apply(send(1, true)), sent(1));
    assert_eq!(group.apply(send(4, false)), sent(3));
    assert_eq!(group.apply(send(4, true)), sent(3));
    // Whoever asked before it came has given up by then.
    group.now = at(10 * MINUTE);
    assert_eq!(group.apply(send(5, false)), sent(4));
    group.now = at(15 * MINUTE);
    assert_eq!(group.apply(send(6, true)), sent(5));
}

#[test]
fn ent_14_nothing_goes_to_where_it_is() {
    let mut play = Table::new(queue());
    let group = &mut play.group;
    assert_eq!(group.apply(depart(QUEUE, GroupId(1))), Outcome::Done);
    for part in parts(&group.rows, QUEUE, 2) {
        let outcome = group.apply(part);
        assert!(matches!(outcome, Outcome::Refused(Refusal::Argument { .. })), "{outcome:?}");
    }
    assert_eq!(group.apply(Command::Touch { entity: QUEUE }), relocated(None));
}

#[test]
fn ent_14_a_part_waits_for_what_is_swept_and_others_are_refused() {
    let mut play = Table::new(queue());
    play.play(0, Send(vec![m()]));
    let (mut here, mut there) = (play.group, Group::empty());
    assert_eq!(here.apply(depart(QUEUE, THERE)), Outcome::Done);
    let brought = parts(&here.rows, QUEUE, 2);
    let argument = |outcome: Outcome| {
        assert!(matches!(outcome, Outcome::Refused(Refusal::Argument { .. })), "{outcome:?}");
    };
    // Not the first, and what is no part of an entity.
    argument(there.apply(brought[1].clone()));
    argument(there.apply(brought.last().expect("the last").clone()));
    let Command::Relocate(RelocationCommand::Admit(first)) = brought[0].clone() else { panic!() };
    let with = |key, row| {
        let rows = first.rows.iter().cloned().chain([(key, row)]).collect();
        Command::Relocate(RelocationCommand::Admit(Admit { rows, ..first.clone() }))
    };
    let meta = domain::meta(&here.rows);
    argument(there.apply(with(Key::Meta, Row::Meta(meta))));
    let mut departing = domain::relocation(&here.rows, QUEUE).expect("it departs");
    argument(
        there.apply(with(Key::Relocation(QUEUE), Row::Relocation(Box::new(departing.clone())))),
    );
    departing.state = RelocationState::Arrived;
    argument(there.apply(with(Key::Relocation(QUEUE), Row::Relocation(Box::new(departing)))));
    // Another cut.
    assert_eq!(there.apply(Command::Cut { number: 5 }), Outcome::Done);
    for part in &brought[..brought.len() - 1] {
        assert_eq!(there.apply(part.clone()), Outcome::Done);
    }
    let last = brought.last().expect("the last");
    assert_eq!(there.apply(last.clone()), Outcome::Refused(Refusal::OtherCut { cut: 5 }));
    assert_eq!(here.apply(Command::Cut { number: 5 }), Outcome::Done);
    let last = parts(&here.rows, QUEUE, 2).pop().expect("the last");
    assert_eq!(there.apply(last), Outcome::Done);
    // And back, before the rest has been swept.
    assert_eq!(here.apply(leave(QUEUE, 1)), Outcome::Done);
    assert_eq!(there.apply(depart(QUEUE, GroupId(1))), Outcome::Done);
    let back = parts(&there.rows, QUEUE, 2);
    assert_eq!(here.apply(back[0].clone()), relocated(None));
    assert_eq!(here.apply(Command::Sweep), Outcome::Fired(domain::Fired::default()));
    for part in back {
        assert_eq!(here.apply(part), Outcome::Done);
    }
    assert_eq!(domain::entity_info(&here.rows, QUEUE).expect("it is here").counts.active, 1);
}

#[test]
fn ent_14_a_topic_goes_with_its_subscriptions_and_they_with_nothing_else() {
    let mut topic = Topic::with(["all", "few", "gone"]);
    topic.send_all(vec![says("a"), says("b")]);
    let (id, all) = (TOPIC, topic.id("all"));
    let ids = [id, all, topic.id("few")];
    let refused = topic.group.apply(depart(all, THERE));
    assert!(matches!(refused, Outcome::Refused(Refusal::Argument { .. })), "{refused:?}");
    let gone = topic.id("gone");
    assert_eq!(topic.group.apply(Command::DeleteEntity { entity: gone }), Outcome::Done);
    assert_eq!(topic.group.apply(depart(id, THERE)), Outcome::Refused(SWEEPING));
    assert_eq!(topic.group.apply(Command::Sweep), Outcome::Fired(domain::Fired::default()));
    let before = told(&topic.group, &ids);
    topic.group.relocate(id);
    assert_eq!(told(&topic.group, &ids), before);
    topic.send(says("c"));
    let info = domain::entity_info(&topic.group.rows, all).expect("it came along");
    assert_eq!(info.counts.active, 3);
}

/// A destination moves while something is on its way to it.
#[test]
fn ent_14_what_is_forwarded_follows_its_destination() {
    let mut world = pair();
    let (a, b) = (world.id("a"), world.id("b"));
    world.send("a", vec![m(), m()]);
    world.ship(a, QueueId::main(a.entity), 2, false);
    let (_, arrive) = world.arrival(a, QueueId::main(a.entity), 1).expect("a shipment");
    let bring = |world: &mut World, to| world.arrive(to, arrive.clone());
    let moved = |to| Outcome::Refused(Refusal::Relocated { entity: b.entity, to });
    assert_eq!(world.group(b).apply(depart(b.entity, a.group)), Outcome::Done);
    assert_eq!(bring(&mut world, b), moved(None));
    let there = domain::Destination { group: a.group, ..b };
    for part in parts(&world.group(b).rows, b.entity, 2) {
        assert_eq!(bring(&mut world, b), moved(None));
        assert_eq!(world.group(there).apply(part), Outcome::Done);
    }
    assert_eq!(world.group(b).apply(leave(b.entity, 1)), Outcome::Done);
    assert_eq!(bring(&mut world, b), moved(Some(a.group)));
    for _ in 0..2 {
        let said = bring(&mut world, there);
        assert!(matches!(said, Outcome::Arrived { done: 2, .. }), "{said:?}");
    }
    assert_eq!(
        domain::entity_info(&world.group(there).rows, b.entity).expect("b").counts.active,
        2
    );
    // A word from before, to where it was: nothing was refused, and nothing is.
    assert_eq!(bring(&mut world, b), moved(Some(a.group)));
}

#[test]
fn ent_14_the_catalog_counts_it_where_it_is() {
    let mut group = catalog(3);
    let set = |name: &str, entity, from, to| {
        let (name, from, group) = (name.to_owned(), GroupId(from), GroupId(to));
        Command::Catalog(CatalogCommand::SetGroup { name, entity, from, group })
    };
    let of = |group: &Group, name: &str| -> DirectoryRow {
        domain::directory(&group.rows, name).expect("the name")
    };
    let queue = created(&mut group, "Orders");
    let topic = topic_created(&mut group, "News");
    for name in ["all", "few"] {
        subscribed(&mut group, "News", name);
    }
    assert_eq!((queue.group, topic.group), (GroupId(1), GroupId(2)));
    for _ in 0..2 {
        assert_eq!(group.apply(set("orders", queue.entity, 1, 3)), Outcome::Done);
        assert_eq!(group.apply(set("NEWS", topic.entity, 2, 3)), Outcome::Done);
    }
    for name in ["Orders", "News", "News/Subscriptions/all", "News/Subscriptions/few"] {
        assert_eq!(of(&group, name).group, GroupId(3), "{name}");
    }
    // It went on since, and another entity has the name.
    assert_eq!(group.apply(set("orders", queue.entity, 1, 2)), Outcome::Done);
    assert_eq!(group.apply(set("orders", topic.entity, 3, 1)), Outcome::Done);
    assert_eq!(of(&group, "Orders").group, GroupId(3));
    // The next ones go where fewer are.
    let groups: Vec<u16> =
        ["a", "b"].map(|name| created(&mut group, name).group.0).into_iter().collect();
    assert_eq!(groups, [1, 2]);
}
