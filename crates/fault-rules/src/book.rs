//! The rules in force at one node, and what came of them there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use domain::{FaultRuleRow, Timestamp};

use crate::effect::Effect;
use crate::error_name::ErrorName;
use crate::event::Event;
use crate::metric;
use crate::occasion::Counts;
use crate::operation::Operation;
use crate::rule::Rule;

/// A fault that an event meets.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The name of its rule.
    pub rule: Arc<str>,
    pub effect: Effect,
    /// Any number: what else is to be drawn is drawn from it.
    draw: u64,
}

impl Hit {
    /// How long, by the range of its effect.
    pub fn time(&self) -> Duration {
        match self.effect {
            Effect::Delay { time, .. } | Effect::Silence { time } => time.draw(self.draw),
            Effect::Lapse { after } => after.draw(self.draw),
            Effect::Refuse { .. }
            | Effect::LoseRequest
            | Effect::LoseAnswer
            | Effect::Detach { .. }
            | Effect::Close { .. }
            | Effect::Reset
            | Effect::Cut
            | Effect::WithholdCredit
            | Effect::Throttle { .. } => Duration::ZERO,
        }
    }

    /// What is refused is told this; `None` where it is not refused.
    pub fn refusal(&self) -> Option<ErrorName> {
        match self.effect {
            Effect::Refuse { error } => Some(error),
            Effect::Throttle { .. } => Some(ErrorName::ServiceBusy),
            _ => None,
        }
    }
}

/// What came of a rule at this node, since it was added or the node was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    pub name: String,
    /// The rule's, by which it is told from an earlier one of its name.
    pub added_at: Timestamp,
    /// At its place, and in its time.
    pub events: u64,
    pub hits: u64,
}

#[derive(Debug)]
struct Active {
    row: FaultRuleRow,
    name: Arc<str>,
    rule: Rule,
    counts: Counts,
    /// Of a throttle.
    bucket: Mutex<Bucket>,
}

/// Let pass in the present second.
#[derive(Debug)]
struct Bucket {
    since: Instant,
    passed: u32,
}

/// The rules in force at a node.
#[derive(Debug, Default)]
pub struct RuleBook {
    has_rules: AtomicBool,
    rules: RwLock<Arc<[Arc<Active>]>>,
}

