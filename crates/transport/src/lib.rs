//! Ports for clients, up to where a dialect begins: TCP, TLS over it, and byte streams that came
//! through something else. Whoever speaks AMQP, HTTP or gRPC gets [`Arrival`]s and cannot tell.
//!
//! Invariant: nobody waits for a stranger. Handshakes run beside each other, each has seconds to end,
//! and a client that stalls in one holds a task and a socket, nothing else.

mod stream;

mod tls;

mod port;

pub use port::{Arrival, Arrivals, Offer, accept, channel, plain};
pub use stream::{Duplex, Stream};
pub use tls::{Tls, TlsError};
