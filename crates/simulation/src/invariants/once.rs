//! Each (producer, serial) takes effect at most once, and those of an ordered producer in order.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::raft::Caller;
use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken { invariant: "once", source: "SEND-8, MSG-10", what }
}

/// What has taken effect in one group.
#[derive(Default)]
pub struct Effects {
    /// By producer, the serials that were not answered from memory.
    asked: BTreeSet<(u64, u64)>,
    last: BTreeMap<u64, u64>,
    contents: BTreeSet<Bytes>,
}

impl Effects {
    /// A request took effect, whatever its outcome.
    pub fn took(&mut self, caller: Caller) -> Holds {
        let Caller { producer, serial, ordered } = caller;
        if !self.asked.insert((producer, serial)) {
            return Err(broken(format!("({producer}, {serial}) took effect twice")));
        }
        let last = self.last.entry(producer).or_default();
        let before = std::mem::replace(last, serial);
        match !ordered || serial == before + 1 {
            true => Ok(()),
            false => Err(broken(format!("serial {serial} of {producer} follows {before}"))),
        }
    }

    /// A message was accepted: no client sends two with one content.
    pub fn accepted(&mut self, content: &Bytes) -> Holds {
        match self.contents.insert(content.clone()) {
            true => Ok(()),
            false => Err(broken(format!("{content:?} was accepted twice"))),
        }
    }
}
