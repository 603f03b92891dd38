//! A node's configuration file.

use std::collections::BTreeMap;
use std::path::Path;

/// Where a node is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub grpc: String,
    pub http: String,
    pub peer: String,
    pub amqp: String,
}

impl Addresses {
    /// Of a host, where gRPC, HTTP, peers and AMQP have these ports.
    pub fn of_ports(host: &str, ports: &[u16]) -> Addresses {
        let address = |at: usize| format!("{host}:{}", ports[at]);
        let (grpc, http, peer, amqp) = (address(0), address(1), address(2), address(3));
        Addresses { grpc, http, peer, amqp }
    }
}

/// What the files of all kinds of nodes say.
pub struct Text<'a> {
    pub data: &'a Path,
    pub listen: &'a Addresses,
    pub synced: bool,
    pub secret: Option<&'a str>,
    /// Those of a node with certificates.
    pub tls: &'a str,
    /// Of one that asks clients for a key beside the secret.
    pub keys: &'a str,
}

impl Text<'_> {
    /// Of a founder. `seen`: where it finds the others, and clients all of them.
    pub fn member(
        &self,
        id: u64,
        seen: &BTreeMap<u64, Addresses>,
        cluster_id: u128,
        data_groups: u16,
    ) -> String {
        let member = |(id, Addresses { grpc, http, peer, .. }): (&u64, &Addresses)| {
            format!(
                "[[cluster.node]]\nid = {id}\ngrpc = {grpc:?}\nhttp = {http:?}\npeer = {peer:?}\n"
            )
        };
        let members: String = seen.iter().map(member).collect();
        let cluster = format!(
            "[cluster]\nid = \"{cluster_id:032x}\"\ndata_groups = {data_groups}\n{members}"
        );
        self.whole(&format!("id = {id}\n"), &cluster)
    }

    /// Of a node that joins: the cluster tells it the rest.
    pub fn guest(&self) -> String {
        self.whole("", "")
    }

    fn whole(&self, id: &str, cluster: &str) -> String {
        let Text { data, listen: Addresses { grpc, http, peer, amqp }, tls, keys, .. } = self;
        let durability = if self.synced { "synced" } else { "replicated" };
        // Who has a secret is not on loopback, and in a network that has nobody else in it.
        let security =
            self.secret.map(|secret| format!("[security]\ninsecure = true\nsecret = {secret:?}\n"));
        let security = security.unwrap_or_default();
        format!(
            "[node]\n{id}data_dir = {data:?}\ndevelopment = true\n\
             [listen]\ngrpc = {grpc:?}\nhttp = {http:?}\npeer = {peer:?}\n\
             amqp = {amqp:?}\n{cluster}{security}{tls}{keys}\
             [storage]\nmemory_mebibytes = 128\ndisk_reserve_mebibytes = 16\n\
             durability = {durability:?}\n\
             [idle]\nreattach = \"2s\"\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_listens_at_its_own_ports_and_finds_others_behind_links() {
        let own = Addresses::of_ports("127.0.0.1", &[1, 2, 3, 4]);
        let other = Addresses::of_ports("127.0.0.1", &[7, 8, 9, 10]);
        let seen = BTreeMap::from([(1, own.clone()), (2, other)]);
        let secret = Some("s3cret");
        let (data, tls) = (Path::new("/data"), "[tls.peer]\nkey = \"k\"\n");
        let keys = "[[security.key]]\nname = \"clients\"\n";
        let text = Text { data, listen: &own, synced: false, secret, tls, keys };
        let file: toml::Table = text.member(1, &seen, 0xff, 3).parse().expect("it is TOML");
        assert_eq!(file["listen"]["peer"].as_str(), Some("127.0.0.1:3"));
        assert_eq!(file["listen"]["amqp"].as_str(), Some("127.0.0.1:4"));
        assert_eq!(file["storage"]["durability"].as_str(), Some("replicated"));
        assert_eq!(file["security"]["secret"].as_str(), secret);
        assert_eq!(file["security"]["key"][0]["name"].as_str(), Some("clients"));
        assert_eq!(file["tls"]["peer"]["key"].as_str(), Some("k"));
        assert_eq!(file["cluster"]["node"][1]["peer"].as_str(), Some("127.0.0.1:9"));
    }

    #[test]
    fn a_guest_names_no_cluster() {
        let own = Addresses::of_ports("127.0.0.1", &[1, 2, 3, 4]);
        let data = Path::new("/data");
        let text = Text { data, listen: &own, synced: true, secret: None, tls: "", keys: "" };
        let file: toml::Table = text.guest().parse().expect("it is TOML");
        assert!(
            !file.contains_key("cluster")
                && !file.contains_key("security")
                && !file["node"].as_table().is_some_and(|node| node.contains_key("id"))
        );
        assert_eq!(file["storage"]["durability"].as_str(), Some("synced"));
    }
}
