//! Real clusters for end-to-end tests: `mayfly serve` processes on loopback ports of their own,
//! data in a temporary directory, everything gone when the test ends, however it ends.

mod amqp_client;
mod amqp_node;
mod cluster;
mod disk;
mod load;
mod proxy;
mod raw;

pub use amqp_client::AmqpClient;
pub use amqp_node::{AmqpNode, AmqpReply};
pub use cluster::{Cluster, Settings, free_ports, mayfly};
pub use disk::SmallDisk;
pub use load::{Load, LoadOptions};
pub use proxy::{Harm, Plan, Proxy, Toward};
pub use raw::Raw;
