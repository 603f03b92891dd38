//! What is committed stays: every leader has it, every replica applies it, at its index, and none
//! takes it back. What was acknowledged was committed.

use crate::raft::disk::DiskImage;
use crate::raft::{Id, LogEntry, Record};
use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken { invariant: "committed", source: "architecture 4 (enqueue), 5; issue 3", what }
}

/// The same index is the same entry on all that have committed or applied it.
pub fn same(id: Id, entry: &LogEntry, committed: &[Record]) -> Holds {
    let known = entry.index.checked_sub(1).and_then(|at| committed.get(at as usize));
    match known.map(|record| &record.log) {
        Some(log) if log.number == entry.number && log.term == entry.term => Ok(()),
        Some(log) => Err(broken(format!(
            "{id:?} has entry {} of term {} at index {}, committed is {} of term {}",
            entry.number, entry.term, entry.index, log.number, log.term
        ))),
        None => Err(broken(format!("{id:?} applies index {}, not committed", entry.index))),
    }
}

/// Who leads has all that was committed before its term, acknowledged or not. What is committed in
/// later ones it may lack: votes that were long under way make a leader that nobody follows.
pub fn complete(id: Id, term: u64, image: &DiskImage, committed: &[Record]) -> Holds {
    let count = committed.partition_point(|record| record.committed_in <= term) as u64;
    if image.last() < count {
        let last = image.last();
        return Err(broken(format!("{id:?} leads, its log ends at {last}, committed are {count}")));
    }
    image.entries().filter(|entry| entry.index <= count).try_for_each(|e| same(id, e, committed))
}

pub fn not_taken_back(id: Id, index: u64, commit: u64) -> Holds {
    match index > commit {
        true => Ok(()),
        false => Err(broken(format!("{id:?} takes back index {index}, committed are {commit}"))),
    }
}

/// At the end: every replica has applied everything that was ever acknowledged.
pub fn kept(id: Id, applied: u64, acknowledged: u64) -> Holds {
    match applied >= acknowledged {
        true => Ok(()),
        false => Err(broken(format!("{id:?} ends at {applied}, acknowledged was {acknowledged}"))),
    }
}
