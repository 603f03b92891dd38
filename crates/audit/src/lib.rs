//! The audit trail: who did what to entities, rules, keys and the cluster, from where and when, and what
//! came of it; and whose proofs were refused. Messages are not in it, nor any proof.
//!
//! Every port for clients tells the same [`Trail`]. It never waits: what its queue has no room for is
//! counted, and the count is told in the trail itself.
//!
//! Reading order: what is done, what came of it, records, addresses whose proofs are refused, the journal
//! that is written, the trail.

mod action;

mod outcome;

mod record;

mod strangers;

mod journal;

mod trail;

#[cfg(test)]
mod tests;

pub use action::Action;
pub use journal::Settings;
pub use outcome::Outcome;
pub use record::{Caller, Protocol};
pub use trail::{Entry, Refused, Trail, describe};
