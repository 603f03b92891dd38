//! Clients that are known by certificates, and the keys these stand for.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::cluster_uri::ClusterUri;

/// What a certificate says of whoever has shown it. That it is good, and its holder's, was seen by then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// For people, as in "CN=orders-worker".
    pub subject: Arc<str>,
    pub common_name: Option<String>,
    /// Among its alternative names.
    pub uris: Vec<String>,
    /// Seconds since the Unix epoch; from then on it is good for nothing.
    pub expires_at_s: u64,
}

/// Which keys of the configuration certificates stand for: those that are written down, by a common name
/// or a URI, and those that name their key themselves, as `mayfly://cluster/client/KEY` does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateMap {
    /// Which cluster this is, as 32 hexadecimal digits.
    cluster: String,
    /// A certificate's name, see [`CertificateMap::common_name`], and the key's.
    rows: BTreeMap<String, String>,
}

/// Why a certificate that is good opens nothing here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoClient {
    #[error(
        "the certificate '{subject}' is a node's, which opens no port for clients; make one with 'mayfly \
         cert client NAME'"
    )]
    Node { subject: Arc<str> },
    #[error("the certificate '{subject}' is for another cluster, {cluster}")]
    OtherCluster { subject: Arc<str>, cluster: String },
    #[error("the certificate '{subject}' names several clients; a certificate is one client's")]
    Several { subject: Arc<str> },
    #[error(
        "the certificate '{subject}' stands for no key; name one for it in [[tls.clients.map]], or make a \
         certificate with 'mayfly cert client KEY'"
    )]
    Unmapped { subject: Arc<str> },
    #[error(
        "the certificate '{subject}' stands for the key '{key}', and no [[security.key]] has that name"
    )]
    NoKey { subject: Arc<str>, key: String },
    #[error("the certificate '{subject}' has expired")]
    Expired { subject: Arc<str> },
}

impl CertificateMap {
    /// `rows`: names of certificates and of the keys they stand for.
    pub fn new(
        cluster: String,
        rows: impl IntoIterator<Item = (String, String)>,
    ) -> CertificateMap {
        CertificateMap { cluster, rows: rows.into_iter().collect() }
    }

    /// Of the same cluster, with other rows.
    pub(crate) fn with_rows(&self, rows: BTreeMap<String, String>) -> CertificateMap {
        CertificateMap { cluster: self.cluster.clone(), rows }
    }

    /// How a row calls a certificate by its common name. By a URI it is called that.
    pub fn common_name(name: &str) -> String {
        format!("CN={name}")
    }

    /// The name by which a certificate is known here, and the key it stands for. What is written down
    /// comes before what a certificate says of itself.
    pub(crate) fn find<'a>(&'a self, shown: &'a Certified) -> Result<(String, &'a str), NoClient> {
        let subject = || shown.subject.clone();
        let own = || shown.uris.iter().filter(|uri| ClusterUri::is_meant(uri));
        let is_clients =
            |uri: &String| ClusterUri::parse(uri).is_some_and(|uri| uri.kind == ClusterUri::CLIENT);
        if !own().all(is_clients) {
            return Err(NoClient::Node { subject: subject() });
        }
        let common_name = shown.common_name.as_deref().map(CertificateMap::common_name);
        for name in shown.uris.iter().chain(&common_name) {
            if let Some(key) = self.rows.get(name) {
                return Ok((name.clone(), key));
            }
        }
        match own().map(|uri| (uri, ClusterUri::parse(uri))).collect::<Vec<_>>()[..] {
            [] | [(_, None)] => Err(NoClient::Unmapped { subject: subject() }),
            [(uri, Some(ClusterUri { cluster, name, .. }))] => match cluster {
                Some(other) if other != self.cluster => {
                    Err(NoClient::OtherCluster { subject: subject(), cluster: other.to_owned() })
                }
                _ => Ok((uri.clone(), name)),
            },
            _ => Err(NoClient::Several { subject: subject() }),
        }
    }

    /// The key that a certificate of that name, as [`CertificateMap::find`] has it, stands for by now.
    pub(crate) fn key_of<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let named = || ClusterUri::parse(name).filter(|uri| uri.kind == ClusterUri::CLIENT);
        self.rows.get(name).map(String::as_str).or_else(|| named().map(|uri| uri.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "0123456789abcdef0123456789abcdef";

    /// Each row: a certificate's common name and URIs, and the key it stands for, or a word of why it
    /// stands for none.
    #[test]
    fn sasl_9_a_certificate_stands_for_the_key_it_names_or_is_given() {
        let map = CertificateMap::new(
            OURS.to_owned(),
            [
                (CertificateMap::common_name("Orders Worker"), "worker".to_owned()),
                (CertificateMap::common_name("node-1"), "worker".to_owned()),
                ("spiffe://example/shop".to_owned(), "shop".to_owned()),
                ("mayfly://cluster/client/old".to_owned(), "new".to_owned()),
            ],
        );
        let ours = format!("mayfly://{OURS}/client/worker");
        let theirs = format!("mayfly://{}/client/worker", "0".repeat(32));
        for (common_name, uris, key) in [
            (Some("worker"), &["mayfly://cluster/client/worker"][..], Ok("worker")),
            (None, &["mayfly://cluster/client/worker"], Ok("worker")),
            (Some("x"), &[&ours], Ok("worker")),
            (Some("x"), &[&theirs], Err("for another cluster, 0000")),
            (Some("Orders Worker"), &[], Ok("worker")),
            (Some("Orders Worker"), &["spiffe://example/unknown"], Ok("worker")),
            (Some("x"), &["spiffe://example/shop"], Ok("shop")),
            (Some("Orders Worker"), &["spiffe://example/shop"], Ok("shop")),
            // What is written down comes first.
            (Some("old"), &["mayfly://cluster/client/old"], Ok("new")),
            (Some("orders worker"), &[], Err("stands for no key")),
            (Some("CN=Orders Worker"), &[], Err("stands for no key")),
            (Some("worker"), &[], Err("stands for no key")),
            (None, &[], Err("stands for no key")),
            (Some("node-1"), &["mayfly://cluster/node/1"], Err("is a node's")),
            (Some("Orders Worker"), &["mayfly://cluster/node/1"], Err("is a node's")),
            (None, &["mayfly://cluster/client/a", "mayfly://cluster/node/1"], Err("is a node's")),
            (None, &["mayfly://cluster/what/1"], Err("is a node's")),
            (None, &["mayfly://cluster/client/"], Err("is a node's")),
            (
                None,
                &["mayfly://cluster/client/a", "mayfly://cluster/client/b"],
                Err("names several"),
            ),
        ] {
            let shown = Certified {
                subject: "CN=subject".into(),
                common_name: common_name.map(str::to_owned),
                uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
                expires_at_s: 1,
            };
            match (map.find(&shown), key) {
                (Ok((name, found)), Ok(key)) => {
                    assert_eq!(found, key, "{shown:?}");
                    assert_eq!(map.key_of(&name), Some(key), "{name}");
                }
                (Err(told), Err(word)) => assert!(told.to_string().contains(word), "{told}"),
                (found, _) => panic!("{shown:?}: {found:?}"),
            }
        }
        assert_eq!(map.key_of("CN=gone"), None);
    }
}
