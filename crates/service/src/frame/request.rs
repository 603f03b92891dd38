//! What an edge asks a leader for.

use bytes::Bytes;
use domain::{Command, EntityId, LockToken, QueueId, ReceiverId, ShardId};
use wire::{Codec, Error};

use super::{items, tag, take};
use crate::call::Wanted;
use crate::reads::Read;

/// From an edge to a leader.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Call {
        id: u64,
        shard: ShardId,
        command: Command,
    },
    Read {
        id: u64,
        shard: ShardId,
        read: Read,
    },
    Attach {
        shard: ShardId,
        receiver: ReceiverId,
        queue: QueueId,
        credit: u32,
        session: Option<Wanted>,
        arrived: Vec<LockToken>,
    },
    Credit {
        shard: ShardId,
        receiver: ReceiverId,
        count: u32,
    },
    Drain {
        shard: ShardId,
        receiver: ReceiverId,
    },
    Detach {
        shard: ShardId,
        receiver: ReceiverId,
    },
    Report {
        id: u64,
    },
    /// Of what is idle; or which of these the node uses.
    Idle {
        id: u64,
        asked: Vec<EntityId>,
    },
    Transfer {
        id: u64,
        shard: ShardId,
        to: u64,
    },
    /// A transaction has ended, or is about to be committed.
    Unpend {
        shard: ShardId,
        transaction: u64,
    },
}

pub(crate) fn put_call(id: u64, shard: ShardId, command: &Command, out: &mut Vec<u8>) {
    put!(out, tag::CALL, id, shard);
    command.put(out);
}

pub(crate) fn put_read(id: u64, shard: ShardId, read: &Read, out: &mut Vec<u8>) {
    put!(out, tag::READ, id, shard);
    read.put(out);
}

pub(crate) fn put_attach(
    shard: ShardId,
    receiver: ReceiverId,
    queue: QueueId,
    credit: u32,
    session: &Option<Wanted>,
    arrived: &Vec<LockToken>,
    out: &mut Vec<u8>,
) {
    put!(out, tag::ATTACH, shard, receiver, queue, credit, *session);
    arrived.put(out);
}

pub(crate) fn put_credit(shard: ShardId, receiver: ReceiverId, count: u32, out: &mut Vec<u8>) {
    put!(out, tag::CREDIT, shard, receiver, count);
}

pub(crate) fn put_drain(shard: ShardId, receiver: ReceiverId, out: &mut Vec<u8>) {
    put!(out, tag::DRAIN, shard, receiver);
}

pub(crate) fn put_detach(shard: ShardId, receiver: ReceiverId, out: &mut Vec<u8>) {
    put!(out, tag::DETACH, shard, receiver);
}

pub(crate) fn put_report(id: u64, out: &mut Vec<u8>) {
    put!(out, tag::REPORT, id);
}

pub(crate) fn put_transfer(id: u64, shard: ShardId, to: u64, out: &mut Vec<u8>) {
    put!(out, tag::TRANSFER, id, shard, to);
}

pub(crate) fn put_unpend(shard: ShardId, transaction: u64, out: &mut Vec<u8>) {
    put!(out, tag::UNPEND, shard, transaction);
}

pub(crate) fn put_idle(id: u64, asked: &Vec<EntityId>, out: &mut Vec<u8>) {
    put!(out, tag::IDLE, id);
    asked.put(out);
}

/// The requests of a frame, in order.
pub(crate) fn requests(frame: &Bytes) -> Result<Vec<Request>, Error> {
    items(frame, |tag, input| {
        Ok(match tag {
            tag::CALL => {
                let (id, shard) = take(input)?;
                Request::Call { id, shard, command: Command::take(input)? }
            }
            tag::READ => {
                let (id, shard) = take(input)?;
                Request::Read { id, shard, read: Read::take(input)? }
            }
            tag::ATTACH => {
                let (shard, receiver) = take(input)?;
                let (queue, credit) = take(input)?;
                let (session, arrived) = take(input)?;
                Request::Attach { shard, receiver, queue, credit, session, arrived }
            }
            tag::CREDIT => {
                let (shard, receiver) = take(input)?;
                Request::Credit { shard, receiver, count: take(input)? }
            }
            tag::DRAIN => {
                let (shard, receiver) = take(input)?;
                Request::Drain { shard, receiver }
            }
            tag::DETACH => {
                let (shard, receiver) = take(input)?;
                Request::Detach { shard, receiver }
            }
            tag::REPORT => Request::Report { id: take(input)? },
            tag::IDLE => {
                let (id, asked) = take(input)?;
                Request::Idle { id, asked }
            }
            tag::TRANSFER => {
                let (id, shard) = take(input)?;
                Request::Transfer { id, shard, to: take(input)? }
            }
            tag::UNPEND => {
                let (shard, transaction) = take(input)?;
                Request::Unpend { shard, transaction }
            }
            _ => return Err(Error::Corrupt { what: "unknown tag of a request" }),
        })
    })
}
