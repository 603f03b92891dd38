//! A cut through all groups: whatever was under way between them when it was made, what is restored of it holds
//! every message that was sent before and not settled before, once.

use std::collections::{BTreeMap, VecDeque};

use domain::{
    Admit, Command, Destination, EntityId, ForwardCommand, GroupId, Key, MemoryRows, NewMessage,
    Outcome, QueueId, Refusal, RelocationCommand, Restore, Row,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::forwards::to;
use crate::mover::{depart, leave, parts};
use crate::support::World;
use crate::table::queue;

/// `a` forwards to `b`, and `b` to `c`, each on a group of its own.
fn chain() -> World {
    let mut world = World::new(3);
    world.queue("c", queue());
    world.queue("b", to("c"));
    world.queue("a", to("b"));
    world
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// What happens anywhere, in any order.
#[derive(Clone, Debug)]
enum Step {
    Send(Index),
    Ship(Index),
    /// A shipment is read and put on its way, perhaps not for the first time.
    Post(Index),
    /// Something on its way comes to where it goes; it may come again.
    Arrive(Index, bool),
    /// An answer comes to the source.
    Settle(Index),
    Delete(u32),
    Cut(Index),
    /// A queue sets out for a group, or is brought there a step further.
    Move(Index, Index),
    /// Something that was asked of a group for a move before comes again.
    Late(Index),
    /// A group gives up what it had of a queue that went.
    Leave(Index),
    Sweep(Index),
}

fn step() -> impl Strategy<Value = Step> {
    let index = || any::<Index>();
    prop_oneof![
        3 => index().prop_map(Step::Send),
        4 => index().prop_map(Step::Ship),
        6 => index().prop_map(Step::Post),
        6 => (index(), any::<bool>()).prop_map(|(which, again)| Step::Arrive(which, again)),
        5 => index().prop_map(Step::Settle),
        1 => (1..4u32).prop_map(Step::Delete),
        1 => index().prop_map(Step::Cut),
        6 => (index(), index()).prop_map(|(which, to)| Step::Move(which, to)),
        1 => index().prop_map(Step::Late),
        2 => index().prop_map(Step::Leave),
        1 => index().prop_map(Step::Sweep),
    ]
}

/// A shipment between two groups.
#[derive(Clone)]
struct OnItsWay {
    source: Destination,
    serial: u64,
    to: Destination,
    arrive: ForwardCommand,
}

/// A queue on its way between two groups.
struct Moving {
    from: Destination,
    to: Destination,
    number: u64,
    parts: VecDeque<Command>,
}

struct Play {
    world: World,
    moving: BTreeMap<&'static str, Moving>,
    /// Queues that went, and were not given up where they were.
    left: Vec<(Destination, u64)>,
    /// What was asked of groups for moves.
    asked: Vec<(Destination, Command)>,
    sent: u8,
    on_its_way: Vec<OnItsWay>,
    answers: Vec<(Destination, u64, Outcome)>,
    /// Rows of each group as of the cut, once it was made there.
    cut: BTreeMap<u16, MemoryRows>,
    /// Messages that are in the cut by what their senders and their receiver were told.
    expected: Vec<u8>,
    /// Groups take in whatever comes, as if there were no cuts.
    heedless: bool,
}

const CUT: u64 = 300;

fn cut_of(rows: &MemoryRows) -> u64 {
    domain::meta(rows).cut
}

impl Play {
    fn new(heedless: bool) -> Play {
        let (on_its_way, answers, expected) = (Vec::new(), Vec::new(), Vec::new());
        let (world, cut) = (chain(), BTreeMap::new());
        let (moving, left, asked) = (BTreeMap::new(), Vec::new(), Vec::new());
        Play { world, moving, left, asked, sent: 0, on_its_way, answers, cut, expected, heedless }
    }

    fn name(&self, index: Index) -> Destination {
        self.world.id(NAMES[index.index(NAMES.len())])
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Send(index) => self.send(NAMES[index.index(2)]),
            Step::Ship(index) => {
                let source = self.name(index);
                self.world.ship(source, QueueId::main(source.entity), 2, false);
            }
            Step::Post(index) => self.post(self.name(index)),
            Step::Arrive(index, again) if !self.on_its_way.is_empty() => {
                let which = index.index(self.on_its_way.len());
                self.arrive(which, again);
            }
            Step::Settle(index) if !self.answers.is_empty() => {
                let which = index.index(self.answers.len());
                let (source, serial, said) = self.answers.swap_remove(which);
                self.world.settle(source, QueueId::main(source.entity), serial, said);
            }
            Step::Delete(count_max) => self.delete(count_max),
            Step::Cut(index) => self.cut(GroupId(index.index(3) as u16)),
            Step::Move(which, to) => {
                self.relocate(NAMES[which.index(NAMES.len())], GroupId(to.index(3) as u16));
            }
            Step::Late(index) if !self.asked.is_empty() => {
                let (of, command) = self.asked[index.index(self.asked.len())].clone();
                self.world.group(of).apply(command);
            }
            Step::Leave(index) if !self.left.is_empty() => {
                let which = index.index(self.left.len());
                self.leave(which);
            }
            Step::Sweep(index) => {
                self.world.groups[index.index(3)].apply(Command::Sweep);
            }
            Step::Arrive(..) | Step::Settle(_) | Step::Late(_) | Step::Leave(_) => (),
        }
    }

    fn send(&mut self, name: &str) {
        self.sent += 1;
        let message = NewMessage {
            content: vec![self.sent].into(),
            size_bytes: 1,
            header_bytes: 0,
            message_id: None,
            session_id: None,
            partition_key: None,
            ttl: None,
            scheduled_at: None,
        };
        match self.world.send(name, vec![message]) {
            Outcome::Sent { .. } => (),
            Outcome::Refused(Refusal::Relocated { to: None, .. }) => return,
            other => panic!("{other:?}"),
        }
        if !self.cut.contains_key(&self.world.id(name).group.0) {
            self.expected.push(self.sent);
        }
    }

    fn post(&mut self, source: Destination) {
        let queue = QueueId::main(source.entity);
        for serial in self.world.shipments(source, queue) {
            let Some((to, arrive)) = self.world.arrival(source, queue, serial) else { continue };
            let cut = cut_of(&self.world.group(source).rows);
            let arrive = arrive.behind(cut);
            self.on_its_way.push(OnItsWay { source, serial, to, arrive });
        }
    }

    fn arrive(&mut self, which: usize, again: bool) {
        let OnItsWay { source, serial, to, mut arrive } = self.on_its_way[which].clone();
        if !again {
            self.on_its_way.swap_remove(which);
        }
        if self.heedless
            && let ForwardCommand::Arrive(inner)
            | ForwardCommand::ArriveBehind { arrive: inner, .. } = arrive
        {
            arrive = inner.behind(cut_of(&self.world.group(to).rows));
        }
        match self.world.group(to).apply(Command::Forward(arrive)) {
            // Who brings it lets the one that is behind have the cut, and brings it again.
            Outcome::Refused(Refusal::OtherCut { .. }) => {
                self.cut(source.group);
                self.cut(to.group);
                self.post(source);
            }
            // And brings it to where its destination went.
            Outcome::Refused(Refusal::Relocated { to: Some(group), .. }) => {
                let cut = cut_of(&self.world.group(source).rows);
                if let Some((_, arrive)) =
                    self.world.arrival(source, QueueId::main(source.entity), serial)
                {
                    let to = Destination { group, ..to };
                    let arrive = arrive.behind(cut);
                    self.on_its_way.push(OnItsWay { source, serial, to, arrive });
                }
            }
            said => self.answers.push((source, serial, said)),
        }
    }

    /// The receiver of the last queue takes some, and is told so.
    fn delete(&mut self, count_max: u32) {
        let (of, is_cut) = (self.world.id("c"), self.cut.contains_key(&self.world.id("c").group.0));
        let held = |rows: &MemoryRows| -> Vec<u8> {
            let bodies = rows.0.iter().filter_map(|(key, row)| match (key, row) {
                (Key::Body(entity, _), Row::Body(content)) if *entity == of.entity => {
                    Some(content[0])
                }
                _ => None,
            });
            bodies.collect()
        };
        let before = held(&self.world.group(of).rows);
        let delete = domain::DeleteBatch {
            origin: None,
            queue: QueueId::main(of.entity),
            count_max,
            before: Some(domain::Timestamp::NEVER),
        };
        self.world.apply("c", Command::DeleteBatch(delete));
        let after = held(&self.world.group(of).rows);
        let taken = before.into_iter().filter(|message| !after.contains(message));
        for message in taken.filter(|_| !is_cut) {
            self.expected.retain(|expected| *expected != message);
        }
    }

    fn cut(&mut self, of: GroupId) {
        let group = &mut self.world.groups[usize::from(of.0)];
        assert_eq!(group.apply(Command::Cut { number: CUT }), Outcome::Done);
        let rows = group.rows.clone();
        self.cut.entry(of.0).or_insert(rows);
    }

    /// As its group's leader does, one step.
    fn relocate(&mut self, name: &'static str, group: GroupId) {
        let from = self.world.id(name);
        let Some(moving) = self.moving.get_mut(name) else {
            if group != from.group {
                let departs = self.world.group(from).apply(depart(from.entity, group));
                assert_eq!(departs, Outcome::Done);
                let rows = &self.world.group(from).rows;
                let number = domain::relocation(rows, from.entity).expect("it departs").number;
                let (to, parts) = (Destination { group, ..from }, parts(rows, from.entity, 3));
                self.moving.insert(name, Moving { from, to, number, parts: parts.into() });
            }
            return;
        };
        let (from, to, number) = (moving.from, moving.to, moving.number);
        let mut part = moving.parts.pop_front().expect("the last ends it");
        if let Command::Relocate(RelocationCommand::Admit(Admit { cut, is_last: true, .. })) =
            &mut part
        {
            *cut = match self.heedless {
                true => cut_of(&self.world.group(to).rows),
                false => cut_of(&self.world.group(from).rows),
            };
            match self.world.group(to).apply(part.clone()) {
                Outcome::Done => {
                    self.asked.push((to, part));
                    self.world.relocated(name, to);
                    self.moving.remove(name);
                    self.left.push((from, number));
                }
                Outcome::Refused(Refusal::OtherCut { .. }) => {
                    self.cut(from.group);
                    self.cut(to.group);
                    self.moving.get_mut(name).expect("it moves").parts.push_front(part);
                }
                other => panic!("{other:?}"),
            }
            return;
        }
        match self.world.group(to).apply(part.clone()) {
            Outcome::Done => self.asked.push((to, part)),
            // It has rows from the last time still: before it gives them up, and then sweeps them.
            Outcome::Refused(Refusal::Relocated { to: None, .. }) => {
                (0..self.left.len()).rev().for_each(|which| self.leave(which));
                self.world.group(to).apply(Command::Sweep);
                self.moving.get_mut(name).expect("it moves").parts.push_front(part);
            }
            other => panic!("{other:?}"),
        }
    }

    fn leave(&mut self, which: usize) {
        let (of, number) = self.left.swap_remove(which);
        self.ask(of, leave(of.entity, number));
    }

    fn ask(&mut self, of: Destination, command: Command) {
        assert_eq!(self.world.group(of).apply(command.clone()), Outcome::Done);
        self.asked.push((of, command));
    }

    /// Whatever moves comes to where it goes.
    fn settle_down(&mut self) {
        for name in NAMES {
            while self.moving.contains_key(name) {
                self.relocate(name, GroupId(0));
            }
        }
        (0..self.left.len()).rev().for_each(|which| self.leave(which));
    }

    /// All that is restored of the cut, when what was under way in it has come to where it goes. None where
    /// something was on its way between groups: whoever makes the backup makes it again.
    fn restored(mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.cut.is_empty() {
            self.settle_down();
        }
        for group in 0..3 {
            self.cut(GroupId(group));
        }
        if self.cut.values().any(|rows| !domain::departures(rows).is_empty()) {
            return None;
        }
        // Where the cut has each entity: in one group.
        let mut homes: BTreeMap<EntityId, GroupId> = BTreeMap::new();
        for (group, rows) in &self.cut {
            for key in rows.0.keys() {
                if let Key::Entity(entity) = key {
                    assert_eq!(homes.insert(*entity, GroupId(*group)), None, "{entity:?} is twice");
                }
            }
        }
        let mut world = World::new(3);
        // Of the same ids; the groups themselves know nothing.
        for name in ["c", "b", "a"] {
            let of = world.name(name);
            assert_eq!(of.entity, self.world.id(name).entity);
            world.relocated(name, Destination { group: homes[&of.entity], ..of });
        }
        for (group, rows) in &self.cut {
            let is_restored = |key: &Key| {
                !matches!(key, Key::Relocation(_))
                    && key.entity().is_some_and(|of| homes.get(&of) == Some(&GroupId(*group)))
            };
            let rows = rows.0.iter().filter(|(key, _)| is_restored(key));
            let mut rows: Vec<_> = rows.map(|(key, row)| (key.clone(), row.clone())).collect();
            for (_, row) in &mut rows {
                if let Row::Shipment(row) = row {
                    row.destination.group = homes[&row.destination.entity];
                }
            }
            let restore = Command::Restore(Restore { restore: 1, rows, is_last: true });
            assert_eq!(world.groups[usize::from(*group)].apply(restore), Outcome::Done);
        }
        for name in ["a", "b"] {
            world.forward(name);
        }
        let found = world.groups.iter().flat_map(|group| contents(&group.rows));
        let mut found: Vec<u8> = found.collect();
        found.sort_unstable();
        self.expected.sort_unstable();
        Some((found, self.expected))
    }
}

/// Bodies of the messages that a group has.
fn contents(rows: &MemoryRows) -> Vec<u8> {
    let bodies = rows.0.iter().filter_map(|(key, row)| match (key, row) {
        (Key::Body(..), Row::Body(content)) => Some(content[0]),
        _ => None,
    });
    bodies.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fwd_4_what_is_under_way_is_in_a_cut_once(steps in prop::collection::vec(step(), 1..120)) {
        let mut play = Play::new(false);
        steps.into_iter().for_each(|step| play.play(step));
        if let Some((found, expected)) = play.restored() {
            prop_assert_eq!(found, expected);
        }
    }
}

/// What the property above finds if groups do not heed it: the destination's cut is made before something arrives,
/// and the source's when it has been settled.
#[test]
fn a_cut_that_nobody_heeds_loses_what_is_under_way() {
    for (heedless, expected) in [(false, vec![1]), (true, vec![])] {
        let mut play = Play::new(heedless);
        play.send("b");
        let (b, c) = (play.world.id("b"), play.world.id("c"));
        play.cut(c.group);
        play.world.ship(b, QueueId::main(b.entity), 2, false);
        play.post(b);
        while !play.on_its_way.is_empty() {
            play.arrive(0, false);
        }
        while let Some((source, serial, said)) = play.answers.pop() {
            play.world.settle(source, QueueId::main(source.entity), serial, said);
        }
        assert_eq!(contents(&play.world.group(c).rows), [1]);
        let (found, sent) = play.restored().expect("nothing moves");
        assert_eq!((found, sent), (expected, vec![1]), "{heedless}");
    }
}

/// What is restored in part is acted on by nobody, and what is restored whole is not restored again.
#[test]
fn a_restore_ends_once_and_nothing_arrives_before() {
    let mut play = Play::new(false);
    (0..5).for_each(|_| play.send("b"));
    let (b, c) = (play.world.id("b"), play.world.id("c"));
    play.world.ship(b, QueueId::main(b.entity), 2, false);
    play.post(b);
    let shipment = play.on_its_way.remove(0).arrive;
    let rows = |of: Destination, play: &mut Play| -> Vec<(Key, Row)> {
        let rows = play.world.group(of).rows.0.clone().into_iter();
        rows.filter(|(key, _)| key.entity().is_some()).collect()
    };
    let restore = |restore, rows: &[(Key, Row)], is_last| {
        Command::Restore(Restore { restore, rows: rows.to_vec(), is_last })
    };
    let mut world = World::new(3);
    let all = rows(c, &mut play);
    let (first, last) = all.split_at(1);
    let group = &mut world.groups[usize::from(c.group.0)];
    for rows in [first, first, last, last] {
        assert_eq!(group.apply(restore(1, rows, false)), Outcome::Done);
        assert!(group.effects.is_empty(), "{:?}", group.effects);
        assert!(domain::is_restoring(&group.rows));
        let early = group.apply(Command::Forward(shipment.clone()));
        assert_eq!(early, Outcome::Refused(Refusal::SerialGap { expected: 1 }));
    }
    let refused = group.apply(restore(2, &[], false));
    assert!(matches!(refused, Outcome::Refused(Refusal::Argument { .. })), "{refused:?}");
    assert_eq!(group.apply(restore(1, &[], true)), Outcome::Done);
    assert_eq!(group.effects, [domain::Effect::Restored]);
    assert!(!domain::is_restoring(&group.rows));
    let arrived = group.apply(Command::Forward(shipment));
    assert!(matches!(arrived, Outcome::Arrived { done: 2, .. }), "{arrived:?}");
    // A repeat that comes late undoes nothing.
    let before: Vec<_> = group.rows.0.clone().into_iter().collect();
    for is_last in [false, true] {
        assert_eq!(group.apply(restore(1, &all, is_last)), Outcome::Done);
    }
    let after: Vec<_> = group.rows.0.clone().into_iter().collect();
    assert_eq!(after, before);
    // What is the group's own is nobody's to restore.
    let own = vec![(Key::Meta, Row::Meta(domain::meta(&group.rows)))];
    let refused = world.groups[usize::from(b.group.0)].apply(restore(1, &own, false));
    assert!(matches!(refused, Outcome::Refused(Refusal::Argument { .. })), "{refused:?}");
}
