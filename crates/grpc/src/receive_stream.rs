//! `ReceiveStream`: deliveries by credit, and their settlements, on one stream. Everything that
//! waits for the client goes into one response.

use std::pin::{Pin, pin};

use domain::{Disposition, LockToken, Refusal, SessionToken, Settlement, SubQueue};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use limits::{LinkRole, ListedLink};
use service::{Accepted, Broker, Error, Next, ReceiveMode, Received, Receiver};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use wire::{native, v1};

use crate::door::{Admitted, Visitor};
use crate::messaging::{Responses, new_settlements, of_mode, receive_mode, settle_failures, shown};
use crate::server::stopped;
use crate::sessions;
use crate::status::{failure, refused, status};

/// Requests whose settlements are not answered, per stream; the client is held back beyond.
const SETTLING_MAX: usize = 64;
/// Responses not yet taken by the transport: few, so that deliveries wait where they can be merged.
const RESPONSES_MAX: usize = 2;

type Settling = FuturesUnordered<Pin<Box<dyn Future<Output = v1::Settled> + Send>>>;

pub(crate) async fn open(
    visitor: Visitor,
    mut requests: Streaming<v1::ReceiveStreamRequest>,
    stopping: watch::Receiver<bool>,
) -> Result<Responses<v1::ReceiveStreamResponse>, Status> {
    let (sender, responses) = mpsc::channel(RESPONSES_MAX);
    let responses = ReceiverStream::new(responses);
    let Some(mut first) = requests.message().await? else { return Ok(responses) };
    let Some(open) = first.open.take() else {
        let why = "the first request of a stream opens it".to_owned();
        return Err(refused(Refusal::Argument { what: "open", why }, ""));
    };
    let Admitted { broker, .. } = visitor.admit(&open).await?;
    let asked = open.clone();
    let listed = visitor.list_stream(LinkRole::Receives, &open.queue);
    let v1::ReceiveOpen { queue, sub_queue, mode, accept_session } = open;
    let refuse = |refusal| refused(refusal, &queue);
    let sub = native::sub_queue(sub_queue).map_err(refuse)?;
    let mode = receive_mode(mode).map_err(refuse)?;
    if let Some(wanted) = accept_session {
        let opening = Opening { broker, queue, sub, mode, requests, responses: sender, listed };
        let shut_out = async move { visitor.is_shut_out(asked).await };
        return sessions::open(opening, wanted, first, stopping, shut_out).map(|()| responses);
    }
    let credit = std::mem::take(&mut first.credit);
    let receiver = broker.messages().receiver(&queue, sub, mode, credit).await;
    let receiver = receiver.map_err(|error| status(&error))?;
    let mut stream = ReceiveStream {
        queue,
        mode,
        receiver,
        requests,
        responses: sender,
        _listed: listed,
        session: None,
        settling: FuturesUnordered::new(),
        ended: false,
        drained: false,
    };
    stream.take(first);
    tokio::spawn(async move {
        let shut_out = pin!(visitor.is_shut_out(asked));
        tokio::select! {
            () = stream.converse(shut_out) => {}
            () = stopped(stopping) => {}
        }
    });
    Ok(responses)
}

/// A stream that was opened and serves no receiver yet.
pub(crate) struct Opening {
    pub broker: Broker,
    pub queue: String,
    pub sub: SubQueue,
    pub mode: ReceiveMode,
    pub requests: Streaming<v1::ReceiveStreamRequest>,
    pub responses: mpsc::Sender<Result<v1::ReceiveStreamResponse, Status>>,
    /// With its connection.
    pub listed: Option<ListedLink>,
}

/// A stream of deliveries.
pub(crate) struct ReceiveStream {
    queue: String,
    mode: ReceiveMode,
    receiver: Receiver,
    requests: Streaming<v1::ReceiveStreamRequest>,
    responses: mpsc::Sender<Result<v1::ReceiveStreamResponse, Status>>,
    /// With its connection, for as long as it runs.
    _listed: Option<ListedLink>,
    /// Whose stream it is: given back when the client ends its side (SESS-14).
    session: Option<(Broker, SessionToken)>,
    settling: Settling,
    /// The client has ended its side: what is granted still arrives, then the stream ends.
    ended: bool,
    drained: bool,
}

impl ReceiveStream {
    /// Of a session that was accepted; `first` grants the first credit.
    pub fn of_session(
        opening: Opening,
        accepted: Accepted,
        first: v1::ReceiveStreamRequest,
    ) -> ReceiveStream {
        let Opening { broker, queue, mode, requests, responses, listed, .. } = opening;
        let mut stream = ReceiveStream {
            queue,
            mode,
            receiver: accepted.receiver,
            requests,
            responses,
            _listed: listed,
            session: Some((broker, accepted.token)),
            settling: FuturesUnordered::new(),
            ended: false,
            drained: false,
        };
        stream.take(first);
        stream
    }

    /// Runs until the client has enough, or an error ends the stream, or it is shut out: then it gets what is
    /// on its way to it, and answers to what it has asked.
    pub async fn converse(&mut self, shut_out: Pin<&mut impl Future<Output = Status>>) {
        if let Err(status) = self.run(shut_out).await {
            // A client that is gone needs no reason.
            let _ = self.responses.send(Err(status)).await;
        }
    }

