//! Outcomes, and what a peek showed, in the words of a table.

use std::fmt::Write;

use domain::{Delivery, MessageState, Outcome, Performed, Refusal, Refused};

use crate::support::EPOCH;

/// What a peek showed, in words.
pub fn seen(peeked: Result<Vec<Delivery>, Refusal>) -> String {
    match peeked {
        Ok(deliveries) => deliveries.iter().fold("saw".to_owned(), |mut all, seen| {
            write!(all, " {}{}", seen.sequence, letter(seen.state)).expect("a string");
            all
        }),
        Err(refusal) => words(&Outcome::Refused(refusal)),
    }
}

fn letter(state: MessageState) -> &'static str {
    match state {
        MessageState::Active => "",
        MessageState::Deferred => "D",
        MessageState::Scheduled => "S",
    }
}

/// One spelling of a queue: parts trimmed, empty ones at the end left out.
pub fn tidy(queue: &str) -> String {
    let parts: Vec<_> = queue.split('|').map(str::trim).collect();
    let queue = parts.join(" | ").replace("  ", " ");
    queue.trim_end_matches([' ', '|']).trim_start().to_owned()
}

/// An outcome in words.
pub fn words(outcome: &Outcome) -> String {
    let mut text = String::new();
    let add = |text: &mut String, name: &str, count: u32| {
        if count > 0 {
            write!(text, " {name} {count}").expect("a string");
        }
    };
    match outcome {
        Outcome::Done => text.push_str("done"),
        Outcome::Refused(Refusal::TransactionRolledBack { operation, cause }) => {
            write!(text, "rolled back by {operation}: {}", cause.0.name()).expect("a string");
        }
        Outcome::Refused(refusal) => text.push_str(refusal.name()),
        Outcome::Sent { sequences } => {
            text.push_str("sent");
            sequences.iter().for_each(|n| write!(text, " {n}").expect("a string"));
        }
        Outcome::Acquired { deliveries, more } => {
            text.push_str("got");
            for delivery in deliveries {
                write!(text, " {}", delivery.sequence).expect("a string");
            }
            text.push_str(if *more { " more" } else { "" });
        }
        Outcome::Settled { refused } => {
            text.push_str("settled");
            for (position, refusal) in refused {
                write!(text, " not {position} {}", refusal.name()).expect("a string");
            }
        }
        Outcome::Renewed { until } => {
            text.push_str("until");
            until.iter().for_each(|t| write!(text, " {}", t.since(EPOCH).0).expect("a string"));
        }
        Outcome::Deleted { count, more } => {
            write!(text, "deleted {count}").expect("a string");
            text.push_str(if *more { " more" } else { "" });
        }
        Outcome::Fired(fired) => {
            text.push_str("fired");
            add(&mut text, "activated", fired.activated);
            add(&mut text, "dropped", fired.dropped);
            add(&mut text, "dead-lettered", fired.dead_lettered);
            add(&mut text, "released", fired.released);
            text.push_str(if fired.more { " more" } else { "" });
        }
        Outcome::Accepted { token, until } => {
            write!(text, "accepted {} until {}", token.session, until.since(EPOCH).0)
                .expect("a string");
        }
        Outcome::Arrived { done, refused } => {
            write!(text, "arrived {done}").expect("a string");
            for refused in refused {
                let Refused { first, count, reason, .. } = refused;
                write!(text, " not {first}+{count} {reason}").expect("a string");
            }
        }
        Outcome::Spared => text.push_str("spared"),
        Outcome::Catalog(outcome) => write!(text, "{outcome:?}").expect("a string"),
        Outcome::Committed { performed } => {
            text.push_str("committed");
            for one in performed {
                match one {
                    Performed::Done => text.push_str(" done"),
                    Performed::Sent { sequences } => {
                        sequences.iter().for_each(|n| write!(text, " {n}").expect("a string"));
                    }
                    Performed::Renewed { .. } => text.push_str(" renewed"),
                }
            }
        }
    }
    text
}
