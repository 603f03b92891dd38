//! `mayfly.v1.History`.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{
    AcceptedMessage, GroupId, LifeStep, LockToken, MessageEvent, MessageTexts, SubQueue, Timestamp,
};
use service::{Broker, HistoryChunk, MessageHistory};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use wire::v1::{self, message_event::Step};

use crate::api::history_server::History;
use crate::door::Door;
use crate::messaging::Responses;
use crate::server::stopped;
use crate::status::{refused, status};

/// Parts not yet taken by the transport, each of some hundred events.
const PARTS_MAX: usize = 2;

pub(crate) struct HistoryService {
    pub door: Door,
    /// True once the server is stopping: streams end, so that it can.
    pub stopping: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl History for HistoryService {
    type ReadStream = Responses<v1::ReadHistoryResponse>;

    async fn read(
        &self,
        request: Request<v1::ReadHistoryRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let stopping = self.stopping.clone();
        let serve = |broker: Broker, asked: v1::ReadHistoryRequest| async move {
            let from = asked.from.into_iter().map(|(group, index)| Ok((group_id(group)?, index)));
            let from = from.collect::<Result<BTreeMap<GroupId, u64>, Status>>()?;
            let history = broker.cluster().message_history().map_err(|error| status(&error))?;
            let (parts, responses) = mpsc::channel(PARTS_MAX);
            tokio::spawn(async move {
                tokio::select! {
                    () = send_all(&history, &from, &parts) => {}
                    () = stopped(stopping) => {
                        let gone = Status::unavailable("this node is stopping; ask another");
                        drop(parts.try_send(Err(gone)));
                    }
                }
            });
            Ok(Response::new(ReceiverStream::new(responses)))
        };
        self.door.call(request, serve).await
    }

    async fn marks(
        &self,
        request: Request<v1::HistoryMarksRequest>,
    ) -> Result<Response<v1::HistoryMarksResponse>, Status> {
        let serve = |broker: Broker, _: v1::HistoryMarksRequest| async move {
            let marks = broker.cluster().history_marks().map_err(|error| status(&error))?;
            let applied = marks.into_iter().map(|(group, index)| (u32::from(group.0), index));
            Ok(Response::new(v1::HistoryMarksResponse { applied: applied.collect() }))
        };
        self.door.call(request, serve).await
    }
}

/// What is there now; what comes meanwhile is for the next time, or it might never end.
async fn send_all(
    history: &MessageHistory,
    from: &BTreeMap<GroupId, u64>,
    parts: &mpsc::Sender<Result<v1::ReadHistoryResponse, Status>>,
) {
    for (group, end) in history.ends() {
        let mut next = from.get(&group).copied().unwrap_or(0);
        while next <= end
            && let Some(chunk) = history.next(group, next)
        {
            next = chunk.last_index + 1;
            if parts.send(Ok(part(group, &chunk))).await.is_err() {
                return;
            }
        }
    }
}

fn group_id(group: u32) -> Result<GroupId, Status> {
    u16::try_from(group).map(GroupId).map_err(|_| {
        let why = format!("there is no group {group}; they are numbered from 0 to 65535");
        refused(domain::Refusal::Argument { what: "from", why }, "")
    })
}

fn part(group: GroupId, chunk: &Arc<HistoryChunk>) -> v1::ReadHistoryResponse {
    let HistoryChunk { first_index, last_index, events } = &**chunk;
    let shown = |(index, at, event): &(u64, Timestamp, MessageEvent)| v1::MessageEvent {
        at_ms: at.0,
        group: u32::from(group.0),
        index: *index,
        entity: path(event),
        sequence_number: event.number.0,
        step: Some(step(event, *at)),
    };
    v1::ReadHistoryResponse {
        group: u32::from(group.0),
        first_index: *first_index,
        last_index: *last_index,
        events: events.iter().map(shown).collect(),
    }
}

fn path(event: &MessageEvent) -> String {
    let below = match event.sub {
        SubQueue::Main => "",
        SubQueue::DeadLetter => "/$deadletterqueue",
        SubQueue::Transfer => "/$transfer",
        SubQueue::TransferDeadLetter => "/$transfer/$deadletterqueue",
    };
    format!("{}{below}", event.entity)
}

fn instant(at: Timestamp) -> Option<u64> {
    (at != Timestamp::NEVER).then_some(at.0)
}

fn step(event: &MessageEvent, at: Timestamp) -> Step {
    let late_ms = event.step.late(at).map_or(0, |late| late.0);
    match &event.step {
        LifeStep::Accepted(accepted) => Step::Accepted(shown(accepted)),
        LifeStep::Activated { scheduled_as, expires_at, due: _ } => {
            let (scheduled_as, expires_at_ms) = (scheduled_as.0, instant(*expires_at));
            Step::Activated(v1::MessageActivated { scheduled_as, late_ms, expires_at_ms })
        }
        LifeStep::Cancelled => Step::Cancelled(v1::MessageCancelled {}),
        LifeStep::Published { copies } => Step::Published(v1::MessagePublished { copies: *copies }),
        LifeStep::Locked { nonce, until, delivery_count, receiver } => {
            let token = LockToken { sequence: event.number, nonce: *nonce };
            Step::Locked(v1::MessageLocked {
                lock_token: token.to_string(),
                until_ms: until.0,
                delivery_count: *delivery_count,
                receiver: format!("node {}, link {}", receiver.node, receiver.number()),
            })
        }
        LifeStep::LockRenewed { until } => {
            Step::LockRenewed(v1::MessageLockRenewed { until_ms: until.0 })
        }
        LifeStep::Completed { on_delivery } => {
            Step::Completed(v1::MessageCompleted { on_delivery: *on_delivery })
        }
        LifeStep::Abandoned { delivery_count } => {
            Step::Abandoned(v1::MessageAbandoned { delivery_count: *delivery_count })
        }
        LifeStep::Released => Step::Released(v1::MessageReleased {}),
        LifeStep::LockLapsed { delivery_count, until: _ } => {
            let delivery_count = *delivery_count;
            Step::LockLapsed(v1::MessageLockLapsed { late_ms, delivery_count })
        }
        LifeStep::Deferred => Step::Deferred(v1::MessageDeferred {}),
        LifeStep::DeadLettered { reason, description, due: _ } => {
            let (reason, description) = (reason.to_string(), description.to_string());
            Step::DeadLettered(v1::MessageDeadLettered { reason, description })
        }
        LifeStep::Expired { due: _ } => Step::Expired(v1::MessageExpired { late_ms }),
        LifeStep::Deleted => Step::Deleted(v1::MessageDeleted {}),
        LifeStep::Forwarded { serial: _, position: _ } => Step::Forwarded(v1::MessageForwarded {}),
        LifeStep::EntityDeleted => Step::EntityDeleted(v1::EntityDeletedEvent {}),
    }
}

fn shown(accepted: &AcceptedMessage) -> v1::MessageAccepted {
    let MessageTexts { message_id, correlation_id, session_id, subject, reply_to } =
        &*accepted.texts;
    let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().to_owned();
    v1::MessageAccepted {
        message_id: text(message_id),
        correlation_id: text(correlation_id),
        session_id: text(session_id),
        subject: text(subject),
        reply_to: text(reply_to),
        size_bytes: accepted.size_bytes,
        scheduled_for_ms: accepted.scheduled_for.map(|at| at.0),
        expires_at_ms: accepted.expires_at.and_then(instant),
        published_as: accepted.published_as.map(|number| number.0),
        hops: accepted.hops,
    }
}
