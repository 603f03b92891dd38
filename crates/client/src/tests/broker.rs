//! A broker with one queue, several addresses, and faults at chosen requests.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::Stream;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::v1;

mod served {
    #![allow(clippy::all, missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/broker/mayfly.v1.rs"));
}

use served::messaging_server::{Messaging, MessagingServer};

/// What happens to the n-th request on streams, over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks; the request was not seen.
    BeforeApplying,
    /// The connection breaks; the request was done, its answer is lost.
    AfterApplying,
    /// Answered "certainly not done".
    NotDone,
    /// Done, and answered "perhaps done".
    Unknown,
    /// All producers are forgotten before it is done.
    Forgets,
    /// Never answered; the connection stays, and what follows on the stream is not seen.
    Silence,
}

/// The broker, seen from a test.
pub struct Broker {
    pub addresses: Vec<String>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    faults: BTreeMap<u64, Fault>,
    requests: u64,
    /// By producer, the outcome of each serial.
    producers: BTreeMap<u64, BTreeMap<u64, v1::send_stream_response::Result>>,
    stored: Vec<v1::Message>,
    ready: VecDeque<(u64, v1::Message)>,
    locked: BTreeMap<Bytes, (u64, v1::Message)>,
    nonce: u64,
    completed: u64,
    credit_max: u32,
}

impl Broker {
    pub async fn start(nodes: usize, faults: &[(u64, Fault)]) -> Broker {
        let faults = faults.iter().copied().collect();
        let state = Arc::new(Mutex::new(State { faults, ..State::default() }));
        let mut addresses = Vec::new();
        for _ in 0..nodes {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            addresses.push(listener.local_addr().expect("bound").to_string());
            let service = MessagingServer::new(TestBroker { state: state.clone() });
            tokio::spawn(
                tonic::transport::Server::builder()
                    .add_service(service)
                    .serve_with_incoming(TcpListenerStream::new(listener)),
            );
        }
        Broker { addresses, state }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with it")
    }

    pub fn stored(&self) -> Vec<String> {
        let text = |message: &v1::Message| String::from_utf8_lossy(&message.body).into_owned();
        self.state().stored.iter().map(text).collect()
    }

    /// Puts messages where receivers find them.
    pub fn fill(&self, bodies: &[String]) {
        let message =
            |body: &String| v1::Message { body: body.clone().into(), ..Default::default() };
        let numbered = (1..).zip(bodies.iter().map(message));
        self.state().ready.extend(numbered);
    }

    pub fn completed(&self) -> u64 {
        self.state().completed
    }

    pub fn locked(&self) -> usize {
        self.state().locked.len()
    }

    pub fn ready(&self) -> usize {
        self.state().ready.len()
    }

    pub fn credit_max(&self) -> u32 {
        self.state().credit_max
    }
}

impl State {
    fn next_fault(&mut self) -> Option<Fault> {
        self.requests += 1;
        self.faults.remove(&self.requests)
    }

    /// SEND-8, as a group does it.
    fn send(
        &mut self,
        producer: u64,
        request: &v1::SendStreamRequest,
    ) -> v1::send_stream_response::Result {
        use v1::send_stream_response::Result::{Failure, Sent};
        let serial = request.serial;
        let gap = |expected: u64| {
            let message = format!("serial gap; resend from {expected}");
            Failure(failure(
                "SerialGap",
                "SEND-8",
                v1::Retry::Yes,
                Code::FailedPrecondition,
                message,
            ))
        };
        match self.producers.get(&producer) {
            // A greeting sends nothing: repeated, it is the first.
            None if request.retry && (serial > 1 || !request.messages.is_empty()) => {
                let text = "forgotten".to_owned();
                let retry = v1::Retry::PerhapsDone;
                return Failure(failure("ServiceTimeout", "ERR-28", retry, Code::Aborted, text));
            }
            None if serial > 1 => return gap(1),
            None => (),
            Some(outcomes) => {
                if let Some(outcome) = outcomes.get(&serial) {
                    return outcome.clone();
                }
                let highest = outcomes.keys().next_back().copied().unwrap_or(0);
                if serial > highest + 1 {
                    return gap(highest + 1);
                }
            }
        }
        let outcome = if request.messages.iter().any(|message| message.body.starts_with(b"bad")) {
            let text = "the message is too large".to_owned();
            let code = Code::InvalidArgument;
            Failure(failure("MessageSizeExceeded", "ERR-9", v1::Retry::No, code, text))
        } else {
            let first = self.stored.len() as u64 + 1;
            self.stored.extend(request.messages.iter().cloned());
            Sent(v1::SendResponse {
                sequence_numbers: (first..=self.stored.len() as u64).collect(),
            })
        };
        self.producers.entry(producer).or_default().insert(serial, outcome.clone());
        outcome
    }

