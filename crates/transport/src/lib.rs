//! Ports for clients, up to where a dialect begins: TCP, TLS over it, and byte streams that came
//! through something else. Whoever speaks AMQP, HTTP or gRPC gets [`Arrival`]s and cannot tell.
//!
//! What a client speaks is told by its first bytes, on every port. A port serves what it takes; who
//! speaks something else is handed to whoever speaks that, marked as misdirected, and is told so
//! there in its own protocol.
//!
//! Invariant: nobody waits for a stranger. Handshakes run beside each other, each has seconds to end,
//! and a client that stalls in one holds a task and a socket, nothing else.
//!
//! Reading order: what first bytes say, which port takes what, bounds of the log; a connection's bytes,
//! certificates and whom they name; TLS at both ends; the port itself; and proxies.

mod denials;
mod directory;
mod protocol;

mod stream;

mod node_uri;

mod certificate;

mod shown;

mod tls;

mod client_tls;

mod port;

mod socks;

pub use certificate::{AltName, Certificate, Fingerprint, Usage, Validity, is_host};
pub use client_tls::ClientTls;
pub use denials::Denials;
pub use directory::{Encryption, Port};
pub use node_uri::{NoNode, NodeUri};
pub use port::{Arrival, Arrivals, HandleReserve, Lines, Reception, channel, plain};
pub use protocol::{Opening, Protocol};
pub use shown::{Shown, host_of};
pub use socks::{ConnectRequest, dial};
pub use stream::{Begun, Duplex, Stream, bytes as stream_bytes};
pub use tls::{ClientTrust, Tls, TlsError};
