//! What is written: a thread of its own takes records from a bounded queue and writes them to a file, to
//! the log, or to both.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Unit, counter, describe_counter};
use service::Events;

use crate::action::Action;
use crate::outcome::Outcome;
use crate::record::{Line, Record};

/// By `outcome`: written, dropped, failed.
const RECORDS: &str = "mayfly_audit_records_total";
/// Only the node's user reads it: it names keys and addresses.
const MODE: u32 = 0o600;

/// Where records go.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Lines of JSON are added to it; it is opened anew when that is asked for.
    pub file: Option<PathBuf>,
    /// Also to the log, with the target `audit`.
    pub log: bool,
    /// This node's number.
    pub node: u64,
    /// Wrong keys that one address may send for one key name, see [`auth::Guesses`]; 0: any number.
    pub wrong_keys_per_minute: u32,
    /// Where what was done is told as an event of the cluster.
    pub events: Events,
}

/// Describes what is recorded here to the installed recorder.
pub fn describe() {
    describe_counter!(
        RECORDS,
        Unit::Count,
        "Records of the audit trail, by `outcome`: written, dropped as its queue was full, or failed to be \
         written to its file."
    );
    // There from the start: the first that is lost is a rise, then.
    for outcome in ["written", "dropped", "failed"] {
        counter!(RECORDS, "outcome" => outcome).increment(0);
    }
}

pub(crate) struct Journal {
    settings: Settings,
    file: Option<File>,
    /// Lines for the file, and how many records they are.
    gathered: Vec<u8>,
    gathered_count: u64,
    /// Records that are lost if those lines are.
    at_stake: u64,
    /// Since the last that was written: told by the next one that is.
    lost: u64,
    /// It was said that the file cannot be written. The last line in it may be half.
    is_failing: bool,
}

impl Journal {
    /// # Errors
    /// The file cannot be opened.
    pub fn open(settings: Settings) -> io::Result<Journal> {
        let file = settings.file.as_deref().map(open).transpose()?;
        Ok(Journal {
            settings,
            file,
            gathered: Vec::new(),
            gathered_count: 0,
            at_stake: 0,
            lost: 0,
            is_failing: false,
        })
    }

    pub fn is_written(&self) -> bool {
        self.settings.log || self.file.is_some()
    }

    /// So many were not even taken: they are counted here, and there no more.
    pub fn lose_all(&mut self, dropped: &AtomicU64) {
        let count = dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            self.lost = self.lost.saturating_add(count);
            counter!(RECORDS, "outcome" => "dropped").increment(count);
        }
    }

    /// Before it, how many were lost since the last. In the file it is when that is flushed.
    pub fn write(&mut self, record: &Record) {
        if self.lost > 0 {
            let lost = Record::new(Action::RecordsDrop, "", Outcome::Done);
            let count = std::mem::take(&mut self.lost);
            self.put(&Record { count, ..lost });
            self.at_stake = self.at_stake.saturating_add(count);
        }
        self.put(record);
        self.at_stake = self.at_stake.saturating_add(1);
    }

    fn put(&mut self, record: &Record) {
        let line = record.line(self.settings.node);
        if self.settings.log {
            log(&line);
        }
        if self.file.is_none() {
            return counter!(RECORDS, "outcome" => "written").increment(1);
        }
        // Text, numbers and nothing else: it is JSON whatever a client wrote.
        if let Ok(text) = serde_json::to_string(&line) {
            self.gathered.extend_from_slice(text.as_bytes());
            self.gathered.push(b'\n');
            self.gathered_count += 1;
        }
    }

    /// What was gathered is written, or is lost.
    pub fn flush(&mut self) {
        let (Some(file), false) = (&mut self.file, self.gathered.is_empty()) else {
            self.at_stake = 0;
            return;
        };
        let torn: &[u8] = if self.is_failing { b"\n" } else { b"" };
        let written = file.write_all(torn).and_then(|()| file.write_all(&self.gathered));
        self.gathered.clear();
        let count = std::mem::take(&mut self.gathered_count);
        let at_stake = std::mem::take(&mut self.at_stake);
        match written {
            Ok(()) => {
                self.is_failing = false;
                counter!(RECORDS, "outcome" => "written").increment(count);
            }
            Err(error) => {
                counter!(RECORDS, "outcome" => "failed").increment(count);
                self.lost = self.lost.saturating_add(at_stake);
                if !std::mem::replace(&mut self.is_failing, true) {
                    let path = self.shown();
                    tracing::error!(
                        "the audit trail cannot be written to '{path}': {error}; make room, or name another \
                         file as audit.file"
                    );
                }
            }
        }
    }

    /// Whoever rotates logs has moved the file: what comes now goes to a new one.
    pub fn reopen(&mut self) {
        self.flush();
        let Some(path) = &self.settings.file else { return };
        match open(path) {
            Ok(file) => {
                self.file = Some(file);
                self.is_failing = false;
                tracing::info!("the audit trail's file '{}' was opened anew", self.shown());
            }
            Err(error) => {
                let path = self.shown();
                tracing::warn!("the audit trail goes on in the file that was '{path}': {error}");
            }
        }
    }

    fn shown(&self) -> String {
        self.settings.file.as_ref().map_or_else(String::new, |path| path.display().to_string())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(MODE).open(path)?;
    if file.metadata()?.is_file() {
        // One of before may be open to others.
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    Ok(file)
}

fn log(line: &Line<'_>) {
    let Line { at, node, protocol, address, principal, key, .. } = line;
    let Line {
        key_of, certificate, subject, issuer, action, object, outcome, reason, count, ..
    } = line;
    let address = address.map(tracing::field::display);
    tracing::info!(
        target: "audit",
        at, node, protocol, address, principal, key, key_of, certificate, subject, issuer, object, outcome, reason, count,
        "{action}"
    );
}
