//! `mayfly cert show`.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use serde_json::json;
use transport::{Certificate, Tls, TlsError, Validity};

use super::key_beside;
use crate::commands::show;
use crate::input::instant;
use crate::terminal;

/// Whether a key is that of the first certificate.
struct Key {
    path: PathBuf,
    fits: Result<(), TlsError>,
}

pub fn run(file: &Path, key: Option<&Path>, as_json: bool) -> anyhow::Result<()> {
    let all = Certificate::read_all(file)?;
    let path = key.map(Path::to_owned).or_else(|| key_beside(file));
    let key = path.map(|path| Key { fits: Tls::load(file, &path).map(drop), path });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
    if as_json {
        let certificates: Vec<_> = all.iter().map(|one| as_value(one, now)).collect();
        let fits = key.as_ref().map(|key| key.fits.is_ok());
        terminal::json(&json!({ "certificates": certificates, "key_fits": fits }))?;
    } else {
        for (position, certificate) in all.iter().enumerate() {
            if position > 0 {
                terminal::line("")?;
            }
            show(rows(certificate, key.as_ref().filter(|_| position == 0), now))?;
        }
    }
    match key {
        Some(Key { fits: Err(error), .. }) => bail!("{error}"),
        _ => Ok(()),
    }
}

fn rows(certificate: &Certificate, key: Option<&Key>, now: i64) -> Vec<(&'static str, String)> {
    let names = certificate.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut rows = vec![
        ("subject", certificate.subject.clone()),
        ("names", if names.is_empty() { "none".to_owned() } else { names }),
        ("node", node(certificate)),
        ("client", certificate.client().unwrap_or("none").to_owned()),
        ("use", certificate.usage.to_string()),
        ("issuer", certificate.issuer.clone()),
        ("from", shown(certificate.not_before)),
        ("until", format!("{} ({})", shown(certificate.not_after), validity(certificate, now))),
        ("sha-256", certificate.fingerprint.to_string()),
    ];
    rows.extend(key.map(|Key { path, fits }| {
        let fits = if fits.is_ok() { "fits" } else { "does not fit" };
        ("key", format!("{} {fits}", path.display()))
    }));
    rows
}

fn as_value(certificate: &Certificate, now: i64) -> serde_json::Value {
    json!({
        "subject": certificate.subject,
        "names": certificate.names.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "node": certificate.node().ok().flatten().map(|uri| uri.node),
        "client_name": certificate.client(),
        "authority": certificate.usage.is_authority,
        "server": certificate.usage.is_server,
        "client": certificate.usage.is_client,
        "issuer": certificate.issuer,
        "not_before": shown(certificate.not_before),
        "not_after": shown(certificate.not_after),
        "valid": certificate.validity(now) == Validity::Valid,
        "sha256": certificate.fingerprint.to_string(),
    })
}

fn node(certificate: &Certificate) -> String {
    match certificate.node() {
        Ok(None) => "none".to_owned(),
        Ok(Some(uri)) => match uri.cluster {
            None => uri.node.to_string(),
            Some(cluster) => format!("{} of cluster {cluster}", uri.node),
        },
        Err(why) => why,
    }
}

fn validity(certificate: &Certificate, now: i64) -> String {
    let days = (certificate.not_after - now) / (24 * 3600);
    match certificate.validity(now) {
        Validity::NotYet => "not valid yet".to_owned(),
        Validity::Expired => "expired".to_owned(),
        Validity::Valid => format!("{days} days left"),
    }
}

fn shown(seconds: i64) -> String {
    instant::show_ms(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
}
