//! `mayfly load worker`.

use std::process::ExitCode;

use load::Worker;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::secret::WorkerSecret;
use crate::commands::server_tls::ServerTlsFlags;
use crate::terminal;

#[derive(Debug, clap::Args)]
pub(super) struct WorkerArgs {
    /// Where coordinators reach it: without --tls-cert a private network, as all is in plain text there
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5320")]
    listen: String,
    #[command(flatten)]
    secret: WorkerSecret,
    #[command(flatten)]
    tls: ServerTlsFlags,
}

pub(super) async fn run(args: WorkerArgs) -> anyhow::Result<ExitCode> {
    let secret = args.secret.read()?;
    let tls = args.tls.read()?;
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
