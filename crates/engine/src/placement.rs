//! Which replica moves next. The catalog says where replicas shall be, the groups say where they
//! are; from both, [`next_move`] finds the one change that is due, so that whoever leads the catalog
//! can go on where another stopped. One replica moves at a time: a copy is sent beside the clients'
//! traffic, and what is under way would make counts wrong.
//!
//! In order: a move whose target is lost goes elsewhere; what leaving nodes hold goes to others;
//! the nodes that stay come to hold equally many.
//!
//! Invariant: a move names a node that stays and answers, and a group only while a majority of its
//! voters answers, without which nothing could come of it. The old replica keeps its vote until the
//! new one has all it has.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use domain::GroupId;

/// A node, as far as placement goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// It is drained, or was removed.
    pub leaving: bool,
    pub reachable: bool,
}

impl Host {
    fn takes(self) -> bool {
        !self.leaving && self.reachable
    }
}

/// A data group's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the catalog says its replicas shall be.
    pub wanted: BTreeSet<u64>,
    /// Which of its nodes have a vote, as the group says; absent where nobody could be asked.
    pub voters: Option<BTreeSet<u64>>,
}

impl Place {
    fn settled(&self) -> bool {
        self.voters.as_ref() == Some(&self.wanted)
    }
}

/// A group's replica shall live on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub group: GroupId,
    pub from: u64,
    pub to: u64,
}

/// The move that is due, if one is and can be made. Without one there is nothing left to do, or
/// something has to happen first: a move to end, or a node to answer.
pub fn next_move(nodes: &BTreeMap<u64, Host>, groups: &BTreeMap<GroupId, Place>) -> Option<Move> {
    let plan = Plan::new(nodes, groups);
    let under_way = groups.iter().filter(|(_, place)| place.voters.is_some() && !place.settled());
    let mut waiting = false;
    for (group, place) in under_way {
        waiting = true;
        if let Some(redirected) = plan.redirect(*group, place) {
            return Some(redirected);
        }
    }
    if waiting {
        return None;
    }
    plan.evacuate().or_else(|| plan.even_out())
}

struct Plan<'a> {
    nodes: &'a BTreeMap<u64, Host>,
    groups: &'a BTreeMap<GroupId, Place>,
    loads: BTreeMap<u64, usize>,
}

