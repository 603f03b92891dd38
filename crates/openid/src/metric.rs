//! Metrics about issuers.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

const FETCHED: &str = "mayfly_issuer_key_fetches_total";
const FETCHED_AT: &str = "mayfly_issuer_keys_fetched_timestamp_seconds";

/// Says what they are.
pub fn describe() {
    describe_counter!(
        FETCHED,
        "Times that the keys of an issuer of tokens were asked for, by what came of it."
    );
    describe_gauge!(
        FETCHED_AT,
        Unit::Seconds,
        "When the issuer last told its keys; until it does again those count."
    );
}

pub(crate) fn fetched(issuer: &str, at_s: u64) {
    counter!(FETCHED, "issuer" => issuer.to_owned(), "outcome" => "told").increment(1);
    gauge!(FETCHED_AT, "issuer" => issuer.to_owned()).set(at_s as f64);
}

pub(crate) fn failed(issuer: &str) {
    counter!(FETCHED, "issuer" => issuer.to_owned(), "outcome" => "failed").increment(1);
}
