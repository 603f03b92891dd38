//! What a node does for the cluster without being asked: it founds it, runs the replicas the
//! catalog gives it, keeps its addresses known and its groups' time the catalog's, hands leaderships
//! to nodes that have fewer, and, leading the catalog, finishes creations and deletions that a crash
//! left half done.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    CatalogCommand, Command, DirectoryRow, DirectoryState, EntityId, GroupId, Key, Row, Rows,
};
use tokio::time::{Instant, sleep, timeout};

use crate::config::Founding;
use crate::edge::{
    Catalog, Cluster, Intents, Router, catalog, finish_deletions, finish_profile_changes,
};
use crate::upkeep::added_groups::open_groups;
use crate::upkeep::leadership_balance::LeadershipBalance;
use crate::upkeep::placement::{LocalReplicas, Placement};
use crate::upkeep::succession::Succession;

/// While the cluster takes shape.
const LOOK_EARLY: Duration = Duration::from_millis(100);
/// Once it has.
const LOOK: Duration = Duration::from_millis(250);
/// Longer by so much, while the catalog says nothing new and no leadership moves.
const LOOK_STILL: Duration = Duration::from_millis(750);
/// An intent that stands this long unfinished was left by a crash.
const RECONCILE_EVERY: Duration = Duration::from_secs(5);

/// What a look has found.
enum Shape {
    /// The cluster takes shape.
    Incomplete,
    /// All runs here that is to, and a leadership was handed over: there may be another.
    Moving,
    Still,
}

pub(crate) struct Reconciler {
    pub router: Arc<Router>,
    pub succession: Arc<Succession>,
    pub replicas: LocalReplicas,
    pub addresses_known: bool,
    /// How far the catalog was when a look at it found no intent: it needs none again while it
    /// stays there.
    pub quiet_at: Option<u64>,
    /// Intents that stood at the last look.
    pub unfinished: BTreeSet<(EntityId, bool)>,
    pub reconcile_at: Instant,
    pub balance: LeadershipBalance,
}

impl Reconciler {
    pub fn new(router: Arc<Router>, succession: Arc<Succession>) -> Reconciler {
        let founding = router.config.founding.iter().flat_map(|founding| &founding.nodes);
        let founders = founding.map(|(node, _)| *node).collect();
        Reconciler {
            replicas: LocalReplicas::new(router.local.clone(), succession.clone(), founders),
            router,
            succession,
            addresses_known: false,
            quiet_at: None,
            unfinished: BTreeSet::new(),
            reconcile_at: Instant::now() + RECONCILE_EVERY,
            balance: LeadershipBalance::default(),
        }
    }

    pub async fn run(mut self) {
        let router = self.router.clone();
        loop {
            // From before the look, so that no change is missed.
            let changes = router.local.replication.changes(GroupId::CATALOG);
            match (self.look().await, changes) {
                (Shape::Still, Some(mut changes)) => {
                    sleep(LOOK).await;
                    drop(timeout(LOOK_STILL, changes.changed()).await);
                }
                (Shape::Still, None) | (Shape::Moving, _) => sleep(LOOK).await,
                (Shape::Incomplete, _) => sleep(LOOK_EARLY).await,
            }
        }
    }

    async fn look(&mut self) -> Shape {
        let router = self.router.clone();
        let rows = router.local.catalog();
        let leads = router.local.leads_the_catalog();
        let Some(cluster) = catalog::cluster(&rows) else {
            if leads && let Some(founding) = &router.config.founding {
                self.found(founding).await;
            }
            return Shape::Incomplete;
        };
        let placement = Placement::read(&rows);
        let all_run = self.replicas.look(&placement).await;
        self.tell_addresses().await;
        self.raise_clocks(&rows).await;
        if leads {
            open_groups(&router, &cluster, &placement).await;
        }
        if leads && Instant::now() >= self.reconcile_at {
            self.reconcile().await;
            self.reconcile_at = Instant::now() + RECONCILE_EVERY;
        }
        let moved = self.even_out().await;
        match all_run && placement.groups.len() > usize::from(cluster.data_groups) {
            true if moved => Shape::Moving,
            true => Shape::Still,
            false => Shape::Incomplete,
        }
    }

    async fn found(&self, founding: &Founding) {
        let Founding { cluster_id, data_groups, replication_factor, nodes } = founding.clone();
        let found = CatalogCommand::Found { cluster_id, data_groups, replication_factor, nodes };
        let router = &self.router;
        let pending = router.post(GroupId::CATALOG, Command::Catalog(found));
        // A failure shows as a cluster that is not founded, at the next look.
        if router.finish(GroupId::CATALOG, pending, router.deadline()).await.is_ok() {
            tracing::info!(data_groups, replication_factor, "cluster founded");
        }
    }

