//! Faults on the message plane (FAULT): what a client can be made to meet, on demand.
//!
//! A [`Rule`] says *where* (which entity, operation, client, key, message), *when* (which of the events there) and
//! *what* ([`Effect`]). The cluster keeps rules as text; a node's [`RuleBook`] holds those in force, and a front end
//! asks it about each [`Event`]. Where there are no rules, that is the reading of one flag.
//!
//! Invariant: nothing here does anything to anybody. A front end does what its [`Hit`] says, because only it knows
//! what its protocol can do to a client.
//!
//! Reading order: what is written; what it means; the book.

mod written;

mod effect;
mod error_name;
mod event;
mod occasion;
mod operation;
mod place;
mod rule;
mod span_range;

mod book;
mod metric;

pub use book::{Hit, RuleBook, Tally};
pub use effect::{Effect, Phase};
pub use error_name::ErrorName;
pub use event::Event;
pub use metric::describe;
pub use operation::{Operation, Protocol};
pub use place::Place;
pub use rule::{Rule, RuleFault};
pub use span_range::SpanRange;
pub use written::{RulesFile, WrittenRule};
