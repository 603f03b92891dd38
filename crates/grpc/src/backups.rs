//! `mayfly.v1.Backups`.

use std::collections::HashSet;

use bytes::Bytes;
use domain::{GroupId, Refusal, Timestamp};
use service::{Backup, BackupPart, Broker, Chunk, Stored};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use wire::v1::{self, create_backup_response::Part, restore_request::Part as RestorePart};

use crate::api::backups_server::Backups;
use crate::door::Door;
use crate::messaging::Responses;
use crate::server::stopped;
use crate::status::{refused, status};

/// Parts not yet taken by the transport: a chunk may be some megabytes.
const PARTS_MAX: usize = 2;

/// SHA-256 of a chunk.
const ID_BYTES: usize = 32;

pub(crate) struct BackupsService {
    pub door: Door,
    /// True once the server is stopping: streams end, so that it can.
    pub stopping: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl Backups for BackupsService {
    type CreateStream = Responses<v1::CreateBackupResponse>;

    async fn create(
        &self,
        request: Request<v1::CreateBackupRequest>,
    ) -> Result<Response<Self::CreateStream>, Status> {
        let stopping = self.stopping.clone();
        let serve = |broker: Broker, asked: v1::CreateBackupRequest| async move {
            let known = known(&asked.known_chunks)?;
            let backup = broker.cluster().back_up().await.map_err(|error| status(&error))?;
            let version = broker.cluster().version();
            let (parts, responses) = mpsc::channel(PARTS_MAX);
            tokio::spawn(async move {
                tokio::select! {
                    () = send_all(backup, version, known, &parts) => {}
                    () = stopped(stopping) => {
                        let gone = Status::unavailable("this node is stopping; make the backup again");
                        drop(parts.try_send(Err(gone)));
                    }
                }
            });
            Ok(Response::new(ReceiverStream::new(responses)))
        };
        self.door.call(request, serve).await
    }

    async fn restore(
        &self,
        request: Request<Streaming<v1::RestoreRequest>>,
    ) -> Result<Response<v1::RestoreResponse>, Status> {
        let first = |request: v1::RestoreRequest| match request.part {
            Some(RestorePart::Begin(begin)) => Some(begin),
            _ => None,
        };
        let stopping = self.stopping.clone();
        let serve = |broker: Broker, begin, parts| async move {
            tokio::select! {
                restored = restore(broker, begin, parts) => restored.map(Response::new),
                () = stopped(stopping) => Err(Status::unavailable("this node is stopping")),
            }
        };
        self.door.call_streaming(request, first, serve).await
    }
}

fn known(ids: &[u8]) -> Result<HashSet<[u8; ID_BYTES]>, Status> {
    let (ids, rest) = ids.as_chunks();
    match rest.is_empty() {
        true => Ok(ids.iter().copied().collect()),
        false => {
            let why = format!("they are of {ID_BYTES} bytes each");
            Err(refused(Refusal::Argument { what: "known chunks", why }, ""))
        }
    }
}

async fn send_all(
    mut backup: Backup,
    version: &str,
    known: HashSet<[u8; ID_BYTES]>,
    parts: &mpsc::Sender<Result<v1::CreateBackupResponse, Status>>,
) {
    let header = &backup.header;
    let header = v1::BackupHeader {
        cluster_id: format!("{:032x}", header.cluster_id),
        version: version.to_owned(),
        cut: header.cut,
        taken_at_ms: header.taken_at.0,
        clock_offset_ms: header.clock_offset.0,
        feature_level: header.feature_level,
        groups: header.groups.iter().map(|group| group.0.into()).collect(),
    };
    let mut part = Ok(Part::Header(header));
    loop {
        let is_last = part.is_err();
        let response = part.map(|part| v1::CreateBackupResponse { part: Some(part) });
        if parts.send(response).await.is_err() || is_last {
            return;
        }
        part = match backup.next().await {
            None => return,
            Some(Ok(BackupPart::Chunk { group, chunk })) => {
                Ok(Part::Chunk(shown(group, chunk, &known)))
            }
            Some(Ok(BackupPart::GroupEnd { group, stored })) => {
                let Stored { entities, messages } = stored;
                Ok(Part::GroupEnd(v1::BackupGroupEnd { group: group.0.into(), entities, messages }))
            }
            Some(Err(error)) => Err(status(&error)),
        };
    }
}

fn shown(group: GroupId, chunk: Chunk, known: &HashSet<[u8; ID_BYTES]>) -> v1::BackupChunk {
    let Chunk { rows, bytes } = chunk;
    let id: [u8; ID_BYTES] = Sha256::digest(&bytes).into();
    v1::BackupChunk {
        group: group.0.into(),
        id: Bytes::copy_from_slice(&id),
        bytes: bytes.len() as u32, // Some megabytes at most.
        rows,
        data: (!known.contains(&id)).then_some(bytes),
    }
}

async fn restore(
    broker: Broker,
    begin: v1::RestoreBegin,
    mut parts: Streaming<v1::RestoreRequest>,
) -> Result<v1::RestoreResponse, Status> {
    let groups: Result<Vec<GroupId>, Status> = begin.groups.into_iter().map(group).collect();
    let taken_at = Timestamp(begin.taken_at_ms);
    let restore = broker.cluster().restore(groups?, taken_at).await;
    let mut restore = restore.map_err(|error| status(&error))?;
    while let Some(v1::RestoreRequest { part }) = parts.message().await? {
        match part {
            Some(RestorePart::Chunk(v1::RestoreChunk { group: of, data })) => {
                restore.take(group(of)?, &data).await.map_err(|error| status(&error))?;
            }
            Some(RestorePart::End(_)) => {
                let stored = restore.finish().await.map_err(|error| status(&error))?;
                let Stored { entities, messages } = stored;
                return Ok(v1::RestoreResponse { entities, messages });
            }
            Some(RestorePart::Begin(_)) | None => {
                let why = "it begins once, and goes on with chunks up to its end".to_owned();
                return Err(refused(Refusal::Argument { what: "restore", why }, ""));
            }
        }
    }
    let why = "it was broken off; found a new cluster to restore into".to_owned();
    Err(refused(Refusal::Argument { what: "restore", why }, ""))
}

fn group(number: u32) -> Result<GroupId, Status> {
    u16::try_from(number).map(GroupId).map_err(|_| {
        let (value, allowed) = (number.to_string(), "a group of the backup's header");
        refused(Refusal::ArgumentOutOfRange { what: "group", value, allowed }, "")
    })
}
