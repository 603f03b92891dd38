//! Refusals are told, and whoever causes them by the thousand fills no disk with them.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often one refusal is told.
const EVERY_MS: u64 = 1_000;

/// Decides which refusals are written to the log: one a second, with the number of those that were
/// not.
#[derive(Debug, Default)]
pub struct Denials {
    /// When the next may be told, in the caller's milliseconds.
    next_ms: AtomicU64,
    untold: AtomicU64,
}

impl Denials {
    /// Counts a refusal. `Some`: tell it, and that so many before it were not told.
    pub fn count(&self, now_ms: u64) -> Option<u64> {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let is_due = now_ms >= next_ms;
        let told = is_due.then(|| {
            let then_ms = now_ms.saturating_add(EVERY_MS);
            self.next_ms.compare_exchange(next_ms, then_ms, Ordering::Relaxed, Ordering::Relaxed)
        });
        match told {
            Some(Ok(_)) => Some(self.untold.swap(0, Ordering::Relaxed)),
            // Not yet, or another thread tells its own at this moment.
            Some(Err(_)) | None => {
                self.untold.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refusal_a_second_is_told_with_the_number_of_the_others() {
        let denials = Denials::default();
        for (now_ms, told) in [
            (0, Some(0)),
            (1, None),
            (999, None),
            (1_000, Some(2)),
            (1_001, None),
            (9_000, Some(1)),
        ] {
            assert_eq!(denials.count(now_ms), told, "{now_ms}");
        }
    }
}
