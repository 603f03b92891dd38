//! An AMQP 1.0 client on tokio: the engine of [`amqp_protocol`] between a stream and its owner.
//!
//! A [`Client`] is one connection with one session. It has no task of its own: whoever owns it drives
//! it. There are two ways to do so, and they mix. The simple one waits for each answer:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use amqp_client::{Client, Options};
//! use amqp_protocol::codec::DeliveryState;
//! # let message = bytes::Bytes::new();
//!
//! let mut client = Client::connect("localhost:5672", Options::default()).await?;
//! let sender = client.sender("queue").await?.expect("the queue is there");
//! assert_eq!(client.send(sender, 0, message).await?, DeliveryState::ACCEPTED);
//!
//! let receiver = client.receiver("queue").await?.expect("the queue is there");
//! client.grant(receiver, 10).await?;
//! let delivery = client.receive(receiver).await?;
//! client.settle(&delivery, DeliveryState::ACCEPTED).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The fast one asks the [engine](Client::engine) for as much as it likes, takes a [turn](Client::turn),
//! and [polls](Client::poll) what came of it: transfers, credit and verdicts are then as many to a write
//! as there are.
//!
//! What is beyond AMQP itself (tokens, filters, operations of a management node) is its callers'; for
//! exchanges of requests and replies there is [`RequestLink`].

mod client;
mod error;
mod request;

pub use client::{Client, Options, Transport};
pub use error::{Answer, Error};
pub use request::RequestLink;

#[cfg(test)]
mod tests;
