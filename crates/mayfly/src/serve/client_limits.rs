//! The limits of clients, read again when the configuration changes.

use limits::{Ledger, Settings};
use tokio::signal::unix::{SignalKind, signal};

use super::ServeArgs;
use super::config::Config;
use super::keys::LOOK_EVERY;

/// Reads for ever, and on SIGHUP. What cannot be read leaves them as they were: why is told where keys are
/// read, or at the next start.
pub async fn keep_fresh(args: ServeArgs, ledger: Ledger, mut known: Settings) {
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    loop {
        tokio::select! {
            _ = asked.recv() => (),
            () = tokio::time::sleep(LOOK_EVERY) => (),
        }
        if let Ok(read) = Config::limits(&args)
            && read != known
        {
            ledger.change(read);
            known = read;
            tracing::info!("the limits of clients were read again, and are others now");
        }
    }
}
