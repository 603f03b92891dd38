//! The cluster as its nodes see it, put together from what each says of itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::certificates::certificate_trouble;
use crate::clock::ClockReport;
use crate::edge::standings::{self, Confirmed};
use crate::exchange::{BEHIND_ENTRIES, NodeReport};
use domain::{GroupId, NodeRow};
use replication::{CertificateEnd, DiskStatus, GroupStatus, NodeDescription};

/// The cluster as far as the asked node reaches it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterStatus {
    /// Absent while this node knows no cluster.
    pub cluster_id: Option<u128>,
    pub durability: &'static str,
    pub development: bool,
    pub version: &'static str,
    /// What nodes may write into logs; 0 while this node knows no cluster.
    pub feature_level: u32,
    /// On which entities are put: groups 1 to so many; 0 while this node knows no cluster.
    pub data_groups: u16,
    pub answered_by: u64,
    pub nodes: Vec<NodeStatus>,
    pub groups: Vec<GroupView>,
    /// What is wrong, in words, the worst first; empty if nothing is.
    pub wrong: Vec<String>,
}

/// What a node is to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It was added, and does not hold the catalog yet.
    Joining,
    Active,
    /// It leads nothing for now, and keeps its replicas.
    Maintenance,
    Draining,
    /// It holds and leads nothing any more: it may be stopped and removed.
    Drained,
    /// It is gone for good, and what it held is being replaced.
    Removed,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatus {
    pub node: u64,
    pub role: Role,
    /// Data groups that count it among their nodes, or shall.
    pub replicas: u32,
    pub addresses: NodeRow,
    pub reachable: bool,
    pub groups_led: u32,
    /// Absent where the node was not reached.
    pub disk: Option<DiskStatus>,
    /// Nothing where the node was not reached.
    pub clock: ClockReport,
    /// Empty, or what an operator should know.
    pub note: String,
    /// Absent where the node was not reached, or is of a version that does not tell.
    pub description: Option<NodeDescription>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GroupView {
    pub id: GroupId,
    pub leader: Option<u64>,
    pub term: u64,
    /// How long the leader has led, as it says itself.
    pub led_ms: Option<u64>,
    pub replicas: Vec<ReplicaView>,
}

/// Indexes are 0 where there is nothing yet or the node was not reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaView {
    pub node: u64,
    pub reachable: bool,
    /// It counts for a majority. A node that lost what it held does not until it has caught up.
    pub voter: bool,
    pub last_log: u64,
    pub applied: u64,
    pub flushed: u64,
    pub purged: u64,
    /// Entries the leader has that this replica has not applied.
    pub lag: u64,
}

/// What each group looks like, by the nodes' own words; `members` are those the catalog names, for
/// groups none of whose replicas was reached. In one group the leader that a majority confirms in the
/// highest term counts; `confirmed`: as this node knows it.
pub(crate) fn groups(
    reports: &BTreeMap<u64, NodeReport>,
    members: &BTreeMap<GroupId, Vec<u64>>,
    confirmed: &BTreeMap<GroupId, Confirmed>,
) -> Vec<GroupView> {
    let mut groups: BTreeSet<GroupId> = members.keys().copied().collect();
    groups.extend(reports.values().flat_map(|report| report.groups.iter().map(|g| g.id)));
    let view = |id| group(id, reports, members.get(&id), confirmed.get(&id));
    groups.into_iter().map(view).collect()
}

