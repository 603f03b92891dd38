//! AMQP 1.0 as the Service Bus SDKs speak it. All but the server goes without a socket, a clock or a
//! broker: bytes and verdicts in, bytes and events out.
//!
//! Reading order: limits and codec, messages, the engine of connections, sessions and links, then
//! what Service Bus lays over them: conditions, tokens, `$cbs` and `$management`; last the server,
//! which puts them between sockets and [`service::Broker`].

mod limits;

pub mod codec;

pub mod message;

pub mod engine;

pub mod cbs;
pub mod condition;
pub mod management;
pub mod request;

pub mod server;

#[cfg(test)]
mod fuzz;

pub use limits::Limits;
