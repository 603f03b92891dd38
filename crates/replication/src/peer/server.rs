//! The peer port.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::GroupId;
use futures::future::Either;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::{
    AppendEntriesRequest, TransferLeaderError, TransferLeaderRequest, VoteRequest,
};
use store::{DataDir, Provenance};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use super::identity::{Caller, Check};
use super::v1::peer_server::{Peer as PeerService, PeerServer};
use super::v1::transfer_reply::Refused;
use super::{
    CONNECTION_WINDOW_BYTES, FRAME_BYTES, MESSAGE_BYTES_MAX, STREAM_WINDOW_BYTES, append, channel,
    description, heartbeats, inquiry, snapshot, v1,
};
use crate::group::{Group, Groups};
use crate::raft::{TypeConfig, Vote, record};
use crate::runs::Runs;
use crate::sockets::Accepted;
use crate::{Clocks, Doorkeeper, Error, Incoming, member};

/// A caller silent for this long, and that long again after a ping, is gone.
const SILENCE: Duration = Duration::from_secs(5);

/// Streams of one connection: one per group on the log connection, one per channel on the bulk one.
const STREAMS_MAX: u32 = 4096;
/// Calls of one connection that were given up before they were looked at: as many as may be under way. A peer gives
/// its calls up by the dozen when a node stands still, and is no attacker for that; with h2's own 20 the connection
/// of one that is heard again would end at once.
const GIVEN_UP_MAX: usize = STREAMS_MAX as usize;

/// Answers peers for every group of this node.
#[derive(Clone)]
pub(crate) struct PeerPort {
    pub data: Option<DataDir>,
    pub groups: Groups,
    pub incoming: Arc<dyn Incoming>,
    pub runs: Arc<Runs>,
    /// Turns when no more calls are taken.
    pub stopping: watch::Receiver<bool>,
}

impl PeerPort {
    /// Binds the port, which takes connections itself without a doorkeeper; the future serves it until
    /// `stop` resolves.
    pub fn bind(
        self,
        address: SocketAddr,
        doorkeeper: Option<Arc<dyn Doorkeeper>>,
        check: Check,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<impl Future<Output = Result<(), tonic::transport::Error>>, Error> {
        let failed = |source| Error::Listen { address, source };
        let service = PeerServer::new(self)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let server = Server::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .max_concurrent_streams(STREAMS_MAX)
            .http2_max_pending_accept_reset_streams(Some(GIVEN_UP_MAX))
            .http2_keepalive_interval(Some(SILENCE))
            .http2_keepalive_timeout(Some(SILENCE))
            .add_service(InterceptedService::new(service, check));
        let incoming = doorkeeper.map(|doorkeeper| doorkeeper.listen(address));
        Ok(match incoming.transpose().map_err(failed)? {
            None => {
                let incoming = TcpIncoming::bind(address).map_err(failed)?.with_nodelay(Some(true));
                Either::Left(server.serve_with_incoming_shutdown(incoming, stop))
            }
            Some(incoming) => {
                let incoming = incoming.map_ok(Accepted);
                Either::Right(server.serve_with_incoming_shutdown(incoming, stop))
            }
        })
    }

    /// The replica of a group that runs here.
    fn here(&self, group: u32) -> Result<Arc<Group>, Status> {
        let group = u16::try_from(group).map_err(|_| Status::invalid_argument("no such group"))?;
        self.groups
            .get(GroupId(group))
            .ok_or_else(|| Status::not_found(format!("group {group} does not run here")))
    }

    /// The same, if it is the one that is meant: no replica answers for an incarnation this node
    /// has lost. Raft that has stopped is asked nothing, because it would complain of each
    /// question.
    fn group(&self, group: u32, addressee: u64) -> Result<Arc<Group>, Status> {
        let group = self.here(group)?;
        if group.replica_id != addressee {
            return Err(Status::failed_precondition("this node lost the replica that is meant"));
        }
        if let Err(fatal) = &group.raft.metrics().borrow_watched().running_state {
            return Err(stopped(fatal));
        }
        Ok(group)
    }
}

fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    let from = request.extensions().get::<Caller>();
    from.copied().ok_or_else(|| Status::internal("the caller was not checked"))
}

/// Raft of this group has stopped: to the caller that is a node that is down.
fn stopped(reason: impl std::fmt::Display) -> Status {
    Status::unavailable(format!("the group has stopped: {reason}"))
}

pub(crate) fn required_vote(vote: Option<v1::Vote>) -> Result<Vote, Status> {
    vote.map(record::vote_from_proto).ok_or_else(|| Status::invalid_argument("no vote"))
}

