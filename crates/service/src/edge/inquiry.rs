//! Questions of operators that each node answers for itself ([`NodeFacts`](crate::NodeFacts)).

use std::time::Duration;

use bytes::Bytes;

use crate::edge::catalog;
use crate::edge::cluster::Cluster;
use crate::facts::Untold;

/// How long a node may take to answer an operator's question, for whom a page waits that shows what is known within
/// two seconds.
const INQUIRY_TIMEOUT: Duration = Duration::from_millis(1_500);

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
        self.inquire_within(node, question, asked, INQUIRY_TIMEOUT).await
    }

    /// As [`Cluster::inquire`], of a node that has as long as that to answer.
    pub(super) async fn inquire_within(
        self,
        node: u64,
        question: &'static str,
        asked: Bytes,
        within: Duration,
    ) -> Result<Bytes, Untold> {
        if node != self.node() {
            return self.router().links.inquire(node, question, asked, within).await;
        }
        let about = self.router().local.about.clone();
        let told = tokio::task::spawn_blocking(move || about.answer(question, asked)).await;
        told.ok().flatten().ok_or(Untold::Unknown)
    }
}
