//! TLS as a client of a node speaks it: it knows the node by the host it asked for.

use std::io;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::stream::Stream;
use crate::tls::client_builder;

/// Whom to trust, and what to show.
#[derive(Clone)]
pub struct ClientTls(TlsConnector);

impl ClientTls {
    /// Trusts whom these authorities vouch for, as PEM, or those the system has. Shows a certificate with its
    /// key, each as PEM, to whoever asks for one.
    ///
    /// # Errors
    /// One sentence.
    pub fn new(
        authorities: Option<&[u8]>,
        own: Option<(&[u8], &[u8])>,
    ) -> Result<ClientTls, String> {
        let roots = match authorities {
            Some(pem) => read_roots(pem)?,
            None => system_roots()?,
        };
        let config = client_builder().map_err(|error| error.to_string())?;
        let config = config.with_root_certificates(roots);
        let config = match own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain: Result<Vec<_>, _> =
                    CertificateDer::pem_slice_iter(certificate).collect();
                let chain = chain.map_err(|error| format!("no certificate to show: {error}"))?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|error| format!("no key of the certificate to show: {error}"))?;
                config
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| format!("the certificate and its key: {error}"))?
            }
        };
        Ok(ClientTls(TlsConnector::from(Arc::new(config))))
    }

    /// Makes a handshake with whoever is reached by that host.
    pub async fn connect(&self, stream: TcpStream, host: &str) -> io::Result<Stream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Stream::Tunnel(Box::new(self.0.connect(name, stream).await?)))
    }
}

fn read_roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("no authority: {error}"))?;
        roots.add(certificate).map_err(|error| format!("no authority: {error}"))?;
    }
    match roots.is_empty() {
        true => Err("no authority is there to trust".to_owned()),
        false => Ok(roots),
    }
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    match added {
        0 => Err("this machine trusts no authority; name one".to_owned()),
        _ => Ok(roots),
    }
}
