//! Ctrl-C and SIGTERM for commands that bring what they do to its end first.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// As shells tell of SIGINT.
pub const INTERRUPTED: u8 = 130;

/// The first time what goes on is told to come to its end, and the person is told so by `note`; returns at the second.
pub async fn twice(stop: watch::Sender<bool>, note: impl Fn()) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    for is_last in [false, true] {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        if !is_last {
            note();
            stop.send_replace(true);
        }
    }
    Ok(())
}
