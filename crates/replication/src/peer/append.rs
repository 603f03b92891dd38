//! Log entries on their way to one follower: one stream per group, pipelined, cut by bytes.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::GroupId;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use openraft::errors::{NetworkError, RPCError};
use openraft::raft::{AppendEntriesRequest, StreamAppendError, StreamAppendResult};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tonic::Streaming;

use super::connection::Peer;
use super::v1;
use super::v1::append_reply::Result as Reply;
use crate::group::confirmation::Confirmation;
use crate::group::election::ElectionTimer;
use crate::raft::{TypeConfig, record};

/// A follower that answers nothing for this long while entries are on their way to it is given up,
/// and tried again on a new stream. Its disk may well be slow; its silence is not for ever.
const SILENCE_MAX: Duration = Duration::from_secs(8);
/// A stream is opened before anything is waited for, so this is only the way there and back.
const OPEN_MAX: Duration = Duration::from_secs(2);
/// That entries are committed goes to a follower with the next ones, or by itself after so long: it has nobody to answer
/// meanwhile, and a request by itself takes as much of both nodes as one with entries.
const COMMIT_WAITS_MAX: Duration = Duration::from_millis(20);

type Appended = Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>;

/// How one group sends to one follower.
#[derive(Clone)]
pub(crate) struct Lane {
    pub group: GroupId,
    /// The follower, by its replica's id.
    pub addressee: u64,
    /// Count of entries on disk at every member, as the leader knows it; see `Retention`.
    pub held_by_all: Arc<AtomicU64>,
    pub confirmation: Confirmation,
    pub timer: ElectionTimer,
    pub window_bytes: usize,
}

impl Lane {
    pub fn encode(&self, request: &AppendEntriesRequest<TypeConfig>) -> v1::AppendRequest {
        v1::AppendRequest {
            group: self.group.0.into(),
            vote: Some(record::vote_to_proto(&request.vote)),
            previous: request.prev_log_id.as_ref().map(record::log_id_to_proto),
            committed: request.leader_commit.as_ref().map(record::log_id_to_proto),
            held_by_all: self.held_by_all.load(Ordering::Relaxed),
            entries: request.entries.iter().map(record::encode_entry).collect(),
            addressee: self.addressee,
            confirmed_ms: Some(self.confirmation.word_ms()),
        }
    }

    /// Sends what `requests` yields, as far as the window allows, and yields the replies in order.
    pub async fn append<'s, S>(
        self,
        peer: Arc<Peer>,
        mut requests: S,
    ) -> Result<BoxStream<'s, Appended>, RPCError<TypeConfig>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        // Where a peer was unreachable, Raft waits before it makes the next request, not before it
        // asks for a stream: opened without a request, streams would be tried without a pause.
        let Some(first) = requests.next().await else { return Ok(stream::empty().boxed()) };
        let requests = stream::iter([first]).chain(requests);
        let requests = match self.group {
            // Every node reads its own copy of the catalog, and what was just created is looked for there.
            GroupId::CATALOG => requests.boxed(),
            _ => commits_along(requests).boxed(),
        };
        let window = Arc::new(Window::new(self.window_bytes));
        let outgoing = outgoing(self, requests, window.clone());
        let mut client = peer.log.clone();
        let replies = match timeout(OPEN_MAX, client.append(outgoing)).await {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return Err(peer.failed(&status)),
            Err(_) => return Err(silent()),
        };
        peer.accepted();
        Ok(incoming(peer, replies, window).boxed())
    }
}

/// Lets a request without entries wait for one with some, which takes its place. Raft takes an answer for one to
/// all requests before.
fn commits_along<S>(
    requests: S,
) -> impl Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + 'static
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
{
    // Raft's stream may not be asked again once it has ended, and its end is met while a request waits.
    stream::unfold(requests.fuse(), |mut requests| async move {
        let mut request = requests.next().await?;
        if request.entries.is_empty() {
            let mut waits = pin!(sleep(COMMIT_WAITS_MAX));
            while request.entries.is_empty() {
                tokio::select! {
                    biased;
                    next = requests.next() => match next {
                        Some(next) => request = next,
                        None => break,
                    },
                    () = &mut waits => break,
                }
            }
        }
        Some((request, requests))
    })
}

