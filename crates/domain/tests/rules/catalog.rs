//! The catalog: forming a cluster, placing entities, finding names. `ent` has its rules about names.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::{
    CatalogCommand, CatalogOutcome, ClusterRow, Command, Creation, DirectoryRow, DirectoryState,
    EntityId, EntityKind, FEATURE_LEVEL_JOIN_TOKENS, FEATURE_LEVEL_RAISED, GroupId, GroupRow, Key,
    NewRule, NodeRow, NodeState, Outcome, Row, Span, SubscriptionProperties, TopicProperties,
};

use crate::support::{EPOCH, Group};
use crate::table::{queue, words};

pub fn node(name: &str) -> NodeRow {
    NodeRow {
        peer_address: format!("{name}:5320"),
        grpc_address: format!("{name}:5310"),
        http_address: format!("{name}:5300"),
    }
}

fn found(data_groups: u16, replication_factor: u8, nodes: &[u64]) -> CatalogCommand {
    let nodes = nodes.iter().map(|id| (*id, node(&format!("n{id}")))).collect();
    CatalogCommand::Found { cluster_id: 9, data_groups, replication_factor, nodes }
}

/// A catalog of one node.
pub fn catalog(data_groups: u16) -> Group {
    let mut group = Group::empty();
    assert_eq!(ask(&mut group, found(data_groups, 1, &[1])), Outcome::Done);
    group
}

pub fn ask(group: &mut Group, command: CatalogCommand) -> Outcome {
    group.apply(Command::Catalog(command))
}

/// No request is another's repeat.
fn drawn() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

pub fn create(group: &mut Group, name: &str) -> Outcome {
    let properties = Box::new(queue());
    let name = name.to_owned();
    ask(group, CatalogCommand::Create { request: drawn(), name, properties })
}

/// The row and whether it is fresh.
pub fn entry(outcome: Outcome) -> (DirectoryRow, bool) {
    match outcome {
        Outcome::Catalog(CatalogOutcome::Entry { row, fresh }) => (row, fresh),
        other => panic!("no entry: {other:?}"),
    }
}

/// Creates a name to the end.
pub fn created(group: &mut Group, name: &str) -> DirectoryRow {
    let (row, fresh) = entry(create(group, name));
    assert!(fresh);
    let command = CatalogCommand::Created { name: name.to_owned(), entity: row.entity };
    entry(ask(group, command)).0
}

pub fn deleted(group: &mut Group, name: &str) {
    let (row, _) = entry(ask(group, CatalogCommand::Delete { name: name.to_owned() }));
    let command = CatalogCommand::Deleted { name: name.to_owned(), entity: row.entity };
    assert_eq!(ask(group, command), Outcome::Done);
}

fn replicas(catalog: &Group, group: u16) -> Vec<u64> {
    match catalog.rows.0.get(&Key::Group(GroupId(group))) {
        Some(Row::Group(GroupRow { replicas })) => replicas.clone(),
        other => panic!("no group {group}: {other:?}"),
    }
}

#[test]
fn a_cluster_is_formed_once_and_its_groups_are_spread() {
    let mut catalog = Group::empty();
    assert_eq!(words(&create(&mut catalog, "a")), "InvalidOperationException");
    assert_eq!(ask(&mut catalog, found(4, 2, &[1, 2, 3])), Outcome::Done);
    assert_eq!(replicas(&catalog, 0), [1, 2, 3]);
    let spread: Vec<_> = (1..=4).map(|group| replicas(&catalog, group)).collect();
    assert_eq!(spread, [vec![1, 2], vec![2, 3], vec![3, 1], vec![1, 2]]);
    let rows = catalog.rows.clone();
    assert_eq!(ask(&mut catalog, found(9, 1, &[7])), Outcome::Done);
    assert_eq!(catalog.rows, rows, "the first decides");
    for (groups, factor, nodes) in [(0, 1, vec![1]), (1, 0, vec![1]), (1, 1, vec![])] {
        let outcome = ask(&mut Group::empty(), found(groups, factor, &nodes));
        assert_eq!(words(&outcome), "ArgumentException");
    }
}

