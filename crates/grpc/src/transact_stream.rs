//! `Transact`: one stream, one transaction. It is open as long as the stream is, so whatever ends the
//! stream rolls it back (TX-7).

use domain::{Operation, Refusal};
use service::{Error, Reach, Transaction};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use wire::native;
use wire::v1::{self, transact_request::Step, transact_response::Result as Answer};

use crate::api::transactions_server::Transactions;
use crate::door::{Door, Visitor};
use crate::messaging::{Responses, caller, new_messages};
use crate::server::stopped;
use crate::status::failure;

/// Answers not yet taken by the transport; the client is held back beyond.
const ANSWERS_MAX: usize = 16;

pub(crate) struct TransactionsService {
    pub door: Door,
    /// True once the server is stopping: streams end, so that it can.
    pub stopping: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl Transactions for TransactionsService {
    type TransactStream = Responses<v1::TransactResponse>;

    async fn transact(
        &self,
        request: Request<Streaming<v1::TransactRequest>>,
    ) -> Result<Response<Self::TransactStream>, Status> {
        let (answers, responses) = mpsc::channel(ANSWERS_MAX);
        let visitor = self.door.visitor(&request).await;
        let stream = TransactStream {
            transaction: visitor.begin()?,
            visitor,
            requests: request.into_inner(),
            answers,
            entity: String::new(),
        };
        let stopping = self.stopping.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stream.run() => {}
                () = stopped(stopping) => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(responses)))
    }
}

struct TransactStream {
    visitor: Visitor,
    transaction: Transaction,
    requests: Streaming<v1::TransactRequest>,
    answers: mpsc::Sender<Result<v1::TransactResponse, Status>>,
    /// The one named last, for errors.
    entity: String,
}

impl TransactStream {
    async fn run(mut self) {
        loop {
            let expires_at = self.transaction.expires_at();
            let timeout = async {
                match expires_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let request = tokio::select! {
                request = self.requests.message() => request,
                () = self.answers.closed() => return,
                () = timeout => {
                    let _ = self.answers.send(Ok(failed(self.refused(Refusal::TransactionTimedOut)))).await;
                    return;
                }
            };
            let admitted = match request {
                Ok(Some(request)) => {
                    let admitted = self.visitor.admit(&request).await;
                    admitted.map(|admitted| (admitted.load, request.step))
                }
                Ok(None) => return,
                // The connection is gone, or the request too large to be read.
                Err(status) => Err(status),
            };
            let (_load, step) = match admitted {
                Ok(admitted) => admitted,
                Err(status) => {
                    let _ = self.answers.send(Err(status)).await;
                    return;
                }
            };
            let answer = match step {
                Some(Step::Operation(operation)) => match self.perform(operation).await {
                    Ok(()) => Answer::Accepted(v1::OperationAccepted {}),
                    Err(error) => Answer::Failure(failure(&error)),
                },
                Some(Step::Commit(commit)) => {
                    let answers = self.answers.clone();
                    let answer = match self.commit(commit).await {
                        Ok(committed) => Answer::Committed(committed),
                        Err(error) => Answer::Failure(failure(&error)),
                    };
                    // A client that is gone asks again.
                    let _ = answers.send(Ok(response(answer))).await;
                    return;
                }
                Some(Step::Rollback(_)) => {
                    self.transaction.rollback();
                    let answer = Answer::RolledBack(v1::TransactionRolledBack {});
                    let _ = self.answers.send(Ok(response(answer))).await;
                    return;
                }
                None => {
                    let why = "it asks for nothing".to_owned();
                    Answer::Failure(failure(&self.refused(Refusal::Argument { what: "step", why })))
                }
            };
            if self.answers.send(Ok(response(answer))).await.is_err() {
                return;
            }
        }
    }

    async fn perform(&mut self, operation: v1::TransactionOperation) -> Result<(), Error> {
        let (to, operation) = self.read(operation)?;
        self.transaction.perform(&Reach::ViaFirst, &self.entity, to.as_deref(), operation).await
    }

    async fn commit(
        mut self,
        commit: v1::CommitTransaction,
    ) -> Result<v1::TransactionCommitted, Error> {
        for operation in commit.operations {
            let (to, operation) = self.read(operation)?;
            self.transaction
                .repeat(&Reach::ViaFirst, &self.entity, to.as_deref(), operation)
                .await?;
        }
        let caller = caller(commit.origin).map_err(|refusal| self.refused(refusal))?;
        let performed = self.transaction.commit(caller).await?;
        let results = performed.into_iter().map(native::performed).collect();
        Ok(v1::TransactionCommitted { results })
    }

    /// An operation, and the other entity that its messages are for.
    fn read(
        &mut self,
        operation: v1::TransactionOperation,
    ) -> Result<(Option<String>, Operation), Error> {
        self.entity.clone_from(&operation.entity);
        let to = native::transfer_destination(&operation);
        let operation = native::operation(operation, new_messages);
        Ok((to, operation.map_err(|refusal| self.refused(refusal))?))
    }

    fn refused(&self, refusal: Refusal) -> Error {
        Error::new(refusal, self.entity.as_str())
    }
}

fn response(answer: Answer) -> v1::TransactResponse {
    v1::TransactResponse { result: Some(answer) }
}

fn failed(error: Error) -> v1::TransactResponse {
    response(Answer::Failure(failure(&error)))
}
