//! What is told to the recorder.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

const HITS: &str = "mayfly_fault_hits_total";
const RULES: &str = "mayfly_fault_rules";

/// Describes what is recorded here to the installed recorder.
pub fn describe() {
    describe_counter!(
        HITS,
        Unit::Count,
        "Events of this node's clients that met a fault, by its `effect`."
    );
    describe_gauge!(RULES, Unit::Count, "Fault rules in force.");
}

pub(crate) fn hit(effect: &'static str) {
    counter!(HITS, "effect" => effect).increment(1);
}

pub(crate) fn in_force(count: usize) {
    gauge!(RULES).set(count as f64);
}
