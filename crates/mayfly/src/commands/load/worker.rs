//! `mayfly load worker`.

use std::path::PathBuf;
use std::process::ExitCode;

use load::{Worker, WorkerTls};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::secret::WorkerSecret;
use crate::terminal;

#[derive(Debug, clap::Args)]
pub(super) struct WorkerArgs {
    /// Where coordinators reach it: without --tls-cert a private network, as all is in plain text there
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5320")]
    listen: String,
    #[command(flatten)]
    secret: WorkerSecret,
    /// TLS with the certificate of this PEM file, which names the host; 'mayfly cert node' makes one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of --tls-cert, as PEM without a passphrase
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

pub(super) async fn run(args: WorkerArgs) -> anyhow::Result<ExitCode> {
    let secret = args.secret.read()?;
    let read = |flag: &str, path: &PathBuf| {
        std::fs::read(path).map_err(|error| {
            terminal::usage(format!("{flag}: cannot read '{}': {error}", path.display()))
        })
    };
    let tls = match args.tls_cert.as_ref().zip(args.tls_key.as_ref()) {
        None => None,
        Some((certificate, key)) => Some(WorkerTls {
            certificate: read("--tls-cert", certificate)?,
            key: read("--tls-key", key)?,
        }),
    };
    let listener = TcpListener::bind(&args.listen).await;
    let listener = listener.map_err(|error| {
        terminal::usage(format!("--listen {}: cannot listen there: {error}", args.listen))
    })?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    terminal::line(format!("worker at {}", listener.local_addr()?))?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
    };
    Worker { secret, tls }.serve(listener, stop).await.map_err(terminal::usage)?;
    Ok(ExitCode::SUCCESS)
}
