//! What a node knows of itself, for those who help with a cluster.

use std::sync::Arc;

use crate::calls::Repeat;
use crate::nodes::Node;
use crate::v1;
use crate::{Client, Error};

impl Client {
    /// Version, metrics, settings without secrets, and lines of the log since then (ms since the Unix epoch) of a node.
    ///
    /// # Errors
    /// It does not answer, or its version does not tell.
    pub async fn node_report(&self, node: u64, log_since_ms: u64) -> Result<v1::NodeReport, Error> {
        let request = v1::GetNodeReportRequest { node, log_since_ms };
        let attempt = |asked: Arc<Node>, _| async move {
            asked.support().get_node_report(asked.request(request)).await
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }
}
