//! A certificate for a local cluster, signed by an authority made for it alone: clients trust that.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use transport::NodeUri;

use crate::authority::{Authority, Issued};
use crate::files::{self, Existing, Readers};

/// Both are good for so long: ten years.
const VALID_FOR: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Of the files of peers' authority.
const AUTHORITY: &str = "authority";
/// Where local nodes are reached.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Files of the certificate, in a directory of their own.
#[derive(Clone, Debug)]
pub struct Files {
    /// What clients are to trust.
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What clients are to trust, of the files in a directory.
pub fn authority(dir: &Path) -> PathBuf {
    dir.join("authority.pem")
}

/// Makes them, unless the directory has them from an earlier start, and for these names as well: for
/// others all is made anew, and clients have to trust another authority. Its own key is forgotten at
/// once, so it signs nothing else, ever.
pub fn ensure(dir: &Path, names: &[String]) -> anyhow::Result<Files> {
    let file = |name: &str| dir.join(name);
    let files = Files {
        authority: authority(dir),
        certificate: file("certificate.pem"),
        key: file("key.pem"),
    };
    let all = [&files.authority, &files.certificate, &files.key];
    // One name a line; absent where it is good for no others than always.
    let known_path = file("names");
    let known = fs::read_to_string(&known_path).unwrap_or_default();
    let is_known = |name: &String| known.lines().any(|known| known == name);
    if all.iter().all(|path| path.exists()) && names.iter().all(is_known) {
        return Ok(files);
    }
    let (authority, certificate, key) = make(names).context("cannot make a certificate")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot create '{}'", dir.display()))?;
    for (path, text, readers) in [
        (&files.authority, authority, Readers::All),
        (&files.certificate, certificate, Readers::All),
        (&files.key, key, Readers::Owner),
        // Last: they are its names once it is there.
        (&known_path, names.join("\n"), Readers::All),
    ] {
        files::write(path, &text, readers, Existing::Replaced)?;
    }
    Ok(files)
}

/// Of the nodes among themselves, in a directory of their own: an authority, which stays to make more, and
/// a pair for each. What is there from an earlier start is kept.
pub fn ensure_peers(dir: &Path, nodes: u16) -> anyhow::Result<()> {
    files::private_dir(dir)?;
    let paths = |name: &str| (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
    let keep = |name: &str, issued: &Issued| {
        let (certificate, key) = paths(name);
        files::write(&key, &issued.key, Readers::Owner, Existing::Replaced)?;
        // Last: the pair is there once it is.
        files::write(&certificate, &issued.certificate, Readers::All, Existing::Replaced)
    };
    let (certificate, key) = paths(AUTHORITY);
    if !certificate.exists() {
        keep(AUTHORITY, &Authority::make("Mayfly local peers", VALID_FOR)?)?;
    }
    let authority = Authority::load(&certificate, &key)?;
    let missing = (1..=nodes).filter(|node| !paths(&format!("node-{node}")).0.exists());
    for node in missing.collect::<Vec<_>>() {
        let uri = NodeUri { cluster: None, node: node.into() };
        let hosts = NAMES.map(str::to_owned);
        keep(&format!("node-{node}"), &authority.node(&uri, &hosts, VALID_FOR)?)?;
    }
    Ok(())
}

/// `[tls.peer]` of a node, with those files.
pub fn peer_table(dir: &Path, node: u64) -> toml::Table {
    let path = |name: String| toml::Value::from(dir.join(name).display().to_string());
    toml::Table::from_iter([
        ("authority".to_owned(), path(format!("{AUTHORITY}.pem"))),
        ("certificate".to_owned(), path(format!("node-{node}.pem"))),
        ("key".to_owned(), path(format!("node-{node}.key"))),
    ])
}

/// Authority, certificate and its key, as PEM.
fn make(names: &[String]) -> anyhow::Result<(String, String, String)> {
    let made = Authority::make("Mayfly local authority", VALID_FOR)?;
    let authority = Authority::from_pem(&made.certificate, &made.key)?;
    let all = NAMES.into_iter().map(str::to_owned).chain(names.iter().cloned());
    let all: Vec<String> = all.collect();
    let Issued { certificate, key, .. } = authority.server("Mayfly local node", &all, VALID_FOR)?;
    Ok((made.certificate, certificate, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::ServeArgs;
    use crate::serve::config::Config;

    #[test]
    fn peers_have_an_authority_and_a_pair_each() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let load = |node: u16| {
            let name = |end: &str| path(&format!("node-{node}.{end}"));
            transport::Tls::load_mutual(&name("pem"), &name("key"), &path("authority.pem"))
        };
        ensure_peers(dir.path(), 2).expect("made");
        let before = fs::read(path("node-1.pem")).expect("a file");
        ensure_peers(dir.path(), 3).expect("one more");
        assert_eq!(fs::read(path("node-1.pem")).expect("a file"), before);
        for node in 1..=3 {
            let own = load(node).expect("they fit").own();
            assert_eq!(own.vouches_for(node.into(), None, ""), Ok(()));
        }
    }

    /// Each row: more of a node's configuration, how it is called, and what it is then, or is told.
    #[test]
    fn a_node_is_known_by_its_certificate() {
        let dir = tempfile::tempdir().expect("a directory");
        let certs = dir.path().join("peers");
        ensure_peers(&certs, 2).expect("made");
        let peer = ("peer".to_owned(), toml::Value::from(peer_table(&certs, 2)));
        let tls = ("tls".to_owned(), toml::Value::from(toml::Table::from_iter([peer])));
        let alone = toml::to_string(&toml::Table::from_iter([tls])).expect("written");
        let alone = format!("[node]\ndata_dir = \"data\"\n{alone}");
        let members = "[[cluster.node]]\nid = 1\npeer = \"127.0.0.1:5320\"\ngrpc = \"127.0.0.1:5310\"\n\
                       http = \"127.0.0.1:5300\"\n[[cluster.node]]\nid = 2\npeer = \"127.0.0.1:6320\"\n\
                       grpc = \"127.0.0.1:6310\"\nhttp = \"127.0.0.1:6300\"\n[cluster]\n\
                       id = \"000000000000000000000000000000ff\"\n";
        let args = || ServeArgs {
            secret: Some("the-cluster-secret".to_owned()),
            advertise: Some("n2".to_owned()),
            ..ServeArgs::default()
        };
        let joining = |seed: &str| ServeArgs { join: Some(vec![seed.to_owned()]), ..args() };
        for (more, args, told) in [
            (members, args(), Ok(2)),
            (members, ServeArgs { node: Some(2), ..args() }, Ok(2)),
            (
                members,
                ServeArgs { node: Some(1), ..args() },
                Err("this is node 1: the certificate that was shown is node 2's, not node 1's"),
            ),
            ("", joining("https://n1:5310"), Ok(2)),
            ("", joining("127.0.0.1:5310"), Ok(2)),
            ("", joining("n1:5310"), Err("--join n1:5310 would send the secret in plain text")),
            ("", ServeArgs { insecure: true, ..joining("n1:5310") }, Ok(2)),
            ("", args(), Err("node.id is 2, but [[cluster.node]] names only 1")),
        ] {
            let path = dir.path().join("mayfly.toml");
            fs::write(&path, format!("{alone}{more}")).expect("written");
            match (Config::load(&ServeArgs { config: Some(path), ..args }), told) {
                (Ok(config), Ok(node)) => assert_eq!(config.node, node, "{more}"),
                (Err(error), Err(told)) => assert!(error.contains(told), "{error}"),
                (config, _) => panic!("{more}: {config:?}"),
            }
        }
    }

    #[test]
    fn a_certificate_is_made_once_and_can_be_served() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = ensure(&dir.path().join("tls"), &[]).expect("made");
        transport::Tls::load(&files.certificate, &files.key).expect("they fit");
        let read = |files: &Files| fs::read_to_string(&files.certificate).expect("a file");
        let before = read(&files);
        let again = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            read(&ensure(&dir.path().join("tls"), &names).expect("there"))
        };
        assert_eq!(again(&[]), before);
        let named = again(&["broker.example", "10.0.0.1"]);
        assert_ne!(named, before);
        assert_eq!(again(&["10.0.0.1"]), named);
        assert_eq!(again(&[]), named);
    }
}
