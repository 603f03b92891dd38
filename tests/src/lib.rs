//! Real clusters for end-to-end tests: `mayfly serve` processes on loopback ports of their own,
//! data in a temporary directory, everything gone when the test ends, however it ends.

mod amqp_client;
mod cluster;
mod disk;
mod load;

pub use amqp_client::AmqpClient;
pub use cluster::{Cluster, Settings, free_ports, mayfly};
pub use disk::SmallDisk;
pub use load::{Load, LoadOptions};
