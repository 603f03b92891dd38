//! The checker: follows every message of a run by its id and says what broke a promise. It knows
//! only what clients saw, so it can watch any cluster; who drives it tells it everything that was
//! asked and answered, and at the end what was found left over.
//!
//! All instants are the broker's, in milliseconds: a client's clock proves nothing.

use std::collections::BTreeMap;
use std::fmt;

/// Everything known of one message.
#[derive(Clone, Debug, Default)]
struct Fate {
    submitted: bool,
    acknowledged: bool,
    /// Its send was refused or certainly not done.
    refused: bool,
    /// May be dropped by expiry without a trace.
    may_vanish: bool,
    numbers: Vec<u64>,
    /// Until when the last delivery's lock holds, unless it was given up before.
    locked_until_ms: Option<u64>,
    deliveries: u32,
    settled: u32,
    perhaps_settled: bool,
    dead_lettered: Option<String>,
    left: bool,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// Acknowledged, and nowhere to be found.
    Lost { id: String },
    /// TTL-9: taken from the queue at or after its deadline.
    DeliveredAfterExpiry { id: String, late_ms: u64 },
    /// TIME-8: dead-lettered as expired, before its deadline.
    ExpiredEarly { id: String, early_ms: u64 },
    /// LOCK-8: two settlements of one message succeeded.
    SettledTwice { id: String },
    /// Settled, and yet found in a queue afterwards.
    SettledAndFound { id: String },
    /// Stored more than once though sent once (SEND-8).
    StoredTwice { id: String, numbers: Vec<u64> },
    /// LOCK-3: delivered while another delivery's lock was held.
    TwoLocks { id: String, overlap_ms: u64 },
    /// Delivered though its send was refused, or never made.
    Phantom { id: String },
    /// LOCK-21.
    DeliveredTooOften { id: String, deliveries: u32 },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Lost { id } => write!(f, "{id}: acknowledged, and lost"),
            Violation::DeliveredAfterExpiry { id, late_ms } => {
                write!(f, "{id}: delivered {late_ms} ms after it expired")
            }
            Violation::ExpiredEarly { id, early_ms } => {
                write!(f, "{id}: expired {early_ms} ms early")
            }
            Violation::SettledTwice { id } => write!(f, "{id}: settled twice"),
            Violation::SettledAndFound { id } => write!(f, "{id}: settled, and found afterwards"),
            Violation::StoredTwice { id, numbers } => {
                write!(f, "{id}: stored more than once, under numbers {numbers:?}")
            }
            Violation::TwoLocks { id, overlap_ms } => {
                write!(f, "{id}: two locks at a time for {overlap_ms} ms")
            }
            Violation::Phantom { id } => write!(f, "{id}: delivered, but never accepted"),
            Violation::DeliveredTooOften { id, deliveries } => {
                write!(f, "{id}: delivered {deliveries} times, more than its queue allows")
            }
        }
    }
}

/// How every message ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub acknowledged: u64,
    /// Sends of unknown outcome.
    pub unknown: u64,
    pub settled: u64,
    /// Settled as far as one can tell: the answer never came, and nothing was found afterwards.
    pub perhaps_settled: u64,
    /// By reason.
    pub dead_lettered: BTreeMap<String, u64>,
    /// Found in the queue at the end.
    pub left: u64,
    /// Not found, and allowed to be dropped by expiry.
    pub vanished: u64,
    pub violations: Vec<Violation>,
}

/// One queue's run.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    fates: BTreeMap<String, Fate>,
    lock_ms: u64,
    max_delivery_count: u32,
    violations: Vec<Violation>,
}

impl Checker {
    /// For a queue with this lock duration and delivery limit.
    pub fn new(lock_ms: u64, max_delivery_count: u32) -> Checker {
        Checker { lock_ms, max_delivery_count, ..Checker::default() }
    }

    fn fate(&mut self, id: &str) -> &mut Fate {
        self.fates.entry(id.to_owned()).or_default()
    }

    /// About to be sent. `may_vanish`: it has a deadline, and the queue drops what expires.
    pub fn submitted(&mut self, id: &str, may_vanish: bool) {
        let fate = self.fate(id);
        fate.submitted = true;
        fate.may_vanish = may_vanish;
    }

    /// Its send was acknowledged.
    pub fn acknowledged(&mut self, id: &str) {
        self.fate(id).acknowledged = true;
    }