    /// Hands one leadership over, if another node leads fewer groups; whether it did.
    async fn even_out(&mut self) -> bool {
        let router = &self.router;
        let (mut groups, unfit) = (router.local.replication.status(), self.succession.unfit());
        for status in &mut groups {
            // A clock that is off would give it back at once.
            let agreeing = router.local.group(status.id).map(|group| group.agreeing());
            status.voters.retain(|node| agreeing.as_ref().is_some_and(|fit| fit.contains(node)));
        }
        let (own, led) = (router.local.id, self.succession.led());
        let decided = self.balance.look(own, &groups, &unfit, &led, Instant::now());
        let Some((group, to)) = decided else { return false };
        self.succession.hand_over(group, to, "to spread the load").await;
        true
    }

    /// A node that was moved says so once.
    async fn tell_addresses(&mut self) {
        if self.addresses_known {
            return;
        }
        let router = &self.router;
        let config = &router.config;
        let nodes = catalog::nodes(&router.local.catalog());
        if nodes.get(&config.node) == Some(&config.addresses) {
            self.addresses_known = true;
            return;
        }
        let (node, row) = (config.node, config.addresses.clone());
        let told = Catalog::new(&self.router).propose(
            CatalogCommand::SetNode { node, row },
            "",
            router.deadline(),
        );
        if let Err(error) = told.await {
            tracing::debug!(%error, "the catalog does not know this node's addresses yet");
        }
    }

    /// Groups led here follow the catalog's time, should whoever advanced it have failed half-way.
    async fn raise_clocks(&self, catalog: &impl Rows) {
        let router = &self.router;
        let to = domain::meta(catalog).clock_offset;
        for group in router.local.groups.all().into_iter().filter(|group| group.leads()) {
            let offset = domain::meta(&router.local.replication.rows(group.id)).clock_offset;
            if offset < to
                && let Err(error) =
                    Cluster::new(&self.router).raise_clock(group.id, to, router.deadline()).await
            {
                tracing::debug!(group = %group.id, %error, "its clock is not advanced yet");
            }
        }
    }

    /// Finishes what stood unfinished at two looks: its coordinator is slow at best.
    async fn reconcile(&mut self) {
        let replication = &self.router.local.replication;
        let status = replication.status();
        let catalog = status.iter().find(|status| status.id == GroupId::CATALOG);
        let applied = catalog.and_then(|status| status.applied);
        if applied.is_some() && applied == self.quiet_at {
            return; // The directory may be long.
        }
        let standing = unfinished(&self.router.local.catalog());
        let are_namespaces_deleted = finish_deletions(&self.router).await;
        let are_profiles_changed = finish_profile_changes(&self.router).await;
        let is_quiet = standing.is_empty() && !are_namespaces_deleted && !are_profiles_changed;
        self.quiet_at = applied.filter(|_| is_quiet);
        let left = standing.iter().filter(|(mark, _)| self.unfinished.contains(mark));
        for (_, row) in left {
            let deadline = self.router.deadline();
            let finished = match &row.state {
                DirectoryState::Creating { .. } => {
                    Intents::new(&self.router).finish_creation(row, deadline).await
                }
                DirectoryState::Deleting => {
                    Intents::new(&self.router).finish_deletion(row, deadline).await
                }
                DirectoryState::Sealing { .. } => {
                    Intents::new(&self.router).finish_sealing(row, deadline).await
                }
                DirectoryState::Ready => Ok(()),
            };
            match finished {
                Ok(()) => tracing::info!(entity = %row.name, "finished what was left undone"),
                Err(error) => tracing::warn!(%error, "cannot finish what was left undone yet"),
            }
        }
        self.unfinished = standing.into_iter().map(|(mark, _)| mark).collect();
    }
}

/// Intents, each with what tells it from another about the same name.
fn unfinished(rows: &impl Rows) -> Vec<((EntityId, bool), DirectoryRow)> {
    let mut found = Vec::new();
    let (from, to) = (Key::Directory(String::new()), Key::Directory(char::MAX.to_string()));
    rows.scan(&from, &to, &mut |_, row| {
        if let Row::Directory(row) = row
            && row.state != DirectoryState::Ready
        {
            found.push(((row.entity, row.state == DirectoryState::Deleting), row));
        }
        ControlFlow::Continue(())
    });
    found
}
