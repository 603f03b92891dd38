//! What all clients together know of the messages they sent, by their numbers.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bytes::Bytes;
use domain::{Key, Row, Rows, SequenceNumber};

use super::node::RealNode;
use super::{GROUP, QUEUE};

/// How many numbers were given away, and what became of them.
#[derive(Default)]
pub struct Ledger {
    pub numbers: u64,
    pub acknowledged: u64,
    pub reads: u64,
    pub truth: Truth,
    /// Whose fate nobody knows: perhaps they were never sent, perhaps they are completed.
    unknown: BTreeSet<u64>,
}

/// What everybody must find who has seen all that was acknowledged.
#[derive(Clone, Default)]
pub struct Truth {
    pub present: BTreeSet<u64>,
    pub completed: BTreeSet<u64>,
}

impl Ledger {
    /// Its sending was acknowledged.
    pub fn sent(&mut self, number: u64) {
        self.acknowledged += 1;
        // A consumer may have been faster.
        if !self.truth.completed.contains(&number) && !self.unknown.contains(&number) {
            self.truth.present.insert(number);
        }
    }

    /// It may be there or not, from here on.
    pub fn doubt(&mut self, number: u64) {
        self.truth.present.remove(&number);
        self.unknown.insert(number);
    }

    /// Its completion was acknowledged.
    pub fn completed(&mut self, number: u64) {
        self.unknown.remove(&number);
        self.truth.completed.insert(number);
    }

    pub fn unknown(&self) -> usize {
        self.unknown.len()
    }

    /// What contradicts a truth of a while ago, in what a node has.
    pub fn contradiction(&self, before: &Truth, node: &RealNode) -> Option<String> {
        let there: BTreeSet<u64> = numbers(node)?.into_iter().collect();
        let gone = |number: &&u64| !there.contains(number) && self.truth.present.contains(number);
        let missing: Vec<&u64> = before.present.iter().filter(gone).collect();
        let back: Vec<&u64> = before.completed.intersection(&there).collect();
        (!missing.is_empty() || !back.is_empty())
            .then(|| format!("without {missing:?}, and with {back:?}, which are completed"))
    }

    /// Whether anybody sent it.
    pub fn knows(&self, number: u64) -> bool {
        let Truth { present, completed } = &self.truth;
        [present, completed, &self.unknown].iter().any(|of| of.contains(&number))
    }
}

/// The number in a message's content.
pub fn number(content: &Bytes) -> u64 {
    content.first_chunk().map_or(0, |at| u64::from_be_bytes(*at))
}

/// The numbers of the messages a node has, in order of acceptance; none of a node that is down.
pub fn numbers(node: &RealNode) -> Option<Vec<u64>> {
    let rows = node.process.as_ref()?.replication.rows(GROUP);
    let (first, last) = (SequenceNumber::MIN, SequenceNumber::MAX);
    let mut numbers = Vec::new();
    rows.scan(&Key::Body(QUEUE, first), &Key::Body(QUEUE, last), &mut |_, row| {
        if let Row::Body(content) = row {
            numbers.push(number(&content));
        }
        ControlFlow::Continue(())
    });
    Some(numbers)
}
