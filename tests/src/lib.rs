//! Real clusters for end-to-end tests: `mayfly serve` processes on loopback ports of their own,
//! data in a temporary directory, everything gone when the test ends, however it ends.

mod amqp;
mod amqp_transaction;
mod cluster;
mod collector;
mod document;
pub mod drawn;
mod http_2_client;
mod http_client;
mod load;
mod local_cluster;
mod page;
mod proxy;
mod raw;
mod raw_amqp;
mod shell;
pub mod specification;
pub mod wire;

pub use amqp::{AmqpClient, AmqpNode, AmqpReply};
pub use amqp_transaction::{AmqpCoordinator, AmqpVerdict, refusal, within};
pub use chaos::free_ports;
pub use cluster::{Cluster, Settings, authority, cert, mayfly, sign};
pub use collector::{CollectedSpan, Collector, tree, value as attribute_value};
pub use document::{Block, Document, Link};
pub use http_2_client::{Http2Answer, Http2Client};
pub use http_client::{HttpAnswer, ask};
pub use load::{Load, LoadOptions};
pub use local_cluster::LocalCluster;
pub use page::Page;
pub use proxy::{Harm, Plan, Proxy, Toward};
pub use raw::Raw;
pub use raw_amqp::{RawAmqp, framed};
pub use shell::calls;
