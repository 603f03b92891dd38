//! Certificates, from files that may be replaced while the node runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    Acceptor, ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore,
    ServerConfig, SignatureScheme,
};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsConnector};

use crate::certificate::{Certificate, Validity, read_ders};
use crate::protocol::Protocol;
use crate::shown::Shown;
use crate::stream::Stream;

/// Why there is no TLS with these files. One line each.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("cannot read '{}': {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("'{}' holds no certificate; give a PEM file with the certificate, then its chain", path.display())]
    NoCertificate { path: PathBuf },
    #[error("'{}' holds no private key; give a PEM file with one that has no passphrase", path.display())]
    NoKey { path: PathBuf },
    #[error("'{}' is no PEM file: {error}", path.display())]
    Damaged { path: PathBuf, error: String },
    #[error("'{}' is not the private key of '{}'", key.display(), certificate.display())]
    NotItsKey { certificate: PathBuf, key: PathBuf },
    #[error("'{}' has expired; make another, as 'mayfly cert node' does", path.display())]
    Expired { path: PathBuf },
    #[error("'{}' is not valid yet; look at this machine's clock, or make another", path.display())]
    NotYetValid { path: PathBuf },
    #[error("'{}' is no certificate that '{}' vouches for as a {role}: {error}", certificate.display(), authority.display())]
    NotVouchedFor {
        certificate: PathBuf,
        authority: PathBuf,
        role: &'static str,
        error: rustls::Error,
    },
    #[error("'{}' is not this node's: {why}", path.display())]
    Unwanted { path: PathBuf, why: String },
    #[error("'{}' is no file of authorities: {error}", path.display())]
    NoAuthority { path: PathBuf, error: String },
    #[error("'{}' is no list of revoked certificates (CRL) in PEM: {error}", path.display())]
    NoRevocations { path: PathBuf, error: String },
    #[error("'{}' with the key '{}' cannot be used: {error}", certificate.display(), key.display())]
    Unusable { certificate: PathBuf, key: PathBuf, error: rustls::Error },
}

/// A certificate and its key, as the files had them when they were last good; and whom those at the other
/// end are to be vouched for by, where they are asked for a certificate.
#[derive(Clone, Debug)]
pub struct Tls {
    files: Files,
    current: Arc<Current>,
}

#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    trust: Option<TrustFiles>,
}

/// Who at the other end shows a certificate, and whom that is to be vouched for by.
#[derive(Clone, Debug)]
enum TrustFiles {
    /// Both ends show one, of the authorities of this file.
    Peers {
        authority: PathBuf,
    },
    Clients(ClientTrust),
}

/// How clients are known by certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTrust {
    /// PEM: one or more certificates, each of an authority.
    pub authority: PathBuf,
    /// PEM: lists of certificates that are good no more (RFC 5280, 5), each of one of the authorities.
    pub revoked: Option<PathBuf>,
    /// Whoever shows none is not let in, whatever else he has.
    pub is_required: bool,
}

impl TrustFiles {
    fn authority(&self) -> &Path {
        match self {
            TrustFiles::Peers { authority }
            | TrustFiles::Clients(ClientTrust { authority, .. }) => authority,
        }
    }

    fn revoked(&self) -> Option<&Path> {
        match self {
            TrustFiles::Peers { .. } => None,
            TrustFiles::Clients(ClientTrust { revoked, .. }) => revoked.as_deref(),
        }
    }

    fn is_required(&self) -> bool {
        match self {
            TrustFiles::Peers { .. } => true,
            TrustFiles::Clients(ClientTrust { is_required, .. }) => *is_required,
        }
    }
}

#[derive(Debug)]
struct Current(RwLock<Loaded>);

/// What the files held.
#[derive(Clone, Debug)]
struct Loaded {
    own: Arc<CertifiedKey>,
    /// In seconds since the Unix epoch.
    counts_until: i64,
    trust: Option<Trust>,
}

/// Whom the other end is to be vouched for by.
#[derive(Clone, Debug)]
struct Trust {
    roots: Arc<RootCertStore>,
    clients: Arc<dyn ClientCertVerifier>,
    /// Whoever connects shows a certificate, or is not let in.
    is_required: bool,
}

