//! The native API, by its Rust client: it batches, finds leaders and repeats by itself.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::v1::{ReceiveMode, SubQueue};
use client::{
    Client, Delivery, Disposition, Error, Message, QueuePath, Receiver, ReceiverOptions, Sender,
    SenderOptions, Sending, SessionReceiver, Settler, value,
};
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use tokio::time::{sleep_until, timeout_at};
use workload::error_name;

use crate::file::{Consumers, Mode, Producers};
use crate::link::{
    Arrival, Broken, Draft, Outcome, Property, ReceiveLink, SendLink, Ticket, Turned, Verdict,
};
use crate::stamp::Stamp;

/// How the path of a dead-letter queue ends.
pub const DEAD_LETTER: &str = "/$deadletterqueue";
/// A session is waited for this long at a time.
const SESSION_WAIT: Duration = Duration::from_secs(5);

fn outcome_of(error: &Error) -> Outcome {
    let name = error_name(error).to_owned();
    match error {
        Error::PerhapsDone(_) => Outcome::Unknown(name),
        Error::Refused(_) | Error::NotDone(_) => Outcome::Refused(name),
    }
}

/// Sends over a stream.
pub struct GrpcSend {
    sender: Sender,
    /// In the order they were handed over, which is about that of their answers.
    under_way: VecDeque<(Ticket, Sending)>,
}

impl GrpcSend {
    pub fn open(client: &Client, spec: &Producers) -> GrpcSend {
        let options = SenderOptions { window: spec.window, ..SenderOptions::default() };
        GrpcSend { sender: client.sender(&spec.to, options), under_way: VecDeque::new() }
    }

