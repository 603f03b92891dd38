//! The name of a node or of a client in its certificate: a URI among the subject's alternative names, as
//! SPIFFE has it for any workload.

use std::fmt;

const SCHEME: &str = "mayfly://";
/// In the place of an id: the cluster that trusts whoever signed.
const ANY_CLUSTER: &str = "cluster";
const CLUSTER_DIGITS: usize = 32;

/// `mayfly://cluster/node/3`, or with the id of the one cluster it is good for in the place of `cluster`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterUri<'a> {
    /// 32 hexadecimal digits in small letters. `None`: any cluster that trusts the authority.
    pub cluster: Option<&'a str>,
    /// What it names, as in "node".
    pub kind: &'a str,
    pub name: &'a str,
}

impl<'a> ClusterUri<'a> {
    pub const NODE: &'static str = "node";
    pub const CLIENT: &'static str = "client";

    /// Whether a URI means to name something of a cluster, rightly or not.
    pub fn is_meant(uri: &str) -> bool {
        uri.starts_with(SCHEME)
    }

    /// As it is written, and in no other spelling: what proves something is compared, not interpreted.
    pub fn parse(uri: &'a str) -> Option<ClusterUri<'a>> {
        let (cluster, path) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let (kind, name) = path.split_once('/')?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let cluster = match cluster {
            ANY_CLUSTER => None,
            id if id.len() == CLUSTER_DIGITS && id.bytes().all(is_digit) => Some(id),
            _ => return None,
        };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let is_name = |text: &str| !text.is_empty() && text.chars().all(is_plain);
        (is_name(kind) && is_name(name)).then_some(ClusterUri { cluster, kind, name })
    }
}

impl fmt::Display for ClusterUri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClusterUri { cluster, kind, name } = self;
        write!(f, "{SCHEME}{}/{kind}/{name}", cluster.unwrap_or(ANY_CLUSTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_uri_names_is_read_as_it_is_written() {
        let id = "0123456789abcdef0123456789abcdef";
        for (uri, cluster, kind, name) in [
            ("mayfly://cluster/node/1", None, "node", "1"),
            ("mayfly://cluster/client/orders-worker.1_a", None, "client", "orders-worker.1_a"),
            (&format!("mayfly://{id}/client/a"), Some(id), "client", "a"),
        ] {
            let read = ClusterUri::parse(uri).expect(uri);
            assert_eq!(read, ClusterUri { cluster, kind, name });
            assert_eq!(read.to_string(), uri);
        }
        for uri in [
            "",
            "mayfly://cluster/client/",
            "mayfly://cluster/client",
            "mayfly://cluster//a",
            "mayfly://cluster/client/a/b",
            "mayfly://cluster/client/a?b",
            "mayfly://cluster/client/a b",
            "mayfly://cluster/client/ä",
            "mayfly://Cluster/client/a",
            "MAYFLY://cluster/client/a",
            "mayfly:///client/a",
            "mayfly://0123456789ABCDEF0123456789ABCDEF/client/a",
            "mayfly://0123/client/a",
            "spiffe://cluster/client/a",
        ] {
            assert_eq!(ClusterUri::parse(uri), None, "{uri}");
        }
    }
}
