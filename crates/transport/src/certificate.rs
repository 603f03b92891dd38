//! What a certificate says, for people and for checks.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::{fmt, fs};

use auth::{Certified, ClusterUri};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use sha2::{Digest, Sha256};
use x509_cert::der::Decode;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::der::oid::db::rfc5280::{
    ANY_EXTENDED_KEY_USAGE, ID_KP_CLIENT_AUTH, ID_KP_SERVER_AUTH,
};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, SubjectAltName};
use x509_cert::name::Name;
use x509_cert::time::Time;
use x509_cert::{Certificate as X509, TbsCertificate};

use crate::node_uri::NodeUri;
use crate::tls::{TlsError, wrong};

/// A certificate, read. Nothing of it is verified by that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// As in "CN=orders-worker".
    pub subject: String,
    pub common_name: Option<String>,
    pub issuer: String,
    /// The subject's alternative names, in their order.
    pub names: Vec<AltName>,
    /// Seconds since the Unix epoch, both included.
    pub not_before: i64,
    pub not_after: i64,
    pub usage: Usage,
    /// SHA-256 of the whole.
    pub fingerprint: Fingerprint,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AltName {
    Dns(String),
    Address(String),
    Uri(String),
    /// Of a kind that is of no use here.
    Other,
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// It vouches for others.
    pub is_authority: bool,
    pub is_server: bool,
    pub is_client: bool,
}

/// Whether a certificate counts at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    NotYet,
    Valid,
    Expired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Certificate {
    /// Every certificate of a PEM file, in its order; at least one.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn read_all(path: &Path) -> Result<Vec<Certificate>, TlsError> {
        let ders = read_ders(path)?;
        let read = |der: &CertificateDer<'_>| {
            Certificate::read(der)
                .map_err(|error| TlsError::Damaged { path: path.to_owned(), error })
        };
        ders.iter().map(read).collect()
    }

    /// Of a PEM file, the certificates of these fingerprints alone, as PEM; nothing if there are none.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn pick(path: &Path, wanted: &[[u8; 32]]) -> Result<Vec<u8>, TlsError> {
        const END: &[u8] = b"-----END CERTIFICATE-----";
        read_ders(path)?; // What is wrong with it is told as ever.
        let unreadable = |error| TlsError::Unreadable { path: path.to_owned(), error };
        let text = fs::read(path).map_err(unreadable)?;
        let (mut picked, mut rest) = (Vec::new(), &text[..]);
        while let Some(at) = rest.windows(END.len()).position(|part| part == END) {
            let (block, after) = rest.split_at(at + END.len());
            let der = CertificateDer::from_pem_slice(block).map_err(|error| wrong(path, error))?;
            if wanted.contains(&Sha256::digest(&der).into()) {
                picked.extend_from_slice(block);
                picked.push(b'\n');
            }
            rest = after;
        }
        Ok(picked)
    }

    /// From DER. The error says what is wrong with it.
    pub(crate) fn read(der: &[u8]) -> Result<Certificate, String> {
        let read = X509::from_der(der)
            .map_err(|error| format!("a certificate in it cannot be read, {error}"))?;
        let read = read.tbs_certificate;
        let seconds = |time: Time| i64::try_from(time.to_unix_duration().as_secs());
        let seconds = |time| seconds(time).unwrap_or(i64::MAX);
        Ok(Certificate {
            subject: read.subject.to_string(),
            common_name: common_name(&read.subject),
            issuer: read.issuer.to_string(),
            names: names(&read)?,
            not_before: seconds(read.validity.not_before),
            not_after: seconds(read.validity.not_after),
            usage: usage(&read)?,
            fingerprint: Fingerprint(Sha256::digest(der).into()),
        })
    }

    /// At an instant in seconds since the Unix epoch.
    pub fn validity(&self, now: i64) -> Validity {
        match now {
            now if now < self.not_before => Validity::NotYet,
            now if now > self.not_after => Validity::Expired,
            _ => Validity::Valid,
        }
    }

    /// The client that this certificate names; of several the first.
    pub fn client(&self) -> Option<&str> {
        let clients = self.uris().filter_map(ClusterUri::parse);
        clients.filter(|uri| uri.kind == ClusterUri::CLIENT).map(|uri| uri.name).next()
    }

    fn uris(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| match name {
            AltName::Uri(uri) => Some(uri.as_str()),
            _ => None,
        })
    }

    /// By what whoever has it is known to be a client.
    pub(crate) fn certified(&self) -> Certified {
        Certified {
            subject: self.subject.as_str().into(),
            common_name: self.common_name.clone(),
            uris: self.uris().map(str::to_owned).collect(),
            // The last second is one of those in which it counts.
            expires_at_s: u64::try_from(self.not_after).unwrap_or(0).saturating_add(1),
        }
    }

    /// Until when this counts with whoever trusts those authorities, in seconds since the Unix epoch: the last
    /// second of it, of its chain, or of the authority by which that ends, whichever is first. `None`: there is
    /// no certificate.
    pub(crate) fn counts_until(chain: &[Certificate], authorities: &[Certificate]) -> Option<i64> {
        let own = chain.iter().map(|certificate| certificate.not_after).min()?;
        // One that was made anew bears the name of the old one: they are trusted beside each other.
        let issuer = chain.last().map(|last| &last.issuer);
        let vouching = authorities.iter().filter(|authority| Some(&authority.subject) == issuer);
        let vouched = vouching.map(|authority| authority.not_after).max();
        Some(vouched.map_or(own, |vouched| vouched.min(own)))
    }

    /// The node that this certificate names. `Err`: it means to, and does not; or it names several, which
    /// is as good as none.
    pub fn node(&self) -> Result<Option<NodeUri>, String> {
        let uris = self.uris().filter(|uri| NodeUri::is_meant(uri));
        match uris.collect::<Vec<_>>()[..] {
            [] => Ok(None),
            [uri] => {
                uri.parse().map(Some).map_err(|error: crate::node_uri::NoNode| error.to_string())
            }
            _ => Err("it names several nodes; a certificate is one node's".to_owned()),
        }
    }
}