fn group(
    id: GroupId,
    reports: &BTreeMap<u64, NodeReport>,
    members: Option<&Vec<u64>>,
    known: Option<&Confirmed>,
) -> GroupView {
    let seen: BTreeMap<u64, &GroupStatus> = reports
        .iter()
        .filter_map(|(node, report)| {
            Some((*node, report.groups.iter().find(|group| group.id == id)?))
        })
        .collect();
    // Not whom a vote names: that node may be dead, or alone.
    let told = seen.values().filter_map(|group| standings::confirmed(group));
    let leader = told.chain(known.copied()).max_by_key(|confirmed| confirmed.term);
    let leader = leader.map(|confirmed| confirmed.leader);
    let head = leader.and_then(|leader| seen.get(&leader)).and_then(|group| group.last_log);
    let mut nodes: BTreeSet<u64> = members.into_iter().flatten().copied().collect();
    nodes.extend(seen.values().flat_map(|g| g.voters.iter().chain(&g.learners)));
    // Who votes is the leader's to say; any other may not know yet.
    let voters = leader.and_then(|leader| seen.get(&leader)).or(seen.values().next());
    let votes = |node: u64| {
        // By the leader's word, a node that lost what it held learns anew beside the vote it had.
        let counts =
            |group: &&GroupStatus| group.voters.contains(&node) && !group.learners.contains(&node);
        // And its own, which knows of no place in the group while the leader has not heard of the loss. A learner
        // that was just given its vote has its place.
        let belongs =
            |own: &&GroupStatus| own.voters.contains(&node) || own.learners.contains(&node);
        voters.is_some_and(counts) && seen.get(&node).is_none_or(belongs)
    };
    let replica = |node: u64| match seen.get(&node) {
        None => ReplicaView { node, voter: votes(node), ..ReplicaView::default() },
        Some(status) => ReplicaView {
            node,
            reachable: true,
            voter: votes(node),
            last_log: status.last_log.unwrap_or(0),
            applied: status.applied.unwrap_or(0),
            flushed: status.flushed.unwrap_or(0),
            purged: status.purged.unwrap_or(0),
            lag: head.unwrap_or(0).saturating_sub(status.applied.unwrap_or(0)),
        },
    };
    GroupView {
        id,
        leader,
        term: seen.values().map(|group| group.term).max().unwrap_or(0),
        led_ms: None,
        replicas: nodes.into_iter().map(replica).collect(),
    }
}

/// Since when each group is led, by its leader's own word.
pub(crate) fn date(groups: &mut [GroupView], told: &BTreeMap<u64, NodeDescription>) {
    for group in groups {
        let leader = group.leader.and_then(|leader| told.get(&leader));
        let led = leader.into_iter().flat_map(|leader| &leader.led);
        group.led_ms = led
            .filter(|led_group| led_group.group == group.id && led_group.term == group.term)
            .map(|led_group| led_group.led_ms)
            .next();
    }
}

/// Certificates of a node that end soon, or have ended.
pub(crate) fn ending(told: &NodeDescription, now_s: i64) -> Vec<String> {
    let trouble = |CertificateEnd { shown_to, at_s }: &CertificateEnd| {
        let why = certificate_trouble(at_s.saturating_sub(now_s))?;
        Some(format!("its certificate for {shown_to} {why}; replace its files"))
    };
    told.certificates.iter().filter_map(trouble).collect()
}

/// What is wrong with a cluster, the worst first. `voters_wanted`: how many votes each group shall
/// have; `asked`: the nodes that were; `now_s`: what certificates are held against.
pub(crate) fn wrong(
    nodes: &[NodeStatus],
    groups: &[GroupView],
    voters_wanted: &BTreeMap<GroupId, usize>,
    reports: &BTreeMap<u64, NodeReport>,
    asked: &BTreeSet<u64>,
    now_s: i64,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let leaderless: Vec<String> = groups
        .iter()
        .filter(|group| group.leader.is_none())
        .map(|group| group.id.to_string())
        .collect();
    match &leaderless[..] {
        [] => (),
        [one] => wrong.push(format!("group {one} stands still: no majority confirms a leader")),
        some => {
            let some = some.join(", ");
            wrong.push(format!("groups {some} stand still: no majority confirms a leader"));
        }
    }
    let missing = nodes.iter().filter(|node| asked.contains(&node.node) && !node.reachable);
    let missing = missing.filter(|node| node.role != Role::Removed);
    wrong.extend(missing.map(|node| format!("node {} is not reachable", node.node)));
    wrong.extend(reports.iter().filter_map(|(node, report)| {
        let told = note(report);
        (!told.is_empty()).then(|| format!("node {node}: {told}"))
    }));
    for node in nodes {
        let ending = node.description.iter().flat_map(|told| ending(told, now_s));
        wrong.extend(ending.map(|why| format!("node {}: {why}", node.node)));
    }
    for group in groups.iter().filter(|group| group.leader.is_some()) {
        let votes = group.replicas.iter().filter(|replica| replica.voter).count();
        let wanted = voters_wanted.get(&group.id).copied().unwrap_or(0);
        // One that comes to a group which can lose as many as it shall is no news.
        let lacks_votes = failures_borne(votes) < failures_borne(wanted);
        for replica in group.replicas.iter().filter(|replica| replica.reachable) {
            let (id, node, lag) = (group.id, replica.node, replica.lag);
            if !replica.voter && lacks_votes {
                wrong.push(format!("group {id}: the replica on node {node} has no vote yet"));
            } else if lag > BEHIND_ENTRIES {
                wrong.push(format!("group {id}: node {node} is {lag} entries behind"));
            }
        }
    }
    wrong.extend(crowded(nodes, groups));
    wrong
}

