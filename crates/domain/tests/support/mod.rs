//! What the tables and the model share: a shard over rows in memory, and what must hold in its rows
//! after every step, whatever was asked.

pub mod content;
mod invariants;
mod sessions;
mod shard;
mod topics;
mod world;

pub use shard::{EPOCH, QUEUE, Shard};
pub use world::World;
