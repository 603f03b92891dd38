//! What two nodes say to each other for their clients. A frame is many items: a writer gathers all
//! that waits into one, so that a busy pair of nodes pays per frame, not per request.
//!
//! Requests are encoded from the parts the sender holds, since it keeps them until the answer;
//! responses from the values themselves.

use bytes::Bytes;
use domain::{
    Command, DirectoryRow, EntityId, EntityInfo, Idleness, LockToken, Outcome, QueueId, ReceiverId,
    Refusal, ShardId,
};
use engine::Candidate;
use wire::{Codec, Error, Reader};

use crate::call::{Answer, CallResult, Detached, Event, Failed, Received, Wanted};
use crate::collector::IdleReport;
use crate::pending::{Holder, Pend};
use crate::reads::{NotRead, Read, ReadAnswer, ReadResult};
use crate::status::NodeReport;

/// A frame is sent when it holds this many bytes.
pub(crate) const FRAME_BYTES_FULL: usize = 512 * 1024;

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

/// From a leader to an edge.
#[derive(Debug)]
pub(crate) enum Response {
    Answer {
        id: u64,
        result: CallResult,
    },
    Read {
        id: u64,
        result: ReadResult,
    },
    Event {
        receiver: ReceiverId,
        event: Event,
    },
    Report {
        id: u64,
        report: NodeReport,
    },
    Idle {
        id: u64,
        report: IdleReport,
    },
    /// Why not, if not.
    Transferred {
        id: u64,
        error: Option<String>,
    },
}

/// What comes out of a response: a failure without its command, which the edge kept.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    Answer { id: u64, answer: Answer },
    NotLeader { id: u64, leader: Option<u64> },
    Unknown { id: u64 },
    Mendable { id: u64, refusal: Refusal },
    Read { id: u64, result: ReadResult },
    Event { receiver: ReceiverId, event: Event },
    Report { id: u64, report: NodeReport },
    Idle { id: u64, report: IdleReport },
    Transferred { id: u64, error: Option<String> },
}

/// Tags. For ever, as nodes of two versions speak to each other while a cluster is upgraded.
mod tag {
    pub const CALL: u8 = 1;
    pub const READ: u8 = 2;
    pub const ATTACH: u8 = 3;
    pub const CREDIT: u8 = 4;
    pub const DRAIN: u8 = 5;
    pub const DETACH: u8 = 6;
    pub const REPORT: u8 = 7;
    pub const TRANSFER: u8 = 8;
    pub const ANSWER: u8 = 9;
    pub const NOT_LEADER: u8 = 10;
    pub const UNKNOWN: u8 = 11;
    pub const DELIVERIES: u8 = 12;
    pub const DRAINED: u8 = 13;
    pub const LEADER_LOST: u8 = 14;
    pub const DISMISSED: u8 = 15;
    pub const MENDABLE: u8 = 16;
    pub const ACCEPTED: u8 = 17;
    pub const IDLE: u8 = 20;
    pub const UNPEND: u8 = 50;
}

