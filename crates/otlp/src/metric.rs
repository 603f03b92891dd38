//! What became of pages that were pushed, as a metric.

use metrics::{Unit, counter, describe_counter};

/// By `outcome`.
const EXPORTS: &str = "mayfly_metric_exports_total";

/// What became of a page of metrics.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    Taken,
    /// The collector was not reached, or would not have it now.
    Away,
    /// It would not have it, or some of it.
    Refused,
}

impl Outcome {
    const ALL: [Outcome; 3] = [Outcome::Taken, Outcome::Away, Outcome::Refused];

    fn name(self) -> &'static str {
        match self {
            Outcome::Taken => "taken",
            Outcome::Away => "away",
            Outcome::Refused => "refused",
        }
    }
}

/// Describes what is recorded here to the installed recorder.
pub fn describe() {
    describe_counter!(
        EXPORTS,
        Unit::Count,
        "Pages of metrics that were pushed to a collector (`metrics.otlp_endpoint`), by `outcome`: `taken`; `away`, as \
         it was not reached, or was busy; `refused`, as it would not have all of it."
    );
    // There from the start: the first one that fails is a rise, then.
    Outcome::ALL.into_iter().for_each(|outcome| count(outcome, 0));
}

pub fn exported(outcome: Outcome) {
    count(outcome, 1);
}

fn count(outcome: Outcome, pages: u64) {
    counter!(EXPORTS, "outcome" => outcome.name()).increment(pages);
}