fn append_request(
    group: &Group,
    request: v1::AppendRequest,
) -> Result<AppendEntriesRequest<TypeConfig>, Status> {
    let entries: Result<Vec<_>, _> =
        request.entries.into_iter().map(record::decode_entry).collect();
    let vote = required_vote(request.vote)?;
    // One that leads no more learns it from Raft.
    if group.follows(&vote) {
        group.hear(Instant::now(), request.held_by_all, request.confirmed_ms);
    }
    Ok(AppendEntriesRequest {
        vote,
        prev_log_id: request.previous.map(record::log_id_from_proto),
        entries: entries.map_err(|error| Status::invalid_argument(error.to_string()))?,
        leader_commit: request.committed.map(record::log_id_from_proto),
    })
}

#[tonic::async_trait]
impl PeerService for PeerPort {
    async fn vote(
        &self,
        request: Request<v1::VoteRequest>,
    ) -> Result<Response<v1::VoteReply>, Status> {
        let request = request.into_inner();
        let group = self.group(request.group, request.addressee)?;
        let asked = VoteRequest {
            vote: required_vote(request.vote)?,
            last_log_id: request.last.map(record::log_id_from_proto),
            leadership_transfer: request.transfer,
        };
        let answer = match request.pre {
            // Whoever leads has asked for it.
            _ if !request.transfer && group.refuses_votes(Instant::now()) => Ok(group.no_vote()),
            true => group.raft.pre_vote(asked).await,
            false => group.raft.vote(asked).await,
        };
        let answer = answer.map_err(stopped)?;
        if answer.vote_granted && !request.pre {
            group.timer.restart(Instant::now());
        }
        Ok(Response::new(v1::VoteReply {
            vote: Some(record::vote_to_proto(&answer.vote)),
            granted: answer.vote_granted,
            last: answer.last_log_id.as_ref().map(record::log_id_to_proto),
        }))
    }

    async fn beat(
        &self,
        request: Request<v1::AppendRequest>,
    ) -> Result<Response<v1::AppendReply>, Status> {
        let request = request.into_inner();
        let group = self.group(request.group, request.addressee)?;
        let request = append_request(&group, request)?;
        let (previous, last) = (request.prev_log_id, request.entries.last().map(|e| e.log_id));
        let answer = group.raft.append_entries(request).await.map_err(stopped)?;
        let result = answer.into_stream_result(previous, last.or(previous));
        Ok(Response::new(append::encode_reply(result)))
    }

    type HeartbeatsStream = BoxStream<'static, Result<v1::HeartbeatsReply, Status>>;

    async fn heartbeats(
        &self,
        request: Request<Streaming<v1::HeartbeatsRequest>>,
    ) -> Result<Response<Self::HeartbeatsStream>, Status> {
        let port = self.clone();
        let replies = request.into_inner().map_ok(move |request| {
            let replica = |beat: &v1::GroupHeartbeat| port.group(beat.group, beat.addressee).ok();
            heartbeats::answer(request.groups, replica)
        });
        Ok(Response::new(replies.boxed()))
    }

    async fn transfer(
        &self,
        request: Request<v1::TransferRequest>,
    ) -> Result<Response<v1::TransferReply>, Status> {
        let request = request.into_inner();
        let group = self.group(request.group, request.addressee)?;
        let asked = TransferLeaderRequest::new(
            required_vote(request.from)?,
            request.to,
            request.last.map(record::log_id_from_proto),
        );
        let answer = group.raft.handle_transfer_leader(asked).await.map_err(stopped)?;
        if answer.is_ok() {
            group.timer.release(Instant::now());
        }
        let refused = answer.err().map(|error| match error {
            TransferLeaderError::VoteChanged { actual, .. } => {
                Refused::VoteChanged(record::vote_to_proto(&actual))
            }
            TransferLeaderError::LogNotFlushed { actual, .. } => {
                Refused::Lag(v1::LogLag { flushed: actual.as_ref().map(record::log_id_to_proto) })
            }
        });
        Ok(Response::new(v1::TransferReply { refused }))
    }

    async fn clocks(
        &self,
        _: Request<v1::ClocksRequest>,
    ) -> Result<Response<v1::ClocksReply>, Status> {
        let Clocks { wall_us, clock_us } = self.incoming.clocks();
        Ok(Response::new(v1::ClocksReply { wall_us, clock_us }))
    }

    async fn part(
        &self,
        request: Request<v1::PartRequest>,
    ) -> Result<Response<v1::PartReply>, Status> {
        let Caller { node, run } = caller(&request)?;
        self.runs.part(node, run);
        Ok(Response::new(v1::PartReply {}))
    }

