//! One vote per term and identity, and so one leader per term.

use std::collections::BTreeMap;

use crate::raft::Id;
use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken {
        invariant: "votes",
        source: "architecture 5 (log), README (How a replica fails)",
        what,
    }
}

/// Every vote that was heard of, of one group.
#[derive(Default)]
pub struct Votes {
    granted: BTreeMap<(u64, Id), Id>,
    leaders: BTreeMap<u64, Id>,
}

impl Votes {
    /// A replica told a candidate that it has its vote.
    pub fn granted(&mut self, voter: Id, term: u64, candidate: Id) -> Holds {
        let first = *self.granted.entry((term, voter)).or_insert(candidate);
        match first == candidate {
            true => Ok(()),
            false => Err(broken(format!(
                "{voter:?} voted for {first:?} and for {candidate:?} in term {term}"
            ))),
        }
    }

    pub fn led(&mut self, term: u64, leader: Id) -> Holds {
        let first = *self.leaders.entry(term).or_insert(leader);
        match first == leader {
            true => Ok(()),
            false => Err(broken(format!("{first:?} and {leader:?} both lead term {term}"))),
        }
    }
}
