//! How long what is missing is waited for.

use std::time::Duration;

use crate::file::LoadFile;
use crate::ledger::Ledger;
use crate::plan;
use crate::time_line::TimeLine;

/// With nothing coming for so long in the drain, what is missing will not come.
const QUIET: Duration = Duration::from_secs(10);
/// With nothing coming for so long before the drain's end, what is missing is taken for lost.
const STILL: Duration = Duration::from_secs(3);
/// An expiry may be applied so much later than it is due.
const EXPIRY_MARGIN: Duration = Duration::from_secs(2);

/// What is not known to have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Did not come, and cannot expire.
    pub immortal: u64,
    /// Did not come, and may expire.
    pub mortal: u64,
    /// Came, and is not settled.
    pub unfinished: u64,
}

impl Missing {
    pub fn of(ledger: &Ledger) -> Missing {
        let (immortal, mortal) = (ledger.missing(false), ledger.missing(true));
        Missing { immortal, mortal, unfinished: ledger.unfinished() }
    }
}

/// The drain of a run: from when nothing more is sent.
pub(crate) struct Drain {
    began: Duration,
    ends: Duration,
    quiet: Duration,
    /// Nobody's life lasts longer.
    dead_by: Duration,
    lapses: bool,
    found: u64,
    came_at: Duration,
}

impl Drain {
    pub fn begin(file: &LoadFile, line: &TimeLine) -> Drain {
        let began = line.now();
        Drain {
            began,
            ends: line.answers_end().max(began + STILL),
            quiet: QUIET + plan::longest_wait(file),
            dead_by: line.sending_ends() + plan::longest_life(file) + EXPIRY_MARGIN,
            lapses: file.consumers.iter().any(|of| of.lapse.0 > 0.0),
            found: 0,
            came_at: began,
        }
    }

    /// `found`: deliveries and dead letters so far. None: it goes on. Otherwise whether nothing more is to be
    /// expected, so that what is missing is lost.
    pub fn judge(&mut self, line: &TimeLine, found: u64, missing: &Missing) -> Option<bool> {
        let now = line.now();
        if found != self.found {
            (self.found, self.came_at) = (found, now);
        }
        let still = now.saturating_sub(self.came_at);
        if missing.immortal == 0
            && missing.unfinished == 0
            && (missing.mortal == 0 || now > self.dead_by)
        {
            return Some(true);
        }
        if still > self.quiet && !self.lapses {
            return Some(true);
        }
        let is_over = now > self.ends || (line.is_stopped() && still > STILL);
        is_over.then_some(still > STILL)
    }

    pub fn lasted(&self, line: &TimeLine) -> Duration {
        line.now().saturating_sub(self.began)
    }
}
