//! Questions of operators that each node answers for itself ([`NodeFacts`](crate::NodeFacts)).

use bytes::Bytes;

use crate::edge::catalog;
use crate::edge::cluster::Cluster;
use crate::facts::Untold;

impl Cluster<'_> {
    /// The ids of all nodes, as far as is known here, in their order; this one's always.
    pub fn node_ids(self) -> Vec<u64> {
        let rows = self.router().local.catalog();
        let mut known = catalog::nodes(&rows);
        known.entry(self.node()).or_insert_with(|| self.router().config.addresses.clone());
        known.into_keys().collect()
    }

    /// What a node answers. This one may be asked where there is no cluster yet.
    ///
    /// # Errors
    /// It does not answer within a second and a half, or does not know the question.
    pub async fn inquire(
        self,
        node: u64,
        question: &'static str,
        asked: Bytes,
    ) -> Result<Bytes, Untold> {
        if node != self.node() {
            return self.router().links.inquire(node, question, asked).await;
        }
        let facts = self.router().local.about.facts.clone();
        let told = tokio::task::spawn_blocking(move || facts.answer(question, asked)).await;
        told.ok().flatten().ok_or(Untold::Unknown)
    }
}
