//! One node's process, and nobody else's.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Error;
use crate::proxy::Gate;

/// How long a node may take to hand everything over and end.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// At least between two starts of a node that ends by itself.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// How a node is started.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    /// What the program is started with, if not by itself.
    pub wrapper: Vec<String>,
    /// Behind `serve`.
    pub arguments: Vec<OsString>,
    /// Beside what this process has: values, and `None` for what is taken out.
    pub environment: Vec<(&'static str, Option<String>)>,
    /// What it writes to standard error; `None`: to that of this process.
    pub log: Option<PathBuf>,
    /// Where it keeps its data.
    pub data: PathBuf,
    /// Says how much longer its syncs take, while it is there.
    pub sync_delay_file: PathBuf,
}

/// A node that runs, or could.
pub struct Process {
    launch: Launch,
    child: Option<Child>,
    /// As it was last started.
    flags: Vec<String>,
    started: Instant,
    /// It ended though nobody asked it to: its last words, each time.
    pub deaths: Vec<String>,
    /// What it said when it last ended by itself, with reason or without.
    pub last_death: Option<String>,
    /// It was given a reason to end by itself: its data were harmed, or its disk filled.
    pub may_die: bool,
    /// By which others reach it: closed while it does not run.
    pub gate: Gate,
}

impl Process {
    pub fn new(launch: Launch, gate: Gate) -> Process {
        Process {
            launch,
            child: None,
            flags: Vec::new(),
            started: Instant::now(),
            deaths: Vec::new(),
            last_death: None,
            may_die: false,
            gate,
        }
    }

    /// What it runs, or would.
    pub fn program(&self) -> &Path {
        &self.launch.program
    }

    /// What it runs when it is started next.
    pub fn set_program(&mut self, program: PathBuf) {
        self.launch.program = program;
    }

    /// Where it keeps its data.
    pub fn data(&self) -> &Path {
        &self.launch.data
    }

    /// Starts it, unless it runs. It ends when this process does, however that ends.
    pub fn start(&mut self, flags: &[String]) -> Result<(), Error> {
        if self.child.is_some() {
            return Ok(());
        }
        self.gate.open().map_err(Error::io("the node's links"))?;
        let Launch { program, wrapper, arguments, environment, log, .. } = &self.launch;
        let log = match log {
            None => Stdio::inherit(),
            Some(log) => {
                let opened = File::options().create(true).append(true).open(log);
                opened.map_err(Error::io(log.display().to_string()))?.into()
            }
        };
        let mut words = wrapper.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .args(["serve", "--exit-with-parent", "--sync-delay-file"])
            .arg(&self.launch.sync_delay_file)
            .args(arguments)
            .args(flags)
            // Ctrl-C reaches all of a terminal's group, and is for the experiment alone.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let told = format!("cannot start '{}'", program.display());
        self.child = Some(command.spawn().map_err(Error::io(told))?);
        self.flags = flags.to_vec();
        self.started = Instant::now();
        Ok(())
    }

    /// Makes each sync of its log take so much longer, from now on.
    pub fn delay_syncs(&self, delay: Duration) -> Result<(), Error> {
        let path = &self.launch.sync_delay_file;
        let written = match delay.is_zero() {
            true if !path.exists() => Ok(()),
            true => fs::remove_file(path),
            false => fs::write(path, format!("{}ms", delay.as_millis())),
        };
        written.map_err(Error::io(path.display().to_string()))
    }

    /// Sends a signal, if it runs.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child
            && let Ok(pid) = i32::try_from(child.id())
        {
            // It may have ended by itself; that is noticed elsewhere.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Fails only where it has ended already.
            let _ = child.kill();
            let _ = child.wait();
            self.gate.close();
        }
    }

    /// SIGTERM, and waits until it has ended in good order; one that does not is killed, and noted.
    pub async fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        let until = Instant::now() + ENDS_WITHIN;
        while let Some(child) = &mut self.child {
            if matches!(child.try_wait(), Ok(Some(_))) {
                self.child = None;
                self.gate.close();
            } else if Instant::now() > until {
                self.deaths.push(format!("did not end within {ENDS_WITHIN:?} of SIGTERM"));
                self.kill();
            } else {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Starts it again where it ended by itself, and remembers that.
    pub fn revive(&mut self) -> Result<(), Error> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let Ok(Some(status)) = child.try_wait() else { return Ok(()) };
        if self.started.elapsed() < RESTART_AFTER {
            return Ok(()); // Else one that cannot start would keep the machine busy.
        }
        self.child = None;
        let told = format!("{status}: {}", self.last_words());
        if !self.may_die {
            self.deaths.push(told.clone());
        }
        self.last_death = Some(told);
        let flags = self.flags.clone();
        self.start(&flags)
    }

    /// How it ended, and its last words; `None` while it runs.
    pub fn end(&mut self) -> Option<(Option<i32>, String)> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some((status.code(), format!("{status}: {}", self.last_words())))
    }

    /// How much it has logged.
    pub fn logged_bytes(&self) -> u64 {
        let log = self.launch.log.as_ref().and_then(|log| fs::metadata(log).ok());
        log.map_or(0, |log| log.len())
    }

    /// Of what it has logged since then, the first line with these words, from there on.
    pub fn logged(&self, words: &str, since_bytes: u64) -> Option<String> {
        let mut log = File::open(self.launch.log.as_ref()?).ok()?;
        log.seek(SeekFrom::Start(since_bytes)).ok()?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let from = text.find(words)?;
        text[from..].split_once('\n').map(|(line, _)| line.to_owned())
    }

    /// The end of its log.
    fn last_words(&self) -> String {
        let log = self.launch.log.as_ref().and_then(|log| fs::read_to_string(log).ok());
        let text = log.unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
