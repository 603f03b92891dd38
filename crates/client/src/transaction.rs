//! Transactions (TX): what is done to one queue, or to one topic and its subscriptions, all together
//! or not at all.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};

use crate::calls::{Repeat, Shared};
use crate::nodes::Node;
use crate::v1::transact_request::Step;
use crate::v1::transact_response::Result as Answer;
use crate::v1::transaction_operation::Operation;
use crate::{Client, Delivery, Disposition, Error, Message, QueuePath, v1};

/// Requests handed to the stream and not yet sent: one at a time is under way.
const REQUESTS_MAX: usize = 1;

const LOST: &str = "the transaction was rolled back: its stream was lost";

/// An open transaction. Operations are gathered by the broker and done when it is committed; until
/// then nobody sees any of it, and a message whose settlement waits here stays locked, as long as its
/// lock lasts, and can be settled by nobody else (TX-9).
///
/// Dropping it rolls it back, and so does a lost connection: every operation then fails as
/// [`Error::NotDone`], and the work begins again in another transaction. 2 minutes after its first
/// operation the broker rolls it back (TX-3).
pub struct Transaction {
    shared: Arc<Shared>,
    entity: String,
    stream: Stream,
    /// To be said again, should the answer to the commit be lost.
    operations: Vec<v1::TransactionOperation>,
}

enum Stream {
    /// It is opened for the first operation.
    Unopened,
    Open {
        requests: mpsc::Sender<v1::TransactRequest>,
        answers: Box<Streaming<v1::TransactResponse>>,
        node: Arc<Node>,
    },
    /// And the transaction rolled back with it.
    Lost,
}

/// What came of a transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Committed {
    results: Vec<v1::OperationResult>,
}

impl Committed {
    /// One per operation, in order.
    pub fn results(&self) -> &[v1::OperationResult] {
        &self.results
    }

    /// The numbers of all messages sent, in order (TX-10).
    pub fn sequence_numbers(&self) -> Vec<u64> {
        self.results.iter().flat_map(|result| &result.sequence_numbers).copied().collect()
    }
}

impl Client {
    /// A transaction about a queue, or about a topic and its subscriptions (TX-5).
    pub fn transaction(&self, entity: impl Into<String>) -> Transaction {
        let (shared, entity) = (self.shared.clone(), entity.into());
        Transaction { shared, entity, stream: Stream::Unopened, operations: Vec::new() }
    }

    /// [`Transaction::send_to`] in a transaction of its own; the numbers are those at `via`.
    pub async fn send_via(
        &self,
        via: &str,
        to: &str,
        messages: Vec<Message>,
    ) -> Result<Vec<u64>, Error> {
        let mut transaction = self.transaction(via);
        transaction.send_to(to, messages).await?;
        Ok(transaction.commit().await?.sequence_numbers())
    }
}

impl Transaction {
    /// Messages for the transaction's queue or topic; scheduled ones as well (SCHED-12).
    pub async fn send(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        self.send_to("", messages).await
    }

    /// Messages for another queue or topic, which the transaction's brings there once it is committed,
    /// in order and exactly once (FWD-14). What is not taken there goes to the transaction's
    /// [`QueuePath::transfer_dead_letter`]; while there is no room, it waits.
    pub async fn send_to(&mut self, to: &str, messages: Vec<Message>) -> Result<(), Error> {
        let messages = messages.into_iter().map(Message::into_wire).collect();
        let path = QueuePath::main(self.entity.clone());
        let send = v1::SendMessages { messages, to: to.to_owned() };
        self.perform(&path, Operation::Send(send)).await
    }

    /// SCHED-3, SCHED-12: of the transaction's queue or topic.
    pub async fn cancel_scheduled(&mut self, sequence_numbers: Vec<u64>) -> Result<(), Error> {
        let path = QueuePath::main(self.entity.clone());
        let cancel = v1::CancelMessages { sequence_numbers };
        self.perform(&path, Operation::CancelScheduled(cancel)).await
    }

    /// LOCK-8, of a delivery from the transaction's queue.
    pub async fn complete(&mut self, delivery: &Delivery) -> Result<(), Error> {
        let path = QueuePath::main(self.entity.clone());
        self.settle(&path, delivery, Disposition::Complete).await
    }

    /// LOCK-8 to LOCK-11. `path`: where the delivery is from, a subscription or a dead-letter queue
    /// perhaps. Refused where the lock is not held; then the transaction goes on without it.
    pub async fn settle(
        &mut self,
        path: &QueuePath,
        delivery: &Delivery,
        disposition: Disposition,
    ) -> Result<(), Error> {
        let settlements = vec![delivery.settlement(disposition)];
        self.perform(path, Operation::Settle(v1::SettleMessages { settlements })).await
    }

    /// LOCK-13: when it is committed, the locks begin anew.
    pub async fn renew(&mut self, path: &QueuePath, lock_tokens: Vec<Bytes>) -> Result<(), Error> {
        self.perform(path, Operation::Renew(v1::RenewLocks { lock_tokens })).await
    }

    /// SESS-16: of a session held in the transaction's queue, or in a subscription; `None` clears.
    pub async fn set_session_state(
        &mut self,
        queue: &str,
        token: v1::SessionToken,
        state: Option<Bytes>,
    ) -> Result<(), Error> {
        let set = v1::SetState { token: Some(token), state };
        self.perform(&QueuePath::main(queue), Operation::SetSessionState(set)).await
    }

