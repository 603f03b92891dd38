//! Certificates, from files that may be replaced while the node runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificate::read_ders;
use crate::protocol::Protocol;

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
    #[error("'{}' with the key '{}' cannot be used: {error}", certificate.display(), key.display())]
    Unusable { certificate: PathBuf, key: PathBuf, error: rustls::Error },
}

/// A certificate and its key, as the files had them when they were last good.
#[derive(Clone, Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Arc<Current>,
}

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl Tls {
    /// Reads PEM files.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn load(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        let current = Arc::new(Current(RwLock::new(read(certificate, key)?)));
        Ok(Tls { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// Reads the files again: connections from now on are shown what they hold. If they are not good,
    /// everything stays as it was.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn reload(&self) -> Result<(), TlsError> {
        let read = read(&self.certificate, &self.key)?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    pub fn files(&self) -> [&Path; 2] {
        [&self.certificate, &self.key]
    }

    /// For a port that prefers these protocols.
    pub(crate) fn of_port(&self, preferred: impl Iterator<Item = Protocol>) -> TlsOfPort {
        let resolver: Arc<dyn ResolvesServerCert> = self.current.clone();
        // The provider does all versions that rustls has: there is nothing to fail.
        let unnamed = match builder() {
            Ok(builder) => builder.with_no_client_auth().with_cert_resolver(resolver),
            Err(error) => unreachable!("ring does TLS 1.2 and 1.3: {error}"),
        };
        // All that are spoken anywhere: who asks for another than the port takes is told so in it.
        let all = preferred.chain(Protocol::ALL).filter_map(Protocol::alpn);
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

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = read_ders(certificate)?;
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
        assert!(tls.reload().is_err(), "and what was good stays");
        fs::remove_file(&key).expect("gone");
        let error = Tls::load(&certificate, &key).expect_err("no file").to_string();
        assert!(error.contains("cannot read '"), "{error}");
    }
}
