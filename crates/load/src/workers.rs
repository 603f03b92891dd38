//! Several generators: a worker on each machine, and one coordinator that starts them together and lays together what
//! they find.
//!
//! Producers and consumers go round over the workers ([`crate::plan::Part`]); numbers of messages are of the producer,
//! and so as unique as with one generator. Consumers of the sessions of one place are on one worker: order can only be
//! seen where all of it comes.

mod attachment;
mod clock;
mod coordinator;
mod fleet;
mod sample;
mod target_form;
mod worker;

pub use coordinator::{Notice, WorkersRun};
pub use worker::Worker;

use remote::Audience;

/// Whom a coordinator proves to that it is one.
const AUDIENCE: Audience = Audience("mayfly-load-worker");
/// Both sides are of one version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
