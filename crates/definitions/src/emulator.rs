//! The configuration file of Microsoft's Service Bus emulator: JSON with comments, whose schema has other
//! defaults than Service Bus. A subscription's rules are all that it has.

mod file;
mod properties;
mod shape;

pub(crate) use file::read;
