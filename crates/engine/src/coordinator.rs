//! What the cluster knows about idle entities together: leaders name candidates, every node is asked
//! whether it uses them, and what is left may be sealed. It needs no memory: a candidate that is
//! spared, or whose coordinator falls, is named again.

use std::collections::{BTreeMap, BTreeSet};

use domain::{EntityId, GroupId};

use crate::Candidate;

/// What nodes named, each by whoever leads its group, as far as that is known: of two that believe
/// to, the one counts that knows of the later use.
pub fn candidates(
    named: impl IntoIterator<Item = (GroupId, Candidate)>,
) -> BTreeMap<EntityId, (GroupId, Candidate)> {
    let mut all: BTreeMap<EntityId, (GroupId, Candidate)> = BTreeMap::new();
    for (group, candidate) in named {
        match all.get(&candidate.entity) {
            Some((_, known)) if known.idle_since >= candidate.idle_since => (),
            Some(_) | None => drop(all.insert(candidate.entity, (group, candidate))),
        }
    }
    all
}

/// What no node said it uses, longest idle first. A node that gives no answer vetoes nothing: were
/// it used over that node, the group's leader would have heard of it within the window.
pub fn unused(
    candidates: BTreeMap<EntityId, (GroupId, Candidate)>,
    used: &BTreeSet<EntityId>,
) -> Vec<(GroupId, Candidate)> {
    let unused = candidates.into_values().filter(|(_, idle)| !used.contains(&idle.entity));
    let mut unused: Vec<(GroupId, Candidate)> = unused.collect();
    unused.sort_by_key(|(_, idle)| idle.idle_since);
    unused
}
