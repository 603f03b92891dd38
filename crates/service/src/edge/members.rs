//! Operators' wishes about nodes: each is one entry of the catalog's log, and the cluster sees to the
//! rest, whoever asked and whatever became of them.

use domain::{CatalogCommand, FEATURE_LEVEL_MAINTENANCE, GroupId, NodeRow, Refusal, Rows};

use crate::edge::catalog::{self, Catalog, NodeStates};
use crate::edge::cluster::Cluster;
use crate::edge::feature_level::check_newcomer;
use crate::error::{Error, ErrorKind, Result};

/// How often a number is drawn for a node that has none: others may join at the same time.
const DRAWS_MAX: u64 = 8;

/// What a node that joins has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    pub cluster_id: u128,
    /// Its number.
    pub node: u64,
    /// Everybody, the new one included.
    pub nodes: Vec<(u64, NodeRow)>,
}

impl Cluster<'_> {
    /// Makes a node a part of the cluster, under the next free number if it names none. It is given
    /// its share of replicas once it runs. A repeat with the same addresses answers the same.
    /// Refused if it is of a version that could not read the cluster's logs.
    pub async fn add_node(
        self,
        node: Option<u64>,
        row: NodeRow,
        feature_level: u32,
    ) -> Result<Joined> {
        let (router, known) = (self.router(), self.formed()?);
        check_newcomer(&known, feature_level)?;
        let (deadline, mut draws) = (router.deadline(), 0);
        let node = loop {
            draws += 1;
            let drawn = match node {
                Some(node) => node,
                None => next_number(&router.local.catalog(), &row, draws),
            };
            let add = CatalogCommand::AddNode { node: drawn, row: row.clone() };
            match Catalog::new(self.router()).propose(add, "", deadline).await {
                Ok(_) => break drawn,
                // Somebody else was given it.
                Err(error) if is_refused(&error) && node.is_none() && draws < DRAWS_MAX => (),
                Err(error) => return Err(error),
            }
        };
        let mut nodes = catalog::nodes(&router.local.catalog());
        nodes.insert(node, row); // It may not be applied here yet.
        let nodes = nodes.into_iter().collect();
        Ok(Joined { cluster_id: known.cluster_id, node, nodes })
    }

    /// Has all a node holds moved to others, or lets it have its share again. Returns once that is
    /// decided; `status` shows how far it is.
    pub async fn drain_node(self, node: u64, cancel: bool) -> Result<()> {
        let drain = CatalogCommand::Drain { node, cancel };
        Catalog::new(self.router()).propose(drain, "", self.router().deadline()).await.map(drop)
    }

    /// Has a node lead nothing while it keeps its replicas, or lets it lead again. Returns once that is
    /// decided; `status` shows what it leads still.
    pub async fn set_maintenance(self, node: u64, on: bool) -> Result<()> {
        self.of_level(FEATURE_LEVEL_MAINTENANCE, "node").await?;
        let set = CatalogCommand::SetMaintenance { node, on };
        Catalog::new(self.router()).propose(set, "", self.router().deadline()).await.map(drop)
    }

    /// Takes a node out of the cluster for good: one that was drained, or, with `dead`, one that will
    /// never come back, whose replicas are then replaced on others.
    pub async fn remove_node(self, node: u64, dead: bool) -> Result<()> {
        let refuse = |why: String| Err(Error::new(Refusal::Argument { what: "node", why }, ""));
        if dead && self.is_there(node).await {
            return refuse(format!(
                "node {node} is not dead, it answers; run `mayfly cluster drain {node}`, then remove it"
            ));
        }
        if !dead {
            let held = self.replicas_of(node).await;
            if held > 0 {
                return refuse(format!(
                    "node {node} still holds {held} replicas; run `mayfly cluster drain {node}` first, or \
                     add --dead if it is gone for good"
                ));
            }
        }
        let remove = CatalogCommand::Remove { node, dead };
        Catalog::new(self.router()).propose(remove, "", self.router().deadline()).await.map(drop)
    }

    async fn is_there(self, node: u64) -> bool {
        let known = catalog::nodes(&self.router().local.catalog());
        known.contains_key(&node)
            && (node == self.node() || self.router().links.report(node).await.is_some())
    }

    /// How many data groups count a node among their members, as all nodes say.
    async fn replicas_of(self, node: u64) -> usize {
        let status = self.status(false).await;
        let data = status.groups.iter().filter(|group| group.id != GroupId::CATALOG);
        data.filter(|group| group.replicas.iter().any(|replica| replica.node == node)).count()
    }
}

fn is_refused(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Refused(_))
}

/// The number of the node with this peer address, or the first one after all there ever were.
fn next_number(rows: &impl Rows, row: &NodeRow, draw: u64) -> u64 {
    let nodes = catalog::nodes(rows);
    let same = nodes.iter().find(|(_, known)| known.peer_address == row.peer_address);
    if let Some((node, _)) = same {
        return *node;
    }
    let removed = NodeStates::read(rows).removed;
    nodes.keys().chain(&removed).max().unwrap_or(&0) + draw
}
