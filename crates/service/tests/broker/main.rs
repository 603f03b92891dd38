//! The Broker over real stores, Raft and sockets: one node for what messages live through, three
//! for what nodes do.

mod harness;

mod entities;
mod idle;
mod idle_topics;
mod leaders;
mod lifetime;
mod messages;
mod space;
mod topics;
mod transactions;
