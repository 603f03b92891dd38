//! What is true. A group is a list of commands and one function over it: [`Step::apply`] takes
//! rows, a time stamp from the log and a command, and leaves rows and an outcome. Nothing here
//! reads a clock, draws a random number or waits, so every replica comes to the same rows.
//!
//! Reading order: identities and time, messages and entities, topics and their rules, rows, commands
//! and outcomes, the rule language, then the machine and one file per command, reads, and checks of
//! what clients ask for.

mod id;
mod time;

mod authorization;
mod entity;
mod entity_properties;
mod excerpt;
mod idle;
mod limits;
mod match_progress;
mod message;
mod message_event;
mod property;
mod qualified_name;
mod refusal;
mod tally;
mod trace_context;
mod traced_step;

mod rule;
mod topic;

pub mod key_map;
mod row;
mod rows;
mod session;

mod forward;

mod document;
mod profile;

mod namespace;

mod catalog;
mod command;
mod effect;
mod outcome;
mod transaction;

mod filter;
mod forward_read;
mod machine;
mod read;
mod relocation;
mod session_read;
pub mod validate;

pub use authorization::*;
pub use catalog::*;
pub use command::*;
pub use document::*;
pub use effect::*;
pub use entity::*;
pub use entity_properties::*;
pub use excerpt::*;
pub use filter::*;
pub use forward::*;
pub use forward_read::*;
pub use id::*;
pub use idle::*;
pub use limits::*;
pub use machine::*;
pub use match_progress::*;
pub use message::*;
pub use message_event::*;
pub use namespace::*;
pub use outcome::*;
pub use profile::*;
pub use property::*;
pub use qualified_name::*;
pub use read::*;
pub use refusal::*;
pub use relocation::*;
pub use row::*;
pub use rows::*;
pub use rule::*;
pub use session::*;
pub use session_read::*;
pub use tally::*;
pub use time::*;
pub use topic::*;
pub use trace_context::*;
pub use traced_step::*;
pub use transaction::*;
