//! What is seen of all nodes, and what may never be.
//!
//! | invariant | what must hold |
//! |---|---|
//! | `votes` | a replica's votes never go back, whatever crashes in between |
//! | `leaders` | a node never leads a term that is not above the last it led |
//! | `replicas` | rows that come from the same entries are the same, and so is who was a member |
//! | `lost` | every new leader, and in the end all, have what was sent, and not what was completed |
//! | `once` | a message is there once, however often it was sent (SEND-8) |
//! | `reads` | a read sees what was acknowledged before it began, and who receives sees contents |
//! | `identity` | a node that lost what it held speaks under another id, and nobody takes it for two |
//! | `running` | no replica stops by itself |
//! | `settled` | once faults end, every node is a full member with all entries, and calls are answered |
//!
//! openraft orders votes by term and candidate, as we use it: whoever voted for a candidate may vote in
//! the same term for one with a higher id, and a term may so have two leaders, one after the other.
//! What Raft says of terms holds of these pairs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::report::Broken;

/// What all parts of a run report to. Clones share it.
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<Observations>>);

#[derive(Default)]
struct Observations {
    now: u64,
    digest: u64,
    broken: Option<Broken>,
    /// By index: rows and mark of whoever stopped there.
    applied: BTreeMap<u64, (u64, Bytes)>,
    /// By replica: term and candidate of its last vote.
    votes: BTreeMap<u64, (u64, u64)>,
    /// The highest term that was led, and by whom.
    highest: (u64, u64),
    /// By node: the last term it led.
    led: BTreeMap<u64, u64>,
}

/// FNV-1a.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Watch {
    pub fn tick(&self, now: u64) {
        self.seen().now = now;
    }

    /// Something happened: it becomes a part of the run's digest.
    pub fn note(&self, what: &str, numbers: &[u64]) {
        self.seen().note(what, numbers);
    }

    pub fn digest(&self) -> u64 {
        self.seen().digest
    }

    pub fn broken(&self) -> Option<Broken> {
        self.seen().broken.clone()
    }

    /// An invariant does not hold; the first counts.
    pub fn broke(&self, invariant: &'static str, source: &'static str, what: String) {
        self.seen().broke(invariant, source, what);
    }

    /// A replica's vote was said to be on disk.
    pub fn voted(&self, id: u64, vote: &Bytes) {
        let mut seen = self.seen();
        let Some((term, candidate)) = term_and_candidate(vote) else {
            return seen.broke("votes", "record", format!("{vote:?} is no vote"));
        };
        seen.note("vote", &[id, term, candidate]);
        let before = seen.votes.insert(id, (term, candidate)).unwrap_or_default();
        if before > (term, candidate) {
            let what = format!("{id:#x} voted {:x?} after {before:x?}", (term, candidate));
            seen.broke("votes", "Raft 5.2", what);
        }
    }

    /// A replica's rows are those of this index.
    pub fn applied(&self, node: u64, index: u64, sum: u64, mark: &Bytes) {
        let mut seen = self.seen();
        seen.note("applied", &[node, index, sum]);
        let (sum_before, mark_before) =
            seen.applied.entry(index).or_insert_with(|| (sum, mark.clone())).clone();
        if sum_before != sum || mark_before != *mark {
            let what = format!(
                "node {node} has rows {sum:016x} and mark {mark:02x?} at index {index}, another \
                 had {sum_before:016x} and {mark_before:02x?}"
            );
            seen.broke("replicas", "Raft 5.4.3", what);
        }
    }

    /// A node announced that it leads. Whether nobody led later.
    pub fn leads(&self, node: u64, id: u64, term: u64) -> bool {
        let mut seen = self.seen();
        seen.note("leads", &[node, id, term]);
        let last = seen.led.insert(node, term);
        if last.is_some_and(|last| last >= term) {
            let what = format!("node {node} leads term {term} after {last:?}");
            seen.broke("leaders", "Raft 5.2", what);
        }
        seen.highest = seen.highest.max((term, id));
        seen.highest == (term, id)
    }

    fn seen(&self) -> MutexGuard<'_, Observations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observations {
    fn note(&mut self, what: &str, numbers: &[u64]) {
        let words = [self.digest, self.now].into_iter().chain(numbers.iter().copied());
        let mut bytes: Vec<u8> = words.flat_map(u64::to_be_bytes).collect();
        bytes.extend_from_slice(what.as_bytes());
        self.digest = hash(&bytes);
    }

    fn broke(&mut self, invariant: &'static str, source: &'static str, what: String) {
        if self.broken.is_none() {
            self.broken = Some(Broken { invariant, source, what });
        }
    }
}

/// What a vote's record says: | version | protobuf of term 1, node 2, committed 3 |.
fn term_and_candidate(record: &[u8]) -> Option<(u64, u64)> {
    let (_version, mut rest) = record.split_first()?;
    let (mut term, mut candidate) = (0, 0);
    while !rest.is_empty() {
        let (tag, value) = (varint(&mut rest)?, varint(&mut rest)?);
        match tag >> 3 {
            1 => term = value,
            2 => candidate = value,
            _ => (),
        }
    }
    Some((term, candidate))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_is_read_from_its_record() {
        assert_eq!(term_and_candidate(&[1, 8, 0xac, 2, 16, 3, 24, 1]), Some((300, 3)));
        assert_eq!(term_and_candidate(&[1, 8, 0xac]), None);
    }

    #[test]
    fn the_first_break_counts() {
        let watch = Watch::default();
        watch.voted(1, &Bytes::from_static(&[1, 8, 5, 16, 2]));
        watch.voted(1, &Bytes::from_static(&[1, 8, 5, 16, 2, 24, 1]));
        assert_eq!(watch.broken(), None);
        watch.voted(1, &Bytes::from_static(&[1, 8, 5, 16, 3]));
        assert_eq!(watch.broken(), None, "for a higher candidate");
        watch.voted(1, &Bytes::from_static(&[1, 8, 5, 16, 2]));
        assert!(watch.leads(1, 1, 6) && !watch.leads(2, 2, 5));
        assert_eq!(watch.broken().map(|broken| broken.invariant), Some("votes"));
    }
}
