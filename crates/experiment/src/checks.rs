//! Whether what has to hold does, by the broker's record.

mod backlog;
mod dead_letters;
mod locks;
mod once;
mod order;
mod replied;
mod settled;
mod waited;

#[cfg(test)]
mod tests;

use crate::file::Invariant;
use crate::lives::{Life, Lives};
use crate::timeline::Moment;

/// What is known of a run. All times are by the cluster's clock.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    pub lives: &'a Lives,
    /// Of programs, in order of time.
    pub moments: &'a [Moment],
    /// Since when nothing was hurt any more. What was sent later is not asked about.
    pub healed_ms: u64,
    /// Up to when it is recorded.
    pub now_ms: u64,
}

/// What came of one invariant.
#[derive(Clone, Debug, Default)]
pub struct Finding<'a> {
    /// Messages that it was about.
    pub about: usize,
    pub failures: Vec<Failure<'a>>,
    /// Until then what is missing may come; it is no failure yet.
    pub open_until_ms: Option<u64>,
}

/// One way in which it was broken.
#[derive(Clone, Debug)]
pub struct Failure<'a> {
    /// In a sentence.
    pub told: String,
    /// Of the messages it is about.
    pub lives: Vec<&'a Life>,
}

/// Holds an invariant against what is known. One that is about nothing at all is broken: a name that is written wrongly
/// must not hold.
pub fn check<'a>(invariant: &'a Invariant, evidence: Evidence<'a>) -> Finding<'a> {
    let mut finding = match invariant {
        Invariant::Settled { entity, within, receive_and_delete } => {
            settled::check(evidence, entity, *within, *receive_and_delete)
        }
        Invariant::CompletedOnce { entity } => once::check(evidence, entity),
        Invariant::Waited { entity, within } => waited::check(evidence, entity, *within),
        Invariant::SessionOrder { entity } => order::check(evidence, entity),
        Invariant::Replied { requests, replies, by, within } => {
            replied::check(evidence, requests, replies, *by, *within)
        }
        Invariant::LocksKept { entity, program } => {
            locks::check(evidence, entity, program.as_deref())
        }
        Invariant::BacklogCleared { entity, within } => backlog::check(evidence, entity, *within),
        Invariant::NoneDeadLettered { entity } => dead_letters::check(evidence, entity),
    };
    if finding.about == 0 {
        let entities = invariant.entities();
        let named = entities.first().copied().unwrap_or_default();
        finding.failures.push(Failure {
            told: format!("no message was sent to {named} that this could be about"),
            lives: Vec::new(),
        });
    }
    finding
}

impl<'a> Finding<'a> {
    fn fail(&mut self, told: String, lives: Vec<&'a Life>) {
        self.failures.push(Failure { told, lives });
    }

    /// Something may come until then.
    fn is_open_until(&mut self, at_ms: u64) {
        self.open_until_ms = self.open_until_ms.max(Some(at_ms));
    }
}

impl<'a> Evidence<'a> {
    /// Lives that are asked about: they came before the healing, and how is recorded.
    fn subjects(self, entity: &'a str) -> impl Iterator<Item = &'a Life> {
        let healed_ms = self.healed_ms;
        let is_asked = move |life: &&Life| life.accepted_ms().is_some_and(|at| at <= healed_ms);
        self.lives.of(entity).filter(is_asked)
    }
}

/// So many of these, as people write it.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Seconds, as people read them.
fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1e3)
}
