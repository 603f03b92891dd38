//! The certificate of a process that waits for a coordinator.

use std::path::{Path, PathBuf};

use remote::ServerTls;

use crate::terminal;

#[derive(Debug, clap::Args)]
pub struct ServerTlsFlags {
    /// TLS with the certificate of this PEM file, which names the host; 'mayfly cert node' makes one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of --tls-cert, as PEM without a passphrase
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl ServerTlsFlags {
    /// # Errors
    /// A file cannot be read.
    pub fn read(&self) -> anyhow::Result<Option<ServerTls>> {
        let read = |flag: &str, path: &Path| {
            std::fs::read(path).map_err(|error| {
                terminal::usage(format!("{flag}: cannot read '{}': {error}", path.display()))
            })
        };
        let Some((certificate, key)) = self.tls_cert.as_deref().zip(self.tls_key.as_deref()) else {
            return Ok(None);
        };
        let (certificate, key) = (read("--tls-cert", certificate)?, read("--tls-key", key)?);
        Ok(Some(ServerTls { certificate, key }))
    }
}
