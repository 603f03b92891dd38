//! What is told of an experiment: in lines for a person, as JSON for a program, and as a page with a
//! timeline that opens without a network.

mod figures;
mod page;
mod text;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use crate::check::Violation;
use crate::experiment::Experiment;
use crate::faults::Happened;
use crate::timeline::Timeline;
use crate::{Error, Run};
pub use figures::{Figures, Settled, Tally};

/// Everything that is known of an experiment that is over. Instants are milliseconds since its load
/// began.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub seed: u64,
    /// What repeats it.
    pub command: String,
    pub nodes: usize,
    pub workloads: Vec<String>,
    /// It was stopped before its time: what is told is of the time until then.
    pub interrupted: bool,
    pub holds: bool,
    pub violations: Vec<Violation>,
    pub figures: Figures,
    pub faults: Vec<Happened>,
    #[serde(flatten)]
    pub timeline: Timeline,
    /// For whoever wants to know how a promise was broken; a file of its own.
    #[serde(skip)]
    run: Run,
}

/// What a report is made of.
pub(crate) struct Known {
    pub faults: Vec<Happened>,
    pub settled: Settled,
    pub timeline: Timeline,
    pub tally: Tally,
    /// The one that is written where a promise was broken.
    pub run: Run,
}

impl Report {
    pub(crate) fn new(
        experiment: &Experiment,
        nodes: usize,
        known: Known,
        mut violations: Vec<Violation>,
    ) -> Report {
        let Known { mut faults, settled, timeline, tally, run } = known;
        for fault in &mut faults {
            fault.begun_ms = fault.begun_ms.saturating_sub(settled.begun_ms);
            fault.ended_ms = fault.ended_ms.saturating_sub(settled.begun_ms);
        }
        violations.sort();
        Report {
            seed: experiment.seed,
            command: experiment.command.clone(),
            nodes,
            workloads: experiment.workloads.iter().map(|it| it.name().to_owned()).collect(),
            interrupted: false,
            holds: violations.is_empty(),
            figures: tally.finish(&faults, settled),
            violations,
            faults,
            timeline,
            run,
        }
    }

    /// Writes `report.json` and `report.html`, and where a promise was broken `history.json`, into a
    /// directory that is made if need be.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        fs::create_dir_all(dir).map_err(Error::io(dir.display().to_string()))?;
        write_json(&dir.join("report.json"), self)?;
        let page = dir.join("report.html");
        fs::write(&page, page::page(self)?).map_err(Error::io(page.display().to_string()))?;
        if !self.holds {
            write_json(&dir.join("history.json"), &self.run)?;
        }
        Ok(())
    }
}

/// Piece by piece: a history may be as large as memory has room for once.
fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut file, value)?;
        file.flush()
    };
    write().map_err(Error::io(path.display().to_string()))
}
