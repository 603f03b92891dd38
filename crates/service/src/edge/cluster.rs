//! The cluster as a whole: its state, its time, its leaderships.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::{
    Command, GroupId, Key, Namespace, NodeRow, Outcome, Refusal, Row, Rows, Span, Timestamp,
};
use futures::future::{join, join_all};
use replication::{DiskStatus, PeerStatus};
use tokio::time::{Instant, timeout};

use crate::edge::catalog::NodeStates;
use crate::edge::receiver::unexpected;
use crate::edge::router::{Failure, Router};
use crate::edge::sampler::Sampler;
use crate::edge::status::{self, ClusterStatus, GroupView, NodeStatus, Role};
use crate::edge::{catalog, health};
use crate::error::{Error, ErrorKind, Result, Unavailable, Unknown};
use crate::exchange::{
    Answer, EntitySamples, GroupDepth, GroupHealth, NodeReport, Read, ReadAnswer,
};
use crate::peer::NOT_DEVELOPMENT;

/// How long a group's driver has to say who waits for messages.
const CONSUMERS_WITHIN: Duration = Duration::from_secs(1);

/// Whether this node can serve clients, and if not, why.
#[derive(Clone, Debug, PartialEq)]
pub struct Readiness {
    pub ready: bool,
    /// Empty when ready.
    pub why: String,
    /// One nearly full makes no node unready: it still delivers, settles and forwards.
    pub disk: DiskStatus,
    /// Every group this node would ask, and those with a replica here.
    pub groups: Vec<GroupHealth>,
    /// The other nodes, and how they answer this one.
    pub peers: Vec<PeerStatus>,
}

/// The cluster as a whole, for its operators.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    router: &'a Arc<Router>,
    /// In which names of entities are meant.
    pub(super) namespace: &'a Namespace,
}

