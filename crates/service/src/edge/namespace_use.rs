//! Who uses namespaces that go once they are idle (NS-9, NS-10). What is asked for in one begins with the catalog's
//! knowing of it, once a minute at most, as a receiver of a temporary queue begins with the group's (IDLE-14); what
//! lasts is told again by its node before that is over.

use std::collections::HashMap;
use std::ops::{ControlFlow, Deref};
use std::sync::Arc;

use domain::{
    CatalogCommand, Key, Namespace, NamespaceIdleRow, QualifiedName, Refusal, Row, Rows, Span,
    TOUCH_LASTS,
};
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::edge::catalog::Catalog;
use crate::edge::router::{Router, not_found};
use crate::error::{Error, Result};

/// What lasts is told again when no more than this is left.
const TOLD_AGAIN_WITHIN: Span = Span(TOUCH_LASTS.0 / 2);
/// Looks at what lasts in the time that nodes have to answer whether they use what is idle.
const LOOKS: u32 = 4;

/// How much on this node is a use of each namespace beside the default one.
#[derive(Default)]
pub(crate) struct NamespaceUses(Mutex<HashMap<Namespace, usize>>);

impl NamespaceUses {
    fn begin(self: &Arc<NamespaceUses>, namespace: &Namespace) -> InUse {
        if namespace.is_default() {
            return InUse(None);
        }
        *self.0.lock().entry(namespace.clone()).or_default() += 1;
        InUse(Some(Held { uses: self.clone(), namespace: namespace.clone() }))
    }

    fn end(&self, namespace: &Namespace) {
        let mut uses = self.0.lock();
        match uses.get_mut(namespace) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(uses.remove(namespace)),
        }
    }

    fn lasting(&self) -> Vec<Namespace> {
        self.0.lock().keys().cloned().collect()
    }
}

/// A use of a namespace, for as long as it is held.
pub(crate) struct InUse(Option<Held>);

struct Held {
    uses: Arc<NamespaceUses>,
    namespace: Namespace,
}

impl Clone for InUse {
    fn clone(&self) -> InUse {
        InUse(self.0.as_ref().and_then(|held| held.uses.begin(&held.namespace).0))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.uses.end(&self.namespace);
    }
}

/// An entity's name, for whoever uses it: its namespace does not go meanwhile.
#[derive(Clone)]
pub(crate) struct UsedName {
    name: QualifiedName,
    _in_use: InUse,
}

impl Deref for UsedName {
    type Target = QualifiedName;

    fn deref(&self) -> &QualifiedName {
        &self.name
    }
}

/// For whoever tells a client of it.
impl From<UsedName> for Arc<str> {
    fn from(used: UsedName) -> Arc<str> {
        Arc::from(&used.name)
    }
}

/// For whoever tells a client of it.
impl From<&UsedName> for Arc<str> {
    fn from(used: &UsedName) -> Arc<str> {
        Arc::from(&used.name)
    }
}

impl Router {
    /// NS-3, NS-10: what a client calls so, and uses from now on.
    ///
    /// # Errors
    /// ERR-1: nothing can have that name, or its namespace is going; or the catalog has no leader to be told.
    pub async fn used(&self, namespace: &Namespace, name: &str) -> Result<UsedName> {
        let qualified = namespace.qualify(name).map_err(|refusal| Error::new(refusal, name))?;
        Ok(UsedName { name: qualified, _in_use: self.enter(namespace, name).await? })
    }

    /// NS-10: a use begins. `name`: of what it is about, for its client.
    ///
    /// # Errors
    /// As [`Router::used`].
    pub async fn enter(&self, namespace: &Namespace, name: &str) -> Result<InUse> {
        let in_use = self.uses.begin(namespace);
        if !namespace.is_default() && !self.is_use_known(namespace, Span(0)) {
            let told = self.tell_use(namespace, self.deadline()).await;
            told.map_err(|error| match error.refusal() {
                Some(Refusal::EntityNotFound { .. } | Refusal::Argument { .. }) => not_found(name),
                _ => Error::new(error.kind, name),
            })?;
        }
        Ok(in_use)
    }

    /// Tells the catalog of what lasts, for ever. `within`: nodes that are asked whether they use something have that
    /// long.
    pub async fn tell_lasting_uses(self: Arc<Router>) {
        let idle = self.config.idle;
        let every = idle.collect_every.min(idle.reattach / LOOKS);
        loop {
            tokio::time::sleep(every).await;
            let lasting = self.uses.lasting();
            let router = &self;
            let untold = lasting.iter().filter(|it| !router.is_use_known(it, TOLD_AGAIN_WITHIN));
            let told = untold.map(|namespace| async move {
                if let Err(error) = router.tell_use(namespace, router.deadline()).await {
                    tracing::debug!(%namespace, %error, "cannot tell that a namespace is in use");
                }
            });
            join_all(told).await;
        }
    }

    /// Whether nobody needs to be told of a use at any time from now on to `ahead`, by this node's own rows. They may
    /// be behind, by far less than it takes from the question whether somebody uses it to the deletion.
    fn is_use_known(&self, namespace: &Namespace, ahead: Span) -> bool {
        match idle_row(&self.local.catalog(), namespace.as_str()) {
            Some(row) => !row.is_sealed && row.used_until >= self.now_here().0.plus(ahead),
            None => true,
        }
    }

    async fn tell_use(&self, namespace: &Namespace, deadline: Instant) -> Result<()> {
        let Some(row) = idle_row(&self.local.catalog(), namespace.as_str()) else { return Ok(()) };
        let until = self.now_here().0.plus(TOUCH_LASTS);
        let (request, name) = (row.request, namespace.as_str().to_owned());
        let tell = CatalogCommand::UseNamespace { request, name, until };
        Catalog::new(self).ask(tell, "", deadline).await.map(drop)
    }
}

/// Of a namespace that goes once it is idle.
pub(crate) fn idle_row(rows: &impl Rows, name: &str) -> Option<NamespaceIdleRow> {
    match rows.get(&Key::NamespaceIdle(name.to_owned())) {
        Some(Row::NamespaceIdle(row)) => Some(row),
        _ => None,
    }
}

/// All of them, by their names.
pub(crate) fn idle_rows(rows: &impl Rows) -> Vec<(String, NamespaceIdleRow)> {
    let (from, to) = (Key::NamespaceIdle(String::new()), Key::NamespaceIdle(char::MAX.to_string()));
    let mut found = Vec::new();
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::NamespaceIdle(name), Row::NamespaceIdle(row)) = (key, row) {
            found.push((name, row));
        }
        ControlFlow::Continue(())
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ns_10_a_namespace_is_in_use_until_the_last_of_its_users_is_gone() {
        let uses = Arc::new(NamespaceUses::default());
        let orders = Namespace::named("orders").expect("a name");
        let default = uses.begin(&Namespace::DEFAULT);
        assert_eq!(uses.lasting(), []);
        let first = uses.begin(&orders);
        let second = first.clone();
        drop((first, default));
        assert_eq!(uses.lasting(), [orders]);
        drop(second);
        assert_eq!(uses.lasting(), []);
    }
}