    async fn describe(
        &self,
        _: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeReply>, Status> {
        Ok(Response::new(description::told(self.incoming.describe())))
    }

    async fn inquire(
        &self,
        request: Request<v1::InquireRequest>,
    ) -> Result<Response<v1::InquireReply>, Status> {
        let told = inquiry::answer(self.incoming.clone(), request.into_inner()).await?;
        Ok(Response::new(told))
    }

    type AttendStream = BoxStream<'static, Result<v1::AttendReply, Status>>;

    async fn attend(
        &self,
        _: Request<v1::AttendRequest>,
    ) -> Result<Response<Self::AttendStream>, Status> {
        let mut stopping = self.stopping.clone();
        let stop = async move { drop(stopping.wait_for(|stop| *stop).await) };
        Ok(Response::new(stream::pending().take_until(stop).boxed()))
    }

    type AppendStream = BoxStream<'static, Result<v1::AppendReply, Status>>;

    async fn append(
        &self,
        request: Request<Streaming<v1::AppendRequest>>,
    ) -> Result<Response<Self::AppendStream>, Status> {
        let mut requests = request.into_inner();
        let port = self.clone();
        // The answer to the call itself must not wait for the first entry, so finding the group is
        // a part of the stream.
        let replies = stream::once(async move {
            let Some(first) = requests.message().await? else {
                return Ok(stream::empty().boxed());
            };
            let group = port.group(first.group, first.addressee)?;
            Ok::<_, Status>(append_replies(group, first, requests))
        });
        Ok(Response::new(replies.try_flatten().boxed()))
    }

    async fn install_snapshot(
        &self,
        request: Request<Streaming<v1::SnapshotPart>>,
    ) -> Result<Response<v1::SnapshotReply>, Status> {
        let mut parts = request.into_inner();
        let head = snapshot::head(&mut parts).await?;
        let group = self.group(head.group, head.addressee)?;
        // In a task of its own: the call is dropped when its connection breaks.
        let received = async move { snapshot::receive(&group, head, parts).await };
        let vote = tokio::spawn(received).await.map_err(stopped)??;
        Ok(Response::new(v1::SnapshotReply { vote: Some(record::vote_to_proto(&vote)) }))
    }

    async fn snapshot_progress(
        &self,
        request: Request<v1::SnapshotProgressRequest>,
    ) -> Result<Response<v1::SnapshotProgressReply>, Status> {
        let request = request.into_inner();
        let group = self.group(request.group, request.addressee)?;
        Ok(Response::new(snapshot::progress(&group, request.transfer).await))
    }

    type OpenStream = BoxStream<'static, Result<v1::ChannelMessage, Status>>;

    async fn open(
        &self,
        request: Request<Streaming<v1::ChannelMessage>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let from = caller(&request)?.node;
        let (channel, outgoing) = channel::accepted(request.into_inner());
        self.incoming.accept(from, channel);
        Ok(Response::new(outgoing.map(Ok).boxed()))
    }

    async fn recall(
        &self,
        _request: Request<v1::RecallRequest>,
    ) -> Result<Response<v1::RecallReply>, Status> {
        let unknown = || Status::unimplemented("this node does not remember the founding");
        let data = self.data.as_ref().ok_or_else(unknown)?;
        let provenance = data.provenance();
        if provenance == Provenance::Lost {
            // As good as silent: neither that there is a cluster nor that there is none.
            return Err(Status::aborted("this node does not know any more what it was"));
        }
        Ok(Response::new(v1::RecallReply {
            directory_id: data.id(),
            new: provenance == Provenance::New,
            founders: provenance.founders().into_iter().collect(),
        }))
    }

    async fn admit(
        &self,
        request: Request<v1::AdmitRequest>,
    ) -> Result<Response<v1::AdmitReply>, Status> {
        let from = caller(&request)?.node;
        let request = request.into_inner();
        if member::node_of(request.id) != from {
            return Err(Status::invalid_argument("a node asks for itself only"));
        }
        let answer = self.here(request.group)?.admit(request.id, request.applied).await;
        Ok(Response::new(v1::AdmitReply { answer: answer.into() }))
    }
}

/// Feeds a stream of appends to Raft, which has several under way and answers in order.
fn append_replies(
    group: Arc<Group>,
    first: v1::AppendRequest,
    rest: Streaming<v1::AppendRequest>,
) -> BoxStream<'static, Result<v1::AppendReply, Status>> {
    let raft = group.raft.clone();
    // A request that cannot be read ends the stream: the leader starts another where it knows this
    // log to agree with its own.
    let requests = stream::once(async move { Ok(first) })
        .chain(rest)
        .map(move |request| append_request(&group, request?))
        .take_while(|request| std::future::ready(request.is_ok()))
        .filter_map(|request| std::future::ready(request.ok()));
    raft.stream_append(requests)
        .map(|answer| answer.map(append::encode_reply).map_err(stopped))
        .boxed()
}
