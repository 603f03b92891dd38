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

/// Makes them, unless the directory has them from an earlier start. The authority's own key is
/// forgotten at once, so it signs nothing else, ever.
pub fn ensure(dir: &Path) -> anyhow::Result<Files> {
    let file = |name: &str| dir.join(name);
    let files = Files {
        authority: file("authority.pem"),
        certificate: file("certificate.pem"),
        key: file("key.pem"),
    };
    let all = [&files.authority, &files.certificate, &files.key];
    if all.iter().all(|path| path.exists()) {
        return Ok(files);
    }
    let (authority, certificate, key) = make().context("cannot make a certificate")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot create '{}'", dir.display()))?;
    for (path, text, mode) in [
        (&files.authority, authority, 0o644),
        (&files.certificate, certificate, 0o644),
        (&files.key, key, 0o600),
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
fn make() -> Result<(String, String, String), rcgen::Error> {
    let mut params = params(Vec::new(), "Mayfly local authority")?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    // All that the strictest of clients, Python from 3.13 on, look for.
    let mut params = self::params(NAMES.map(str::to_owned).into(), "Mayfly local node")?;
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
        let files = ensure(&dir.path().join("tls")).expect("made");
        transport::Tls::load(&files.certificate, &files.key).expect("they fit");
        let read = |files: &Files| fs::read_to_string(&files.certificate).expect("a file");
        let before = read(&files);
        assert_eq!(read(&ensure(&dir.path().join("tls")).expect("kept")), before);
    }
}
