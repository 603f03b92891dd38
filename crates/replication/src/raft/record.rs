//! What a group keeps on disk, each with a version of its own: nothing of openraft's is persisted.
//!
//! A log record is | version u8 | kind u8 | term u64 | node u64 | index u64 | payload |, big-endian.
//! Votes, committed and purged ids, and marks are | version u8 | protobuf |.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use openraft::EmptyNode;
use prost::Message;

use super::{Entry, LeaderId, LogId, Membership, Payload, Proposal, StoredMembership, Vote};
use crate::peer::v1;

const VERSION: u8 = 1;
const BLANK: u8 = 0;
const NORMAL: u8 = 1;
const MEMBERSHIP: u8 = 2;

/// Bytes of a log record before its payload.
pub(crate) const HEADER_BYTES: usize = 26;

/// How far a replica's rows are, and who was in the group then.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mark {
    pub applied: Option<LogId>,
    pub membership: StoredMembership,
}

fn corrupt(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("corrupt {what}"))
}

/// The log record of an entry. A proposal that has its record already is not encoded again.
pub(crate) fn encode_entry(entry: &Entry) -> Bytes {
    match &entry.payload {
        Payload::Blank => encode_record(entry.log_id, BLANK, &[]),
        Payload::Normal(proposal) => match &proposal.record {
            Some(record) => record.clone(),
            None => encode_record(entry.log_id, NORMAL, &proposal.payload),
        },
        Payload::Membership(membership) => {
            let payload = membership_to_proto(membership).encode_to_vec();
            encode_record(entry.log_id, MEMBERSHIP, &payload)
        }
    }
}

fn encode_record(id: LogId, kind: u8, payload: &[u8]) -> Bytes {
    let mut record = BytesMut::with_capacity(HEADER_BYTES + payload.len());
    record.put_u8(VERSION);
    record.put_u8(kind);
    record.put_u64(id.leader_id.term);
    record.put_u64(id.leader_id.node_id);
    record.put_u64(id.index);
    record.put_slice(payload);
    record.freeze()
}

/// The entry of a log record; its payload shares the record's bytes.
pub(crate) fn decode_entry(record: Bytes) -> Result<Entry, io::Error> {
    let (kind, log_id) = decode_header(&record)?;
    let payload = record.slice(HEADER_BYTES..);
    let payload = match kind {
        BLANK => Payload::Blank,
        NORMAL => Payload::Normal(Proposal { payload, record: Some(record) }),
        MEMBERSHIP => {
            let proto = v1::Membership::decode(payload).map_err(|_| corrupt("membership entry"))?;
            Payload::Membership(membership_from_proto(proto)?)
        }
        _ => return Err(corrupt("log record: unknown kind")),
    };
    Ok(Entry { log_id, payload })
}

/// The log id of a record, without decoding the rest.
pub(crate) fn decode_log_id_of(record: &[u8]) -> Result<LogId, io::Error> {
    decode_header(record).map(|(_, log_id)| log_id)
}

fn decode_header(record: &[u8]) -> Result<(u8, LogId), io::Error> {
    if record.len() < HEADER_BYTES {
        return Err(corrupt("log record: too short"));
    }
    if record[0] != VERSION {
        return Err(corrupt("log record: unknown version"));
    }
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&record[at..at + 8]);
        u64::from_be_bytes(bytes)
    };
    Ok((record[1], log_id(word(2), word(10), word(18))))
}

pub(crate) fn log_id(term: u64, node: u64, index: u64) -> LogId {
    LogId { leader_id: LeaderId { term, node_id: node }, index }
}

pub(crate) fn encode_vote(vote: &Vote) -> Bytes {
    versioned(&vote_to_proto(vote))
}

pub(crate) fn decode_vote(bytes: &[u8]) -> Result<Vote, io::Error> {
    unversioned::<v1::Vote>(bytes, "vote").map(vote_from_proto)
}

pub(crate) fn encode_log_id(id: &LogId) -> Bytes {
    versioned(&log_id_to_proto(id))
}

pub(crate) fn decode_log_id(bytes: &[u8]) -> Result<LogId, io::Error> {
    unversioned::<v1::LogId>(bytes, "log id").map(log_id_from_proto)
}

pub(crate) fn encode_mark(mark: &Mark) -> Bytes {
    versioned(&v1::Mark {
        applied: mark.applied.as_ref().map(log_id_to_proto),
        membership_at: mark.membership.log_id().as_ref().map(log_id_to_proto),
        membership: Some(membership_to_proto(mark.membership.membership())),
    })
}

pub(crate) fn decode_mark(bytes: &[u8]) -> Result<Mark, io::Error> {
    let proto = unversioned::<v1::Mark>(bytes, "mark")?;
    let membership = membership_from_proto(proto.membership.unwrap_or_default())?;
    Ok(Mark {
        applied: proto.applied.map(log_id_from_proto),
        membership: StoredMembership::new(proto.membership_at.map(log_id_from_proto), membership),
    })
}

fn versioned(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1 + message.encoded_len());
    bytes.put_u8(VERSION);
    message.encode_raw(&mut bytes);
    bytes.freeze()
}

fn unversioned<M: Message + Default>(bytes: &[u8], what: &str) -> Result<M, io::Error> {
    match bytes.split_first() {
        Some((&VERSION, message)) => M::decode(message).map_err(|_| corrupt(what)),
        _ => Err(corrupt(what)),
    }
}

pub(crate) fn vote_to_proto(vote: &Vote) -> v1::Vote {
    let LeaderId { term, node_id } = vote.leader_id;
    v1::Vote { term, node: node_id, committed: vote.committed }
}

