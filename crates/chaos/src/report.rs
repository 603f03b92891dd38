//! What is told of an experiment: in lines for a person, as JSON for a program, and as a page with a
//! timeline that opens without a network.

mod figures;
mod page;
mod text;

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::check::Violation;
use crate::experiment::Experiment;
use crate::faults::Happened;
use crate::timeline::Timeline;
use crate::{Error, Run};
pub use figures::{Figures, Settled};

/// Everything that is known of an experiment that is over. Instants are milliseconds since its load
/// began.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub seed: u64,
    /// What repeats it.
    pub command: String,
    pub nodes: usize,
    pub workloads: Vec<String>,
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

impl Report {
    pub(crate) fn new(
        experiment: &Experiment,
        nodes: usize,
        mut faults: Vec<Happened>,
        settled: Settled,
        timeline: Timeline,
        run: Run,
        mut violations: Vec<Violation>,
    ) -> Report {
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
            holds: violations.is_empty(),
            figures: Figures::of(&run, &faults, settled),
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
        let write = |name: &str, text: String| {
            let path = dir.join(name);
            fs::write(&path, text).map_err(Error::io(path.display().to_string()))
        };
        write("report.json", json(self)?)?;
        write("report.html", page::page(self)?)?;
        if !self.holds {
            write("history.json", json(&self.run)?)?;
        }
        Ok(())
    }
}

fn json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string_pretty(value).map_err(|error| Error::io("JSON")(error.into()))
}
