//! Azure's Resource Manager and its authority for tokens, as far as Azure's own tools ask them about a Service Bus:
//! `az`, the management SDKs, and what is built on them.
//!
//! Invariant: it asks the broker what the other doors for management ask it, and keeps beside that only what the broker has
//! no use for: resource groups, tags, and the key that signs tokens, as documents of the cluster. Any node answers any
//! request.
//!
//! Reading order: what a path means; failures; tokens; what clients ask before they have one; who calls; the resources;
//! deployments of them.

mod failure;
mod path;

mod signature;

mod authority;
mod config;
mod discovery;

mod runs;

mod ask;
mod caller;
mod right;

mod authorization;
mod entities;
mod groups;
mod namespaces;
mod network;
mod resource;
mod rules;
mod subscriptions;

mod records;

mod deployments;

mod router;

pub use config::{Config, Messaging};
pub use path::is_for;
pub use router::{Azure, Visitor};