/// Whether a text is a host name or an address, with neither scheme nor port.
pub fn is_host(text: &str) -> bool {
    ServerName::try_from(text).is_ok()
}

/// The certificates of a PEM file as DER, at least one.
pub(crate) fn read_ders(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let ders = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let ders: Vec<CertificateDer<'static>> = ders.map_err(|error| wrong(path, error))?;
    match ders.is_empty() {
        true => Err(TlsError::NoCertificate { path: path.to_owned() }),
        false => Ok(ders),
    }
}

fn common_name(subject: &Name) -> Option<String> {
    let mut parts = subject.0.iter().flat_map(|name| name.0.iter());
    let part = parts.find(|part| part.oid == COMMON_NAME)?;
    std::str::from_utf8(part.value.value()).ok().map(str::to_owned)
}

fn names(read: &TbsCertificate) -> Result<Vec<AltName>, String> {
    let unreadable = |error| format!("its alternative names cannot be read, {error}");
    let Some((_, SubjectAltName(names))) = read.get().map_err(unreadable)? else {
        return Ok(Vec::new());
    };
    let name = |name: &GeneralName| match name {
        GeneralName::DnsName(name) => AltName::Dns(name.to_string()),
        GeneralName::UniformResourceIdentifier(uri) => AltName::Uri(uri.to_string()),
        GeneralName::IpAddress(bytes) => {
            address(bytes.as_bytes()).map_or(AltName::Other, AltName::Address)
        }
        _ => AltName::Other,
    };
    Ok(names.iter().map(name).collect())
}

fn address(bytes: &[u8]) -> Option<String> {
    let four = <[u8; 4]>::try_from(bytes).map(|bytes| Ipv4Addr::from(bytes).to_string());
    let sixteen = <[u8; 16]>::try_from(bytes).map(|bytes| Ipv6Addr::from(bytes).to_string());
    four.or(sixteen).ok()
}