fn silent() -> RPCError<TypeConfig> {
    RPCError::Network(NetworkError::from_string("no answer in time"))
}

fn outgoing<S>(
    lane: Lane,
    requests: S,
    window: Arc<Window>,
) -> impl Stream<Item = v1::AppendRequest> + Send + 'static
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
{
    stream::unfold((lane, requests, window), |(lane, mut requests, window)| async move {
        // Only with room is the next request made: it then carries the newest commit.
        window.room().await;
        let request = lane.encode(&requests.next().await?);
        let bytes = request.entries.iter().map(|entry| entry.len()).sum();
        window.sent(bytes, Instant::now());
        Some((request, (lane, requests, window)))
    })
}

fn incoming(
    peer: Arc<Peer>,
    replies: Streaming<v1::AppendReply>,
    window: Arc<Window>,
) -> impl Stream<Item = Appended> + Send + 'static {
    stream::unfold(Some((peer, replies, window)), |state| async move {
        let (peer, mut replies, window) = state?;
        let reply = match next(&mut replies, &window).await {
            Ok(reply) => reply?,
            Err(None) => return Some((Err(silent()), None)),
            Err(Some(status)) => return Some((Err(peer.failed(&status)), None)),
        };
        window.acknowledged(Instant::now());
        let appended = decode(reply);
        let more = matches!(appended, Ok(Ok(_))).then_some((peer, replies, window));
        Some((appended, more))
    })
}

/// The next reply, `None` at the stream's end, or an error; none of tonic's when silence is it.
async fn next(
    replies: &mut Streaming<v1::AppendReply>,
    window: &Window,
) -> Result<Option<v1::AppendReply>, Option<tonic::Status>> {
    let mut reply = pin!(replies.message());
    loop {
        // While nothing is under way there is nothing to wait for, and nobody is woken.
        let Some(left) = window.patience(Instant::now()) else {
            tokio::select! {
                result = &mut reply => return result.map_err(Some),
                () = window.opened.notified() => continue,
            }
        };
        if left.is_zero() {
            return Err(None);
        }
        if let Ok(result) = timeout(left, &mut reply).await {
            return result.map_err(Some);
        }
    }
}

pub(crate) fn decode(reply: v1::AppendReply) -> Appended {
    match reply.result {
        Some(Reply::Matched(matched)) => Ok(Ok(matched.last.map(record::log_id_from_proto))),
        Some(Reply::Conflict(at)) => {
            Ok(Err(StreamAppendError::Conflict(record::log_id_from_proto(at))))
        }
        Some(Reply::Higher(vote)) => {
            Ok(Err(StreamAppendError::HigherVote(record::vote_from_proto(vote))))
        }
        None => Err(RPCError::Network(NetworkError::from_string("an empty reply"))),
    }
}

pub(crate) fn encode_reply(result: StreamAppendResult<TypeConfig>) -> v1::AppendReply {
    let result = match result {
        Ok(last) => {
            Reply::Matched(v1::Matched { last: last.as_ref().map(record::log_id_to_proto) })
        }
        Err(StreamAppendError::Conflict(at)) => Reply::Conflict(record::log_id_to_proto(&at)),
        Err(StreamAppendError::HigherVote(vote)) => Reply::Higher(record::vote_to_proto(&vote)),
    };
    v1::AppendReply { result: Some(result) }
}

/// What was sent and not yet acknowledged. It bounds what a slow follower holds in memory: HTTP/2's
/// own windows only count what it has not read yet.
struct Window {
    bytes_max: usize,
    state: Mutex<InFlight>,
    room: Notify,
    /// Something is under way, where nothing was.
    opened: Notify,
}

#[derive(Default)]
struct InFlight {
    requests: VecDeque<(usize, Instant)>,
    bytes: usize,
    answered_at: Option<Instant>,
}

impl Window {
    fn new(bytes_max: usize) -> Window {
        Window { bytes_max, state: Mutex::default(), room: Notify::new(), opened: Notify::new() }
    }

    async fn room(&self) {
        while self.state.lock().bytes >= self.bytes_max {
            self.room.notified().await;
        }
    }

    fn sent(&self, bytes: usize, now: Instant) {
        let mut state = self.state.lock();
        state.bytes += bytes;
        state.requests.push_back((bytes, now));
        if state.requests.len() == 1 {
            self.opened.notify_one();
        }
    }