#[test]
fn a_node_changes_its_addresses() {
    let mut group = catalog(1);
    let row = node("elsewhere");
    let command = CatalogCommand::SetNode { node: 1, row: row.clone() };
    assert_eq!(ask(&mut group, command), Outcome::Done);
    assert_eq!(group.rows.0.get(&Key::Node(1)), Some(&Row::Node(row)));
}

/// Each row: what is asked, and what an operator is told; nothing, where it is done.
#[test]
fn nodes_join_and_leave_and_never_fewer_stay_than_a_group_has_replicas() {
    use CatalogCommand::*;
    let mut group = Group::empty();
    assert_eq!(ask(&mut group, found(3, 2, &[1, 2])), Outcome::Done);
    let add = |id: u64| AddNode { node: id, row: node(&format!("n{id}")) };
    let to = |group, from, to, moves| MoveReplica { group: GroupId(group), from, to, moves };
    let (drain, back) = (|node| Drain { node, cancel: false }, |node| Drain { node, cancel: true });
    let (remove, dead) = (|node| Remove { node, dead: false }, |node| Remove { node, dead: true });
    for (command, told) in [
        (drain(1), "without node 1 there would be 1 nodes for 2 replicas"),
        (dead(1), "without node 1 there would be 1 nodes for 2 replicas"),
        (drain(9), "there is no node 9"),
        (add(0), "a node's number is 1 to 65535"),
        (add(65_536), "a node's number is 1 to 65535"),
        (add(3), ""),
        (add(3), ""),
        (AddNode { node: 3, row: node("other") }, "node 3 is in the cluster already, at n3:5320"),
        (remove(1), "node 1 was not drained"),
        (drain(1), ""),
        (drain(1), ""),
        (drain(2), "without node 2 there would be 1 nodes"),
        (remove(1), "node 1 still holds 3 replicas"),
        (to(1, 1, 3, 1), "group 1 has been moved meanwhile"),
        (to(0, 1, 3, 0), "there is no data group 0"),
        (to(4, 1, 3, 0), "there is no data group 4"),
        (to(1, 3, 3, 0), "node 3 does not hold group 1"),
        (to(1, 1, 2, 0), "node 2 holds group 1 already"),
        (to(1, 1, 9, 0), "there is no node 9"),
        (to(1, 1, 3, 0), ""),
        (to(1, 1, 3, 0), "group 1 has been moved meanwhile"),
        (to(1, 3, 1, 1), "node 1 is leaving the cluster"),
        (remove(1), "node 1 still holds 2 replicas"),
        (back(1), ""),
        (back(1), ""),
        (to(1, 3, 1, 1), ""),
        (to(1, 1, 3, 2), ""),
        (drain(1), ""),
        (to(2, 1, 3, 0), ""),
        (to(3, 1, 3, 0), ""),
        (remove(1), ""),
        (remove(1), ""),
        (drain(1), "node 1 was removed from the cluster"),
        (add(1), "node 1 was removed from the cluster; its number is not given again"),
        (dead(2), "without node 2 there would be 1 nodes"),
        (add(4), ""),
        (dead(2), ""),
    ] {
        let outcome = ask(&mut group, command.clone());
        let found = match &outcome {
            Outcome::Refused(refusal) => refusal.to_string(),
            _ => String::new(),
        };
        assert_eq!(outcome == Outcome::Done, told.is_empty(), "{command:?}: {outcome:?}");
        assert!(found.contains(told), "{command:?}: {found}");
    }
    assert_eq!(replicas(&group, 0), [3, 4], "who holds the catalog");
    assert_eq!(replicas(&group, 1), [3, 2], "what is dead is replaced by whoever plans");
    let state = |node| group.rows.0.get(&Key::NodeState(node));
    assert_eq!(state(2), Some(&Row::NodeState(NodeState::Removed)));
    assert_eq!(state(3), None);
}

