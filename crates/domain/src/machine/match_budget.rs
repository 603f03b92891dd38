//! What the matching of the commands behind a `LimitMatching` may take together.

use crate::{COPIES_MAX, MatchCost};

pub(super) struct MatchBudget {
    units_left: u64,
    copies_left: u64,
}

impl MatchBudget {
    /// So many units, and as many copies as an entry may write.
    pub fn of(units_max: u64) -> MatchBudget {
        MatchBudget { units_left: units_max, copies_left: COPIES_MAX }
    }

    /// Where there is none.
    pub fn endless() -> MatchBudget {
        MatchBudget { units_left: u64::MAX, copies_left: u64::MAX }
    }

    pub fn is_spent(&self) -> bool {
        !self.affords(MatchCost::default(), 0)
    }

    /// Whether something is left after this.
    pub fn affords(&self, cost: MatchCost, copies: usize) -> bool {
        cost.units() < self.units_left && (copies as u64) < self.copies_left
    }

    /// What was begun is paid as far as there is something left.
    pub fn charge(&mut self, cost: MatchCost, copies: usize) {
        self.units_left = self.units_left.saturating_sub(cost.units());
        self.copies_left = self.copies_left.saturating_sub(copies as u64);
    }
}
