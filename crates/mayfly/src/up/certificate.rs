//! A certificate for a local cluster, signed by an authority made for it alone: clients trust that.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::authority::{Authority, Issued};
use crate::files::{self, Existing, Readers};

/// Both are good for so long: ten years.
const VALID_FOR: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Where local nodes are reached.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Files of the certificate, in a directory of their own.
#[derive(Clone, Debug)]
pub struct Files {
    /// What clients are to trust.
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Makes them, unless the directory has them from an earlier start, and for these names as well: for
/// others all is made anew, and clients have to trust another authority. Its own key is forgotten at
/// once, so it signs nothing else, ever.
pub fn ensure(dir: &Path, names: &[String]) -> anyhow::Result<Files> {
    let file = |name: &str| dir.join(name);
    let files = Files {
        authority: file("authority.pem"),
        certificate: file("certificate.pem"),
        key: file("key.pem"),
    };
    let all = [&files.authority, &files.certificate, &files.key];
    // One name a line; absent where it is good for no others than always.
    let known_path = file("names");
    let known = fs::read_to_string(&known_path).unwrap_or_default();
    let is_known = |name: &String| known.lines().any(|known| known == name);
    if all.iter().all(|path| path.exists()) && names.iter().all(is_known) {
        return Ok(files);
    }
    let (authority, certificate, key) = make(names).context("cannot make a certificate")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot create '{}'", dir.display()))?;
    for (path, text, readers) in [
        (&files.authority, authority, Readers::All),
        (&files.certificate, certificate, Readers::All),
        (&files.key, key, Readers::Owner),
        // Last: they are its names once it is there.
        (&known_path, names.join("\n"), Readers::All),
    ] {
        files::write(path, &text, readers, Existing::Replaced)?;
    }
    Ok(files)
}

/// Authority, certificate and its key, as PEM.
fn make(names: &[String]) -> anyhow::Result<(String, String, String)> {
    let made = Authority::make("Mayfly local authority", VALID_FOR)?;
    let authority = Authority::from_pem(&made.certificate, &made.key)?;
    let all = NAMES.into_iter().map(str::to_owned).chain(names.iter().cloned());
    let all: Vec<String> = all.collect();
    let Issued { certificate, key, .. } = authority.server("Mayfly local node", &all, VALID_FOR)?;
    Ok((made.certificate, certificate, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_once_and_can_be_served() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = ensure(&dir.path().join("tls"), &[]).expect("made");
        transport::Tls::load(&files.certificate, &files.key).expect("they fit");
        let read = |files: &Files| fs::read_to_string(&files.certificate).expect("a file");
        let before = read(&files);
        let again = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            read(&ensure(&dir.path().join("tls"), &names).expect("there"))
        };
        assert_eq!(again(&[]), before);
        let named = again(&["broker.example", "10.0.0.1"]);
        assert_ne!(named, before);
        assert_eq!(again(&["10.0.0.1"]), named);
        assert_eq!(again(&[]), named);
    }
}
