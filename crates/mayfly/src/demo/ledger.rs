//! What is known of each alert while the job runs, and the figures shown meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use client::Delivery;
use workload::{Checker, Verdict};

use super::alert::{Alert, POISON};

pub const EXPIRED: &str = "TTLExpiredException";
pub const POISONED: &str = "MaxDeliveryCountExceeded";

/// Shared by all who take part.
pub struct Ledger {
    reminders: BTreeSet<String>,
    inner: Mutex<LedgerState>,
}

struct LedgerState {
    checker: Checker,
    figures: Figures,
    /// Alerts that met their end.
    ended: BTreeSet<String>,
    accepted: BTreeSet<String>,
    lateness: Vec<Lateness>,
    sends_done: bool,
    /// When the first send after the kill was stored.
    kill: Option<Instant>,
    stored_again: Option<Duration>,
    notes: Vec<String>,
    problems: BTreeMap<String, u64>,
}

/// Counts as they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub submitted: u64,
    pub accepted: u64,
    pub handled: u64,
    pub reminders_handled: u64,
    pub expired: u64,
    pub poison_attempts: u64,
    pub poisoned: u64,
    pub perhaps: u64,
}

/// How late one expired alert arrived in the dead-letter queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    pub late_ms: u64,
    pub expires_at_ms: u64,
    /// It was locked at some time: a lock shields its message (TTL-11), so this says nothing of how
    /// prompt expiry is.
    pub was_locked: bool,
}

impl Ledger {
    pub fn new(alerts: &[Alert], lock_ms: u64, max_delivery_count: u32) -> Ledger {
        let reminders = alerts.iter().filter(|alert| alert.reminder_after.is_some());
        Ledger {
            reminders: reminders.map(|alert| alert.id.clone()).collect(),
            inner: Mutex::new(LedgerState {
                checker: Checker::new(lock_ms, max_delivery_count),
                figures: Figures::default(),
                ended: BTreeSet::new(),
                accepted: BTreeSet::new(),
                lateness: Vec::new(),
                sends_done: false,
                kill: None,
                stored_again: None,
                notes: Vec::new(),
                problems: BTreeMap::new(),
            }),
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut LedgerState) -> T) -> T {
        look(&mut self.inner.lock().unwrap_or_else(|poison| poison.into_inner()))
    }

    pub fn submitted(&self, id: &str) {
        self.with(|inner| {
            inner.checker.submitted(id, false);
            inner.figures.submitted += 1;
        });
    }

    /// Its send was answered; `asked`: when it was handed over.
    pub fn answered(&self, id: &str, asked: Instant, result: Result<(), client::Error>) {
        self.with(|inner| match result {
            Ok(()) => {
                inner.checker.acknowledged(id);
                inner.figures.accepted += 1;
                inner.accepted.insert(id.to_owned());
                if let Some(kill) = inner.kill
                    && asked > kill
                {
                    inner.stored_again.get_or_insert(kill.elapsed());
                }
            }
            Err(error) => {
                if !matches!(error, client::Error::PerhapsDone(_)) {
                    inner.checker.refused(id);
                }
                inner.problem(format!("send: {error}"));
            }
        });
    }

    /// No more will be sent.
    pub fn sends_done(&self) {
        self.with(|inner| inner.sends_done = true);
    }

    pub fn delivered(&self, id: &str, delivery: &Delivery) {
        self.with(|inner| {
            let locked_until = delivery.locked_until_ms().unwrap_or_default();
            let number = delivery.sequence_number();
            inner.checker.delivered(id, number, locked_until, delivery.expires_at_ms());
            inner.figures.poison_attempts += u64::from(id == POISON);
        });
    }

    pub fn given_up(&self, id: &str) {
        self.with(|inner| inner.checker.given_up(id));
    }

    pub fn completed(&self, id: &str, result: Result<(), client::Error>) {
        let reminder = self.reminders.contains(id);
        self.with(|inner| match result {
            Ok(()) => {
                inner.checker.settled(id);
                inner.figures.handled += 1;
                inner.figures.reminders_handled += u64::from(reminder);
                inner.ended.insert(id.to_owned());
            }
            Err(client::Error::PerhapsDone(_)) => {
                inner.checker.perhaps_settled(id);
                inner.figures.perhaps += 1;
                // Where it was not done after all, the alert comes again or expires.
                inner.ended.insert(id.to_owned());
            }
            // Comes again.
            Err(error) => inner.problem(format!("complete: {error}")),
        });
    }

    /// Seen in the dead-letter queue at this time of the broker.
    pub fn dead_lettered(&self, id: &str, delivery: &Delivery, seen_at_ms: u64) {
        let reason = delivery.text_property("DeadLetterReason").unwrap_or("none").to_owned();
        self.with(|inner| {
            let expires_at = delivery.expires_at_ms();
            inner.checker.dead_lettered(id, &reason, expires_at, seen_at_ms);
            if !inner.ended.insert(id.to_owned()) {
                // Seen before: the answer to its settlement was lost.
                return;
            }
            inner.figures.expired += u64::from(reason == EXPIRED);
            inner.figures.poisoned += u64::from(reason == POISONED);
            if let Some(expires_at_ms) = expires_at.filter(|_| reason == EXPIRED) {
                inner.lateness.push(Lateness {
                    late_ms: seen_at_ms.saturating_sub(expires_at_ms),
                    expires_at_ms,
                    was_locked: delivery.delivery_count() > 1,
                });
            }
        });
    }

    pub fn left(&self, id: &str) {
        self.with(|inner| inner.checker.left(id));
    }

    pub fn killed(&self, at: Instant) {
        self.with(|inner| inner.kill = Some(at));
    }

    /// Something a person watching wants to know.
    pub fn note(&self, note: String) {
        self.with(|inner| inner.notes.push(note));
    }

    pub fn problem(&self, what: String) {
        self.with(|inner| inner.problem(what));
    }

    pub fn figures(&self) -> Figures {
        self.with(|inner| inner.figures.clone())
    }

    /// Notes since the last call.
    pub fn take_notes(&self) -> Vec<String> {
        self.with(|inner| std::mem::take(&mut inner.notes))
    }

    pub fn all_ended(&self) -> bool {
        self.with(|inner| inner.sends_done && inner.accepted.is_subset(&inner.ended))
    }

    pub fn verdict(&self) -> Verdict {
        self.with(|inner| inner.checker.verdict())
    }

    pub fn lateness(&self) -> Vec<Lateness> {
        self.with(|inner| inner.lateness.clone())
    }

    /// From the kill until a send made after it was stored.
    pub fn stored_again(&self) -> Option<Duration> {
        self.with(|inner| inner.stored_again)
    }

    pub fn problems(&self) -> BTreeMap<String, u64> {
        self.with(|inner| inner.problems.clone())
    }
}

impl LedgerState {
    fn problem(&mut self, what: String) {
        *self.problems.entry(what).or_default() += 1;
    }
}