    async fn run(
        &mut self,
        mut shut_out: Pin<&mut impl Future<Output = Status>>,
    ) -> Result<(), Status> {
        let mut refused = None;
        loop {
            if self.ended && self.drained && self.settling.is_empty() {
                return match refused {
                    None => self.give_back().await,
                    // Nobody has asked for its end: a session is held until its lock lapses.
                    Some(status) => Err(status),
                };
            }
            let mut messages = Vec::new();
            let mut settled = Vec::new();
            tokio::select! {
                status = &mut shut_out, if refused.is_none() => {
                    refused = Some(status);
                    if !self.ended {
                        self.requested(None);
                    }
                }
                request = self.requests.message(),
                    if !self.ended && self.settling.len() < SETTLING_MAX => {
                    self.requested(request?);
                }
                next = self.receiver.next(), if !self.drained => {
                    self.received(next, &mut messages)?;
                }
                Some(done) = self.settling.next() => settled.push(done),
            }
            // What else is there goes along.
            while let Some(Some(done)) = self.settling.next().now_or_never() {
                settled.push(done);
            }
            if messages.is_empty()
                && !self.drained
                && let Some(next) = self.receiver.next().now_or_never()
            {
                self.received(next, &mut messages)?;
            }
            if !messages.is_empty() || !settled.is_empty() {
                self.respond(messages, settled).await?;
            }
        }
    }

    /// SESS-14. One that was lost meanwhile is nobody's to give.
    async fn give_back(&mut self) -> Result<(), Status> {
        let Some((broker, token)) = self.session.take() else { return Ok(()) };
        match broker.sessions().release(&self.queue, token).await {
            Err(error) if !matches!(error.refusal(), Some(Refusal::SessionLockLost { .. })) => {
                Err(status(&error))
            }
            _ => Ok(()),
        }
    }

    fn requested(&mut self, request: Option<v1::ReceiveStreamRequest>) {
        match request {
            Some(request) => self.take(request),
            None => {
                self.ended = true;
                self.receiver.drain();
            }
        }
    }

    fn received(
        &mut self,
        next: Result<Next, Error>,
        messages: &mut Vec<Received>,
    ) -> Result<(), Status> {
        match next.map_err(|error| status(&error))? {
            Next::Messages(more) => messages.extend(more),
            Next::Drained => self.drained = self.ended,
            Next::Accepted { .. } | Next::Rose { .. } => (), // Nobody asked for that here.
        }
        Ok(())
    }

    fn take(&mut self, request: v1::ReceiveStreamRequest) {
        self.receiver.add_credit(request.credit);
        // Who names an id waits for it.
        if request.settle_id != 0 || !request.settlements.is_empty() {
            self.settle(request.settle_id, request.settlements);
        }
    }

    fn settle(&mut self, settle_id: u64, given: Vec<v1::Settlement>) {
        let queue = self.queue.clone();
        if given.is_empty() {
            let settled = v1::Settled { settle_id, failures: Vec::new() };
            self.settling.push(Box::pin(std::future::ready(settled)));
            return;
        }
        let settlements = match new_settlements(&given) {
            Ok(settlements) => settlements,
            Err(refusal) => {
                let failures = all_failed(given, &Error::new(refusal, queue.as_str()));
                let settled = v1::Settled { settle_id, failures };
                self.settling.push(Box::pin(std::future::ready(settled)));
                return;
            }
        };
        if self.mode == ReceiveMode::ReceiveAndDelete {
            let why = "messages received and deleted are settled already";
            let error = Error::new(Refusal::InvalidOperation { why }, queue.as_str());
            let settled = v1::Settled { settle_id, failures: all_failed(given, &error) };
            self.settling.push(Box::pin(std::future::ready(settled))); // LOCK-2, ERR-30.
            return;
        }
        let tokens: Vec<LockToken> = settlements.iter().map(|settle| settle.token).collect();
        // Posted here and now; only its outcome is waited for.
        let outcome = self.receiver.settle(settlements);
        let session = self.session.clone();
        self.settling.push(Box::pin(async move {
            let failures = match (outcome.await, session) {
                (Ok(refusals), Some((broker, session))) => {
                    let sessions = broker.sessions();
                    let refusals = sessions.told_lost(&queue, &session, &tokens, refusals).await;
                    settle_failures(&tokens, refusals, &queue)
                }
                (Ok(refusals), None) => settle_failures(&tokens, refusals, &queue),
                (Err(error), _) => all_failed(given, &error),
            };
            v1::Settled { settle_id, failures }
        }));
    }

    async fn respond(
        &mut self,
        messages: Vec<Received>,
        settled: Vec<v1::Settled>,
    ) -> Result<(), Status> {
        let tokens: Vec<LockToken> =
            messages.iter().filter_map(|m| m.delivery.lock).map(|lock| lock.token).collect();
        let messages = shown(messages, of_mode(self.mode))?;
        let response = v1::ReceiveStreamResponse { messages, settled, accepted: None };
        if self.responses.send(Ok(response)).await.is_err() {
            // Nobody was there to take them: back to the queue, and no delivery counted (LOCK-20).
            let release = |token| Settlement { token, disposition: Disposition::Release };
            let settlements: Vec<Settlement> = tokens.into_iter().map(release).collect();
            if !settlements.is_empty() {
                drop(self.receiver.settle(settlements));
            }
            return Err(Status::cancelled("the client is gone"));
        }
        Ok(())
    }
}

/// The same error for every settlement of a request.
fn all_failed(settlements: Vec<v1::Settlement>, error: &Error) -> Vec<v1::SettleFailure> {
    let fail = |settlement: v1::Settlement| v1::SettleFailure {
        lock_token: settlement.lock_token,
        failure: Some(failure(error)),
    };
    settlements.into_iter().map(fail).collect()
}