impl Tls {
    /// Reads PEM files. Clients are asked for no certificate.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn load(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        Tls::of(Files { certificate: certificate.to_owned(), key: key.to_owned(), trust: None })
    }

    /// The same, where clients may show a certificate.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn load_asking(
        certificate: &Path,
        key: &Path,
        clients: Option<ClientTrust>,
    ) -> Result<Tls, TlsError> {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Tls::of(Files { certificate, key, trust: clients.map(TrustFiles::Clients) })
    }

    /// Reads PEM files for both ends: whoever connects must have a certificate that an authority of the
    /// third file vouches for, as must whoever is connected to. So must these files' own.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn load_mutual(certificate: &Path, key: &Path, authority: &Path) -> Result<Tls, TlsError> {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let trust = TrustFiles::Peers { authority: authority.to_owned() };
        Tls::of(Files { certificate, key, trust: Some(trust) })
    }

    fn of(files: Files) -> Result<Tls, TlsError> {
        let current = Arc::new(Current(RwLock::new(files.read()?)));
        Ok(Tls { files, current })
    }

    /// What the certificate says.
    pub fn own(&self) -> Shown {
        Shown::of(Some(&self.current.get().own.cert))
    }

    /// Until when the certificate counts, its chain and whoever vouches for it, in seconds since the Unix
    /// epoch; of clients' authorities only as far as they are its own.
    pub fn counts_until(&self) -> i64 {
        self.current.get().counts_until
    }

    /// Reads the files again: connections from now on are shown what they hold. If they are not good, or
    /// the certificate is none that the caller wants, everything stays as it was.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn reload(&self, accept: impl Fn(&Shown) -> Result<(), String>) -> Result<(), TlsError> {
        let read = self.files.read()?;
        let path = || self.files.certificate.clone();
        accept(&Shown::of(Some(&read.own.cert)))
            .map_err(|why| TlsError::Unwanted { path: path(), why })?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let Files { certificate, key, trust } = &self.files;
        let of_trust = |trust| [Some(TrustFiles::authority(trust)), trust.revoked()];
        let trusted = trust.as_ref().into_iter().flat_map(of_trust).flatten();
        [certificate, key].into_iter().map(PathBuf::as_path).chain(trusted)
    }

    /// Speaks TLS over a connection to a peer; what the peer shows is vouched for by then, and not yet
    /// known to be whom it should be.
    ///
    /// # Errors
    /// One sentence, for a log.
    pub async fn dial(&self, stream: TcpStream, host: &str) -> io::Result<(Stream, Shown)> {
        let Loaded { trust, .. } = self.current.get();
        let Some(Trust { roots, .. }) = trust else {
            return Err(io::Error::other("there is no authority to trust"));
        };
        let mut config = client_builder()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ChainVerifier { roots }))
            .with_client_cert_resolver(self.current.clone());
        config.alpn_protocols = Protocol::Http2.alpn().map(<[u8]>::to_vec).into_iter().collect();
        // What was proven once is proven again at the next connection.
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let (_, connection) = stream.get_ref();
        let shown = Shown::of(connection.peer_certificates());
        Ok((Stream::Tunnel(Box::new(stream)), shown))
    }

    /// For a port that prefers these protocols.
    pub(crate) fn of_port(&self, preferred: &[Protocol]) -> TlsOfPort {
        let resolver: Arc<dyn ResolvesServerCert> = self.current.clone();
        // The provider does all versions that rustls has: there is nothing to fail.
        let mut unnamed = match builder() {
            Ok(builder) if self.files.trust.is_some() => {
                builder.with_client_cert_verifier(self.current.clone()).with_cert_resolver(resolver)
            }
            Ok(builder) => builder.with_no_client_auth().with_cert_resolver(resolver),
            Err(error) => unreachable!("ring does TLS 1.2 and 1.3: {error}"),
        };
        if self.files.trust.is_some() {
            // What was proven once is proven again at the next connection.
            unnamed.session_storage = Arc::new(NoServerSessionStorage {});
            unnamed.send_tls13_tickets = 0;
        }
        // All that are spoken anywhere: who asks for another than the port takes is told so in it.
        let all = preferred.iter().copied().chain(Protocol::ALL).filter_map(Protocol::alpn);
        let mut names: Vec<Vec<u8>> = Vec::new();
        for name in all {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_vec());
            }
        }
        let mut named = unnamed.clone();
        named.alpn_protocols = names;
        TlsOfPort { named: Arc::new(named), unnamed: Arc::new(unnamed) }
    }
}

/// Why a handshake failed over what the other end has shown of itself, in a sentence; `authority`: the
/// setting with whom that is vouched for by. `None`: it failed over something else.
pub(crate) fn shown_wrong(error: &io::Error, authority: &str) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let why = match error {
        rustls::Error::NoCertificatesPresented => {
            return Some("no certificate was shown, and one is required".to_owned());
        }
        rustls::Error::InvalidCertificate(error) => match error {
            // Where authorities have the same name, the signature tells them apart.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                format!("is of no authority that {authority} has")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "is not valid yet; look at both machines' clocks".to_owned()
            }
            CertificateError::Revoked => "is revoked".to_owned(),
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                "may not be used by a client (its extended key usage)".to_owned()
            }
            other => format!("is not good: {other}"),
        },
        _ => return None,
    };
    Some(format!("the certificate that was shown {why}"))
}

