//! What became of spans, as metrics.

use metrics::{Unit, counter, describe_counter};

const SENT: &str = "mayfly_spans_sent_total";
/// By `reason`.
const DROPPED: &str = "mayfly_spans_dropped_total";

/// Why a span was not told.
#[derive(Clone, Copy, Debug)]
pub enum Dropped {
    /// There were as many waiting as there may be.
    Full,
    /// The collector took none of them, and would not later.
    Refused,
}

impl Dropped {
    const ALL: [Dropped; 2] = [Dropped::Full, Dropped::Refused];

    fn name(self) -> &'static str {
        match self {
            Dropped::Full => "full",
            Dropped::Refused => "refused",
        }
    }
}

/// Describes what is recorded here to the installed recorder.
pub fn describe() {
    describe_counter!(
        SENT,
        Unit::Count,
        "Spans of traced messages that the collector took (`tracing.otlp_endpoint`)."
    );
    describe_counter!(
        DROPPED,
        Unit::Count,
        "Spans of traced messages that were not told, by `reason`: `full`, as too many waited for the collector; \
         `refused`, as it would not have them."
    );
    // There from the start: the first one dropped is a rise, then.
    counter!(SENT).increment(0);
    Dropped::ALL.into_iter().for_each(|reason| dropped(reason, 0));
}

pub fn sent(count: usize) {
    counter!(SENT).increment(count as u64);
}

pub fn dropped(reason: Dropped, count: usize) {
    counter!(DROPPED, "reason" => reason.name()).increment(count as u64);
}
