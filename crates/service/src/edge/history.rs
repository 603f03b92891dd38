//! What happened to messages, as this node has it.

use std::sync::Arc;

use domain::{GroupId, Refusal};
use replication::MessageHistory;

use crate::edge::cluster::Cluster;
use crate::error::{Error, Result};

const NOT_RECORDED: Refusal = Refusal::InvalidOperation {
    why: "what happens to messages is not recorded; start every node with --message-history and a size \
          in mebibytes, as 64",
};

impl Cluster<'_> {
    /// What happened to messages in this node's replicas.
    ///
    /// # Errors
    /// Refused where it is not recorded.
    pub fn message_history(self) -> Result<Arc<MessageHistory>> {
        let history = self.router().local.replication.message_history();
        history.ok_or_else(|| Error::new(NOT_RECORDED, ""))
    }

    /// How far the groups are that this node leads: the index of each one's last entry that was applied.
    ///
    /// # Errors
    /// Refused where it is not recorded what happens.
    pub fn history_marks(self) -> Result<Vec<(GroupId, u64)>> {
        self.message_history()?;
        let groups = self.router().local.replication.status();
        let led = groups.into_iter().filter(|group| group.leading);
        Ok(led.filter_map(|group| Some((group.id, group.applied?))).collect())
    }
}
