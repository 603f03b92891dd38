//! Stored messages: how each protocol's become one, and how each protocol reads what the other stored.
//!
//! The broker keeps a message as an opaque *content* with the few fields its machine needs beside it
//! ([`domain::NewMessage`]). The content of a message that was sent over AMQP is its encoding, as it
//! was sent (save an injected message-id, FORM-3). Every AMQP message begins with a descriptor and so
//! with the byte 0, which tells it from a content of the native API (`wire`: first byte 1): no format
//! byte has to be put before a body, so none is copied for it. What rules look at, every replica
//! reads of it in `wire`.
//!
//! [`Neutral`] is the form both meet in: the native API's message, with one more thing said about its
//! body.
//!
//! | AMQP | neutral | native API |
//! |---|---|---|
//! | one or more data sections | [`Body::Binary`], their bytes joined | `body` |
//! | amqp-value, amqp-sequence | [`Body::Amqp`], those sections as encoded | `body`, and `amqp_sections` |
//! | no body | empty [`Body::Binary`] | empty `body` |
//! | properties, message annotations, header.ttl | broker properties (MSG-2) | fields of the same name |
//! | application-properties | user properties (MSG-4) | `properties` |
//! | other annotations, other header and properties fields, footer | not shown | – |
//!
//! From the native API a message becomes one data section (or the sections [`Body::Amqp`] holds), so
//! what was sent over either protocol and is received over the other keeps body, broker properties
//! and user properties; only what the other has no name for is missing there, and none of it is lost
//! in store. A user property of a type that MSG-4 does not name (a list, a map) shows as the bytes of
//! its encoding.
//!
//! Invariant: neither store nor machine calls this. What a content says is read where a client sends,
//! receives or forwards it, and nowhere else; what every replica has to read of it is in `wire`.
//!
//! Reading order: the neutral form and what it is made of; taking a message in, showing it,
//! translating it; forwarding.

mod batch;
mod lifetime;
mod message_id;
mod neutral;
mod user_property;

pub mod annotation;

mod deliver;
mod ingest;
mod native;
mod overlay;
mod plain;

mod forward;

pub use batch::{BATCH_FORMAT, batch};
pub use deliver::{Shown, deliver};
pub use forward::forwarded;
pub use ingest::{ingest, new_message};
pub use message_id::id_text;
pub use native::{Unreadable, native, stored};
pub use neutral::{Body, Neutral};
pub use plain::{Plain, plain};
pub use user_property::{from_domain, to_domain};

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
