//! Load files: what is written, read and checked. This is the one place that knows the form.
//!
//! ```toml
//! thresholds = ["end_to_end.p99 < 50ms", "lost == 0"]
//!
//! [phases]
//! warm_up = "5s"
//! measure = "30s"
//!
//! [[queues]]
//! name = "orders-{run}"
//!
//! [[producers]]
//! to = "orders-{run}"
//! rate = "500 for 10s, 500..2000 over 20s"
//!
//! [[consumers]]
//! from = "orders-{run}"
//! ```

mod body;
mod check;
mod party;
mod phase;

#[cfg(test)]
mod tests;

use std::path::Path;

use definitions::Definitions;
use definitions::place::TomlFault;
use serde::Deserialize;
use toml::Spanned;

use crate::need::Need;
use crate::threshold::Threshold;
pub use body::{Attachments, Bodies};
pub use party::{Consumers, Mode, Pacing, Producers, PropertyText};
use party::{ConsumersText, ProducersText};
pub use phase::Phases;
use phase::PhasesText;

/// In a name: the run's number, so that runs do not meet.
const RUN: &str = "{run}";

/// A whole load, checked.
#[derive(Clone, Debug)]
pub struct LoadFile {
    /// What a report is called.
    pub name: String,
    /// Everything that is drawn is drawn from this.
    pub seed: u64,
    pub phases: Phases,
    /// To be created before and removed after.
    pub entities: Definitions,
    pub producers: Vec<Producers>,
    pub consumers: Vec<Consumers>,
    pub thresholds: Vec<Threshold>,
    /// What of it not every broker has.
    pub needs: Vec<Need>,
    pub source: FileSource,
    /// The files that bodies are taken from.
    pub attachments: Attachments,
}

/// What a load was read from: another generator reads the same from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileSource {
    pub name: String,
    pub text: String,
    /// Of this run, in names and in what it sends.
    pub run: u32,
    /// Measured for so long, whatever the file says.
    pub seconds: Option<f64>,
}

/// The file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: Option<String>,
    seed: Option<u64>,
    #[serde(default)]
    thresholds: Vec<Spanned<String>>,
    #[serde(default)]
    phases: PhasesText,
    #[serde(default)]
    queues: Vec<toml::Table>,
    #[serde(default)]
    topics: Vec<toml::Table>,
    #[serde(default)]
    producers: Vec<Spanned<ProducersText>>,
    #[serde(default)]
    consumers: Vec<Spanned<ConsumersText>>,
}

/// What is wrong with a file, in one line: its name, the line, the key, and what is allowed instead.
pub type FileFault = String;

impl LoadFile {
    /// Reads a file that is called `name`, for the run of this number. `seconds`: measured for so long, and all
    /// other phases and profiles of rates in proportion. Files that it names stand beside it.
    ///
    /// # Errors
    /// The first fault, in one line.
    pub fn parse(
        text: &str,
        name: &str,
        run: u32,
        seconds: Option<f64>,
    ) -> Result<LoadFile, FileFault> {
        LoadFile::parse_with(text, name, run, seconds, Attachments::beside(Path::new(name)))
    }

    /// As [`LoadFile::parse`], with the files that it names.
    ///
    /// # Errors
    /// The first fault, in one line.
    pub fn parse_with(
        text: &str,
        name: &str,
        run: u32,
        seconds: Option<f64>,
        attachments: Attachments,
    ) -> Result<LoadFile, FileFault> {
        let source = FileSource { name: name.to_owned(), text: text.to_owned(), run, seconds };
        let text =
            text.strip_prefix('\u{feff}').unwrap_or(text).replace(RUN, &format!("{run:08x}"));
        let document: Document =
            toml::from_str(&text).map_err(|error| TomlFault::of(&text, &error).told(name))?;
        check::Check { text: &text, name }.file(document, source, attachments)
    }
}
