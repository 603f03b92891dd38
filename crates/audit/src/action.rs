//! What is told of: one table.

/// Each row: an action, its name in a record, what it means, and what an event says when it is done, `{}` for its
/// object.
macro_rules! actions {
    ($($action:ident, $name:literal, $text:literal, $told:literal;)*) => {
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

            /// That it was done to that object, for people.
            pub fn told(self, object: &str) -> String {
                match self { $(Action::$action => $told),* }.replace("{}", object)
            }
        }
    };
}

actions! {
    EntityCreate, "entity.create", "A queue, topic or subscription is created; over AMQP also a temporary queue.", "'{}' is created";
    EntityUpdate, "entity.update", "Its properties are changed, its authorization rules and their keys among them.", "'{}' is changed";
    EntityDelete, "entity.delete", "It is deleted with its messages.", "'{}' is deleted";
    EntityMove, "entity.move", "It moves to another group, with a topic its subscriptions.", "an entity moves: {}";
    NamespaceCreate, "namespace.create", "A namespace is created; `object` is its name.", "namespace '{}' is created";
    NamespaceUpdate, "namespace.update", "Its authorization rules and their keys, or its profile, are changed.", "namespace '{}' is changed";
    NamespaceDelete, "namespace.delete", "It is deleted, with `--force` all of its entities as well.", "namespace '{}' is deleted";
    GroupPut, "resource-group.put", "A resource group of Azure's management API is created, or its tags are changed.", "resource group '{}' is put";
    GroupDelete, "resource-group.delete", "It is deleted, with its namespaces and all that is in them.", "resource group '{}' is deleted";
    DeploymentPut, "deployment.put", "A template is deployed over Azure's management API; what it makes is recorded as well.", "deployment '{}' is put";
    DeploymentDelete, "deployment.delete", "What is kept of a deployment is deleted, and nothing that it made.", "deployment '{}' is deleted";
    DeploymentCancel, "deployment.cancel", "A deployment is told to end before it is done.", "deployment '{}' is cancelled";
    RulePut, "rule.put", "A subscription gets a rule, or another in the place of one.", "rule '{}' is put";
    RuleDelete, "rule.delete", "A subscription loses a rule.", "rule '{}' is removed";
    MessagesPurge, "messages.purge", "Messages are deleted by the batch, as `mayfly purge` does.", "'{}' is purged";
    TokenCreate, "token.create", "A join token is made; `object` is its id, and the node it is for.", "a join token is made: {}";
    TokenRevoke, "token.revoke", "It admits nobody any more.", "join token {} admits nobody any more";
    NodeAdd, "node.add", "A node asks to be taken into the cluster.", "{} is a part of the cluster";
    NodeDrain, "node.drain", "A node is emptied, or is to be no longer.", "{} is to be emptied";
    NodeMaintenance, "node.maintenance", "A node is to lead nothing for a while, or is to lead again.", "{} is in maintenance";
    NodeRemove, "node.remove", "A node leaves the cluster.", "{} is no part of the cluster any more";
    GroupsAdd, "groups.add", "The cluster is to have more data groups.", "there are to be {}";
    ConnectionClose, "connection.close", "A client's connection is ended; `object` is its id.", "{} is told to end";
    BackupCreate, "backup.create", "All entities are copied, with their messages and keys.", "a backup of all entities is made";
    BackupRestore, "backup.restore", "A backup's entities come to be in this cluster.", "a backup is restored";
    LeaderTransfer, "leader.transfer", "A group gets another leader.", "leadership of {} is handed over";
    FaultPut, "fault.put", "Clients are to meet a fault.", "clients are to meet the fault {}";
    FaultRemove, "fault.remove", "A fault, or all of them, is met no more.", "clients meet no more: fault {}";
    ClockAdvance, "clock.advance", "The cluster's time is moved forward.", "the cluster's time is moved ahead {}";
    ProofRefuse, "proof.refuse", "A login, a token or a key was not good, or none was sent.", "a proof is refused: {}";
    AccessRefuse, "access.refuse", "Who proved who he is lacks the right for what he asked.", "a right is missing: {}";
    RecordsDrop, "records.drop", "Records were lost, as many as `count`: they came faster than they could be written.", "records of the audit are lost";
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

    #[test]
    fn what_was_done_names_what_it_was_done_to() {
        assert_eq!(Action::EntityCreate.told("orders"), "'orders' is created");
        assert_eq!(Action::NodeAdd.told("node 4 at h:1"), "node 4 at h:1 is a part of the cluster");
        let told: Vec<String> = Action::ALL.iter().map(|action| action.told("x")).collect();
        assert!(told.iter().all(|told| !told.contains("{}")), "{told:?}");
    }
}