/// Groups that would lose several replicas with one zone, though there is another that has none.
fn crowded(nodes: &[NodeStatus], groups: &[GroupView]) -> Option<String> {
    let zone = |node: u64| {
        let known = nodes.iter().find(|known| known.node == node)?;
        known.description.as_ref()?.zone.as_deref()
    };
    let open = nodes.iter().filter(|node| matches!(node.role, Role::Active | Role::Maintenance));
    let open: BTreeSet<&str> = open.filter_map(|node| zone(node.node)).collect();
    let is_crowded = |group: &&GroupView| {
        let held: Vec<&str> = group
            .replicas
            .iter()
            .filter(|held| held.voter)
            .filter_map(|held| zone(held.node))
            .collect();
        let zones: BTreeSet<&str> = held.iter().copied().collect();
        zones.len() < held.len() && open.difference(&zones).next().is_some()
    };
    let data = groups.iter().filter(|group| group.id != GroupId::CATALOG);
    let crowded: Vec<String> = data.filter(is_crowded).map(|group| group.id.to_string()).collect();
    let some = match &crowded[..] {
        [] => return None,
        [one] => format!("group {one} has"),
        some => format!("groups {} have", some.join(", ")),
    };
    Some(format!(
        "{some} several replicas in one zone, and none in another that has nodes for them"
    ))
}

/// How many voters may be away while a majority is left.
fn failures_borne(voters: usize) -> usize {
    voters.saturating_sub(1) / 2
}

