//! The node's certificates: read again when their files change, and told of before they end.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics::{Unit, describe_gauge, gauge};
use service::{CertificateEnds, certificate_trouble};
use tokio::signal::unix::{SignalKind, signal};
use transport::{Shown, Tls};

/// By `use`.
const EXPIRES: &str = "mayfly_certificate_expires_timestamp_seconds";
/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Again and again, so that the log of a day has it.
const TOLD_EVERY_SECONDS: i64 = DAY_SECONDS;
const DAY_SECONDS: i64 = 24 * 3600;

/// Whom a certificate is shown to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Clients,
    Peers,
}

impl Use {
    fn name(self) -> &'static str {
        match self {
            Use::Clients => "clients",
            Use::Peers => "peers",
        }
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Describes what is recorded here to the installed recorder.
pub fn describe() {
    describe_gauge!(
        EXPIRES,
        Unit::Seconds,
        "Unix time at which the certificate ends, its chain or whoever vouches for it, by `use`: what clients \
         are shown, or peers."
    );
}

/// Reloads for ever: when a file changes, and on SIGHUP. `accept`: whether a certificate may be shown;
/// `ends`: where it is noted until when it counts.
pub async fn keep_fresh(
    tls: Tls,
    whom: Use,
    ends: CertificateEnds,
    accept: impl Fn(&Shown) -> Result<(), String>,
) {
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    let mut seen = changed(&tls);
    let mut ending = Ending::default();
    loop {
        let (now, until) = (now(), tls.counts_until());
        gauge!(EXPIRES, "use" => whom.to_string()).set(until as f64);
        ends.set(whom.name(), until);
        match ending.at(now, until) {
            Some(why) if until < now => {
                tracing::error!("the certificate for {whom} {why}; replace its files");
            }
            Some(why) => tracing::warn!("the certificate for {whom} {why}; replace its files"),
            None => (),
        }
        let is_asked = tokio::select! {
            _ = asked.recv() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let found = changed(&tls);
        if !is_asked && found == seen {
            continue;
        }
        seen = found;
        match tls.reload(&accept) {
            Ok(()) => {
                ending = Ending::default();
                tracing::info!(
                    "the certificate for {whom} was read again; new connections are shown it"
                )
            }
            // Files are replaced one after the other: the next look may find them whole.
            Err(error) => tracing::warn!("the certificate for {whom} stays as it was: {error}"),
        }
    }
}

/// When it was told last that a certificate ends, by the same clock.
#[derive(Debug, Default)]
struct Ending(Option<i64>);

impl Ending {
    /// What to tell of a certificate that counts until then, if it is time to tell of it.
    fn at(&mut self, now: i64, until: i64) -> Option<String> {
        let is_due = self.0.is_none_or(|last| now - last >= TOLD_EVERY_SECONDS);
        let left = until - now;
        let trouble = certificate_trouble(left).filter(|_| is_due)?;
        self.0 = Some(now);
        Some(trouble)
    }
}

/// Seconds since the Unix epoch, by this machine's clock: that is what certificates are held against.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// When each file changed last.
fn changed(tls: &Tls) -> Vec<Option<SystemTime>> {
    let at = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    tls.files().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: an hour, and what is told then of a certificate that ends at the hour 1000.
    #[test]
    fn an_end_is_told_two_weeks_before_and_once_a_day() {
        let mut ending = Ending::default();
        for (hour, told) in [
            (0, None),
            (663, None),
            (664, Some("ends in 14 days")),
            (665, None),
            (687, None),
            (688, Some("ends in 13 days")),
            (980, Some("ends within a day")),
            (1003, None),
            (1004, Some("has expired: nobody takes it")),
        ] {
            assert_eq!(ending.at(hour * 3600, 1000 * 3600).as_deref(), told, "{hour}");
        }
    }
}
