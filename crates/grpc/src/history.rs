//! `mayfly.v1.History`.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{GroupId, Namespace, namespace_of, told_name};
use service::{Broker, HistoryChunk, MessageHistory, recorded_event};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use wire::v1;

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
            let namespace = broker.namespace().clone();
            let (parts, responses) = mpsc::channel(PARTS_MAX);
            tokio::spawn(async move {
                tokio::select! {
                    () = send_all(&history, &namespace, &from, &parts) => {}
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

    async fn find_messages(
        &self,
        request: Request<v1::FindMessagesRequest>,
    ) -> Result<Response<v1::FindMessagesResponse>, Status> {
        let serve = |broker: Broker, asked: v1::FindMessagesRequest| async move {
            let found = broker.cluster().find_messages(asked).await;
            found.map(Response::new).map_err(|error| status(&error))
        };
        self.door.call(request, serve).await
    }
}

/// What is there now; what comes meanwhile is for the next time, or it might never end.
async fn send_all(
    history: &MessageHistory,
    namespace: &Namespace,
    from: &BTreeMap<GroupId, u64>,
    parts: &mpsc::Sender<Result<v1::ReadHistoryResponse, Status>>,
) {
    for (group, end) in history.ends() {
        let mut next = from.get(&group).copied().unwrap_or(0);
        while next <= end
            && let Some(chunk) = history.next(group, next)
        {
            next = chunk.last_index + 1;
            if parts.send(Ok(part(group, namespace, &chunk))).await.is_err() {
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

/// What is of other namespaces is not told (NS-3).
fn part(
    group: GroupId,
    namespace: &Namespace,
    chunk: &Arc<HistoryChunk>,
) -> v1::ReadHistoryResponse {
    let HistoryChunk { first_index, last_index, since: _, events } = &**chunk;
    v1::ReadHistoryResponse {
        group: u32::from(group.0),
        first_index: *first_index,
        last_index: *last_index,
        events: events
            .iter()
            .filter(|event| namespace_of(&event.event.entity) == *namespace)
            .map(|event| {
                let event = recorded_event(group, event);
                let entity = told_name(&event.entity).to_owned();
                v1::MessageEvent { entity, ..event }
            })
            .collect(),
    }
}
