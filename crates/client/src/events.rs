//! What changes in the cluster.

use std::sync::Arc;

use crate::calls::Repeat;
use crate::nodes::Node;
use crate::v1;
use crate::{Client, Error};

impl Client {
    /// What nodes have told since then (ms since the Unix epoch, 0: all they keep), after the cursors of the last answer.
    pub async fn events(
        &self,
        since_ms: u64,
        cursors: Vec<v1::EventCursor>,
    ) -> Result<v1::ListEventsResponse, Error> {
        let request = v1::ListEventsRequest { since_ms, cursors };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.events().list_events(node.request(request)).await }
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }
}