macro_rules! put {
    ($out:expr, $tag:expr $(, $field:expr)*) => {{
        $out.push($tag);
        $(Codec::put(&$field, $out);)*
    }};
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

pub(crate) fn put_response(response: &Response, out: &mut Vec<u8>) {
    match response {
        Response::Answer { id, result: Ok(answer) } => {
            put!(out, tag::ANSWER, *id);
            answer.outcome.put(out);
            answer.contents.put(out);
        }
        Response::Answer { id, result: Err(Failed::NotLeader { leader, .. }) } => {
            put!(out, tag::NOT_LEADER, *id, *leader);
        }
        Response::Answer { id, result: Err(Failed::Unknown { .. }) } => {
            put!(out, tag::UNKNOWN, *id);
        }
        Response::Answer { id, result: Err(Failed::Mendable { refusal, .. }) } => {
            put!(out, tag::MENDABLE, *id);
            refusal.put(out);
        }
        Response::Read { id, result } => {
            put!(out, tag::READ, *id, result.is_ok());
            match result {
                Ok(answer) => answer.put(out),
                Err(NotRead { leader }) => leader.put(out),
            }
        }
        Response::Event { receiver, event } => match event {
            Event::Deliveries(messages) => {
                put!(out, tag::DELIVERIES, *receiver);
                messages.put(out);
            }
            Event::Accepted { token, until } => {
                put!(out, tag::ACCEPTED, *receiver, *token, *until);
            }
            Event::Drained => put!(out, tag::DRAINED, *receiver),
            Event::Detached(Detached::LeaderLost) => put!(out, tag::LEADER_LOST, *receiver),
            Event::Detached(Detached::Refused(refusal)) => {
                put!(out, tag::DISMISSED, *receiver);
                refusal.put(out);
            }
        },
        Response::Report { id, report } => {
            put!(out, tag::REPORT, *id);
            report.put(out);
        }
        Response::Idle { id, report } => {
            put!(out, tag::IDLE, *id);
            report.put(out);
        }
        Response::Transferred { id, error } => {
            put!(out, tag::TRANSFER, *id);
            error.put(out);
        }
    }
}

/// The responses of a frame, in order.
pub(crate) fn responses(frame: &Bytes) -> Result<Vec<Incoming>, Error> {
    items(frame, |tag, input| {
        Ok(match tag {
            tag::ANSWER => {
                let (id, outcome) = take::<(u64, Outcome)>(input)?;
                Incoming::Answer { id, answer: Answer { outcome, contents: take(input)? } }
            }
            tag::NOT_LEADER => {
                let (id, leader) = take(input)?;
                Incoming::NotLeader { id, leader }
            }
            tag::UNKNOWN => Incoming::Unknown { id: take(input)? },
            tag::MENDABLE => {
                let (id, refusal) = take(input)?;
                Incoming::Mendable { id, refusal }
            }
            tag::READ => {
                let (id, read) = take(input)?;
                let result =
                    if read { Ok(take(input)?) } else { Err(NotRead { leader: take(input)? }) };
                Incoming::Read { id, result }
            }
            tag::DELIVERIES => {
                let (receiver, messages) = take(input)?;
                Incoming::Event { receiver, event: Event::Deliveries(messages) }
            }
            tag::ACCEPTED => {
                let (receiver, (token, until)) = take(input)?;
                Incoming::Event { receiver, event: Event::Accepted { token, until } }
            }
            tag::DRAINED => Incoming::Event { receiver: take(input)?, event: Event::Drained },
            tag::LEADER_LOST => {
                let event = Event::Detached(Detached::LeaderLost);
                Incoming::Event { receiver: take(input)?, event }
            }
            tag::DISMISSED => {
                let (receiver, refusal) = take::<(ReceiverId, Refusal)>(input)?;
                let event = Event::Detached(Detached::Refused(refusal));
                Incoming::Event { receiver, event }
            }
            tag::REPORT => {
                let (id, report) = take(input)?;
                Incoming::Report { id, report }
            }
            tag::IDLE => {
                let (id, report) = take(input)?;
                Incoming::Idle { id, report }
            }
            tag::TRANSFER => {
                let (id, error) = take(input)?;
                Incoming::Transferred { id, error }
            }
            _ => return Err(Error::Corrupt { what: "unknown tag of a response" }),
        })
    })
}

fn items<T>(
    frame: &Bytes,
    item: impl Fn(u8, &mut Reader<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut input = Reader::new(frame);
    let mut items = Vec::new();
    while input.remaining() > 0 {
        let tag = input.byte()?;
        items.push(item(tag, &mut input)?);
    }
    Ok(items)
}

fn take<T: Codec>(input: &mut Reader<'_>) -> Result<T, Error> {
    T::take(input)
}

impl Codec for Received {
    fn put(&self, out: &mut Vec<u8>) {
        self.delivery.put(out);
        self.content.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Received, Error> {
        Ok(Received { delivery: take(input)?, content: take(input)? })
    }
}

impl Codec for Wanted {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Wanted::Next => out.push(1),
            Wanted::Held(token) => put!(out, 2, *token),
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Wanted, Error> {
        Ok(match input.byte()? {
            1 => Wanted::Next,
            2 => Wanted::Held(take(input)?),
            _ => return Err(Error::Corrupt { what: "unknown tag of a wanted session" }),
        })
    }
}

impl Codec for IdleReport {
    fn put(&self, out: &mut Vec<u8>) {
        (self.candidates.len() as u64).put(out);
        for (shard, Candidate { entity, name, idle_since }) in &self.candidates {
            shard.put(out);
            entity.put(out);
            name.put(out);
            idle_since.put(out);
        }
        self.used.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<IdleReport, Error> {
        let count = input.count()?;
        let candidate = |_| {
            let (shard, entity) = take(input)?;
            let (name, idle_since) = take(input)?;
            Ok((shard, Candidate { entity, name, idle_since }))
        };
        let candidates = (0..count).map(candidate).collect::<Result<_, Error>>()?;
        Ok(IdleReport { candidates, used: take(input)? })
    }
}

impl Codec for Read {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Read::Peek { queue, from, count_max, touched } => {
                put!(out, 1, *queue, *from, *count_max, *touched)
            }
            Read::Info { entities } => put!(out, 2, *entities),
            Read::Resolve { name } => put!(out, 3, *name),
            Read::Directory { kind, after, prefix, count_max } => {
                put!(out, 4, *kind, *after, *prefix, *count_max)
            }
            Read::Rules { subscription, skip, count_max } => {
                put!(out, 8, *subscription, *skip, *count_max)
            }
            Read::Rule { subscription, name } => put!(out, 9, *subscription, *name),
            Read::PeekSession { entity, token, from, count_max } => {
                put!(out, 5, *entity, *token, *from, *count_max)
            }
            Read::SessionState { entity, token } => put!(out, 6, *entity, *token),
            Read::Sessions { entity, from, updated_after, count_max } => {
                put!(out, 7, *entity, *from, *updated_after, *count_max)
            }
            Read::Pend(Pend { holder, operation, queue, tokens, settles }) => {
                put!(out, 50, holder.node, holder.id, *operation, *queue, *tokens, *settles)
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Read, Error> {
        Ok(match input.byte()? {
            1 => {
                let (queue, from) = take(input)?;
                let (count_max, touched) = take(input)?;
                Read::Peek { queue, from, count_max, touched }
            }
            2 => Read::Info { entities: take(input)? },
            3 => Read::Resolve { name: take(input)? },
            4 => Read::Directory {
                kind: take(input)?,
                after: take(input)?,
                prefix: take(input)?,
                count_max: take(input)?,
            },
            5 => Read::PeekSession {
                entity: take(input)?,
                token: take(input)?,
                from: take(input)?,
                count_max: take(input)?,
            },
            6 => Read::SessionState { entity: take(input)?, token: take(input)? },
            7 => Read::Sessions {
                entity: take(input)?,
                from: take(input)?,
                updated_after: take(input)?,
                count_max: take(input)?,
            },
            8 => Read::Rules {
                subscription: take(input)?,
                skip: take(input)?,
                count_max: take(input)?,
            },
            9 => Read::Rule { subscription: take(input)?, name: take(input)? },
            50 => Read::Pend(Pend {
                holder: Holder { node: take(input)?, id: take(input)? },
                operation: take(input)?,
                queue: take(input)?,
                tokens: take(input)?,
                settles: take(input)?,
            }),
            _ => return Err(Error::Corrupt { what: "unknown tag of a read" }),
        })
    }
}

impl Codec for ReadAnswer {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            ReadAnswer::Messages(messages) => put!(out, 1, *messages),
            ReadAnswer::Refused(refusal) => put!(out, 2, *refusal),
            ReadAnswer::Untouched => out.push(8),
            ReadAnswer::Info(infos) => {
                out.push(3);
                (infos.len() as u64).put(out);
                for info in infos {
                    out.push(u8::from(info.is_some()));
                    info.iter().for_each(|info| put_info(info, out));
                }
            }
            ReadAnswer::Entries(rows) => put!(out, 4, *rows),
            ReadAnswer::State(state) => put!(out, 5, *state),
            ReadAnswer::Sessions(page) => put!(out, 6, *page),
            ReadAnswer::Rules(rules) => put!(out, 7, *rules),
            ReadAnswer::Pending => out.push(50),
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<ReadAnswer, Error> {
        Ok(match input.byte()? {
            1 => ReadAnswer::Messages(take(input)?),
            2 => ReadAnswer::Refused(take(input)?),
            3 => {
                let count = input.count()?;
                let info = |_| if take(input)? { take_info(input).map(Some) } else { Ok(None) };
                ReadAnswer::Info((0..count).map(info).collect::<Result<_, _>>()?)
            }
            4 => ReadAnswer::Entries(take::<Vec<DirectoryRow>>(input)?),
            5 => ReadAnswer::State(take(input)?),
            6 => ReadAnswer::Sessions(take(input)?),
            7 => ReadAnswer::Rules(take(input)?),
            8 => ReadAnswer::Untouched,
            50 => ReadAnswer::Pending,
            _ => return Err(Error::Corrupt { what: "unknown tag of a read's answer" }),
        })
    }
}

fn put_info(info: &EntityInfo, out: &mut Vec<u8>) {
    let EntityInfo {
        name,
        properties,
        specifics,
        created_at,
        updated_at,
        accessed_at,
        counts,
        available,
        available_dead_letter,
        available_transfer_dead_letter,
        size_bytes,
        next_sequence,
        last_use,
        idleness,
    } = info;
    name.put(out);
    properties.put(out);
    specifics.put(out);
    (*created_at, *updated_at).put(out);
    accessed_at.put(out);
    counts.put(out);
    (*available, *available_dead_letter).put(out);
    available_transfer_dead_letter.put(out);
    size_bytes.put(out);
    next_sequence.put(out);
    last_use.put(out);
    match idleness {
        Idleness::Never => out.push(0),
        Idleness::Scheduled => out.push(1),
        Idleness::Since { since, due } => put!(out, 2, (*since, *due)),
    }
}

fn take_info(input: &mut Reader<'_>) -> Result<EntityInfo, Error> {
    let (name, properties) = take(input)?;
    let specifics = take(input)?;
    let (created_at, updated_at) = take(input)?;
    let (accessed_at, counts) = take(input)?;
    let (available, available_dead_letter) = take(input)?;
    let available_transfer_dead_letter = take(input)?;
    let (size_bytes, next_sequence) = take(input)?;
    let last_use = take(input)?;
    let idleness = match input.byte()? {
        0 => Idleness::Never,
        1 => Idleness::Scheduled,
        2 => {
            let (since, due) = take(input)?;
            Idleness::Since { since, due }
        }
        _ => return Err(Error::Corrupt { what: "unknown tag of an entity's idleness" }),
    };
    Ok(EntityInfo {
        name,
        properties,
        specifics,
        created_at,
        updated_at,
        accessed_at,
        counts,
        available,
        available_dead_letter,
        available_transfer_dead_letter,
        size_bytes,
        next_sequence,
        last_use,
        idleness,
    })
}

#[cfg(test)]
mod tests {
    use domain::{QueueId, SequenceNumber, SessionPage, Timestamp};

    use super::*;

    fn again<T: Codec>(value: &T) -> T {
        let mut out = Vec::new();
        value.put(&mut out);
        let bytes = Bytes::from(out);
        let mut input = Reader::new(&bytes);
        let value = T::take(&mut input).expect("it can be read");
        assert_eq!(input.remaining(), 0);
        value
    }

    #[test]
    fn answers_of_reads_come_as_they_went() {
        for answer in [
            ReadAnswer::Messages(Vec::new()),
            ReadAnswer::Refused(Refusal::StaleRoute { entity: EntityId(7) }),
            ReadAnswer::Untouched,
            ReadAnswer::Info(vec![None]),
            ReadAnswer::Entries(Vec::new()),
            ReadAnswer::State(None),
            ReadAnswer::State(Some(Bytes::from_static(b"state"))),
            ReadAnswer::Sessions(SessionPage { sessions: Vec::new(), next: None }),
            ReadAnswer::Rules(Vec::new()),
        ] {
            assert_eq!(again(&answer), answer);
        }
    }

    #[test]
    fn what_nodes_know_of_idle_entities_comes_as_it_went() {
        let queue = QueueId::main(EntityId(3));
        let read = Read::Peek { queue, from: SequenceNumber(5), count_max: 9, touched: true };
        assert_eq!(again(&read), read);
        let rule = Read::Rule { subscription: EntityId(3), name: "r".to_owned() };
        assert_eq!(again(&rule), rule);
        let (entity, name) = (EntityId(3), "orders".to_owned());
        let candidate = Candidate { entity, name, idle_since: Timestamp(4) };
        let candidates = vec![(ShardId(2), candidate)];
        let report = IdleReport { candidates, used: vec![EntityId(8)] };
        assert_eq!(again(&report), report);
    }
}
