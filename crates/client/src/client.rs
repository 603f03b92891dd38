//! The client: single calls about messages and the cluster, and the streams' front doors.

use std::sync::Arc;
use std::time::Duration;

use crate::calls::{Repeat, Shared};
use crate::nodes::{Node, Nodes};
use crate::{
    ClientOptions, Delivery, Error, Message, QueuePath, Receiver, ReceiverOptions, Sender,
    SenderOptions, v1,
};

/// Extra patience for a call that waits at the broker.
const WAIT_MARGIN: Duration = Duration::from_secs(5);

/// A cluster, by the addresses of some of its nodes. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

impl Client {
    /// Names the nodes to start from; connections are opened when first used, and nodes the cluster
    /// names are learned on the way. Fails on an address that cannot be one.
    pub fn connect<A: AsRef<str>>(addresses: impl IntoIterator<Item = A>) -> Result<Client, Error> {
        Client::with_options(addresses, ClientOptions::default())
    }

    /// As [`Client::connect`], with a secret or other patience.
    pub fn with_options<A: AsRef<str>>(
        addresses: impl IntoIterator<Item = A>,
        options: ClientOptions,
    ) -> Result<Client, Error> {
        let shared = Shared::new(Nodes::new(addresses, options)?);
        Ok(Client { shared: Arc::new(shared) })
    }

    /// The secret it was given, for what else of the cluster asks for it.
    pub fn secret(&self) -> Option<String> {
        self.shared.nodes.proof.key()
    }

    /// Proves itself with another key of the same name from now on, in all clones. Streams that are open go
    /// on until the broker ends them, and then go on with that: an application that is given the new key
    /// before the old one is nobody's learns of nothing, but for a session, which is accepted anew.
    ///
    /// # Errors
    /// [`Error::Refused`] where no header can carry the key.
    pub fn replace_secret(&self, secret: impl Into<String>) -> Result<(), Error> {
        self.shared.nodes.proof.replace(secret.into())
    }

    /// How it was told to talk to the cluster, for what else talks to it in the same way.
    pub fn options(&self) -> &ClientOptions {
        self.shared.nodes.options()
    }

    /// A pipelined, ordered stream of sends to one queue.
    pub fn sender(&self, queue: impl Into<String>, options: SenderOptions) -> Sender {
        Sender::open(self.shared.clone(), queue.into(), options)
    }

    /// A stream of deliveries from one queue, settled on the same stream.
    pub fn receiver(&self, queue: impl Into<String>, options: ReceiverOptions) -> Receiver {
        let path = QueuePath { queue: queue.into(), sub_queue: options.sub_queue };
        Receiver::open(self.shared.clone(), path, options, None)
    }

    pub(crate) fn patience(&self) -> Duration {
        self.shared.nodes.options().attempt_timeout
    }

    /// Sends one batch: accepted entirely or refused entirely (SEND-3). Resent until answered.
    pub async fn send(&self, queue: &str, messages: Vec<Message>) -> Result<Vec<u64>, Error> {
        let messages: Vec<v1::Message> = messages.into_iter().map(Message::into_wire).collect();
        let origin = self.shared.origin(queue).await?;
        let attempt = |node: Arc<Node>, retry| {
            let request = node.request(v1::SendRequest {
                queue: queue.to_owned(),
                messages: messages.clone(),
                origin: Some(v1::Origin { retry, ..origin }),
            });
            async move { node.messaging().send(request).await }
        };
        let answer = self.shared.call(Repeat::Always, self.patience(), attempt).await?;
        Ok(answer.sequence_numbers)
    }

