//! The application's end of a stream of deliveries.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::calls::Shared;
use crate::receive_stream::{Command, ReceivingTask, SETTLES_WAITING_MAX, Session, Settle};
use crate::{Delivery, Disposition, Error, QueuePath, ReceiverOptions, v1};

/// What may wait for the application beside the prefetch: an error that a new attempt may mend, and a
/// last one.
const WORDS_MAX: usize = 2;

/// Receives from one queue by credit, ahead of the application, and settles on the same stream.
/// After a lost connection it goes on with another node; what was delivered stays locked and can
/// still be settled (LOCK-23).
pub struct Receiver {
    deliveries: mpsc::Receiver<Result<Delivery, Error>>,
    settler: Settler,
    /// A place for the last word, whatever else waits.
    farewell: Option<mpsc::OwnedPermit<Command>>,
    /// Taken by the application since the task last looked.
    taken: Arc<AtomicU32>,
    /// Taken this many, the task is woken to grant more credit.
    taken_wake: u32,
    task: Option<JoinHandle<()>>,
}

/// Settles what a [`Receiver`] received; clones may be used from anywhere.
#[derive(Clone)]
pub struct Settler {
    commands: mpsc::Sender<Command>,
}

impl Receiver {
    pub(crate) fn open(
        shared: Arc<Shared>,
        path: QueuePath,
        options: ReceiverOptions,
        session: Option<Session>,
    ) -> Receiver {
        let options = ReceiverOptions { prefetch: options.prefetch.max(1), ..options };
        let (arrived, deliveries) = mpsc::channel(options.prefetch as usize + WORDS_MAX);
        let (commands, incoming) = mpsc::channel(SETTLES_WAITING_MAX + 1);
        let farewell = commands.clone().try_reserve_owned().ok(); // There is room: it is new.
        let taken = Arc::new(AtomicU32::new(0));
        let task =
            ReceivingTask::new(shared, path, options, session, arrived, incoming, taken.clone());
        Receiver {
            deliveries,
            settler: Settler { commands },
            farewell,
            taken,
            taken_wake: (options.prefetch / 4).max(1),
            task: Some(tokio::spawn(task.run())),
        }
    }

    /// Waits for the next delivery. An error that is [`Error::Refused`] is final; after another the
    /// receiver goes on trying.
    pub async fn recv(&mut self) -> Result<Delivery, Error> {
        match self.deliveries.recv().await {
            Some(Ok(delivery)) => {
                self.note_taken(1);
                Ok(delivery)
            }
            Some(Err(error)) => Err(error),
            None => Err(Error::not_done("the receiver is closed")),
        }
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
            // The task may have ended; then there is nothing to grant. Where others wait before it,
            // they wake the task as well.
            let _ = self.settler.commands.try_send(Command::Taken);
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
        self.say_farewell();
        if let Some(task) = self.task.take() {
            // A panic of the task was already reported by the runtime.
            let _ = task.await;
        }
    }

    /// What was fetched and never seen by the application goes back to the queue, without a failed
    /// delivery, and nothing more comes.
    fn say_farewell(&mut self) {
        let Some(farewell) = self.farewell.take() else { return };
        // From here on the task sees that nobody takes what arrives, and releases it itself.
        self.deliveries.close();
        let mut untaken = Vec::new();
        while let Ok(delivery) = self.deliveries.try_recv() {
            if let Ok(delivery) = delivery
                && delivery.wire().lock_token.is_some()
            {
                untaken.push(Disposition::Release.of(delivery.lock_token()));
            }
        }
        farewell.send(Command::Close { untaken });
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.say_farewell();
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

    /// The same by their lock tokens, which are 16 bytes each.
    pub fn settle_tokens(
        &self,
        tokens: impl Iterator<Item = Bytes>,
        disposition: Disposition,
    ) -> Settling {
        self.submit(tokens.map(|token| disposition.clone().of(token)).collect())
    }

    fn submit(&self, settlements: Vec<v1::Settlement>) -> Settling {
        let (answer, answered) = oneshot::channel();
        if settlements.is_empty() {
            let _ = answer.send(Vec::new()); // Its receiver is here.
            return Settling { answered };
        }
        let settle = Settle { settlements, answer };
        let why = match self.commands.try_reserve() {
            Ok(place) => {
                place.send(Command::Settle(settle));
                return Settling { answered };
            }
            Err(TrySendError::Closed(())) => "the receiver is closed",
            Err(TrySendError::Full(())) => "too many settlements of this receiver wait",
        };
        settle.fail(Error::not_done(why));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settlements() -> Vec<v1::Settlement> {
        vec![Disposition::Complete.of(Bytes::from_static(b"token"))]
    }

    /// With room for one settlement and the last word.
    fn receiver() -> (Receiver, mpsc::Sender<Result<Delivery, Error>>, mpsc::Receiver<Command>) {
        let (arrived, deliveries) = mpsc::channel(4);
        let (commands, waiting) = mpsc::channel(2);
        let receiver = Receiver {
            deliveries,
            farewell: commands.clone().try_reserve_owned().ok(),
            settler: Settler { commands },
            taken: Arc::default(),
            taken_wake: 1,
            task: None,
        };
        (receiver, arrived, waiting)
    }

    #[tokio::test]
    async fn a_settlement_without_a_place_is_not_done() {
        let (receiver, _arrived, mut waiting) = receiver();
        let first = receiver.settler.submit(settlements());
        let second = receiver.settler.submit(settlements());
        assert!(matches!(second.await, Err(Error::NotDone(_))));
        let Ok(Command::Settle(settle)) = waiting.try_recv() else { panic!("the first is there") };
        let _ = settle.answer.send(Vec::new());
        assert_eq!(first.await.map_err(|error| error.to_string()), Ok(()));
        assert!(matches!(waiting.try_recv(), Err(mpsc::error::TryRecvError::Empty)));
    }

    /// LOCK-20: and what was fetched and not taken goes with it.
    #[tokio::test]
    async fn the_last_word_has_its_place_whatever_waits() {
        let (receiver, arrived, mut waiting) = receiver();
        let _first = receiver.settler.submit(settlements());
        let fetched = v1::ReceivedMessage {
            lock_token: Some(Bytes::from_static(b"fetched")),
            ..v1::ReceivedMessage::default()
        };
        assert!(arrived.try_send(Ok(Delivery::from(fetched))).is_ok());
        drop(receiver);
        assert!(matches!(waiting.try_recv(), Ok(Command::Settle(_))));
        let Ok(Command::Close { untaken }) = waiting.try_recv() else { panic!("it has closed") };
        assert_eq!(untaken.len(), 1);
        assert_eq!(untaken[0].lock_token, Bytes::from_static(b"fetched"));
    }
}
