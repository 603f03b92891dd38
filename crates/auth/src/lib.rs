//! Who may do what: named keys with rights, and the shared access signatures made with them. Every
//! port for clients asks here, so that a token is good everywhere or nowhere.
//!
//! No clock and no socket: times are numbers, and what was granted is remembered by whoever asked.
//!
//! Reading order: rights, the paths they are for, who somebody is, keys, grants, certificates,
//! proofs, tokens of other issuers, tokens of nodes that join, guesses, access.

mod right;

mod path;

mod principal;

mod key;

mod grant;

mod cluster_uri;

mod certified;

mod web_token;

mod token;

mod issuer;

mod join_token;

mod guesses;

mod offer;

mod access;

#[cfg(test)]
mod fuzz;

pub use access::{Access, Denied, Evidence, Hosts, Keyring, named_path};
pub use certified::{CertificateMap, Certified, NoClient};
pub use cluster_uri::ClusterUri;
pub use grant::Grant;
pub use guesses::{Guesses, Held, network};
pub use issuer::{AZURE_ROLES, Issuer, Issuers, KeyToken, Role, TokenAuthority};
pub use join_token::{JoinSecret, JoinToken, NoJoinToken};
pub use key::{Key, Seal};
pub use offer::{Offer, authorization, claimed_name};
pub use path::{Reach, addressed, covers, entity_path, host_of, resource_path};
pub use principal::Principal;
pub use right::{Right, Rights};
pub use token::{Token, TokenError, sign};
pub use web_token::{KeySet, WebToken, WebTokenFault};
