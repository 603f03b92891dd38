//! How many bytes wait at this node: sends to be stored, and operations of open transactions. More are told
//! to come back.

use std::sync::Arc;

use domain::NewMessage;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result, Unavailable};

/// Bytes are counted in units of so many.
const SHARE_BYTES: usize = 1024;

pub(crate) struct Admission {
    /// What sends may still take, in units.
    sends: Arc<Semaphore>,
    sends_max: usize,
    /// As above, of operations in open transactions.
    operations: Arc<Semaphore>,
}

impl Admission {
    pub fn new(config: &Config) -> Admission {
        let sends_max = config.sends_bytes_max / SHARE_BYTES;
        let operations_max = config.transactions_bytes_max / SHARE_BYTES;
        let [sends, operations] =
            [sends_max, operations_max].map(|max| Arc::new(Semaphore::new(max)));
        Admission { sends, sends_max, operations }
    }

    /// Takes a batch's bytes out of the node's budget until it is answered.
    pub async fn sends(
        &self,
        messages: &[NewMessage],
        name: &str,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit> {
        let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
        let units = (bytes / SHARE_BYTES + 1).min(self.sends_max) as u32;
        let sends = self.sends.clone();
        match timeout_at(deadline, sends.acquire_many_owned(units)).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => {
                Err(Error::new(ErrorKind::Unavailable { why: Unavailable::Busy }, name))
            }
        }
    }

    /// Takes an operation's bytes out of the node's budget until its transaction ends; `None` if that
    /// is used up.
    pub fn operation(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes / SHARE_BYTES as u64 + 1).unwrap_or(u32::MAX);
        self.operations.clone().try_acquire_many_owned(units).ok()
    }
}
