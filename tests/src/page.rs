//! A page's shell blocks, run one after the other as its reader would.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::{Document, LocalCluster, mayfly};

/// What bash is told before a page's first block: the first command that fails ends it and is named,
/// and what the page left in the background ends with it.
const PREAMBLE: &str = "\
set -euo pipefail
trap 'echo \"FAILED at line $BLOCK or after it: $BASH_COMMAND\" >&2' ERR
trap 'jobs -p | xargs -r kill; wait' EXIT
";

/// As the preamble has it.
const FAILED: &str = "FAILED at line";

/// The blocks of a document that are run.
pub struct Page {
    script: String,
    /// Line and reason of those that are not.
    pub skipped: Vec<(usize, String)>,
}

impl Page {
    /// Those of its blocks that are in the shell's language. `None` if it has none.
    pub fn of(document: &Document) -> Option<Page> {
        let mut page = Page { script: String::new(), skipped: Vec::new() };
        for block in document.blocks().into_iter().filter(|block| block.language == "sh") {
            match block.norun {
                Some(reason) => page.skipped.push((block.line, reason)),
                None => page.script += &format!("BLOCK={}\n{}\n", block.line, block.text),
            }
        }
        (!page.script.is_empty() || !page.skipped.is_empty()).then_some(page)
    }

    pub fn is_run(&self) -> bool {
        !self.script.is_empty()
    }

    /// Runs it against a cluster, in a directory of its own below that of the cluster.
    ///
    /// # Errors
    ///
    /// A command failed, or the whole did not end in time; the error has all it said.
    pub fn run(&self, cluster: &LocalCluster, within: Duration) -> anyhow::Result<()> {
        let dir = cluster.dir().join("page");
        fs::create_dir(&dir)?;
        let said = cluster.dir().join("said");
        let output = File::create(&said)?;
        let bin = mayfly()?.canonicalize()?;
        let bin = bin.parent().context("a binary lies in a folder")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash")
            .args(["-c", &format!("{PREAMBLE}{}", cluster.with_its_ports(&self.script))])
            .current_dir(&dir)
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("MAYFLY_CONNECT", cluster.connect())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        let group = Pid::from_raw(bash.id().cast_signed());
        let (ended, end) = mpsc::channel();
        let waiter = std::thread::spawn(move || ended.send(bash.wait()));
        let status = match end.recv_timeout(within) {
            Ok(status) => status?,
            Err(_) => {
                // The shell is not waited for yet, so the group is still its own.
                killpg(group, Signal::SIGKILL)?;
                waiter.join().ok();
                bail!("it did not end within {within:?}; it said:\n{}", fs::read_to_string(said)?);
            }
        };
        match status.success() {
            true => Ok(()),
            false => {
                let said = fs::read_to_string(said)?;
                // First what failed: of a long text only the beginning may be kept.
                let failed =
                    said.lines().rfind(|line| line.starts_with(FAILED)).unwrap_or_default();
                bail!("{failed}\n{status}; it said, the last lines first:\n{}", upside_down(&said))
            }
        }
    }
}

fn upside_down(text: &str) -> String {
    text.lines().rev().collect::<Vec<_>>().join("\n")
}
