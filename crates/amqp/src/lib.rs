//! AMQP 1.0 as the Service Bus SDKs speak it, between sockets and [`service::Broker`]. How AMQP is
//! spoken at all is in `amqp-protocol`, and what becomes of messages in `content`.
//!
//! Reading order: what Service Bus lays over the standard: conditions, terms of links, tokens on `$cbs`
//! and requests to `$management`; then the server.

pub mod cbs;
pub mod condition;
pub mod link_terms;
pub mod management;
pub mod selection;

pub mod server;

#[cfg(test)]
mod fuzz;

/// What a peer may cost, as [`server::Config`] has it.
pub use amqp_protocol::Limits;
