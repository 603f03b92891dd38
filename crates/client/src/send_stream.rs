//! The task behind a [`crate::Sender`]: gathers submissions into requests, keeps every request
//! until it is answered, and resends what is unanswered when a stream breaks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::calls::{Shared, draw_number};
use crate::link::{End, Persistence, Vigil};
use crate::v1::{self, send_stream_response::Result as Answer};
use crate::{Error, SenderOptions};

/// Messages the application hands over as one.
pub(crate) struct Submission {
    pub messages: Vec<v1::Message>,
    pub bytes: usize,
    /// Not to be gathered with others: it was once, and the request was refused.
    pub alone: bool,
    pub answer: oneshot::Sender<Result<Vec<u64>, Error>>,
    pub room: OwnedSemaphorePermit,
}

/// One application submission inside a request.
struct Part {
    messages: usize,
    answer: oneshot::Sender<Result<Vec<u64>, Error>>,
    room: OwnedSemaphorePermit,
}

/// A request that is not answered yet. The first of a producer is a greeting without messages: once
/// it is answered the broker knows the producer, and as long as it is not, nothing behind it can
/// have been done. So a connection lost early leaves no doubt (SEND-8 tells a repeat of a producer
/// it does not know only "perhaps done").
struct Batch {
    serial: u64,
    messages: Vec<v1::Message>,
    parts: Vec<Part>,
    /// A stream broke after it was sent: it may have been done.
    doubtful: bool,
    /// When it was sent last.
    sent_at: Instant,
}

impl Batch {
    fn new(serial: u64, messages: Vec<v1::Message>, parts: Vec<Part>) -> Batch {
        Batch { serial, messages, parts, doubtful: false, sent_at: Instant::now() }
    }

    fn greeting() -> Batch {
        Batch::new(1, Vec::new(), Vec::new())
    }

    fn is_greeting(&self) -> bool {
        self.parts.is_empty()
    }

    fn resolve(self, result: Result<Vec<u64>, Error>) {
        match result {
            Ok(numbers) => {
                let mut numbers = numbers.into_iter();
                for part in self.parts {
                    let own: Vec<u64> = numbers.by_ref().take(part.messages).collect();
                    let own = if own.len() == part.messages {
                        Ok(own)
                    } else {
                        Err(Error::perhaps_done("the answer names too few sequence numbers"))
                    };
                    // The application may have lost interest.
                    let _ = part.answer.send(own);
                }
            }
            Err(error) => {
                for part in self.parts {
                    let _ = part.answer.send(Err(error.clone()));
                }
            }
        }
    }

    /// The submissions it was made of, each to be sent by itself.
    fn split(self) -> Vec<Submission> {
        let mut messages = self.messages.into_iter();
        let parts = self.parts.into_iter();
        parts
            .map(|part| Submission {
                messages: messages.by_ref().take(part.messages).collect(),
                bytes: 0,
                alone: true,
                answer: part.answer,
                room: part.room,
            })
            .collect()
    }
}

pub(crate) struct SendingTask {
    shared: Arc<Shared>,
    queue: String,
    options: SenderOptions,
    submissions: mpsc::Receiver<Submission>,
    /// Nothing more will be submitted.
    closed: bool,
    waiting: VecDeque<Submission>,
    unanswered: VecDeque<Batch>,
    producer: u64,
    serial_last: u64,
    persistence: Persistence,
}

impl SendingTask {
    pub fn new(
        shared: Arc<Shared>,
        queue: String,
        options: SenderOptions,
        submissions: mpsc::Receiver<Submission>,
    ) -> SendingTask {
        let persistence = Persistence::new(shared.nodes.options().give_up_after);
        SendingTask {
            shared,
            queue,
            options: SenderOptions { requests_max: options.requests_max.max(1), ..options },
            submissions,
            closed: false,
            waiting: VecDeque::new(),
            unanswered: VecDeque::new(),
            producer: draw_number(),
            serial_last: 0,
            persistence,
        }
    }

    pub async fn run(mut self) {
        loop {
            // A stream is opened only for something to send: the broker answers its opening
            // together with its first request.
            if self.unanswered.is_empty() && self.waiting.is_empty() {
                match self.submissions.recv().await {
                    Some(submission) => self.waiting.push_back(submission),
                    None => return,
                }
            }
            let turn = self.shared.nodes.proof.turn();
            match self.converse().await.judged(&self.shared.nodes.proof, turn) {
                End::Finished => return,
                End::Refused(error) => self.fail(error),
                End::Broken(error) => {
                    tracing::debug!(queue = self.queue, %error, "send stream broke");
                    self.shared.routes.forget_leaders();
                    if !self.persistence.pause().await {
                        self.fail(error);
                    }
                }
            }
        }
    }

