//! `SendStream`: batches of one queue, submitted as they come and answered in their order (MSG-10).

use std::collections::VecDeque;
use std::pin::{Pin, pin};

use domain::{Excerpt, Refusal};
use limits::{LinkRole, Load, Party};
use service::{Broker, Sender};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use wire::v1::{self, send_stream_response::Result as Answer};

use crate::door::{Admitted, Visitor, charge};
use crate::messaging::{Responses, new_messages, sent_response};
use crate::server::stopped;
use crate::status::{failure, refused, status};

/// Batches submitted and not answered, per stream; the client is held back beyond.
const WAITING_MAX: usize = 64;
/// Answers not yet taken by the transport.
const ANSWERS_MAX: usize = 64;

type Answers = mpsc::Sender<Result<v1::SendStreamResponse, Status>>;

pub(crate) async fn open(
    visitor: Visitor,
    mut requests: Streaming<v1::SendStreamRequest>,
    stopping: watch::Receiver<bool>,
) -> Result<Responses<v1::SendStreamResponse>, Status> {
    let (answers, responses) = mpsc::channel(ANSWERS_MAX);
    let responses = ReceiverStream::new(responses);
    let Some(first) = requests.message().await? else { return Ok(responses) };
    if first.queue.is_empty() {
        let why = "the first request of a stream names the queue".to_owned();
        return Err(refused(Refusal::Argument { what: "queue", why }, ""));
    }
    let Admitted { broker, party, load } = visitor.admit(&first).await?;
    let producer = Some(first.producer).filter(|producer| *producer != 0);
    let sender =
        broker.messages().sender(&first.queue, producer).await.map_err(|error| status(&error))?;
    let queue = first.queue.clone();
    let listed = visitor.list_stream(LinkRole::Sends, &queue);
    let asked = v1::SendStreamRequest { queue: queue.clone(), ..Default::default() };
    let loads = VecDeque::new();
    let mut stream = SendStream { broker, queue, sender, requests, answers, party, loads };
    stream.submit(first, load).await?;
    tokio::spawn(async move {
        let shut_out = pin!(visitor.is_shut_out(asked));
        tokio::select! {
            () = stream.run(shut_out) => {}
            () = stopped(stopping) => {}
        }
        // What is not answered by now the client has to ask about again.
        drop((stream, listed));
    });
    Ok(responses)
}

struct SendStream {
    broker: Broker,
    queue: String,
    sender: Sender,
    requests: Streaming<v1::SendStreamRequest>,
    answers: Answers,
    party: Option<Party>,
    /// Of what is submitted and not answered, in that order.
    loads: VecDeque<Option<Load>>,
}

impl SendStream {
    /// Until the client has ended its side and all is answered, or either side fails. Once it is shut out
    /// nothing more is taken from it: then what is not answered is not done.
    async fn run(&mut self, mut shut_out: Pin<&mut impl Future<Output = Status>>) {
        let (mut ended, mut refused) = (false, None);
        loop {
            let waiting = self.sender.waiting();
            if ended && waiting == 0 {
                if let Some(status) = refused {
                    // A client that is gone needs no reason.
                    let _ = self.answers.send(Err(status)).await;
                }
                return;
            }
            tokio::select! {
                biased;
                status = &mut shut_out, if refused.is_none() => {
                    (ended, refused) = (true, Some(status));
                }
                answer = self.sender.next(), if waiting > 0 => {
                    let Some((serial, result)) = answer else { continue };
                    self.loads.pop_front();
                    let result = match result {
                        Ok(sequences) => Answer::Sent(sent_response(sequences)),
                        Err(error) => Answer::Failure(failure(&error)),
                    };
                    let response = v1::SendStreamResponse { serial, result: Some(result) };
                    if self.answers.send(Ok(response)).await.is_err() {
                        return;
                    }
                }
                request = self.requests.message(), if !ended && waiting < WAITING_MAX => {
                    match request {
                        Ok(Some(request)) => match charge(self.party.as_ref(), &request) {
                            // In its place in the order there can be none after it.
                            Err(status) => (ended, refused) = (true, Some(status)),
                            Ok(load) => {
                                if let Err(status) = self.submit(request, load).await {
                                    let _ = self.answers.send(Err(status)).await;
                                    return;
                                }
                            }
                        },
                        Ok(None) => ended = true,
                        // The connection is gone, or the request too large to be read.
                        Err(status) => {
                            let _ = self.answers.send(Err(status)).await;
                            return;
                        }
                    }
                }
            }
        }
    }

    async fn submit(
        &mut self,
        request: v1::SendStreamRequest,
        load: Option<Load>,
    ) -> Result<(), Status> {
        let v1::SendStreamRequest { queue, serial, messages, producer: _, retry } = request;
        if !queue.is_empty() && queue != self.queue {
            let why = format!(
                "this stream sends to '{}'; open another for '{}'",
                Excerpt(&self.queue),
                Excerpt(&queue)
            );
            return Err(refused(Refusal::Argument { what: "queue", why }, &self.queue));
        }
        let messages = new_messages(messages).and_then(|messages| {
            self.broker.check_batch(&messages)?;
            Ok(messages)
        });
        let submitted = self.sender.submit(serial, retry, messages).await;
        submitted.map_err(|error| status(&error))?;
        self.loads.push_back(load);
        Ok(())
    }
}