    fn acquire(&mut self, credit: &mut u32) -> Vec<v1::ReceivedMessage> {
        let mut messages = Vec::new();
        while *credit > 0 {
            let Some((number, message)) = self.ready.pop_front() else { break };
            *credit -= 1;
            self.nonce += 1;
            let token = Bytes::copy_from_slice(&u128::from(self.nonce).to_be_bytes());
            self.locked.insert(token.clone(), (number, message.clone()));
            messages.push(v1::ReceivedMessage {
                message: Some(message),
                sequence_number: number,
                lock_token: Some(token),
                ..Default::default()
            });
        }
        messages
    }

    fn settle(&mut self, settlements: Vec<v1::Settlement>) -> Vec<v1::SettleFailure> {
        let mut failures = Vec::new();
        for settlement in settlements {
            let Some((number, message)) = self.locked.remove(&settlement.lock_token) else {
                let text = "the lock is not held".to_owned();
                let code = Code::FailedPrecondition;
                let failure = failure("MessageLockLost", "ERR-4", v1::Retry::No, code, text);
                let lock_token = settlement.lock_token;
                failures.push(v1::SettleFailure { lock_token, failure: Some(failure) });
                continue;
            };
            match settlement.disposition {
                Some(v1::settlement::Disposition::Complete(_)) | None => self.completed += 1,
                Some(_) => self.ready.push_back((number, message)),
            }
        }
        failures
    }
}

fn failure(name: &str, rule: &str, retry: v1::Retry, code: Code, message: String) -> v1::Failure {
    v1::Failure {
        code: code as u32,
        name: name.to_owned(),
        rule: rule.to_owned(),
        retry: retry.into(),
        message,
        ..Default::default()
    }
}

