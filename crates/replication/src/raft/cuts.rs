//! A group's rows as of a cut of the whole cluster, for whoever backs it up: pinned when the cut is applied here,
//! read in pieces, and let go of when nobody asks for them any more. In memory only: after a start there is none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::CutError;

/// Whoever has not asked for so long is gone. What is pinned keeps deleted rows on the disk.
pub(crate) const UNASKED_MAX: Duration = Duration::from_secs(60);
/// Cuts of a group that are waited for or held at a time.
const HELD_MAX: usize = 4;
/// Longest a cut is waited for, which a follower may be behind.
const APPLY_WAIT_MAX: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Cuts(Mutex<BTreeMap<u64, Held>>);

struct Held {
    asked: Instant,
    rows: watch::Sender<Rows>,
}

#[derive(Clone)]
enum Rows {
    /// The cut is to come.
    Expected,
    Pinned(Arc<Mutex<Pinned>>),
    Failed(String),
}

pub(crate) struct Pinned {
    rows: store::Export,
    /// The last key of the chunk that was handed out last; empty before the first.
    after: Bytes,
}

impl Cuts {
    /// From here on the rows are pinned as soon as a cut of this number, or a later one, is applied.
    pub fn expect(&self, number: u64, now: Instant) -> Result<(), CutError> {
        let mut held = self.0.lock();
        if held.len() >= HELD_MAX {
            return Err(CutError::Busy);
        }
        let rows = watch::Sender::new(Rows::Expected);
        held.insert(number, Held { asked: now, rows });
        Ok(())
    }

    /// Whether any cut is waited for.
    pub fn is_expecting(&self) -> bool {
        self.0.lock().values().any(Held::is_expected)
    }

    /// A cut was applied last, and these are the rows: for all that are waited for up to it.
    pub fn apply(&self, number: u64, export: impl Fn() -> Result<store::Export, store::Error>) {
        let held = self.0.lock();
        let expected = held.range(..=number).map(|(_, held)| held);
        for held in expected.filter(|held| held.is_expected()) {
            held.rows.send_replace(match export() {
                Ok(rows) => {
                    let after = Bytes::new();
                    Rows::Pinned(Arc::new(Mutex::new(Pinned { rows, after })))
                }
                Err(error) => Rows::Failed(error.to_string()),
            });
        }
    }

    /// The rows of a cut, once it was applied here.
    pub async fn pinned(&self, number: u64) -> Result<Arc<Mutex<Pinned>>, CutError> {
        let mut rows = {
            let mut held = self.0.lock();
            let held = held.get_mut(&number).ok_or(CutError::Unknown)?;
            held.asked = Instant::now();
            held.rows.subscribe()
        };
        let is_there = |rows: &Rows| !matches!(rows, Rows::Expected);
        let rows = match timeout(APPLY_WAIT_MAX, rows.wait_for(is_there)).await {
            Ok(rows) => rows.map_err(|_| CutError::Unknown)?,
            Err(_) => return Err(CutError::NotYet),
        };
        match &*rows {
            Rows::Expected => Err(CutError::NotYet),
            Rows::Failed(why) => Err(CutError::Failed(why.clone())),
            Rows::Pinned(pinned) => Ok(pinned.clone()),
        }
    }

    /// Somebody still wants it, and has not come to reading it.
    pub fn keep(&self, number: u64, now: Instant) -> Result<(), CutError> {
        let mut held = self.0.lock();
        held.get_mut(&number).ok_or(CutError::Unknown)?.asked = now;
        Ok(())
    }

    pub fn release(&self, number: u64) {
        self.0.lock().remove(&number);
    }

    /// Lets go of a cut that nobody has asked for; otherwise when to look again.
    pub fn release_unasked(&self, number: u64, now: Instant) -> Option<Instant> {
        let mut held = self.0.lock();
        let due = held.get(&number)?.asked + UNASKED_MAX;
        if due > now {
            return Some(due);
        }
        held.remove(&number);
        None
    }
}

impl Held {
    fn is_expected(&self) -> bool {
        matches!(*self.rows.borrow(), Rows::Expected)
    }
}

impl Pinned {
    /// The next rows behind a key, in the form of [`store::rows_in`]; `None` at the end. Waits for the disk.
    pub fn read(&mut self, after: Bytes) -> Result<Option<Bytes>, CutError> {
        let failed = |error: store::Error| CutError::Failed(error.to_string());
        if self.after != after {
            self.rows.resume_after(after.clone()).map_err(failed)?;
        }
        let chunk = self.rows.next_chunk().map_err(failed)?;
        let last = |chunk: &Bytes| {
            store::rows_in(chunk).flatten().last().map(|(key, _)| chunk.slice_ref(key))
        };
        self.after = chunk.as_ref().and_then(last).unwrap_or(after);
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cut_that_nobody_asks_for_is_let_go_of() {
        let (cuts, start) = (Cuts::default(), Instant::now());
        cuts.expect(7, start).expect("there is room");
        assert!(cuts.is_expecting());
        assert_eq!(cuts.release_unasked(7, start), Some(start + UNASKED_MAX));
        let later = start + UNASKED_MAX / 2;
        cuts.keep(7, later).expect("it is there");
        assert_eq!(cuts.release_unasked(7, start + UNASKED_MAX), Some(later + UNASKED_MAX));
        assert_eq!(cuts.release_unasked(7, later + UNASKED_MAX), None);
        assert!(!cuts.is_expecting());
        assert_eq!(cuts.keep(7, later), Err(CutError::Unknown));
        assert!(matches!(cuts.pinned(7).await, Err(CutError::Unknown)));
    }

    #[test]
    fn so_many_are_held_and_no_more() {
        let (cuts, now) = (Cuts::default(), Instant::now());
        for number in 1..=HELD_MAX as u64 {
            cuts.expect(number, now).expect("there is room");
        }
        assert_eq!(cuts.expect(9, now), Err(CutError::Busy));
        cuts.release(1);
        assert_eq!(cuts.expect(9, now), Ok(()));
    }

    /// One that cannot be had says why, whoever asks and however often.
    #[tokio::test]
    async fn a_later_cut_ends_the_wait_for_an_earlier_one() {
        let cuts = Cuts::default();
        for number in [3, 5, 8] {
            cuts.expect(number, Instant::now()).expect("there is room");
        }
        cuts.apply(5, || Err(store::Error::Stopped { reason: "a test".to_owned() }));
        for number in [3, 5] {
            assert!(matches!(cuts.pinned(number).await, Err(CutError::Failed(_))), "{number}");
        }
        assert!(cuts.is_expecting(), "the one that is still to come");
        cuts.release(8);
        assert!(!cuts.is_expecting());
    }
}
