//! A certificate for a local cluster, signed by an authority made for it alone: clients trust that.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// Both are good for so long.
const YEARS: i16 = 10;
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
    for (path, text, mode) in [
        (&files.authority, authority, 0o644),
        (&files.certificate, certificate, 0o644),
        (&files.key, key, 0o600),
        // Last: they are its names once it is there.
        (&known_path, names.join("\n"), 0o644),
    ] {
        let mut open = fs::OpenOptions::new();
        let opened = open.create(true).write(true).truncate(true).mode(mode).open(path);
        opened
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write '{}'", path.display()))?;
    }
    Ok(files)
}

/// Authority, certificate and its key, as PEM.
fn make(names: &[String]) -> Result<(String, String, String), rcgen::Error> {
    let mut params = params(Vec::new(), "Mayfly local authority")?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let all = NAMES.into_iter().map(str::to_owned).chain(names.iter().cloned());
    // All that the strictest of clients, Python from 3.13 on, look for.
    let mut params = self::params(all.collect(), "Mayfly local node")?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    Ok((authority.pem(), certificate.pem(), key.serialize_pem()))
}

fn params(names: Vec<String>, name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    let today = jiff::Zoned::now().date();
    let date = |year: i16| rcgen::date_time_ymd(year.into(), 1, 1);
    params.not_before = date(today.year());
    params.not_after = date(today.year() + YEARS);
    Ok(params)
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
