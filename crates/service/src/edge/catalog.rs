//! The catalog: asking its group, and what its rows say: who is in the cluster, and where its groups shall be.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use domain::{
    CatalogCommand, CatalogOutcome, ClusterRow, Command, DirectoryRow, EntityKind, GroupId,
    JoinTokenRow, Key, NodeRow, NodeState, Outcome, Row, Rows,
};
use tokio::time::Instant;

use crate::edge::receiver::unexpected;
use crate::edge::router::{Failure, Router};
use crate::error::{Error, Result};
use crate::exchange::{Read, ReadAnswer};

/// Most votes in the catalog, whose replicas are on every node: more would only be slower.
pub(crate) const CATALOG_VOTERS_MAX: usize = 5;

/// The catalog's group, wherever its leader is.
#[derive(Clone, Copy)]
pub(crate) struct Catalog<'a> {
    router: &'a Router,
}

impl<'a> Catalog<'a> {
    pub fn new(router: &'a Router) -> Catalog<'a> {
        Catalog { router }
    }

    /// Asks the catalog. `None`: done, and there is no row to show.
    pub async fn propose(
        self,
        command: CatalogCommand,
        name: &str,
        deadline: Instant,
    ) -> Result<Option<(DirectoryRow, bool)>> {
        match self.ask(command, name, deadline).await? {
            Outcome::Catalog(CatalogOutcome::Entry { row, fresh }) => Ok(Some((row, fresh))),
            Outcome::Done => Ok(None),
            other => Err(unexpected(&other, name.into())),
        }
    }

    /// What comes of a command that is not refused.
    pub async fn ask(
        self,
        command: CatalogCommand,
        name: &str,
        deadline: Instant,
    ) -> Result<Outcome> {
        match self.router.call(GroupId::CATALOG, Command::Catalog(command), deadline).await {
            Ok(answer) => match answer.outcome {
                Outcome::Refused(refusal) => Err(Error::new(refusal, name)),
                outcome => Ok(outcome),
            },
            Err(Failure::Error(kind)) => Err(Error::new(kind, name)),
            Err(Failure::Mendable { refusal, .. }) => Err(Error::new(refusal, name)),
        }
    }

    pub async fn row(self, name: &str, deadline: Instant) -> Result<Option<DirectoryRow>> {
        let read = Read::Resolve { name: name.to_owned() };
        let found = self.router.read(GroupId::CATALOG, read, deadline).await;
        match found.map_err(|kind| Error::new(kind, name))? {
            ReadAnswer::Entries(rows) => Ok(rows.into_iter().next()),
            _ => Ok(None),
        }
    }

    /// A page of the directory, and where to go on.
    pub async fn names(
        self,
        kind: EntityKind,
        after: Option<&str>,
        prefix: &str,
        count_max: u32,
        deadline: Instant,
    ) -> Result<(Vec<DirectoryRow>, Option<String>)> {
        let (after, prefix) = (after.map(str::to_owned), prefix.to_owned());
        let read = Read::Directory { kind, after, prefix, count_max };
        let answer = self.router.read(GroupId::CATALOG, read, deadline).await;
        let rows = match answer.map_err(|kind| Error::new(kind, ""))? {
            ReadAnswer::Entries(rows) => rows,
            other => {
                tracing::error!(?other, "unexpected answer of the catalog");
                Vec::new()
            }
        };
        let next = match rows.last() {
            Some(row) if rows.len() == count_max as usize => Some(row.name.to_lowercase()),
            _ => None,
        };
        Ok((rows, next))
    }
}

/// The cluster by the catalog's rows; absent before it is founded.
pub(crate) fn cluster(rows: &impl Rows) -> Option<ClusterRow> {
    match rows.get(&Key::Cluster) {
        Some(Row::Cluster(cluster)) => Some(cluster),
        _ => None,
    }
}

/// All nodes by the catalog's rows, but those that were removed.
pub(crate) fn nodes(rows: &impl Rows) -> BTreeMap<u64, NodeRow> {
    let mut nodes = BTreeMap::new();
    rows.scan(&Key::Node(0), &Key::Node(u64::MAX), &mut |key, row| {
        if let (Key::Node(node), Row::Node(row)) = (key, row) {
            nodes.insert(node, row);
        }
        ControlFlow::Continue(())
    });
    let NodeStates { removed, .. } = NodeStates::read(rows);
    nodes.retain(|node, _| !removed.contains(node));
    nodes
}

/// Where the groups' replicas shall be by the catalog's rows; the catalog's own come first.
pub(crate) fn groups(rows: &impl Rows) -> BTreeMap<GroupId, Vec<u64>> {
    let mut groups = BTreeMap::new();
    let (from, to) = (Key::Group(GroupId(0)), Key::Group(GroupId(u16::MAX)));
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::Group(group), Row::Group(row)) = (key, row) {
            groups.insert(group, row.replicas);
        }
        ControlFlow::Continue(())
    });
    groups
}

/// How many replicas of each group shall have a vote: all of a data group's, and of the catalog's
/// those on nodes that stay, [`CATALOG_VOTERS_MAX`] at most.
pub(crate) fn voters_wanted(rows: &impl Rows) -> BTreeMap<GroupId, usize> {
    let NodeStates { draining, .. } = NodeStates::read(rows);
    let wanted = |(group, replicas): (GroupId, Vec<u64>)| match group {
        GroupId::CATALOG => {
            let staying = replicas.iter().filter(|node| !draining.contains(node)).count();
            (group, staying.min(CATALOG_VOTERS_MAX))
        }
        _ => (group, replicas.len()),
    };
    groups(rows).into_iter().map(wanted).collect()
}

/// All join tokens, by their ids.
pub(crate) fn join_tokens(rows: &impl Rows) -> BTreeMap<u64, JoinTokenRow> {
    let mut tokens = BTreeMap::new();
    rows.scan(&Key::JoinToken(0), &Key::JoinToken(u64::MAX), &mut |key, row| {
        if let (Key::JoinToken(id), Row::JoinToken(row)) = (key, row) {
            tokens.insert(id, row);
        }
        ControlFlow::Continue(())
    });
    tokens
}

/// The nodes that are not as others are.
#[derive(Debug, Default)]
pub(crate) struct NodeStates {
    /// They are being drained, or were.
    pub draining: BTreeSet<u64>,
    /// They lead nothing for now.
    pub maintenance: BTreeSet<u64>,
    pub removed: BTreeSet<u64>,
}

impl NodeStates {
    pub fn read(rows: &impl Rows) -> NodeStates {
        let mut states = NodeStates::default();
        rows.scan(&Key::NodeState(0), &Key::NodeState(u64::MAX), &mut |key, row| {
            if let (Key::NodeState(node), Row::NodeState(state)) = (key, row) {
                let of = match state {
                    NodeState::Draining => &mut states.draining,
                    NodeState::Maintenance => &mut states.maintenance,
                    NodeState::Removed => &mut states.removed,
                };
                of.insert(node);
            }
            ControlFlow::Continue(())
        });
        states
    }
}
