//! Questions of the layer above, which replication carries and does not read.

use std::sync::Arc;

use bytes::Bytes;
use tonic::{Code, Status};

use super::connection::Peer;
use super::v1;
use crate::blocking::run_blocking;
use crate::{ChannelError, Incoming};

/// `None`: the peer does not know the question, or is of a version that answers none.
pub(crate) async fn ask(
    peer: &Peer,
    question: &str,
    asked: Bytes,
) -> Result<Option<Bytes>, ChannelError> {
    let mut client = peer.bulk.clone();
    match client.inquire(v1::InquireRequest { question: question.to_owned(), asked }).await {
        Ok(reply) => {
            peer.accepted();
            Ok(Some(reply.into_inner().told))
        }
        Err(status) if status.code() == Code::Unimplemented => Ok(None),
        Err(status) => Err(peer.not_reached(&status)),
    }
}

/// What a peer is answered.
pub(crate) async fn answer(
    incoming: Arc<dyn Incoming>,
    request: v1::InquireRequest,
) -> Result<v1::InquireReply, Status> {
    let v1::InquireRequest { question, asked } = request;
    let name = question.clone();
    let told = run_blocking(move || incoming.answer(&question, asked)).await;
    match told {
        Ok(Some(told)) => Ok(v1::InquireReply { told }),
        Ok(None) => Err(Status::unimplemented(format!("this node does not know '{name}'"))),
        // The node ends.
        Err(_) => Err(Status::unavailable("the node is ending")),
    }
}
