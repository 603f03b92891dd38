//! Programs as processes: started, hurt and ended by a plan, each in a process group of its own.

mod process;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::file::{Deed, ProgramSpec};
use crate::flag::holds;
use crate::timeline::{Diary, MomentKind};
use process::Process;

/// Of what a program said, what a report has.
const LINES_MAX: usize = 20;
const LINE_CHARS_MAX: usize = 400;

/// Sees to one program.
pub struct Supervisor {
    pub spec: ProgramSpec,
    /// What every program is told.
    pub env: BTreeMap<String, String>,
    /// What it says, on both of its outputs.
    pub log: PathBuf,
    /// Since the beginning, in order of time.
    pub deeds: Vec<(Duration, Deed)>,
    pub begun: std::time::Instant,
    pub diary: Diary,
}

impl Supervisor {
    /// Goes by the plan until `end` holds, and then ends the program in good order. Dropped, it kills it.
    pub async fn run(self, mut end: watch::Receiver<bool>) {
        let begun = Instant::from_std(self.begun);
        let mut deeds = VecDeque::from(self.deeds.clone());
        let mut process: Option<Process> = None;
        let mut restart_at = None;
        loop {
            let next = deeds.front().map(|(at, _)| begun + *at);
            tokio::select! {
                biased;
                // Its sender is gone: so is the run.
                () = holds(&mut end) => break,
                () = until(next) => {
                    let Some((_, deed)) = deeds.pop_front() else { continue };
                    restart_at = None;
                    self.do_to(&mut process, deed).await;
                }
                () = until(restart_at) => {
                    restart_at = None;
                    self.do_to(&mut process, Deed::Start).await;
                }
                how = Process::ended(&mut process) => {
                    process = None;
                    self.note(MomentKind::Ended, format!("ended by itself: {how}"));
                    restart_at = self.spec.restarts_after.map(|after| Instant::now() + after);
                }
            }
        }
        self.do_to(&mut process, Deed::Stop).await;
    }

    async fn do_to(&self, process: &mut Option<Process>, deed: Deed) {
        match (deed, process.as_mut()) {
            (Deed::Start, None) => match Process::start(&self.spec, &self.env, &self.log) {
                Ok(started) => {
                    self.note(MomentKind::Started, format!("started, process {}", started.id()));
                    *process = Some(started);
                }
                Err(error) => {
                    self.note(MomentKind::Ended, format!("could not be started: {error}"));
                }
            },
            (Deed::Kill, Some(running)) => {
                running.signal(Signal::SIGKILL);
                let how = Process::ended(process).await;
                *process = None;
                self.note(MomentKind::Ended, format!("was killed: {how}"));
            }
            (Deed::Stop, Some(running)) => {
                self.note(MomentKind::Told, "was told to end");
                running.signal(Signal::SIGTERM);
                // One that stands still hears of nothing.
                running.signal(Signal::SIGCONT);
                let ended = timeout(self.spec.ends_within, Process::ended(process)).await;
                let told = match ended {
                    Ok(how) => format!("ended: {how}"),
                    Err(_) => {
                        format!("did not end within {:?}, and was killed", self.spec.ends_within)
                    }
                };
                *process = None;
                self.note(MomentKind::Ended, told);
            }
            (Deed::Pause, Some(running)) => {
                running.signal(Signal::SIGSTOP);
                self.note(MomentKind::Paused, "stands still");
            }
            (Deed::Resume, Some(running)) => {
                running.signal(Signal::SIGCONT);
                self.note(MomentKind::Resumed, "goes on");
            }
            (Deed::Start, Some(_))
            | (Deed::Kill | Deed::Stop | Deed::Pause | Deed::Resume, None) => (),
        }
    }

    fn note(&self, kind: MomentKind, told: impl Into<String>) {
        self.diary.note(&self.spec.name, kind, told);
    }
}

/// For ever where there is no such time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Sees that a program can be started, before anything else is.
///
/// # Errors
/// In one sentence.
pub fn find(spec: &ProgramSpec) -> Result<(), String> {
    let told = |why: String| format!("program '{}': {why}", spec.name);
    let word = spec.words.first().map(String::as_str).unwrap_or_default();
    if !spec.directory.is_dir() {
        return Err(told(format!("there is no directory '{}'", spec.directory.display())));
    }
    if word.contains('/') {
        let path = spec.directory.join(word);
        return match path.is_file() {
            true => Ok(()),
            false => Err(told(format!("there is no file '{}'", path.display()))),
        };
    }
    let own = spec.env.get("PATH").map(std::ffi::OsString::from);
    let paths = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    match std::env::split_paths(&paths).any(|dir| dir.join(word).is_file()) {
        true => Ok(()),
        false => Err(told(format!("there is no '{word}' in the directories of PATH"))),
    }
}

/// The last lines of what a program said.
pub fn last_lines(log: &Path) -> Vec<String> {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LINES_MAX);
    lines[from..].iter().map(|line| line.chars().take(LINE_CHARS_MAX).collect()).collect()
}
