//! Rust client of Mayfly's native API.
//!
//! ```no_run
//! # async fn example() -> Result<(), client::Error> {
//! use client::{Client, Message, ReceiverOptions, SenderOptions};
//!
//! let client = Client::connect(["127.0.0.1:5310", "127.0.0.1:6310", "127.0.0.1:7310"])?;
//! let sender = client.sender("orders", SenderOptions::default());
//! let number = sender.send(Message::new("hello").ttl_ms(60_000)).await?;
//!
//! let mut receiver = client.receiver("orders", ReceiverOptions::default());
//! let delivery = receiver.recv().await?;
//! receiver.complete(&delivery).await?;
//! # let _ = number;
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: what was acknowledged is never sent again, what was not is resent under the same
//! producer and serial until it is answered (SEND-8), and every error says which of three things is
//! so: refused, certainly not done, perhaps done.
//!
//! Reading order: what travels ([`Message`], [`Delivery`]), what goes wrong ([`Error`]), how nodes
//! are found, single calls, then the two streams.

mod api;
mod delivery;
mod error;
mod message;

mod health;
mod nodes;
mod options;
mod proof;
mod route;

mod backups;
mod calls;
mod client;
mod connections;
mod entities;
mod events;
mod faults;
mod history;
mod namespaces;
mod topics;

mod link;
mod receive_stream;
mod receiver;
mod send_stream;
mod sender;
mod session;
mod sessions;
mod support;
mod transaction;

pub use backups::{BackupStream, RestoreStream};
pub use client::Client;
pub use delivery::{Delivery, Disposition, QueuePath};
pub use error::{Detail, Error};
pub use health::is_serving;
pub use history::{HistoryGap, HistoryReader};
pub use message::{Message, value};
pub use options::{ClientCertificate, ClientOptions, ReceiverOptions, SenderOptions, Trust};
pub use receiver::{Receiver, Settler, Settling};
pub use sender::{Sender, Sending};
pub use session::SessionReceiver;
pub use topics::subscription_path;
pub use transaction::{Committed, Transaction};

pub use wire::history::{is_of, main_of, step_name, step_text};
/// The native API's messages, as generated.
pub use wire::v1;

#[cfg(test)]
mod tests;
