//! An authority: it signs the certificates that nodes and clients of a cluster prove themselves with.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, bail, ensure};
use auth::ClusterUri;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData,
    SanType,
};
use thiserror::Error;
use transport::NodeUri;
use x509_cert::Certificate;
use x509_cert::der::{Decode, DecodePem, Encode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectKeyIdentifier;
use x509_cert::name::Name;

/// Certificates count from so long before they are made: clocks differ.
const EARLIER: Duration = Duration::from_secs(3600);

/// Who may sign, with what.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    subject: Name,
    /// Seconds since the Unix epoch: nothing it signs lasts longer.
    not_after: u64,
}

/// A certificate and its private key, as PEM.
pub struct Issued {
    pub certificate: String,
    pub key: String,
    /// Seconds since the Unix epoch.
    pub not_after: u64,
    /// It ends with the authority, earlier than was asked.
    pub is_shortened: bool,
}

impl Authority {
    /// A new one, which signs itself.
    pub fn make(name: &str, valid_for: Duration) -> anyhow::Result<Issued> {
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let not_after = lasts(&mut params, valid_for, u64::MAX);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem(), not_after, is_shortened: false })
    }

    /// Reads one: of the certificates that the first file holds, the one the key is of.
    ///
    /// # Errors
    /// One line that names the file.
    pub fn load(certificate: &Path, key: &Path) -> anyhow::Result<Authority> {
        let read = |path: &Path| {
            fs::read_to_string(path).with_context(|| {
                format!(
                    "cannot read '{}'; make an authority with 'mayfly cert authority', or name its \
                     directory with --dir",
                    path.display()
                )
            })
        };
        Authority::from_pem(&read(certificate)?, &read(key)?).map_err(|why| {
            let (certificate, key) = (certificate.display(), key.display());
            match why {
                Unfit::Text(error) => anyhow!("'{certificate}' is no PEM file: {error}"),
                Unfit::Key => anyhow!("'{key}' holds no private key in PEM, without a passphrase"),
                Unfit::Pair => anyhow!(
                    "'{key}' is the private key of no certificate in '{certificate}'; name the pair that \
                     belongs together"
                ),
                Unfit::Usage => anyhow!(
                    "the certificate in '{certificate}' is no authority's: it may not sign others; make \
                     one with 'mayfly cert authority'"
                ),
                Unfit::Name => anyhow!(
                    "the subject of '{certificate}' is of a kind that cannot be written here; let whoever \
                     made it sign"
                ),
            }
        })
    }

    /// As files or [`Issued`] have them.
    pub fn from_pem(certificates: &str, key: &str) -> Result<Authority, Unfit> {
        let key = KeyPair::from_pem(key).map_err(|_| Unfit::Key)?;
        let own = key.subject_public_key_info();
        let is_own = |of: &Certificate| {
            of.tbs_certificate.subject_public_key_info.to_der().is_ok_and(|of| of == own)
        };
        let all: Result<Vec<Certificate>, _> =
            pem_blocks(certificates).map(Certificate::from_pem).collect();
        let mut all = all.map_err(|error| Unfit::Text(error.to_string()))?.into_iter();
        let certificate = all.find(is_own).ok_or(Unfit::Pair)?.tbs_certificate;
        let constraints = certificate.get::<x509_cert::ext::pkix::BasicConstraints>();
        if !matches!(constraints, Ok(Some((_, constraints))) if constraints.ca) {
            return Err(Unfit::Usage);
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = written(&certificate.subject).ok_or(Unfit::Name)?;
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        if let Ok(Some((_, SubjectKeyIdentifier(id)))) = certificate.get() {
            params.key_identifier_method = KeyIdMethod::PreSpecified(id.as_bytes().to_vec());
        }
        let not_after = certificate.validity.not_after.to_unix_duration().as_secs();
        Ok(Authority { issuer: Issuer::new(params, key), subject: certificate.subject, not_after })
    }

    /// Of a node, for its peers and for clients: good for these host names and addresses.
    pub fn node(
        &self,
        node: &NodeUri,
        hosts: &[String],
        valid_for: Duration,
    ) -> anyhow::Result<Issued> {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name = common_name(&format!("node-{}", node.node));
        params.subject_alt_names.push(SanType::URI(node.to_string().try_into()?));
        // It is a server to those who dial it, and a client to those it dials.
        params.extended_key_usages = vec![ServerAuth, ClientAuth];
        self.sign(params, valid_for)
    }

    /// Of servers at these host names and addresses.
    pub fn server(
        &self,
        name: &str,
        hosts: &[String],
        valid_for: Duration,
    ) -> anyhow::Result<Issued> {
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name = common_name(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, valid_for)
    }

    /// Of a client of this name, which is that of the key it stands for; `cluster`: good for that one only.
    pub fn client(
        &self,
        name: &str,
        cluster: Option<&str>,
        valid_for: Duration,
    ) -> anyhow::Result<Issued> {
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(name);
        let uri = ClusterUri { cluster, kind: ClusterUri::CLIENT, name };
        params.subject_alt_names.push(SanType::URI(uri.to_string().try_into()?));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, valid_for)
    }

    fn sign(&self, mut params: CertificateParams, valid_for: Duration) -> anyhow::Result<Issued> {
        // All that the strictest of clients, Python from 3.13 on, look for.
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let not_after = lasts(&mut params, valid_for, self.not_after);
        ensure!(
            not_after > seconds(SystemTime::now()),
            "the authority has expired; make another with 'mayfly cert authority --add'"
        );
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        if Certificate::from_der(certificate.der())?.tbs_certificate.issuer != self.subject {
            bail!("the authority's subject cannot be written as it is; let whoever made it sign");
        }
        let is_shortened = not_after == self.not_after;
        let (certificate, key) = (certificate.pem(), key.serialize_pem());
        Ok(Issued { certificate, key, not_after, is_shortened })
    }
}

/// Why files are no authority.
#[derive(Debug, Error)]
#[error("no authority: {self:?}")]
pub enum Unfit {
    Text(String),
    Key,
    Pair,
    Usage,
    Name,
}

/// Each certificate of a PEM text.
pub fn pem_blocks(text: &str) -> impl Iterator<Item = &str> {
    const END: &str = "-----END CERTIFICATE-----";
    text.split_inclusive(END).filter(|block| block.ends_with(END)).map(str::trim_start)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut written = DistinguishedName::new();
    written.push(DnType::CommonName, name);
    written
}

/// A name for what is signed under it. `None`: it has something that would come out otherwise.
fn written(subject: &Name) -> Option<DistinguishedName> {
    let mut name = DistinguishedName::new();
    for parts in &subject.0 {
        let [part] = parts.0.as_slice() else { return None };
        let kind: Vec<u64> = part.oid.arcs().map(u64::from).collect();
        let text = std::str::from_utf8(part.value.value()).ok()?;
        let value = match part.value.tag() {
            Tag::Utf8String => DnValue::Utf8String(text.to_owned()),
            Tag::PrintableString => DnValue::PrintableString(text.try_into().ok()?),
            _ => return None,
        };
        name.push(DnType::from_oid(&kind), value);
    }
    Some(name)
}

/// Sets from when until when, at most to `end`; until when, in seconds since the Unix epoch.
fn lasts(params: &mut CertificateParams, valid_for: Duration, end: u64) -> u64 {
    let now = seconds(SystemTime::now());
    let not_after = now.saturating_add(valid_for.as_secs()).min(end);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(now) - EARLIER;
    params.not_after = epoch + Duration::from_secs(not_after);
    not_after
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
