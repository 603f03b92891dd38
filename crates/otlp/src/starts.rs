//! Since when counters count: an OTLP sum says so, and a page does not.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use crate::exposition::Label;

/// What the last page had, and when. Nanoseconds since the Unix epoch.
pub struct Starts {
    last_page_at: u64,
    hasher: RandomState,
    /// By the hash of what a series is called: pages have ten thousands of them. Of two with one hash, one may be told
    /// to have begun when the other did.
    known: HashMap<u64, Known>,
    /// What the page has that is being read.
    found: HashMap<u64, Known>,
}

#[derive(Clone, Copy)]
struct Known {
    count: f64,
    since: u64,
}

impl Starts {
    /// What is on the first page counts since the process started.
    pub fn new(process_started: u64) -> Starts {
        let (known, found) = (HashMap::new(), HashMap::new());
        Starts { last_page_at: process_started, hasher: RandomState::new(), known, found }
    }

    /// Since when a series counts that is at `count` now. One that is new, or at less than it was, as that of an entity
    /// that went and came back, began after the last page.
    pub fn since(&mut self, name: &str, labels: &[Label<'_>], count: f64) -> u64 {
        let series = self.hasher.hash_one((name, labels));
        let since = match self.known.get(&series) {
            Some(known) if known.count <= count => known.since,
            _ => self.last_page_at,
        };
        self.found.insert(series, Known { count, since });
        since
    }

    /// The page has been read, which was of that time.
    pub fn turn(&mut self, at: u64) {
        self.last_page_at = at;
        self.known = std::mem::take(&mut self.found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_counts_since_the_page_before_its_first() {
        let mut starts = Starts::new(10);
        let orders = [("entity", "orders".into())];
        for (at, name, labels, count, since) in [
            (20, "a", &[][..], 5.0, 10),
            (30, "a", &[], 5.0, 10),
            (40, "a", &orders, 1.0, 30), // Another series.
            (50, "a", &orders, 2.0, 30),
            (60, "a", &orders, 1.0, 50), // It began anew.
            (70, "b", &orders, 9.0, 60),
            (80, "a", &orders, 7.0, 70), // It was gone.
        ] {
            assert_eq!(starts.since(name, labels, count), since, "{at}");
            starts.turn(at);
        }
    }
}
