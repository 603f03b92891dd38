//! What came of a run.

use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

/// What happened: a life in which nothing did proves nothing. Time is the cluster's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RealReport {
    pub digest: u64,
    pub seconds: u64,
    pub entries: u64,
    pub acknowledged: u64,
    pub completed: u64,
    pub unknown: u64,
    pub reads: u64,
    pub leaders: u64,
    pub crashes: u64,
    pub writes_lost: u64,
    pub wipes: u64,
    pub cuts: u64,
    pub holds: u64,
    pub resets: u64,
    pub slow: u64,
    pub transfers: u64,
    pub stops: u64,
    pub returns: u64,
    pub moves: u64,
    pub naps: u64,
}

const DIGEST: &str = "digest";
/// Messages whose producer was forgotten, or whose completion had no answer: rare.
const UNKNOWN: &str = "unknown";
/// Only where there are spare nodes.
const MOVES: &str = "replicas moved";
/// Only where it is asked for.
const NAPS: &str = "naps";

impl RealReport {
    fn counts(&mut self) -> [(&'static str, &mut u64); 19] {
        [
            ("seconds", &mut self.seconds),
            ("entries", &mut self.entries),
            ("acknowledged", &mut self.acknowledged),
            ("completed", &mut self.completed),
            (UNKNOWN, &mut self.unknown),
            ("reads", &mut self.reads),
            ("leaders", &mut self.leaders),
            ("crashes", &mut self.crashes),
            ("unsynced writes lost", &mut self.writes_lost),
            ("disks wiped", &mut self.wipes),
            ("logs cut", &mut self.cuts),
            ("cuts of the network", &mut self.holds),
            ("connections broken", &mut self.resets),
            ("slow links and disks", &mut self.slow),
            ("leaders asked to go", &mut self.transfers),
            ("stops in order", &mut self.stops),
            ("nodes rebuilt", &mut self.returns),
            (MOVES, &mut self.moves),
            (NAPS, &mut self.naps),
        ]
    }

    /// What many runs together must have seen, per run on average. Names what fell short.
    pub fn shortfalls(mut self, seeds: u64) -> Vec<String> {
        let counts = self.counts().into_iter();
        let counts = counts.filter(|(name, _)| ![UNKNOWN, MOVES, NAPS].contains(name));
        let short = counts.filter(|(_, count)| **count < seeds / 2);
        short.map(|(name, count)| format!("{name}: {count}, in {seeds} runs")).collect()
    }

    /// Faults of all kinds.
    pub fn faults(&self) -> u64 {
        let RealReport { crashes, wipes, cuts, holds, resets, slow, transfers, stops, .. } = self;
        crashes + wipes + cuts + holds + resets + slow + transfers + stops
    }
}

impl AddAssign for RealReport {
    /// Sums; digests are folded.
    fn add_assign(&mut self, mut other: RealReport) {
        self.digest = self.digest.rotate_left(7) ^ other.digest;
        for ((_, sum), (_, count)) in self.counts().into_iter().zip(other.counts()) {
            *sum += *count;
        }
    }
}

impl fmt::Display for RealReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut copy = *self;
        for (name, count) in copy.counts() {
            write!(f, "{name} {count}, ")?;
        }
        write!(f, "{DIGEST} {:016x}", self.digest)
    }
}

impl FromStr for RealReport {
    type Err = ();

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<RealReport, ()> {
        let mut report = RealReport::default();
        for part in text.split(", ") {
            let (name, value) = part.rsplit_once(' ').ok_or(())?;
            if name == DIGEST {
                report.digest = u64::from_str_radix(value, 16).map_err(|_| ())?;
                continue;
            }
            let mut counts = report.counts().into_iter();
            let (_, count) = counts.find(|(known, _)| *known == name).ok_or(())?;
            *count = value.parse().map_err(|_| ())?;
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_is_written() {
        let report = RealReport { digest: 0xabc, entries: 7, returns: 9, ..Default::default() };
        assert_eq!(report.to_string().parse(), Ok(report));
        assert!("entries".parse::<RealReport>().is_err());
    }
}
