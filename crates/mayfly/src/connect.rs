//! How commands reach a cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Client, ClientOptions, Trust};

use crate::input::duration;
use crate::terminal;

/// Which cluster, and with what secret.
#[derive(Clone, Debug, clap::Args)]
pub struct Connect {
    /// Nodes of the cluster; one is enough, several survive the loss of one. https://… for TLS
    #[arg(long, env = "MAYFLY_CONNECT", value_name = "HOST:PORT,…", value_delimiter = ',')]
    #[arg(default_value = "127.0.0.1:5310", help_heading = "Connection")]
    pub connect: Vec<String>,
    /// The cluster's secret, if it has one
    #[arg(long, env = "MAYFLY_SECRET", hide_env_values = true, value_name = "SECRET")]
    #[arg(help_heading = "Connection")]
    pub secret: Option<String>,
    /// TLS with the certificates this PEM file vouches for, in place of those the system trusts
    #[arg(long, env = "MAYFLY_TLS_CA", value_name = "FILE", help_heading = "Connection")]
    pub tls_ca: Option<PathBuf>,
    /// How long to go on trying when no node answers
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    #[arg(help_heading = "Connection")]
    pub timeout: Duration,
}

impl Connect {
    pub fn client(&self) -> anyhow::Result<Client> {
        let options = ClientOptions {
            secret: self.secret.clone(),
            tls: self.tls_ca.as_deref().map(authorities).transpose()?,
            give_up_after: self.timeout,
            ..ClientOptions::default()
        };
        Client::with_options(&self.connect, options)
            .map_err(|error| terminal::usage(format!("--connect: {}", error.detail().message)))
    }
}

fn authorities(path: &Path) -> anyhow::Result<Trust> {
    let wrong = |why: String| terminal::usage(format!("--tls-ca: {why}"));
    let path_shown = path.display();
    let pem = std::fs::read(path)
        .map_err(|error| wrong(format!("cannot read '{path_shown}': {error}")))?;
    let begin: &[u8] = b"-----BEGIN CERTIFICATE-----";
    match pem.windows(begin.len()).any(|part| part == begin) {
        true => Ok(Trust::Authorities(pem)),
        false => Err(wrong(format!("'{path_shown}' holds no certificate in PEM"))),
    }
}
