//! The application's end of a stream of deliveries.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::calls::Shared;
use crate::receive_stream::{Command, ReceivingTask, Session, Settle};
use crate::{Delivery, Disposition, Error, QueuePath, ReceiverOptions, v1};

/// Receives from one queue by credit, ahead of the application, and settles on the same stream.
/// After a lost connection it goes on with another node; what was delivered stays locked and can
/// still be settled (LOCK-23).
pub struct Receiver {
    deliveries: mpsc::UnboundedReceiver<Result<Delivery, Error>>,
    settler: Settler,
    /// Taken by the application since the task last looked.
    taken: Arc<AtomicU32>,
    /// Taken this many, the task is woken to grant more credit.
    taken_wake: u32,
    task: Option<JoinHandle<()>>,
}

/// Settles what a [`Receiver`] received; clones may be used from anywhere.
#[derive(Clone)]
pub struct Settler {
    commands: mpsc::UnboundedSender<Command>,
}

impl Receiver {
    pub(crate) fn open(
        shared: Arc<Shared>,
        path: QueuePath,
        options: ReceiverOptions,
        session: Option<Session>,
    ) -> Receiver {
        let options = ReceiverOptions { prefetch: options.prefetch.max(1), ..options };
        let (arrived, deliveries) = mpsc::unbounded_channel();
        let (commands, incoming) = mpsc::unbounded_channel();
        let taken = Arc::new(AtomicU32::new(0));
        let task =
            ReceivingTask::new(shared, path, options, session, arrived, incoming, taken.clone());
        Receiver {
            deliveries,
            settler: Settler { commands },
            taken,
            taken_wake: (options.prefetch / 4).max(1),
            task: Some(tokio::spawn(task.run())),
        }
    }

    /// Waits for the next delivery. An error that is [`Error::Refused`] is final; after another the
    /// receiver goes on trying.
    pub async fn recv(&mut self) -> Result<Delivery, Error> {
        let delivery = self.deliveries.recv().await;
        self.note_taken(1);
        delivery.unwrap_or_else(|| Err(Error::not_done("the receiver is closed")))
    }

    /// Waits for at least one delivery and takes up to `count_max` that have arrived.
    pub async fn recv_many(&mut self, count_max: usize) -> Result<Vec<Delivery>, Error> {
        let mut taken = vec![self.recv().await?];
        while taken.len() < count_max {
            match self.deliveries.try_recv() {
                Ok(Ok(delivery)) => taken.push(delivery),
                // Comes again: the task repeats a refusal to whoever asks, and forgets the rest.
                Ok(Err(_)) | Err(_) => break,
            }
        }
        self.note_taken(taken.len() as u32 - 1);
        Ok(taken)
    }

    fn note_taken(&self, count: u32) {
        let before = self.taken.fetch_add(count, Ordering::Relaxed);
        if before < self.taken_wake && before + count >= self.taken_wake {
            // The task may have ended; then there is nothing to grant.
            let _ = self.settler.commands.send(Command::Taken);
        }
    }

    /// A handle that settles, for other tasks.
    pub fn settler(&self) -> Settler {
        self.settler.clone()
    }

    /// LOCK-8. At work from here on; what is returned tells how it went.
    pub fn complete(&self, delivery: &Delivery) -> Settling {
        self.settler.settle(delivery, Disposition::Complete)
    }

    /// LOCK-9.
    pub fn abandon(&self, delivery: &Delivery) -> Settling {
        self.settler.settle(delivery, Disposition::Abandon)
    }

    /// LOCK-8 to LOCK-11, LOCK-16.
    pub fn settle(&self, delivery: &Delivery, disposition: Disposition) -> Settling {
        self.settler.settle(delivery, disposition)
    }

    /// Settles several at once; each has its own outcome.
    pub fn settle_all(&self, deliveries: &[Delivery], disposition: Disposition) -> Settling {
        self.settler.settle_all(deliveries, disposition)
    }

    /// Hands back what was fetched and not taken, waits until every settlement is answered, and
    /// ends the stream.
    pub async fn close(mut self) {
        self.release_untaken();
        let _ = self.settler.commands.send(Command::Close);
        if let Some(task) = self.task.take() {
            // A panic of the task was already reported by the runtime.
            let _ = task.await;
        }
    }

    /// Fetched and never seen by the application: back to the queue, without a failed delivery.
    fn release_untaken(&mut self) {
        // From here on the task sees that nobody takes what arrives, and releases it itself.
        self.deliveries.close();
        let mut settlements = Vec::new();
        while let Ok(delivery) = self.deliveries.try_recv() {
            if let Ok(delivery) = delivery
                && delivery.wire().lock_token.is_some()
            {
                settlements.push(Disposition::Release.of(delivery.lock_token()));
            }
        }
        if !settlements.is_empty() {
            drop(self.settler.submit(settlements));
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.release_untaken();
        let _ = self.settler.commands.send(Command::Close);
    }
}

impl Settler {
    /// Settles one delivery. At work from here on; what is returned tells how it went.
    pub fn settle(&self, delivery: &Delivery, disposition: Disposition) -> Settling {
        if delivery.wire().lock_token.is_none() {
            let (answer, answered) = oneshot::channel();
            let error = Error::no_lock();
            let _ = answer.send(vec![(Bytes::new(), error)]);
            return Settling { answered };
        }
        self.submit(vec![disposition.of(delivery.lock_token())])
    }

    /// Settles several at once; each has its own outcome.
    pub fn settle_all(&self, deliveries: &[Delivery], disposition: Disposition) -> Settling {
        let settle = |delivery: &Delivery| disposition.clone().of(delivery.lock_token());
        self.submit(deliveries.iter().map(settle).collect())
    }

    fn submit(&self, settlements: Vec<v1::Settlement>) -> Settling {
        let (answer, answered) = oneshot::channel();
        if settlements.is_empty() {
            let _ = answer.send(Vec::new()); // Its receiver is here.
            return Settling { answered };
        }
        let settle = Settle { settlements, answer };
        if let Err(unsent) = self.commands.send(Command::Settle(settle))
            && let Command::Settle(settle) = unsent.0
        {
            settle.fail(Error::not_done("the receiver is closed"));
        }
        Settling { answered }
    }
}

/// Resolves when the broker has answered the settlement. Dropping it withdraws nothing.
#[derive(Debug)]
pub struct Settling {
    answered: oneshot::Receiver<Vec<(Bytes, Error)>>,
}

impl Settling {
    /// All refusals by lock token; none means all are done.
    pub async fn failures(self) -> Vec<(Bytes, Error)> {
        self.answered.await.unwrap_or_else(|_| vec![(Bytes::new(), ended())])
    }
}

impl Future for Settling {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answered).poll(context).map(|answer| match answer {
            Ok(failures) => failures.into_iter().next().map_or(Ok(()), |(_, error)| Err(error)),
            Err(_) => Err(ended()),
        })
    }
}

fn ended() -> Error {
    Error::perhaps_done("the receiver ended before an answer")
}