    /// One stream, from its opening to its end.
    async fn converse(&mut self) -> End {
        let leader = self.shared.routes.leader(&self.shared.nodes, &self.queue).await;
        let Some(node) = self.shared.nodes.order(leader).into_iter().next() else {
            return End::Broken(Error::not_done("no node is known"));
        };
        let turn = match node.turn_to_open().await {
            Ok(turn) => turn,
            Err(error) => return End::Broken(error),
        };
        // Room for the unanswered plus those that are answered but not yet taken off.
        let (requests, outgoing) = mpsc::channel(2 * self.options.requests_max + 2);
        let resent = self.unanswered.len();
        for index in 0..resent {
            self.hand_over(index, index == 0, &requests);
        }
        self.dispatch(resent == 0, &requests);

        let mut api = node.messaging();
        let call = api.send_stream(node.request(ReceiverStream::new(outgoing)));
        let patience = self.shared.nodes.options().attempt_timeout;
        let mut answers = match node.attempt(patience, call).await {
            Ok(answer) => answer.into_inner(),
            Err(error) => {
                if matches!(error, Error::PerhapsDone(_)) {
                    self.doubt();
                }
                return End::from_error(error);
            }
        };
        drop(turn);
        let end = self.exchange(&mut answers, &requests).await;
        if matches!(end, End::Broken(_)) {
            node.note_failure();
        }
        end
    }

    async fn exchange(
        &mut self,
        answers: &mut Streaming<v1::SendStreamResponse>,
        requests: &mpsc::Sender<v1::SendStreamRequest>,
    ) -> End {
        let mut vigil = Vigil::new(self.shared.nodes.options().attempt_timeout);
        loop {
            if self.closed && self.unanswered.is_empty() && self.waiting.is_empty() {
                return End::Finished;
            }
            let oldest_at = self.unanswered.front().map(|batch| batch.sent_at);
            tokio::select! {
                answer = answers.message() => {
                    let broken = match answer {
                        Ok(Some(answer)) => match self.answered(answer) {
                            Ok(()) => None,
                            Err(error) => Some(End::Broken(error)),
                        },
                        Ok(None) => {
                            self.doubt();
                            Some(End::Broken(Error::perhaps_done("the node closed the stream")))
                        }
                        Err(status) => {
                            let end = End::of(status);
                            if !matches!(&end, End::Broken(Error::NotDone(_)) | End::Refused(_)) {
                                self.doubt();
                            }
                            Some(end)
                        }
                    };
                    if let Some(end) = broken {
                        return end;
                    }
                }
                submission = self.submissions.recv(), if !self.closed => match submission {
                    Some(submission) => self.waiting.push_back(submission),
                    None => self.closed = true,
                },
                silence = vigil.overdue(oldest_at) => {
                    self.doubt();
                    return End::Broken(silence);
                }
            }
            while let Ok(submission) = self.submissions.try_recv() {
                self.waiting.push_back(submission);
            }
            self.dispatch(false, requests);
        }
    }

    /// Takes one answer in. An error breaks the stream; what is unanswered is then sent again.
    fn answered(&mut self, answer: v1::SendStreamResponse) -> Result<(), Error> {
        let Some(batch) = self.unanswered.front_mut() else { return Ok(()) };
        if answer.serial < batch.serial {
            return Ok(());
        }
        if answer.serial > batch.serial {
            self.doubt();
            return Err(Error::perhaps_done("an answer was skipped"));
        }
        let error = match answer.result {
            Some(Answer::Sent(sent)) => {
                self.persistence.progressed();
                self.pop().resolve(Ok(sent.sequence_numbers));
                return Ok(());
            }
            Some(Answer::Failure(failure)) => Error::from(failure),
            None => Error::perhaps_done("an answer without a result"),
        };
        if error.is_serial_gap() {
            // Everything before was answered, so the broker has forgotten this producer, or never
            // counted a request it refused. This one was not done, nor, being ordered, was any
            // behind it: another producer begins with them.
            self.renew_producer();
            return Err(error);
        }
        match error {
            Error::Refused(_) => {
                self.persistence.progressed();
                let batch = self.pop();
                if batch.parts.len() > 1 && error.is_about_a_message() {
                    for submission in batch.split().into_iter().rev() {
                        self.waiting.push_front(submission);
                    }
                } else {
                    batch.resolve(Err(error));
                }
                Ok(())
            }
            // Not done here and now; whether an earlier attempt was done is what it was before.
            Error::NotDone(_) => Err(error),
            Error::PerhapsDone(_) if error.is_forgotten() => {
                self.pop().resolve(Err(error));
                Ok(())
            }
            Error::PerhapsDone(_) => {
                self.doubt();
                Err(error)
            }
        }
    }

