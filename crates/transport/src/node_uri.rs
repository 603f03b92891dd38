//! The name of a node in its certificate.

use std::fmt;
use std::str::FromStr;

use auth::ClusterUri;
use thiserror::Error;

/// A node's number; 0 is none.
const NODE_MAX: u64 = u16::MAX as u64;

/// `mayfly://cluster/node/3`, or with the id of the one cluster it is good for in the place of `cluster`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUri {
    /// 32 hexadecimal digits. `None`: any cluster that trusts the authority.
    pub cluster: Option<String>,
    /// From 1 to 65,535.
    pub node: u64,
}

/// A URI of the scheme that names no node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' names no node; it should read mayfly://cluster/node/3")]
pub struct NoNode(String);

impl NodeUri {
    /// Whether a URI means to name a node, rightly or not.
    pub fn is_meant(uri: &str) -> bool {
        let is_clients =
            || ClusterUri::parse(uri).is_some_and(|uri| uri.kind == ClusterUri::CLIENT);
        ClusterUri::is_meant(uri) && !is_clients()
    }
}

impl fmt::Display for NodeUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cluster, name) = (self.cluster.as_deref(), self.node.to_string());
        ClusterUri { cluster, kind: ClusterUri::NODE, name: &name }.fmt(f)
    }
}

impl FromStr for NodeUri {
    type Err = NoNode;

    /// As it is written, and in no other spelling.
    fn from_str(uri: &str) -> Result<NodeUri, NoNode> {
        let read = || {
            let ClusterUri { cluster, kind, name } = ClusterUri::parse(uri)?;
            let number = name.parse().ok().filter(|node| (1..=NODE_MAX).contains(node));
            let node = number.filter(|_| kind == ClusterUri::NODE)?;
            let read = NodeUri { cluster: cluster.map(str::to_owned), node };
            Some(read).filter(|read| read.to_string() == uri)
        };
        read().ok_or_else(|| NoNode(uri.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_read_as_it_is_written() {
        let id = "0123456789abcdef0123456789abcdef";
        for (uri, cluster, node) in [
            ("mayfly://cluster/node/1", None, 1),
            ("mayfly://cluster/node/65535", None, 65_535),
            (&format!("mayfly://{id}/node/3"), Some(id), 3),
        ] {
            let read: NodeUri = uri.parse().expect(uri);
            assert_eq!((read.cluster.as_deref(), read.node), (cluster, node));
            assert_eq!(read.to_string(), uri);
        }
    }

    #[test]
    fn nothing_else_names_a_node() {
        for uri in [
            "",
            "mayfly://cluster/node/",
            "mayfly://cluster/node/0",
            "mayfly://cluster/node/65536",
            "mayfly://cluster/node/01",
            "mayfly://cluster/node/+1",
            "mayfly://cluster/node/1/",
            "mayfly://cluster/node/1?x",
            "mayfly://cluster/node/ 1",
            "mayfly://Cluster/node/1",
            "MAYFLY://cluster/node/1",
            "mayfly:///node/1",
            "mayfly://0123456789ABCDEF0123456789ABCDEF/node/1",
            "mayfly://0123/node/1",
            "spiffe://cluster/node/1",
            "mayfly://cluster/node/1/node/2",
        ] {
            assert!(uri.parse::<NodeUri>().is_err(), "{uri}");
        }
    }
}
