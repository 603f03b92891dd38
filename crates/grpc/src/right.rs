//! What each request takes, and what the audit is told of it: one table. A request that is not in it
//! cannot be served, as the [`Door`](crate::door::Door) opens by it.

use audit::Action;
use auth::{JoinToken, Right, named_path};
use domain::subscription_path;
use limits::MANAGEMENT_CREDITS;
use prost::Message;
use wire::v1::{self, SubQueue};

/// A right that somebody has to have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    /// Normalised; empty for the cluster and all that is in it.
    pub path: String,
    /// One of these will do.
    pub any_of: &'static [Right],
}

/// A request, or the first of a stream's.
pub(crate) trait Ask: Message {
    /// As in `Messaging/Send`.
    const METHOD: &'static str;

    /// What it does to entities, keys or the cluster; `None`: it only reads, or is about messages.
    const ACTION: Option<Action>;

    fn needs(&self) -> Vec<Need>;

    /// Messages that it sends; what sends none counts as one.
    fn messages(&self) -> usize {
        1
    }

    /// What it costs (QUOTA-34). Operators of the cluster are never held up.
    fn credits(&self) -> u64 {
        match Self::METHOD.split_once('/') {
            // Whoever may listen to an entity asks it, and every node looks through all that it has.
            Some(("History", "FindMessages")) => MANAGEMENT_CREDITS,
            Some((
                "Cluster" | "Namespaces" | "Connections" | "Events" | "Support" | "Backups"
                | "Faults" | "History",
                _,
            )) => 0,
            Some(("Entities", _)) => MANAGEMENT_CREDITS,
            _ => self.messages().max(1) as u64,
        }
    }

    /// What it is done to, where that is not what the first right is needed on.
    fn object(&self) -> Option<String>;
}

const LISTEN: &[Right] = &[Right::Listen];
const SEND: &[Right] = &[Right::Send];
const MANAGE: &[Right] = &[Right::Manage];
const MONITOR: &[Right] = &[Right::Monitor];
const OPERATE: &[Right] = &[Right::Operate];
const INJECT_FAULTS: &[Right] = &[Right::InjectFaults];
/// Who does anything with an entity may know who leads it.
const MESSAGES: &[Right] = &[Right::Send, Right::Listen];

/// Reads, or is about messages only.
const UNAUDITED: Option<Action> = None;

