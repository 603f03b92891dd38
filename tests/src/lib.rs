//! Real clusters for end-to-end tests: `mayfly serve` processes on loopback ports of their own,
//! data in a temporary directory, everything gone when the test ends, however it ends.

mod amqp;
mod cluster;
mod http_client;
mod load;
mod proxy;
mod raw;
mod raw_amqp;
pub mod specification;
pub mod wire;

pub use amqp::{AmqpClient, AmqpNode, AmqpReply};
pub use chaos::free_ports;
pub use cluster::{Cluster, Settings, mayfly};
pub use http_client::{HttpAnswer, ask};
pub use load::{Load, LoadOptions};
pub use proxy::{Harm, Plan, Proxy, Toward};
pub use raw::Raw;
pub use raw_amqp::{RawAmqp, framed};
