//! Between the native API's messages and the domain's types. What a client can get wrong is a
//! [`domain::Refusal`]; what ranges and combinations are allowed is the domain's to judge.

mod authorization;
mod entity_properties;
mod message_event;
mod profile;
mod property;
mod queue;
mod request;
mod rule;
mod topic;
mod transaction;

pub use authorization::{authorization_rules, root_rule, shown_rules};
pub use message_event::message_event;
pub use profile::{profile, shown_profile};
pub use property::*;
pub use queue::*;
pub use request::*;
pub use rule::*;
pub use topic::*;
pub use transaction::*;