impl RuleBook {
    /// Has these rules be in force and no others. What is unchanged goes on counting. One that this version does not
    /// understand is told and left out.
    pub fn set(&self, rows: &[FaultRuleRow]) {
        let old = self.rules();
        let rules: Arc<[Arc<Active>]> = rows
            .iter()
            .filter_map(|row| {
                let kept = old.iter().find(|active| active.row == *row);
                kept.cloned().or_else(|| Active::of(row).map(Arc::new))
            })
            .collect();
        self.has_rules.store(!rules.is_empty(), Ordering::Release);
        metric::in_force(rules.len());
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// Whether nothing meets a fault: what every event asks first.
    pub fn is_empty(&self) -> bool {
        !self.has_rules.load(Ordering::Acquire)
    }

    /// Whether a rule is about an operation: whether it is worth while to find out what the event is.
    pub fn concerns(&self, operation: Operation) -> bool {
        !self.is_empty()
            && self.rules().iter().any(|active| active.rule.place.operations.contains(&operation))
    }

    /// The fault that an event meets: that of the first rule, in the order they were added, whose place and occasion
    /// it is. `now`: by the cluster's clock.
    pub fn meet(&self, event: &Event<'_>, now: Timestamp) -> Option<Hit> {
        if self.is_empty() {
            return None;
        }
        let hit = self.rules().iter().find_map(|active| active.meet(event, now))?;
        metric::hit(hit.effect.name());
        tracing::debug!(
            rule = %hit.rule,
            effect = hit.effect.name(),
            operation = ?event.operation,
            entity = event.entity,
            client = event.client,
            link = event.link,
            "a fault is met"
        );
        Some(hit)
    }

    pub fn tallies(&self) -> Vec<Tally> {
        let tally = |active: &Arc<Active>| Tally {
            name: active.row.name.clone(),
            added_at: active.row.added_at,
            events: active.counts.events.load(Ordering::Relaxed),
            hits: active.counts.hits.load(Ordering::Relaxed),
        };
        self.rules().iter().map(tally).collect()
    }

    fn rules(&self) -> Arc<[Arc<Active>]> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Active {
    fn of(row: &FaultRuleRow) -> Option<Active> {
        let rule = match Rule::parse(&row.text) {
            Ok(rule) => rule,
            Err(why) => {
                let name = &row.name;
                tracing::warn!("the fault rule '{name}' is not in force at this node: {why}");
                return None;
            }
        };
        let bucket = Mutex::new(Bucket { since: Instant::now(), passed: 0 });
        let name = row.name.as_str().into();
        Some(Active { row: row.clone(), name, rule, counts: Counts::default(), bucket })
    }

    fn meet(&self, event: &Event<'_>, now: Timestamp) -> Option<Hit> {
        let is_over = self.row.ends_at.is_some_and(|ends_at| now >= ends_at);
        let works = self.rule.effect.works_over(event.protocol);
        if is_over || !works || !self.rule.place.takes(event) || self.lets_pass() {
            return None;
        }
        let since_added = now.since(self.row.added_at);
        let draw = self.rule.occasion.strikes(&self.counts, since_added)?;
        Some(Hit { rule: self.name.clone(), effect: self.rule.effect, draw })
    }

    /// Whether a throttle has room for one more in this second.
    fn lets_pass(&self) -> bool {
        let Effect::Throttle { per_second } = self.rule.effect else { return false };
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if bucket.since.elapsed() >= Duration::from_secs(1) {
            *bucket = Bucket { since: Instant::now(), passed: 0 };
        }
        let has_room = bucket.passed < per_second;
        bucket.passed += u32::from(has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Protocol;

    const ADDED: Timestamp = Timestamp(1_000);

    fn row(name: &str, text: &str) -> FaultRuleRow {
        let ends_at = Some(Timestamp(9_000));
        FaultRuleRow { name: name.to_owned(), text: text.to_owned(), added_at: ADDED, ends_at }
    }

    fn meets(book: &RuleBook, operation: Operation, entity: &str, at: u64) -> Option<String> {
        let event = Event::new(Protocol::Amqp, operation, entity);
        book.meet(&event, Timestamp(at)).map(|hit| hit.rule.to_string())
    }

    #[test]
    fn fault_1_the_first_rule_whose_place_and_occasion_it_is_strikes() {
        let book = RuleBook::default();
        assert!(book.is_empty());
        book.set(&[
            row("a", r#"{"operation":"send","entity":"orders","effect":"reset","hits":1}"#),
            row("b", r#"{"operation":["send","complete"],"effect":"lose-answer"}"#),
            row("of a later version", r#"{"operation":"send","effect":"teleport"}"#),
        ]);
        assert!(!book.is_empty());
        for (operation, entity, at, met) in [
            (Operation::Receive, "orders", 2_000, None),
            (Operation::Send, "orders", 2_000, Some("a")),
            (Operation::Send, "orders", 2_000, Some("b")),
            (Operation::Complete, "bills", 8_999, Some("b")),
            // FAULT-7: its time is over, whoever has not heard of it yet.
            (Operation::Complete, "bills", 9_000, None),
        ] {
            assert_eq!(meets(&book, operation, entity, at).as_deref(), met, "{operation:?} {at}");
        }
        let tally = |name: &str, events, hits| Tally {
            name: name.to_owned(),
            added_at: ADDED,
            events,
            hits,
        };
        assert_eq!(book.tallies(), [tally("a", 2, 1), tally("b", 2, 2)]);
        assert!(book.concerns(Operation::Complete) && !book.concerns(Operation::Receive));
    }

    #[test]
    fn fault_8_what_is_unchanged_goes_on_counting() {
        let book = RuleBook::default();
        let (a, b) = (
            row("a", r#"{"operation":"send","effect":"reset"}"#),
            row("b", r#"{"operation":"peek","effect":"reset"}"#),
        );
        book.set(std::slice::from_ref(&a));
        meets(&book, Operation::Send, "q", 2_000);
        book.set(&[b.clone(), a.clone()]);
        let hits = |book: &RuleBook| -> Vec<u64> {
            book.tallies().into_iter().map(|tally| tally.hits).collect()
        };
        assert_eq!(hits(&book), [0, 1]);
        book.set(&[FaultRuleRow { added_at: Timestamp(1_500), ..a }, b]);
        assert_eq!(hits(&book), [0, 0]);
        book.set(&[]);
        assert!(book.is_empty());
    }

    #[test]
    fn fault_5_a_throttle_lets_so_many_pass() {
        let book = RuleBook::default();
        book.set(&[row("t", r#"{"operation":"send","effect":"throttle","per_second":3}"#)]);
        let began = Instant::now();
        let met: Vec<bool> =
            (0..10).map(|_| meets(&book, Operation::Send, "q", 2_000).is_some()).collect();
        let expected = [[false; 3].as_slice(), &[true; 7]].concat();
        assert!(met == expected || began.elapsed() >= Duration::from_secs(1), "{met:?}");
    }

    #[test]
    fn fault_2_a_filter_looks_at_the_message() {
        let book = RuleBook::default();
        let rule = r#"{"operation":"send","effect":"reset","filter":"sys.Label = 'red'"}"#;
        book.set(&[row("f", rule)]);
        let content = |subject: &str| {
            let message = wire::v1::Message {
                subject: Some(subject.to_owned()),
                ..wire::v1::Message::default()
            };
            wire::content::encode(&message)
        };
        for (subject, met) in [("red", true), ("blue", false)] {
            let content = content(subject);
            let mut event = Event::new(Protocol::Amqp, Operation::Send, "q");
            event.message = Some(&content);
            assert_eq!(book.meet(&event, Timestamp(2_000)).is_some(), met, "{subject}");
        }
        assert_eq!(meets(&book, Operation::Send, "q", 2_000), None);
    }
}