    /// Its send failed: refused or not done for certain. A send of unknown outcome is told nothing.
    pub fn refused(&mut self, id: &str) {
        self.fate(id).refused = true;
    }

    /// Delivered under a lock.
    pub fn delivered(
        &mut self,
        id: &str,
        number: u64,
        locked_until_ms: u64,
        expires_at_ms: Option<u64>,
    ) {
        let taken_ms = locked_until_ms.saturating_sub(self.lock_ms);
        let most = self.max_delivery_count;
        let fate = self.fate(id);
        fate.deliveries += 1;
        if !fate.numbers.contains(&number) {
            fate.numbers.push(number);
        }
        let held_until = fate.locked_until_ms.replace(locked_until_ms);
        let deliveries = fate.deliveries;
        if let Some(expires_at_ms) = expires_at_ms.filter(|expires| taken_ms >= *expires) {
            let late_ms = taken_ms - expires_at_ms;
            self.violations.push(Violation::DeliveredAfterExpiry { id: id.to_owned(), late_ms });
        }
        if let Some(held_until) = held_until.filter(|until| taken_ms < *until) {
            let overlap_ms = held_until - taken_ms;
            self.violations.push(Violation::TwoLocks { id: id.to_owned(), overlap_ms });
        }
        if deliveries > most {
            self.violations.push(Violation::DeliveredTooOften { id: id.to_owned(), deliveries });
        }
    }

    /// The holder gave its lock up: abandoned or released it, or tried to and does not know.
    pub fn given_up(&mut self, id: &str) {
        self.fate(id).locked_until_ms = None;
    }

    /// Completed or dead-lettered by the application, and confirmed.
    pub fn settled(&mut self, id: &str) {
        let fate = self.fate(id);
        fate.settled += 1;
        if fate.settled > 1 {
            self.violations.push(Violation::SettledTwice { id: id.to_owned() });
        }
    }

    /// Completed, of unknown outcome.
    pub fn perhaps_settled(&mut self, id: &str) {
        self.fate(id).perhaps_settled = true;
    }

    /// Found in the dead-letter queue for this reason, first seen at this time of the broker.
    pub fn dead_lettered(
        &mut self,
        id: &str,
        reason: &str,
        expires_at_ms: Option<u64>,
        seen_at_ms: u64,
    ) {
        self.fate(id).dead_lettered = Some(reason.to_owned());
        let early = expires_at_ms.filter(|_| reason == "TTLExpiredException");
        if let Some(expires_at_ms) = early.filter(|expires| *expires > seen_at_ms) {
            let early_ms = expires_at_ms - seen_at_ms;
            self.violations.push(Violation::ExpiredEarly { id: id.to_owned(), early_ms });
        }
    }

    /// Found in the queue at the end.
    pub fn left(&mut self, id: &str) {
        self.fate(id).left = true;
    }

    /// The account of everything told so far.
    pub fn verdict(&self) -> Verdict {
        let mut verdict = Verdict { violations: self.violations.clone(), ..Verdict::default() };
        for (id, fate) in &self.fates {
            self.judge(id, fate, &mut verdict);
        }
        verdict.violations.sort();
        verdict
    }

    fn judge(&self, id: &str, fate: &Fate, verdict: &mut Verdict) {
        let id = || id.to_owned();
        verdict.acknowledged += u64::from(fate.acknowledged);
        verdict.unknown += u64::from(fate.submitted && !fate.acknowledged && !fate.refused);
        let found = fate.left || fate.dead_lettered.is_some();
        let seen = found || fate.deliveries > 0;
        if seen && (fate.refused || !fate.submitted) {
            verdict.violations.push(Violation::Phantom { id: id() });
        }
        if fate.numbers.len() > 1 {
            verdict
                .violations
                .push(Violation::StoredTwice { id: id(), numbers: fate.numbers.clone() });
        }
        if fate.settled > 0 && found {
            verdict.violations.push(Violation::SettledAndFound { id: id() });
        }
        match () {
            () if fate.settled > 0 => verdict.settled += 1,
            () if fate.left => verdict.left += 1,
            () if fate.dead_lettered.is_some() => {
                let reason = fate.dead_lettered.clone().unwrap_or_default();
                *verdict.dead_lettered.entry(reason).or_default() += 1;
            }
            () if fate.perhaps_settled => verdict.perhaps_settled += 1,
            () if fate.may_vanish && fate.acknowledged => verdict.vanished += 1,
            () if fate.acknowledged => verdict.violations.push(Violation::Lost { id: id() }),
            () => (),
        }
    }
}

