//! How Raft calls its peers.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, stream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
    TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, OptionalSend, RaftNetworkFactory, RaftNetworkV2};

use super::append::{self, Lane};
use super::connection::{Peer, Peers};
use super::v1;
use super::v1::transfer_reply::Refused;
use crate::member;
use crate::raft::snapshot::SnapshotData;
use crate::raft::{Snapshot, TypeConfig, Vote, record};

type RpcResult<T> = Result<T, RPCError<TypeConfig>>;

/// Makes the links of one group.
pub(crate) struct Network {
    pub peers: Arc<Peers>,
    pub lane: Lane,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: u64, _node: &EmptyNode) -> Link {
        self.link(target, false)
    }

    async fn new_heartbeat_client(&mut self, target: u64, _node: &EmptyNode) -> Link {
        self.link(target, true)
    }
}

impl Network {
    fn link(&self, addressee: u64, beats: bool) -> Link {
        let lane = Lane { addressee, ..self.lane.clone() };
        Link { peers: self.peers.clone(), lane, beats }
    }
}

/// One group's way to one peer.
pub(crate) struct Link {
    /// Asked at each call: where a node is reached may change.
    peers: Arc<Peers>,
    lane: Lane,
    /// Heartbeats only: they go over the control connection, each a call of its own.
    beats: bool,
}

impl Link {
    fn peer(&self) -> RpcResult<Arc<Peer>> {
        self.peers.get(member::node_of(self.lane.addressee)).ok_or_else(|| {
            RPCError::Unreachable(Unreachable::from_string("this peer has no usable address"))
        })
    }

    async fn beat(
        peer: Arc<Peer>,
        lane: Lane,
        request: AppendEntriesRequest<TypeConfig>,
    ) -> RpcResult<StreamAppendResult<TypeConfig>> {
        let mut client = peer.control.clone();
        match client.beat(lane.encode(&request)).await {
            Ok(reply) => {
                peer.accepted();
                append::decode(reply.into_inner())
            }
            Err(status) => Err(peer.failed(&status)),
        }
    }

    async fn ask(
        &self,
        request: VoteRequest<TypeConfig>,
        pre: bool,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        let peer = self.peer()?;
        let own_last = request.last_log_id;
        let request = v1::VoteRequest {
            group: self.lane.group.0.into(),
            vote: Some(record::vote_to_proto(&request.vote)),
            last: request.last_log_id.as_ref().map(record::log_id_to_proto),
            transfer: request.leadership_transfer,
            pre,
            addressee: self.lane.addressee,
        };
        let mut client = peer.control.clone();
        let reply = client.vote(request).await.map_err(|status| peer.failed(&status))?.into_inner();
        peer.accepted();
        let last_log_id = reply.last.map(record::log_id_from_proto);
        if last_log_id > own_last {
            self.lane.timer.defer();
        }
        Ok(VoteResponse { vote: vote(reply.vote)?, vote_granted: reply.granted, last_log_id })
    }
}

fn vote(vote: Option<v1::Vote>) -> RpcResult<Vote> {
    vote.map(record::vote_from_proto)
        .ok_or_else(|| RPCError::Network(NetworkError::from_string("a reply without a vote")))
}

impl RaftNetworkV2<TypeConfig> for Link {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> RpcResult<AppendEntriesResponse<TypeConfig>> {
        // Appends come as streams; this is only the trait's other way in.
        Link::beat(self.peer()?, self.lane.clone(), rpc).await.map(AppendEntriesResponse::from)
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, RpcResult<BoxStream<'s, RpcResult<StreamAppendResult<TypeConfig>>>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        let lane = self.lane.clone();
        let peer = self.peer();
        let beats = self.beats;
        async move {
            let peer = peer?;
            if !beats {
                return lane.append(peer, input).await;
            }
            let replies =
                stream::unfold((peer, lane, input), |(peer, lane, mut input)| async move {
                    let request = input.next().await?;
                    let reply = Link::beat(peer.clone(), lane.clone(), request).await;
                    Some((reply, (peer, lane, input)))
                });
            Ok(replies.boxed())
        }
        .boxed()
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        self.ask(rpc, false).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> RpcResult<VoteResponse<TypeConfig>> {
        self.ask(rpc, true).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let peer = self.peer()?;
        let sent = super::snapshot::send(peer, self.lane.clone(), vote, snapshot);
        tokio::select! {
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = sent => Ok(SnapshotResponse::new(sent?)),
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        _option: RPCOption,
    ) -> RpcResult<TransferLeaderResponse<TypeConfig>> {
        let peer = self.peer()?;
        let request = v1::TransferRequest {
            group: self.lane.group.0.into(),
            from: Some(record::vote_to_proto(req.from_leader())),
            to: *req.to_node_id(),
            last: req.last_log_id().map(record::log_id_to_proto),
            addressee: self.lane.addressee,
        };
        let mut client = peer.control.clone();
        let reply = client.transfer(request).await.map_err(|status| peer.failed(&status))?;
        Ok(match reply.into_inner().refused {
            None => Ok(()),
            Some(Refused::VoteChanged(actual)) => Err(TransferLeaderError::VoteChanged {
                expected: *req.from_leader(),
                actual: record::vote_from_proto(actual),
            }),
            Some(Refused::Lag(lag)) => Err(TransferLeaderError::LogNotFlushed {
                expected: req.last_log_id().copied(),
                actual: lag.flushed.map(record::log_id_from_proto),
            }),
        })
    }
}
