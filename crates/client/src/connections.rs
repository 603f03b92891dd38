//! The connections of clients to all nodes.

use std::sync::Arc;

use crate::calls::Repeat;
use crate::nodes::Node;
use crate::v1;
use crate::{Client, Error};

impl Client {
    /// A page of the connections of clients to a node, or with 0 to all nodes: those after the one of that id, or with
    /// an empty one from the first.
    pub async fn connections(
        &self,
        node: u64,
        after: &str,
    ) -> Result<v1::ListConnectionsResponse, Error> {
        let request = v1::ListConnectionsRequest { node, after: after.to_owned() };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.connections().list_connections(node.request(request)).await }
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }

    /// Has a connection end; its client may connect again at once.
    ///
    /// # Errors
    /// There is none of that id any more.
    pub async fn close_connection(&self, id: &str) -> Result<(), Error> {
        let request = v1::CloseConnectionRequest { id: id.to_owned() };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.connections().close_connection(node.request(request)).await }
        };
        self.shared.call(Repeat::IfNotDone, self.patience(), attempt).await?;
        Ok(())
    }
}
