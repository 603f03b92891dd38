//! The web console: pages of the HTTP port for whoever looks after a cluster.
//!
//! Invariant: a page asks the native API what a client would, with the proof of whoever looks at it, and so
//! shows and does what that key may and nothing more; no right is decided here. Everything works without
//! scripts. Nothing is kept between requests, so that any node answers any of them.
//!
//! Reading order: sessions and visits; what pages are made of; the pages; their routes.

mod address;
mod failure;
mod form;
mod session;
mod text;

mod visit;

mod layout;

mod entity_properties;
mod message;

mod browse;
mod confirmation;
mod connections;
mod dead_letters;
mod development;
mod entity;
mod entity_form;
mod entity_list;
mod filter_tester;
mod history;
mod message_page;
mod overview;
mod rules;
mod send;
mod session_list;
mod sign_in;

mod router;

pub use router::Console;
pub use visit::Connection;
