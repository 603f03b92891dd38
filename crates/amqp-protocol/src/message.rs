//! Messages: located, not decoded. A message is its bytes and the offsets of its sections; what is
//! needed of it is read where it stands, and what is not needed is never looked at.

mod builder;
mod properties;
mod sections;

pub use builder::MessageBuilder;
pub use properties::{Addressing, Entry, Header, Properties, UnixMs};
pub use sections::{BodyKind, Message, Section, Sections};

#[cfg(test)]
mod tests;
