//! What two nodes say to each other for their clients. A frame is many items: a writer gathers all
//! that waits into one, so that a busy pair of nodes pays per frame, not per request.
//!
//! Requests are encoded from the parts the sender holds, since it keeps them until the answer;
//! responses from the values themselves.

macro_rules! put {
    ($out:expr, $tag:expr $(, $field:expr)*) => {{
        $out.push($tag);
        $(Codec::put(&$field, $out);)*
    }};
}

mod read;
mod report;
mod request;
mod response;

use bytes::Bytes;
use wire::{Codec, Error, Reader};

pub(crate) use self::request::*;
pub(crate) use self::response::*;
use crate::exchange::{Received, Wanted};

/// A frame is sent when it holds this many bytes.
pub(crate) const FRAME_BYTES_FULL: usize = 512 * 1024;

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
    pub const END_CLAIMS: u8 = 50;
    pub const ROSE: u8 = 60;
    pub const CUT: u8 = 61;
    /// From feature level 14 on.
    pub const SPEND: u8 = 62;
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
            Wanted::Notices => out.push(3),
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Wanted, Error> {
        Ok(match input.byte()? {
            1 => Wanted::Next,
            2 => Wanted::Held(take(input)?),
            3 => Wanted::Notices,
            _ => return Err(Error::Corrupt { what: "unknown tag of a wanted session" }),
        })
    }
}

#[cfg(test)]
mod tests {
    use domain::{
        EntityId, GroupId, QueueId, Refusal, SequenceNumber, SessionPage, Span, Timestamp,
    };
    use engine::Candidate;

    use super::*;
    use crate::exchange::{CutRequest, IdleReport, Read, ReadAnswer, Response};

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
    fn reads_come_as_they_went() {
        for read in [Read::ClockOffset, Read::Resolve { name: "q".into() }] {
            assert_eq!(again(&read), read);
        }
    }

    #[test]
    fn answers_of_reads_come_as_they_went() {
        for answer in [
            ReadAnswer::Messages(Vec::new()),
            ReadAnswer::Refused(Refusal::StaleRoute { entity: EntityId(7) }),
            ReadAnswer::Untouched,
            ReadAnswer::ClockOffset(Span(7_200_000)),
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
    fn what_a_backup_asks_and_is_told_comes_as_it_went() {
        let after = Bytes::from_static(b"key");
        for asked in [
            CutRequest::Expect { number: 300 },
            CutRequest::Rows { number: 300, after },
            CutRequest::Keep { number: 300 },
            CutRequest::Release { number: 300 },
        ] {
            let mut out = Vec::new();
            put_cut(7, GroupId(5), &asked, &mut out);
            let came = requests(&out.into()).expect("whole");
            assert_eq!(came, [Request::Cut { id: 7, group: GroupId(5), asked }]);
        }
        for answer in [Ok(None), Ok(Some(Bytes::from_static(b"rows"))), Err("gone".to_owned())] {
            let mut out = Vec::new();
            put_response(&Response::Cut { id: 7, answer: answer.clone() }, &mut out);
            let came = responses(&out.into()).expect("whole");
            assert_eq!(came, [Incoming::Cut { id: 7, answer }]);
        }
    }

    #[test]
    fn what_is_spent_and_owed_comes_as_it_went() {
        let spent = vec![("orders".to_owned(), 300), ("default".to_owned(), 1)];
        let mut out = Vec::new();
        put_spend(7, &spent, &mut out);
        assert_eq!(requests(&out.into()).expect("whole"), [Request::Spend { id: 7, spent }]);
        let (mut out, owed_ms) = (Vec::new(), vec![300, 0]);
        put_response(&Response::Owed { id: 7, owed_ms: owed_ms.clone() }, &mut out);
        assert_eq!(responses(&out.into()).expect("whole"), [Incoming::Owed { id: 7, owed_ms }]);
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
        let candidates = vec![(GroupId(2), candidate)];
        let report = IdleReport { candidates, used: vec![EntityId(8)] };
        assert_eq!(again(&report), report);
    }
}