fn usage(read: &TbsCertificate) -> Result<Usage, String> {
    let unreadable = |error| format!("its usage cannot be read, {error}");
    let constraints: Option<(bool, BasicConstraints)> = read.get().map_err(unreadable)?;
    if constraints.is_some_and(|(_, constraints)| constraints.ca) {
        return Ok(Usage { is_authority: true, is_server: false, is_client: false });
    }
    let extended: Option<(bool, ExtendedKeyUsage)> = read.get().map_err(unreadable)?;
    // Without the extension it may be used for anything (RFC 5280, 4.2.1.12).
    let may = |usage: ObjectIdentifier| match &extended {
        None => true,
        Some((_, ExtendedKeyUsage(usages))) => {
            usages.iter().any(|told| *told == usage || *told == ANY_EXTENDED_KEY_USAGE)
        }
    };
    let (is_server, is_client) = (may(ID_KP_SERVER_AUTH), may(ID_KP_CLIENT_AUTH));
    Ok(Usage { is_authority: false, is_server, is_client })
}

impl fmt::Display for AltName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AltName::Dns(name) | AltName::Address(name) | AltName::Uri(name) => f.write_str(name),
            AltName::Other => f.write_str("(of another kind)"),
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uses = [
            ("authority", self.is_authority),
            ("server", self.is_server),
            ("client", self.is_client),
        ];
        let uses: Vec<&str> = uses.iter().filter(|(_, may)| *may).map(|(name, _)| *name).collect();
        f.write_str(if uses.is_empty() { "none" } else { "" })?;
        f.write_str(&uses.join(", "))
    }
}

impl fmt::Display for Fingerprint {
    /// As `openssl x509 -fingerprint -sha256` has it, in small letters and without colons.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType};

    use super::*;