/// How TLS begins on a port.
#[derive(Clone)]
pub(crate) struct TlsOfPort {
    named: Arc<ServerConfig>,
    /// For clients that name nothing that is spoken here, or nothing at all, as those of AMQP: it has no
    /// name, and first bytes tell.
    unnamed: Arc<ServerConfig>,
}

impl TlsOfPort {
    /// Makes a handshake. A client that fails in it is sent an alert by then; its connection comes back
    /// with the error, as far as there still is one.
    pub async fn handshake(
        &self,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, (io::Error, Option<TcpStream>)> {
        let mut acceptor = LazyConfigAcceptor::new(Acceptor::default(), stream);
        let begun = match (&mut acceptor).await {
            Ok(begun) => begun,
            Err(error) => return Err((error, acceptor.take_io())),
        };
        let is_known = |name: &[u8]| self.named.alpn_protocols.iter().any(|known| known == name);
        let names_known = begun.client_hello().alpn().is_some_and(|mut names| names.any(is_known));
        let config = if names_known { &self.named } else { &self.unnamed };
        let made = begun.into_stream(config.clone()).into_fallible().await;
        made.map_err(|(error, stream)| (error, Some(stream)))
    }

    /// What ALPN settled on.
    pub fn protocol(stream: &TlsStream<TcpStream>) -> Option<Protocol> {
        let (_, connection) = stream.get_ref();
        let name = connection.alpn_protocol()?;
        Protocol::ALL.into_iter().find(|protocol| protocol.alpn() == Some(name))
    }
}

type Builder = rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier>;

fn builder() -> Result<Builder, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

pub(crate) fn client_builder()
-> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

impl Current {
    fn get(&self) -> Loaded {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn clients(&self) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
        let Loaded { trust, .. } = self.get();
        let none = || rustls::Error::General("nobody is trusted".to_owned());
        trust.map(|trust| trust.clients).ok_or_else(none)
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get().own)
    }
}

impl ResolvesClientCert for Current {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.get().own)
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// As those that the files name at the moment of each handshake verify it.
impl ClientCertVerifier for Current {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[] // They change, and whoever shows a certificate has one.
    }

    fn client_auth_mandatory(&self) -> bool {
        self.get().trust.is_none_or(|trust| trust.is_required)
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.clients()?.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.clients()?.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.clients()?.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    ring::default_provider().signature_verification_algorithms
}

/// Verifies that an authority vouches for a server, and leaves to the caller whom for: nodes are known by
/// their numbers, not by the names they are dialled by.
#[derive(Debug)]
struct ChainVerifier {
    roots: Arc<RootCertStore>,
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let (roots, all) = (&self.roots, algorithms().all);
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, all)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}

impl Files {
    fn read(&self) -> Result<Loaded, TlsError> {
        let own = read(&self.certificate, &self.key)?;
        let trust = self.trust.as_ref().map(|trust| self.trust(trust, &own)).transpose()?;
        let of = |path: &Path| Certificate::read_all(path);
        let authorities = self.trust.as_ref().map(|trust| of(trust.authority())).transpose()?;
        let authorities = authorities.unwrap_or_default();
        let chain = of(&self.certificate)?;
        let counts_until = Certificate::counts_until(&chain, &authorities).unwrap_or(i64::MAX);
        Ok(Loaded { own, counts_until, trust })
    }

    /// Whom others are to be vouched for by. Those of peers must vouch for this end as well, or nobody
    /// would take it for one of theirs.
    fn trust(&self, files: &TrustFiles, own: &CertifiedKey) -> Result<Trust, TlsError> {
        let authority = files.authority();
        let mut roots = RootCertStore::empty();
        let wrong = |error: String| TlsError::NoAuthority { path: authority.to_owned(), error };
        for certificate in read_ders(authority)? {
            let Certificate { subject, usage, .. } =
                Certificate::read(&certificate).map_err(wrong)?;
            if !usage.is_authority {
                return Err(wrong(format!("{subject} in it may vouch for nobody")));
            }
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider);
        // Of an authority without a list nothing is revoked.
        let builder =
            builder.with_crls(files.revoked().map(read_revoked).transpose()?.unwrap_or_default());
        let builder = builder.only_check_end_entity_revocation().allow_unknown_revocation_status();
        // It fails without roots, and there is one; or over what is no list.
        let clients = builder.build().map_err(|error| match files.revoked() {
            Some(path) => {
                TlsError::NoRevocations { path: path.to_owned(), error: error.to_string() }
            }
            None => wrong(error.to_string()),
        })?;
        if let (TrustFiles::Peers { .. }, Some((first, chain))) = (files, own.cert.split_first()) {
            let now = UnixTime::now();
            let verified = clients.verify_client_cert(first, chain, now).map(drop);
            verified.map_err(|error| self.not_vouched_for(authority, "client", error))?;
            let parsed = ParsedCertificate::try_from(first);
            let verified = parsed.and_then(|parsed| {
                let all = algorithms().all;
                verify_server_cert_signed_by_trust_anchor(&parsed, &roots, chain, now, all)
            });
            verified.map_err(|error| self.not_vouched_for(authority, "server", error))?;
        }
        Ok(Trust { roots, clients, is_required: files.is_required() })
    }