pub(crate) fn vote_from_proto(vote: v1::Vote) -> Vote {
    let leader_id = LeaderId { term: vote.term, node_id: vote.node };
    Vote { leader_id, committed: vote.committed }
}

pub(crate) fn log_id_to_proto(id: &LogId) -> v1::LogId {
    v1::LogId { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
}

pub(crate) fn log_id_from_proto(id: v1::LogId) -> LogId {
    log_id(id.term, id.node, id.index)
}

fn membership_to_proto(membership: &Membership) -> v1::Membership {
    v1::Membership {
        sets: membership
            .get_joint_config()
            .iter()
            .map(|set| v1::Voters { nodes: set.iter().copied().collect() })
            .collect(),
        nodes: membership.nodes().map(|(node, _)| *node).collect(),
    }
}

fn membership_from_proto(proto: v1::Membership) -> Result<Membership, io::Error> {
    let sets: Vec<BTreeSet<u64>> =
        proto.sets.into_iter().map(|set| set.nodes.into_iter().collect()).collect();
    let nodes: BTreeMap<u64, EmptyNode> =
        proto.nodes.into_iter().map(|node| (node, EmptyNode {})).collect();
    if sets.is_empty() && nodes.is_empty() {
        return Ok(Membership::default()); // Before the first: `new` refuses what is empty.
    }
    Membership::new(sets, nodes).map_err(|_| corrupt("membership"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership() -> Membership {
        let joint = vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([2, 3, 4])];
        let nodes: BTreeMap<u64, EmptyNode> = (1..=5).map(|n| (n, EmptyNode {})).collect();
        Membership::new(joint, nodes).expect("a membership")
    }

    #[test]
    fn entries_come_back_from_their_records() {
        let id = log_id(7, 3, 1 << 40);
        for payload in [
            Payload::Blank,
            Payload::Normal(Proposal::new(Bytes::from_static(b"what was asked"))),
            Payload::Membership(membership()),
        ] {
            let record = encode_entry(&Entry { log_id: id, payload: payload.clone() });
            let back = decode_entry(record.clone()).expect("a record");
            assert_eq!(back.log_id, id);
            assert_eq!(decode_log_id_of(&record).expect("a header"), id);
            match (&payload, &back.payload) {
                (Payload::Normal(sent), Payload::Normal(got)) => {
                    assert_eq!(sent.payload, got.payload);
                }
                (sent, got) => assert_eq!(sent, got),
            }
            assert_eq!(encode_entry(&back), record, "the same bytes again");
        }
    }

    #[test]
    fn a_payload_shares_its_records_bytes() {
        let proposal = Proposal::new(Bytes::from(vec![1; 4096]));
        let entry = Entry { log_id: log_id(1, 1, 1), payload: Payload::Normal(proposal) };
        let record = encode_entry(&entry);
        let Payload::Normal(got) = decode_entry(record.clone()).expect("a record").payload else {
            panic!("not a proposal");
        };
        assert_eq!(got.payload.as_ptr(), record[HEADER_BYTES..].as_ptr());
    }

    #[test]
    fn damage_is_an_error() {
        assert!(decode_entry(Bytes::from_static(b"short")).is_err());
        let blank = Entry { log_id: log_id(1, 1, 1), payload: Payload::Blank };
        for (at, value) in [(0, 9), (1, 9)] {
            let mut record = encode_entry(&blank).to_vec();
            record[at] = value;
            assert!(decode_entry(record.into()).is_err());
        }
        assert!(decode_mark(&[]).is_err());
        assert!(decode_vote(&[2, 0]).is_err());
    }

    #[test]
    fn marks_votes_and_ids_come_back() {
        for mark in [
            Mark::default(),
            Mark {
                applied: Some(log_id(3, 2, 10)),
                membership: StoredMembership::new(Some(log_id(2, 2, 4)), membership()),
            },
        ] {
            assert_eq!(decode_mark(&encode_mark(&mark)).expect("a mark"), mark);
        }
        let vote = Vote { leader_id: LeaderId { term: 5, node_id: 2 }, committed: true };
        assert_eq!(decode_vote(&encode_vote(&vote)).expect("a vote"), vote);
        let id = log_id(4, 3, 0);
        assert_eq!(decode_log_id(&encode_log_id(&id)).expect("an id"), id);
    }

    /// These bytes are on disks: what version 1 wrote stays readable for ever.
    #[test]
    fn version_1_stays_readable() {
        let mut record = vec![1, 1];
        for word in [7_u64, 2, 9] {
            record.extend(word.to_be_bytes());
        }
        record.extend(b"payload");
        let entry = decode_entry(record.into()).expect("a record");
        assert_eq!(entry.log_id, log_id(7, 2, 9));
        let Payload::Normal(proposal) = entry.payload else { panic!("not a proposal") };
        assert_eq!(proposal.payload, "payload");

        let mark = [
            &[1, 10, 6, 8, 3, 16, 2, 24, 10][..], // Version; applied: term 3, node 2, index 10.
            &[18, 4, 8, 1, 16, 1],                // Membership of term 1, node 1, index 0.
            &[26, 10, 10, 4, 10, 2, 1, 2, 18, 2, 1, 2], // One set of voters, 1 and 2; nodes 1, 2.
        ];
        let mark = decode_mark(&mark.concat()).expect("a mark");
        assert_eq!(mark.applied, Some(log_id(3, 2, 10)));
        assert_eq!(*mark.membership.log_id(), Some(log_id(1, 1, 0)));
        let voters: Vec<u64> = mark.membership.voter_ids().collect();
        assert_eq!(voters, [1, 2]);
    }
}