impl<'a> Cluster<'a> {
    pub(super) fn router(self) -> &'a Arc<Router> {
        self.router
    }

    pub(crate) fn new(router: &'a Arc<Router>) -> Cluster<'a> {
        Cluster { router, namespace: &Namespace::DEFAULT }
    }

    pub(super) fn within(self, namespace: &'a Namespace) -> Cluster<'a> {
        Cluster { namespace, ..self }
    }

    /// This node's id.
    pub fn node(self) -> u64 {
        self.router.config.node
    }

    /// How many entries of the catalog are applied here: it tells whether anything was created or deleted
    /// since, and costs no read.
    pub fn catalog_applied(self) -> Option<u64> {
        self.router.local.replication.applied(GroupId::CATALOG)
    }

    /// The cluster's id; `None` while this node knows no cluster.
    pub fn id(self) -> Option<u128> {
        catalog::cluster(&self.router.local.catalog()).map(|cluster| cluster.cluster_id)
    }

    /// The binary's version.
    pub fn version(self) -> &'static str {
        self.router.config.version
    }

    /// What this node, or with `local` false every node that is reached, says of the cluster.
    pub async fn status(self, local: bool) -> ClusterStatus {
        let router = self.router;
        let (node, config) = (self.node(), &router.config);
        let rows = router.local.catalog();
        let (nodes, members) = (catalog::nodes(&rows), catalog::groups(&rows));
        let mut reports = BTreeMap::from([(node, router.local.report())]);
        let mut told = BTreeMap::from([(node, router.local.describe())]);
        if !local {
            let others = nodes.keys().copied().filter(|other| *other != node);
            let asked = others.map(|other| async move {
                (other, join(router.links.report(other), router.links.describe(other)).await)
            });
            for (other, (report, description)) in join_all(asked).await {
                reports.extend(report.map(|report| (other, report)));
                told.extend(description.map(|description| (other, description)));
            }
        }
        let mut groups = status::groups(&reports, &members, &router.standings.confirmed());
        status::date(&mut groups, &told);
        let led = |node| groups.iter().filter(|group| group.leader == Some(node)).count() as u32;
        let mut known = nodes;
        known.entry(node).or_insert_with(|| config.addresses.clone());
        let asked = match local {
            true => BTreeSet::from([node]),
            false => known.keys().copied().collect(),
        };
        let roles = NodeRoles::new(&rows, &reports, &groups);
        known.extend(roles.replaced(&rows));
        let now_s = now_s();
        let nodes = known.into_iter().map(|(node, addresses)| NodeStatus {
            node,
            role: roles.role(node, led(node)),
            replicas: roles.replicas(node),
            addresses,
            reachable: reports.contains_key(&node),
            groups_led: led(node),
            disk: reports.get(&node).map(|report| report.disk),
            clock: reports.get(&node).map_or_else(Default::default, |report| report.clock),
            note: {
                let own = config.note.filter(|_| node == self.node()).map(str::to_owned);
                let found = reports.get(&node).map(status::note).filter(|found| !found.is_empty());
                let ends = told.get(&node).map(|told| status::ending(told, now_s));
                own.into_iter()
                    .chain(found)
                    .chain(ends.into_iter().flatten())
                    .collect::<Vec<_>>()
                    .join("; ")
            },
            description: told.get(&node).cloned(),
        });
        let nodes: Vec<NodeStatus> = nodes.collect();
        let wrong =
            status::wrong(&nodes, &groups, &catalog::voters_wanted(&rows), &reports, &asked, now_s);
        let cluster = catalog::cluster(&rows);
        ClusterStatus {
            wrong,
            feature_level: cluster.as_ref().map_or(0, |cluster| cluster.feature_level),
            data_groups: cluster.as_ref().map_or(0, |cluster| cluster.data_groups),
            cluster_id: cluster.map(|cluster| cluster.cluster_id),
            durability: config.durability,
            development: config.development,
            version: config.version,
            answered_by: node,
            nodes,
            groups,
        }
    }

    /// The cluster's time, and how far an operator has moved it, as the catalog's leader says: the
    /// rows of a node that has just started may be of a time before.
    pub async fn now(self) -> Result<(Timestamp, Span)> {
        let router = self.router;
        let read = router.read(GroupId::CATALOG, Read::ClockOffset, router.deadline()).await;
        match read.map_err(|kind| Error::new(kind, ""))? {
            ReadAnswer::ClockOffset(offset) => Ok((router.local.clock.told().plus(offset), offset)),
            _ => {
                let why = Unavailable::NoLeader(GroupId::CATALOG);
                Err(Error::new(ErrorKind::Unavailable { why }, ""))
            }
        }
    }

    /// As [`Cluster::now`], by what this node has heard of so far.
    pub fn now_here(self) -> (Timestamp, Span) {
        self.router.now_here()
    }

    /// Development mode only: moves every group's time forward, and returns when all have done it.
    /// The catalog decides, and the others follow it, without this call if need be (`Reconciler`).
    pub async fn advance_clock(self, by: Span) -> Result<(Timestamp, Span)> {
        let router = self.router;
        if !router.config.development {
            return Err(Error::new(NOT_DEVELOPMENT, ""));
        }
        let cluster = catalog::cluster(&router.local.catalog());
        let Some(cluster) = cluster else {
            return Err(Error::new(ErrorKind::Unavailable { why: Unavailable::Starting }, ""));
        };
        let deadline = router.deadline();
        let goal = Span(self.now().await?.1.0.saturating_add(by.0));
        let advanced = router.call(GroupId::CATALOG, Command::AdvanceClock { by }, deadline).await;
        done(advanced).map_err(|kind| Error::new(kind, ""))?;
        // From here on it is done, and at worst not yet everywhere.
        let late = |group| Error::new(ErrorKind::Unknown { why: Unknown::Late(group) }, "");
        let mut pause = Duration::from_millis(1);
        while self.now_here().1 < goal {
            if !router.wait(&mut pause, deadline).await {
                return Err(late(GroupId::CATALOG));
            }
        }
        let (_, offset) = self.now_here();
        let groups = (1..=cluster.data_groups).map(GroupId);
        let raised = join_all(groups.map(|group| async move {
            self.raise_clock(group, offset, deadline).await.map_err(|_| late(group))
        }));
        raised.await.into_iter().collect::<Result<()>>()?;
        Ok((router.local.clock.told().plus(offset), offset))
    }

    /// Lets a group's time follow the catalog's.
    pub(crate) async fn raise_clock(
        self,
        group: GroupId,
        to: Span,
        deadline: Instant,
    ) -> Result<(), ErrorKind> {
        done(self.router.call(group, Command::RaiseClock { to }, deadline).await)
    }

    /// Hands a group's leadership to another of its nodes.
    pub async fn transfer_leader(self, group: GroupId, to: u64) -> Result<()> {
        let moved = self.router.transfer(group, to).await;
        moved.map_err(|why| {
            Error::new(Refusal::Argument { what: "transfer of leadership", why }, "")
        })
    }

    /// Whether this node can serve: it knows the cluster, each group it would ask has a leader that a
    /// majority confirmed lately, and its own replicas are nearly up to date.
    pub fn readiness(self) -> Readiness {
        let router = self.router;
        let replication = &router.local.replication;
        let peers = health::peers(router);
        let groups = health::groups(router);
        let why = health::not_ready(router, &groups, &peers);
        Readiness { ready: why.is_empty(), why, disk: replication.disk(), groups, peers }
    }

    /// What is stored in the groups this node leads, and what is told of entities; reads all that it leads, so not
    /// for every moment.
    pub async fn depths(self) -> (Vec<GroupDepth>, Option<EntitySamples>) {
        let router = self.router.clone();
        let led: Vec<_> =
            router.local.groups.all().into_iter().filter(|group| group.leads()).collect();
        let consumers = join_all(led.iter().map(|group| async {
            // A driver that reads its rows anew has nothing to tell yet.
            timeout(CONSUMERS_WITHIN, group.consumers()).await.unwrap_or_default()
        }));
        let consumers = consumers.await;
        let (now, _) = self.now_here();
        let sampled = tokio::task::spawn_blocking(move || {
            let local = &router.local;
            let tallies = &local.groups.tallies;
            let rows = |group| local.replication.rows(group);
            let depths: Vec<GroupDepth> = led
                .iter()
                .zip(&consumers)
                .map(|(group, consumers)| {
                    let sampler = Sampler { group: group.id, now, consumers, tallies };
                    sampler.depth(&rows(group.id))
                })
                .collect();
            let name = |group, entity| {
                local.groups.get(group)?;
                match rows(group).get(&Key::Entity(entity)) {
                    Some(Row::Entity(row)) => Some(row.name),
                    _ => None,
                }
            };
            let samples = tallies.sample(&depths, name);
            (depths, Some(samples))
        });
        sampled.await.unwrap_or_default()
    }
}

