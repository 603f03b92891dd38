//! One process and those it starts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::file::ProgramSpec;

/// The leader of a process group. Dropped, all of the group are killed.
pub struct Process {
    child: Child,
    /// Its own id is its group's.
    group: Pid,
}

impl Process {
    /// Starts it, with what it says behind what is in the log.
    pub fn start(
        spec: &ProgramSpec,
        env: &BTreeMap<String, String>,
        log: &Path,
    ) -> io::Result<Process> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut words = spec.words.iter();
        let word = words.next().map(String::as_str).unwrap_or_default();
        // The directory counts for the program, too: systems differ in whether it does by itself.
        let program = match word.contains('/') {
            true => std::path::absolute(spec.directory.join(word))?,
            false => PathBuf::from(word),
        };
        let child = Command::new(program)
            .args(words)
            .current_dir(&spec.directory)
            .envs(env)
            .envs(&spec.env)
            // Ctrl-C reaches all of a terminal's group, and is for the experiment alone.
            .process_group(0)
            .kill_on_drop(true)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let group = id.map(Pid::from_raw).ok_or_else(|| io::Error::other("it ended at once"))?;
        Ok(Process { child, group })
    }

    pub fn id(&self) -> i32 {
        self.group.as_raw()
    }

    /// Sends a signal to all of its group.
    pub fn signal(&self, signal: Signal) {
        // All of them may have ended; that is noticed elsewhere.
        let _ = killpg(self.group, signal);
    }

    /// Waits until the leader has ended; how it did. For ever where there is none.
    pub async fn ended(process: &mut Option<Process>) -> String {
        match process {
            Some(process) => match process.child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            None => std::future::pending().await,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}