/// Each row: what is asked, and what an operator is told; nothing, where it is done.
#[test]
fn a_node_in_maintenance_stays_until_it_is_drained() {
    use CatalogCommand::*;
    let mut group = Group::empty();
    assert_eq!(ask(&mut group, found(3, 2, &[1, 2, 3])), Outcome::Done);
    let (on, off) =
        (|node| SetMaintenance { node, on: true }, |node| SetMaintenance { node, on: false });
    let state = |group: &Group, node| match group.rows.0.get(&Key::NodeState(node)) {
        Some(Row::NodeState(state)) => Some(*state),
        _ => None,
    };
    let (none, maintenance, draining) =
        (None, Some(NodeState::Maintenance), Some(NodeState::Draining));
    for (command, told, of_node_1) in [
        (on(9), "there is no node 9", none),
        (off(1), "", none),
        (on(1), "", maintenance),
        (on(1), "", maintenance),
        (Remove { node: 1, dead: false }, "node 1 was not drained", maintenance),
        (Drain { node: 1, cancel: true }, "", maintenance),
        // It counts as one that stays, and takes replicas.
        (Drain { node: 2, cancel: false }, "", maintenance),
        (MoveReplica { group: GroupId(2), from: 2, to: 1, moves: 0 }, "", maintenance),
        (Drain { node: 2, cancel: true }, "", maintenance),
        (off(1), "", none),
        (on(1), "", maintenance),
        (Drain { node: 1, cancel: false }, "", draining),
        (on(1), "node 1 is drained, and leads nothing for that", draining),
        (off(1), "", draining),
        (Drain { node: 1, cancel: true }, "", none),
        (Remove { node: 1, dead: true }, "", Some(NodeState::Removed)),
        (on(1), "node 1 was removed from the cluster", Some(NodeState::Removed)),
    ] {
        let outcome = ask(&mut group, command.clone());
        let found = match &outcome {
            Outcome::Refused(refusal) => refusal.to_string(),
            _ => String::new(),
        };
        assert_eq!(outcome == Outcome::Done, told.is_empty(), "{command:?}: {outcome:?}");
        assert!(found.contains(told), "{command:?}: {found}");
        assert_eq!(state(&group, 1), of_node_1, "{command:?}");
    }
}