/// By this node's wall clock, as certificates are held against it.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Of a command that has nothing to say but that it is done.
fn done(result: Result<Answer, Failure>) -> Result<(), ErrorKind> {
    match result {
        Ok(Answer { outcome: Outcome::Done, .. }) => Ok(()),
        Ok(Answer { outcome: Outcome::Refused(refusal), .. }) => Err(refusal.into()),
        Ok(Answer { outcome, .. }) => Err(unexpected(&outcome, "".into()).kind),
        Err(Failure::Error(kind)) => Err(kind),
        Err(Failure::Mendable { refusal, .. }) => Err(refusal.into()),
    }
}

/// What tells each node's role.
struct NodeRoles<'a> {
    states: NodeStates,
    /// Members of the catalog's group, as its leader says.
    members: Option<BTreeSet<u64>>,
    groups: &'a [GroupView],
}

impl<'a> NodeRoles<'a> {
    fn new(
        rows: &impl Rows,
        reports: &BTreeMap<u64, NodeReport>,
        groups: &'a [GroupView],
    ) -> NodeRoles<'a> {
        let states = NodeStates::read(rows);
        let seen = reports.values().flat_map(|report| &report.groups);
        let leader = seen.filter(|group| group.id == GroupId::CATALOG && group.leading);
        let members = leader
            .max_by_key(|group| group.term)
            .map(|group| group.voters.iter().chain(&group.learners).copied().collect());
        NodeRoles { states, members, groups }
    }

    fn replicas(&self, node: u64) -> u32 {
        let data = self.groups.iter().filter(|group| group.id != GroupId::CATALOG);
        data.filter(|group| group.replicas.iter().any(|replica| replica.node == node)).count()
            as u32
    }

    fn role(&self, node: u64, led: u32) -> Role {
        let holds = self.replicas(node) + led > 0;
        let NodeStates { draining, maintenance, removed } = &self.states;
        match &self.members {
            _ if removed.contains(&node) => Role::Removed,
            _ if draining.contains(&node) && holds => Role::Draining,
            _ if draining.contains(&node) => Role::Drained,
            Some(members) if !members.contains(&node) => Role::Joining,
            _ if maintenance.contains(&node) => Role::Maintenance,
            Some(_) | None => Role::Active,
        }
    }

    /// Nodes that were removed and whose replicas are not all replaced yet.
    fn replaced(&self, rows: &impl Rows) -> Vec<(u64, NodeRow)> {
        let still = self.states.removed.iter().filter(|node| self.replicas(**node) > 0);
        let row = |node: &u64| match rows.get(&Key::Node(*node)) {
            Some(Row::Node(row)) => Some((*node, row)),
            _ => None,
        };
        still.filter_map(row).collect()
    }
}
