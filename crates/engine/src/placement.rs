//! Which replica moves next. The catalog says where replicas shall be, the groups say where they
//! are; from both, [`next_move`] finds the one change that is due, so that whoever leads the catalog
//! can go on where another stopped. One replica moves at a time: a copy is sent beside the clients'
//! traffic, and what is under way would make counts wrong.
//!
//! In order: a move whose target is lost goes elsewhere; what leaving nodes hold goes to others; the
//! replicas of a group come to stand in different zones; the nodes that stay come to hold equally
//! many, as far as zones permit. Each of the last two moves makes the replicas of a group more apart,
//! or leaves them as apart as they were and the nodes' loads more even: so moves end, whatever zones
//! there are.
//!
//! A node of which no zone is known counts as one apart from all others: nothing moves there for its
//! zone, and no zone has to be told to all nodes at once.
//!
//! Invariant: a move names a node that stays and answers, and a group only while a majority of its
//! voters answers, without which nothing could come of it. The old replica keeps its vote until the
//! new one has all it has.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use domain::GroupId;

/// A node, as far as placement goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// It is drained, or was removed.
    pub leaving: bool,
    pub reachable: bool,
    /// What it may be lost together with, as it says. Absent where it says nothing.
    pub zone: Option<String>,
}

impl Host {
    fn takes(&self) -> bool {
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
    plan.evacuate().or_else(|| plan.spread()).or_else(|| plan.even_out())
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

    fn zone(&self, node: u64) -> Option<&str> {
        self.nodes.get(&node)?.zone.as_deref()
    }

    /// A node that is not in the catalog's list is as good as gone.
    fn is_leaving(&self, node: u64) -> bool {
        self.nodes.get(&node).is_none_or(|host| host.leaving)
    }

    fn is_reachable(&self, node: u64) -> bool {
        self.nodes.get(&node).is_some_and(|host| host.reachable)
    }

    fn takes(&self, node: u64) -> bool {
        self.nodes.get(&node).is_some_and(Host::takes)
    }

    /// How many replicas the group would have in the zone of `to`, with one there in place of `from`.
    fn crowd(&self, place: &Place, from: u64, to: u64) -> usize {
        let zone = self.zone(to);
        let others = place.wanted.iter().filter(|node| **node != from);
        1 + others.filter(|node| zone.is_some() && self.zone(**node) == zone).count()
    }

    /// Nodes that could hold a replica of this group in place of `from`, the best first: those whose
    /// zones have fewest of its others, of these the least loaded.
    fn targets(&self, place: &Place, from: u64) -> Vec<u64> {
        let free = |node: &u64| self.takes(*node) && !place.wanted.contains(node);
        let mut free: Vec<u64> = self.nodes.keys().copied().filter(free).collect();
        free.sort_by_key(|node| (self.crowd(place, from, *node), self.load(*node), *node));
        free
    }

    fn target(&self, place: &Place, from: u64) -> Option<u64> {
        self.targets(place, from).first().copied()
    }

    /// A group that lacks somebody already, or is on its way, is left alone.
    fn is_whole(&self, place: &Place) -> bool {
        place.settled() && place.wanted.iter().all(|node| self.is_reachable(*node))
    }

    fn has_majority(&self, place: &Place) -> bool {
        let Some(voters) = &place.voters else { return false };
        let answering = voters.iter().filter(|node| self.is_reachable(**node)).count();
        answering * 2 > voters.len()
    }

    /// A replica on its way to a node that was lost meanwhile: to one that has a copy already, if
    /// there is such a one, and else to another.
    fn redirect(&self, group: GroupId, place: &Place) -> Option<Move> {
        let voters = place.voters.as_ref()?;
        let coming = place.wanted.difference(voters);
        let from = coming.copied().find(|node| !self.takes(*node))?;
        let mut back = voters.difference(&place.wanted).copied();
        let to = back.find(|node| self.takes(*node)).or_else(|| self.target(place, from))?;
        Some(Move { group, from, to })
    }

    /// Of what leaving nodes hold, copies that are lost come before those that are only unwanted.
    fn evacuate(&self) -> Option<Move> {
        let held = self.groups.iter().flat_map(|(group, place)| {
            let leaving = place.wanted.iter().filter(|node| self.is_leaving(**node));
            leaving.map(move |node| (*group, place, *node))
        });
        let mut held: Vec<_> = held.filter(|(_, place, _)| self.has_majority(place)).collect();
        held.sort_by_key(|(group, _, node)| (self.is_reachable(*node), *group));
        held.into_iter().find_map(|(group, place, from)| {
            let to = self.target(place, from)?;
            Some(Move { group, from, to })
        })
    }

    /// Of a zone that has several replicas of a group, one to a zone that has two fewer: with one
    /// fewer the two would only change places. The most loaded gives.
    fn spread(&self) -> Option<Move> {
        self.groups.iter().filter(|(_, place)| self.is_whole(place)).find_map(|(group, place)| {
            let crowd = |node: u64| self.crowd(place, node, node);
            let mut crowded: Vec<u64> = place.wanted.iter().copied().collect();
            crowded.retain(|node| crowd(*node) > 1);
            crowded.sort_by_key(|node| (Reverse((crowd(*node), self.load(*node))), *node));
            crowded.into_iter().find_map(|from| {
                let known = |to: &u64| self.zone(*to).is_some();
                let to = self.targets(place, from).into_iter().find(known)?;
                let is_better = self.crowd(place, from, to) < crowd(from);
                is_better.then_some(Move { group: *group, from, to })
            })
        })
    }

    /// From the node that holds most to the one that holds least, until they differ by one, or no
    /// group could move between them without being less apart.
    fn even_out(&self) -> Option<Move> {
        let hosts = self.nodes.keys().copied().filter(|node| self.takes(*node));
        let mut fit: Vec<u64> = hosts.collect();
        fit.sort_by_key(|node| (self.load(*node), *node));
        let mut fullest = fit.clone();
        fullest.sort_by_key(|node| (Reverse(self.load(*node)), *node));
        let pairs = fit.iter().flat_map(|to| fullest.iter().map(move |from| (*from, *to)));
        let uneven = pairs.filter(|(from, to)| self.load(*from) >= self.load(*to) + 2);
        uneven.into_iter().find_map(|(from, to)| {
            let (group, _) = self.groups.iter().find(|(_, place)| {
                self.is_whole(place)
                    && place.wanted.contains(&from)
                    && !place.wanted.contains(&to)
                    && self.crowd(place, from, to) <= self.crowd(place, from, from)
            })?;
            Some(Move { group: *group, from, to })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Nodes as `"1 2 3- 4? 5-? 6a"`: `-` is leaving, `?` does not answer, a letter is the zone.
    /// Groups as `"123"`, where replicas shall be, or `"124/123"`, with who votes; `"123/"`: nobody
    /// says.
    fn plan(nodes: &str, groups: &[&str]) -> Option<Move> {
        let digits = |text: &str| text.bytes().map(|digit| u64::from(digit - b'0')).collect();
        let nodes = nodes.split_whitespace().map(|text| {
            let node = u64::from(text.as_bytes()[0] - b'0');
            let zone = text.matches(char::is_alphabetic).next().map(str::to_owned);
            let host = Host { leaving: text.contains('-'), reachable: !text.contains('?'), zone };
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

    #[test]
    fn the_replicas_of_a_group_move_apart_over_zones_and_never_closer() {
        let to = |group, from, to| Some(Move { group: GroupId(group), from, to });
        for (nodes, groups, expected) in [
            // Two in one zone, and another has none: the most loaded gives, the least loaded takes.
            ("1a 2a 3b 4c", &["123"][..], to(1, 1, 4)),
            ("1a 2a 3b 4c", &["134", "123", "234"], to(2, 1, 4)),
            ("1a 2a 3b 4c", &["234", "123", "234"], to(2, 2, 4)),
            ("1a 2a 3b 4c 5c", &["123", "134", "234"], to(1, 1, 5)),
            // They are apart, or as far apart as there are zones.
            ("1a 2b 3c", &["123"], None),
            ("1a 2a 3b", &["123"], None),
            ("1a 2a 3a 4b", &["124"], None),
            ("1a 2a 3a 4b 5b", &["12345"], None),
            ("1a 2a 3a 4b 5b 6c", &["1234"], to(1, 1, 6)),
            // One zone for three: what is left crowded is as good elsewhere.
            ("1a 2a 3b 4b", &["123", "134", "234", "124"], None),
            // Nothing moves to where no zone is known, nor because of it.
            ("1a 2a 3b 4", &["123"], None),
            ("1 2 3 4a", &["123", "234"], None),
            ("1 2 3a 4b", &["123", "123"], to(1, 1, 4)),
            // Nor to nodes that leave or do not answer, nor from a group that lacks somebody.
            ("1a 2a 3b 4c-", &["123"], None),
            ("1a 2a 3b 4c?", &["123"], None),
            ("1a 2a 3b? 4c", &["123"], None),
            ("1a 2a 3b 4c", &["123/"], None),
            ("1a 2a 3b 4c 5c", &["135/123", "123"], None),
            // Whoever leaves is replaced in a zone without one, though others hold less.
            ("1a- 2b 3c 4b 5a", &["123", "235", "235"], to(1, 1, 5)),
            ("1a- 2b 3c 4b 5c", &["123", "235"], to(1, 1, 4)),
            // A target that is lost as well.
            ("1a- 2b 3c 4a? 5b 6a", &["234/123", "236"], to(1, 4, 6)),
            // Loads are evened out where no group comes closer by it.
            ("1a 2b 3c 4c", &["123", "123", "123"], to(1, 3, 4)),
            ("1a 2b 3c 4c", &["123", "124", "123", "124"], None),
            ("1a 2b 3c 4d", &["123", "123", "123"], to(1, 1, 4)),
        ] {
            assert_eq!(plan(nodes, groups), expected, "{nodes}: {groups:?}");
        }
    }

    /// A cluster that does as it is told, at its own pace.
    struct World {
        nodes: BTreeMap<u64, Host>,
        groups: BTreeMap<GroupId, Place>,
        /// Of the nodes in turn.
        zones: Vec<Option<u8>>,
    }

    impl World {
        fn new(nodes: u64, groups: u16, factor: u64, zones: Vec<Option<u8>>) -> World {
            let place = |group: u16| {
                let first = u64::from(group);
                let wanted: BTreeSet<u64> = (0..factor).map(|n| (first + n) % nodes + 1).collect();
                Place { voters: Some(wanted.clone()), wanted }
            };
            let groups = (1..=groups).map(|group| (GroupId(group), place(group))).collect();
            let mut world = World { nodes: BTreeMap::new(), groups, zones };
            (1..=nodes).for_each(|node| world.join(node));
            world
        }

        fn join(&mut self, node: u64) {
            let zone = self.zones[node as usize % self.zones.len()].map(|zone| zone.to_string());
            self.nodes.insert(node, Host { leaving: false, reachable: true, zone });
        }

        /// Whether a group has two replicas more in one zone than in another that could take one.
        fn is_crowded(&self, place: &Place) -> bool {
            let in_zone = |zone: &str| {
                let of = |node: &&u64| self.nodes[*node].zone.as_deref() == Some(zone);
                place.wanted.iter().filter(of).count()
            };
            let zone = |node: &u64| self.nodes[node].zone.as_deref();
            let most = place.wanted.iter().filter_map(zone).map(in_zone).max();
            let free = self.staying().into_iter().filter(|node| !place.wanted.contains(node));
            let free: Vec<u64> = free.collect();
            let least = free.iter().filter_map(zone).map(in_zone).min();
            most.zip(least).is_some_and(|(most, least)| most >= least + 2)
        }

        /// How many replicas each of the nodes that stay holds, by what may be evened out.
        fn loads(&self) -> BTreeMap<Option<String>, Vec<usize>> {
            let mut loads: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
            let zoned = self.nodes.values().any(|host| host.zone.is_some());
            for node in self.staying() {
                let zone = self.nodes[&node].zone.clone();
                if zoned && zone.is_none() {
                    continue;
                }
                let held = self.groups.values().filter(|place| place.wanted.contains(&node));
                loads.entry(zone).or_default().push(held.count());
            }
            loads
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
        /// It was started anew, and is told another zone.
        Rezone(usize, Option<u8>),
        Steps(u8, bool),
    }

    fn zone() -> impl Strategy<Value = Option<u8>> {
        proptest::option::weighted(0.8, 0..4u8)
    }

    /// Often nobody was told any.
    fn zones() -> impl Strategy<Value = Vec<Option<u8>>> {
        prop_oneof![Just(vec![None]), proptest::collection::vec(zone(), 1..8)]
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Join),
            any::<usize>().prop_map(Event::Drain),
            any::<usize>().prop_map(Event::Die),
            (any::<usize>(), zone()).prop_map(|(which, zone)| Event::Rezone(which, zone)),
            (0..20u8, any::<bool>()).prop_map(|(steps, promptly)| Event::Steps(steps, promptly)),
        ]
    }

    proptest! {
        /// Whatever joins, leaves and dies meanwhile: it ends, with every group whole, on nodes that
        /// stay, over as many zones as there are, spread evenly within each; and no exchange leaves
        /// fewer good copies than there were.
        #[test]
        fn it_ends_evenly_and_never_with_fewer_good_copies(
            (nodes, factor, groups) in (3..6u64, 1..4u64, 1..20u16),
            zones in zones(),
            events in proptest::collection::vec(event(), 0..12),
        ) {
            let mut world = World::new(nodes, groups, factor, zones);
            for event in events {
                let staying = world.staying();
                let spare = staying.len() > factor as usize;
                match event {
                    Event::Join => {
                        let node = world.nodes.keys().max().expect("some") + 1;
                        world.join(node);
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
                            let host = world.nodes.get_mut(&node).expect("one");
                            (host.leaving, host.reachable) = (true, false);
                        }
                    }
                    Event::Rezone(which, zone) => {
                        let node = 1 + which as u64 % world.nodes.len() as u64;
                        let zone = zone.map(|zone| zone.to_string());
                        world.nodes.get_mut(&node).expect("one").zone = zone;
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
            for place in world.groups.values() {
                prop_assert!(place.settled());
                prop_assert_eq!(place.wanted.len(), factor as usize);
                prop_assert!(place.wanted.iter().all(|node| staying.contains(node)));
                prop_assert!(!world.is_crowded(place), "{:?} in {:?}", place, world.nodes);
            }
            for (zone, loads) in world.loads() {
                let (most, least) = (loads.iter().max(), loads.iter().min());
                prop_assert!(
                    most.unwrap_or(&0) - least.unwrap_or(&0) <= 1, "{:?}: {:?}", zone, loads,
                );
            }
        }
    }
}
