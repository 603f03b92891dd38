//! One process per node. Two that call themselves by one number, by a slip in a configuration or
//! over a copied disk, would undo each other's votes; so each node keeps a registry of which process it
//! hears as which peer, and the one that came later is refused for as long as the first lives.
//!
//! A restart looks the same at first: another process. What tells them apart is that the former one
//! falls silent, for every node asks every other for its clocks once a second.
//!
//! A process that comes with less than was written to its directory before is over an old copy of it, which
//! has forgotten votes and entries that were counted on: it is refused for ever.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use store::Written;
use tokio::time::Instant;

use crate::Run;

/// A process unheard for this long has ended: three of its questions did not come.
const SILENT_AFTER: Duration = Duration::from_secs(3);
/// A process heard this long after another took up its number lives beside it: what a process sent
/// before it ended has been read by then.
const BESIDE_AFTER: Duration = Duration::from_millis(1500);

/// One run of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Of its data directory. Two with the same one follow each other, as long as nobody copies it:
    /// the directory is locked.
    pub directory_id: u32,
    /// Drawn at its start.
    pub run: u64,
}

impl Process {
    /// As what a process holds is marked with.
    pub fn short(&self) -> Run {
        Run::new((self.run >> 32) as u32).unwrap_or(Run::MIN)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{:016x}", self.directory_id, self.run)
    }
}

impl FromStr for Process {
    type Err = ();

    fn from_str(text: &str) -> Result<Process, ()> {
        let (directory_id, run) = text.split_once('-').ok_or(())?;
        let directory_id = u32::from_str_radix(directory_id, 16).map_err(|_| ())?;
        let run = u64::from_str_radix(run, 16).map_err(|_| ())?;
        Ok(Process { directory_id, run })
    }
}

/// What is said to a process that speaks as a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is that node.
    Granted,
    /// It has other data than the process heard a moment ago, which may live: ask again.
    Doubtful,
    /// Another process is that node.
    Taken,
    /// Its directory holds less than it once did.
    Outdated,
}

struct Registration {
    holder: Process,
    heard: Instant,
    /// Who else speaks as this node, and since when.
    rival: Option<(Process, Instant)>,
}

/// What was last written to a node's directory, as it said.
#[derive(Clone, Copy)]
struct HeardWrites {
    written: Written,
    /// Of the process that said so; none if one of before this node's own start did.
    run: Option<u64>,
}

/// Which process is which node.
#[derive(Default)]
pub(crate) struct ProcessRegistry {
    registrations: BTreeMap<u64, Registration>,
    heard: BTreeMap<u64, HeardWrites>,
}

impl ProcessRegistry {
    /// One that remembers what nodes had written ([`ProcessRegistry::written`]).
    pub fn new(written: BTreeMap<u64, Written>) -> ProcessRegistry {
        let heard = |(node, written)| (node, HeardWrites { written, run: None });
        ProcessRegistry {
            registrations: BTreeMap::new(),
            heard: written.into_iter().map(heard).collect(),
        }
    }

    /// What each node has written, as far as it was heard.
    pub fn written(&self) -> BTreeMap<u64, Written> {
        self.heard.iter().map(|(node, heard)| (*node, heard.written)).collect()
    }

    /// A process spoke as this node. `writes`: so many are in its directory
    /// ([`store::LogDisk::synced_writes`]), if it says so.
    pub fn claim(
        &mut self,
        node: u64,
        process: Process,
        writes: Option<u64>,
        now: Instant,
    ) -> Claim {
        if writes.is_some_and(|writes| self.is_outdated(node, process, writes)) {
            return Claim::Outdated;
        }
        let claim = self.claim_place(node, process, now);
        if let (Claim::Granted, Some(writes)) = (claim, writes) {
            self.hear(node, process, writes);
        }
        claim
    }

