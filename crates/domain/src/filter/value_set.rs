//! The list of an IN whose values are known beforehand: a value is looked up, however long the list.

use super::index::hash;
use super::operand::{Operand, OperandView, equal};
use crate::{MatchCost, Value};

/// The bit of a null among the kinds of values: it compares with none.
const NULL: u8 = 1 << 7;

/// Values by the hash of each.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ValueSet {
    /// In order of the hashes. Nulls are not among them.
    values: Vec<(u64, Value)>,
    /// Every kind of value there is, as [`OperandView::kind`] has it.
    kinds: u8,
}

impl ValueSet {
    pub fn new(list: impl IntoIterator<Item = Value>) -> ValueSet {
        let mut set = ValueSet { values: Vec::new(), kinds: 0 };
        for value in list {
            match hash(&Operand::borrowed(&value)) {
                Some(hash) => {
                    set.kinds |= OperandView::of(&value).map_or(NULL, |view| view.kind());
                    set.values.push((hash, value));
                }
                None => set.kinds |= NULL,
            }
        }
        set.values.sort_by_key(|(hash, _)| *hash);
        set
    }

    /// True if the value equals one; unknown if it may, because it or one of them is null, or of a type
    /// that does not compare [choice, SQL-92: as a row of `=` joined by OR].
    pub fn contains(&self, value: &Operand<'_>, cost: &mut MatchCost) -> Option<bool> {
        cost.bytes(value.bytes());
        let (hash, kind) = (hash(value)?, value.view()?.kind());
        let from = self.values.partition_point(|(other, _)| *other < hash);
        let alike = self.values[from..].iter().take_while(|(other, _)| *other == hash);
        for (_, other) in alike {
            cost.operation();
            cost.bytes(value.bytes());
            if equal(other, value) {
                return Some(true);
            }
        }
        (self.kinds & !kind == 0).then_some(false)
    }
}
