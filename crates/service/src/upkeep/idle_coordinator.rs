//! The coordinator of idleness (IDLE), at the node that leads the catalog. Leaders name what is idle
//! by their rows; every node is asked whether it uses any of it; what is left is sealed: the catalog
//! records the intent, the data group decides, the catalog frees the name or withdraws the intent.
//! It keeps nothing from round to round. What its fall leaves is an intent, which refuses nobody
//! anything and which the reconciler finishes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{CatalogCommand, EntityId, EntityKind, GroupId, Rows, SUBSCRIPTIONS_MAX};
use engine::Candidate;
use futures::StreamExt;
use futures::future::join_all;

use crate::edge::{Catalog, Intents, Router, catalog};
use crate::exchange::IdleReport;

/// Most seals under way: many queues that were created together end together.
const SEALS_MAX: usize = 256;
/// Most entities asked about at a time: one topic's subscriptions are few beside it, and the question
/// must fit one frame.
const ASKED_MAX: usize = 64 * 1024;

pub(crate) struct IdleCoordinator {
    pub router: Arc<Router>,
}

impl IdleCoordinator {
    pub async fn run(self) {
        let every = self.router.config.idle.collect_every;
        loop {
            tokio::time::sleep(every).await;
            // What was named is not named again at once, so this ends.
            while self.router.local.leads_the_catalog() && self.round().await {}
        }
    }

    /// False if nobody named anything.
    async fn round(&self) -> bool {
        let named = self.ask_all(&[]).await;
        let named = named.into_iter().flat_map(|report| report.candidates);
        let candidates = engine::candidates(named);
        if candidates.is_empty() {
            return false;
        }
        let rows = self.router.local.catalog();
        let (candidates, asked) = tellers(&rows, candidates);
        let used = self.ask_all(&asked.keys().copied().collect::<Vec<_>>()).await;
        let used = used.iter().flat_map(|report| &report.used);
        let with_topic = used.flat_map(|id| [Some(*id), asked.get(id).copied().flatten()]);
        let used: BTreeSet<EntityId> = with_topic.flatten().collect();
        let unused = engine::unused(candidates, &used);
        futures::stream::iter(unused)
            .for_each_concurrent(SEALS_MAX, |(_, candidate)| self.seal(candidate))
            .await;
        true
    }

    async fn ask_all(&self, asked: &[EntityId]) -> Vec<IdleReport> {
        let router = &self.router;
        let nodes = catalog::nodes(&router.local.catalog()).into_keys();
        let asked = nodes.map(|node| async move {
            match node == router.local.id {
                true => router.local.idle_report(asked),
                false => router.links.idle_report(node, asked).await,
            }
        });
        join_all(asked).await
    }

    async fn seal(&self, candidate: Candidate) {
        let Candidate { entity, name, idle_since } = candidate;
        let deadline = self.router.deadline();
        let seal = CatalogCommand::Seal { name: name.clone(), entity, idle_since };
        let sealed = match Catalog::new(&self.router).propose(seal, &name, deadline).await {
            Ok(Some((row, _))) => {
                let finished = Intents::new(&self.router).finish_sealing(&row, deadline).await;
                finished.map(|()| true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        match sealed {
            Ok(false) => (),
            Ok(true) => {
                let text = format!("'{name}' is deleted: nobody used it for as long as it says");
                self.router.config.events.tell("entity.delete", &name, text, String::new());
            }
            Err(error) => {
                tracing::debug!(entity = %name, %error, "idle, and not deleted yet");
            }
        }
    }
}

/// Idle entities, by whose group leads them.
type Candidates = BTreeMap<EntityId, (GroupId, Candidate)>;

/// What to ask nodes about: the candidates, and, as a topic is used with its subscriptions (IDLE-2),
/// those, each with its topic. Candidates beyond what can be asked about are left for another round.
fn tellers(
    rows: &impl Rows,
    candidates: Candidates,
) -> (Candidates, BTreeMap<EntityId, Option<EntityId>>) {
    let (mut kept, mut asked) = (BTreeMap::new(), BTreeMap::new());
    for (entity, (group, candidate)) in candidates {
        if asked.len() >= ASKED_MAX {
            break;
        }
        let prefix = domain::subscription_path(&candidate.name, "");
        let count_max = SUBSCRIPTIONS_MAX as usize;
        let of = domain::directory_page(rows, EntityKind::Subscription, None, &prefix, count_max);
        asked.extend(of.into_iter().map(|row| (row.entity, Some(entity))));
        asked.entry(entity).or_insert(None);
        kept.insert(entity, (group, candidate));
    }
    (kept, asked)
}