fn not_found() -> Status {
    use tonic_types::{ErrorDetails, StatusExt};
    let metadata = [("rule", "ERR-1"), ("retry", "RETRY_NO")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let metadata = std::collections::HashMap::from(metadata);
    let details = ErrorDetails::with_error_info("MessagingEntityNotFound", "mayfly", metadata);
    Status::with_error_details(Code::NotFound, "there is no such queue", details)
}

struct TestBroker {
    state: Arc<Mutex<State>>,
}

impl TestBroker {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with it")
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn answers<T: Send + 'static>(
    receiver: mpsc::UnboundedReceiver<Result<T, Status>>,
) -> Response<Answers<T>> {
    Response::new(Box::pin(UnboundedReceiverStream::new(receiver)))
}

fn broken<T>() -> Result<T, Status> {
    Err(Status::unavailable("the connection broke"))
}

#[tonic::async_trait]
impl Messaging for TestBroker {
    type SendStreamStream = Answers<v1::SendStreamResponse>;
    type ReceiveStreamStream = Answers<v1::ReceiveStreamResponse>;

    async fn send_stream(
        &self,
        request: Request<Streaming<v1::SendStreamRequest>>,
    ) -> Result<Response<Self::SendStreamStream>, Status> {
        let mut requests = request.into_inner();
        let state = self.state.clone();
        let (answer, receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut producer = 0;
            while let Some(Ok(request)) = requests.next().await {
                if !request.queue.is_empty() {
                    producer = request.producer;
                    if request.queue != super::QUEUE {
                        let _ = answer.send(Err(not_found()));
                        return;
                    }
                }
                // A pause, so that requests are under way when something breaks.
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                let fault = state.lock().expect("no test panics with it").next_fault();
                if fault == Some(Fault::Silence) {
                    answer.closed().await;
                    return;
                }
                let mut state = state.lock().expect("no test panics with it");
                if fault == Some(Fault::BeforeApplying) {
                    let _ = answer.send(broken());
                    return;
                }
                if fault == Some(Fault::Forgets) {
                    state.producers.clear();
                }
                let result = match fault {
                    Some(Fault::NotDone) => {
                        let text = "no leader".to_owned();
                        let retry = v1::Retry::Yes;
                        v1::send_stream_response::Result::Failure(failure(
                            "",
                            "ERR-24",
                            retry,
                            Code::Unavailable,
                            text,
                        ))
                    }
                    _ => state.send(producer, &request),
                };
                let result = match fault {
                    Some(Fault::AfterApplying) => {
                        let _ = answer.send(broken());
                        return;
                    }
                    Some(Fault::Unknown) => v1::send_stream_response::Result::Failure(failure(
                        "ServiceTimeout",
                        "ERR-28",
                        v1::Retry::PerhapsDone,
                        Code::DeadlineExceeded,
                        "late".to_owned(),
                    )),
                    _ => result,
                };
                let serial = request.serial;
                let _ = answer.send(Ok(v1::SendStreamResponse { serial, result: Some(result) }));
            }
        });
        Ok(answers(receiver))
    }

    async fn receive_stream(
        &self,
        request: Request<Streaming<v1::ReceiveStreamRequest>>,
    ) -> Result<Response<Self::ReceiveStreamStream>, Status> {
        let mut requests = request.into_inner();
        let state = self.state.clone();
        let (answer, receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut credit = 0;
            while let Some(Ok(request)) = requests.next().await {
                if request.open.as_ref().is_some_and(|open| open.queue != super::QUEUE) {
                    let _ = answer.send(Err(not_found()));
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                let fault = match request.settlements.is_empty() {
                    true => None,
                    false => state.lock().expect("no test panics with it").next_fault(),
                };
                if fault == Some(Fault::Silence) {
                    answer.closed().await;
                    return;
                }
                let mut state = state.lock().expect("no test panics with it");
                if fault == Some(Fault::BeforeApplying) {
                    let _ = answer.send(broken());
                    return;
                }
                credit += request.credit;
                state.credit_max = state.credit_max.max(credit);
                let mut settled = Vec::new();
                if !request.settlements.is_empty() {
                    let failures = state.settle(request.settlements);
                    settled.push(v1::Settled { settle_id: request.settle_id, failures });
                }
                if fault == Some(Fault::AfterApplying) {
                    let _ = answer.send(broken());
                    return;
                }
                let messages = state.acquire(&mut credit);
                if !messages.is_empty() || !settled.is_empty() {
                    let _ = answer.send(Ok(v1::ReceiveStreamResponse {
                        messages,
                        settled,
                        ..Default::default()
                    }));
                }
            }
        });
        Ok(answers(receiver))
    }

    async fn settle(
        &self,
        request: Request<v1::SettleRequest>,
    ) -> Result<Response<v1::SettleResponse>, Status> {
        let failures = self.state().settle(request.into_inner().settlements);
        Ok(Response::new(v1::SettleResponse { failures }))
    }

    async fn send(
        &self,
        _: Request<v1::SendRequest>,
    ) -> Result<Response<v1::SendResponse>, Status> {
        Err(Status::unimplemented("not needed here"))
    }

    async fn receive(
        &self,
        _: Request<v1::ReceiveRequest>,
    ) -> Result<Response<v1::ReceiveResponse>, Status> {
        Err(Status::unimplemented("not needed here"))
    }

    async fn renew(
        &self,
        _: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewResponse>, Status> {
        Err(Status::unimplemented("not needed here"))
    }

    async fn cancel_scheduled(
        &self,
        _: Request<v1::CancelScheduledRequest>,
    ) -> Result<Response<v1::CancelScheduledResponse>, Status> {
        Err(Status::unimplemented("not needed here"))
    }

    async fn receive_deferred(
        &self,
        _: Request<v1::ReceiveDeferredRequest>,
    ) -> Result<Response<v1::ReceiveDeferredResponse>, Status> {
        Err(Status::unimplemented("not needed here"))
    }

    async fn peek(
        &self,
        _: Request<v1::PeekRequest>,
    ) -> Result<Response<v1::PeekResponse>, Status> {
        Err(Status::unimplemented("not needed here"))
    }

    async fn route(
        &self,
        _: Request<v1::RouteRequest>,
    ) -> Result<Response<v1::RouteResponse>, Status> {
        Err(Status::unimplemented("not needed here"))
    }

    async fn delete_batch(
        &self,
        _: Request<v1::DeleteBatchRequest>,
    ) -> Result<Response<v1::DeleteBatchResponse>, Status> {
        Err(Status::unimplemented("not needed here"))
    }
}
