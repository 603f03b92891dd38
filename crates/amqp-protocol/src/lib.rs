//! AMQP 1.0 without I/O: bytes in, bytes and events out. No socket, no clock, no runtime; a server and a
//! client are the same state machine in two roles.
//!
//! | module | what it is |
//! |---|---|
//! | [`codec`] | types, frames and performatives, decoded without copying |
//! | [`message`] | a message's sections, located and not decoded |
//! | [`request`] | requests and replies over a pair of links |
//! | [`engine`] | connections, sessions and links, in either role |
//! | [`condition`] | names of the standard's error conditions |
//!
//! [`Limits`] bounds what a peer may cost; nothing in here trusts a peer's manners. What is not here:
//! resuming of deliveries after a lost connection, and SASL mechanisms beside ANONYMOUS and PLAIN
//! (MSSBCBS is taken for the former).
//!
//! # Example
//!
//! A client sends a message to a server, both in memory: what one writes the other reads.
//!
//! ```
//! use amqp_protocol::codec::{Attach, DeliveryState, Tag};
//! use amqp_protocol::engine::{Config, Connection, Event, Mechanism, Millis, Outgoing, Payload};
//! use amqp_protocol::Limits;
//! use bytes::{Buf, Bytes, BytesMut};
//!
//! let now = Millis(0);
//! let config = |name: &str| Config {
//!     container_id: name.into(),
//!     hostname: None,
//!     offered_capabilities: Default::default(),
//!     properties: None,
//!     limits: Limits::default(),
//! };
//! let mut server = Connection::server(config("server"), now);
//! let mut client = Connection::client(config("client"), Mechanism::Anonymous, now);
//!
//! /// What a socket would carry.
//! fn carry(from: &mut Connection, to: &mut BytesMut) -> usize {
//!     from.flush();
//!     let output = from.output();
//!     let count = output.remaining();
//!     to.extend_from_slice(&output.copy_to_bytes(count));
//!     count
//! }
//!
//! let (mut to_server, mut to_client) = (BytesMut::new(), BytesMut::new());
//! let mut outcome = None;
//! loop {
//!     let carried = carry(&mut client, &mut to_server) + carry(&mut server, &mut to_client);
//!     while let Some(event) = server.poll(&mut to_server, now) {
//!         match event {
//!             Event::Login(_) => server.login(true),
//!             Event::AttachRequested { link, attach, .. } => {
//!                 server.accept(link, attach.reply(1 << 20)).unwrap();
//!                 server.grant(link, 10).unwrap();
//!             }
//!             Event::Delivery(delivery) => {
//!                 // A message of one data section: "hi".
//!                 assert_eq!(&delivery.payload.unwrap()[..], b"\0Su\xa0\x02hi");
//!                 server.settle(delivery.id, DeliveryState::ACCEPTED).unwrap();
//!             }
//!             _ => {}
//!         }
//!     }
//!     while let Some(event) = client.poll(&mut to_client, now) {
//!         match event {
//!             Event::Opened(_) => drop(client.begin()),
//!             Event::Began(session) => {
//!                 client.attach(session, Attach::sender("link", "queue")).unwrap();
//!             }
//!             Event::Credit { link, .. } => {
//!                 let message = Outgoing {
//!                     tag: Tag::new(b"1").unwrap(),
//!                     message_format: 0,
//!                     settled: false,
//!                     state: None,
//!                     payload: Payload::from(Bytes::from_static(b"\0Su\xa0\x02hi")),
//!                 };
//!                 client.send(link, &message).unwrap();
//!             }
//!             Event::Disposed { state, .. } => outcome = state,
//!             _ => {}
//!         }
//!     }
//!     if carried == 0 {
//!         break;
//!     }
//! }
//! assert_eq!(outcome, Some(DeliveryState::ACCEPTED));
//! ```

mod limits;

pub mod codec;

pub mod condition;
pub mod message;
pub mod request;

pub mod engine;

pub use limits::Limits;

#[cfg(test)]
mod fuzz;
