//! What is told of: one table.

/// Each row: an action, its name in a record, and what it means.
macro_rules! actions {
    ($($action:ident, $name:literal, $text:literal;)*) => {
        /// What somebody did, or tried to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Action { $($action),* }

        impl Action {
            /// All of them, in the order of the reference.
            pub const ALL: &[Action] = &[$(Action::$action),*];

            /// In a record.
            pub fn name(self) -> &'static str {
                match self { $(Action::$action => $name),* }
            }

            /// For people.
            pub fn text(self) -> &'static str {
                match self { $(Action::$action => $text),* }
            }
        }
    };
}

actions! {
    EntityCreate, "entity.create", "A queue, topic or subscription is created; over AMQP also a temporary queue.";
    EntityUpdate, "entity.update", "Its properties are changed, its authorization rules and their keys among them.";
    EntityDelete, "entity.delete", "It is deleted with its messages.";
    EntityMove, "entity.move", "It moves to another group, with a topic its subscriptions.";
    RulePut, "rule.put", "A subscription gets a rule, or another in the place of one.";
    RuleDelete, "rule.delete", "A subscription loses a rule.";
    MessagesPurge, "messages.purge", "Messages are deleted by the batch, as `mayfly purge` does.";
    TokenCreate, "token.create", "A join token is made; `object` is its id, and the node it is for.";
    TokenRevoke, "token.revoke", "It admits nobody any more.";
    NodeAdd, "node.add", "A node asks to be taken into the cluster.";
    NodeDrain, "node.drain", "A node is emptied, or is to be no longer.";
    NodeMaintenance, "node.maintenance", "A node is to lead nothing for a while, or is to lead again.";
    NodeRemove, "node.remove", "A node leaves the cluster.";
    GroupsAdd, "groups.add", "The cluster is to have more data groups.";
    ConnectionClose, "connection.close", "A client's connection is ended; `object` is its id.";
    BackupCreate, "backup.create", "All entities are copied, with their messages and keys.";
    BackupRestore, "backup.restore", "A backup's entities come to be in this cluster.";
    LeaderTransfer, "leader.transfer", "A group gets another leader.";
    FaultPut, "fault.put", "Clients are to meet a fault.";
    FaultRemove, "fault.remove", "A fault, or all of them, is met no more.";
    ClockAdvance, "clock.advance", "The cluster's time is moved forward.";
    ProofRefuse, "proof.refuse", "A login, a token or a key was not good, or none was sent.";
    AccessRefuse, "access.refuse", "Who proved who he is lacks the right for what he asked.";
    RecordsDrop, "records.drop", "Records were lost, as many as `count`: they came faster than they could be written.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let mut names: Vec<&str> = Action::ALL.iter().map(|action| action.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Action::ALL.len());
    }
}
