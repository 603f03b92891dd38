//! The node of an agent, and what is done to it.

use std::time::Duration;

use nix::sys::signal::Signal as UnixSignal;
use tokio::sync::mpsc;

use super::passage::Passage;
use crate::Error;
use crate::api::agent_request::Request as Asked;
use crate::api::{SetCondition, Signal, SignalNode};
use crate::process::Process;
use crate::proxy::Condition;

/// What a node told as it ended by itself.
pub(super) type Deaths = mpsc::Sender<String>;

/// A node that runs, or could.
pub(super) struct Ward {
    process: Process,
    passage: Passage,
    /// Whom to tell that the node ended by itself; there while an experiment is.
    deaths: Option<Deaths>,
}

impl Ward {
    pub fn new(process: Process, passage: Passage) -> Ward {
        Ward { process, passage, deaths: None }
    }

    /// An experiment begins.
    pub fn attach(&mut self, deaths: Deaths) {
        self.deaths = Some(deaths);
    }

    /// The experiment is over: what was done is put right.
    ///
    /// # Errors
    /// The node cannot be started.
    pub fn detach(&mut self) -> Result<(), Error> {
        self.deaths = None;
        self.passage.heal();
        self.process.signal(UnixSignal::SIGCONT);
        self.process.delay_syncs(Duration::ZERO)?;
        self.process.start(&[])
    }

    /// Starts the node again where it ended by itself during an experiment. Otherwise, how it ended.
    pub fn look(&mut self) -> Result<Option<(Option<i32>, String)>, Error> {
        let Some(deaths) = &self.deaths else { return Ok(self.process.end()) };
        self.process.revive()?;
        // An experiment that has not heard of so many knows enough.
        self.process.deaths.drain(..).for_each(|told| drop(deaths.try_send(told)));
        Ok(None)
    }

    /// Does what an experiment asks.
    ///
    /// # Errors
    /// The node cannot be started, or a file cannot be written.
    pub async fn act(&mut self, asked: Asked) -> Result<(), Error> {
        match asked {
            Asked::Greet(_) => return Err(Error::Wrong("it was greeted already".to_owned())),
            Asked::Start(start) => self.process.start(&start.flags)?,
            Asked::Signal(signal) => self.signal(&signal)?,
            Asked::End(_) => self.process.stop().await,
            Asked::SetCondition(set) => {
                let condition = Condition {
                    cut: set.cut,
                    delay: Duration::from_micros(set.delay_us),
                    jitter: Duration::from_micros(set.jitter_us),
                    loss: set.loss.clamp(0.0, 1.0),
                    bytes_per_second: (set.bytes_per_second > 0).then_some(set.bytes_per_second),
                    harms_snapshots: false,
                };
                let SetCondition { address, is_outward, .. } = set;
                self.passage.set(&address, is_outward, condition);
            }
            Asked::Heal(_) => self.passage.heal(),
            Asked::DelaySyncs(delay) => {
                self.process.delay_syncs(Duration::from_millis(delay.delay_ms))?;
            }
        }
        Ok(())
    }

    fn signal(&mut self, asked: &SignalNode) -> Result<(), Error> {
        match asked.signal() {
            Signal::Unspecified => {
                return Err(Error::Wrong("it was asked for a signal that it does not know".into()));
            }
            Signal::Kill => self.process.kill(),
            Signal::Stop => self.process.signal(UnixSignal::SIGSTOP),
            Signal::Continue => self.process.signal(UnixSignal::SIGCONT),
        }
        Ok(())
    }

    /// The node ends in good order, for good.
    pub async fn end(&mut self) {
        self.process.signal(UnixSignal::SIGCONT);
        self.process.stop().await;
    }
}
