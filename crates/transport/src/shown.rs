//! The certificate that the other end of a connection has shown, and whom it vouches for.

use std::sync::Arc;

use auth::Certified;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

use crate::certificate::Certificate;
use crate::node_uri::NodeUri;

/// What one end of a connection has shown. An authority vouches for it by then.
#[derive(Clone, Debug, Default)]
pub struct Shown(Option<CertificateDer<'static>>);

impl Shown {
    /// The first of a chain is whom it is about.
    pub(crate) fn of(chain: Option<&[CertificateDer<'_>]>) -> Shown {
        let first = chain.and_then(<[_]>::first);
        Shown(first.map(|first| first.clone().into_owned()))
    }

    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The node that the certificate names, if it names one.
    ///
    /// # Errors
    /// It means to, and does not.
    pub fn node(&self) -> Result<Option<NodeUri>, String> {
        match &self.0 {
            Some(certificate) => Certificate::read(certificate)?.node(),
            None => Ok(None),
        }
    }

    /// By what whoever has shown it is known to be a client. `None`: nothing was shown.
    pub(crate) fn certified(&self) -> Option<Arc<Certified>> {
        let certificate = self.0.as_ref()?;
        let unreadable = || Certified {
            subject: "(unreadable)".into(),
            common_name: None,
            uris: Vec::new(),
            expires_at_s: 0,
        };
        let read = Certificate::read(certificate);
        Some(Arc::new(read.map_or_else(|_| unreadable(), |read| read.certified())))
    }

    /// Whether this is a node of the cluster, by its number; or, with a certificate that names none, by
    /// the host that the node is reached by, as `host:port`, which has to be among the certificate's names.
    ///
    /// # Errors
    /// One sentence: why not, and what to change.
    pub fn vouches_for(
        &self,
        node: u64,
        address: Option<&str>,
        cluster: &str,
    ) -> Result<(), String> {
        let Some(certificate) = &self.0 else {
            return Err("no certificate was shown; set [tls.peer] there".to_owned());
        };
        let named = self.node().map_err(|why| format!("the certificate that was shown: {why}"))?;
        match named {
            Some(NodeUri { cluster: Some(other), .. }) if other != cluster => Err(format!(
                "the certificate that was shown is of a node of the cluster {other}, not of {cluster}; give \
                 each node its own"
            )),
            Some(uri) if uri.node == node => Ok(()),
            Some(uri) => Err(format!(
                "the certificate that was shown is node {}'s, not node {node}'s; give each node its own",
                uri.node
            )),
            None => match Certificate::read(certificate)?.client() {
                Some(client) => Err(format!(
                    "the certificate that was shown is the client {client}'s, not node {node}'s; make one \
                     with 'mayfly cert node {node} HOST'"
                )),
                None => check_host(certificate, node, address),
            },
        }
    }
}

fn check_host(
    certificate: &CertificateDer<'_>,
    node: u64,
    address: Option<&str>,
) -> Result<(), String> {
    let Some(address) = address else {
        return Err(format!(
            "the certificate that was shown names no node, and where node {node} is reached is not known here"
        ));
    };
    let host = host_of(address);
    let is_good = || {
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        verify_server_name(&parsed, &ServerName::try_from(host).ok()?).ok()
    };
    is_good().ok_or_else(|| {
        format!(
            "the certificate that was shown is neither node {node}'s by a name like mayfly://cluster/node/\
             {node}, nor good for {host}, where that node is reached; make it with 'mayfly cert node {node} \
             {host}'"
        )
    })
}

/// Of `host:port`, as a certificate has it.
pub fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn shown(names: &[&str]) -> Shown {
        let (uris, hosts): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| name.contains("://"));
        let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(hosts).expect("names");
        let uris = uris.into_iter().map(|uri| SanType::URI(uri.try_into().expect("letters")));
        params.subject_alt_names.extend(uris);
        let key = KeyPair::generate().expect("a key");
        Shown(Some(params.self_signed(&key).expect("a certificate").der().clone()))
    }

    const OURS: &str = "0123456789abcdef0123456789abcdef";

    /// Each row: the names of a certificate, the node it is shown for, where that is reached, and a word
    /// of why it is not that node's.
    #[test]
    fn a_certificate_vouches_for_its_node_alone() {
        let named = "mayfly://cluster/node/3";
        let ours = format!("mayfly://{OURS}/node/3");
        let theirs = format!("mayfly://{}/node/3", "0".repeat(32));
        for (names, node, address, wrong) in [
            (&[named][..], 3, Some("n3:1"), None),
            (&[named], 3, None, None),
            (&[&ours], 3, None, None),
            (&[&theirs], 3, None, Some("of a node of the cluster 0000")),
            (&[named], 2, Some("n2:1"), Some("is node 3's, not node 2's")),
            // What names a node is that node's, whatever hosts it is good for.
            (&[named, "n2"], 2, Some("n2:1"), Some("is node 3's, not node 2's")),
            (&[named, "mayfly://cluster/node/2"], 3, None, Some("names several nodes")),
            (&["mayfly://cluster/node/x", "n3"], 3, Some("n3:1"), Some("names no node")),
            // Of another authority: by the host that its node is reached by.
            (&["n3"], 3, Some("n3:1"), None),
            (&["n3"], 2, Some("n2:1"), Some("nor good for n2, where that node is reached")),
            (&["n3"], 3, None, Some("is not known here")),
            (&["10.0.0.3"], 3, Some("10.0.0.3:1"), None),
            (&["::1"], 3, Some("[::1]:1"), None),
            (&["*.n.example"], 3, Some("n3.n.example:1"), None),
            (&["spiffe://a/b", "n3"], 3, Some("n3:1"), None),
            // A client's.
            (&[], 3, Some("n3:1"), Some("neither node 3's")),
            (&["mayfly://cluster/client/n3"], 3, Some("n3:1"), Some("is the client n3's")),
            // Which it is, whatever hosts it is good for.
            (&["mayfly://cluster/client/a", "n3"], 3, Some("n3:1"), Some("is the client a's")),
        ] {
            match (shown(names).vouches_for(node, address, OURS), wrong) {
                (Ok(()), None) => (),
                (Err(told), Some(word)) => assert!(told.contains(word), "{names:?}: {told}"),
                (told, _) => panic!("{names:?} for {node}: {told:?}"),
            }
        }
        let told = Shown::default().vouches_for(3, None, OURS).expect_err("nothing");
        assert!(told.contains("no certificate was shown"), "{told}");
    }
}
