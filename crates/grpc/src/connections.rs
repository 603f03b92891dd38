//! `mayfly.v1.Connections`.

use std::collections::VecDeque;

use bytes::Bytes;
use domain::{Excerpt, Refusal};
use futures::future::join_all;
use prost::Message;
use service::{Broker, Untold};
use tonic::{Code, Request, Response, Status};
use wire::v1;

use crate::api::connections_server::Connections;
use crate::door::Door;
use crate::node_facts::{self, CLOSE_CONNECTION, CONNECTIONS_PAGE_MAX, LIST_CONNECTIONS};
use crate::status::refused;

pub(crate) struct ConnectionsService {
    pub door: Door,
}

#[tonic::async_trait]
impl Connections for ConnectionsService {
    async fn list_connections(
        &self,
        request: Request<v1::ListConnectionsRequest>,
    ) -> Result<Response<v1::ListConnectionsResponse>, Status> {
        self.door.call(request, list).await
    }

    async fn close_connection(
        &self,
        request: Request<v1::CloseConnectionRequest>,
    ) -> Result<Response<v1::CloseConnectionResponse>, Status> {
        self.door.call(request, close).await
    }
}

async fn list(
    broker: Broker,
    asked: v1::ListConnectionsRequest,
) -> Result<Response<v1::ListConnectionsResponse>, Status> {
    let v1::ListConnectionsRequest { node, after } = asked;
    let from = match after.as_str() {
        "" => 0,
        id => node_facts::connection_id(id).ok_or_else(|| no_id(id))?.0,
    };
    let cluster = broker.cluster();
    let all = cluster.node_ids();
    if node != 0 && !all.contains(&node) {
        let why = format!("there is no node {node}; 'mayfly cluster status' lists them");
        return Err(refused(Refusal::Argument { what: "node", why }, ""));
    }
    let asked = all.into_iter().filter(|id| *id >= from && (node == 0 || *id == node));
    let answers = asked.map(|id| {
        let after = if id == from { after.clone() } else { String::new() };
        let question = v1::ListConnectionsRequest { node: id, after };
        async move {
            let told = cluster.inquire(id, LIST_CONNECTIONS, question.encode_to_vec().into()).await;
            (id, told.and_then(page))
        }
    });
    Ok(Response::new(merged(join_all(answers).await.into())))
}

fn page(told: Bytes) -> Result<v1::ListConnectionsResponse, Untold> {
    v1::ListConnectionsResponse::decode(told).map_err(|_| Untold::Unknown)
}

type NodePages = VecDeque<(u64, Result<v1::ListConnectionsResponse, Untold>)>;

/// One page of the pages of nodes: it ends where a node has more, or where it is full.
fn merged(mut answers: NodePages) -> v1::ListConnectionsResponse {
    let mut page = v1::ListConnectionsResponse::default();
    while let Some((node, answer)) = answers.pop_front() {
        match answer {
            Err(why) => page.untold.push(v1::UntoldNode { node, why: why.to_string() }),
            Ok(told) => {
                page.connections.extend(told.connections);
                page.more = told.more;
            }
        }
        if page.more || page.connections.len() > CONNECTIONS_PAGE_MAX {
            break;
        }
    }
    // Of another node, which comes with the next page: with this one that starts after it.
    if page.connections.len() > CONNECTIONS_PAGE_MAX {
        page.connections.truncate(CONNECTIONS_PAGE_MAX);
        page.more = true;
    }
    page
}

async fn close(
    broker: Broker,
    asked: v1::CloseConnectionRequest,
) -> Result<Response<v1::CloseConnectionResponse>, Status> {
    let id = asked.id.clone();
    let (node, _) = node_facts::connection_id(&id).ok_or_else(|| no_id(&id))?;
    let cluster = broker.cluster();
    if !cluster.node_ids().contains(&node) {
        return Err(gone(&id));
    }
    let told = cluster.inquire(node, CLOSE_CONNECTION, asked.encode_to_vec().into()).await;
    match told {
        // What a node says of it is whether there was one.
        Ok(told) if told.is_empty() => Err(gone(&id)),
        Ok(_) => Ok(Response::new(v1::CloseConnectionResponse {})),
        Err(Untold::Unknown) => {
            let why = format!("node {node} is of a version that closes no connections; upgrade it");
            Err(Status::new(Code::FailedPrecondition, why))
        }
        // It may have heard the question.
        Err(Untold::Silent) => {
            let why = format!(
                "node {node} does not answer; perhaps the connection is closed, list them again"
            );
            Err(Status::new(Code::DeadlineExceeded, why))
        }
    }
}

fn no_id(id: &str) -> Status {
    let why =
        format!("'{}' is the id of no connection; 'mayfly connection list' has them", Excerpt(id));
    refused(Refusal::Argument { what: "connection", why }, "")
}

fn gone(id: &str) -> Status {
    Status::new(Code::NotFound, format!("there is no connection '{}' any more", Excerpt(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(
        node: u64,
        count: usize,
        more: bool,
    ) -> (u64, Result<v1::ListConnectionsResponse, Untold>) {
        let connection = |number| v1::Connection {
            id: format!("{node}-000001-{number}"),
            node,
            ..Default::default()
        };
        let connections = (1..=count).map(connection).collect();
        (node, Ok(v1::ListConnectionsResponse { connections, more, untold: Vec::new() }))
    }

    /// Each row: what nodes answer, how many are listed, whether there are more, and who is said not to tell.
    #[test]
    fn pages_of_nodes_make_one_and_who_does_not_tell_is_named() {
        let max = CONNECTIONS_PAGE_MAX;
        let silent = |node| (node, Err(Untold::Silent));
        for (answers, listed, more, untold) in [
            (vec![], 0, false, vec![]),
            (vec![told(1, 2, false), told(2, 3, false)], 5, false, vec![]),
            (vec![told(1, 2, false), silent(2), told(3, 1, false)], 3, false, vec![2]),
            (vec![told(1, max, true), told(2, 1, false)], max, true, vec![]),
            (vec![told(1, 10, true), silent(2)], 10, true, vec![]),
            (vec![told(1, max, false), told(2, 1, false)], max, true, vec![]),
            (vec![told(1, max, false), silent(2), told(3, 0, false)], max, false, vec![2]),
            (vec![silent(1), silent(2)], 0, false, vec![1, 2]),
        ] {
            let page = merged(answers.clone().into());
            let named: Vec<u64> = page.untold.iter().map(|untold| untold.node).collect();
            assert_eq!(
                (page.connections.len(), page.more, named),
                (listed, more, untold),
                "{answers:?}"
            );
        }
    }
}
