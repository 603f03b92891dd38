//! What is told of a run: in lines for a person, as JSON for a program, and as a page that opens without a network.

mod life_line;
mod page;
mod picture;
mod text;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use chaos::Happened;
use client::HistoryGap;
use serde::Serialize;

use crate::checks::{Evidence, Finding, check};
use crate::feed::Fed;
use crate::file::{ExperimentFile, Invariant};
use crate::lives::Lives;
use crate::program::last_lines;
use crate::rules::RuleMet;
use crate::timeline::{Moment, MomentKind};
use life_line::{LifeLine, Surroundings};
use picture::{EntityPicture, pictures};

/// Failures of one invariant that are told with their messages; all are counted.
const EXAMPLES_MAX: usize = 100;
/// Messages of one failure that are told.
const MESSAGES_MAX: usize = 20;

/// Whether something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Held,
    Broken,
    /// Part of the record is lost, or the run was ended before it could be seen.
    Unknown,
}

/// One invariant and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    pub invariant: String,
    pub verdict: Verdict,
    /// Messages that it was about.
    pub messages: usize,
    pub failure_count: usize,
    /// The first of them.
    pub failures: Vec<Example>,
}

/// A failure and the messages that show it.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    pub told: String,
    pub messages: Vec<LifeLine>,
}

/// A program and what it went through.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramReport {
    pub name: String,
    pub command: String,
    pub log: String,
    /// What it said last.
    pub last_lines: Vec<String>,
}

/// Part of the record that no node has.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Gap {
    pub group: u32,
    pub first_index: u64,
    pub last_index: u64,
}

/// Everything that is known of a run that is over. Times are milliseconds since its beginning, by the cluster's clock.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub name: String,
    pub seed: u64,
    /// What repeats it.
    pub command: String,
    /// Since 1970.
    pub started_at_ms: u64,
    pub nodes: usize,
    pub interrupted: bool,
    pub verdict: Verdict,
    /// Why the cluster was not whole again after the faults.
    pub not_whole: Option<String>,
    pub healed_ms: u64,
    pub ended_ms: u64,
    pub gaps: Vec<Gap>,
    pub invariants: Vec<Judgement>,
    pub programs: Vec<ProgramReport>,
    pub moments: Vec<Moment>,
    pub node_faults: Vec<Happened>,
    pub faults: Vec<RuleMet>,
    pub sent: Vec<Fed>,
    pub entities: Vec<EntityPicture>,
}

/// What a report is made from. Times are the cluster's.
pub struct Known<'a> {
    pub file: &'a ExperimentFile,
    pub command: String,
    pub started: SystemTime,
    pub nodes: usize,
    pub interrupted: bool,
    pub begun_ms: u64,
    pub healed_ms: u64,
    pub now_ms: u64,
    pub whole: Option<String>,
    pub lives: &'a Lives,
    pub gaps: Vec<HistoryGap>,
    pub moments: Vec<Moment>,
    pub node_faults: Vec<Happened>,
    pub rules: Vec<RuleMet>,
    pub fed: Vec<Fed>,
    pub logs: PathBuf,
}

impl Report {
    pub fn new(known: Known<'_>) -> Report {
        let Known { file, begun_ms, healed_ms, now_ms, lives, .. } = known;
        let evidence = Evidence { lives, moments: &known.moments, healed_ms, now_ms };
        let around = Surroundings {
            begun_ms,
            moments: &known.moments,
            node_faults: &known.node_faults,
            healed_ms,
        };
        let findings: Vec<(&Invariant, Finding<'_>)> =
            file.invariants.iter().map(|of| (of, check(of, evidence))).collect();
        let has_gaps = !known.gaps.is_empty();
        let invariants: Vec<Judgement> = findings
            .iter()
            .map(|(invariant, finding)| judge(invariant, finding, has_gaps, &around))
            .collect();
        let entities = pictures(&findings, lives, begun_ms);
        let since = |at_ms: u64| at_ms.saturating_sub(begun_ms);
        let moments = known.moments.iter();
        let moments = moments.map(|of| Moment { at_ms: since(of.at_ms), ..of.clone() }).collect();
        let node_faults = known.node_faults.iter().map(|of| Happened {
            begun_ms: since(of.begun_ms),
            ended_ms: since(of.ended_ms),
            ..of.clone()
        });
        let programs = file.programs.iter().map(|spec| {
            let log = known.logs.join(format!("{}.log", spec.name));
            ProgramReport {
                name: spec.name.clone(),
                command: spec.words.join(" "),
                last_lines: last_lines(&log),
                log: log.display().to_string(),
            }
        });
        let gap = |of: HistoryGap| {
            let HistoryGap { group, first_index, last_index } = of;
            Gap { group, first_index, last_index }
        };
        let started = known.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        Report {
            name: file.name.clone(),
            seed: file.seed,
            command: known.command,
            started_at_ms: started.as_millis() as u64,
            nodes: known.nodes,
            interrupted: known.interrupted,
            verdict: verdict_of(&invariants, has_gaps, known.whole.is_some()),
            not_whole: known.whole,
            healed_ms: since(healed_ms),
            ended_ms: since(now_ms),
            gaps: known.gaps.into_iter().map(gap).collect(),
            programs: programs.collect(),
            moments,
            node_faults: node_faults.collect(),
            faults: known.rules,
            sent: known.fed,
            entities,
            invariants,
        }
    }

    /// Writes `report.json` and `report.html` into a directory that is there.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        std::fs::write(dir.join("report.json"), serde_json::to_string_pretty(self)? + "\n")?;
        std::fs::write(dir.join("report.html"), page::page(self)?)
    }