    fn acknowledged(&self, now: Instant) {
        let mut state = self.state.lock();
        state.answered_at = Some(now);
        if let Some((bytes, _)) = state.requests.pop_front() {
            state.bytes -= bytes;
        }
        self.room.notify_one();
    }

    /// How long the follower may go on to be silent: it is since it last answered, or since the oldest request that it
    /// has not answered was sent, if that is later. `None`: it has answered all.
    fn patience(&self, now: Instant) -> Option<Duration> {
        let state = self.state.lock();
        let (_, sent_at) = state.requests.front()?;
        let since = state.answered_at.map_or(*sent_at, |at| at.max(*sent_at));
        Some(SILENCE_MAX.saturating_sub(now.saturating_duration_since(since)))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::channel::mpsc;

    use super::*;
    use crate::raft::{Entry, LogId, Payload, Vote};

    #[test]
    fn a_full_window_waits_for_an_acknowledgement() {
        let window = Window::new(100);
        let now = Instant::now();
        assert!(window.room().now_or_never().is_some());
        window.sent(150, now); // One request may overshoot, or a large entry would never go.
        assert!(window.room().now_or_never().is_none());
        window.acknowledged(now);
        assert!(window.room().now_or_never().is_some());
    }

    fn request(committed: u64, entries: usize) -> AppendEntriesRequest<TypeConfig> {
        let blank = |index| Entry { log_id: log_id(index), payload: Payload::Blank };
        AppendEntriesRequest {
            vote: Vote::new_committed(1, 1),
            prev_log_id: None,
            entries: (1..=entries as u64).map(blank).collect(),
            leader_commit: Some(log_id(committed)),
        }
    }

    fn log_id(index: u64) -> LogId {
        record::log_id(1, 1, index)
    }

    #[tokio::test]
    async fn a_commit_goes_with_the_next_entries_or_after_a_while() {
        let (send, receive) = mpsc::unbounded();
        // As Raft's, which panics where it is asked for more after its end.
        let requests = stream::unfold(receive, |mut receive: mpsc::UnboundedReceiver<_>| async {
            Some((receive.next().await?, receive))
        });
        let mut sent = pin!(commits_along(requests.boxed()));
        let told = |request: Option<AppendEntriesRequest<TypeConfig>>| {
            let request = request.expect("the stream goes on");
            let committed = request.leader_commit.map(|id| id.index);
            (committed.unwrap_or_default(), request.entries.len())
        };
        let give = |request| send.unbounded_send(request).expect("the stream goes on");

        give(request(1, 2));
        assert_eq!(sent.next().now_or_never().map(told), Some((1, 2)), "entries wait for nothing");
        for (committed, entries) in [(2, 0), (3, 0), (3, 1), (4, 1)] {
            give(request(committed, entries));
        }
        assert_eq!(sent.next().now_or_never().map(told), Some((3, 1)), "a commit goes along");
        assert_eq!(sent.next().now_or_never().map(told), Some((4, 1)));

        let began = Instant::now();
        give(request(5, 0));
        assert!(sent.next().now_or_never().is_none(), "it waits");
        give(request(6, 0));
        assert_eq!(told(sent.next().await), (6, 0), "the newest goes by itself");
        assert!(began.elapsed() >= COMMIT_WAITS_MAX, "after {:?}", began.elapsed());

        give(request(7, 0));
        drop(send);
        assert_eq!(
            sent.next().now_or_never().map(told),
            Some((7, 0)),
            "nothing is lost at the end"
        );
        assert!(sent.next().await.is_none());
    }

    #[test]
    fn silence_counts_only_while_something_is_open() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let left = |window: &Window, second| window.patience(at(second)).map(|left| left.as_secs());
        let window = Window::new(100);
        assert_eq!(left(&window, 9), None);
        window.sent(1, at(9));
        window.sent(1, at(9));
        assert_eq!(left(&window, 14), Some(3));
        window.acknowledged(at(14));
        assert_eq!(left(&window, 14), Some(8), "the second is old, but it was heard");
        assert_eq!(left(&window, 16), Some(6));
        assert_eq!(left(&window, 23), Some(0));
        window.acknowledged(at(23));
        assert_eq!(left(&window, 40), None);
    }
}
