//! Experiment files: what is written, read and checked. This is the one place that knows the form.
//!
//! ```toml
//! lasts = "8s"
//!
//! [[queues]]
//! name = "orders"
//!
//! [[programs]]
//! name = "worker"
//! command = ["python3", "worker.py"]
//! events = [{ at = "3s", do = "kill", lasts = "1s" }]
//!
//! [[sends]]
//! to = "orders"
//! count = 50
//!
//! [[invariants]]
//! kind = "settled"
//! entity = "orders"
//! within = "10s"
//! ```

mod check;
mod invariant;
mod node_fault;
mod program;
mod sends;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use chaos::FaultKind;
use definitions::place::TomlFault;
use definitions::{Definitions, duration};
use fault_rules::WrittenRule;
use serde::{Deserialize, Deserializer, de};

use invariant::InvariantText;
pub use invariant::{Invariant, ReplyKey};
pub use node_fault::NodeFault;
use node_fault::NodeFaultText;
use program::ProgramText;
pub use program::{Deed, ProgramSpec};
pub use sends::Sends;
use sends::SendsText;

/// In a name: the run's number, so that runs do not meet.
const RUN: &str = "{run}";

/// A whole experiment, checked.
#[derive(Clone, Debug)]
pub struct ExperimentFile {
    /// What a report is called.
    pub name: String,
    /// Where it stands: programs are started there, and paths are from there.
    pub directory: PathBuf,
    /// Everything that is drawn is drawn from this.
    pub seed: u64,
    /// Of this run, in names.
    pub run: u32,
    /// Of input, faults and events; what is hurt is healed after it.
    pub lasts: Duration,
    /// After the healing, before programs are ended: at least so long.
    pub settle: Duration,
    /// Of a cluster of its own.
    pub nodes: u64,
    /// To be created before and removed after.
    pub entities: Definitions,
    pub programs: Vec<ProgramSpec>,
    pub sends: Vec<Sends>,
    /// What clients are made to meet, from the beginning until the healing.
    pub rules: Vec<WrittenRule>,
    /// One after the other.
    pub node_faults: Vec<NodeFault>,
    pub drawn: Drawn,
    pub invariants: Vec<Invariant>,
}

/// What comes at times that are drawn from the seed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Drawn {
    /// Kinds of faults of nodes.
    pub node_faults: Vec<FaultKind>,
    /// Programs that are killed, and started again.
    pub programs: Vec<String>,
}

/// The file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: Option<String>,
    seed: Option<u64>,
    lasts: Option<TimeText>,
    settle: Option<TimeText>,
    #[serde(default)]
    cluster: ClusterText,
    #[serde(default)]
    queues: Vec<toml::Table>,
    #[serde(default)]
    topics: Vec<toml::Table>,
    #[serde(default)]
    programs: Vec<ProgramText>,
    #[serde(default)]
    sends: Vec<SendsText>,
    #[serde(default)]
    faults: Vec<WrittenRule>,
    #[serde(default)]
    node_faults: Vec<NodeFaultText>,
    #[serde(default)]
    drawn: Drawn,
    #[serde(default)]
    invariants: Vec<InvariantText>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ClusterText {
    nodes: Option<u64>,
}

/// A span of time, as `"30s"`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TimeText(Duration);

impl<'de> Deserialize<'de> for TimeText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<TimeText, D::Error> {
        let text = String::deserialize(from)?;
        duration::parse(&text).map(TimeText).map_err(de::Error::custom)
    }
}

/// What is wrong with a file, in one line: its name, the line, the key, and what is allowed instead.
pub type FileFault = String;

impl ExperimentFile {
    /// Reads a file that is called `name`, for the run of this number. `seed` goes before the file's; without either,
    /// the run's number is one.
    ///
    /// # Errors
    /// The first fault, in one line.
    pub fn parse(
        text: &str,
        name: &str,
        run: u32,
        seed: Option<u64>,
    ) -> Result<ExperimentFile, FileFault> {
        let text =
            text.strip_prefix('\u{feff}').unwrap_or(text).replace(RUN, &format!("{run:08x}"));
        let document: Document =
            toml::from_str(&text).map_err(|error| TomlFault::of(&text, &error).told(name))?;
        let parent = Path::new(name).parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new(".")).to_owned();
        check::Check { text: &text, name }.file(document, directory, run, seed)
    }
}