    fn made(change: impl Fn(&mut CertificateParams)) -> Certificate {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 1, 2);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Certificate::read(certificate.der()).expect("it is read")
    }

    fn uri(uri: &str) -> SanType {
        SanType::URI(uri.try_into().expect("letters"))
    }

    #[test]
    fn certificates_are_picked_out_of_a_file_by_their_fingerprints() {
        let made = |name: &str| {
            let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
            let key = KeyPair::generate().expect("a key");
            params.self_signed(&key).expect("a certificate")
        };
        let (one, two, other) = (made("one"), made("two"), made("other"));
        let print = |of: &rcgen::Certificate| -> [u8; 32] { Sha256::digest(of.der()).into() };
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("authority.pem");
        let text = format!("of ours:\n{}and of before:\r\n{}", one.pem(), two.pem());
        std::fs::write(&path, text).expect("written");
        let picked = |wanted: &[[u8; 32]]| {
            let pem = Certificate::pick(&path, wanted).expect("it is read");
            let ders: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            ders.expect("it is PEM").iter().map(|der| der.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(picked(&[print(&two)]), [two.der().to_vec()]);
        assert_eq!(picked(&[print(&two), print(&one)]), [one.der().to_vec(), two.der().to_vec()]);
        assert_eq!(picked(&[print(&other)]), Vec::<Vec<u8>>::new());
        assert_eq!(picked(&[]), Vec::<Vec<u8>>::new());
        assert!(Certificate::pick(&dir.path().join("gone"), &[]).is_err());
    }

    #[test]
    fn names_of_every_kind_are_read() {
        let read = made(|params| {
            params.subject_alt_names = vec![
                SanType::DnsName("n1.example".try_into().expect("letters")),
                SanType::IpAddress("10.0.0.1".parse().expect("an address")),
                SanType::IpAddress("::1".parse().expect("an address")),
                uri("mayfly://cluster/node/3"),
                SanType::Rfc822Name("a@b".try_into().expect("letters")),
            ];
        });
        let shown: Vec<String> = read.names.iter().map(ToString::to_string).collect();
        let all = ["n1.example", "10.0.0.1", "::1", "mayfly://cluster/node/3", "(of another kind)"];
        assert_eq!(shown, all);
        assert_eq!(read.node(), Ok(Some(NodeUri { cluster: None, node: 3 })));
        assert_eq!(read.fingerprint.to_string().len(), 64);
    }

    /// Each row: the URIs of a certificate, and the node it is of, or what is wrong.
    #[test]
    fn a_certificate_is_of_one_node_or_none() {
        for (uris, node) in [
            (&[][..], Ok(None)),
            (&["spiffe://a/b"], Ok(None)),
            (&["spiffe://a/b", "mayfly://cluster/node/2"], Ok(Some(2))),
            (&["mayfly://cluster/node/x"], Err("names no node")),
            (&["mayfly://cluster/client/x"], Ok(None)),
            (&["mayfly://cluster/node/1", "mayfly://cluster/node/2"], Err("several nodes")),
            (&["mayfly://cluster/node/1", "mayfly://cluster/node/1"], Err("several nodes")),
        ] {
            let read =
                made(|params| params.subject_alt_names = uris.iter().copied().map(uri).collect());
            match (read.node(), node) {
                (Ok(read), Ok(node)) => assert_eq!(read.map(|read| read.node), node, "{uris:?}"),
                (Err(told), Err(word)) => assert!(told.contains(word), "{told}"),
                (read, _) => panic!("{uris:?}: {read:?}"),
            }
        }
    }

    #[test]
    fn what_a_certificate_may_be_used_for() {
        use ExtendedKeyUsagePurpose::{Any, ClientAuth, CodeSigning, ServerAuth};
        for (is_authority, extended, told) in [
            (false, vec![], "server, client"),
            (false, vec![ServerAuth], "server"),
            (false, vec![ClientAuth], "client"),
            (false, vec![ServerAuth, ClientAuth], "server, client"),
            (false, vec![Any], "server, client"),
            (false, vec![CodeSigning], "none"),
            (true, vec![], "authority"),
        ] {
            let read = made(|params| {
                params.extended_key_usages = extended.clone();
                if is_authority {
                    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
                }
            });
            assert_eq!(read.usage.to_string(), told);
        }
    }

    #[test]
    fn a_certificate_counts_from_its_first_second_to_its_last() {
        let read = made(|_| ());
        let (first, last) = (1_767_225_600, 1_767_312_000);
        assert_eq!((read.not_before, read.not_after), (first, last));
        for (now, validity) in [
            (first - 1, Validity::NotYet),
            (first, Validity::Valid),
            (last, Validity::Valid),
            (last + 1, Validity::Expired),
        ] {
            assert_eq!(read.validity(now), validity, "{now}");
        }
    }

    /// Each row: last seconds of a chain and of the authorities, the latter by their names, and until when
    /// the first of the chain counts.
    #[test]
    fn a_chain_counts_until_its_first_end() {
        let named = |subject: &str, issuer: &str, not_after| Certificate {
            subject: subject.to_owned(),
            issuer: issuer.to_owned(),
            not_after,
            ..made(|_| ())
        };
        for (chain, authorities, until) in [
            (&[][..], &[("a", 9)][..], None),
            (&[5], &[], Some(5)),
            (&[5, 3], &[], Some(3)),
            (&[5], &[("a", 9)], Some(5)),
            (&[5], &[("a", 4)], Some(4)),
            (&[5], &[("a", 4), ("a", 7)], Some(5)),
            (&[5], &[("b", 4)], Some(5)),
        ] {
            let chain: Vec<_> = chain.iter().map(|not_after| named("n", "a", *not_after)).collect();
            let of = |(name, not_after): &(&str, i64)| named(name, name, *not_after);
            let authorities: Vec<_> = authorities.iter().map(of).collect();
            assert_eq!(Certificate::counts_until(&chain, &authorities), until);
        }
    }

    #[test]
    fn a_host_has_no_port_and_no_scheme() {
        for (text, is) in [
            ("n1", true),
            ("n1.example", true),
            ("10.0.0.1", true),
            ("::1", true),
            ("n1:5320", false),
            ("https://n1", false),
            ("", false),
            ("a b", false),
            ("[::1]", false),
        ] {
            assert_eq!(is_host(text), is, "{text}");
        }
    }
}
