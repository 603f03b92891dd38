//! The nodes of a cluster to each other: what they say for their clients, how it gets there, and what each
//! knows of itself.

mod about_node;
mod frame;
mod link;
mod links;
mod local;
mod server;
mod waiting_receivers;

pub(crate) use self::about_node::AboutNode;
pub(crate) use self::link::{Link, Outgoing};
pub(crate) use self::links::Links;
pub(crate) use self::local::{LocalNode, NOT_DEVELOPMENT};
pub(crate) use self::server::serve;
pub(crate) use self::waiting_receivers::WaitingReceiver;
