//! Programs that are run, and what is done to them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::TimeText;

/// A program of somebody's own: one process, and those it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramSpec {
    /// With its number where there are several.
    pub name: String,
    /// As the file calls it and its like.
    pub kind: String,
    /// The program and its arguments; there is one.
    pub words: Vec<String>,
    pub directory: PathBuf,
    pub env: BTreeMap<String, String>,
    /// None: an event starts it.
    pub starts_at: Option<Duration>,
    /// When it has ended by itself, it is started again so much later.
    pub restarts_after: Option<Duration>,
    /// After SIGTERM, before SIGKILL.
    pub ends_within: Duration,
    /// In their order.
    pub events: Vec<ProgramEvent>,
}

/// Something that is done to a program at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramEvent {
    /// Since the beginning.
    pub at: Duration,
    pub deed: Deed,
    /// It is undone so much later.
    pub lasts: Option<Duration>,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// Where it does not run.
    Start,
    /// SIGTERM, and SIGKILL where that does not help.
    Stop,
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Pause,
    /// SIGCONT.
    Resume,
}

impl Deed {
    /// What undoes it.
    pub fn undone_by(self) -> Option<Deed> {
        match self {
            Deed::Stop | Deed::Kill => Some(Deed::Start),
            Deed::Pause => Some(Deed::Resume),
            Deed::Start | Deed::Resume => None,
        }
    }
}

/// As written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgramText {
    pub name: String,
    pub command: CommandText,
    pub directory: Option<PathBuf>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default = "one")]
    pub count: u32,
    pub start: Option<StartText>,
    pub restart: Option<TimeText>,
    pub end_within: Option<TimeText>,
    #[serde(default)]
    pub events: Vec<EventText>,
}

/// A line for a shell, or a program and its arguments.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "it is neither a line for sh nor a list of words")]
pub(super) enum CommandText {
    Line(String),
    Words(Vec<String>),
}

/// When it is started, or `"never"`: by an event.
#[derive(Debug)]
pub(super) struct StartText(pub Option<Duration>);

impl<'de> Deserialize<'de> for StartText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<StartText, D::Error> {
        let text = String::deserialize(from)?;
        match definitions::duration::parse_ms(&text).map_err(serde::de::Error::custom)? {
            definitions::duration::NEVER_MS => Ok(StartText(None)),
            ms => Ok(StartText(Some(Duration::from_millis(ms)))),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventText {
    pub at: TimeText,
    #[serde(rename = "do")]
    pub deed: Deed,
    pub lasts: Option<TimeText>,
}

fn one() -> u32 {
    1
}

/// SDKs close links and give messages back before they end.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

impl CommandText {
    /// The program and its arguments; empty where nothing is written.
    pub fn words(&self) -> Vec<String> {
        match self {
            CommandText::Words(words) => words.clone(),
            CommandText::Line(line) if line.trim().is_empty() => Vec::new(),
            // The shell gives way to a program that is all of the line.
            CommandText::Line(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
        }
    }
}

impl ProgramText {
    /// One for each that is to run.
    pub fn read(&self, directory: PathBuf) -> Vec<ProgramSpec> {
        let name = |number| match self.count {
            1 => self.name.clone(),
            _ => format!("{}-{number}", self.name),
        };
        let mut events: Vec<ProgramEvent> = self
            .events
            .iter()
            .map(|of| ProgramEvent {
                at: of.at.0,
                deed: of.deed,
                lasts: of.lasts.map(|time| time.0),
            })
            .collect();
        events.sort_by_key(|event| event.at);
        let spec = |number| ProgramSpec {
            name: name(number),
            kind: self.name.clone(),
            words: self.command.words(),
            directory: directory.clone(),
            env: self.env.clone(),
            starts_at: self.start.as_ref().map_or(Some(Duration::ZERO), |start| start.0),
            restarts_after: self.restart.map(|time| time.0),
            ends_within: self.end_within.map_or(ENDS_WITHIN, |time| time.0),
            events: events.clone(),
        };
        (1..=self.count).map(spec).collect()
    }
}
