//! Every byte that leaves memory. The native API's messages are protobuf ([`v1`]); what the log,
//! the rows and the nodes among themselves hold is a compact codec of our own ([`Codec`]).
//!
//! Invariant: whatever bytes come in, decoding ends in a value or an [`Error`], never in a panic,
//! and reserves no more memory than a fixed multiple of the bytes it was given. Formats are for
//! ever: golden tests hold them.

mod codec;
mod error;
mod intern;

mod authorization;
mod command;
mod description;
mod forward;
mod identity;
mod key;
mod outcome;
mod property;
mod row;
mod session;
mod topic;
mod transaction;

pub mod content;
pub mod history;
pub mod native;

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod round_trip;

pub use codec::{Codec, Reader};
pub use command::{decode_entry, encode_entry};
pub use error::Error;
pub use key::{GROUP_BYTES, applied_key, decode_key, encode_key, group_range, put_key, take_key};
pub use row::{decode_row, encode_row, put_row};

/// The native API's messages, generated from `proto/`; `bytes` are slices of what was received.
#[allow(clippy::large_enum_variant, clippy::doc_overindented_list_items)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/mayfly.v1.rs"));
}

/// As the domain's: nothing prints the keys.
impl std::fmt::Debug for v1::AuthorizationRule {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let v1::AuthorizationRule { name, rights, .. } = self;
        let mut shown = out.debug_struct("AuthorizationRule");
        shown.field("name", name).field("rights", rights).finish_non_exhaustive()
    }
}

/// An encoded `FileDescriptorSet` of the native API, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