    /// Moves what is answered; pending while nothing is.
    fn poll_answers(
        &mut self,
        cx: &mut Context<'_>,
        answers: &mut Vec<(Ticket, Outcome)>,
    ) -> Poll<()> {
        let before = answers.len();
        while let Some((ticket, sending)) = self.under_way.front_mut() {
            let Poll::Ready(answer) = Pin::new(sending).poll(cx) else { break };
            let outcome = answer.map_or_else(|error| outcome_of(&error), |_| Outcome::Done);
            answers.push((*ticket, outcome));
            self.under_way.pop_front();
        }
        if answers.len() > before { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl SendLink for GrpcSend {
    fn has_room(&mut self) -> bool {
        true
    }

    async fn send(&mut self, drafts: Vec<Draft>, ticket: Ticket) -> Result<(), Broken> {
        let messages = drafts.into_iter().map(message).collect();
        let sending = self.sender.submit(messages).await;
        let sending = sending.map_err(|error| Broken(error_name(&error).to_owned()))?;
        self.under_way.push_back((ticket, sending));
        Ok(())
    }

    async fn turn(
        &mut self,
        until: Option<Instant>,
        answers: &mut Vec<(Ticket, Outcome)>,
    ) -> Result<(), Broken> {
        let answered = poll_fn(|cx| self.poll_answers(cx, answers));
        match until {
            None => answered.await,
            // With nothing answered by then there is something to send.
            Some(until) => drop(timeout_at(until.into(), answered).await),
        }
        Ok(())
    }

    async fn close(self) {
        self.sender.close().await;
    }
}

fn message(draft: Draft) -> Message {
    let Draft { body, message_id, session_id, subject, ttl, scheduled_at_ms, properties } = draft;
    let mut message = Message::new(body);
    if let Some(id) = message_id {
        message = message.message_id(id);
    }
    if let Some(id) = session_id {
        message = message.session_id(id);
    }
    if let Some(subject) = subject {
        message = message.subject(subject);
    }
    if let Some(ttl) = ttl {
        message = message.ttl(ttl);
    }
    if let Some(at_ms) = scheduled_at_ms {
        message = message.scheduled_at_ms(at_ms);
    }
    for (name, of) in properties {
        let of = match of {
            Property::Flag(flag) => value::boolean(flag),
            Property::Long(number) => value::long(number),
            Property::Double(number) => value::double(number),
            Property::Text(text) => value::string(text),
        };
        message = message.property(name, of);
    }
    message
}

/// The path of what a file calls a place.
pub fn queue_path(place: &str) -> QueuePath {
    match place.len().checked_sub(DEAD_LETTER.len()).and_then(|at| place.split_at_checked(at)) {
        Some((queue, end)) if end.eq_ignore_ascii_case(DEAD_LETTER) => {
            QueuePath::dead_letter(queue)
        }
        _ => QueuePath::main(place),
    }
}

enum Stream {
    Queue(Receiver),
    Session(Box<SessionReceiver>),
    /// The next session has not come yet.
    Accepting(BoxFuture<'static, Result<SessionReceiver, Error>>),
}

/// Settlements under way, and their answers.
type Settlements<T> = FuturesOrdered<BoxFuture<'static, Vec<(T, Outcome)>>>;

/// Receives over a stream, or over one for each session after the other.
pub struct GrpcReceive<T> {
    client: Client,
    path: QueuePath,
    options: ReceiverOptions,
    stream: Stream,
    settlements: Settlements<T>,
    /// Renewals under way: only those that fail are told.
    renewals: FuturesOrdered<BoxFuture<'static, Option<String>>>,
}

impl<T: Send> GrpcReceive<T> {
    pub fn open(client: &Client, spec: &Consumers) -> GrpcReceive<T> {
        let path = queue_path(&spec.from);
        let mode = match spec.mode {
            Mode::PeekLock => ReceiveMode::PeekLock,
            Mode::ReceiveAndDelete => ReceiveMode::ReceiveAndDelete,
        };
        let sub_queue = path.sub_queue;
        let prefetch = spec.prefetch;
        let options = ReceiverOptions { sub_queue, mode, prefetch, ..ReceiverOptions::default() };
        let stream = match spec.sessions {
            true => accepting(client, &path.queue, options),
            false => Stream::Queue(client.receiver(&path.queue, options)),
        };
        let (settlements, renewals) = (FuturesOrdered::new(), FuturesOrdered::new());
        GrpcReceive { client: client.clone(), path, options, stream, settlements, renewals }
    }

    fn settler(&self) -> Option<Settler> {
        match &self.stream {
            Stream::Queue(receiver) => Some(receiver.settler()),
            Stream::Session(receiver) => Some(receiver.settler()),
            Stream::Accepting(_) => None,
        }
    }
}

fn accepting(client: &Client, queue: &str, options: ReceiverOptions) -> Stream {
    let (client, queue) = (client.clone(), queue.to_owned());
    Stream::Accepting(Box::pin(async move {
        client.accept_next_session(&queue, SESSION_WAIT, options).await
    }))
}

/// Messages that have come, or a session.
async fn receive(stream: &mut Stream, take: usize) -> Result<Vec<Delivery>, Error> {
    match stream {
        Stream::Queue(receiver) => receiver.recv_many(take).await,
        Stream::Session(receiver) => receiver.recv_many(take).await,
        Stream::Accepting(accepted) => {
            let receiver = accepted.await?;
            *stream = Stream::Session(Box::new(receiver));
            Ok(Vec::new())
        }
    }
}

impl<T: Send + 'static> ReceiveLink<T> for GrpcReceive<T> {
    /// The lock token.
    type Handle = Bytes;

    async fn turn(
        &mut self,
        take: usize,
        until: Option<Instant>,
        turned: &mut Turned<Bytes, T>,
    ) -> Result<(), Broken> {
        let due = until.map(|until| sleep_until(until.into()));
        tokio::select! {
            biased;
            Some(settled) = self.settlements.next() => turned.settled.extend(settled),
            Some(renewed) = self.renewals.next() => turned.errors.extend(renewed),
            received = receive(&mut self.stream, take), if take > 0 => match received {
                Ok(deliveries) => {
                    turned.has_begun = deliveries.is_empty();
                    turned.arrivals.extend(deliveries.into_iter().map(arrival));
                }
                Err(error) if error.name() == "ServiceTimeout" => {
                    // No session is free; the next wait for one begins.
                    self.stream = accepting(&self.client, &self.path.queue, self.options);
                }
                // A stream that may mend itself is kept: its settlements are under way.
                Err(error @ (Error::NotDone(_) | Error::PerhapsDone(_)))
                    if matches!(self.stream, Stream::Queue(_)) =>
                {
                    turned.errors.push(error_name(&error).to_owned());
                }
                Err(error) => return Err(Broken(error_name(&error).to_owned())),
            },
            () = async { due.expect("it is there").await }, if due.is_some() => {}
        }
        Ok(())
    }

    fn settle(&mut self, held: Vec<(Bytes, T)>, verdict: Verdict) -> Result<(), Broken> {
        let disposition = match verdict {
            Verdict::Complete => Disposition::Complete,
            Verdict::Abandon => Disposition::Abandon,
            Verdict::Defer => Disposition::Defer,
            Verdict::DeadLetter => {
                let reason = Some("load test".to_owned());
                Disposition::DeadLetter { reason, description: None }
            }
            Verdict::Lapse => return Ok(()),
        };
        let settler = self.settler().ok_or_else(|| Broken("the session is gone".to_owned()))?;
        let tokens = held.iter().map(|(token, _)| token.clone());
        let settling = settler.settle_tokens(tokens, disposition);
        self.settlements.push_back(Box::pin(async move {
            let failures = settling.failures().await;
            let outcome = |token: &Bytes| {
                // One without a token befell all.
                let failed = failures.iter().find(|(of, _)| of == token || of.is_empty());
                failed.map_or(Outcome::Done, |(_, error)| outcome_of(error))
            };
            held.into_iter().map(|(token, note)| (note, outcome(&token))).collect()
        }));
        Ok(())
    }

    fn renew(&mut self, held: &Bytes) -> Result<(), Broken> {
        let (client, path, tokens) = (self.client.clone(), self.path.clone(), vec![held.clone()]);
        if !matches!(self.stream, Stream::Queue(_)) {
            // Within a session its lock is what holds.
            return Ok(());
        }
        self.renewals.push_back(Box::pin(async move {
            let renewed = client.renew(&path, tokens).await;
            renewed.err().map(|error| format!("renewal: {}", error_name(&error)))
        }));
        Ok(())
    }

    async fn leave_session(&mut self) -> Result<(), Broken> {
        if let Stream::Session(_) = &self.stream {
            let next = accepting(&self.client, &self.path.queue, self.options);
            if let Stream::Session(receiver) = std::mem::replace(&mut self.stream, next) {
                receiver.close().await;
            }
        }
        Ok(())
    }
}

fn arrival(delivery: Delivery) -> Arrival<Bytes> {
    Arrival {
        handle: delivery.wire().lock_token.clone(),
        stamp: Stamp::read(delivery.body()),
        expires_at_ms: delivery.expires_at_ms(),
        locked_until_ms: delivery.locked_until_ms(),
    }
}

/// Whether a place is one of dead letters.
pub fn is_dead_letter(place: &str) -> bool {
    queue_path(place).sub_queue == SubQueue::DeadLetter
}
