//! The native API for pages of this process: they ask as any client does, and the [`Door`] lets them in by
//! the same table, counts what they take, and has the audit told.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::{Certified, Right, Rights};
use domain::SequenceNumber;
use limits::Slot;
use service::{Broker, KeyWatch, ReceiveMode, Received};
use thiserror::Error;
use tokio::sync::watch;
use tonic::{Code, Request, Response, Status};
use wire::content::Shown;
use wire::{native, v1};

use crate::api::cluster_server::Cluster;
use crate::api::connections_server::Connections;
use crate::api::entities_server::Entities;
use crate::api::faults_server::Faults;
use crate::api::history_server::History;
use crate::api::messaging_server::Messaging;
use crate::api::sessions_server::Sessions;
use crate::cluster::{ClusterService, Joining};
use crate::connection::ConnectionSlot;
use crate::connections::ConnectionsService;
use crate::door::{Admitted, Door, FromPage, Visitor};
use crate::entities::EntitiesService;
use crate::fault_rules::FaultsService;
use crate::history::HistoryService;
use crate::messaging::{MessagingService, shown};
use crate::right::Need;
use crate::server::Config;
use crate::sessions::SessionsService;
use crate::status::{refused, status};

/// Who asks: what his request came with. Not to be printed: it has his proof.
#[derive(Clone, Default)]
pub struct LocalCaller {
    /// As the `authorization` of a call.
    pub authorization: Option<String>,
    /// What was shown on the connection.
    pub certified: Option<Arc<Certified>>,
    pub peer: Option<SocketAddr>,
    /// The place of the connection, by which what is asked is counted.
    pub slot: Option<Slot>,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct LocalError {
    pub kind: LocalErrorKind,
    /// One sentence for people.
    pub text: String,
}

/// What whoever asked does differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalErrorKind {
    /// Nobody knows who asks.
    Unproven,
    /// He lacks a right.
    Forbidden,
    NotFound,
    Conflict,
    Invalid,
    /// Too much was asked, or a quota is used up.
    Exhausted,
    /// Certainly not done (ERR-24).
    Unavailable,
    /// Perhaps done (ERR-28).
    Unknown,
    /// What is stored cannot be read.
    Unreadable,
}

/// The native API without a wire. Cheap to clone.
#[derive(Clone)]
pub struct LocalApi {
    door: Door,
    messaging: Arc<MessagingService>,
    entities: Arc<EntitiesService>,
    sessions: Arc<SessionsService>,
    cluster: Arc<ClusterService>,
    connections: Arc<ConnectionsService>,
    faults: Arc<FaultsService>,
    history: Arc<HistoryService>,
}

/// A request that can be asked here.
pub trait LocalCall: Sized + Send {
    type Answer: Send;

    /// Has it answered, rights and all.
    fn ask(
        self,
        api: &LocalApi,
        caller: &LocalCaller,
    ) -> impl Future<Output = Result<Self::Answer, LocalError>> + Send;
}

/// Each row: a request, its answer, and who serves it.
macro_rules! local_calls {
    ($($request:ident => $answer:ident, $service:ident.$method:ident;)*) => {
        $(impl LocalCall for v1::$request {
            type Answer = v1::$answer;

            async fn ask(
                self,
                api: &LocalApi,
                caller: &LocalCaller,
            ) -> Result<v1::$answer, LocalError> {
                let request = caller.request(self)?;
                let answer = api.$service.$method(request).await;
                Ok(answer.map(Response::into_inner)?)
            }
        })*
    };
}

local_calls! {
    PeekRequest => PeekResponse, messaging.peek;
    SendRequest => SendResponse, messaging.send;
    DeleteBatchRequest => DeleteBatchResponse, messaging.delete_batch;
    CreateQueueRequest => Queue, entities.create_queue;
    GetQueueRequest => Queue, entities.get_queue;
    ListQueuesRequest => ListQueuesResponse, entities.list_queues;
    UpdateQueueRequest => Queue, entities.update_queue;
    DeleteQueueRequest => DeleteQueueResponse, entities.delete_queue;
    CreateTopicRequest => Topic, entities.create_topic;
    GetTopicRequest => Topic, entities.get_topic;
    ListTopicsRequest => ListTopicsResponse, entities.list_topics;
    UpdateTopicRequest => Topic, entities.update_topic;
    DeleteTopicRequest => DeleteTopicResponse, entities.delete_topic;
    CreateSubscriptionRequest => Subscription, entities.create_subscription;
    GetSubscriptionRequest => Subscription, entities.get_subscription;
    ListSubscriptionsRequest => ListSubscriptionsResponse, entities.list_subscriptions;
    UpdateSubscriptionRequest => Subscription, entities.update_subscription;
    DeleteSubscriptionRequest => DeleteSubscriptionResponse, entities.delete_subscription;
    ListRulesRequest => ListRulesResponse, entities.list_rules;
    PutRuleRequest => PutRuleResponse, entities.put_rule;
    RemoveRuleRequest => RemoveRuleResponse, entities.remove_rule;
    ListSessionsRequest => ListSessionsResponse, sessions.list_sessions;
    StatusRequest => StatusResponse, cluster.status;
    NowRequest => NowResponse, cluster.now;
    AdvanceClockRequest => AdvanceClockResponse, cluster.advance_clock;
    ListConnectionsRequest => ListConnectionsResponse, connections.list_connections;
    CloseConnectionRequest => CloseConnectionResponse, connections.close_connection;
    ListFaultRulesRequest => ListFaultRulesResponse, faults.list_rules;
    PutFaultRuleRequest => PutFaultRuleResponse, faults.put_rule;
    RemoveFaultRulesRequest => RemoveFaultRulesResponse, faults.remove_rules;
    FindMessagesRequest => FindMessagesResponse, history.find_messages;
    SettleRequest => SettleResponse, messaging.settle;
}