    fn not_vouched_for(
        &self,
        authority: &Path,
        role: &'static str,
        error: rustls::Error,
    ) -> TlsError {
        let (certificate, authority) = (self.certificate.clone(), authority.to_owned());
        TlsError::NotVouchedFor { certificate, authority, role, error }
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = read_ders(certificate)?;
    check_time(certificate, &chain)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey { path: key.to_owned() },
        error => wrong(key, error),
    })?;
    let unusable = |error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::NotItsKey { certificate: certificate.to_owned(), key: key.to_owned() }
        }
        error => {
            TlsError::Unusable { certificate: certificate.to_owned(), key: key.to_owned(), error }
        }
    };
    CertifiedKey::from_der(chain, private, &ring::default_provider())
        .map(Arc::new)
        .map_err(unusable)
}

/// The lists of a PEM file, at least one.
fn read_revoked(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let lists = CertificateRevocationListDer::pem_file_iter(path).and_then(Iterator::collect);
    let lists: Vec<CertificateRevocationListDer<'static>> =
        lists.map_err(|error| wrong(path, error))?;
    match lists.is_empty() {
        true => {
            let error = "there is none in it".to_owned();
            Err(TlsError::NoRevocations { path: path.to_owned(), error })
        }
        false => Ok(lists),
    }
}

/// A certificate that nobody would take is no reason to let go of one that they do.
fn check_time(path: &Path, chain: &[CertificateDer<'_>]) -> Result<(), TlsError> {
    let path = path.to_owned();
    let Some(first) = chain.first() else { return Ok(()) };
    let now = i64::try_from(UnixTime::now().as_secs()).unwrap_or(i64::MAX);
    match Certificate::read(first).map(|read| read.validity(now)) {
        Ok(Validity::Valid) => Ok(()),
        Ok(Validity::Expired) => Err(TlsError::Expired { path }),
        Ok(Validity::NotYet) => Err(TlsError::NotYetValid { path }),
        Err(error) => Err(TlsError::Damaged { path, error }),
    }
}

pub(crate) fn wrong(path: &Path, error: pem::Error) -> TlsError {
    let path = path.to_owned();
    match error {
        pem::Error::Io(error) => TlsError::Unreadable { path, error },
        error => TlsError::Damaged { path, error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Each row: what the two files hold, and what a person is told.
    #[test]
    fn what_is_wrong_with_a_certificate_is_told_with_its_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let [first, second] = [(); 2]
            .map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("one"));
        let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        let pem = |certified: &rcgen::CertifiedKey<rcgen::KeyPair>| {
            (certified.cert.pem(), certified.signing_key.serialize_pem())
        };
        let ((cert_1, key_1), (_, key_2)) = (pem(&first), pem(&second));
        for (certificate_text, key_text, told) in [
            ("", key_1.as_str(), "cert.pem' holds no certificate; "),
            (&cert_1, "", "key.pem' holds no private key; "),
            (&cert_1, &cert_1, "key.pem' holds no private key; "),
            (&cert_1, &key_2, "key.pem' is not the private key of '"),
            (&cert_1[..cert_1.len() / 2], &key_1, "cert.pem' is no PEM file: "),
        ] {
            fs::write(&certificate, certificate_text).expect("written");
            fs::write(&key, key_text).expect("written");
            let error = Tls::load(&certificate, &key).expect_err(told).to_string();
            assert!(error.contains(told) && !error.contains('\n'), "{error}");
        }
        fs::write(&certificate, &cert_1).expect("written");
        fs::write(&key, &key_1).expect("written");
        let tls = Tls::load(&certificate, &key).expect("good files");
        fs::write(&key, &key_2).expect("written");
        assert!(tls.reload(|_| Ok(())).is_err(), "and what was good stays");
        fs::remove_file(&key).expect("gone");
        let error = Tls::load(&certificate, &key).expect_err("no file").to_string();
        assert!(error.contains("cannot read '"), "{error}");
    }
}
