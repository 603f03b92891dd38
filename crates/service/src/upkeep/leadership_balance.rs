//! Leaderships spread over the nodes by themselves: a node that leads more groups than another does
//! hands one over, once that other has kept up for a while. Nodes that return after a failure, or
//! after everybody else was restarted, so come to lead their share again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::GroupId;
use replication::GroupStatus;
use tokio::time::Instant;

/// A node must have kept up for so long before it is given a group: one that comes and goes would
/// cost an interruption each time.
const STEADY: Duration = Duration::from_secs(5);
/// A node that has not answered for this long does not keep up.
const HEARD_MS_MAX: u64 = 1_000;
/// Nor does one whose log is this many entries behind.
const LAG_MAX: u64 = 256;
/// A difference of one cannot be evened out.
const DIFFERENCE_MIN: usize = 2;

/// Decides which leadership to hand over, one at a time.
#[derive(Default)]
pub(crate) struct LeadershipBalance {
    /// Since when each other node has kept up with every group led here.
    steady_since: BTreeMap<u64, Instant>,
}

impl LeadershipBalance {
    /// A group led here and the node that shall lead it, if there is something to even out; never
    /// one of `unfit`. `led`: how many groups others lead, by their own last word, of which this node
    /// may not hold all. The catalog stays where it is: leading it is little work.
    pub fn look(
        &mut self,
        here: u64,
        groups: &[GroupStatus],
        unfit: &BTreeSet<u64>,
        led: &BTreeMap<u64, usize>,
        now: Instant,
    ) -> Option<(GroupId, u64)> {
        let data = groups.iter().filter(|group| group.id != GroupId::CATALOG);
        let own: Vec<&GroupStatus> = data.clone().filter(|group| group.leading).collect();
        self.watch(here, &own, unfit, now);
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for leader in data.filter_map(|group| group.leader) {
            *counts.entry(leader).or_default() += 1;
        }
        // Its word may be a second old, and what is seen here not all.
        let said = |node: u64| led.get(&node).copied().unwrap_or(0);
        let count = |node: u64| counts.get(&node).copied().unwrap_or(0).max(said(node));
        let ready = |node: u64| {
            let since = self.steady_since.get(&node);
            since.is_some_and(|since| now.duration_since(*since) >= STEADY)
        };
        let moves = own.iter().flat_map(|group| {
            let others = group.voters.iter().filter(|node| **node != here && ready(**node));
            others.map(|node| (group.id, *node))
        });
        let (group, to) = moves.min_by_key(|(group, node)| (count(*node), *group))?;
        (count(here) >= count(to) + DIFFERENCE_MIN).then_some((group, to))
    }

    fn watch(&mut self, here: u64, led: &[&GroupStatus], unfit: &BTreeSet<u64>, now: Instant) {
        let mut keeping_up: BTreeMap<u64, bool> = BTreeMap::new();
        for group in led {
            for node in group.voters.iter().filter(|node| **node != here) {
                let fit = !unfit.contains(node);
                *keeping_up.entry(*node).or_insert(fit) &= keeps_up(group, *node);
            }
        }
        self.steady_since.retain(|node, _| keeping_up.get(node) == Some(&true));
        for (node, _) in keeping_up.into_iter().filter(|(_, keeps_up)| *keeps_up) {
            self.steady_since.entry(node).or_insert(now);
        }
    }
}