/// What is asked of join tokens, by their ids and letters for their secrets, and the answer in short.
fn tokens(group: &mut Group, ask_at: (u64, CatalogCommand)) -> String {
    let (ms, command) = ask_at;
    group.now = EPOCH.plus(Span(ms));
    match ask(group, command) {
        Outcome::Done => "done".to_owned(),
        Outcome::Catalog(CatalogOutcome::JoinTokenCreated { expires_at }) => {
            format!("until {}", expires_at.since(EPOCH).0)
        }
        Outcome::Catalog(CatalogOutcome::Joined { node }) => format!("node {node}"),
        Outcome::Catalog(CatalogOutcome::NotJoined(fault)) => fault.to_string(),
        Outcome::Refused(refusal) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Each row: when what is asked, and how the answer begins.
#[test]
fn a_join_token_admits_one_node_until_it_ends() {
    const DAY_MS: u64 = 24 * 3600 * 1000;
    let mut group = Group::empty();
    assert_eq!(ask(&mut group, found(3, 2, &[1, 2])), Outcome::Done);
    let make = |id, secret: u8, lasts, node| CatalogCommand::CreateJoinToken {
        id,
        secret_hash: [secret; 32],
        lasts: Span(lasts),
        node,
    };
    let join = |token, secret: u8, request, number, at: &str| CatalogCommand::Join {
        token,
        secret_hash: [secret; 32],
        request,
        node: number,
        row: Box::new(node(at)),
    };
    let revoke = |id| CatalogCommand::RevokeJoinToken { id };
    let (unknown, used) = ("the join token is not known", "the join token has admitted node 3");
    for (ms, command, told) in [
        (100, join(7, 1, 1, 0, "n3"), unknown),
        (100, make(7, 1, 0, None), "how long a join token is good is 0 ms"),
        (100, make(7, 1, 30 * DAY_MS + 1, None), "how long a join token is good"),
        (100, make(7, 1, 50, Some(0)), "node: a node's number is 1 to 65535"),
        (100, make(7, 1, 50, None), "until 150"),
        (120, make(7, 1, 50, None), "until 150"),
        (120, make(7, 2, 50, None), "join token: another has this id"),
        (120, join(7, 2, 1, 0, "n3"), unknown),
        (120, join(8, 1, 1, 0, "n3"), unknown),
        // A node that cannot be admitted uses nothing up.
        (120, join(7, 1, 1, 2, "n3"), "node: node 2 is in the cluster already"),
        (149, join(7, 1, 1, 0, "n3"), "node 3"),
        (149, join(7, 1, 1, 0, "n3"), "node 3"),
        (149, join(7, 1, 2, 0, "n3"), used),
        (149, join(7, 1, 2, 0, "n4"), used),
        // The answer to a repeat stays; whoever does not know the secret learns nothing.
        (999, join(7, 1, 1, 0, "n3"), "node 3"),
        (999, join(7, 2, 1, 0, "n3"), unknown),
        (1000, make(8, 1, 50, Some(5)), "until 1050"),
        (1001, join(8, 1, 3, 4, "n4"), "the join token is for node 5, and this is node 4"),
        (1001, join(8, 1, 3, 0, "n4"), "the join token is for node 5, and this node says no"),
        (1050, join(8, 1, 3, 5, "n5"), "the join token ended 0 s ago"),
        (3051, join(8, 1, 3, 5, "n5"), "the join token ended 3 s ago"),
        (3051, make(9, 1, 50, Some(5)), "until 3101"),
        (3052, join(9, 1, 4, 5, "n5"), "node 5"),
        (3052, make(10, 1, 50, None), "until 3102"),
        (3053, revoke(10), "done"),
        (3053, revoke(10), "done"),
        (3053, join(10, 1, 5, 0, "n6"), unknown),
        // The next free number is the one after all.
        (3053, make(11, 1, 50, None), "until 3103"),
        (3054, join(11, 1, 6, 0, "n6"), "node 6"),
        // What ended a day ago is forgotten with the next that is made.
        (3103 + DAY_MS, make(12, 1, 50, None), "until"),
        (3103 + DAY_MS, join(11, 1, 6, 0, "n6"), unknown),
    ] {
        let answer = tokens(&mut group, (ms, command.clone()));
        assert!(answer.starts_with(told), "{ms} {command:?}: {answer}");
        assert!(!answer.contains('\n'), "{answer}");
    }
    assert_eq!(replicas(&group, 0), [1, 2, 3, 5, 6], "who holds the catalog");
    let level = feature_level(&group);
    assert_eq!(level, FEATURE_LEVEL_JOIN_TOKENS, "whoever does not know tokens is told");
    let left = group.rows.0.keys().filter(|key| matches!(key, Key::JoinToken(_)));
    assert_eq!(left.collect::<Vec<_>>(), [&Key::JoinToken(12)]);
}

/// Each row: who is said to know which level, how the answer begins, and the cluster's level then.
#[test]
fn the_feature_level_rises_to_what_all_nodes_know() {
    let raise =
        |level, nodes: &[u64]| CatalogCommand::RaiseFeatureLevel { level, nodes: nodes.to_vec() };
    let mut group = Group::empty();
    assert!(matches!(ask(&mut group, raise(3, &[])), Outcome::Refused(_)), "there is no cluster");
    assert_eq!(ask(&mut group, found(3, 2, &[1, 2])), Outcome::Done);
    let join = |node| CatalogCommand::AddNode { node, row: self::node(&format!("n{node}")) };
    let remove = CatalogCommand::Remove { node: 3, dead: true };
    let latest = FEATURE_LEVEL_RAISED + 1;
    for (command, told, level) in [
        (raise(FEATURE_LEVEL_RAISED, &[1]), "feature level: node 2 was not asked", 1),
        (raise(FEATURE_LEVEL_RAISED, &[1, 2]), "done", FEATURE_LEVEL_RAISED),
        (raise(FEATURE_LEVEL_RAISED, &[1, 2]), "done", FEATURE_LEVEL_RAISED),
        (raise(1, &[]), "done", FEATURE_LEVEL_RAISED),
        (join(3), "done", FEATURE_LEVEL_RAISED),
        (raise(latest, &[1, 2]), "feature level: node 3 was not asked", FEATURE_LEVEL_RAISED),
        (remove, "done", FEATURE_LEVEL_RAISED),
        // Of a node that is gone nobody asks.
        (raise(latest, &[1, 2]), "done", latest),
    ] {
        let answer = tokens(&mut group, (1, command.clone()));
        assert!(answer.starts_with(told), "{command:?}: {answer}");
        assert_eq!(feature_level(&group), level, "{command:?}");
    }
}

fn feature_level(group: &Group) -> u32 {
    cluster(group).feature_level
}

fn cluster(group: &Group) -> ClusterRow {
    match group.rows.0.get(&Key::Cluster) {
        Some(Row::Cluster(cluster)) => cluster.clone(),
        other => panic!("{other:?}"),
    }
}

/// Each row: what is asked, how the answer begins, and how many groups there are and are open then.
#[test]
fn data_groups_become_more_and_never_fewer() {
    use CatalogCommand::*;
    let of = |nodes: &[u64]| nodes.iter().map(|node| (*node, 70 + *node as u32)).collect();
    let add = |data_groups, nodes: &[u64]| AddGroups { data_groups, directories: of(nodes) };
    let open = |data_groups| OpenGroups { data_groups };
    let drain = |cancel| Drain { node: 4, cancel };
    let mut group = Group::empty();
    assert!(matches!(ask(&mut group, add(3, &[1])), Outcome::Refused(_)), "there is no cluster");
    assert!(matches!(ask(&mut group, open(1)), Outcome::Refused(_)), "there is no cluster");
    assert_eq!(ask(&mut group, found(2, 2, &[1, 2, 3])), Outcome::Done);
    let join = AddNode { node: 4, row: node("n4") };
    for (command, told, placed, opened) in [
        (add(1, &[1, 2, 3]), "data groups: there are 2 already, and never fewer", 2, 2),
        (add(0, &[1, 2, 3]), "data groups: 0 are asked, allowed is 1 to 256", 2, 2),
        (add(257, &[1, 2, 3]), "data groups: 257 are asked, allowed is 1 to 256", 2, 2),
        // What is there already needs nobody.
        (add(2, &[]), "done", 2, 2),
        (
            add(3, &[1]),
            "data groups: a new one needs 2 nodes to be founded on, and 1 answer; start node 2, 3",
            2,
            2,
        ),
        // Nobody who is not in the cluster counts.
        (add(3, &[1, 9]), "data groups: a new one needs 2 nodes", 2, 2),
        (open(3), "data groups: there are 2, and 3 shall be open", 2, 2),
        (add(4, &[1, 2, 3]), "done", 4, 2),
        (add(4, &[1, 2, 3]), "done", 4, 2),
        (add(3, &[1, 2, 3]), "data groups: there are 4 already", 4, 2),
        (open(3), "done", 4, 3),
        (open(2), "done", 4, 3),
        (open(4), "done", 4, 4),
        (join, "done", 4, 4),
        (drain(false), "done", 4, 4),
        // Nor one that leaves.
        (add(5, &[1, 4]), "data groups: a new one needs 2 nodes", 4, 4),
        (drain(true), "done", 4, 4),
        (add(256, &[1, 4]), "done", 256, 4),
    ] {
        let answer = tokens(&mut group, (1, command.clone()));
        assert!(answer.starts_with(told), "{command:?}: {answer}");
        assert!(!answer.contains('\n'), "{answer}");
        let (from, to) = (Key::Group(GroupId(1)), Key::Group(GroupId(u16::MAX)));
        assert_eq!(group.rows.0.range(from..=to).count(), placed, "{command:?}");
        assert_eq!(cluster(&group).data_groups, opened, "{command:?}");
    }
    // Each is where least was, and says who founds it; those of the founding do not.
    let founders = |id| match group.rows.0.get(&Key::Founders(GroupId(id))) {
        Some(Row::Founders(founders)) => Some(founders.clone()),
        _ => None,
    };
    for (id, on, founded_by) in [
        (1, vec![1, 2], None),
        (2, vec![2, 3], None),
        (3, vec![1, 3], Some(vec![(1, 71), (3, 73)])),
        (4, vec![1, 2], Some(vec![(1, 71), (2, 72)])),
        (5, vec![1, 4], Some(vec![(1, 71), (4, 74)])),
    ] {
        assert_eq!((replicas(&group, id), founders(id)), (on, founded_by), "group {id}");
    }
}

#[test]
fn entities_are_put_on_a_new_group_once_it_is_open() {
    let mut group = catalog(1);
    assert_eq!(created(&mut group, "a").group, GroupId(1));
    let directories = vec![(1, 7)];
    let add = CatalogCommand::AddGroups { data_groups: 3, directories };
    assert_eq!(ask(&mut group, add), Outcome::Done);
    assert_eq!(created(&mut group, "b").group, GroupId(1), "none is open");
    assert_eq!(ask(&mut group, CatalogCommand::OpenGroups { data_groups: 2 }), Outcome::Done);
    let on: Vec<u16> =
        ["c", "d", "e"].into_iter().map(|name| created(&mut group, name).group.0).collect();
    assert_eq!(on, [2, 2, 1], "where the fewest are, and the third is not open");
    for (name, stays) in [("a", 1), ("b", 1), ("c", 2)] {
        match group.rows.0.get(&Key::Directory(name.to_owned())) {
            Some(Row::Directory(row)) => assert_eq!(row.group, GroupId(stays), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Whoever makes tokens without end is told to stop, and goes on once they have ended.
#[test]
fn join_tokens_are_bounded() {
    let mut group = catalog(1);
    let make = |id, ms| {
        let lasts = Span(1_000);
        let command =
            CatalogCommand::CreateJoinToken { id, secret_hash: [1; 32], lasts, node: None };
        (ms, command)
    };
    for id in 0..1_000 {
        assert_eq!(tokens(&mut group, make(id, 1)), "until 1001");
    }
    let told = tokens(&mut group, make(1_000, 1));
    assert_eq!(told, "the cluster (join tokens) holds 1000, the limit is 1000; free some first");
    assert!(tokens(&mut group, make(1_000, 25 * 3600 * 1000)).starts_with("until"));
}

#[test]
fn entities_go_to_the_group_that_has_the_fewest() {
    let mut group = catalog(3);
    let place = |group: &mut Group, name: &str| created(group, name).group.0;
    let names = ["a", "b", "c", "d"];
    let places: Vec<_> = names.iter().map(|name| place(&mut group, name)).collect();
    assert_eq!(places, [1, 2, 3, 1]);
    deleted(&mut group, "b");
    assert_eq!(place(&mut group, "e"), 2);
    // What is kept in memory about sizes is what the rows say.
    group.reset();
    assert_eq!(place(&mut group, "f"), 2);
    deleted(&mut group, "a");
    deleted(&mut group, "d");
    assert_eq!(place(&mut group, "g"), 1);
}

#[test]
fn an_unfinished_creation_is_told_until_it_is_confirmed() {
    let mut group = catalog(1);
    let (first, fresh) = entry(create(&mut group, "a"));
    assert!(fresh);
    let what = Creation::Queue { properties: Box::new(queue()) };
    assert_eq!(first.state, DirectoryState::Creating { what });
    let (again, fresh) = entry(create(&mut group, "A"));
    assert_eq!((again, fresh), (first.clone(), false));
    // Confirmed for another entity: no.
    let confirm = |id| CatalogCommand::Created { name: "a".to_owned(), entity: EntityId(id) };
    let outcome = ask(&mut group, confirm(first.entity.0 + 1));
    assert_eq!(words(&outcome), "MessagingEntityNotFound");
    let (row, fresh) = entry(ask(&mut group, confirm(first.entity.0)));
    assert_eq!((row.state, fresh), (DirectoryState::Ready, true));
    let (row, fresh) = entry(ask(&mut group, confirm(first.entity.0)));
    assert_eq!((row.state, fresh), (DirectoryState::Ready, false));
}

#[test]
fn a_late_confirmation_of_a_deletion_spares_the_next_entity_of_that_name() {
    let mut group = catalog(1);
    let first = created(&mut group, "a").entity;
    deleted(&mut group, "a");
    let second = created(&mut group, "a").entity;
    let late = CatalogCommand::Deleted { name: "a".to_owned(), entity: first };
    assert_eq!(ask(&mut group, late), Outcome::Done);
    let row = domain::directory(&group.rows, "a").expect("the second");
    assert_eq!((row.entity, row.state), (second, DirectoryState::Ready));
    // And a late confirmation of a creation does not undo a deletion.
    entry(ask(&mut group, CatalogCommand::Delete { name: "a".to_owned() }));
    let late = CatalogCommand::Created { name: "a".to_owned(), entity: second };
    assert_eq!(entry(ask(&mut group, late)).0.state, DirectoryState::Deleting);
}

#[test]
fn names_are_listed_in_order_by_prefix_and_page() {
    let mut group = catalog(1);
    for name in ["b", "Orders", "orders/EU", "orders-old", "a", "order"] {
        created(&mut group, name);
    }
    let page = |after: Option<&str>, prefix: &str, count: usize| -> Vec<String> {
        let rows = domain::directory_page(&group.rows, EntityKind::Queue, after, prefix, count);
        rows.into_iter().map(|row| row.name).collect()
    };
    let all = ["a", "b", "order", "Orders", "orders-old", "orders/EU"];
    assert_eq!(page(None, "", 99), all);
    assert_eq!(page(None, "", 2), all[..2]);
    assert_eq!(page(Some("B"), "", 2), all[2..4]);
    assert_eq!(page(None, "ORDERS", 99), all[3..]);
    assert_eq!(page(Some("orders"), "orders", 99), all[4..]);
    assert_eq!(page(Some("a"), "orders", 1), all[3..4]);
    // A name that is not there, or not any more, is a place all the same.
    assert_eq!(page(Some("c"), "", 1), all[2..3]);
    assert_eq!(page(Some("orders/eu"), "", 9), [""; 0]);
    assert_eq!(page(None, "x", 9), [""; 0]);
    assert_eq!(page(None, "", 0), [""; 0]);
}

fn create_topic(group: &mut Group, name: &str) -> Outcome {
    let properties = Box::new(TopicProperties::default());
    let name = name.to_owned();
    ask(group, CatalogCommand::CreateTopic { request: drawn(), name, properties })
}

pub fn topic_created(group: &mut Group, name: &str) -> DirectoryRow {
    let (row, _) = entry(create_topic(group, name));
    let command = CatalogCommand::Created { name: name.to_owned(), entity: row.entity };
    entry(ask(group, command)).0
}

fn subscribe(group: &mut Group, topic: &str, name: &str) -> Outcome {
    let command = CatalogCommand::CreateSubscription {
        request: drawn(),
        topic: topic.to_owned(),
        name: name.to_owned(),
        properties: Box::new(SubscriptionProperties::default()),
        rule: Box::new(NewRule::default()),
    };
    ask(group, command)
}

pub fn subscribed(group: &mut Group, topic: &str, name: &str) -> DirectoryRow {
    let (row, fresh) = entry(subscribe(group, topic, name));
    assert!(fresh);
    let command = CatalogCommand::Created { name: row.name, entity: row.entity };
    entry(ask(group, command)).0
}

/// At every point of a creation its repeat is answered as it was; another's request is refused.
#[test]
fn send_8_a_repeated_creation_gets_its_first_answer() {
    let mut group = catalog(1);
    let ask_as = |group: &mut Group, request| {
        let (name, properties) = ("Orders".to_owned(), Box::new(queue()));
        ask(group, CatalogCommand::Create { request, name, properties })
    };
    let (first, fresh) = entry(ask_as(&mut group, 7));
    assert!(fresh);
    assert_eq!(entry(ask_as(&mut group, 7)), (first.clone(), true));
    assert_eq!(entry(ask_as(&mut group, 8)), (first.clone(), false), "to be finished, not its own");
    let command = CatalogCommand::Created { name: "orders".to_owned(), entity: first.entity };
    let (ready, _) = entry(ask(&mut group, command));
    assert_eq!(entry(ask_as(&mut group, 7)), (ready, true));
    assert_eq!(words(&ask_as(&mut group, 8)), "MessagingEntityAlreadyExists");
    deleted(&mut group, "orders");
    let (second, fresh) = entry(ask_as(&mut group, 8));
    assert!(fresh && second.entity != first.entity);
    assert_eq!(entry(ask_as(&mut group, 7)), (second, false));
}

#[test]
fn ent_2_queues_and_topics_share_their_names() {
    let mut group = catalog(1);
    created(&mut group, "a");
    topic_created(&mut group, "b");
    assert_eq!(words(&create_topic(&mut group, "A")), "MessagingEntityAlreadyExists");
    assert_eq!(words(&create(&mut group, "B")), "MessagingEntityAlreadyExists");
}

#[test]
fn a_subscription_stands_with_its_topic_and_goes_with_it() {
    let mut group = catalog(3);
    created(&mut group, "Orders-old");
    let topic = topic_created(&mut group, "Orders");
    let row = subscribed(&mut group, "ORDERS", "Audit");
    assert_eq!(row.name, "Orders/Subscriptions/Audit");
    assert_eq!((row.group, row.kind), (topic.group, EntityKind::Subscription));
    let found = domain::directory(&group.rows, "orders/subscriptions/AUDIT").expect("found");
    assert_eq!(found.entity, row.entity);
    assert_eq!(words(&subscribe(&mut group, "orders", "audit")), "MessagingEntityAlreadyExists");
    for missing in ["nothing", "orders-old"] {
        assert_eq!(words(&subscribe(&mut group, missing, "x")), "MessagingEntityNotFound");
    }
    subscribed(&mut group, "orders", "b");
    created(&mut group, "orders/x");
    let page = |group: &Group, kind, prefix: &str, count| -> Vec<String> {
        let rows = domain::directory_page(&group.rows, kind, None, prefix, count);
        rows.into_iter().map(|row| row.name).collect()
    };
    let all = ["Orders/Subscriptions/Audit", "Orders/Subscriptions/b"];
    let prefix = "orders/Subscriptions/";
    assert_eq!(page(&group, EntityKind::Subscription, prefix, 9), all);
    assert_eq!(page(&group, EntityKind::Subscription, prefix, 1), all[..1]);
    assert_eq!(page(&group, EntityKind::Queue, "", 9), ["Orders-old", "orders/x"]);
    assert_eq!(page(&group, EntityKind::Topic, "", 9), ["Orders"]);
    // While its topic goes, nothing new is subscribed; then all names are free (ENT-7).
    entry(ask(&mut group, CatalogCommand::Delete { name: "Orders".to_owned() }));
    assert_eq!(words(&subscribe(&mut group, "orders", "c")), "MessagingEntityNotFound");
    let deleted = CatalogCommand::Deleted { name: "Orders".to_owned(), entity: topic.entity };
    assert_eq!(ask(&mut group, deleted), Outcome::Done);
    assert_eq!(page(&group, EntityKind::Subscription, "", 9), [""; 0]);
    assert_eq!(page(&group, EntityKind::Queue, "", 9), ["Orders-old", "orders/x"]);
    // One entity fewer per group for each name: the next goes where there are fewest.
    let again = topic_created(&mut group, "Orders");
    assert_ne!(again.entity, topic.entity);
    assert_eq!(again.group, topic.group);
}

#[test]
fn quota_7_a_topic_has_two_thousand_subscriptions_at_most() {
    let mut group = catalog(1);
    topic_created(&mut group, "t");
    let commands = (0..=domain::SUBSCRIPTIONS_MAX).map(|n| {
        Command::Catalog(CatalogCommand::CreateSubscription {
            request: drawn(),
            topic: "t".to_owned(),
            name: format!("s{n}"),
            properties: Box::new(SubscriptionProperties::default()),
            rule: Box::new(NewRule::default()),
        })
    });
    let entry = group.entry(commands.collect());
    let outcomes = group.step(vec![entry]).remove(0);
    let (last, others) = outcomes.split_last().expect("outcomes");
    assert!(others.iter().all(|outcome| matches!(outcome, Outcome::Catalog(_))));
    assert_eq!(words(last), "QuotaExceeded");
}

/// RULE-10: what its group refuses for good is withdrawn; what was created meanwhile is not, and a
/// late withdrawal finds another under the name.
#[test]
fn a_creation_that_its_group_refused_frees_its_name() {
    let mut group = catalog(1);
    topic_created(&mut group, "t");
    let withdraw = |entity| {
        let name = "t/Subscriptions/s".to_owned();
        CatalogCommand::Withdraw { name, entity }
    };
    let (first, _) = entry(subscribe(&mut group, "t", "s"));
    for fresh in [true, false] {
        let (row, told) = entry(ask(&mut group, withdraw(first.entity)));
        assert_eq!((row.state, told), (DirectoryState::Deleting, fresh));
    }
    let deleted = CatalogCommand::Deleted { name: first.name.clone(), entity: first.entity };
    assert_eq!(ask(&mut group, deleted), Outcome::Done);
    assert_eq!(words(&ask(&mut group, withdraw(first.entity))), "MessagingEntityNotFound");
    let second = subscribed(&mut group, "t", "s");
    assert_eq!(words(&ask(&mut group, withdraw(first.entity))), "MessagingEntityNotFound");
    let (row, fresh) = entry(ask(&mut group, withdraw(second.entity)));
    assert_eq!((row.state, fresh), (DirectoryState::Ready, false));
}
