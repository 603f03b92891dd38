//! What a leader tells an edge.

use bytes::Bytes;
use domain::{Outcome, ReceiverId, Refusal};
use wire::{Codec, Error};

use super::{items, tag, take};
use crate::exchange::{
    Answer, CutAnswer, Detached, Event, Failed, IdleReport, NodeReport, NotRead, ReadResult,
    Response,
};

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
    Cut { id: u64, answer: CutAnswer },
    Owed { id: u64, owed_ms: Vec<u64> },
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
            Event::Rose { low, high } => put!(out, tag::ROSE, *receiver, *low, *high),
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
        Response::Cut { id, answer } => {
            put!(out, tag::CUT, *id, answer.is_ok());
            match answer {
                Ok(rows) => rows.put(out),
                Err(why) => why.put(out),
            }
        }
        Response::Owed { id, owed_ms } => {
            put!(out, tag::SPEND, *id);
            owed_ms.put(out);
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
            tag::ROSE => {
                let (receiver, (low, high)) = take(input)?;
                Incoming::Event { receiver, event: Event::Rose { low, high } }
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
            tag::CUT => {
                let (id, is_ok) = take(input)?;
                let answer = if is_ok { Ok(take(input)?) } else { Err(take(input)?) };
                Incoming::Cut { id, answer }
            }
            tag::SPEND => {
                let (id, owed_ms) = take(input)?;
                Incoming::Owed { id, owed_ms }
            }
            _ => return Err(Error::Corrupt { what: "unknown tag of a response" }),
        })
    })
}