    /// Whether a process comes with less than an earlier one over the same directory had. Its own words may
    /// overtake each other, and whoever holds the place needs no proof.
    fn is_outdated(&self, node: u64, process: Process, writes: u64) -> bool {
        let holds = self.registrations.get(&node).is_some_and(|known| known.holder == process);
        !holds
            && self.heard.get(&node).is_some_and(|heard| {
                heard.written.directory_id == process.directory_id
                    && heard.run != Some(process.run)
                    && writes < heard.written.writes
            })
    }

    fn hear(&mut self, node: u64, process: Process, writes: u64) {
        let directory_id = process.directory_id;
        let before = self.heard.get(&node).map(|heard| heard.written);
        let before = before.filter(|written| written.directory_id == directory_id);
        let writes = before.map_or(writes, |written| written.writes.max(writes));
        let written = Written { directory_id, writes };
        self.heard.insert(node, HeardWrites { written, run: Some(process.run) });
    }

    fn claim_place(&mut self, node: u64, process: Process, now: Instant) -> Claim {
        let taken = Registration { holder: process, heard: now, rival: None };
        let Some(registration) = self.registrations.get_mut(&node) else {
            self.registrations.insert(node, taken);
            return Claim::Granted;
        };
        if registration.holder == process {
            registration.heard = now;
            return Claim::Granted;
        }
        if now.duration_since(registration.heard) >= SILENT_AFTER {
            *registration = taken;
            return Claim::Granted;
        }
        let since = match registration.rival {
            Some((rival, since)) if rival == process => since,
            _ => {
                registration.rival = Some((process, now));
                now
            }
        };
        if registration.heard.saturating_duration_since(since) >= BESIDE_AFTER {
            return Claim::Taken;
        }
        // The same data are locked by whoever has them: their last process has ended.
        match process.directory_id == registration.holder.directory_id {
            true => Claim::Granted,
            false => Claim::Doubtful,
        }
    }

