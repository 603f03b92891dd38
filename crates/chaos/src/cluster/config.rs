//! A node's configuration file.

use std::collections::BTreeMap;
use std::path::Path;

/// Where a node is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub grpc: String,
    pub http: String,
    pub peer: String,
}

impl Addresses {
    pub fn of_ports((id, ports): (u64, &[u16])) -> (u64, Addresses) {
        let address = |at: usize| format!("127.0.0.1:{}", ports[at]);
        (id, Addresses { grpc: address(0), http: address(1), peer: address(2) })
    }
}

/// `own`: where it listens. `seen`: where it finds the others, and clients all of them.
pub fn text(
    id: u64,
    data: &Path,
    own: &Addresses,
    seen: &BTreeMap<u64, Addresses>,
    cluster_id: u128,
    data_groups: u16,
    synced: bool,
) -> String {
    let members: String = seen
        .iter()
        .map(|(id, Addresses { grpc, http, peer })| {
            format!(
                "[[cluster.node]]\nid = {id}\ngrpc = {grpc:?}\nhttp = {http:?}\npeer = {peer:?}\n"
            )
        })
        .collect();
    let cluster =
        format!("[cluster]\nid = \"{cluster_id:032x}\"\ndata_groups = {data_groups}\n{members}");
    whole(&format!("id = {id}\n"), data, own, &cluster, synced)
}

/// Of a node that joins: the cluster tells it the rest.
pub fn guest(data: &Path, own: &Addresses, synced: bool) -> String {
    whole("", data, own, "", synced)
}

fn whole(id: &str, data: &Path, own: &Addresses, cluster: &str, synced: bool) -> String {
    let Addresses { grpc, http, peer } = own;
    let durability = if synced { "synced" } else { "replicated" };
    format!(
        "[node]\n{id}data_dir = {data:?}\ndevelopment = true\n\
         [listen]\ngrpc = {grpc:?}\nhttp = {http:?}\npeer = {peer:?}\n{cluster}\
         [storage]\nmemory_mebibytes = 128\ndisk_reserve_mebibytes = 16\n\
         durability = {durability:?}\n\
         [idle]\nreattach = \"2s\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_listens_at_its_own_ports_and_finds_others_behind_links() {
        let (_, own) = Addresses::of_ports((1, &[1, 2, 3]));
        let (_, other) = Addresses::of_ports((2, &[7, 8, 9]));
        let seen = BTreeMap::from([(1, own.clone()), (2, other)]);
        let text = text(1, Path::new("/data"), &own, &seen, 0xff, 3, false);
        let file: toml::Table = text.parse().expect("it is TOML");
        assert_eq!(file["listen"]["peer"].as_str(), Some("127.0.0.1:3"));
        assert_eq!(file["storage"]["durability"].as_str(), Some("replicated"));
        assert_eq!(file["cluster"]["node"][1]["peer"].as_str(), Some("127.0.0.1:9"));
    }

    #[test]
    fn a_guest_names_no_cluster() {
        let (_, own) = Addresses::of_ports((1, &[1, 2, 3]));
        let file: toml::Table = guest(Path::new("/data"), &own, true).parse().expect("it is TOML");
        assert!(
            !file.contains_key("cluster")
                && !file["node"].as_table().is_some_and(|node| node.contains_key("id"))
        );
        assert_eq!(file["storage"]["durability"].as_str(), Some("synced"));
    }
}
