//! Replicas that have applied the same entries have the same rows, however they grouped them into
//! steps, crashed, or were copied from one another; and found the same outcomes.

use domain::{MemoryRows, Outcome};

use crate::raft::Record;
use crate::replica::Replica;
use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken { invariant: "replicas", source: "architecture 1, TIME-4", what }
}

/// Pairwise, where two stand at the same entry; the reference has applied one entry at a time.
pub fn equal(replicas: &[&Replica], reference: &Replica) -> Holds {
    for (node, replica) in replicas.iter().enumerate() {
        if replica.applied == reference.applied {
            same(node, &replica.rows, &reference.rows, replica.applied)?;
        }
        for (other, before) in replicas[..node].iter().enumerate() {
            if before.applied == replica.applied && replica.applied < reference.applied {
                same(other, &before.rows, &replica.rows, replica.applied)?;
            }
        }
    }
    Ok(())
}

fn same(node: usize, rows: &MemoryRows, other: &MemoryRows, applied: u64) -> Holds {
    if rows == other {
        return Ok(());
    }
    let mut left = rows.0.iter().filter(|(key, row)| other.0.get(key) != Some(row));
    let mut right = other.0.iter().filter(|(key, row)| rows.0.get(key) != Some(row));
    let (left, right) = (left.next(), right.next());
    Err(broken(format!("node {node} at entry {applied} has {left:?}, another {right:?}")))
}

/// Outcomes do not depend on the replica.
pub fn outcomes(node: usize, records: &[Record], found: &[Vec<Outcome>]) -> Holds {
    for (record, found) in records.iter().zip(found) {
        if record.outcomes != *found {
            let expected = &record.outcomes;
            return Err(broken(format!("node {node} answered {found:?}, another {expected:?}")));
        }
    }
    Ok(())
}