    /// All of it, or nothing where this is refused (TX-2). A commit whose answer was lost is asked
    /// again until it is answered; [`Error::PerhapsDone`] leaves open which of both it was (TX-14).
    pub async fn commit(mut self) -> Result<Committed, Error> {
        if self.operations.is_empty() {
            return Ok(Committed::default());
        }
        if let Stream::Lost = self.stream {
            return Err(Error::not_done(LOST));
        }
        let origin = self.shared.origin(&self.entity).await?;
        let commit = v1::CommitTransaction { origin: Some(origin), operations: Vec::new() };
        let doubtful = match self.ask(Step::Commit(commit)).await {
            Ok(Answer::Committed(committed)) => return Ok(committed.into()),
            Ok(_) => return Err(unexpected()),
            Err(error @ Error::Refused(_)) => return Err(error),
            Err(error @ Error::PerhapsDone(_)) if error.is_forgotten() => return Err(error),
            Err(Error::NotDone(_)) => false,
            Err(Error::PerhapsDone(_)) => true,
        };
        self.shared.routes.forget_leaders();
        self.commit_again(origin, doubtful).await
    }

    /// Nothing of it was done, and locks are as they were (TX-8). Tells whether the broker has said so:
    /// if its stream was lost, its locks are kept from others until the broker has noticed (TX-9).
    pub async fn rollback(mut self) -> Result<bool, Error> {
        match self.stream {
            Stream::Unopened => Ok(true),
            Stream::Lost => Ok(false),
            Stream::Open { .. } => {
                match self.ask(Step::Rollback(v1::RollbackTransaction {})).await {
                    Err(error @ Error::Refused(_)) => Err(error),
                    answer => Ok(answer.is_ok()),
                }
            }
        }
    }

    async fn perform(&mut self, path: &QueuePath, operation: Operation) -> Result<(), Error> {
        let operation = v1::TransactionOperation {
            entity: path.queue.clone(),
            sub_queue: path.sub_queue as i32,
            operation: Some(operation),
        };
        if let Stream::Unopened = self.stream {
            self.open().await?;
        }
        match self.ask(Step::Operation(operation.clone())).await {
            Ok(Answer::Accepted(_)) => {
                self.operations.push(operation);
                Ok(())
            }
            Ok(_) => Err(unexpected()),
            // Without a commit nothing is ever done.
            Err(Error::PerhapsDone(detail)) => Err(Error::NotDone(detail)),
            Err(error) => Err(error),
        }
    }

    async fn open(&mut self) -> Result<(), Error> {
        let leader = self.shared.routes.leader(&self.shared.nodes, &self.entity).await;
        let patience = self.shared.nodes.options().attempt_timeout;
        let mut last = Error::not_done("no node is known");
        for node in self.shared.nodes.order(leader) {
            let (requests, outgoing) = mpsc::channel(REQUESTS_MAX);
            let mut api = node.transactions();
            let call = api.transact(node.request(ReceiverStream::new(outgoing)));
            match node.attempt(patience, call).await {
                Ok(answers) => {
                    let answers = Box::new(answers.into_inner());
                    self.stream = Stream::Open { requests, answers, node };
                    return Ok(());
                }
                Err(error @ Error::Refused(_)) => return Err(error),
                Err(Error::NotDone(detail) | Error::PerhapsDone(detail)) => {
                    last = Error::NotDone(detail);
                }
            }
        }
        Err(last)
    }

    /// One request and its answer. A stream that fails is lost, and the transaction with it.
    async fn ask(&mut self, step: Step) -> Result<Answer, Error> {
        let Stream::Open { requests, answers, node } = &mut self.stream else {
            return Err(Error::not_done(LOST));
        };
        let patience = self.shared.nodes.options().attempt_timeout;
        let exchange = async {
            // Where it is not taken, the stream has ended: its status says why.
            let _ = requests.send(v1::TransactRequest { step: Some(step) }).await;
            let answer = answers.message().await?;
            answer
                .and_then(|answer| answer.result)
                .ok_or_else(|| Status::unknown("the node closed the transaction's stream"))
        };
        match node.attempt(patience, exchange).await {
            Ok(Answer::Failure(failure)) => Err(Error::from(failure)),
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.stream = Stream::Lost;
                Err(error)
            }
        }
    }

    /// With all operations, at whatever node answers.
    async fn commit_again(&self, origin: v1::Origin, doubtful: bool) -> Result<Committed, Error> {
        let attempt = |node: Arc<Node>, retry| {
            let origin = Some(v1::Origin { retry: retry || doubtful, ..origin });
            let commit = v1::CommitTransaction { origin, operations: self.operations.clone() };
            let step = Some(Step::Commit(commit));
            let request = node.request(tokio_stream::iter([v1::TransactRequest { step }]));
            async move {
                let mut answers = node.transactions().transact(request).await?.into_inner();
                match answers.message().await?.and_then(|answer| answer.result) {
                    Some(answer) => Ok(Response::new(answer)),
                    None => Err(Status::unknown("the node closed the transaction's stream")),
                }
            }
        };
        let patience = self.shared.nodes.options().attempt_timeout;
        let answered = self.shared.call(Repeat::Always, patience, attempt).await;
        let error = match answered {
            Ok(Answer::Committed(committed)) => return Ok(committed.into()),
            Ok(Answer::Failure(failure)) => Error::from(failure),
            Ok(_) => unexpected(),
            Err(error) => error,
        };
        // What certainly was not done now says nothing about the time before.
        Err(match error {
            Error::NotDone(_) if doubtful => error.into_perhaps_done(),
            error => error,
        })
    }
}

impl From<v1::TransactionCommitted> for Committed {
    fn from(committed: v1::TransactionCommitted) -> Committed {
        Committed { results: committed.results }
    }
}

fn unexpected() -> Error {
    Error::perhaps_done("the node answered something else")
}
