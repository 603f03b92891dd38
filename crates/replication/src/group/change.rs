//! Which change of a group's members comes next. Each is one step from what is applied, so whoever
//! leads can take it, and one that was left half done is found again.
//!
//! Invariant: a replica gets a vote only once it asked for it, having caught up, and the vote it
//! takes the place of ends in the same joint change, or in one after it. So there are never fewer
//! copies that count than before.

use std::collections::BTreeSet;

use crate::Wanted;
use crate::member::node_of;
use crate::raft::Membership;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// The asking replica's node has no place in the group.
    Refuse,
    TakeIn,
    /// Learners that nobody needs: of incarnations their node has lost, or of nodes that shall not
    /// be here.
    Drop(BTreeSet<u64>),
    /// These are the voters then. Who is one no more goes, or stays as a learner.
    Votes {
        voters: BTreeSet<u64>,
        keep: bool,
    },
}

/// What is left to do until an asking replica has its place. While nobody said which nodes are
/// wanted, it is that of an earlier incarnation of its node.
pub(super) fn for_replica(membership: &Membership, id: u64, wanted: Option<&Wanted>) -> Step {
    let ids: BTreeSet<u64> = membership.nodes().map(|(id, _)| *id).collect();
    let same_node = |other: &u64| *other != id && node_of(*other) == node_of(id);
    let former: BTreeSet<u64> = ids.iter().copied().filter(same_node).collect();
    let has_place = match wanted {
        Some(wanted) => wanted.replicas.contains(&node_of(id)),
        None => !former.is_empty(),
    };
    if !ids.contains(&id) {
        return if has_place { Step::TakeIn } else { Step::Refuse };
    }
    let sets = membership.get_joint_config();
    let votes = |id: &u64| sets.iter().any(|set| set.contains(id));
    let lost: BTreeSet<u64> = former.iter().copied().filter(|former| !votes(former)).collect();
    if !lost.is_empty() {
        return Step::Drop(lost);
    }
    let voters = sets.last().cloned().unwrap_or_default();
    let mut next = &voters - &former;
    let mut keep = false;
    if next.len() < voters.len() {
        next.insert(id);
    } else if let Some(wanted) = wanted
        && !voters.contains(&id)
        && wanted.voters.contains(&node_of(id))
    {
        let leaving = voters.iter().find(|id| !wanted.voters.contains(&node_of(**id)));
        match leaving {
            // The only voter leads, and hands over to one that votes: that comes first.
            Some(_) if voters.len() == 1 => {
                next.insert(id);
            }
            Some(leaving) => {
                keep = wanted.replicas.contains(&node_of(*leaving));
                next.remove(leaving);
                next.insert(id);
            }
            None if voters.len() < wanted.voters_max => {
                next.insert(id);
            }
            None => (),
        }
    }
    match next == voters && sets.len() == 1 {
        true => Step::Nothing,
        // Also where a change was left between its two halves.
        false => Step::Votes { voters: next, keep },
    }
}

