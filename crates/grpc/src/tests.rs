//! The native API over a loopback socket, with the generated client.

mod calls;
mod edges;
mod harness;
mod streams;
mod transactions;