    /// How often programs were started.
    pub fn starts(&self) -> usize {
        self.moments.iter().filter(|moment| moment.kind == MomentKind::Started).count()
    }
}

/// A record with a gap proves nothing either way, whatever is missing in it or seems to be there twice.
fn judge(
    invariant: &Invariant,
    finding: &Finding<'_>,
    has_gaps: bool,
    around: &Surroundings<'_>,
) -> Judgement {
    let verdict = match (finding.failures.is_empty(), finding.open_until_ms) {
        _ if has_gaps => Verdict::Unknown,
        (false, _) => Verdict::Broken,
        (true, Some(_)) => Verdict::Unknown,
        (true, None) => Verdict::Held,
    };
    let examples = finding.failures.iter().take(EXAMPLES_MAX).map(|failure| Example {
        told: failure.told.clone(),
        messages: failure
            .lives
            .iter()
            .take(MESSAGES_MAX)
            .map(|life| LifeLine::of(life, around))
            .collect(),
    });
    Judgement {
        invariant: invariant.to_string(),
        verdict,
        messages: finding.about,
        failure_count: finding.failures.len(),
        failures: examples.collect(),
    }
}

fn verdict_of(invariants: &[Judgement], has_gaps: bool, is_hurt: bool) -> Verdict {
    match () {
        () if invariants.iter().any(|of| of.verdict == Verdict::Broken) => Verdict::Broken,
        // What programs did not get to do may be the cluster's doing.
        () if has_gaps || is_hurt => Verdict::Unknown,
        () if invariants.iter().any(|of| of.verdict == Verdict::Unknown) => Verdict::Unknown,
        () => Verdict::Held,
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Held => "held",
            Verdict::Broken => "BROKEN",
            Verdict::Unknown => "UNKNOWN",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::tests::{accepted, completed, lives};

    /// The report of a run in which one message was to be completed by 5 s, seen at 7 s.
    fn report(is_completed: bool, healed_ms: u64, lost: bool, whole: Option<&str>) -> Report {
        let text = "[[sends]]\nto = \"q\"\ncount = 1\n\
                    [[invariants]]\nkind = \"settled\"\nentity = \"q\"\nwithin = \"5s\"\n\
                    [[invariants]]\nkind = \"backlog-cleared\"\nentity = \"q\"\nwithin = \"5s\"\n";
        let file = ExperimentFile::parse(text, "f.toml", 1, None).expect("it is right");
        let mut events = vec![(1_000, "q", 1, accepted("a"))];
        events.extend(is_completed.then(|| (2_000, "q", 1, completed())));
        Report::new(Known {
            file: &file,
            command: String::new(),
            started: UNIX_EPOCH,
            nodes: 1,
            interrupted: false,
            begun_ms: 1_000,
            healed_ms,
            now_ms: 8_000,
            whole: whole.map(str::to_owned),
            lives: &lives(events),
            gaps: Vec::from_iter(lost.then_some(HistoryGap {
                group: 1,
                first_index: 2,
                last_index: 3,
            })),
            moments: Vec::new(),
            node_faults: Vec::new(),
            rules: Vec::new(),
            fed: Vec::new(),
            logs: PathBuf::new(),
        })
    }

    #[test]
    fn what_nobody_saw_is_unknown() {
        use Verdict::{Broken, Held, Unknown};
        for (is_completed, healed_ms, lost, whole, each, all) in [
            (true, 2_500, false, None, [Held, Held], Held),
            (false, 2_500, false, None, [Broken, Broken], Broken),
            // One of them may still come true.
            (false, 7_000, false, None, [Broken, Unknown], Broken),
            (true, 2_500, true, None, [Unknown, Unknown], Unknown),
            (false, 2_500, true, None, [Unknown, Unknown], Unknown),
            (true, 2_500, false, Some("node 1 is down"), [Held, Held], Unknown),
            (false, 2_500, false, Some("node 1 is down"), [Broken, Broken], Broken),
        ] {
            let report = report(is_completed, healed_ms, lost, whole);
            let found: Vec<Verdict> = report.invariants.iter().map(|of| of.verdict).collect();
            assert_eq!((&found[..], report.verdict), (&each[..], all), "{report}");
        }
        let told = report(false, 2_500, true, None).to_string();
        assert!(told.contains("the record of group 1 lacks entries 2 to 3"), "{told}");
        assert!(told.ends_with("whether every invariant held is unknown"), "{told}");
    }
}
