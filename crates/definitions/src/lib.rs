//! Definitions: the entities a cluster is to have, their properties, rules and keys, as files describe
//! them; what is wrong with them; how they differ from what a cluster has; and the steps that make it so.
//!
//! Invariant: no I/O, no clock. Whoever reads the files and speaks with a cluster gives texts and
//! [`Found`], and gets a [`Plan`], or everything that is wrong at once.
//!
//! Reading order: the model, what files say in [our own form](document) and in others, then the
//! plan.

pub mod duration;

pub mod place;

mod definition;
mod problem;
mod word;

mod node;
mod rule;
mod scalar;

mod azure;
pub mod document;
mod emulator;
mod format;

mod difference;
mod order;
mod plan;
mod section;
mod step;
mod validity;

pub use azure::{resource_body, write_template};
pub use definition::{
    Definitions, EntityDefinition, Found, Lists, RuleDefinition, SubscriptionDefinition,
};
pub use format::{Parameters, Parsed, merged, read, read_emulator};
pub use node::Node;
pub use plan::{Options, Plan, plan};
pub use problem::Problem;
pub use section::section;
pub use step::{Change, EntityPath, Properties, Step};
pub use validity::{check_rule, problems};
