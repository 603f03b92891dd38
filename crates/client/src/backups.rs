//! Copies of the whole cluster, and clusters made of them.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::calls::Repeat;
use crate::nodes::Node;
use crate::v1::{self, create_backup_response::Part, restore_request::Part as RestorePart};
use crate::{Client, Error};

/// Chunks handed over and not yet sent.
const CHUNKS_WAITING_MAX: usize = 2;

/// A backup on its way here.
pub struct BackupStream {
    parts: Streaming<v1::CreateBackupResponse>,
    address: String,
}

impl BackupStream {
    /// The next part of it: the header first. `None`: that was all of it.
    ///
    /// # Errors
    /// It broke off, and is to be made again.
    pub async fn next(&mut self) -> Result<Option<Part>, Error> {
        loop {
            let answer = self.parts.message().await;
            match answer.map_err(|status| Error::from(status).at(&self.address))? {
                None => return Ok(None),
                Some(v1::CreateBackupResponse { part: Some(part) }) => return Ok(Some(part)),
                // Of a newer version.
                Some(v1::CreateBackupResponse { part: None }) => (),
            }
        }
    }
}

/// A restore on its way to a cluster. Dropped before its end it leaves one that is of no use.
pub struct RestoreStream {
    parts: mpsc::Sender<v1::RestoreRequest>,
    restored: tokio::task::JoinHandle<Result<v1::RestoreResponse, Error>>,
}

impl RestoreStream {
    /// Hands over the next chunk, and waits while the cluster does not take it.
    ///
    /// # Errors
    /// Why the cluster takes no more.
    pub async fn chunk(&mut self, group: u32, data: Bytes) -> Result<(), Error> {
        self.send(RestorePart::Chunk(v1::RestoreChunk { group, data })).await
    }

    /// All chunks were handed over: waits until all entities are there.
    ///
    /// # Errors
    /// Why they are not.
    pub async fn finish(mut self) -> Result<v1::RestoreResponse, Error> {
        self.send(RestorePart::End(v1::RestoreEnd {})).await?;
        self.outcome().await
    }

    async fn send(&mut self, part: RestorePart) -> Result<(), Error> {
        match self.parts.send(v1::RestoreRequest { part: Some(part) }).await {
            Ok(()) => Ok(()),
            Err(_) => match self.outcome().await {
                Ok(_) => Err(Error::perhaps_done("the cluster ended the restore early")),
                Err(error) => Err(error),
            },
        }
    }

    async fn outcome(&mut self) -> Result<v1::RestoreResponse, Error> {
        let lost = || Error::perhaps_done("the restore was given up");
        (&mut self.restored).await.unwrap_or_else(|_| Err(lost()))
    }
}

impl Client {
    /// Begins a backup of the whole cluster: its cut was made when the header comes. `known`: SHA-256 of chunks
    /// that need not come again, 32 bytes each.
    ///
    /// # Errors
    /// It was not begun.
    pub async fn back_up(&self, known: Bytes) -> Result<BackupStream, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::CreateBackupRequest { known_chunks: known.clone() });
            async move {
                let parts = node.backups().create(request).await?.into_inner();
                Ok(tonic::Response::new(BackupStream { parts, address: node.address.clone() }))
            }
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }

    /// Begins to restore a backup into this cluster, which has no entities and never had any.
    ///
    /// # Errors
    /// No node answers.
    pub async fn restore(&self, begin: v1::RestoreBegin) -> Result<RestoreStream, Error> {
        // One that answers: what is begun there is not begun again at another.
        self.now().await?;
        let node = self.shared.nodes.order(None).into_iter().next();
        let node = node.ok_or_else(|| Error::not_done("no node is known"))?;
        let (parts, waiting) = mpsc::channel(CHUNKS_WAITING_MAX);
        let begin = v1::RestoreRequest { part: Some(RestorePart::Begin(begin)) };
        // There is room: it is the first.
        drop(parts.try_send(begin));
        let request = node.request(ReceiverStream::new(waiting));
        let restored = tokio::spawn(async move {
            let answer = node.backups().restore(request).await;
            answer
                .map(tonic::Response::into_inner)
                .map_err(|status| Error::from(status).at(&node.address))
        });
        Ok(RestoreStream { parts, restored })
    }
}
