//! `mayfly.v1.Messaging`: its calls here, its streams in files of their own.

use std::time::Duration;

use domain::{LockToken, NewMessage, Refusal, SequenceNumber, Settlement, Timestamp};
use service::{Broker, Caller, Error, ReceiveMode, Received};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use wire::content::{self, Shown};
use wire::{native, v1};

use crate::api::messaging_server::Messaging;
use crate::door::{Admitted, Door};
use crate::receive_stream;
use crate::send_stream;
use crate::status::{failure, refused, status};

/// Longest a call may wait for messages.
pub(crate) const WAIT_MS_MAX: u32 = 60_000;
/// Numbers a client gives in a receive where it leaves them out.
pub(crate) const MESSAGES_DEFAULT: u32 = 1;

pub(crate) struct MessagingService {
    pub door: Door,
    /// True once the server is stopping: streams end, so that it can.
    pub stopping: watch::Receiver<bool>,
}

/// Responses on their way to a client.
pub(crate) type Responses<T> = ReceiverStream<Result<T, Status>>;

#[tonic::async_trait]
impl Messaging for MessagingService {
    type SendStreamStream = Responses<v1::SendStreamResponse>;
    type ReceiveStreamStream = Responses<v1::ReceiveStreamResponse>;

    async fn send(
        &self,
        request: Request<v1::SendRequest>,
    ) -> Result<Response<v1::SendResponse>, Status> {
        let serve = |broker: Broker, asked: v1::SendRequest| async move {
            let v1::SendRequest { queue, messages, origin } = asked;
            let caller = caller(origin).map_err(|refusal| refused(refusal, &queue))?;
            let messages = new_messages(messages).map_err(|refusal| refused(refusal, &queue))?;
            let sent = broker.messages().send(&queue, messages, caller).await;
            let sequences = sent.map_err(|error| status(&error))?;
            Ok(Response::new(sent_response(sequences)))
        };
        self.door.call(request, serve).await
    }

    async fn send_stream(
        &self,
        request: Request<Streaming<v1::SendStreamRequest>>,
    ) -> Result<Response<Self::SendStreamStream>, Status> {
        let (visitor, stopping) = (self.door.visitor(&request).await, self.stopping.clone());
        let requests = request.into_inner();
        send_stream::open(visitor, requests, stopping).await.map(Response::new)
    }

    async fn receive(
        &self,
        request: Request<v1::ReceiveRequest>,
    ) -> Result<Response<v1::ReceiveResponse>, Status> {
        let visitor = self.door.visitor(&request).await;
        let asked = request.into_inner();
        let Admitted { broker, .. } = visitor.admit(&asked).await?;
        let v1::ReceiveRequest { queue, sub_queue, mode, max_messages, wait_ms } = asked.clone();
        let refuse = |refusal| refused(refusal, &queue);
        let sub = native::sub_queue(sub_queue).map_err(refuse)?;
        let mode = receive_mode(mode).map_err(refuse)?;
        let count_max = if max_messages == 0 { MESSAGES_DEFAULT } else { max_messages };
        if wait_ms > WAIT_MS_MAX {
            let (what, value) = ("wait_ms", format!("{wait_ms} ms"));
            let allowed = "at most 60000 ms";
            return Err(refuse(Refusal::ArgumentOutOfRange { what, value, allowed }));
        }
        let mut shut_out = None;
        // A call that waits is one that goes on when its key is gone.
        let until = async {
            if wait_ms > 0 {
                tokio::select! {
                    () = sleep(Duration::from_millis(wait_ms.into())) => {}
                    status = visitor.is_shut_out(asked) => shut_out = Some(status),
                }
            }
        };
        let received = broker.messages().receive_until(&queue, sub, mode, count_max, until).await;
        let messages = received.map_err(|error| status(&error))?;
        match shut_out {
            // What was on its way by then is the client's: nobody else would get it.
            Some(status) if messages.is_empty() => Err(status),
            _ => {
                let messages = shown(messages, of_mode(mode))?;
                Ok(Response::new(v1::ReceiveResponse { messages }))
            }
        }
    }

    async fn receive_stream(
        &self,
        request: Request<Streaming<v1::ReceiveStreamRequest>>,
    ) -> Result<Response<Self::ReceiveStreamStream>, Status> {
        let (visitor, stopping) = (self.door.visitor(&request).await, self.stopping.clone());
        let requests = request.into_inner();
        receive_stream::open(visitor, requests, stopping).await.map(Response::new)
    }

