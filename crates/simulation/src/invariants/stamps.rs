//! The log's time is near true time, while a majority of wall clocks is right, and never runs back.

use domain::{Span, Timestamp};

use crate::report::{Broken, Holds};

/// Slews and crystals, over the age of a reading: with `clock.offset_max` the 510 ms of the README.
const SLACK_MS: u64 = 10;

fn broken(what: String) -> Broken {
    Broken { invariant: "stamps", source: "TIME-2, TIME-3, README (Clocks)", what }
}

/// Furthest a stamp may be off, with wall clocks that are right to within `error_ms`; none while no
/// majority of them is right.
pub fn bound_ms(offset_ms_max: u64, error_ms: u64) -> u64 {
    offset_ms_max + SLACK_MS + error_ms + 1 // Rounded down somewhere.
}

/// A leader stamps: neither far ahead nor, as it knows how far an operator moved time, far behind.
pub fn near(at: Timestamp, true_ms: u64, offset: Span, bound_ms: u64) -> Holds {
    let expected = Timestamp(true_ms).plus(offset);
    match at.0.abs_diff(expected.0) <= bound_ms || at > expected {
        true => Ok(()),
        false => Err(broken(format!("{at:?} was stamped at {expected:?}, bound {bound_ms} ms"))),
    }
}

/// An entry takes effect: nothing was due in it that is not due in truth, but for the bound.
pub fn not_ahead(at: Timestamp, true_ms: u64, advanced: Span, bound_ms: u64) -> Holds {
    let latest = Timestamp(true_ms).plus(advanced).plus(Span(bound_ms));
    match at <= latest {
        true => Ok(()),
        false => Err(broken(format!("an entry of {true_ms} takes effect at {at:?}: {latest:?}"))),
    }
}

/// TIME-3, by what rows keep.
pub fn not_back(before: Timestamp, at: Timestamp) -> Holds {
    match before <= at {
        true => Ok(()),
        false => Err(broken(format!("time ran back from {before:?} to {at:?}"))),
    }
}