impl LocalCaller {
    fn request<T>(&self, asked: T) -> Result<Request<T>, LocalError> {
        let mut request = Request::new(asked);
        if let Some(proof) = &self.authorization {
            let proof = proof.parse().map_err(|_| LocalError {
                kind: LocalErrorKind::Unproven,
                text: "the proof has characters that no proof has; sign in again".to_owned(),
            })?;
            request.metadata_mut().insert("authorization", proof);
        }
        let LocalCaller { certified, peer, slot, .. } = self.clone();
        let slot = ConnectionSlot { slot, certified, peer, ..ConnectionSlot::default() };
        request.extensions_mut().insert(slot);
        request.extensions_mut().insert(FromPage);
        Ok(request)
    }
}

impl LocalApi {
    /// `config`: as the native API is served with. `keys`: of its access.
    pub fn new(config: &Config, broker: Broker, keys: KeyWatch) -> LocalApi {
        let door = Door::new(broker, config.access.clone(), config.trail.clone(), keys);
        // For streams, which nobody opens here.
        let (_, stopping) = watch::channel(false);
        let joining = Joining::default();
        LocalApi {
            messaging: Arc::new(MessagingService {
                door: door.clone(),
                stopping: stopping.clone(),
            }),
            entities: Arc::new(EntitiesService { door: door.clone() }),
            sessions: Arc::new(SessionsService { door: door.clone() }),
            cluster: Arc::new(ClusterService { door: door.clone(), joining }),
            connections: Arc::new(ConnectionsService { door: door.clone() }),
            faults: Arc::new(FaultsService { door: door.clone() }),
            history: Arc::new(HistoryService { door: door.clone(), stopping }),
            door,
        }
    }

    /// Whether anybody may do anything, as no keys are asked for.
    pub fn is_open(&self) -> bool {
        self.door.is_open()
    }

    /// Who somebody is, whatever he may do, for people; his proof counts for `path` (normalised) or below it.
    /// Who guesses waits, and is held off as anywhere.
    ///
    /// # Errors
    /// His proof is not good.
    pub async fn identify(&self, caller: &LocalCaller, path: &str) -> Result<String, LocalError> {
        let need = Need { path: path.to_owned(), any_of: &Right::ALL };
        let principal = self.visitor(caller).await?.identify(need, "sign-in").await?;
        Ok(principal.to_string())
    }

    /// What somebody may do with `path` (normalised): nothing, where that is not known. A proof that is not
    /// good is counted as by [`LocalApi::identify`].
    pub async fn rights(&self, caller: &LocalCaller, path: &str) -> Rights {
        let mut rights = Rights::default();
        // A proof that is none is a guess, here as anywhere.
        let is_known = self.identify(caller, path).await.is_ok();
        let Some(visitor) = self.visitor(caller).await.ok().filter(|_| is_known) else {
            return rights;
        };
        for right in &Right::ALL {
            let any_of = std::slice::from_ref(right);
            if visitor.may(Need { path: path.to_owned(), any_of }).await {
                rights = rights.with(*right);
            }
        }
        rights
    }

    /// Takes those of these messages that are available, wherever they are in their queue (SEL-6): under a
    /// lock each, or for good. It takes what a receive takes.
    ///
    /// # Errors
    /// As of a receive; also where the cluster's version does not know how.
    pub async fn take(
        &self,
        caller: &LocalCaller,
        asked: v1::ReceiveDeferredRequest,
    ) -> Result<Vec<v1::ReceivedMessage>, LocalError> {
        let Admitted { broker, .. } = self.visitor(caller).await?.admit(&asked).await?;
        let v1::ReceiveDeferredRequest { queue, sub_queue, mode, sequence_numbers } = asked;
        let refuse = |refusal| refused(refusal, &queue);
        let sub = native::sub_queue(sub_queue).map_err(refuse)?;
        let mode = crate::messaging::receive_mode(mode).map_err(refuse)?;
        let numbers: Vec<_> = sequence_numbers.into_iter().map(SequenceNumber).collect();
        let taken = broker.messages().select(&queue, sub, mode, numbers).await;
        let (taken, _): (Vec<Received>, bool) = taken.map_err(|error| status(&error))?;
        let how = match mode {
            ReceiveMode::PeekLock => Shown::PeekLock,
            ReceiveMode::ReceiveAndDelete => Shown::ReceiveAndDelete,
        };
        Ok(shown(taken, how)?)
    }

    async fn visitor(&self, caller: &LocalCaller) -> Result<Visitor, LocalError> {
        Ok(self.door.visitor(&caller.request(())?).await)
    }
}

impl From<Status> for LocalError {
    fn from(status: Status) -> LocalError {
        let kind = match status.code() {
            Code::Unauthenticated => LocalErrorKind::Unproven,
            Code::PermissionDenied => LocalErrorKind::Forbidden,
            Code::NotFound => LocalErrorKind::NotFound,
            Code::AlreadyExists => LocalErrorKind::Conflict,
            Code::ResourceExhausted => LocalErrorKind::Exhausted,
            Code::Unavailable => LocalErrorKind::Unavailable,
            Code::DeadlineExceeded | Code::Aborted | Code::Cancelled | Code::Unknown => {
                LocalErrorKind::Unknown
            }
            Code::DataLoss | Code::Internal => LocalErrorKind::Unreadable,
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Ok => LocalErrorKind::Invalid,
        };
        LocalError { kind, text: status.message().to_owned() }
    }
}
