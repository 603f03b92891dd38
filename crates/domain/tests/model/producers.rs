//! SEND-8 in the model: who asked what, and what came of it.

use domain::{Origin, Outcome, PRODUCER_KEPT, Refusal, Span, Timestamp};

/// One who sends requests.
#[derive(Clone)]
struct Producer {
    id: u64,
    first: u64,
    highest: u64,
    seen: Timestamp,
    outcomes: Vec<(u64, Outcome)>,
}

#[derive(Clone, Default)]
pub struct Producers(Vec<Producer>);

impl Producers {
    /// SEND-8: the answer of a request that is not done.
    pub fn admit(&self, origin: Origin, at: Timestamp) -> Option<Outcome> {
        if origin.serial == 0 {
            let why = String::new();
            return Some(refused(Refusal::Argument { what: "serial", why }));
        }
        let perhaps = Some(refused(Refusal::PerhapsDone));
        let gap = |expected| Some(refused(Refusal::SerialGap { expected }));
        let Some(known) = self.known(origin.producer, at) else {
            return match (origin.retry, origin.ordered && origin.serial > 1) {
                (true, _) => perhaps,
                (false, true) => gap(1),
                (false, false) => None,
            };
        };
        if let Some((_, outcome)) = known.outcomes.iter().find(|(n, _)| *n == origin.serial) {
            return Some(outcome.clone());
        }
        if origin.serial > known.highest {
            let skipped = origin.ordered && origin.serial > known.highest + 1;
            return if skipped { gap(known.highest + 1) } else { None };
        }
        // Never seen, though later ones were: overtaken, or of before it was forgotten.
        if origin.serial > known.first || !origin.retry { None } else { perhaps }
    }

    fn known(&self, producer: u64, at: Timestamp) -> Option<&Producer> {
        let known = |p: &&Producer| p.id == producer && p.seen.plus(PRODUCER_KEPT) > at;
        self.0.iter().find(known)
    }

    pub fn record(&mut self, origin: Origin, at: Timestamp, outcome: &Outcome) {
        let Origin { producer: id, serial, .. } = origin;
        if self.known(id, at).is_none() {
            self.0.retain(|producer| producer.id != id);
            let (seen, outcomes) = (at, Vec::new());
            self.0.push(Producer { id, first: serial, highest: serial, seen, outcomes });
        }
        let producer = self.0.iter_mut().find(|p| p.id == id).expect("recorded");
        producer.highest = producer.highest.max(serial);
        producer.outcomes.push((serial, outcome.clone()));
        // To the minute.
        if at.since(producer.seen) >= Span::from_secs(60) {
            producer.seen = at;
        }
    }
}

fn refused(refusal: Refusal) -> Outcome {
    Outcome::Refused(refusal)
}
