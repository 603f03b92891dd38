//! What is due is done while a leader stamps and its entries commit.

use domain::Timestamp;

use crate::report::{Broken, Holds};

/// A round takes a few ticks, may be dropped, and takes a bounded part of what is due at one
/// instant; so many ticks in which the group got on are more than enough for the oldest.
const TICKS_MAX: u32 = 150;

/// The oldest deadline of a leader that is due, and the ticks it has been so.
#[derive(Default)]
pub struct Lateness {
    oldest: Option<(u64, Timestamp)>,
    ticks: u32,
}

impl Lateness {
    /// A tick in which entries of this leadership epoch were committed.
    pub fn tick(&mut self, epoch: u64, due: Option<Timestamp>, clock: Timestamp) -> Holds {
        let oldest = due.filter(|due| *due <= clock).map(|due| (epoch, due));
        if oldest.is_none() || oldest != self.oldest {
            (self.oldest, self.ticks) = (oldest, 0);
            return Ok(());
        }
        self.ticks += 1;
        match self.ticks <= TICKS_MAX {
            true => Ok(()),
            false => {
                let what = format!("{due:?} is due at {clock:?} for {} ticks", self.ticks);
                Err(Broken { invariant: "lateness", source: "TIME-8, TTL-22, SCHED-5", what })
            }
        }
    }
}
