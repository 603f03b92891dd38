//! How commands reach a cluster.

use std::time::Duration;

use client::{Client, ClientOptions};

use crate::input::duration;

/// Which cluster, and with what secret.
#[derive(Clone, Debug, clap::Args)]
pub struct Connect {
    /// Nodes of the cluster; one is enough, several survive the loss of one
    #[arg(long, env = "MAYFLY_CONNECT", value_name = "HOST:PORT,…", value_delimiter = ',')]
    #[arg(default_value = "127.0.0.1:5310", help_heading = "Connection")]
    pub connect: Vec<String>,
    /// The cluster's secret, if it has one
    #[arg(long, env = "MAYFLY_SECRET", hide_env_values = true, value_name = "SECRET")]
    #[arg(help_heading = "Connection")]
    pub secret: Option<String>,
    /// How long to go on trying when no node answers
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    #[arg(help_heading = "Connection")]
    pub timeout: Duration,
}

impl Connect {
    pub fn client(&self) -> anyhow::Result<Client> {
        let options = ClientOptions {
            secret: self.secret.clone(),
            give_up_after: self.timeout,
            ..ClientOptions::default()
        };
        Client::with_options(&self.connect, options).map_err(|error| {
            crate::terminal::usage(format!("--connect: {}", error.detail().message))
        })
    }
}
