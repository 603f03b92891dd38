//! The public keys of issuers of JSON web tokens: found by OpenID discovery over HTTPS, kept on disk for when the issuer
//! is away, and fetched again, soon where a token was signed with one that is not known.
//!
//! Reading order: one exchange with an issuer, and the task that follows it.

mod discovery;
mod follower;
mod metric;

pub use discovery::{Discovery, Place};
pub use follower::Follower;
pub use metric::describe;