impl<'a> Plan<'a> {
    fn new(nodes: &'a BTreeMap<u64, Host>, groups: &'a BTreeMap<GroupId, Place>) -> Plan<'a> {
        let mut loads: BTreeMap<u64, usize> = nodes.keys().map(|node| (*node, 0)).collect();
        for node in groups.values().flat_map(|place| &place.wanted) {
            *loads.entry(*node).or_default() += 1;
        }
        Plan { nodes, groups, loads }
    }

    fn load(&self, node: u64) -> usize {
        self.loads.get(&node).copied().unwrap_or(0)
    }

    /// A node that is not in the catalog's list is as good as gone.
    fn host(&self, node: u64) -> Host {
        self.nodes.get(&node).copied().unwrap_or(Host { leaving: true, reachable: false })
    }

    /// The node that has room for one more replica of this group, least loaded first.
    fn target(&self, place: &Place) -> Option<u64> {
        let free = |node: &u64| self.host(*node).takes() && !place.wanted.contains(node);
        self.nodes.keys().copied().filter(free).min_by_key(|node| (self.load(*node), *node))
    }

    fn has_majority(&self, place: &Place) -> bool {
        let Some(voters) = &place.voters else { return false };
        let answering = voters.iter().filter(|node| self.host(**node).reachable).count();
        answering * 2 > voters.len()
    }

    /// A replica on its way to a node that was lost meanwhile: to one that has a copy already, if
    /// there is such a one, and else to another.
    fn redirect(&self, group: GroupId, place: &Place) -> Option<Move> {
        let voters = place.voters.as_ref()?;
        let coming = place.wanted.difference(voters);
        let from = coming.copied().find(|node| !self.host(*node).takes())?;
        let mut back = voters.difference(&place.wanted).copied();
        let to = back.find(|node| self.host(*node).takes()).or_else(|| self.target(place))?;
        Some(Move { group, from, to })
    }

    /// Of what leaving nodes hold, copies that are lost come before those that are only unwanted.
    fn evacuate(&self) -> Option<Move> {
        let held = self.groups.iter().flat_map(|(group, place)| {
            let leaving = place.wanted.iter().filter(|node| self.host(**node).leaving);
            leaving.map(move |node| (*group, place, *node))
        });
        let mut held: Vec<_> = held.filter(|(_, place, _)| self.has_majority(place)).collect();
        held.sort_by_key(|(group, _, node)| (self.host(*node).reachable, *group));
        held.into_iter().find_map(|(group, place, from)| {
            let to = self.target(place)?;
            Some(Move { group, from, to })
        })
    }

    /// From the node that holds most to the one that holds least, until they differ by one.
    fn even_out(&self) -> Option<Move> {
        let hosts = self.nodes.iter().filter(|(_, host)| host.takes()).map(|(node, _)| *node);
        let mut fit: Vec<u64> = hosts.collect();
        fit.sort_by_key(|node| (self.load(*node), *node));
        let mut fullest = fit.clone();
        fullest.sort_by_key(|node| (Reverse(self.load(*node)), *node));
        let pairs = fit.iter().flat_map(|to| fullest.iter().map(move |from| (*from, *to)));
        let uneven = pairs.filter(|(from, to)| self.load(*from) >= self.load(*to) + 2);
        uneven.into_iter().find_map(|(from, to)| {
            let (group, _) = self.groups.iter().find(|(_, place)| {
                // A group that lacks somebody already is left alone.
                let whole = place.wanted.iter().all(|node| self.host(*node).reachable);
                whole
                    && place.settled()
                    && place.wanted.contains(&from)
                    && !place.wanted.contains(&to)
            })?;
            Some(Move { group: *group, from, to })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Nodes as `"1 2 3- 4? 5-?"`: `-` is leaving, `?` does not answer. Groups as `"123"`, where
    /// replicas shall be, or `"124/123"`, with who votes; `"123/"`: nobody says.
    fn plan(nodes: &str, groups: &[&str]) -> Option<Move> {
        let digits = |text: &str| text.bytes().map(|digit| u64::from(digit - b'0')).collect();
        let nodes = nodes.split_whitespace().map(|text| {
            let node = u64::from(text.as_bytes()[0] - b'0');
            let host = Host { leaving: text.contains('-'), reachable: !text.contains('?') };
            (node, host)
        });
        let groups = (1..).zip(groups).map(|(group, text)| {
            let (wanted, voters) = text.split_once('/').unwrap_or((text, text));
            let voters = (!voters.is_empty()).then(|| digits(voters));
            (GroupId(group), Place { wanted: digits(wanted), voters })
        });
        next_move(&nodes.collect(), &groups.collect())
    }

    #[test]
    fn one_replica_moves_at_a_time_and_what_is_lost_comes_first() {
        let to = |group, from, to| Some(Move { group: GroupId(group), from, to });
        for (nodes, groups, expected) in [
            // Nothing to do.
            ("1 2 3", &["123", "123"][..], None),
            ("1 2 3 4", &["123", "234", "134", "124"], None),
            // A node that joined gets its share, from whoever has most.
            ("1 2 3 4", &["123", "123", "123"], to(1, 1, 4)),
            ("1 2 3 4", &["234", "123", "123"], to(2, 2, 4)),
            ("1 2 3 4", &["234", "134", "123"], None),
            // While one is on its way the others wait.
            ("1 2 3 4", &["234/123", "123", "123"], None),
            ("1- 2 3 4", &["234/123", "123", "123"], None),
            // Its target is lost: back to where the copy is, or on to another.
            ("1 2 3 4?", &["234/123", "123", "123"], to(1, 4, 1)),
            ("1- 2 3 4? 5", &["234/123", "123", "123"], to(1, 4, 5)),
            ("1- 2 3 4?", &["234/123", "123", "123"], None),
            // A node is drained: to whoever has least.
            ("1- 2 3 4", &["124", "123", "234"], to(1, 1, 3)),
            ("1- 2 3 4", &["234", "123", "234"], to(2, 1, 4)),
            ("1- 2 3 4", &["234", "234", "234"], None),
            // Nobody can take it.
            ("1- 2 3", &["123"], None),
            ("1- 2 3 4?", &["123"], None),
            // What a dead node held comes before what a drained one holds.
            ("1- 2 3-? 4 5", &["124", "345", "124"], to(2, 3, 2)),
            // A group whose majority is silent is not touched, and holds nobody up.
            ("1- 2? 3? 4 5", &["123", "145"], None),
            ("1- 2? 3? 4 5 6", &["123", "145"], to(2, 1, 6)),
            ("1- 2 3 4", &["123/", "123"], to(2, 1, 4)),
            // Nothing is evened out where a replica is away, nor to a node that is.
            ("1 2 3 4?", &["123", "123", "123"], None),
            ("1 2 3? 4", &["123", "123", "123"], None),
        ] {
            assert_eq!(plan(nodes, groups), expected, "{nodes}: {groups:?}");
        }
    }

    /// A cluster that does as it is told, at its own pace.
    struct World {
        nodes: BTreeMap<u64, Host>,
        groups: BTreeMap<GroupId, Place>,
    }

    impl World {
        fn new(nodes: u64, groups: u16, factor: u64) -> World {
            let host = Host { leaving: false, reachable: true };
            let place = |group: u16| {
                let first = u64::from(group);
                let wanted: BTreeSet<u64> = (0..factor).map(|n| (first + n) % nodes + 1).collect();
                Place { voters: Some(wanted.clone()), wanted }
            };
            World {
                nodes: (1..=nodes).map(|node| (node, host)).collect(),
                groups: (1..=groups).map(|group| (GroupId(group), place(group))).collect(),
            }
        }

        /// Plans, and has the group of the move follow at once or later; false when nothing is due.
        fn step(&mut self, promptly: bool) -> bool {
            let next = next_move(&self.nodes, &self.groups);
            if let Some(Move { group, from, to }) = next {
                assert!(self.nodes[&to].takes());
                let place = self.groups.get_mut(&group).expect("a group there is");
                assert!(place.wanted.remove(&from) && place.wanted.insert(to));
            }
            let followed = promptly && self.follow();
            next.is_some() || followed
        }

        /// Groups exchange one voter for one that has caught up, where both majorities answer.
        fn follow(&mut self) -> bool {
            let mut followed = false;
            for place in self.groups.values_mut() {
                let voters = place.voters.as_mut().expect("voters");
                let up = |node: &u64| self.nodes[node].reachable;
                let coming = place.wanted.iter().find(|node| !voters.contains(node) && up(node));
                let going = voters.iter().find(|node| !place.wanted.contains(node));
                let (Some(coming), Some(going)) = (coming.copied(), going.copied()) else {
                    continue;
                };
                let good = |voters: &BTreeSet<u64>| voters.iter().filter(|node| up(node)).count();
                let before = good(voters);
                if before * 2 <= voters.len() {
                    continue;
                }
                voters.remove(&going);
                voters.insert(coming);
                assert!(good(voters) >= before, "fewer good copies than before");
                followed = true;
            }
            followed
        }

        fn staying(&self) -> Vec<u64> {
            self.nodes.iter().filter(|(_, host)| host.takes()).map(|(node, _)| *node).collect()
        }
    }

    #[derive(Clone, Debug)]
    enum Event {
        Join,
        Drain(usize),
        /// For good, and declared so.
        Die(usize),
        Steps(u8, bool),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Join),
            any::<usize>().prop_map(Event::Drain),
            any::<usize>().prop_map(Event::Die),
            (0..20u8, any::<bool>()).prop_map(|(steps, promptly)| Event::Steps(steps, promptly)),
        ]
    }

    proptest! {
        /// Whatever joins, leaves and dies meanwhile: it ends, with every group whole, on nodes that
        /// stay, spread evenly; and no exchange leaves fewer good copies than there were.
        #[test]
        fn it_ends_evenly_and_never_with_fewer_good_copies(
            (nodes, factor, groups) in (3..6u64, 1..4u64, 1..20u16),
            events in proptest::collection::vec(event(), 0..12),
        ) {
            let mut world = World::new(nodes, groups, factor);
            for event in events {
                let staying = world.staying();
                let spare = staying.len() > factor as usize;
                match event {
                    Event::Join => {
                        let node = world.nodes.keys().max().expect("some") + 1;
                        world.nodes.insert(node, Host { leaving: false, reachable: true });
                    }
                    Event::Drain(which) if spare => {
                        let node = staying[which % staying.len()];
                        world.nodes.get_mut(&node).expect("one").leaving = true;
                    }
                    Event::Die(which) if spare => {
                        let node = staying[which % staying.len()];
                        let lost = |place: &Place| {
                            let voters = place.voters.as_ref().expect("voters");
                            let up = voters.iter().filter(|n| **n != node && world.nodes[n].reachable);
                            up.count() * 2 <= voters.len()
                        };
                        if !world.groups.values().any(lost) {
                            world.nodes.insert(node, Host { leaving: true, reachable: false });
                        }
                    }
                    Event::Drain(_) | Event::Die(_) => (),
                    Event::Steps(steps, promptly) => {
                        for _ in 0..steps {
                            world.step(promptly);
                        }
                    }
                }
            }
            let mut steps = 0;
            while world.step(true) {
                steps += 1;
                prop_assert!(steps < 2_000, "it does not end");
            }
            let staying = world.staying();
            let mut loads: BTreeMap<u64, usize> = staying.iter().map(|node| (*node, 0)).collect();
            for place in world.groups.values() {
                prop_assert!(place.settled());
                prop_assert_eq!(place.wanted.len(), factor as usize);
                for node in &place.wanted {
                    *loads.get_mut(node).expect("it stays") += 1;
                }
            }
            let (most, least) = (loads.values().max(), loads.values().min());
            prop_assert!(most.unwrap_or(&0) - least.unwrap_or(&0) <= 1, "{:?}", loads);
        }
    }
}
