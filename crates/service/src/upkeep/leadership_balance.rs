//! Leaderships spread over the nodes by themselves: a node that leads more groups than another does
//! hands one over, once that other has kept up for a while. Nodes that return after a failure, or
//! after everybody else was restarted, so come to lead their share again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::GroupId;
use replication::GroupStatus;
use tokio::time::Instant;

/// A node must have kept up for so long before it is given a group, and a group have been led here: what comes and goes
/// costs an interruption each time.
const STEADY: Duration = Duration::from_secs(5);
/// A node that has fallen silent more than once must have kept up for twice as long each time, and so long at the most.
const STEADY_MAX: Duration = Duration::from_secs(300);
/// A node that has not been silent for so long is one that never was.
const SILENCES_FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// A node that has not answered for this long does not keep up.
const HEARD_MS_MAX: u64 = 1_000;
/// Nor does one whose log is this many entries behind.
const LAG_MAX: u64 = 256;
/// A difference of one cannot be evened out.
const DIFFERENCE_MIN: usize = 2;

/// Decides which leadership to hand over, one at a time.
#[derive(Default)]
pub(crate) struct LeadershipBalance {
    /// How each other node has done, by what the groups led here know of it.
    records: BTreeMap<u64, Record>,
    /// Since when each group is led here, and in which term.
    led_since: BTreeMap<GroupId, (u64, Instant)>,
}

/// What is remembered of a node.
#[derive(Default)]
struct Record {
    /// It has kept up with every group led here since then.
    steady_since: Option<Instant>,
    is_silent: bool,
    silences: u32,
    last_silent: Option<Instant>,
}

impl Record {
    fn note(&mut self, is_silent: bool, keeps_up: bool, now: Instant) {
        if self.last_silent.is_some_and(|at| now - at >= SILENCES_FORGOTTEN_AFTER) {
            (self.silences, self.last_silent) = (0, None);
        }
        if is_silent {
            self.silences += u32::from(!self.is_silent);
            self.last_silent = Some(now);
        }
        self.is_silent = is_silent;
        self.steady_since = match keeps_up {
            true => self.steady_since.or(Some(now)),
            false => None,
        };
    }

    fn is_steady(&self, now: Instant) -> bool {
        let doublings = self.silences.saturating_sub(1);
        let steady = STEADY.saturating_mul(2_u32.saturating_pow(doublings)).min(STEADY_MAX);
        self.steady_since.is_some_and(|since| now - since >= steady)
    }
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
        let ready = |node: u64| self.records.get(&node).is_some_and(|node| node.is_steady(now));
        let settled = |group: &&&GroupStatus| {
            self.led_since.get(&group.id).is_some_and(|(_, since)| now - *since >= STEADY)
        };
        let moves = own.iter().filter(settled).flat_map(|group| {
            let others = group.voters.iter().filter(|node| **node != here && ready(**node));
            others.map(|node| (group.id, *node))
        });
        let (group, to) = moves.min_by_key(|(group, node)| (count(*node), *group))?;
        (count(here) >= count(to) + DIFFERENCE_MIN).then_some((group, to))
    }

    fn watch(&mut self, here: u64, led: &[&GroupStatus], unfit: &BTreeSet<u64>, now: Instant) {
        let mut since = std::mem::take(&mut self.led_since);
        for group in led {
            let known = since.remove(&group.id).filter(|(term, _)| *term == group.term);
            self.led_since.insert(group.id, known.unwrap_or((group.term, now)));
        }
        // Of each: heard by some group, and keeps up with all.
        let mut seen: BTreeMap<u64, (bool, bool)> = BTreeMap::new();
        for group in led {
            for node in group.voters.iter().filter(|node| **node != here) {
                let (is_heard, keeps) = seen.entry(*node).or_insert((false, !unfit.contains(node)));
                *is_heard |= hears(group, *node);
                *keeps &= keeps_up(group, *node);
            }
        }
        for (node, record) in &mut self.records {
            if !seen.contains_key(node) {
                record.steady_since = None;
            }
        }
        for (node, (is_heard, keeps_up)) in seen {
            self.records.entry(node).or_default().note(!is_heard, keeps_up, now);
        }
    }
}

fn hears(group: &GroupStatus, node: u64) -> bool {
    group.heard_ms.get(&node).copied().flatten().is_some_and(|ms| ms <= HEARD_MS_MAX)
}

/// Whether a node has what a group led here has, or nearly, and answers.
pub(crate) fn keeps_up(group: &GroupStatus, node: u64) -> bool {
    let matched = group.matched.get(&node).copied().flatten();
    hears(group, node)
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

    #[test]
    fn a_leadership_that_just_came_stays_for_a_while() {
        let (none, fit) = (BTreeMap::new(), BTreeSet::new());
        let (mut balance, start) = (LeadershipBalance::default(), Instant::now());
        let mut look =
            |groups: &[GroupStatus], at| balance.look(HERE, groups, &fit, &none, start + at);
        let before = [group(1, 1), group(2, 2), group(3, 3)];
        assert_eq!(look(&before, Duration::ZERO), None);
        assert_eq!(look(&before, 2 * STEADY), None);
        // Node 3 has lost its group to this one, which had one before that may go at once.
        let mut after = [group(1, 1), group(2, 2), group(3, 1), group(4, 1)];
        after[0].term = 2;
        assert_eq!(look(&after, 3 * STEADY), None, "the first is in another term");
        assert_eq!(look(&after, 4 * STEADY - Duration::from_millis(1)), None);
        assert_eq!(look(&after, 4 * STEADY), Some((GroupId(1), 3)));
    }

    /// By how long a node must have kept up after its so many-th silence.
    #[test]
    fn who_dies_again_and_again_waits_longer_each_time() {
        let (none, fit) = (BTreeMap::new(), BTreeSet::new());
        let groups = [group(1, 1), group(2, 1), group(3, 3)];
        let mut silent = groups.clone();
        silent.iter_mut().for_each(|group| _ = group.heard_ms.insert(2, None));
        let (mut balance, mut now) = (LeadershipBalance::default(), Instant::now());
        let second = Duration::from_secs(1);
        for wait in [5, 5, 10, 20, 40, 80, 160, 300, 300] {
            let mut seconds = 0;
            while balance.look(HERE, &groups, &fit, &none, now).is_none() {
                (now, seconds) = (now + second, seconds + 1);
            }
            assert_eq!(seconds, wait);
            assert_eq!(balance.look(HERE, &silent, &fit, &none, now), None);
            now += second;
            assert_eq!(balance.look(HERE, &silent, &fit, &none, now), None, "one silence");
            now += second;
        }
        now += SILENCES_FORGOTTEN_AFTER;
        assert_eq!(balance.look(HERE, &groups, &fit, &none, now), None);
        assert!(balance.look(HERE, &groups, &fit, &none, now + STEADY).is_some(), "forgotten");
    }
}
