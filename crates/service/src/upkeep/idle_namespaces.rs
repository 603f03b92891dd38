//! Deletes namespaces once they are idle (NS-9, NS-10), at the node that leads the catalog. What uses one is known to
//! the catalog for a minute at least. One that seems to be idle is sealed: that is the question to all nodes whether
//! something on them uses it, and who does withdraws the seal. What nobody answered for is deleted by one entry of
//! the catalog's log. Who falls on the way leaves a seal, which refuses nobody anything, and another asks again.

use std::collections::HashMap;
use std::sync::Arc;

use domain::{Command, GroupId, Key, NamespaceIdleRow, Row, Rows, SILENCE_MAX, Span};
use futures::StreamExt;
use futures::stream;
use tokio::time::Instant;

use crate::edge::{Router, ask_for_users, delete_idle, idle_rows};

/// The catalog's log says something that often, where it has temporary namespaces: else time without a leader could
/// not be told from time without a word.
const BEAT_EVERY: Span = Span(SILENCE_MAX.0 / 2);
/// Looked at or deleted at a time.
const AT_ONCE_MAX: usize = 16;

pub(crate) struct IdleNamespaces {
    router: Arc<Router>,
    /// Since when nodes have been asked about a namespace, by its name and the request that created it.
    asked: HashMap<(String, u64), Instant>,
}

impl IdleNamespaces {
    pub fn new(router: Arc<Router>) -> IdleNamespaces {
        IdleNamespaces { router, asked: HashMap::new() }
    }

    pub async fn run(mut self) {
        let every = self.router.config.idle.collect_every;
        loop {
            tokio::time::sleep(every).await;
            match self.router.local.leads_the_catalog() {
                true => self.round().await,
                // Whoever leads asks anew.
                false => self.asked.clear(),
            }
        }
    }

    async fn round(&mut self) {
        let rows = self.router.local.catalog();
        let temporary = idle_rows(&rows);
        if temporary.is_empty() {
            self.asked.clear();
            return;
        }
        let Some(Row::Meta(meta)) = rows.get(&Key::Meta) else { return };
        let now = self.router.now_here().0;
        if now.since(meta.last_at) >= BEAT_EVERY {
            let deadline = self.router.deadline();
            drop(self.router.call(GroupId::CATALOG, Command::Beat, deadline).await);
        }
        // What is decided is the reconciler's to finish.
        let is_going = |name: &String| {
            let row = rows.get(&Key::Namespace(name.clone()));
            matches!(row, Some(Row::Namespace(row)) if !row.is_ready())
        };
        let is_due = |(name, row): &(String, NamespaceIdleRow)| {
            row.due(meta.unbroken_since) <= now && !is_going(name)
        };
        let due: Vec<_> = temporary.into_iter().filter(is_due).collect();
        self.asked.retain(|(name, request), _| {
            due.iter().any(|(due, row)| due == name && row.request == *request && row.is_sealed)
        });
        let reattach = self.router.config.idle.reattach;
        let looked = due.into_iter().map(|(name, row)| {
            let is_asked_long = self.asked.get(&(name.clone(), row.request));
            let is_asked_long = is_asked_long.map(|since| since.elapsed() >= reattach);
            let router = &self.router;
            async move {
                let is_asked = match (row.is_sealed, is_asked_long) {
                    (true, Some(true)) => delete_idle(router, &name, row).await.map(|()| false),
                    (true, Some(false)) => Ok(false),
                    (true, None) | (false, _) => ask_for_users(router, &name, row, now).await,
                };
                (name, row.request, is_asked)
            }
        });
        let looked: Vec<_> = stream::iter(looked).buffer_unordered(AT_ONCE_MAX).collect().await;
        for (name, request, is_asked) in looked {
            match is_asked {
                Ok(true) => drop(self.asked.insert((name, request), Instant::now())),
                Ok(false) => (),
                Err(error) => {
                    tracing::debug!(namespace = name, %error, "idle, and not deleted yet")
                }
            }
        }
    }
}