    /// Which process is this node now, as what was heard so far has it: one over the same data follows the
    /// one before, unless that is heard beside it.
    pub fn current(&self, node: u64) -> Option<Process> {
        let Registration { holder, heard, rival } = self.registrations.get(&node)?;
        match rival {
            Some((rival, since))
                if rival.directory_id == holder.directory_id
                    && heard.saturating_duration_since(*since) < BESIDE_AFTER =>
            {
                Some(*rival)
            }
            _ => Some(*holder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Claim::*;

    const OLD: Process = Process { directory_id: 7, run: 1 };
    const AGAIN: Process = Process { directory_id: 7, run: 2 };
    const OTHER: Process = Process { directory_id: 8, run: 3 };

    fn check(claims: &[(u64, Process, Claim)]) {
        let (mut registry, start) = (ProcessRegistry::default(), Instant::now());
        for (index, (at_ms, process, expected)) in claims.iter().enumerate() {
            let claim = registry.claim(2, *process, None, start + Duration::from_millis(*at_ms));
            assert_eq!(claim, *expected, "claim {index} of {claims:?}");
        }
    }

    #[test]
    fn a_restart_is_let_in_at_once() {
        check(&[(0, OLD, Granted), (100, AGAIN, Granted), (2000, AGAIN, Granted)]);
        // Also where something of the former process was read late.
        check(&[(0, OLD, Granted), (100, AGAIN, Granted), (300, OLD, Granted)]);
        check(&[(0, OLD, Granted), (100, AGAIN, Granted), (3100, AGAIN, Granted)]);
    }

    #[test]
    fn a_node_with_an_empty_disk_is_let_in_once_its_former_process_is_silent() {
        check(&[
            (0, OLD, Granted),
            (100, OTHER, Doubtful),
            (2900, OTHER, Doubtful),
            (3000, OTHER, Granted),
            (3100, OLD, Doubtful),
        ]);
    }

    #[test]
    fn who_comes_second_is_refused_while_the_first_lives() {
        for second in [AGAIN, OTHER] {
            let at_first = if second == AGAIN { Granted } else { Doubtful };
            check(&[
                (0, OLD, Granted),
                (500, second, at_first),
                (1000, OLD, Granted),
                (1500, second, at_first),
                (2000, OLD, Granted),
                (2100, second, Taken),
                (4900, second, Taken),
                // And takes its place when it is gone.
                (5000, second, Granted),
            ]);
        }
    }

    #[test]
    fn lock_28_the_current_process_is_the_one_that_came_last_and_is_let_in() {
        let (mut registry, start) = (ProcessRegistry::default(), Instant::now());
        let mut heard = |at_ms, process| {
            registry.claim(2, process, None, start + Duration::from_millis(at_ms));
            registry.current(2)
        };
        assert_eq!(heard(0, OLD), Some(OLD));
        assert_eq!(heard(100, OTHER), Some(OLD), "it is not let in yet");
        assert_eq!(heard(200, AGAIN), Some(AGAIN));
        assert_eq!(heard(300, OLD), Some(AGAIN), "what was read late");
        assert_eq!(heard(1800, OLD), Some(OLD), "it lives beside it");
        assert_eq!(heard(4800, AGAIN), Some(AGAIN), "and then it is silent");
    }

    #[test]
    fn an_old_copy_of_a_directory_is_known_by_what_is_not_in_it() {
        let third = Process { run: 4, ..OLD };
        let remembered = BTreeMap::from([(2, Written { directory_id: 7, writes: 50 })]);
        for (before, claims) in [
            // As it was left, and as it was before.
            (None, vec![(0, OLD, 10, Granted), (0, OLD, 40, Granted), (100, AGAIN, 40, Granted)]),
            (None, vec![(0, OLD, 40, Granted), (100, AGAIN, 39, Outdated)]),
            // However long it takes, and whoever it says to be.
            (None, vec![(0, OLD, 40, Granted), (99_000, AGAIN, 39, Outdated)]),
            (
                None,
                vec![
                    (0, OLD, 40, Granted),
                    (9_000, AGAIN, 41, Granted),
                    (19_000, third, 40, Outdated),
                ],
            ),
            // Its calls overtake each other, before it has the place and after.
            (
                None,
                vec![
                    (0, OLD, 40, Granted),
                    (100, AGAIN, 42, Granted),
                    (101, AGAIN, 41, Granted),
                    (102, OLD, 39, Granted),
                    (4_000, AGAIN, 45, Granted),
                    (4_001, AGAIN, 44, Granted),
                    (9_000, third, 44, Outdated),
                ],
            ),
            // A directory that was made anew begins anew.
            (None, vec![(0, OLD, 40, Granted), (9_000, OTHER, 3, Granted)]),
            // Heard of by a process that has ended since.
            (Some(&remembered), vec![(0, OLD, 50, Granted)]),
            (Some(&remembered), vec![(0, OLD, 49, Outdated), (1, AGAIN, 60, Granted)]),
            (Some(&remembered), vec![(0, OTHER, 1, Granted)]),
        ] {
            let mut registry = ProcessRegistry::new(before.cloned().unwrap_or_default());
            let start = Instant::now();
            for (index, (at_ms, process, writes, expected)) in claims.iter().enumerate() {
                let at = start + Duration::from_millis(*at_ms);
                let claim = registry.claim(2, *process, Some(*writes), at);
                assert_eq!(claim, *expected, "claim {index} of {claims:?}");
            }
        }
        // Nobody is refused over what he does not say.
        let mut registry = ProcessRegistry::new(remembered.clone());
        assert_eq!(registry.claim(2, OLD, None, Instant::now()), Granted);
        assert_eq!(registry.written(), remembered);
    }

    #[test]
    fn a_process_is_told_in_text_and_read_again() {
        assert_eq!(OTHER.to_string().parse(), Ok(OTHER));
        for text in ["", "7", "7-", "x-1", "7-1-2", "-"] {
            assert!(text.parse::<Process>().is_err(), "{text}");
        }
    }
}
