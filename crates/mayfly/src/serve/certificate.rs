//! The node's certificates, read again when its files change.

use std::path::Path;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{SignalKind, signal};
use transport::{Shown, Tls};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Reloads for ever: when a file changes, and on SIGHUP. `whom`: to whom the certificate is shown;
/// `accept`: whether it may be.
pub async fn keep_fresh(
    tls: Tls,
    whom: &'static str,
    accept: impl Fn(&Shown) -> Result<(), String>,
) {
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    let mut seen = changed(&tls);
    loop {
        let is_asked = tokio::select! {
            _ = asked.recv() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let now = changed(&tls);
        if !is_asked && now == seen {
            continue;
        }
        seen = now;
        match tls.reload(&accept) {
            Ok(()) => {
                tracing::info!(
                    "the certificate for {whom} was read again; new connections are shown it"
                )
            }
            // Files are replaced one after the other: the next look may find them whole.
            Err(error) => tracing::warn!("the certificate for {whom} stays as it was: {error}"),
        }
    }
}

/// When each file changed last.
fn changed(tls: &Tls) -> Vec<Option<SystemTime>> {
    let at = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    tls.files().map(at).collect()
}