    fn pop(&mut self) -> Batch {
        self.unanswered.pop_front().expect("an answer was matched with the first batch")
    }

    /// Makes requests of what waits, while another request may be under way.
    fn dispatch(&mut self, mut first: bool, requests: &mpsc::Sender<v1::SendStreamRequest>) {
        while self.has_room() {
            let Some(batch) = self.gather() else { return };
            self.unanswered.push_back(batch);
            self.hand_over(self.unanswered.len() - 1, first, requests);
            first = false;
        }
    }

    fn has_room(&self) -> bool {
        // The greeting is no request of the application's.
        let greeting = self.unanswered.front().is_some_and(Batch::is_greeting);
        self.unanswered.len() < self.options.requests_max + usize::from(greeting)
    }

    /// The next request: what waits, as far as it fits into one.
    fn gather(&mut self) -> Option<Batch> {
        if self.serial_last == 0 && !self.waiting.is_empty() {
            self.serial_last = 1;
            return Some(Batch::greeting());
        }
        let mut messages = Vec::new();
        let mut parts = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.front() {
            let fits = messages.len() + next.messages.len() <= self.options.batch_messages_max
                && bytes + next.bytes <= self.options.batch_bytes_max
                && !next.alone;
            if !parts.is_empty() && !fits {
                break;
            }
            let Some(next) = self.waiting.pop_front() else { break };
            bytes += next.bytes;
            parts.push(Part {
                messages: next.messages.len(),
                answer: next.answer,
                room: next.room,
            });
            messages.extend(next.messages);
            if next.alone {
                break;
            }
        }
        if parts.is_empty() {
            return None;
        }
        self.serial_last += 1;
        Some(Batch::new(self.serial_last, messages, parts))
    }

    fn hand_over(
        &mut self,
        index: usize,
        first: bool,
        requests: &mpsc::Sender<v1::SendStreamRequest>,
    ) {
        let batch = &mut self.unanswered[index];
        batch.sent_at = Instant::now();
        let request = v1::SendStreamRequest {
            queue: if first { self.queue.clone() } else { String::new() },
            serial: batch.serial,
            messages: batch.messages.clone(),
            producer: if first { self.producer } else { 0 },
            retry: batch.doubtful,
        };
        // Cannot be full: it holds twice what may be unanswered, and an answer means it was taken
        // out. Where the stream has ended, the next one resends it.
        let _ = requests.try_send(request);
    }

    /// A stream ended without an answer to what was sent on it.
    fn doubt(&mut self) {
        for batch in &mut self.unanswered {
            batch.doubtful = true;
        }
    }

    fn renew_producer(&mut self) {
        self.producer = draw_number();
        self.serial_last = 0;
        if self.unanswered.front().is_some_and(|batch| !batch.is_greeting()) {
            self.unanswered.push_front(Batch::greeting());
        }
        for batch in &mut self.unanswered {
            self.serial_last += 1;
            batch.serial = self.serial_last;
            batch.doubtful = false;
        }
    }

    /// Gives up on everything at hand, and starts anew with what comes. At hand is also what was
    /// submitted and not yet looked at: taken up after this, each would wait for as long again.
    fn fail(&mut self, error: Error) {
        while let Ok(submission) = self.submissions.try_recv() {
            self.waiting.push_back(submission);
        }
        for batch in std::mem::take(&mut self.unanswered) {
            let error =
                if batch.doubtful { error.clone().into_perhaps_done() } else { error.clone() };
            batch.resolve(Err(error));
        }
        let error = match error {
            Error::PerhapsDone(detail) => Error::NotDone(detail),
            certain => certain,
        };
        for submission in std::mem::take(&mut self.waiting) {
            let _ = submission.answer.send(Err(error.clone()));
        }
        self.renew_producer();
    }
}