/// What is left to do without anybody asking: a change left half done, replicas of nodes that shall
/// not be here, and votes beyond those that are wanted.
pub(super) fn by_itself(membership: &Membership, wanted: &Wanted) -> Step {
    let sets = membership.get_joint_config();
    let voters = sets.last().cloned().unwrap_or_default();
    if sets.len() > 1 {
        return Step::Votes { voters, keep: false };
    }
    let learners = membership.nodes().map(|(id, _)| *id).filter(|id| !voters.contains(id));
    let lost: BTreeSet<u64> =
        learners.filter(|id| !wanted.replicas.contains(&node_of(*id))).collect();
    if !lost.is_empty() {
        return Step::Drop(lost);
    }
    let enough = wanted.voters.len().min(wanted.voters_max).max(1);
    let leaving = voters.iter().find(|id| !wanted.voters.contains(&node_of(**id)));
    match leaving {
        Some(leaving) if voters.len() > enough => {
            let keep = wanted.replicas.contains(&node_of(*leaving));
            let voters = voters.iter().copied().filter(|id| id != leaving).collect();
            Step::Votes { voters, keep }
        }
        _ => Step::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use openraft::EmptyNode;

    use super::*;
    use crate::member::id_of;

    fn membership(sets: &[&[u64]], learners: &[u64]) -> Membership {
        let sets: Vec<BTreeSet<u64>> =
            sets.iter().map(|set| set.iter().copied().collect()).collect();
        let nodes: BTreeMap<u64, EmptyNode> =
            sets.iter().flatten().chain(learners).map(|id| (*id, EmptyNode {})).collect();
        Membership::new(sets, nodes).expect("a membership")
    }

    fn votes(voters: &[u64], keep: bool) -> Step {
        Step::Votes { voters: voters.iter().copied().collect(), keep }
    }

    fn wanted(replicas: &[u64], voters: &[u64], voters_max: usize) -> Wanted {
        let set = |nodes: &[u64]| nodes.iter().copied().collect();
        Wanted { replicas: set(replicas), voters: set(voters), voters_max }
    }

    #[test]
    fn a_node_that_returns_is_taken_in_then_takes_its_old_vote() {
        let (again, third) = (id_of(3, 7), id_of(3, 9));
        let founders: &[u64] = &[1, 2, 3];
        let after: &[u64] = &[1, 2, again];
        for (sets, learners, id, expected) in [
            (&[founders][..], &[][..], again, Step::TakeIn),
            (&[founders], &[again], again, votes(after, false)),
            (&[founders, after], &[], again, votes(after, false)),
            (&[after], &[], again, Step::Nothing),
            // It lost its disk once more on the way.
            (&[founders], &[again], third, Step::TakeIn),
            (&[founders], &[again, third], third, Step::Drop([again].into())),
            (&[founders, after], &[third], third, votes(&[1, 2, third], false)),
            // A learner gets no vote, and a stranger nothing.
            (&[&[1, 2]], &[3, again], again, Step::Drop([3].into())),
            (&[&[1, 2]], &[again], again, Step::Nothing),
            (&[&[1, 2]], &[], again, Step::Refuse),
        ] {
            let membership = membership(sets, learners);
            assert_eq!(for_replica(&membership, id, None), expected, "{sets:?} {learners:?} {id}");
            // The same, where it is known who is wanted.
            let wanted = wanted(&[1, 2, 3], &[1, 2, 3], 3);
            if sets[0].len() == 3 {
                let found = for_replica(&membership, id, Some(&wanted));
                assert_eq!(found, expected, "{sets:?} {learners:?} {id}");
            }
        }
    }

    #[test]
    fn a_node_that_comes_takes_the_vote_of_one_that_goes() {
        let new = id_of(4, 7);
        let moved = wanted(&[2, 3, 4], &[2, 3, 4], 3);
        let founders: &[u64] = &[1, 2, 3];
        let after: &[u64] = &[2, 3, new];
        for (sets, learners, expected) in [
            (&[founders][..], &[][..], Step::TakeIn),
            (&[founders], &[new], votes(after, false)),
            (&[founders, after], &[], votes(after, false)),
            (&[after], &[], Step::Nothing),
        ] {
            let found = for_replica(&membership(sets, learners), new, Some(&moved));
            assert_eq!(found, expected, "{sets:?} {learners:?}");
        }
        // Who goes, or was never wanted, has nothing to ask for; who is out is told so.
        assert_eq!(for_replica(&membership(&[founders], &[]), 1, Some(&moved)), Step::Nothing);
        assert_eq!(for_replica(&membership(&[after], &[]), 1, Some(&moved)), Step::Refuse);
        assert_eq!(for_replica(&membership(&[after], &[]), 5, Some(&moved)), Step::Refuse);
    }

    #[test]
    fn the_only_replica_of_a_group_moves_by_way_of_two() {
        let new = id_of(4, 7);
        let moved = wanted(&[4], &[4], 1);
        for (sets, learners, asked, by_itself_) in [
            (&[&[1][..]][..], &[][..], Step::TakeIn, Step::Nothing),
            (&[&[1]], &[new], votes(&[1, new], false), Step::Nothing),
            (&[&[1, new]], &[], Step::Nothing, votes(&[new], false)),
            (&[&[new]], &[], Step::Nothing, Step::Nothing),
        ] {
            let membership = membership(sets, learners);
            assert_eq!(for_replica(&membership, new, Some(&moved)), asked, "{sets:?} {learners:?}");
            assert_eq!(by_itself(&membership, &moved), by_itself_, "{sets:?} {learners:?}");
        }
    }

    #[test]
    fn all_nodes_hold_the_catalog_and_some_of_them_vote() {
        let all = &[1, 2, 3, 4, 5, 6][..];
        let all_stay = wanted(all, all, 5);
        let three = membership(&[&[1, 2, 3]], &[4]);
        assert_eq!(for_replica(&three, 4, Some(&all_stay)), votes(&[1, 2, 3, 4], false));
        let five = membership(&[&[1, 2, 3, 4, 5]], &[6]);
        assert_eq!(for_replica(&five, 6, Some(&all_stay)), Step::Nothing);
        // One is drained: it goes on to hold the catalog, and the sixth votes in its place.
        let draining = wanted(all, &[1, 3, 4, 5, 6], 5);
        assert_eq!(for_replica(&five, 6, Some(&draining)), votes(&[1, 3, 4, 5, 6], true));
        assert_eq!(by_itself(&five, &draining), Step::Nothing, "there is one to take its place");
    }

    #[test]
    fn what_nobody_asks_for_is_tidied_up() {
        let of = |nodes: &[u64]| wanted(nodes, nodes, 3);
        for (sets, learners, wanted, expected) in [
            (&[&[1, 2, 3][..]][..], &[][..], of(&[1, 2, 3]), Step::Nothing),
            // A vote ends by itself only where enough are left.
            (&[&[1, 2, 3]], &[], of(&[2, 3, 4]), Step::Nothing),
            (&[&[1, 2, 3, 4]], &[], of(&[2, 3, 4]), votes(&[2, 3, 4], false)),
            (&[&[1, 2, 3, 4]], &[], wanted(&[1, 2, 3, 4], &[2, 3, 4], 5), votes(&[2, 3, 4], true)),
            // A copy on its way to a node that is not wanted any more.
            (&[&[1, 2, 3]], &[4], of(&[1, 2, 3]), Step::Drop([4].into())),
            (&[&[1, 2, 3]], &[4], of(&[2, 3, 4]), Step::Nothing),
            // Left between its two halves.
            (&[&[1, 2, 3], &[2, 3, 4]], &[], of(&[2, 3, 4]), votes(&[2, 3, 4], false)),
        ] {
            let found = by_itself(&membership(sets, learners), &wanted);
            assert_eq!(found, expected, "{sets:?} {learners:?} {wanted:?}");
        }
    }
}
