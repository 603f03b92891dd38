//! The native API, by its Rust client: it batches, finds leaders and repeats by itself.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::v1::ReceiveMode;
use client::{
    Client, Delivery, Disposition, Error, Message, QueuePath, Receiver, ReceiverOptions, Sender,
    SenderOptions, Sending, SessionReceiver, Settler, Transaction, value,
};
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};
use workload::error_name;

use crate::file::{Consumers, Mode, Producers};
use crate::link::{
    Arrival, Broken, Draft, Fate, Outcome, Property, ReceiveLink, SendLink, Ticket, Turned, Verdict,
};
use crate::place::queue_path;
use crate::stamp::Stamp;

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
    client: Client,
    to: String,
    in_transactions: bool,
    sender: Sender,
    /// In the order they were handed over, which is about that of their answers.
    under_way: VecDeque<(Ticket, Sending)>,
    /// What takes more than one step: transactions, and what is cancelled.
    in_steps: JoinSet<(Ticket, Outcome)>,
}

impl GrpcSend {
    pub fn open(client: &Client, spec: &Producers) -> GrpcSend {
        let options = SenderOptions { window: spec.window, ..SenderOptions::default() };
        GrpcSend {
            client: client.clone(),
            to: spec.to.clone(),
            in_transactions: spec.transaction.is_some(),
            sender: client.sender(&spec.to, options),
            under_way: VecDeque::new(),
            in_steps: JoinSet::new(),
        }
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
        while let Poll::Ready(Some(done)) = self.in_steps.poll_join_next(cx) {
            // A step does not panic; what was dropped is answered by nobody.
            answers.extend(done);
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
        if self.in_transactions {
            let transaction = self.client.transaction(self.to.clone());
            self.in_steps.spawn(async move {
                let rolls_back = ticket.fate == Fate::RolledBack;
                (ticket, transact(transaction, messages, rolls_back).await)
            });
            return Ok(());
        }
        let sending = self.sender.submit(messages).await;
        let sending = sending.map_err(|error| Broken(error_name(&error).to_owned()))?;
        if ticket.fate == Fate::Cancelled {
            let (client, to) = (self.client.clone(), self.to.clone());
            self.in_steps.spawn(async move { (ticket, cancel(&client, &to, sending).await) });
        } else {
            self.under_way.push_back((ticket, sending));
        }
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

/// Sends in one transaction, one by one, and commits or rolls back.
async fn transact(
    mut transaction: Transaction,
    messages: Vec<Message>,
    rolls_back: bool,
) -> Outcome {
    for message in messages {
        if let Err(error) = transaction.send(vec![message]).await {
            // Without a commit nothing is done.
            return Outcome::Refused(error_name(&error).to_owned());
        }
    }
    let ended = match rolls_back {
        true => transaction.rollback().await.map(|_| Outcome::Withdrawn),
        false => transaction.commit().await.map(|_| Outcome::Done),
    };
    ended.unwrap_or_else(|error| outcome_of(&error))
}

/// Cancels what is scheduled once it is stored. What has come out before, or stays, is as if nobody had asked.
async fn cancel(client: &Client, to: &str, sending: Sending) -> Outcome {
    let numbers = match sending.await {
        Ok(numbers) => numbers,
        Err(error) => return outcome_of(&error),
    };
    match client.cancel_scheduled(to, numbers).await {
        Ok(()) => Outcome::Withdrawn,
        Err(error) if error.name() == "MessageNotFound" => Outcome::Done,
        Err(error) => outcome_of(&error),
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