impl Verdict {
    /// Every acknowledged message is accounted for, and no promise was broken.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK_MS: u64 = 1000;
    const DEAD: &str = "TTLExpiredException";

    fn violations(story: impl FnOnce(&mut Checker)) -> Vec<Violation> {
        let mut checker = Checker::new(LOCK_MS, 3);
        story(&mut checker);
        checker.verdict().violations
    }

    fn sent(checker: &mut Checker) {
        checker.submitted("m", false);
        checker.acknowledged("m");
    }

    fn id() -> String {
        "m".to_owned()
    }

    #[test]
    fn a_whole_life_breaks_no_promise() {
        let told = violations(|checker| {
            sent(checker);
            checker.delivered("m", 1, 5000, Some(4500));
            checker.given_up("m");
            checker.delivered("m", 1, 5400, Some(4500));
            checker.settled("m");
        });
        assert_eq!(told, []);
    }

    /// One row for each promise: a story that breaks it and nothing else.
    #[test]
    fn each_broken_promise_is_named() {
        type Story = fn(&mut Checker);
        let table: [(Story, Violation); 9] = [
            (|checker| sent(checker), Violation::Lost { id: id() }),
            (
                |checker| {
                    sent(checker);
                    checker.delivered("m", 1, 5500, Some(4500));
                    checker.settled("m");
                },
                Violation::DeliveredAfterExpiry { id: id(), late_ms: 0 },
            ),
            (
                |checker| {
                    sent(checker);
                    checker.dead_lettered("m", DEAD, Some(5000), 4990);
                },
                Violation::ExpiredEarly { id: id(), early_ms: 10 },
            ),
            (
                |checker| {
                    sent(checker);
                    checker.settled("m");
                    checker.settled("m");
                },
                Violation::SettledTwice { id: id() },
            ),
            (
                |checker| {
                    sent(checker);
                    checker.settled("m");
                    checker.left("m");
                },
                Violation::SettledAndFound { id: id() },
            ),
            (
                |checker| {
                    sent(checker);
                    checker.delivered("m", 1, 5000, None);
                    checker.delivered("m", 2, 7000, None);
                    checker.settled("m");
                },
                Violation::StoredTwice { id: id(), numbers: vec![1, 2] },
            ),
            (
                |checker| {
                    sent(checker);
                    checker.delivered("m", 1, 5000, None);
                    checker.delivered("m", 1, 5900, None);
                    checker.settled("m");
                },
                Violation::TwoLocks { id: id(), overlap_ms: 100 },
            ),
            (
                |checker| {
                    checker.submitted("m", false);
                    checker.refused("m");
                    checker.delivered("m", 1, 5000, None);
                },
                Violation::Phantom { id: id() },
            ),
            (
                |checker| {
                    sent(checker);
                    for until in [1000, 2000, 3000, 4000] {
                        checker.delivered("m", 1, until, None);
                    }
                    checker.settled("m");
                },
                Violation::DeliveredTooOften { id: id(), deliveries: 4 },
            ),
        ];
        for (story, violation) in table {
            assert_eq!(violations(story), [violation]);
        }
    }

    #[test]
    fn what_is_unknown_is_counted_as_unknown() {
        let mut checker = Checker::new(LOCK_MS, 3);
        checker.submitted("unanswered", false);
        checker.submitted("expired", true);
        checker.acknowledged("expired");
        checker.submitted("perhaps", false);
        checker.acknowledged("perhaps");
        checker.perhaps_settled("perhaps");
        let verdict = checker.verdict();
        assert!(verdict.holds());
        assert_eq!((verdict.unknown, verdict.vanished, verdict.perhaps_settled), (1, 1, 1));
    }

    /// A settlement of unknown outcome is decided by where the message is found.
    #[test]
    fn perhaps_settled_and_dead_lettered_is_dead_lettered() {
        let mut checker = Checker::new(LOCK_MS, 3);
        sent(&mut checker);
        checker.perhaps_settled("m");
        checker.dead_lettered("m", DEAD, Some(100), 100);
        let verdict = checker.verdict();
        assert!(verdict.holds());
        assert_eq!(verdict.dead_lettered, BTreeMap::from([(DEAD.to_owned(), 1)]));
    }
}
