//! What each request takes: one table. A request that is not in it cannot be served, as the
//! [`Door`](crate::door::Door) opens by it.

use auth::{Right, named_path};
use domain::subscription_path;
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
pub(crate) trait Ask {
    /// As in `Messaging/Send`.
    const METHOD: &'static str;

    fn needs(&self) -> Vec<Need>;
}

const LISTEN: &[Right] = &[Right::Listen];
const SEND: &[Right] = &[Right::Send];
const MANAGE: &[Right] = &[Right::Manage];
const MONITOR: &[Right] = &[Right::Monitor];
const OPERATE: &[Right] = &[Right::Operate];
/// Who does anything with an entity may know who leads it.
const MESSAGES: &[Right] = &[Right::Send, Right::Listen];

/// Each row: a request and its method, what it takes, and on what.
macro_rules! asks {
    ($($request:ident, $method:literal, $rights:expr, |$ask:ident| $path:expr;)*) => {
        $(impl Ask for v1::$request {
            const METHOD: &'static str = $method;

            fn needs(&self) -> Vec<Need> {
                let $ask = self;
                vec![need($rights, $path)]
            }
        })*
        /// All of them, for the test that no method is missing.
        #[cfg(test)]
        const TABLE: &[(&str, &[Right])] = &[$(($method, $rights)),*];
    };
}

asks! {
    SendRequest, "Messaging/Send", SEND, |ask| named_path(&ask.queue);
    SendStreamRequest, "Messaging/SendStream", SEND, |ask| named_path(&ask.queue);
    CancelScheduledRequest, "Messaging/CancelScheduled", SEND, |ask| named_path(&ask.queue);
    ReceiveRequest, "Messaging/Receive", LISTEN, |ask| within(&ask.queue, ask.sub_queue);
    ReceiveOpen, "Messaging/ReceiveStream", LISTEN, |ask| within(&ask.queue, ask.sub_queue);
    SettleRequest, "Messaging/Settle", LISTEN, |ask| within(&ask.queue, ask.sub_queue);
    RenewRequest, "Messaging/Renew", LISTEN, |ask| within(&ask.queue, ask.sub_queue);
    ReceiveDeferredRequest, "Messaging/ReceiveDeferred", LISTEN, |ask| within(&ask.queue, ask.sub_queue);
    PeekRequest, "Messaging/Peek", LISTEN, |ask| within(&ask.queue, ask.sub_queue);
    DeleteBatchRequest, "Messaging/DeleteBatch", LISTEN, |ask| within(&ask.queue, ask.sub_queue);
    RouteRequest, "Messaging/Route", MESSAGES, |ask| named_path(&ask.queue);

    RenewSessionRequest, "Sessions/RenewSession", LISTEN, |ask| named_path(&ask.queue);
    ReleaseSessionRequest, "Sessions/ReleaseSession", LISTEN, |ask| named_path(&ask.queue);
    SetSessionStateRequest, "Sessions/SetSessionState", LISTEN, |ask| named_path(&ask.queue);
    GetSessionStateRequest, "Sessions/GetSessionState", LISTEN, |ask| named_path(&ask.queue);
    ReceiveSessionDeferredRequest, "Sessions/ReceiveSessionDeferred", LISTEN, |ask| named_path(&ask.queue);
    PeekSessionRequest, "Sessions/PeekSession", LISTEN, |ask| named_path(&ask.queue);
    DeleteSessionBatchRequest, "Sessions/DeleteSessionBatch", LISTEN, |ask| named_path(&ask.queue);
    ListSessionsRequest, "Sessions/ListSessions", LISTEN, |ask| named_path(&ask.queue);

    GetQueueRequest, "Entities/GetQueue", MANAGE, |ask| named_path(&ask.name);
    DeleteQueueRequest, "Entities/DeleteQueue", MANAGE, |ask| named_path(&ask.name);
    ListQueuesRequest, "Entities/ListQueues", MANAGE, |_ask| String::new();
    CreateTopicRequest, "Entities/CreateTopic", MANAGE, |ask| named_path(&ask.name);
    GetTopicRequest, "Entities/GetTopic", MANAGE, |ask| named_path(&ask.name);
    UpdateTopicRequest, "Entities/UpdateTopic", MANAGE, |ask| named_path(&ask.name);
    DeleteTopicRequest, "Entities/DeleteTopic", MANAGE, |ask| named_path(&ask.name);
    ListTopicsRequest, "Entities/ListTopics", MANAGE, |_ask| String::new();
    GetSubscriptionRequest, "Entities/GetSubscription", MANAGE, |ask| below(&ask.topic, &ask.name);
    DeleteSubscriptionRequest, "Entities/DeleteSubscription", MANAGE, |ask| below(&ask.topic, &ask.name);
    ListSubscriptionsRequest, "Entities/ListSubscriptions", MANAGE, |ask| named_path(&ask.topic);
    // As over AMQP (REQ-25).
    PutRuleRequest, "Entities/PutRule", LISTEN, |ask| below(&ask.topic, &ask.subscription);
    ListRulesRequest, "Entities/ListRules", LISTEN, |ask| below(&ask.topic, &ask.subscription);
    RemoveRuleRequest, "Entities/RemoveRule", LISTEN, |ask| below(&ask.topic, &ask.subscription);

    StatusRequest, "Cluster/Status", MONITOR, |_ask| String::new();
    NowRequest, "Cluster/Now", MONITOR, |_ask| String::new();
    AdvanceClockRequest, "Cluster/AdvanceClock", OPERATE, |_ask| String::new();
    TransferLeaderRequest, "Cluster/TransferLeader", OPERATE, |_ask| String::new();
    AddNodeRequest, "Cluster/AddNode", OPERATE, |_ask| String::new();
    DrainNodeRequest, "Cluster/DrainNode", OPERATE, |_ask| String::new();
    RemoveNodeRequest, "Cluster/RemoveNode", OPERATE, |_ask| String::new();
}