    /// Waits up to `wait` for at most `count_max` messages; none is no error (LOCK-24). A
    /// receive-and-delete whose answer was lost is not repeated: what it took is gone.
    pub async fn receive(
        &self,
        path: &QueuePath,
        mode: v1::ReceiveMode,
        count_max: u32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, Error> {
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let repeat = match mode {
            v1::ReceiveMode::PeekLock => Repeat::Always,
            v1::ReceiveMode::ReceiveAndDelete => Repeat::IfNotDone,
        };
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::ReceiveRequest {
                queue: path.queue.clone(),
                sub_queue: path.sub_queue as i32,
                mode: mode as i32,
                max_messages: count_max,
                wait_ms,
            });
            async move { node.messaging().receive(request).await }
        };
        let answer = self.shared.call(repeat, wait + WAIT_MARGIN, attempt).await?;
        Ok(answer.messages.into_iter().map(Delivery::from).collect())
    }

    /// Settles by lock token, from whatever connection (LOCK-17). The answer holds the refused
    /// ones; `atomic` refuses all if one is refused.
    pub async fn settle(
        &self,
        path: &QueuePath,
        settlements: Vec<v1::Settlement>,
        atomic: bool,
    ) -> Result<Vec<v1::SettleFailure>, Error> {
        self.shared.settle(path, &settlements, atomic, false).await
    }

    /// LOCK-13: new ends of the locks, in order; all or nothing.
    pub async fn renew(
        &self,
        path: &QueuePath,
        lock_tokens: Vec<bytes::Bytes>,
    ) -> Result<Vec<u64>, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::RenewRequest {
                queue: path.queue.clone(),
                sub_queue: path.sub_queue as i32,
                lock_tokens: lock_tokens.clone(),
            });
            async move { node.messaging().renew(request).await }
        };
        let answer = self.shared.call(Repeat::Always, self.patience(), attempt).await?;
        Ok(answer.locked_until_ms)
    }

    /// SCHED-3, SCHED-4: all or nothing.
    pub async fn cancel_scheduled(&self, queue: &str, numbers: Vec<u64>) -> Result<(), Error> {
        let origin = self.shared.origin(queue).await?;
        let attempt = |node: Arc<Node>, retry| {
            let request = node.request(v1::CancelScheduledRequest {
                queue: queue.to_owned(),
                sequence_numbers: numbers.clone(),
                origin: Some(v1::Origin { retry, ..origin }),
            });
            async move { node.messaging().cancel_scheduled(request).await }
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await.map(|_| ())
    }

    /// DEFER-2 to DEFER-4: all or nothing.
    pub async fn receive_deferred(
        &self,
        path: &QueuePath,
        mode: v1::ReceiveMode,
        numbers: Vec<u64>,
    ) -> Result<Vec<Delivery>, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::ReceiveDeferredRequest {
                queue: path.queue.clone(),
                sub_queue: path.sub_queue as i32,
                mode: mode as i32,
                sequence_numbers: numbers.clone(),
            });
            async move { node.messaging().receive_deferred(request).await }
        };
        let answer = self.shared.call(Repeat::IfNotDone, self.patience(), attempt).await?;
        Ok(answer.messages.into_iter().map(Delivery::from).collect())
    }

    /// PEEK-1: up to 250 messages from this number on, unlocked and unchanged.
    pub async fn peek(
        &self,
        path: &QueuePath,
        from: u64,
        count_max: u32,
    ) -> Result<Vec<Delivery>, Error> {
        self.peek_rows(path, from, count_max, false).await
    }

    /// The same of the answering node's own rows, which may be behind (PEEK-2): with a client of one
    /// node, what that replica holds.
    pub async fn peek_stale(
        &self,
        path: &QueuePath,
        from: u64,
        count_max: u32,
    ) -> Result<Vec<Delivery>, Error> {
        self.peek_rows(path, from, count_max, true).await
    }

    async fn peek_rows(
        &self,
        path: &QueuePath,
        from: u64,
        count_max: u32,
        stale: bool,
    ) -> Result<Vec<Delivery>, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::PeekRequest {
                queue: path.queue.clone(),
                sub_queue: path.sub_queue as i32,
                from_sequence_number: from,
                max_messages: count_max,
                stale,
            });
            async move { node.messaging().peek(request).await }
        };
        let answer = self.shared.call(Repeat::Always, self.patience(), attempt).await?;
        Ok(answer.messages.into_iter().map(Delivery::from).collect())
    }

    /// BATCH-1: deletes up to `count_max` (at most 4,000) of the oldest; how many were.
    pub async fn delete_batch(
        &self,
        path: &QueuePath,
        count_max: u32,
        enqueued_before_ms: Option<u64>,
    ) -> Result<u32, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::DeleteBatchRequest {
                queue: path.queue.clone(),
                sub_queue: path.sub_queue as i32,
                max_messages: count_max,
                enqueued_before_ms,
            });
            async move { node.messaging().delete_batch(request).await }
        };
        let answer = self.shared.call(Repeat::IfNotDone, self.patience(), attempt).await?;
        Ok(answer.deleted)
    }

    /// Nodes and groups. `local` asks the answering node alone, which needs no majority.
    pub async fn status(&self, local: bool) -> Result<v1::StatusResponse, Error> {
        let attempt = |node: Arc<Node>, _| async move {
            node.cluster().status(node.request(v1::StatusRequest { local })).await
        };
        let status = self.shared.call(Repeat::Always, self.patience(), attempt).await?;
        let named = status.nodes.iter().map(|node| (node.id, node.grpc_address.as_str()));
        self.shared.nodes.learn(named);
        Ok(status)
    }

    /// The node that leads the queue's group, as far as some node knows.
    pub async fn leader(&self, queue: &str) -> Option<u64> {
        self.shared.routes.forget_leaders();
        self.shared.routes.leader(&self.shared.nodes, queue).await
    }

    /// The cluster's time, which an operator may have moved in development mode.
    pub async fn now(&self) -> Result<v1::NowResponse, Error> {
        let attempt = |node: Arc<Node>, _| async move {
            node.cluster().now(node.request(v1::NowRequest {})).await
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }

    /// Development mode: moves the whole cluster's time forward.
    pub async fn advance_clock(&self, by: Duration) -> Result<v1::AdvanceClockResponse, Error> {
        let by_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let attempt = |node: Arc<Node>, _| async move {
            node.cluster().advance_clock(node.request(v1::AdvanceClockRequest { by_ms })).await
        };
        self.shared.call(Repeat::IfNotDone, self.patience(), attempt).await
    }

    /// Hands the leadership of a group to another of its nodes.
    pub async fn transfer_leader(&self, group: u32, node: u64) -> Result<(), Error> {
        let request = v1::TransferLeaderRequest { group, node };
        let attempt = |node: Arc<Node>, _| async move {
            node.cluster().transfer_leader(node.request(request)).await
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await?;
        self.shared.routes.forget_leaders();
        Ok(())
    }

    /// Makes a node a part of the cluster. An id of 0 asks for the next free one. A repeat with the
    /// same addresses answers the same. `feature_level`: up to which it understands what others write into logs.
    pub async fn add_node(
        &self,
        node: v1::NodeAddress,
        feature_level: u32,
    ) -> Result<v1::AddNodeResponse, Error> {
        let request = v1::AddNodeRequest { node: Some(node), feature_level };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.cluster().add_node(node.request(request)).await }
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }

    /// Makes a node a part of the cluster that has a join token. A repeat with the same `request` answers the
    /// same.
    pub async fn join(&self, request: v1::JoinRequest) -> Result<v1::AddNodeResponse, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.cluster().join(node.request(request)).await }
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }

    /// Has a join token be good, of whose secret the cluster is told a hash.
    pub async fn create_join_token(
        &self,
        request: v1::CreateJoinTokenRequest,
    ) -> Result<v1::CreateJoinTokenResponse, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.cluster().create_join_token(node.request(request)).await }
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }

    /// Every join token that the answering node has heard of.
    pub async fn list_join_tokens(&self) -> Result<v1::ListJoinTokensResponse, Error> {
        let attempt = |node: Arc<Node>, _| async move {
            node.cluster().list_join_tokens(node.request(v1::ListJoinTokensRequest {})).await
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }

    /// A join token admits nobody any more, whether there is such a one or not.
    pub async fn revoke_join_token(&self, id: u64) -> Result<(), Error> {
        let request = v1::RevokeJoinTokenRequest { id };
        let attempt = |node: Arc<Node>, _| async move {
            node.cluster().revoke_join_token(node.request(request)).await
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await.map(drop)
    }

    /// Has all a node holds moved to others, or with `cancel` lets it have its share again. Returns
    /// once that is decided; [`Client::status`] shows how far it is.
    pub async fn drain_node(&self, id: u64, cancel: bool) -> Result<(), Error> {
        let request = v1::DrainNodeRequest { id, cancel };
        let attempt = |node: Arc<Node>, _| async move {
            node.cluster().drain_node(node.request(request)).await
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await.map(drop)
    }

    /// Has a node lead nothing while it keeps its replicas, or lets it lead again. Returns once that is
    /// decided; [`Client::status`] shows what it leads still.
    pub async fn set_maintenance(&self, id: u64, on: bool) -> Result<(), Error> {
        let request = v1::SetMaintenanceRequest { id, on };
        let attempt = |node: Arc<Node>, _| async move {
            node.cluster().set_maintenance(node.request(request)).await
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await.map(drop)
    }

    /// Has the cluster have so many data groups, never fewer than it has. Returns once that is decided;
    /// [`Client::status`] shows how many entities are put on.
    pub async fn add_groups(&self, data_groups: u32) -> Result<(), Error> {
        let request = v1::AddGroupsRequest { data_groups };
        let attempt = |node: Arc<Node>, _| async move {
            node.cluster().add_groups(node.request(request)).await
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await.map(drop)
    }

    /// Moves a queue, or a topic with its subscriptions, to a data group while it is used. Whether it is there by now;
    /// else it is on its way, and who asks again waits on.
    pub async fn move_entity(&self, name: &str, group: u32) -> Result<bool, Error> {
        let request = v1::MoveEntityRequest { name: name.to_owned(), group };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.cluster().move_entity(node.request(request)).await }
        };
        let moved = self.shared.call(Repeat::Always, self.patience(), attempt).await?;
        Ok(moved.is_there)
    }

    /// Takes a node out of the cluster for good: one that was drained, or with `dead` one that will
    /// never come back.
    pub async fn remove_node(&self, id: u64, dead: bool) -> Result<(), Error> {
        let request = v1::RemoveNodeRequest { id, dead };
        let attempt = |node: Arc<Node>, _| async move {
            node.cluster().remove_node(node.request(request)).await
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await.map(drop)
    }
}

impl Shared {
    /// Settles under an origin, so that a repeat finds its own outcome. `doubtful`: these were sent
    /// before, on a stream that broke; a lock not held is then no refusal but an open question.
    pub(crate) async fn settle(
        &self,
        path: &QueuePath,
        settlements: &[v1::Settlement],
        atomic: bool,
        doubtful: bool,
    ) -> Result<Vec<v1::SettleFailure>, Error> {
        let origin = self.origin(&path.queue).await?;
        let attempt = |node: Arc<Node>, retry| {
            let request = node.request(v1::SettleRequest {
                queue: path.queue.clone(),
                sub_queue: path.sub_queue as i32,
                settlements: settlements.to_vec(),
                atomic,
                origin: Some(v1::Origin { retry, ..origin }),
            });
            async move { node.messaging().settle(request).await }
        };
        let patience = self.nodes.options().attempt_timeout;
        let mut failures = self.call(Repeat::Always, patience, attempt).await?.failures;
        if doubtful {
            for failure in failures.iter_mut().filter_map(|failure| failure.failure.as_mut()) {
                if matches!(failure.name.as_str(), "MessageLockLost" | "SessionLockLost") {
                    failure.retry = v1::Retry::PerhapsDone as i32;
                    failure.message = format!(
                        "the connection broke before the answer, and now {}: it was settled, or its \
                         lock lapsed",
                        failure.message
                    );
                }
            }
        }
        Ok(failures)
    }
}
