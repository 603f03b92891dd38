//! `mayfly.v1.Events`.

use std::collections::BTreeMap;

use futures::future::join_all;
use prost::Message;
use service::{Broker, Untold};
use tonic::{Request, Response, Status};
use wire::v1;

use crate::api::events_server::Events;
use crate::door::Door;
use crate::node_facts::LIST_EVENTS;

pub(crate) struct EventsService {
    pub door: Door,
}

#[tonic::async_trait]
impl Events for EventsService {
    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        self.door.call(request, list).await
    }
}

async fn list(
    broker: Broker,
    asked: v1::ListEventsRequest,
) -> Result<Response<v1::ListEventsResponse>, Status> {
    let v1::ListEventsRequest { since_ms, cursors } = asked;
    let cluster = broker.cluster();
    let known: BTreeMap<u64, v1::EventCursor> =
        cursors.into_iter().map(|cursor| (cursor.node, cursor)).collect();
    let answers = cluster.node_ids().into_iter().map(|node| {
        let cursors = known.get(&node).cloned().into_iter().collect();
        let asked = v1::ListEventsRequest { since_ms, cursors };
        async move {
            let told = cluster.inquire(node, LIST_EVENTS, asked.encode_to_vec().into()).await;
            let told = told
                .and_then(|told| v1::ListEventsResponse::decode(told).map_err(|_| Untold::Unknown));
            (node, told)
        }
    });
    Ok(Response::new(merged(join_all(answers).await, known)))
}

/// One answer of those of all nodes. Who did not tell is asked again from where he was.
fn merged(
    answers: Vec<(u64, Result<v1::ListEventsResponse, Untold>)>,
    mut known: BTreeMap<u64, v1::EventCursor>,
) -> v1::ListEventsResponse {
    let mut all = v1::ListEventsResponse::default();
    for (node, answer) in answers {
        match answer {
            Err(why) => {
                all.untold.push(v1::UntoldNode { node, why: why.to_string() });
                all.cursors.extend(known.remove(&node));
            }
            Ok(told) => {
                all.events.extend(told.events);
                all.cursors.extend(told.cursors);
                all.lost.extend(told.lost);
                all.more |= told.more;
            }
        }
    }
    // It leaves those of one time in their order.
    all.events.sort_by_key(|event| event.at_ms);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_nodes_come_in_the_order_of_their_times() {
        let event = |node, at_ms| v1::ClusterEvent { node, at_ms, ..Default::default() };
        let cursor = |node, number| v1::EventCursor { node, run: 1, number };
        let told = |node, times: &[u64]| {
            let events = times.iter().map(|at_ms| event(node, *at_ms)).collect();
            let cursors = vec![cursor(node, 9)];
            (node, Ok(v1::ListEventsResponse { events, cursors, ..Default::default() }))
        };
        let answers = vec![told(1, &[10, 30]), (2, Err(Untold::Silent)), told(3, &[20])];
        let known = [(2, cursor(2, 5)), (4, cursor(4, 6))].into();
        let all = merged(answers, known);
        let found: Vec<_> = all.events.iter().map(|event| (event.node, event.at_ms)).collect();
        assert_eq!(found, [(1, 10), (3, 20), (1, 30)]);
        assert_eq!(all.cursors, [cursor(1, 9), cursor(2, 5), cursor(3, 9)]);
        assert_eq!(all.untold.len(), 1);
    }
}
