//! What an edge asks a leader for.

use bytes::Bytes;
use domain::{Command, EntityId, GroupId, LockToken, QueueId, ReceiverId};
use wire::{Codec, Error};

use super::{items, tag, take};
use crate::exchange::{CutRequest, Read, Wanted};

/// From an edge to a leader.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Call {
        id: u64,
        group: GroupId,
        command: Command,
    },
    Read {
        id: u64,
        group: GroupId,
        read: Read,
    },
    Attach {
        group: GroupId,
        receiver: ReceiverId,
        queue: QueueId,
        credit: u32,
        session: Option<Wanted>,
        arrived: Vec<LockToken>,
    },
    Credit {
        group: GroupId,
        receiver: ReceiverId,
        count: u32,
    },
    Drain {
        group: GroupId,
        receiver: ReceiverId,
    },
    Detach {
        group: GroupId,
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
        group: GroupId,
        to: u64,
    },
    /// A transaction has ended, or is about to be committed.
    EndClaims {
        group: GroupId,
        transaction: u64,
    },
    Cut {
        id: u64,
        group: GroupId,
        asked: CutRequest,
    },
    /// Credits that the edge granted in namespaces (QUOTA-8).
    Spend {
        id: u64,
        spent: Vec<(String, u64)>,
    },
}

pub(crate) fn put_call(id: u64, group: GroupId, command: &Command, out: &mut Vec<u8>) {
    put!(out, tag::CALL, id, group);
    command.put(out);
}

pub(crate) fn put_read(id: u64, group: GroupId, read: &Read, out: &mut Vec<u8>) {
    put!(out, tag::READ, id, group);
    read.put(out);
}

pub(crate) fn put_attach(
    group: GroupId,
    receiver: ReceiverId,
    queue: QueueId,
    credit: u32,
    session: &Option<Wanted>,
    arrived: &Vec<LockToken>,
    out: &mut Vec<u8>,
) {
    put!(out, tag::ATTACH, group, receiver, queue, credit, *session);
    arrived.put(out);
}

pub(crate) fn put_credit(group: GroupId, receiver: ReceiverId, count: u32, out: &mut Vec<u8>) {
    put!(out, tag::CREDIT, group, receiver, count);
}

pub(crate) fn put_drain(group: GroupId, receiver: ReceiverId, out: &mut Vec<u8>) {
    put!(out, tag::DRAIN, group, receiver);
}

pub(crate) fn put_detach(group: GroupId, receiver: ReceiverId, out: &mut Vec<u8>) {
    put!(out, tag::DETACH, group, receiver);
}

pub(crate) fn put_report(id: u64, out: &mut Vec<u8>) {
    put!(out, tag::REPORT, id);
}

pub(crate) fn put_transfer(id: u64, group: GroupId, to: u64, out: &mut Vec<u8>) {
    put!(out, tag::TRANSFER, id, group, to);
}

pub(crate) fn put_end_claims(group: GroupId, transaction: u64, out: &mut Vec<u8>) {
    put!(out, tag::END_CLAIMS, group, transaction);
}

pub(crate) fn put_cut(id: u64, group: GroupId, asked: &CutRequest, out: &mut Vec<u8>) {
    put!(out, tag::CUT, id, group);
    asked.put(out);
}

pub(crate) fn put_spend(id: u64, spent: &Vec<(String, u64)>, out: &mut Vec<u8>) {
    put!(out, tag::SPEND, id);
    spent.put(out);
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
                let (id, group) = take(input)?;
                Request::Call { id, group, command: Command::take(input)? }
            }
            tag::READ => {
                let (id, group) = take(input)?;
                Request::Read { id, group, read: Read::take(input)? }
            }
            tag::ATTACH => {
                let (group, receiver) = take(input)?;
                let (queue, credit) = take(input)?;
                let (session, arrived) = take(input)?;
                Request::Attach { group, receiver, queue, credit, session, arrived }
            }
            tag::CREDIT => {
                let (group, receiver) = take(input)?;
                Request::Credit { group, receiver, count: take(input)? }
            }
            tag::DRAIN => {
                let (group, receiver) = take(input)?;
                Request::Drain { group, receiver }
            }
            tag::DETACH => {
                let (group, receiver) = take(input)?;
                Request::Detach { group, receiver }
            }
            tag::REPORT => Request::Report { id: take(input)? },
            tag::IDLE => {
                let (id, asked) = take(input)?;
                Request::Idle { id, asked }
            }
            tag::TRANSFER => {
                let (id, group) = take(input)?;
                Request::Transfer { id, group, to: take(input)? }
            }
            tag::END_CLAIMS => {
                let (group, transaction) = take(input)?;
                Request::EndClaims { group, transaction }
            }
            tag::CUT => {
                let (id, group) = take(input)?;
                Request::Cut { id, group, asked: take(input)? }
            }
            tag::SPEND => {
                let (id, spent) = take(input)?;
                Request::Spend { id, spent }
            }
            _ => return Err(Error::Corrupt { what: "unknown tag of a request" }),
        })
    })
}
