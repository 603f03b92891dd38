//! What one log made of the rows is the same everywhere.

use super::{Promise, Violation};
use crate::Run;

pub fn check(run: &Run) -> Vec<Violation> {
    let mut broken = Vec::new();
    for (name, found) in &run.end.entities {
        let mut digests = found.digests.values();
        let first = digests.next();
        if digests.any(|digest| Some(digest) != first) {
            let told = format!("replicas differ, by node: {:x?}", found.digests);
            broken.push(Violation::new(Promise::ReplicasEqual, name, "", told));
        }
    }
    broken
}
