//! What people type: durations, instants, properties, templates. Each reader says in one line what
//! is wrong and what to write instead.

pub mod instant;
pub mod json;
pub mod property;
pub mod template;

pub use definitions::duration;
