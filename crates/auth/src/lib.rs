//! Who may do what: named keys with rights, and the shared access signatures made with them. Every
//! port for clients asks here, so that a token is good everywhere or nowhere.
//!
//! No clock and no socket: times are numbers, and what was granted is remembered by whoever asked.
//!
//! Reading order: rights, the paths they are for, keys, tokens.

mod right;

mod path;

mod key;

mod token;

mod access;

pub use access::{Access, Grant};
pub use key::Key;
pub use path::{Reach, addressed, covers, entity_path, resource_path};
pub use right::{Right, Rights};
pub use token::{Token, TokenError, sign};
