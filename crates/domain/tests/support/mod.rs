//! What the tables and the model share: a group over rows in memory, and what must hold in its rows
//! after every step, whatever was asked.

pub mod content;
mod group;
mod invariants;
mod lives;
mod sessions;
mod topics;
mod world;

pub use group::{EPOCH, Group, QUEUE};
pub use world::World;
