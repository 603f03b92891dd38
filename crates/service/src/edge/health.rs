//! How this node and what it would ask are, by its own judgement: whether to send clients here.

use domain::GroupId;
use replication::{GroupStatus, PeerStatus};

use crate::edge::catalog;
use crate::edge::router::Router;
use crate::exchange::{BEHIND_ENTRIES, GroupHealth, ReplicaHealth};

/// The other nodes of the cluster, as the catalog knows it; before it is known, whoever has an address.
pub(crate) fn peers(router: &Router) -> Vec<PeerStatus> {
    let nodes = catalog::nodes(&router.local.catalog());
    let mut peers = router.local.replication.peers();
    peers.retain(|peer| nodes.is_empty() || nodes.contains_key(&peer.node));
    peers
}

/// Every group this node would ask, and those with a replica here.
pub(super) fn groups(router: &Router) -> Vec<GroupHealth> {
    let status = router.local.replication.status();
    let leaders = router.standings.confirmed();
    let voters_wanted = catalog::voters_wanted(&router.local.catalog());
    let health = |id: GroupId| {
        let confirmed = leaders.get(&id);
        let here = status.iter().find(|status| status.id == id);
        let applied = here.and_then(|here| here.applied).unwrap_or(0);
        let known = here.and_then(|here| here.committed).unwrap_or(0).max(applied);
        // A replica that comes or goes serves nobody yet, or any more.
        let is_member =
            |own| id == GroupId::CATALOG || here.is_some_and(|here| here.voters.contains(own));
        GroupHealth {
            id,
            leader: confirmed.map(|confirmed| confirmed.leader),
            confirmed_ms: confirmed.map(|confirmed| confirmed.ms),
            leads: confirmed.is_some() && here.is_some_and(|here| here.leading),
            term: here.map_or(0, |here| here.term),
            lag: known - applied,
            failed: here.is_some_and(|here| here.failed.is_some()),
            is_member: is_member(&router.local.id),
            voters_wanted: voters_wanted.get(&id).copied().unwrap_or(0),
            replicas: here.filter(|here| here.leading).map_or_else(Vec::new, replicas),
        }
    };
    router.standings.groups().into_iter().map(health).collect()
}

/// The other replicas of a group led here.
fn replicas(here: &GroupStatus) -> Vec<ReplicaHealth> {
    let others = here.voters.union(&here.learners).filter(|node| Some(**node) != here.leader);
    let replica = |node: &u64| {
        let matched = here.matched.get(node).copied().flatten();
        let behind = here
            .last_log
            .map_or(0, |last| last + 1)
            .saturating_sub(matched.map_or(0, |index| index + 1));
        ReplicaHealth {
            node: *node,
            votes: here.voters.contains(node),
            lag: behind,
            heard_ms: here.heard_ms.get(node).copied().flatten(),
        }
    };
    others.map(replica).collect()
}

/// Why a node is not ready, or nothing.
pub(super) fn not_ready(router: &Router, groups: &[GroupHealth], peers: &[PeerStatus]) -> String {
    let rows = router.local.catalog();
    let Some(cluster) = catalog::cluster(&rows) else {
        return with_peers("the cluster is not known yet".to_owned(), peers);
    };
    let placed = catalog::groups(&rows);
    if placed.len() <= usize::from(cluster.data_groups) {
        return "the groups are not placed yet".to_owned();
    }
    // Nothing is asked yet of those that are not open.
    let is_open = |group: GroupId| group.0 <= cluster.data_groups;
    let groups = groups.iter().filter(|group| is_open(group.id)).cloned().collect::<Vec<_>>();
    let placed = placed.into_iter().filter(|(group, _)| is_open(*group));
    let (own, running) = (router.local.id, router.local.replication.status());
    for (group, _) in placed.filter(|(_, replicas)| replicas.contains(&own)) {
        if !running.iter().any(|status| status.id == group) {
            return format!("group {group} does not run here yet");
        }
    }
    let why = want_of_leaders(&groups);
    if !why.is_empty() {
        return with_peers(why, peers);
    }
    if !router.caught_up.is_done() {
        return "the catalog has not caught up here since the node started".to_owned();
    }
    let clock = router.local.clock.report();
    // Nothing is stamped here before that. One that is wrong has others lead, and passes on to them.
    if let (None, Some(why)) = (clock.off_ms, clock.trouble()) {
        return with_peers(why.to_owned(), peers);
    }
    for group in groups.iter().filter(|group| group.is_member) {
        let id = group.id;
        if group.failed {
            return format!("group {id} has stopped here");
        }
        if group.lag > BEHIND_ENTRIES {
            return format!("group {id} is {} entries behind", group.lag);
        }
    }
    String::new()
}

/// The groups without a leader that a majority confirms, in words; nothing if each has one.
fn want_of_leaders(groups: &[GroupHealth]) -> String {
    let without = groups.iter().filter(|group| group.leader.is_none());
    let names: Vec<String> = without.map(|group| group.id.to_string()).collect();
    match &names[..] {
        [] => String::new(),
        [one] => format!("group {one} has no leader that a majority confirms"),
        some => format!("groups {} have no leader that a majority confirms", some.join(", ")),
    }
}

/// And which peers do not answer, or not this node: that is mostly why.
fn with_peers(why: String, peers: &[PeerStatus]) -> String {
    let silent = peers.iter().filter(|peer| !peer.is_up()).map(|peer| match peer.refuses {
        Some(_) => format!("node {} refuses this node", peer.node),
        None => format!("node {} does not answer", peer.node),
    });
    [why].into_iter().chain(silent).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_which_groups_have_no_leader_and_who_is_away() {
        let group = |id, leader: Option<u64>| GroupHealth {
            id: GroupId(id),
            leader,
            confirmed_ms: leader,
            leads: false,
            term: 1,
            lag: 0,
            failed: false,
            is_member: true,
            voters_wanted: 3,
            replicas: Vec::new(),
        };
        let peer = |node, heard_ms, refuses: Option<&str>| PeerStatus {
            node,
            heard_ms,
            refuses: refuses.map(str::to_owned),
        };
        let peers =
            [peer(2, Some(9_000), None), peer(3, None, Some("a secret")), peer(4, Some(1), None)];
        for (groups, expected) in [
            (vec![group(0, Some(1)), group(1, Some(2))], ""),
            (
                vec![group(0, Some(1)), group(1, None)],
                "group 1 has no leader that a majority confirms",
            ),
            (
                vec![group(0, None), group(1, None)],
                "groups 0, 1 have no leader that a majority confirms",
            ),
        ] {
            assert_eq!(want_of_leaders(&groups), expected);
        }
        let told = "x; node 2 does not answer; node 3 refuses this node";
        assert_eq!(with_peers("x".to_owned(), &peers), told, "strangers are not told why");
    }
}
