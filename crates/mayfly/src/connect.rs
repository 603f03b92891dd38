//! How commands reach a cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Client, ClientCertificate, ClientOptions, Trust};

use crate::input::duration;
use crate::{files, terminal};

/// Which cluster, and with what proof.
#[derive(Clone, Debug, clap::Args)]
pub struct Connect {
    /// Nodes of the cluster; one is enough, several survive the loss of one. https://… for TLS
    #[arg(long, env = "MAYFLY_CONNECT", value_name = "HOST:PORT,…", value_delimiter = ',')]
    #[arg(default_value = "127.0.0.1:5310", help_heading = "Connection")]
    pub connect: Vec<String>,
    #[command(flatten)]
    pub login: Login,
    /// How long to go on trying when no node answers
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    #[arg(help_heading = "Connection")]
    pub timeout: Duration,
}

/// What a command proves itself with, and whom it trusts.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Login {
    /// The cluster's secret, if it has one, or another key
    #[arg(long, env = "MAYFLY_SECRET", hide_env_values = true, value_name = "SECRET")]
    #[arg(help_heading = "Connection")]
    pub secret: Option<String>,
    /// A file that holds the secret or key
    #[arg(long, env = "MAYFLY_SECRET_FILE", value_name = "FILE", help_heading = "Connection")]
    pub secret_file: Option<PathBuf>,
    /// What the key is called; a queue's or topic's own keys take it
    #[arg(long, env = "MAYFLY_KEY_NAME", value_name = "NAME", help_heading = "Connection")]
    pub key_name: Option<String>,
    #[command(flatten)]
    pub tls: TlsFlags,
}

/// The flags of whoever speaks TLS with nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct TlsFlags {
    /// TLS with the certificates this PEM file vouches for, in place of those the system trusts
    #[arg(long, env = "MAYFLY_TLS_CA", value_name = "FILE", help_heading = "Connection")]
    pub tls_ca: Option<PathBuf>,
    /// TLS, and nodes that ask for one are shown the certificate of this PEM file
    #[arg(long, env = "MAYFLY_TLS_CERT", value_name = "FILE", help_heading = "Connection")]
    #[arg(requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of --tls-cert, as PEM without a passphrase
    #[arg(long, env = "MAYFLY_TLS_KEY", value_name = "FILE", help_heading = "Connection")]
    #[arg(requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

/// Which namespace of which cluster, and with what proof: of commands that are about entities.
#[derive(Clone, Debug, clap::Args)]
pub struct ConnectWithin {
    /// The namespace that is meant, in the place of the default one
    #[arg(long, env = "MAYFLY_NAMESPACE", value_name = "NAME", help_heading = "Connection")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub cluster: Connect,
}

impl ConnectWithin {
    pub fn client(&self) -> anyhow::Result<Client> {
        self.cluster.client_with(self.options()?)
    }

    /// As [`Connect::options`], of a client of the namespace.
    pub fn options(&self) -> anyhow::Result<ClientOptions> {
        let namespace = self.namespace.clone();
        Ok(ClientOptions { namespace, ..self.cluster.options()? })
    }
}

impl Connect {
    pub fn client(&self) -> anyhow::Result<Client> {
        self.client_with(self.options()?)
    }

    fn client_with(&self, options: ClientOptions) -> anyhow::Result<Client> {
        Client::with_options(&self.connect, options)
            .map_err(|error| terminal::usage(format!("--connect: {}", error.detail().message)))
    }
}

impl Connect {
    /// Options of a client that tries as long as it is to.
    pub fn options(&self) -> anyhow::Result<ClientOptions> {
        let options = self.login.options()?;
        Ok(ClientOptions { give_up_after: self.timeout, ..options })
    }
}

impl Login {
    /// Options of a client that has it, and is patient as clients are.
    pub fn options(&self) -> anyhow::Result<ClientOptions> {
        let (secret, key_name) = (self.key()?, self.key_name.clone());
        Ok(ClientOptions { secret, key_name, ..self.tls.options()? })
    }

    fn key(&self) -> anyhow::Result<Option<String>> {
        let wrong = |told: String| Err(terminal::usage(told));
        match (&self.secret, &self.secret_file, &self.key_name) {
            (Some(_), Some(_), _) => wrong(
                "--secret (or MAYFLY_SECRET) and --secret-file are both given; keep one".into(),
            ),
            (None, None, Some(name)) => wrong(format!(
                "--key-name {name}: its key is missing; set MAYFLY_SECRET, or give --secret-file"
            )),
            (secret, None, _) => Ok(secret.clone()),
            (None, Some(path), _) => {
                let key = files::read_private(path);
                let key = key.map_err(|told| terminal::usage(format!("--secret-file: {told}")))?;
                match key.trim() {
                    "" => wrong(format!("--secret-file: '{}' is empty", path.display())),
                    key => Ok(Some(key.to_owned())),
                }
            }
        }
    }
}

impl TlsFlags {
    /// The same without a secret.
    pub fn options(&self) -> anyhow::Result<ClientOptions> {
        let tls = self.tls_ca.as_deref();
        let tls = tls.map(|path| authorities("--tls-ca", path)).transpose()?;
        let pair = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let certificate = pair.map(|(certificate, key)| own(certificate, key)).transpose()?;
        Ok(ClientOptions { tls, certificate, ..ClientOptions::default() })
    }
}

/// Those that the file of a flag vouches for.
pub fn authorities(flag: &str, path: &Path) -> anyhow::Result<Trust> {
    let is_one = |line: &str| line.starts_with(CERTIFICATE);
    read_pem(flag, path, "certificate", is_one).map(Trust::Authorities)
}

fn own(certificate: &Path, key: &Path) -> anyhow::Result<ClientCertificate> {
    let is_one = |line: &str| line.starts_with(CERTIFICATE);
    let is_key = |line: &str| line.starts_with("-----BEGIN ") && line.contains("PRIVATE KEY-----");
    Ok(ClientCertificate {
        certificate: read_pem("--tls-cert", certificate, "certificate", is_one)?,
        key: read_pem("--tls-key", key, "private key", is_key)?,
    })
}

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// A file some line of which begins what it is to hold.
fn read_pem(
    flag: &str,
    path: &Path,
    what: &str,
    begins: impl Fn(&str) -> bool,
) -> anyhow::Result<Vec<u8>> {
    let wrong = |why: String| terminal::usage(format!("{flag}: {why}"));
    let shown = path.display();
    let pem =
        std::fs::read(path).map_err(|error| wrong(format!("cannot read '{shown}': {error}")))?;
    match String::from_utf8_lossy(&pem).lines().any(begins) {
        true => Ok(pem),
        false => Err(wrong(format!("'{shown}' holds no {what} in PEM"))),
    }
}