/// Those whose properties may forward: Manage on the entity, Send on where to (FWD-2).
macro_rules! asks_that_forward {
    ($($request:ident, $method:literal, |$ask:ident| $path:expr;)*) => {
        $(impl Ask for v1::$request {
            const METHOD: &'static str = $method;

            fn needs(&self) -> Vec<Need> {
                let ($ask, given) = (self, self.properties.as_ref());
                let forwards = given.map(|given| [&given.forward_to, &given.forward_dead_letters_to]);
                let forwards = forwards.into_iter().flatten().flatten();
                let targets = forwards.filter(|to| !to.is_empty()).map(|to| need(SEND, named_path(to)));
                [need(MANAGE, $path)].into_iter().chain(targets).collect()
            }
        })*
        #[cfg(test)]
        const FORWARDING: &[(&str, &[Right])] = &[$(($method, MANAGE)),*];
    };
}

asks_that_forward! {
    CreateQueueRequest, "Entities/CreateQueue", |ask| named_path(&ask.name);
    UpdateQueueRequest, "Entities/UpdateQueue", |ask| named_path(&ask.name);
    CreateSubscriptionRequest, "Entities/CreateSubscription", |ask| below(&ask.topic, &ask.name);
    UpdateSubscriptionRequest, "Entities/UpdateSubscription", |ask| below(&ask.topic, &ask.name);
}

/// A transaction's steps each take what they would by themselves; a commit that names its operations
/// again, what all of them do.
impl Ask for v1::TransactRequest {
    const METHOD: &'static str = "Transactions/Transact";

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

    use prost::Message as _;

    use super::*;

    /// ERR-17: the methods of the API are those of the table, and each takes a right.
    #[test]
    fn err_17_every_method_takes_a_right() {
        let described = prost_types::FileDescriptorSet::decode(wire::DESCRIPTORS).expect("a set");
        let services = described.file.iter().flat_map(|file| &file.service);
        let methods = services.flat_map(|service| {
            service.method.iter().map(|method| format!("{}/{}", service.name(), method.name()))
        });
        let mut table: BTreeMap<&str, &[Right]> = TABLE.iter().chain(FORWARDING).copied().collect();
        for method in methods.filter(|method| method != v1::TransactRequest::METHOD) {
            let rights = table.remove(method.as_str());
            assert!(rights.is_some_and(|rights| !rights.is_empty()), "{method} takes no right");
        }
        assert!(table.is_empty(), "no such methods: {table:?}");
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
