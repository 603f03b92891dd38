//! One node of a local cluster: a child process, started again when it dies.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};

use super::NodeEvent;
use crate::serve::config::Addresses;
use crate::terminal;

/// A node that died is down for so long.
const DOWN_FOR: Duration = Duration::from_secs(2);
/// How long a node may take to hand its leaderships over and end.
const END_WITHIN: Duration = Duration::from_secs(15);
/// How much of the end of a log is looked through for what went wrong.
const LOG_TAIL_BYTES: u64 = 16 * 1024;

/// What shall be of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Running,
    /// Killed, and left down until wanted again.
    Down,
    Ended,
}

/// A node as seen from its parent.
#[derive(Clone)]
pub struct Member {
    inner: Arc<MemberShared>,
}

struct MemberShared {
    id: u64,
    addresses: Addresses,
    dir: PathBuf,
    /// 0: not running.
    pid: AtomicI32,
    wanted: watch::Sender<Wanted>,
}

impl Member {
    pub fn new(id: u64, addresses: Addresses, dir: PathBuf) -> Member {
        let (wanted, _) = watch::channel(Wanted::Running);
        Member {
            inner: Arc::new(MemberShared { id, addresses, dir, pid: AtomicI32::new(0), wanted }),
        }
    }

    pub fn id(&self) -> u64 {
        self.inner.id
    }

    pub fn addresses(&self) -> &Addresses {
        &self.inner.addresses
    }

    pub fn config_path(&self) -> PathBuf {
        self.inner.dir.join("mayfly.toml")
    }

    pub fn data_path(&self) -> PathBuf {
        self.inner.dir.join("data")
    }

    pub fn log_path(&self) -> PathBuf {
        self.inner.dir.join("node.log")
    }

    pub fn pid(&self) -> Option<i32> {
        Some(self.inner.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    /// `kill -9`, and down until [`Member::revive`].
    pub fn kill(&self) {
        self.inner.wanted.send_replace(Wanted::Down);
        self.signal(Signal::SIGKILL);
    }

    pub fn revive(&self) {
        self.inner.wanted.send_replace(Wanted::Running);
    }

    /// Asks it to end; see [`Member::supervise`] for when it has.
    pub fn end(&self) {
        self.inner.wanted.send_replace(Wanted::Ended);
        self.signal(Signal::SIGTERM);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// The last line since `from` in which the node says what is wrong.
    fn last_words(&self, from: u64) -> Option<String> {
        let mut log = File::open(self.log_path()).ok()?;
        let length = log.metadata().ok()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES).max(from))).ok()?;
        let mut tail = Vec::new();
        log.read_to_end(&mut tail).ok()?;
        let tail = String::from_utf8_lossy(&tail);
        let line = tail.lines().rev().find_map(|line| line.strip_prefix("mayfly: "))?;
        Some(line.to_owned())
    }

    /// Keeps the node as it is wanted until it is wanted to end. Returns when it has ended.
    pub async fn supervise(self, program: PathBuf, restart: bool, events: mpsc::Sender<NodeEvent>) {
        let mut wanted = self.inner.wanted.subscribe();
        let mut first = true;
        loop {
            if *wanted.borrow_and_update() == Wanted::Ended {
                return;
            }
            let log_from = std::fs::metadata(self.log_path()).map_or(0, |log| log.len());
            let mut removed = false;
            let how = match self.spawn(&program) {
                Ok(mut child) => {
                    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
                    self.inner.pid.store(pid, Ordering::Relaxed);
                    if !std::mem::take(&mut first) {
                        // Nobody may be listening, or look at any; so below.
                        let _ = events.try_send(NodeEvent::Started { node: self.id(), pid });
                    }
                    // Held open until the process is gone: waiting for a child closes its input, and
                    // the node ends with that.
                    let lifeline = child.stdin.take();
                    let status = self.watch(&mut child, &mut wanted).await;
                    drop(lifeline);
                    self.inner.pid.store(0, Ordering::Relaxed);
                    removed = was_removed(&status);
                    how(&status)
                }
                Err(error) => format!("cannot start: {error}"),
            };
            let now_wanted = *wanted.borrow_and_update();
            match now_wanted {
                Wanted::Ended => return,
                Wanted::Running => {
                    let how = self.last_words(log_from).unwrap_or(how);
                    let again = restart && !removed;
                    let _ =
                        events.try_send(NodeEvent::Died { node: self.id(), how, again, removed });
                    let pause = if again { DOWN_FOR } else { Duration::MAX };
                    // Elapsed or wanted otherwise: the loop looks again.
                    let _ = tokio::time::timeout(pause, wanted.changed()).await;
                }
                Wanted::Down => drop(wanted.wait_for(|wanted| *wanted != Wanted::Down).await),
            }
        }
    }

    /// Waits until the process is gone; one that was asked to end and does not is killed.
    async fn watch(
        &self,
        child: &mut Child,
        wanted: &mut watch::Receiver<Wanted>,
    ) -> io::Result<ExitStatus> {
        // Waiting for a child closes its standard input, which would tell it that we have ended.
        let _held = child.stdin.take();
        tokio::select! {
            status = child.wait() => return status,
            () = ended(wanted) => (),
        }
        // Asked here too: it may have been starting when all were asked.
        self.signal(Signal::SIGTERM);
        if let Ok(status) = tokio::time::timeout(END_WITHIN, child.wait()).await {
            return status;
        }
        // Fails only where it ended meanwhile.
        let _ = child.kill().await;
        child.wait().await
    }

    fn spawn(&self, program: &Path) -> io::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(self.log_path())?;
        Command::new(program)
            .arg("serve")
            .arg("--config")
            .arg(self.config_path())
            .arg("--exit-with-parent")
            // What is set for the parent is not meant for the children; all of theirs is in files.
            .env_clear()
            .envs(
                std::env::vars_os()
                    .filter(|(name, _)| !name.to_string_lossy().starts_with("MAYFLY_")),
            )
            // The child ends when this pipe does, however this process ends.
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C at the terminal is for the parent, which then ends its children in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

async fn ended(wanted: &mut watch::Receiver<Wanted>) {
    // Fails only without a member, and then nobody waits here.
    let _ = wanted.wait_for(|wanted| *wanted == Wanted::Ended).await;
}

/// Its cluster goes on without it: no start will help it.
fn was_removed(status: &io::Result<ExitStatus>) -> bool {
    let code = status.as_ref().ok().and_then(ExitStatus::code);
    code == Some(i32::from(terminal::REMOVED))
}

fn how(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => match Signal::try_from(signal) {
                Ok(signal) => signal.to_string(),
                Err(_) => format!("signal {signal}"),
            },
            (None, None) => "for no known reason".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_removed_node_stays_down() {
        for (wait_status, stays) in [(0, false), (1 << 8, false), (3 << 8, true), (9, false)] {
            assert_eq!(was_removed(&Ok(ExitStatus::from_raw(wait_status))), stays, "{wait_status}");
        }
    }
}