/// What an operator should know of a node: replicas that stopped, a disk that is nearly full, and a
/// clock that is off.
pub(crate) fn note(report: &NodeReport) -> String {
    let stopped = report.groups.iter().filter_map(|group| {
        let why = group.failed.as_ref()?;
        Some(format!("group {} stopped: {why}", group.id))
    });
    let DiskStatus { free_bytes, reserve_bytes, low } = report.disk;
    let disk = low.then(|| {
        let (free, reserve) = (free_bytes >> 20, reserve_bytes >> 20);
        format!("its disk is nearly full: {free} MiB are free, {reserve} MiB are kept back")
    });
    let clock = report.clock.trouble().map(str::to_owned);
    stopped.chain(disk).chain(clock).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use replication::LedGroup;

    use super::*;

    fn status(group: u16, term: u64, leader: Option<u64>, applied: u64) -> GroupStatus {
        GroupStatus {
            id: GroupId(group),
            term,
            leader,
            leading: false,
            last_log: Some(applied + 1),
            committed: Some(applied),
            applied: Some(applied),
            flushed: None,
            purged: None,
            voters: [1, 2, 3].into(),
            learners: BTreeSet::new(),
            matched: [(2, Some(5)), (3, None)].into(),
            heard_ms: [(2, Some(3)), (3, None)].into(),
            confirmed_ms: None,
            failed: None,
        }
    }

    fn report(groups: Vec<GroupStatus>) -> NodeReport {
        let clock = ClockReport { off_ms: Some(-31_557_600_000), agrees: false };
        NodeReport { disk: DiskStatus::default(), clock, groups }
    }

    fn node(node: u64, reachable: bool) -> NodeStatus {
        NodeStatus {
            node,
            role: Role::Active,
            replicas: 1,
            addresses: NodeRow {
                peer_address: String::new(),
                grpc_address: String::new(),
                http_address: String::new(),
            },
            reachable,
            groups_led: 0,
            disk: None,
            clock: ClockReport::default(),
            note: String::new(),
            description: None,
        }
    }

    fn confirmed(ms: u64, status: GroupStatus) -> GroupStatus {
        GroupStatus { confirmed_ms: Some(ms), ..status }
    }

    /// Who only remembers a leader does not know whether it is there.
    #[test]
    fn a_leader_that_no_majority_confirms_is_not_named() {
        for (votes, leader) in [
            (vec![(1, confirmed(4_000, status(1, 7, Some(2), 40)))], None),
            (vec![(1, status(1, 7, Some(2), 40))], None),
            (vec![(1, confirmed(20, status(1, 7, Some(2), 40)))], Some(2)),
            (
                vec![(1, confirmed(20, status(1, 7, Some(2), 40))), (3, status(1, 8, Some(3), 40))],
                Some(2),
            ),
        ] {
            let reports = votes.iter().map(|(node, group)| (*node, report(vec![group.clone()])));
            let groups = groups(&reports.collect(), &BTreeMap::new(), &BTreeMap::new());
            assert_eq!(groups[0].leader, leader, "{votes:?}");
        }
    }

    #[test]
    fn the_highest_term_names_the_leader_and_the_unreached_are_listed() {
        let reports = [
            (1, report(vec![confirmed(1, status(1, 7, Some(3), 40))])),
            (2, report(vec![confirmed(2, status(1, 8, Some(2), 49))])),
        ];
        let groups = groups(&reports.into(), &[(GroupId(2), vec![3])].into(), &BTreeMap::new());
        assert_eq!((groups[0].leader, groups[0].term), (Some(2), 8));
        assert_eq!(groups[0].replicas[0].lag, 10);
        let unreached = &groups[0].replicas[2];
        assert_eq!((unreached.node, unreached.reachable, unreached.voter), (3, false, true));
        assert_eq!((groups[1].leader, groups[1].replicas.len()), (None, 1));
    }

    #[test]
    fn a_replica_counts_once_it_has_its_vote_and_not_after_it_lost_what_it_held() {
        let of = |nodes: &[u64]| nodes.iter().copied().collect::<BTreeSet<u64>>();
        // Of node 3: voters and learners by the leader's word, then by its own.
        for (told, own, counts) in [
            ((&[1, 2, 3][..], &[][..]), (&[1, 2, 3][..], &[][..]), true),
            // It learns, and was just given a vote.
            ((&[1, 2], &[3]), (&[1, 2], &[3]), false),
            ((&[1, 2, 3], &[]), (&[1, 2], &[3]), true),
            // It lost what it held: nobody knows, the leader knows, it is back.
            ((&[1, 2, 3], &[]), (&[], &[]), false),
            ((&[1, 2, 3], &[]), (&[1, 2], &[]), false),
            ((&[1, 2, 3], &[3]), (&[1, 2], &[3]), false),
            ((&[1, 2], &[3]), (&[], &[]), false),
        ] {
            let with = |(voters, learners): (&[u64], &[u64]), status: GroupStatus| GroupStatus {
                voters: of(voters),
                learners: of(learners),
                ..status
            };
            let leader = with(told, confirmed(1, status(1, 7, Some(1), 40)));
            let replica = with(own, confirmed(1, status(1, 7, Some(1), 39)));
            let reports = [(1, report(vec![leader])), (3, report(vec![replica]))];
            let groups = groups(&reports.into(), &BTreeMap::new(), &BTreeMap::new());
            let seen = groups[0].replicas.iter().find(|replica| replica.node == 3);
            assert_eq!(seen.map(|replica| replica.voter), Some(counts), "{told:?}, {own:?}");
        }
    }

    #[test]
    fn what_is_wrong_comes_in_words_and_the_worst_first() {
        let (clock, disk) = (ClockReport { off_ms: Some(0), agrees: true }, DiskStatus::default());
        let low = DiskStatus { free_bytes: 9 << 20, reserve_bytes: 10 << 20, low: true };
        let replica = |node, lag, voter| ReplicaView {
            node,
            reachable: true,
            voter,
            lag,
            ..ReplicaView::default()
        };
        let group = |id, leader, replicas| GroupView {
            id: GroupId(id),
            leader,
            term: 1,
            led_ms: None,
            replicas,
        };
        let told = |nodes: &[NodeStatus], groups: &[GroupView], disk| {
            let report = NodeReport { disk, clock, groups: Vec::new() };
            let voters_wanted = [(GroupId(1), 3), (GroupId(2), 3), (GroupId(3), 3)].into();
            wrong(nodes, groups, &voters_wanted, &[(1, report)].into(), &[1, 2, 3].into(), 0)
        };
        let well = group(1, Some(1), vec![replica(1, 0, true), replica(2, 0, true)]);
        let comes = [1, 2, 3].map(|node| replica(node, 0, true)).into_iter();
        let joined = group(3, Some(1), comes.chain([replica(4, 0, false)]).collect());
        let nodes = [node(1, true), node(2, true)];
        assert_eq!(told(&nodes, &[well, joined], disk), Vec::<String>::new());
        let nodes = [node(1, true), node(2, false), node(9, false)];
        let groups = [
            group(
                1,
                Some(1),
                vec![replica(1, 0, true), replica(2, 0, false), replica(3, 1_001, true)],
            ),
            group(2, None, vec![replica(1, 5_000, true)]),
        ];
        assert_eq!(
            told(&nodes, &groups, low),
            [
                "group 2 stands still: no majority confirms a leader",
                "node 2 is not reachable",
                "node 1: its disk is nearly full: 9 MiB are free, 10 MiB are kept back",
                "group 1: the replica on node 2 has no vote yet",
                "group 1: node 3 is 1001 entries behind",
            ],
            "node 9 was not asked"
        );
    }

    #[test]
    fn groups_that_are_in_fewer_zones_than_they_could_be_are_told() {
        let zoned = |(id, zone): (u64, &&str)| {
            let zone = (!zone.is_empty()).then(|| (*zone).to_owned());
            let description = Some(NodeDescription { zone, ..NodeDescription::default() });
            NodeStatus { description, ..node(id, true) }
        };
        let group = |(id, nodes): (u16, &&[u64])| {
            let replica = |node: &u64| ReplicaView {
                node: *node,
                voter: *node < 9,
                ..ReplicaView::default()
            };
            let replicas = nodes.iter().map(replica).collect();
            GroupView { id: GroupId(id), leader: Some(1), term: 1, led_ms: None, replicas }
        };
        let tells = "several replicas in one zone, and none in another that has nodes for them";
        for (zones, groups, told) in [
            (["a", "a", "b", "c"], [&[1, 2, 3][..], &[1, 3, 4]], Some("group 1 has")),
            (["a", "a", "b", "c"], [&[1, 2, 3], &[1, 2, 4]], Some("groups 1, 2 have")),
            (["a", "a", "b", "b"], [&[1, 2, 3], &[1, 2, 4]], None),
            // What says no zone is in none: it makes nothing crowded, and takes nothing for its zone.
            (["a", "a", "b", ""], [&[1, 2, 3], &[1, 3, 4]], None),
            (["a", "a", "b", ""], [&[1, 2, 3], &[1, 2, 4]], Some("group 2 has")),
            (["", "", "", "a"], [&[1, 2, 3], &[1, 2, 3]], None),
            // One that comes does not count yet.
            (["a", "b", "c", "d"], [&[1, 2, 3, 9], &[1, 2]], None),
        ] {
            let nodes: Vec<NodeStatus> = (1..).zip(&zones).map(zoned).collect();
            let views: Vec<GroupView> = (1..).zip(&groups).map(group).collect();
            let told = told.map(|some| format!("{some} {tells}"));
            assert_eq!(crowded(&nodes, &views), told, "{zones:?}: {groups:?}");
        }
        let mut nodes: Vec<NodeStatus> = (1..).zip(&["a", "a", "b", "c"]).map(zoned).collect();
        nodes[3].role = Role::Draining;
        assert_eq!(crowded(&nodes, &[group((1, &&[1, 2, 3][..]))]), None, "it takes nothing");
    }

    #[test]
    fn what_a_node_tells_of_itself_dates_leaders_and_names_certificates_that_end() {
        const DAY_S: i64 = 24 * 3600;
        let end = |shown_to: &str, at_s| CertificateEnd { shown_to: shown_to.to_owned(), at_s };
        let led_group = |group, term, led_ms| LedGroup { group: GroupId(group), term, led_ms };
        let told = NodeDescription {
            certificates: vec![
                end("clients", 40 * DAY_S),
                end("peers", 13 * DAY_S),
                end("others", 9 * DAY_S),
            ],
            led: vec![led_group(1, 8, 700), led_group(2, 7, 900)],
            ..NodeDescription::default()
        };
        assert_eq!(
            ending(&told, 10 * DAY_S),
            [
                "its certificate for peers ends in 3 days; replace its files",
                "its certificate for others has expired: nobody takes it; replace its files",
            ]
        );
        let group = |id, leader| GroupView {
            id: GroupId(id),
            leader,
            term: 8,
            led_ms: None,
            replicas: Vec::new(),
        };
        // Of the second group it tells of a term that is over; of the fourth its leader tells nothing.
        let mut groups = [group(1, Some(2)), group(2, Some(2)), group(3, None), group(4, Some(3))];
        date(&mut groups, &[(2, told)].into());
        assert_eq!(groups.map(|group| group.led_ms), [Some(700), None, None, None]);
    }

    #[test]
    fn an_operator_is_told_of_what_stopped_of_disks_and_of_clocks() {
        let mut failing = status(3, 1, None, 0);
        failing.failed = Some("disk".into());
        let mut report = report(vec![status(1, 7, Some(2), 40), failing]);
        report.disk = DiskStatus { free_bytes: 9 << 20, reserve_bytes: 10 << 20, low: true };
        assert_eq!(
            note(&report),
            "group 3 stopped: disk; its disk is nearly full: 9 MiB are free, 10 MiB are kept back; \
             no majority agrees with its clock, so it leads nothing"
        );
    }
}