macro_rules! given {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// Each row: a request and its method, what it takes, what the audit is told, and on what; of what is
/// about no entity, what that is; and how many messages it sends.
macro_rules! asks {
    ($($request:ident, $method:literal, $rights:expr, $action:expr, |$ask:ident| $path:expr $(, $object:expr)? $(=> $messages:expr)?;)*) => {
        $(impl Ask for v1::$request {
            const METHOD: &'static str = $method;
            const ACTION: Option<Action> = $action;

            #[allow(unused_variables, reason = "most are called as what they are about")]
            fn object(&self) -> Option<String> {
                let $ask = self;
                given!($($object)?)
            }

            $(fn messages(&self) -> usize {
                let $ask = self;
                $messages
            })?

            #[allow(unused_variables, reason = "what is about no entity")]
            fn needs(&self) -> Vec<Need> {
                let $ask = self;
                vec![need($rights, $path)]
            }
        })*
        /// All of them, for the test that no method is missing.
        #[cfg(test)]
        const TABLE: &[(&str, &[Right], Option<Action>)] = &[$(($method, $rights, $action)),*];
    };
}

asks! {
    SendRequest, "Messaging/Send", SEND, UNAUDITED, |ask| named_path(&ask.queue) => ask.messages.len();
    SendStreamRequest, "Messaging/SendStream", SEND, UNAUDITED, |ask| named_path(&ask.queue) => ask.messages.len();
    CancelScheduledRequest, "Messaging/CancelScheduled", SEND, UNAUDITED, |ask| named_path(&ask.queue);
    ReceiveRequest, "Messaging/Receive", LISTEN, UNAUDITED, |ask| within(&ask.queue, ask.sub_queue);
    ReceiveOpen, "Messaging/ReceiveStream", LISTEN, UNAUDITED, |ask| within(&ask.queue, ask.sub_queue);
    SettleRequest, "Messaging/Settle", LISTEN, UNAUDITED, |ask| within(&ask.queue, ask.sub_queue);
    RenewRequest, "Messaging/Renew", LISTEN, UNAUDITED, |ask| within(&ask.queue, ask.sub_queue);
    ReceiveDeferredRequest, "Messaging/ReceiveDeferred", LISTEN, UNAUDITED, |ask| within(&ask.queue, ask.sub_queue);
    PeekRequest, "Messaging/Peek", LISTEN, UNAUDITED, |ask| within(&ask.queue, ask.sub_queue);
    DeleteBatchRequest, "Messaging/DeleteBatch", LISTEN, Some(Action::MessagesPurge), |ask| within(&ask.queue, ask.sub_queue);
    RouteRequest, "Messaging/Route", MESSAGES, UNAUDITED, |ask| named_path(&ask.queue);

    RenewSessionRequest, "Sessions/RenewSession", LISTEN, UNAUDITED, |ask| named_path(&ask.queue);
    ReleaseSessionRequest, "Sessions/ReleaseSession", LISTEN, UNAUDITED, |ask| named_path(&ask.queue);
    SetSessionStateRequest, "Sessions/SetSessionState", LISTEN, UNAUDITED, |ask| named_path(&ask.queue);
    GetSessionStateRequest, "Sessions/GetSessionState", LISTEN, UNAUDITED, |ask| named_path(&ask.queue);
    ReceiveSessionDeferredRequest, "Sessions/ReceiveSessionDeferred", LISTEN, UNAUDITED, |ask| named_path(&ask.queue);
    PeekSessionRequest, "Sessions/PeekSession", LISTEN, UNAUDITED, |ask| named_path(&ask.queue);
    DeleteSessionBatchRequest, "Sessions/DeleteSessionBatch", LISTEN, Some(Action::MessagesPurge), |ask| named_path(&ask.queue);
    ListSessionsRequest, "Sessions/ListSessions", LISTEN, UNAUDITED, |ask| named_path(&ask.queue);

    GetQueueRequest, "Entities/GetQueue", MANAGE, UNAUDITED, |ask| named_path(&ask.name);
    DeleteQueueRequest, "Entities/DeleteQueue", MANAGE, Some(Action::EntityDelete), |ask| named_path(&ask.name);
    ListQueuesRequest, "Entities/ListQueues", MANAGE, UNAUDITED, |_ask| String::new();
    CreateTopicRequest, "Entities/CreateTopic", MANAGE, Some(Action::EntityCreate), |ask| named_path(&ask.name);
    GetTopicRequest, "Entities/GetTopic", MANAGE, UNAUDITED, |ask| named_path(&ask.name);
    UpdateTopicRequest, "Entities/UpdateTopic", MANAGE, Some(Action::EntityUpdate), |ask| named_path(&ask.name);
    DeleteTopicRequest, "Entities/DeleteTopic", MANAGE, Some(Action::EntityDelete), |ask| named_path(&ask.name);
    ListTopicsRequest, "Entities/ListTopics", MANAGE, UNAUDITED, |_ask| String::new();
    GetSubscriptionRequest, "Entities/GetSubscription", MANAGE, UNAUDITED, |ask| below(&ask.topic, &ask.name);
    DeleteSubscriptionRequest, "Entities/DeleteSubscription", MANAGE, Some(Action::EntityDelete), |ask| below(&ask.topic, &ask.name);
    ListSubscriptionsRequest, "Entities/ListSubscriptions", MANAGE, UNAUDITED, |ask| named_path(&ask.topic);
    // As over AMQP (REQ-25).
    PutRuleRequest, "Entities/PutRule", LISTEN, Some(Action::RulePut), |ask| below(&ask.topic, &ask.subscription),
        rule_path(&ask.topic, &ask.subscription, ask.rule.as_ref().map_or("", |rule| &rule.name));
    ListRulesRequest, "Entities/ListRules", LISTEN, UNAUDITED, |ask| below(&ask.topic, &ask.subscription);
    RemoveRuleRequest, "Entities/RemoveRule", LISTEN, Some(Action::RuleDelete), |ask| below(&ask.topic, &ask.subscription),
        rule_path(&ask.topic, &ask.subscription, &ask.rule);

    CreateNamespaceRequest, "Namespaces/CreateNamespace", OPERATE, Some(Action::NamespaceCreate), |ask| String::new(), ask.name.clone();
    GetNamespaceRequest, "Namespaces/GetNamespace", OPERATE, UNAUDITED, |_ask| String::new();
    ListNamespacesRequest, "Namespaces/ListNamespaces", OPERATE, UNAUDITED, |_ask| String::new();
    UpdateNamespaceRequest, "Namespaces/UpdateNamespace", OPERATE, Some(Action::NamespaceUpdate), |ask| String::new(), ask.name.clone();
    DeleteNamespaceRequest, "Namespaces/DeleteNamespace", OPERATE, Some(Action::NamespaceDelete), |ask| String::new(), ask.name.clone();

    StatusRequest, "Cluster/Status", MONITOR, UNAUDITED, |_ask| String::new();
    NowRequest, "Cluster/Now", MONITOR, UNAUDITED, |_ask| String::new();
    AdvanceClockRequest, "Cluster/AdvanceClock", OPERATE, Some(Action::ClockAdvance), |ask| String::new(),
        format!("by {} ms", ask.by_ms);
    TransferLeaderRequest, "Cluster/TransferLeader", OPERATE, Some(Action::LeaderTransfer), |ask| String::new(),
        format!("group {} to node {}", ask.group, ask.node);
    AddNodeRequest, "Cluster/AddNode", OPERATE, Some(Action::NodeAdd), |ask| String::new(),
        joining(ask.node.as_ref());
    CreateJoinTokenRequest, "Cluster/CreateJoinToken", OPERATE, Some(Action::TokenCreate), |ask| String::new(),
        match ask.node {
            0 => format!("{} for any node", JoinToken::show_id(ask.id)),
            node => format!("{} for node {node}", JoinToken::show_id(ask.id)),
        };
    ListJoinTokensRequest, "Cluster/ListJoinTokens", OPERATE, UNAUDITED, |_ask| String::new();
    RevokeJoinTokenRequest, "Cluster/RevokeJoinToken", OPERATE, Some(Action::TokenRevoke), |ask| String::new(),
        JoinToken::show_id(ask.id);
    DrainNodeRequest, "Cluster/DrainNode", OPERATE, Some(Action::NodeDrain), |ask| String::new(),
        format!("node {}{}", ask.id, if ask.cancel { " no longer" } else { "" });
    SetMaintenanceRequest, "Cluster/SetMaintenance", OPERATE, Some(Action::NodeMaintenance), |ask| String::new(),
        format!("node {}{}", ask.id, if ask.on { "" } else { " no longer" });
    AddGroupsRequest, "Cluster/AddGroups", OPERATE, Some(Action::GroupsAdd), |ask| String::new(),
        format!("{} data groups", ask.data_groups);
    MoveEntityRequest, "Cluster/MoveEntity", OPERATE, Some(Action::EntityMove), |ask| String::new(),
        format!("'{}' to group {}", ask.name, ask.group);
    PutFaultRuleRequest, "Faults/PutRule", INJECT_FAULTS, Some(Action::FaultPut), |ask| String::new(),
        format!("'{}': {}", ask.name, ask.rule);
    RemoveFaultRulesRequest, "Faults/RemoveRules", INJECT_FAULTS, Some(Action::FaultRemove), |ask| String::new(),
        match ask.name.as_str() {
            "" => "all".to_owned(),
            name => format!("'{name}'"),
        };
    ListFaultRulesRequest, "Faults/ListRules", INJECT_FAULTS, UNAUDITED, |_ask| String::new();
    // Who may receive everything may know what became of it.
    ReadHistoryRequest, "History/Read", LISTEN, UNAUDITED, |_ask| String::new();
    HistoryMarksRequest, "History/Marks", LISTEN, UNAUDITED, |_ask| String::new();
    // As for peeking; where it is followed it may be anybody's.
    FindMessagesRequest, "History/FindMessages", LISTEN, UNAUDITED, |ask| if ask.follow { String::new() } else { named_path(&ask.entity) };
    ListEventsRequest, "Events/ListEvents", MONITOR, UNAUDITED, |_ask| String::new();
    GetNodeReportRequest, "Support/GetNodeReport", OPERATE, UNAUDITED, |_ask| String::new();
    // They have addresses, and names of keys.
    ListConnectionsRequest, "Connections/ListConnections", OPERATE, UNAUDITED, |_ask| String::new();
    CloseConnectionRequest, "Connections/CloseConnection", OPERATE, Some(Action::ConnectionClose), |ask| String::new(),
        format!("connection {}", domain::Excerpt(&ask.id));
    RemoveNodeRequest, "Cluster/RemoveNode", OPERATE, Some(Action::NodeRemove), |ask| String::new(),
        format!("node {}{}", ask.id, if ask.dead { " as dead" } else { "" });
}

/// Those whose properties may forward: Manage on the entity, Send on where to (FWD-2).
macro_rules! asks_that_forward {
    ($($request:ident, $method:literal, $action:expr, |$ask:ident| $path:expr;)*) => {
        $(impl Ask for v1::$request {
            const METHOD: &'static str = $method;
            const ACTION: Option<Action> = Some($action);

            fn object(&self) -> Option<String> {
                None
            }

            fn needs(&self) -> Vec<Need> {
                let ($ask, given) = (self, self.properties.as_ref());
                let forwards = given.map(|given| [&given.forward_to, &given.forward_dead_letters_to]);
                let forwards = forwards.into_iter().flatten().flatten();
                let targets = forwards.filter(|to| !to.is_empty()).map(|to| need(SEND, named_path(to)));
                [need(MANAGE, $path)].into_iter().chain(targets).collect()
            }
        })*
        #[cfg(test)]
        const FORWARDING: &[(&str, &[Right], Option<Action>)] =
            &[$(($method, MANAGE, Some($action))),*];
    };
}

asks_that_forward! {
    CreateQueueRequest, "Entities/CreateQueue", Action::EntityCreate, |ask| named_path(&ask.name);
    UpdateQueueRequest, "Entities/UpdateQueue", Action::EntityUpdate, |ask| named_path(&ask.name);
    CreateSubscriptionRequest, "Entities/CreateSubscription", Action::EntityCreate, |ask| below(&ask.topic, &ask.name);
    UpdateSubscriptionRequest, "Entities/UpdateSubscription", Action::EntityUpdate, |ask| below(&ask.topic, &ask.name);
}

/// Of what is about all that is in the cluster, keys and messages included.
macro_rules! asks_for_all {
    ($($request:ident, $method:literal, $action:expr;)*) => {
        $(impl Ask for v1::$request {
            const METHOD: &'static str = $method;
            const ACTION: Option<Action> = Some($action);

            fn object(&self) -> Option<String> {
                None
            }

            fn needs(&self) -> Vec<Need> {
                [OPERATE, MANAGE, LISTEN].map(|right| need(right, String::new())).into()
            }
        })*
        #[cfg(test)]
        const OF_ALL: &[(&str, &[Right], Option<Action>)] =
            &[$(($method, OPERATE, Some($action))),*];
    };
}

asks_for_all! {
    CreateBackupRequest, "Backups/Create", Action::BackupCreate;
    RestoreBegin, "Backups/Restore", Action::BackupRestore;
}

/// A transaction's steps each take what they would by themselves; a commit that names its operations
/// again, what all of them do.
impl Ask for v1::TransactRequest {
    const METHOD: &'static str = "Transactions/Transact";
    const ACTION: Option<Action> = UNAUDITED;

    fn messages(&self) -> usize {
        use v1::transact_request::Step;
        use v1::transaction_operation::Operation;
        match &self.step {
            Some(Step::Operation(v1::TransactionOperation {
                operation: Some(Operation::Send(send)),
                ..
            })) => send.messages.len(),
            _ => 1,
        }
    }

    fn object(&self) -> Option<String> {
        None
    }

    fn needs(&self) -> Vec<Need> {
        use v1::transact_request::Step;
        match &self.step {
            Some(Step::Operation(operation)) => of_operation(operation),
            Some(Step::Commit(commit)) => commit.operations.iter().flat_map(of_operation).collect(),
            Some(Step::Rollback(_)) | None => Vec::new(),
        }
    }
}

fn of_operation(operation: &v1::TransactionOperation) -> Vec<Need> {
    use v1::transaction_operation::Operation;
    let entity = || within(&operation.entity, operation.sub_queue);
    match &operation.operation {
        Some(Operation::Send(send)) => {
            let to = Some(&send.to).filter(|to| !to.is_empty());
            let to = to.map(|to| need(SEND, named_path(to)));
            [need(SEND, entity())].into_iter().chain(to).collect()
        }
        Some(Operation::CancelScheduled(_)) => vec![need(SEND, entity())],
        Some(Operation::Settle(_) | Operation::Renew(_) | Operation::SetSessionState(_)) | None => {
            vec![need(LISTEN, entity())]
        }
    }
}

fn rule_path(topic: &str, subscription: &str, rule: &str) -> String {
    format!("{}/rules/{rule}", below(topic, subscription))
}

/// For the audit: who asks to be let in.
pub(crate) fn joining(node: Option<&v1::NodeAddress>) -> String {
    let address = node.map(|node| node.peer_address.as_str()).unwrap_or_default();
    match node.map_or(0, |node| node.id) {
        0 => format!("node at {address}"),
        id => format!("node {id} at {address}"),
    }
}

fn need(any_of: &'static [Right], path: String) -> Need {
    Need { path, any_of }
}

fn below(topic: &str, subscription: &str) -> String {
    named_path(&subscription_path(topic, subscription))
}

/// An unknown part is refused later: until then it is the whole's.
fn within(entity: &str, sub_queue: i32) -> String {
    let path = named_path(entity);
    match SubQueue::try_from(sub_queue) {
        Ok(SubQueue::Main) | Err(_) => path,
        Ok(SubQueue::DeadLetter) => path + "/$deadletterqueue",
        Ok(SubQueue::TransferDeadLetter) => path + "/$transfer/$deadletterqueue",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::door::Door;

    /// ERR-17: the methods of the API are those of the table, and each takes a right.
    #[test]
    fn err_17_every_method_takes_a_right() {
        let described = prost_types::FileDescriptorSet::decode(wire::DESCRIPTORS).expect("a set");
        let services = described.file.iter().flat_map(|file| &file.service);
        let methods = services.flat_map(|service| {
            service.method.iter().map(|method| format!("{}/{}", service.name(), method.name()))
        });
        let rows = TABLE.iter().chain(FORWARDING).chain(OF_ALL);
        let mut table: BTreeMap<&str, &[Right]> =
            rows.map(|(method, rights, _)| (*method, *rights)).collect();
        // The steps of a transaction take theirs; a node that joins has its token.
        let others = [v1::TransactRequest::METHOD, Door::JOIN];
        for method in methods.filter(|method| !others.contains(&method.as_str())) {
            let rights = table.remove(method.as_str());
            assert!(rights.is_some_and(|rights| !rights.is_empty()), "{method} takes no right");
        }
        assert!(table.is_empty(), "no such methods: {table:?}");
    }

    /// Who changes entities or the cluster takes a right for that, and is told of; whoever is told of
    /// changes something. A rule or a purge takes Listen.
    #[test]
    fn what_changes_entities_or_the_cluster_is_audited() {
        for (method, rights, action) in TABLE.iter().chain(FORWARDING).chain(OF_ALL) {
            let (_, name) = method.split_once('/').expect("a service and its method");
            let reads = ["Get", "List", "Status", "Now"].iter().any(|verb| name.starts_with(verb));
            let changes = !reads && [MANAGE, OPERATE, INJECT_FAULTS].contains(rights);
            let listens = ["PutRule", "RemoveRule", "DeleteBatch", "DeleteSessionBatch"];
            assert_eq!(action.is_some(), changes || listens.contains(&name), "{method}");
        }
    }

    /// Messages count one by one, what manages entities as ten, and operators are not counted.
    #[test]
    fn quota_34_what_is_asked_costs_credits() {
        let messages = vec![v1::Message::default(); 7];
        let send = v1::SendRequest { messages: messages.clone(), ..Default::default() };
        assert_eq!(send.credits(), 7);
        let batch = v1::SendStreamRequest { messages: messages.clone(), ..Default::default() };
        assert_eq!(batch.credits(), 7);
        assert_eq!(v1::SendStreamRequest::default().credits(), 1, "to open one");
        let send = v1::transaction_operation::Operation::Send(v1::SendMessages {
            messages,
            ..Default::default()
        });
        let operation = v1::TransactionOperation { operation: Some(send), ..Default::default() };
        let step = Some(v1::transact_request::Step::Operation(operation));
        assert_eq!(v1::TransactRequest { step }.credits(), 7);
        assert_eq!(v1::PeekRequest::default().credits(), 1);
        assert_eq!(v1::GetQueueRequest::default().credits(), 10);
        assert_eq!(v1::CreateQueueRequest::default().credits(), 10);
        assert_eq!(v1::StatusRequest::default().credits(), 0);
    }

    /// Each row: a request, and what it takes on what.
    #[test]
    fn fwd_2_tx_1_what_reaches_several_entities_takes_a_right_on_each() {
        let properties = v1::QueueProperties {
            forward_to: Some("B".into()),
            forward_dead_letters_to: Some("c".into()),
            ..Default::default()
        };
        let queue = v1::CreateQueueRequest {
            name: "A".into(),
            properties: Some(properties.clone()),
            request: 0,
        };
        let forwarding = [need(MANAGE, "a".into()), need(SEND, "b".into()), need(SEND, "c".into())];
        assert_eq!(queue.needs(), forwarding);
        let updated = v1::UpdateQueueRequest { name: "A".into(), properties: Some(properties) };
        assert_eq!(updated.needs(), forwarding);
        let none = v1::QueueProperties { forward_to: Some(String::new()), ..Default::default() };
        let updated = v1::UpdateQueueRequest { name: "a".into(), properties: Some(none) };
        assert_eq!(updated.needs(), forwarding[..1], "it forwards no more");

        use v1::transaction_operation::Operation;
        let operation = |entity: &str, sub_queue: SubQueue, operation| v1::TransactionOperation {
            entity: entity.into(),
            sub_queue: sub_queue.into(),
            operation: Some(operation),
        };
        let send = v1::SendMessages { messages: Vec::new(), to: "Other".into() };
        let operations = vec![
            operation("a", SubQueue::Main, Operation::Send(send)),
            operation("a", SubQueue::DeadLetter, Operation::Settle(v1::SettleMessages::default())),
        ];
        let commit = v1::CommitTransaction { origin: None, operations };
        let commit = v1::transact_request::Step::Commit(commit);
        let expected = [
            need(SEND, "a".into()),
            need(SEND, "other".into()),
            need(LISTEN, "a/$deadletterqueue".into()),
        ];
        assert_eq!(v1::TransactRequest { step: Some(commit) }.needs(), expected);
        let rule = v1::PutRuleRequest {
            topic: "T".into(),
            subscription: "S".into(),
            ..Default::default()
        };
        assert_eq!(rule.needs(), [need(LISTEN, "t/subscriptions/s".into())]);
    }
}
