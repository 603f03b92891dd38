//! Cuts of the whole cluster, as one group has had them.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Command, MemoryRows, meta};

use super::Group;
use super::forwarding::{sent_in, texts_in};
use crate::leader::Reply;

/// The group when a cut came by.
pub struct Cut {
    rows: MemoryRows,
    /// Entries that are before it.
    entries: usize,
}

impl Group {
    /// Asks for it, if anybody leads.
    pub fn ask_for_cut(&mut self, number: u64) {
        let Some(node) = self.newest() else { return };
        if let Some(leader) = self.leaders.get_mut(&node) {
            leader.asked.push((Command::Cut { number }, Reply::Nobody));
        }
    }

    /// An entry was committed: the group as it is, if a cut is behind that.
    pub(super) fn note_cut(&mut self) {
        let number = meta(&self.reference.rows).cut;
        if self.cuts.last_key_value().is_none_or(|(last, _)| *last < number) && number > 0 {
            let (rows, entries) = (self.reference.rows.clone(), self.log.len());
            self.cuts.insert(number, Cut { rows, entries });
        }
    }

    /// Texts that had been sent when a cut came by, and where they were; `None` before it does.
    pub fn as_of_cut(
        &self,
        number: u64,
        sent: &mut BTreeSet<String>,
        found: &mut BTreeMap<String, (u32, u32)>,
    ) -> Option<()> {
        let (_, cut) = self.cuts.range(number..).next()?;
        sent_in(&self.log[..cut.entries], self.index, sent);
        texts_in(&cut.rows, self.index, found);
        Some(())
    }

    /// Nobody asks for those up to this any more.
    pub fn forget_cuts(&mut self, number: u64) {
        let last = self.cuts.last_key_value().map(|(last, _)| *last);
        self.cuts.retain(|cut, _| *cut > number || Some(*cut) == last);
    }
}