/// Whether a node has what a group led here has, or nearly, and answers.
pub(crate) fn keeps_up(group: &GroupStatus, node: u64) -> bool {
    let heard = group.heard_ms.get(&node).copied().flatten();
    let matched = group.matched.get(&node).copied().flatten();
    heard.is_some_and(|ms| ms <= HEARD_MS_MAX)
        && matched.is_some_and(|matched| {
            group.last_log.unwrap_or_default().saturating_sub(matched) <= LAG_MAX
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 1;

    fn group(id: u16, leader: u64) -> GroupStatus {
        GroupStatus {
            id: GroupId(id),
            term: 1,
            leader: Some(leader),
            leading: leader == HERE,
            last_log: Some(1_000),
            committed: Some(1_000),
            applied: Some(1_000),
            flushed: None,
            purged: None,
            voters: [1, 2, 3].into(),
            learners: [].into(),
            matched: [(2, Some(1_000)), (3, Some(1_000))].into(),
            heard_ms: [(2, Some(10)), (3, Some(10))].into(),
            confirmed_ms: None,
            failed: None,
        }
    }

    /// What is decided once everybody has kept up for long enough.
    fn decided(groups: &[GroupStatus]) -> Option<(GroupId, u64)> {
        let (mut balance, start) = (LeadershipBalance::default(), Instant::now());
        let fit = BTreeSet::new();
        assert_eq!(
            balance.look(HERE, groups, &fit, &BTreeMap::new(), start),
            None,
            "nobody is steady yet"
        );
        balance.look(HERE, groups, &fit, &BTreeMap::new(), start + STEADY)
    }

    #[test]
    fn the_busiest_gives_to_the_idlest_until_they_differ_by_one() {
        for (leaders, expected) in [
            (vec![1, 1, 1], Some((1, 2))),
            (vec![1, 1, 2], Some((1, 3))),
            (vec![1, 2, 1, 3, 1], Some((1, 2))),
            (vec![2, 3, 1, 1, 2], None),
            (vec![1, 2, 3], None),
            (vec![1, 1, 2, 3], None),
            (vec![2, 2, 2], None),
            (vec![1], None),
        ] {
            let groups: Vec<_> =
                leaders.iter().zip(1..).map(|(leader, id)| group(id, *leader)).collect();
            let expected = expected.map(|(group, node)| (GroupId(group), node));
            assert_eq!(decided(&groups), expected, "{leaders:?}");
        }
    }

    /// Of the groups of two nodes of four, the others' share is not seen here.
    #[test]
    fn what_others_lead_elsewhere_counts() {
        let groups = [group(1, 1), group(2, 1), group(3, 1)];
        let (mut balance, start, fit) =
            (LeadershipBalance::default(), Instant::now(), BTreeSet::new());
        let mut look = |led, at| balance.look(HERE, &groups, &fit, &led, start + at);
        assert_eq!(look(BTreeMap::new(), Duration::ZERO), None);
        assert_eq!(look([(2, 2), (3, 2)].into(), STEADY), None);
        assert_eq!(look([(2, 2), (3, 1)].into(), STEADY), Some((GroupId(1), 3)));
    }

    #[test]
    fn the_catalog_counts_for_nothing() {
        assert_eq!(decided(&[group(0, 1), group(1, 1), group(2, 2), group(3, 3)]), None);
    }

    #[test]
    fn who_does_not_keep_up_is_given_nothing() {
        let mut silent = group(1, 1);
        silent.heard_ms.insert(2, Some(HEARD_MS_MAX + 1));
        let mut behind = group(2, 1);
        behind.matched.insert(3, Some(1_000 - LAG_MAX - 1));
        assert_eq!(decided(&[silent.clone(), group(2, 1), group(3, 1)]), Some((GroupId(1), 3)));
        assert_eq!(decided(&[silent, behind, group(3, 1)]), None);
    }

    #[test]
    fn a_node_that_falters_waits_anew() {
        let groups = [group(1, 1), group(2, 1), group(3, 3)];
        let mut faltering = groups.clone();
        faltering[1].heard_ms.insert(2, None);
        let (fit, two) = (BTreeSet::new(), BTreeSet::from([2]));
        for (groups_then, unfit_then) in [(&faltering, &fit), (&groups, &two)] {
            let (mut balance, start) = (LeadershipBalance::default(), Instant::now());
            let none = BTreeMap::new();
            let mut look = |groups, unfit, at| balance.look(HERE, groups, unfit, &none, start + at);
            assert_eq!(look(&groups, &fit, Duration::ZERO), None);
            assert_eq!(look(groups_then, unfit_then, STEADY / 2), None);
            assert_eq!(look(&groups, &fit, STEADY), None);
            assert_eq!(look(&groups, &fit, 2 * STEADY), Some((GroupId(1), 2)));
        }
    }
}
