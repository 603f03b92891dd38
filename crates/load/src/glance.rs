//! A look at a run while it goes on, for whoever watches it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::report::{GeneratorUse, Percentiles};

/// What went on since the last look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Glance {
    /// warm-up, measure, cool-down or drain.
    pub phase: &'static str,
    /// How much of the phase is over, from 0 to 1.
    pub share: f64,
    /// Until the phase ends, at most.
    pub left: Duration,
    /// Since the run's beginning.
    pub at: Duration,
    /// A second.
    pub sent: f64,
    pub delivered: f64,
    pub completed: f64,
    /// Of what was recorded, by what it is of.
    pub latency: BTreeMap<String, Percentiles>,
    /// Acknowledged and not delivered.
    pub backlog: u64,
    /// In the drain: what is still waited for.
    pub missing: Option<u64>,
    /// From the run's beginning on, by name.
    pub errors: BTreeMap<String, u64>,
    pub generator: GeneratorUse,
}

/// Is told of every look.
pub type Watcher = Box<dyn Fn(&Glance) + Send + Sync>;

impl fmt::Display for Glance {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Glance { phase, share, sent, delivered, backlog, .. } = self;
        write!(f, "{phase} {:.0} %: {sent:.0} sent/s, {delivered:.0} delivered/s", share * 100.0)?;
        if let Some(of) = self.latency.get("end_to_end") {
            write!(f, ", p50 {:.1} ms, p99 {:.1} ms", of.p50, of.p99)?;
        }
        if let Some(of) = self.latency.get("lateness") {
            write!(f, ", lateness p99 {:.1} ms", of.p99)?;
        }
        match self.missing {
            Some(missing) => write!(f, ", {missing} missing")?,
            None => write!(f, ", backlog {backlog}")?,
        }
        let errors: u64 = self.errors.values().sum();
        if errors > 0 {
            write!(f, ", {errors} errors")?;
        }
        if self.generator.is_limit() {
            write!(f, "; the generator may be the limit")?;
        }
        Ok(())
    }
}
