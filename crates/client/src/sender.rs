//! The application's end of a stream of sends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::calls::Shared;
use crate::send_stream::{SendingTask, Submission};
use crate::{Error, Message, SenderOptions};

/// Sends to one queue, pipelined: stored in the order submitted (MSG-10), resent after a lost
/// connection under the same serial until answered (SEND-8), so nothing is stored twice.
///
/// One exception to the order: when a batch is refused because of one of its messages, the others
/// of that batch are sent again one by one, behind what was under way.
#[derive(Clone)]
pub struct Sender {
    inner: Arc<Inner>,
}

struct Inner {
    submissions: mpsc::Sender<Submission>,
    room: Arc<Semaphore>,
    window: usize,
    task: std::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Sender {
    pub(crate) fn open(shared: Arc<Shared>, queue: String, options: SenderOptions) -> Sender {
        let window = options.window.clamp(1, Semaphore::MAX_PERMITS);
        // As many as the window: each that waits here holds a share of it, so none waits for a place.
        let (submissions, incoming) = mpsc::channel(window);
        let task = tokio::spawn(SendingTask::new(shared, queue, options, incoming).run());
        let inner = Inner {
            submissions,
            room: Arc::new(Semaphore::new(window)),
            window,
            task: std::sync::Mutex::new(Some(task)),
        };
        Sender { inner: Arc::new(inner) }
    }

    /// Sends one message and waits until it is stored; its sequence number.
    pub async fn send(&self, message: Message) -> Result<u64, Error> {
        let numbers = self.submit(vec![message]).await?.await?;
        numbers.first().copied().ok_or_else(|| Error::perhaps_done("the answer names no number"))
    }

    /// Waits for room in the window, hands the messages over and returns at once; what is returned
    /// resolves when they are stored. They are accepted or refused as one (SEND-3).
    pub async fn submit(&self, messages: Vec<Message>) -> Result<Sending, Error> {
        let count = u32::try_from(messages.len().clamp(1, self.inner.window)).unwrap_or(u32::MAX);
        let room = self.inner.room.clone().acquire_many_owned(count).await;
        let room = room.map_err(|_| Error::not_done("the sender is closed"))?;
        let (answer, answered) = oneshot::channel();
        let bytes = messages.iter().map(Message::bytes_estimate).sum();
        let messages = messages.into_iter().map(Message::into_wire).collect();
        let submission = Submission { messages, bytes, alone: false, answer, room };
        match self.inner.submissions.send(submission).await {
            Ok(()) => Ok(Sending { answered }),
            Err(_) => Err(Error::not_done("the sender is closed")),
        }
    }

    /// Messages that could be submitted now without waiting.
    pub fn room(&self) -> usize {
        self.inner.room.available_permits()
    }

    /// Waits until a message could be submitted without waiting.
    pub async fn wait_for_room(&self) {
        // Fails only when closed, and then submitting says so.
        let _ = self.inner.room.acquire().await;
    }

    /// Waits until everything submitted is answered.
    pub async fn flush(&self) {
        let all = u32::try_from(self.inner.window).unwrap_or(u32::MAX);
        // Fails only when closed, and then nothing is outstanding.
        let _ = self.inner.room.acquire_many(all).await;
    }

    /// Waits until everything submitted is answered, and ends the stream. Clones can send no more.
    pub async fn close(self) {
        self.flush().await;
        self.inner.room.close();
        let task = self.inner.task.lock().unwrap_or_else(|poison| poison.into_inner()).take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// Resolves when the submitted messages are stored: their sequence numbers, in order. Dropping it
/// withdraws nothing.
#[derive(Debug)]
pub struct Sending {
    answered: oneshot::Receiver<Result<Vec<u64>, Error>>,
}

impl Future for Sending {
    type Output = Result<Vec<u64>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answered).poll(context).map(|answer| {
            answer.unwrap_or_else(|_| Err(Error::perhaps_done("the sender ended before an answer")))
        })
    }
}
