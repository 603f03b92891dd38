//! The application's end of one session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::calls::Shared;
use crate::receive_stream::Session;
use crate::{
    Client, Delivery, Disposition, Error, QueuePath, Receiver, ReceiverOptions, Settler, Settling,
    v1,
};

/// Receives the messages of one session, in order, while its lock is held (SESS-9, SESS-10). When
/// the lock or the connection is lost, receiving ends with an error: accept the session again.
/// Closing or dropping it gives the session back (SESS-14).
pub struct SessionReceiver {
    shared: Arc<Shared>,
    queue: String,
    token: v1::SessionToken,
    locked_until_ms: AtomicU64,
    receiver: Receiver,
}

impl Client {
    /// SESS-6: this session, at once; refused while another holds it.
    pub async fn accept_session(
        &self,
        queue: &str,
        session: &str,
        options: ReceiverOptions,
    ) -> Result<SessionReceiver, Error> {
        let wanted = v1::AcceptSession { session_id: Some(session.to_owned()), wait_ms: 0 };
        self.accept(queue, wanted, options).await
    }

    /// SESS-7: the next session that is free, for which it waits up to `wait` (at most 60 s). None
    /// in time: refused as `ServiceTimeout`.
    pub async fn accept_next_session(
        &self,
        queue: &str,
        wait: Duration,
        options: ReceiverOptions,
    ) -> Result<SessionReceiver, Error> {
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        self.accept(queue, v1::AcceptSession { session_id: None, wait_ms }, options).await
    }

    async fn accept(
        &self,
        queue: &str,
        wanted: v1::AcceptSession,
        options: ReceiverOptions,
    ) -> Result<SessionReceiver, Error> {
        let path = QueuePath { queue: queue.to_owned(), sub_queue: options.sub_queue };
        let (accepted, answer) = oneshot::channel();
        let session = Some(Session::Wanted { wanted, accepted });
        let receiver = Receiver::open(self.shared.clone(), path, options, session);
        let answer =
            answer.await.unwrap_or_else(|_| Err(Error::not_done("the client is ending")))?;
        Ok(SessionReceiver {
            shared: self.shared.clone(),
            queue: queue.to_owned(),
            token: answer.token.unwrap_or_default(),
            locked_until_ms: AtomicU64::new(answer.locked_until_ms),
            receiver,
        })
    }
}

impl SessionReceiver {
    pub fn session_id(&self) -> &str {
        &self.token.session_id
    }

    /// SESS-8: the end of the lock, as of the last renewal.
    pub fn locked_until_ms(&self) -> u64 {
        self.locked_until_ms.load(Ordering::Relaxed)
    }

    /// Waits for the next delivery of the session. An error is final.
    pub async fn recv(&mut self) -> Result<Delivery, Error> {
        self.receiver.recv().await
    }

    /// Waits for at least one delivery and takes up to `count_max` that have arrived.
    pub async fn recv_many(&mut self, count_max: usize) -> Result<Vec<Delivery>, Error> {
        self.receiver.recv_many(count_max).await
    }

    /// LOCK-8. At work from here on; what is returned tells how it went.
    pub fn complete(&self, delivery: &Delivery) -> Settling {
        self.receiver.complete(delivery)
    }

    /// SESS-11: it comes next again.
    pub fn abandon(&self, delivery: &Delivery) -> Settling {
        self.receiver.abandon(delivery)
    }

    /// LOCK-8 to LOCK-11, LOCK-16.
    pub fn settle(&self, delivery: &Delivery, disposition: Disposition) -> Settling {
        self.receiver.settle(delivery, disposition)
    }

    /// A handle that settles, for other tasks.
    pub fn settler(&self) -> Settler {
        self.receiver.settler()
    }

    /// SESS-8: the lock begins anew; its new end.
    pub async fn renew(&self) -> Result<u64, Error> {
        let until = self.shared.renew_session(&self.queue, &self.token).await?;
        self.locked_until_ms.store(until, Ordering::Relaxed);
        Ok(until)
    }

    /// SESS-15: absent if it was never set, or cleared.
    pub async fn state(&self) -> Result<Option<Bytes>, Error> {
        self.shared.session_state(&self.queue, &self.token).await
    }

    /// SESS-15: `None` clears.
    pub async fn set_state(&self, state: Option<Bytes>) -> Result<(), Error> {
        self.shared.set_session_state(&self.queue, &self.token, state).await
    }

    /// DEFER-10: all or nothing.
    pub async fn receive_deferred(&self, numbers: Vec<u64>) -> Result<Vec<Delivery>, Error> {
        self.shared.receive_session_deferred(&self.queue, &self.token, numbers).await
    }

    /// PEEK-9: up to 250 messages of the session from this number on.
    pub async fn peek(&self, from: u64, count_max: u32) -> Result<Vec<Delivery>, Error> {
        self.shared.peek_session(&self.queue, &self.token, from, count_max).await
    }

    /// BATCH-7: deletes up to `count_max` (at most 4,000) of the oldest; how many were.
    pub async fn delete_batch(&self, count_max: u32) -> Result<u32, Error> {
        self.shared.delete_session_batch(&self.queue, &self.token, count_max).await
    }

    /// SESS-14: waits until every settlement is answered, and gives the session back.
    pub async fn close(self) {
        self.receiver.close().await;
    }
}
