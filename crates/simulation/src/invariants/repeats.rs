//! A request repeated under its origin is done once, and answered as the first time.

use domain::{Origin, Outcome, SequenceNumber};

use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken { invariant: "repeats", source: "SEND-8, DUP-2, DUP-9", what }
}

/// SEND-8. That it was not done again shows in rows: they hold nothing unaccounted for.
pub fn same(origin: Origin, first: &Outcome, now: &Outcome) -> Holds {
    match first == now {
        true => Ok(()),
        false => Err(broken(format!("{origin:?} was answered {first:?}, then {now:?}"))),
    }
}

/// DUP-9: a duplicate is answered with the number recorded for the first.
pub fn duplicate(first: SequenceNumber, now: SequenceNumber) -> Holds {
    match first == now {
        true => Ok(()),
        false => Err(broken(format!("a duplicate of {first} was answered with {now}"))),
    }
}