    async fn settle(
        &self,
        request: Request<v1::SettleRequest>,
    ) -> Result<Response<v1::SettleResponse>, Status> {
        let serve = |broker: Broker, asked: v1::SettleRequest| async move {
            let v1::SettleRequest { queue, sub_queue, settlements, atomic, origin } = asked;
            let refuse = |refusal| refused(refusal, &queue);
            let sub = native::sub_queue(sub_queue).map_err(refuse)?;
            let caller = caller(origin).map_err(refuse)?;
            let settlements = new_settlements(&settlements).map_err(refuse)?;
            let tokens: Vec<LockToken> = settlements.iter().map(|settle| settle.token).collect();
            let settled = broker.messages().settle(&queue, sub, settlements, atomic, caller).await;
            let refusals = settled.map_err(|error| status(&error))?;
            let failures = settle_failures(&tokens, refusals, &queue);
            Ok(Response::new(v1::SettleResponse { failures }))
        };
        self.door.call(request, serve).await
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewResponse>, Status> {
        let serve = |broker: Broker, asked: v1::RenewRequest| async move {
            let v1::RenewRequest { queue, sub_queue, lock_tokens } = asked;
            let refuse = |refusal| refused(refusal, &queue);
            let sub = native::sub_queue(sub_queue).map_err(refuse)?;
            let tokens = lock_tokens.iter().map(|token| native::lock_token(token));
            let tokens = tokens.collect::<Result<Vec<_>, _>>().map_err(refuse)?;
            let renewed = broker.messages().renew(&queue, sub, tokens).await;
            let until = renewed.map_err(|error| status(&error))?;
            let locked_until_ms = until.into_iter().map(|at| at.0).collect();
            Ok(Response::new(v1::RenewResponse { locked_until_ms }))
        };
        self.door.call(request, serve).await
    }

    async fn cancel_scheduled(
        &self,
        request: Request<v1::CancelScheduledRequest>,
    ) -> Result<Response<v1::CancelScheduledResponse>, Status> {
        let serve = |broker: Broker, asked: v1::CancelScheduledRequest| async move {
            let v1::CancelScheduledRequest { queue, sequence_numbers, origin } = asked;
            let caller = caller(origin).map_err(|refusal| refused(refusal, &queue))?;
            let cancelled =
                broker.messages().cancel_scheduled(&queue, numbers(sequence_numbers), caller).await;
            cancelled.map_err(|error| status(&error))?;
            Ok(Response::new(v1::CancelScheduledResponse {}))
        };
        self.door.call(request, serve).await
    }

    async fn receive_deferred(
        &self,
        request: Request<v1::ReceiveDeferredRequest>,
    ) -> Result<Response<v1::ReceiveDeferredResponse>, Status> {
        let serve = |broker: Broker, asked: v1::ReceiveDeferredRequest| async move {
            let v1::ReceiveDeferredRequest { queue, sub_queue, mode, sequence_numbers } = asked;
            let refuse = |refusal| refused(refusal, &queue);
            let sub = native::sub_queue(sub_queue).map_err(refuse)?;
            let mode = receive_mode(mode).map_err(refuse)?;
            let numbers = numbers(sequence_numbers);
            let received = broker.messages().receive_deferred(&queue, sub, mode, numbers).await;
            let messages = shown(received.map_err(|error| status(&error))?, of_mode(mode))?;
            Ok(Response::new(v1::ReceiveDeferredResponse { messages }))
        };
        self.door.call(request, serve).await
    }

    async fn peek(
        &self,
        request: Request<v1::PeekRequest>,
    ) -> Result<Response<v1::PeekResponse>, Status> {
        let serve = |broker: Broker, asked: v1::PeekRequest| async move {
            let v1::PeekRequest { queue, sub_queue, from_sequence_number, max_messages, stale } =
                asked;
            let sub = native::sub_queue(sub_queue).map_err(|refusal| refused(refusal, &queue))?;
            let from = SequenceNumber(from_sequence_number);
            let count_max = if max_messages == 0 { MESSAGES_DEFAULT } else { max_messages };
            let peeked = broker.messages().peek(&queue, sub, from, count_max, stale).await;
            let messages = shown(peeked.map_err(|error| status(&error))?, Shown::Peek)?;
            Ok(Response::new(v1::PeekResponse { messages }))
        };
        self.door.call(request, serve).await
    }

    async fn route(
        &self,
        request: Request<v1::RouteRequest>,
    ) -> Result<Response<v1::RouteResponse>, Status> {
        let serve = |broker: Broker, asked: v1::RouteRequest| async move {
            let told = route(broker, &asked.queue).await;
            told.map(Response::new).map_err(|error| status(&error))
        };
        self.door.call(request, serve).await
    }

    async fn delete_batch(
        &self,
        request: Request<v1::DeleteBatchRequest>,
    ) -> Result<Response<v1::DeleteBatchResponse>, Status> {
        let serve = |broker: Broker, asked: v1::DeleteBatchRequest| async move {
            let v1::DeleteBatchRequest { queue, sub_queue, max_messages, enqueued_before_ms } =
                asked;
            let sub = native::sub_queue(sub_queue).map_err(|refusal| refused(refusal, &queue))?;
            let before = enqueued_before_ms.map(Timestamp);
            let deleted = broker.messages().delete_batch(&queue, sub, max_messages, before).await;
            let deleted = deleted.map_err(|error| status(&error))?;
            Ok(Response::new(v1::DeleteBatchResponse { deleted }))
        };
        self.door.call(request, serve).await
    }
}

/// What a client needs to know of the nodes to ask the right one first.
async fn route(broker: Broker, queue: &str) -> Result<v1::RouteResponse, Error> {
    let info = broker.entities().get(auth::entity_path(&auth::named_path(queue))).await?;
    let status = broker.cluster().status(true).await;
    let led = status.groups.iter().filter_map(|group| {
        let leader = group.leader.filter(|leader| *leader != 0)?;
        Some(v1::GroupLeader { group: group.id.0.into(), leader })
    });
    let nodes = status.nodes.into_iter();
    let node = |node: service::NodeStatus| v1::RouteNode {
        id: node.node,
        grpc_address: node.addresses.grpc_address,
    };
    Ok(v1::RouteResponse {
        group: info.group.0.into(),
        leaders: led.collect(),
        nodes: nodes.map(node).collect(),
    })
}

/// A batch as the machine takes it: a missing message id is drawn, and what only the edge can see of
/// a message is checked (MSG-7, QUOTA-17, QUOTA-19).
pub(crate) fn new_messages(messages: Vec<v1::Message>) -> Result<Vec<NewMessage>, Refusal> {
    let convert = |mut message: v1::Message| {
        content::check(&message)?;
        if message.message_id.is_none() {
            message.message_id = Some(service::draw_message_id());
        }
        content::new_message(message)
    };
    messages.into_iter().map(convert).collect()
}

/// Settlements, with what they lay over a message checked (MSG-7, QUOTA-29).
pub(crate) fn new_settlements(given: &[v1::Settlement]) -> Result<Vec<Settlement>, Refusal> {
    given.iter().map(native::settlement).collect()
}

/// Messages as clients see them. A content that cannot be read was written by a newer version, or is
/// damaged: the call says so, and the message stays where it is.
pub(crate) fn shown(
    messages: Vec<Received>,
    how: Shown,
) -> Result<Vec<v1::ReceivedMessage>, Status> {
    let show = |Received { delivery, content }: Received| {
        // What was sent over AMQP is stored as it was sent.
        let message = message_content::native(&content).map_err(|error| {
            tracing::error!(sequence = %delivery.sequence, %error, "unreadable content");
            Status::data_loss(format!("message {}: {error}", delivery.sequence))
        })?;
        Ok(content::show(&delivery, message, how))
    };
    messages.into_iter().map(show).collect()
}

pub(crate) fn of_mode(mode: ReceiveMode) -> Shown {
    match mode {
        ReceiveMode::PeekLock => Shown::PeekLock,
        ReceiveMode::ReceiveAndDelete => Shown::ReceiveAndDelete,
    }
}

pub(crate) fn receive_mode(value: i32) -> Result<ReceiveMode, Refusal> {
    match v1::ReceiveMode::try_from(value) {
        Ok(v1::ReceiveMode::PeekLock) => Ok(ReceiveMode::PeekLock),
        Ok(v1::ReceiveMode::ReceiveAndDelete) => Ok(ReceiveMode::ReceiveAndDelete),
        Err(_) => {
            let why = format!("{value} is no receive mode");
            Err(Refusal::Argument { what: "mode", why })
        }
    }
}

pub(crate) fn sent_response(sequences: Vec<SequenceNumber>) -> v1::SendResponse {
    v1::SendResponse { sequence_numbers: sequences.into_iter().map(|number| number.0).collect() }
}

/// Refused settlements, by their tokens.
pub(crate) fn settle_failures(
    tokens: &[LockToken],
    refusals: service::Refusals,
    queue: &str,
) -> Vec<v1::SettleFailure> {
    let failed = refusals.into_iter().filter_map(|(at, refusal)| {
        let token = tokens.get(at as usize)?;
        Some(v1::SettleFailure {
            lock_token: token.to_bytes().to_vec().into(),
            failure: Some(failure(&Error::new(refusal, queue))),
        })
    });
    failed.collect()
}

pub(crate) fn caller(origin: Option<v1::Origin>) -> Result<Caller, Refusal> {
    let Some(v1::Origin { producer, serial, ordered, retry }) = origin else {
        return Ok(Caller::Edge);
    };
    if producer == 0 {
        let why = "a producer is a random number that is not 0".to_owned();
        return Err(Refusal::Argument { what: "origin", why });
    }
    Ok(Caller::Client { producer, serial, ordered, retry })
}

pub(crate) fn numbers(numbers: Vec<u64>) -> Vec<SequenceNumber> {
    numbers.into_iter().map(SequenceNumber).collect()
}
