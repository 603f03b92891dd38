//! Who is in the cluster, and which nodes its groups shall be on. Only what shall be is decided
//! here; each group's log changes its members one after the other until it is so.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::machine::view::View;
use crate::{ClusterRow, GroupId, GroupRow, Key, NodeRow, NodeState, Outcome, Refusal, Row, Rows};

/// The highest number a node can have.
const NODE_MAX: u64 = u16::MAX as u64;

const WHAT: &str = "node";

fn refuse(what: &'static str, why: String) -> Result<Outcome, Refusal> {
    Err(Refusal::Argument { what, why })
}

/// The cluster's nodes, and what its groups shall be on.
pub(super) struct Members<'s, R> {
    pub view: &'s mut View<R>,
}

impl<R: Rows> Members<'_, R> {
    pub fn formed(&mut self) -> Result<ClusterRow, Refusal> {
        let why = "the cluster is not formed yet";
        self.view.cluster().ok_or(Refusal::InvalidOperation { why })
    }

    /// From now on the catalog has what nodes of lower levels cannot read.
    pub fn reach_feature_level(&mut self, level: u32) -> Result<(), Refusal> {
        let cluster = self.formed()?;
        if cluster.feature_level < level {
            let raised = ClusterRow { feature_level: level, ..cluster };
            self.view.replace(Key::Cluster, Row::Cluster(raised));
        }
        Ok(())
    }

    /// Refused: a number that no node can have.
    pub fn can_be(&mut self, node: u64) -> Result<(), Refusal> {
        if node == 0 || node > NODE_MAX {
            let why = format!("a node's number is 1 to {NODE_MAX}, not {node}");
            return Err(Refusal::Argument { what: WHAT, why });
        }
        match self.node_state(node) {
            Some(NodeState::Removed) => Err(Refusal::Argument { what: WHAT, why: removed(node) }),
            Some(NodeState::Draining | NodeState::Maintenance) | None => Ok(()),
        }
    }

    /// For a node that names none: the number of the one with its peer address, or the first after all that
    /// there ever were.
    pub fn number_for(&mut self, row: &NodeRow) -> u64 {
        let (mut same, mut last) = (None, 0);
        self.view.scan(&Key::Node(0), &Key::Node(u64::MAX), &mut |key, known| {
            if let (Key::Node(node), Row::Node(known)) = (key, known) {
                last = last.max(*node);
                same = same.or((known.peer_address == row.peer_address).then_some(*node));
            }
            ControlFlow::Continue(())
        });
        match same {
            Some(node) if self.node_state(node) != Some(NodeState::Removed) => node,
            _ => last + 1,
        }
    }

    pub fn add_node(&mut self, node: u64, row: NodeRow) -> Result<Outcome, Refusal> {
        self.formed()?;
        self.can_be(node)?;
        match self.view.get(&Key::Node(node)) {
            Some(Row::Node(known)) if known == row => return Ok(Outcome::Done),
            Some(Row::Node(known)) => {
                let at = known.peer_address;
                let why = format!("node {node} is in the cluster already, at {at}; choose another");
                return refuse(WHAT, why);
            }
            _ => (),
        }
        self.view.put(Key::Node(node), Row::Node(row));
        let mut catalog = self.group(GroupId::CATALOG).unwrap_or_default();
        catalog.push(node);
        catalog.sort_unstable();
        self.put_group(GroupId::CATALOG, catalog);
        Ok(Outcome::Done)
    }

    pub fn drain(&mut self, node: u64, cancel: bool) -> Result<Outcome, Refusal> {
        self.known(node)?;
        match (self.node_state(node), cancel) {
            (None | Some(NodeState::Maintenance), false) => self.can_spare(node)?,
            (Some(NodeState::Draining), true) => {
                self.view.delete(Key::NodeState(node));
                return Ok(Outcome::Done);
            }
            (None, true) | (Some(_), _) => return Ok(Outcome::Done),
        }
        self.view.put(Key::NodeState(node), Row::NodeState(NodeState::Draining));
        Ok(Outcome::Done)
    }

    pub fn set_maintenance(&mut self, node: u64, on: bool) -> Result<Outcome, Refusal> {
        self.known(node)?;
        match (self.node_state(node), on) {
            (None, true) => {
                self.view.put(Key::NodeState(node), Row::NodeState(NodeState::Maintenance));
            }
            (Some(NodeState::Maintenance), false) => self.view.delete(Key::NodeState(node)),
            (Some(NodeState::Draining | NodeState::Removed), true) => {
                let why = format!(
                    "node {node} is drained, and leads nothing for that; `mayfly cluster drain {node} \
                     --cancel` comes first"
                );
                return refuse(WHAT, why);
            }
            (Some(NodeState::Maintenance), true) | (_, false) => (),
        }
        Ok(Outcome::Done)
    }

    pub fn remove(&mut self, node: u64, dead: bool) -> Result<Outcome, Refusal> {
        if self.node_state(node) == Some(NodeState::Removed) {
            return Ok(Outcome::Done);
        }
        self.known(node)?;
        let held = self.groups_of(node);
        match (self.node_state(node), dead) {
            (None | Some(NodeState::Maintenance), false) => {
                let why = format!(
                    "node {node} was not drained; run `mayfly cluster drain {node}` first, or add --dead \
                     if it is gone for good"
                );
                return refuse(WHAT, why);
            }
            (Some(_), false) if held > 0 => {
                let why = format!("node {node} still holds {held} replicas; wait for its drain");
                return refuse(WHAT, why);
            }
            (None | Some(NodeState::Maintenance), true) => self.can_spare(node)?,
            (Some(_), _) => (),
        }
        self.view.put(Key::NodeState(node), Row::NodeState(NodeState::Removed));
        let mut catalog = self.group(GroupId::CATALOG).unwrap_or_default();
        catalog.retain(|other| *other != node);
        self.put_group(GroupId::CATALOG, catalog);
        Ok(Outcome::Done)
    }

    pub fn move_replica(
        &mut self,
        group: GroupId,
        from: u64,
        to: u64,
        moves: u64,
    ) -> Result<Outcome, Refusal> {
        const WHAT: &str = "move of a replica";
        let Some(mut replicas) = self.group(group).filter(|_| group != GroupId::CATALOG) else {
            return refuse(WHAT, format!("there is no data group {group}"));
        };
        let found = match self.view.get(&Key::Moves(group)) {
            Some(Row::Moves(found)) => found,
            _ => 0,
        };
        if found != moves {
            return refuse(WHAT, format!("group {group} has been moved meanwhile"));
        }
        self.known(to)?;
        if !self.stays(to) {
            return refuse(WHAT, format!("node {to} is leaving the cluster"));
        }
        if replicas.contains(&to) {
            return refuse(WHAT, format!("node {to} holds group {group} already"));
        }
        let Some(place) = replicas.iter_mut().find(|node| **node == from) else {
            return refuse(WHAT, format!("node {from} does not hold group {group}"));
        };
        *place = to;
        self.put_group(group, replicas);
        self.view.put(Key::Moves(group), Row::Moves(moves + 1));
        Ok(Outcome::Done)
    }

    /// The nodes of whom it is known that they know a level; one that joined meanwhile may not.
    pub fn raise_feature_level(&mut self, level: u32, nodes: &[u64]) -> Result<Outcome, Refusal> {
        if level <= self.formed()?.feature_level {
            return Ok(Outcome::Done);
        }
        let all = self.group(GroupId::CATALOG).unwrap_or_default();
        if let Some(node) = all.iter().find(|node| !nodes.contains(node)) {
            return refuse(
                "feature level",
                format!("node {node} was not asked whether it knows {level}"),
            );
        }
        self.reach_feature_level(level)?;
        Ok(Outcome::Done)
    }

    /// Refused where the nodes that stay are fewer than a group has replicas.
    fn can_spare(&mut self, node: u64) -> Result<(), Refusal> {
        let wanted = usize::from(self.formed()?.replication_factor);
        let mut staying = self.staying();
        staying.remove(&node);
        if staying.len() >= wanted.max(1) {
            return Ok(());
        }
        let (left, plural) = (staying.len(), if wanted == 1 { "" } else { "s" });
        let why = format!(
            "without node {node} there would be {left} nodes for {wanted} replica{plural} of each \
             group; add a node first"
        );
        Err(Refusal::Argument { what: WHAT, why })
    }

    fn known(&mut self, node: u64) -> Result<(), Refusal> {
        let why = match (self.node_state(node), self.view.get(&Key::Node(node))) {
            (Some(NodeState::Removed), _) => removed(node),
            (_, Some(_)) => return Ok(()),
            (_, None) => format!("there is no node {node}; see `mayfly cluster status`"),
        };
        Err(Refusal::Argument { what: WHAT, why })
    }

    fn node_state(&mut self, node: u64) -> Option<NodeState> {
        match self.view.get(&Key::NodeState(node)) {
            Some(Row::NodeState(state)) => Some(state),
            _ => None,
        }
    }

    /// Whether it is neither leaving nor gone.
    fn stays(&mut self, node: u64) -> bool {
        matches!(self.node_state(node), None | Some(NodeState::Maintenance))
    }

    /// The nodes that are neither leaving nor gone.
    pub fn staying(&mut self) -> BTreeSet<u64> {
        let nodes = self.group(GroupId::CATALOG).unwrap_or_default();
        nodes.into_iter().filter(|node| self.stays(*node)).collect()
    }

    fn group(&mut self, group: GroupId) -> Option<Vec<u64>> {
        match self.view.get(&Key::Group(group)) {
            Some(Row::Group(row)) => Some(row.replicas),
            _ => None,
        }
    }

    pub fn put_group(&mut self, group: GroupId, replicas: Vec<u64>) {
        self.view.put(Key::Group(group), Row::Group(GroupRow { replicas }));
    }

    /// How many data groups shall have a replica on a node.
    pub fn groups_of(&mut self, node: u64) -> usize {
        let mut held = 0;
        let (from, to) = (Key::Group(GroupId(1)), Key::Group(GroupId(u16::MAX)));
        self.view.scan(&from, &to, &mut |_, row| {
            held += usize::from(matches!(row, Row::Group(group) if group.replicas.contains(&node)));
            ControlFlow::Continue(())
        });
        held
    }
}

fn removed(node: u64) -> String {
    format!("node {node} was removed from the cluster; its number is not given again")
}
