//! What matching costs, in units, so that it can be charged to the log entry it happens in. Reckoned from
//! the work done and never from a clock: every replica comes to the same.

/// Units of one operation: of a program, of a look-up, of a literal that is looked for.
const OPERATION: u64 = 16;

/// Units of matching: one for a byte of text looked at, 16 for an operation. On the machines of the
/// figures in the documents a unit takes one to three nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchCost(u64);

impl MatchCost {
    pub const fn units(self) -> u64 {
        self.0
    }

    pub(crate) fn operation(&mut self) {
        self.operations(1);
    }

    pub(crate) fn operations(&mut self, count: usize) {
        self.0 += OPERATION * count as u64;
    }

    pub(crate) fn bytes(&mut self, count: usize) {
        self.0 += count as u64;
    }
}
