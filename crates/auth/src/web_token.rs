//! JSON web tokens (RFC 7519) as issuers sign them (RFC 7515), and the keys that tell (RFC 7517, RFC 7518, RFC 8037).
//! A token is read whole and strictly: an algorithm is never taken from a token that the key is not for.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Beyond this a text is no token. Those of large directories, which list groups, have some kilobytes.
const BYTES_MAX: usize = 32 * 1024;
/// An issuer has a few keys, of which one signs.
const KEYS_MAX: usize = 100;
/// Clocks of issuers differ from ours by less. No token counts for longer than it says.
const EARLY_S: u64 = 60;

/// Why a token is not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WebTokenFault {
    #[error("the token is no signed JSON web token of three parts")]
    Malformed,
    #[error("the token's algorithm is none that its issuer's key is for: {}", ALGORITHMS)]
    Algorithm,
    #[error("the token says that something in it is critical which is not known here")]
    Critical,
    #[error("the token's issuer is none that this cluster takes tokens of")]
    Issuer,
    #[error("the token is signed with a key that its issuer does not publish")]
    UnknownKey,
    #[error("the token's signature is not that of its issuer")]
    Signature,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token does not count yet")]
    Early,
    #[error("the token does not say until when it counts")]
    Endless,
}

/// As they are written.
const ALGORITHMS: &str = "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA";

impl WebTokenFault {
    /// A word for it, as metrics and the audit trail have it.
    pub fn reason(self) -> &'static str {
        match self {
            WebTokenFault::Malformed
            | WebTokenFault::Algorithm
            | WebTokenFault::Critical
            | WebTokenFault::Endless => "malformed",
            WebTokenFault::Issuer | WebTokenFault::UnknownKey => "unknown-key",
            WebTokenFault::Signature => "wrong-key",
            WebTokenFault::Audience => "other-resource",
            WebTokenFault::Early => "expired",
        }
    }
}

/// A token, read and not believed yet.
pub struct WebToken<'a> {
    header: Header,
    claims: Claims,
    signed: &'a [u8],
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

/// What a token says.
pub(crate) struct Claims(Map<String, Value>);

impl<'a> WebToken<'a> {
    /// Whether a text is meant to be one: three parts with dots between them, of which the first is an object.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("eyJ") && text.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// # Errors
    /// [`WebTokenFault::Malformed`], [`WebTokenFault::Critical`].
    pub fn parse(text: &'a str) -> Result<WebToken<'a>, WebTokenFault> {
        if text.len() > BYTES_MAX {
            return Err(WebTokenFault::Malformed);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(WebTokenFault::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(WebTokenFault::Malformed)?;
        let decoded = |part: &str| BASE64.decode(part).map_err(|_| WebTokenFault::Malformed);
        let header: Header =
            serde_json::from_slice(&decoded(header)?).map_err(|_| WebTokenFault::Malformed)?;
        // RFC 7515, section 4.1.11: nothing that may stand there is understood.
        if header.crit.is_some() {
            return Err(WebTokenFault::Critical);
        }
        let claims = serde_json::from_slice(&decoded(claims)?);
        let claims = Claims(claims.map_err(|_| WebTokenFault::Malformed)?);
        let signature = decoded(signature)?;
        Ok(WebToken { header, claims, signed: signed.as_bytes(), signature })
    }

    /// Whose it says that it is.
    pub(crate) fn issuer(&self) -> &str {
        self.claims.text("iss").unwrap_or_default()
    }

    /// What it says, and which key has signed it.
    ///
    /// # Errors
    /// [`WebTokenFault`]: none of these has.
    pub(crate) fn claims<'k>(
        &self,
        keys: &'k KeySet,
    ) -> Result<(&Claims, &'k VerifyingKey), WebTokenFault> {
        let is_named = |key: &&VerifyingKey| match (&self.header.kid, &key.id) {
            (Some(named), Some(id)) => named == id,
            // One that names none may be any's.
            (Some(_), None) | (None, _) => true,
        };
        let mut fault = WebTokenFault::UnknownKey;
        for key in keys.0.iter().filter(is_named) {
            let Some(public) = key.public.for_algorithm(&self.header.alg, key.algorithm.as_deref())
            else {
                fault = WebTokenFault::Algorithm;
                continue;
            };
            if public.has_signed(self.signed, &self.signature) {
                return Ok((&self.claims, key));
            }
            fault = WebTokenFault::Signature;
        }
        Err(fault)
    }
}

impl Claims {
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A time in whole seconds since the Unix epoch (RFC 7519, section 2).
    fn time(&self, name: &str) -> Option<u64> {
        let value = self.0.get(name)?;
        let whole = |seconds: f64| (0.0..1e15).contains(&seconds).then_some(seconds as u64);
        value.as_u64().or_else(|| value.as_f64().and_then(whole))
    }

    /// Until when they count; they do by now, and are for one of these.
    ///
    /// # Errors
    /// [`WebTokenFault`]; the outer one: they have expired.
    pub fn check(&self, audiences: &[String], now_s: u64) -> Option<Result<u64, WebTokenFault>> {
        let Some(expires_at_s) = self.time("exp") else {
            return Some(Err(WebTokenFault::Endless));
        };
        if now_s >= expires_at_s {
            return None;
        }
        let begins_at_s = self.time("nbf").unwrap_or(0);
        let is_of = |given: &str| audiences.iter().any(|audience| same_audience(audience, given));
        let is_meant = match self.0.get("aud") {
            Some(Value::String(given)) => is_of(given),
            Some(Value::Array(given)) => given.iter().filter_map(Value::as_str).any(is_of),
            _ => false,
        };
        Some(match (is_meant, begins_at_s.saturating_sub(EARLY_S) <= now_s) {
            (false, _) => Err(WebTokenFault::Audience),
            (true, false) => Err(WebTokenFault::Early),
            (true, true) => Ok(expires_at_s),
        })
    }

    /// Whether a claim has that value: it is it, or one of several, or a word of it, as scopes are. A name that is no
    /// claim's leads through objects by its dots.
    pub fn has(&self, claim: &str, value: &str) -> bool {
        let found = self.0.get(claim).or_else(|| {
            let mut names = claim.split('.');
            let first = self.0.get(names.next()?)?;
            names.try_fold(first, |within, name| within.get(name))
        });
        match found {
            Some(Value::String(text)) => text == value || text.split(' ').any(|word| word == value),
            Some(Value::Array(values)) => values.iter().any(|it| it.as_str() == Some(value)),
            _ => false,
        }
    }
}

/// Azure's SDKs write a slash behind it or none.
fn same_audience(a: &str, b: &str) -> bool {
    a.trim_end_matches('/') == b.trim_end_matches('/')
}

/// The public keys of an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet(Vec<VerifyingKey>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VerifyingKey {
    id: Option<String>,
    /// The only one that it is for, where it says so.
    algorithm: Option<String>,
    public: PublicKey,
}

#[derive(Clone, PartialEq, Eq)]
enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// How a key verifies.
enum Verifier<'k> {
    Rsa { n: &'k [u8], e: &'k [u8], with: &'static RsaParameters },
    Other { public: &'k [u8], with: &'static dyn signature::VerificationAlgorithm },
}

/// A key as it is written (RFC 7517, section 4).
#[derive(Deserialize)]
struct WrittenKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    use_: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct WrittenSet {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a set of keys (RFC 7517, section 5). Those that are for something else are left out.
    ///
    /// # Errors
    /// In words: it is no set of keys, or has none that verifies anything.
    pub fn parse(json: &[u8]) -> Result<KeySet, String> {
        let set: WrittenSet = serde_json::from_slice(json)
            .map_err(|error| format!("it is no set of keys in JSON (RFC 7517): {error}"))?;
        let keys = set.keys.into_iter().filter_map(|key| {
            let written: WrittenKey = serde_json::from_value(key).ok()?;
            VerifyingKey::read(written)
        });
        let keys: Vec<VerifyingKey> = keys.take(KEYS_MAX).collect();
        match keys.is_empty() {
            true => {
                Err("it has no public key that verifies signatures: RSA, P-256, P-384 or Ed25519"
                    .into())
            }
            false => Ok(KeySet(keys)),
        }
    }

    pub(crate) fn keys(&self) -> &[VerifyingKey] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl VerifyingKey {
    fn read(written: WrittenKey) -> Option<VerifyingKey> {
        if written.use_.is_some_and(|what| what != "sig") {
            return None;
        }
        let decoded = |part: Option<String>| BASE64.decode(part?).ok();
        let point = |length: usize, x: Option<String>, y: Option<String>| {
            let (x, y) = (decoded(x)?, decoded(y)?);
            let is_whole = x.len() == length && y.len() == length;
            is_whole.then(|| [&[4][..], &x, &y].concat())
        };
        let WrittenKey { kty, kid, alg, crv, n, e, x, y, .. } = written;
        let public = match (kty.as_str(), crv.as_deref()) {
            ("RSA", _) => PublicKey::Rsa { n: decoded(n)?, e: decoded(e)? },
            ("EC", Some("P-256")) => PublicKey::P256(point(32, x, y)?),
            ("EC", Some("P-384")) => PublicKey::P384(point(48, x, y)?),
            ("OKP", Some("Ed25519")) => PublicKey::Ed25519(decoded(x).filter(|x| x.len() == 32)?),
            _ => return None,
        };
        Some(VerifyingKey { id: kid, algorithm: alg, public })
    }

    /// Tells it again.
    pub fn digest(&self) -> [u8; 32] {
        let parts: [&[u8]; 2] = match &self.public {
            PublicKey::Rsa { n, e } => [n, e],
            PublicKey::P256(point) | PublicKey::P384(point) | PublicKey::Ed25519(point) => {
                [point, &[]]
            }
        };
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

impl PublicKey {
    /// `None`: the key is not for that. `only`: what its issuer says that it is for.
    fn for_algorithm(&self, named: &str, only: Option<&str>) -> Option<Verifier<'_>> {
        if only.is_some_and(|only| only != named) {
            return None;
        }
        Some(match self {
            PublicKey::Rsa { n, e } => {
                let with = match named {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
                    "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
                    "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return None,
                };
                Verifier::Rsa { n, e, with }
            }
            PublicKey::P256(public) if named == "ES256" => {
                Verifier::Other { public, with: &ECDSA_P256_SHA256_FIXED }
            }
            PublicKey::P384(public) if named == "ES384" => {
                Verifier::Other { public, with: &ECDSA_P384_SHA384_FIXED }
            }
            PublicKey::Ed25519(public) if matches!(named, "EdDSA" | "Ed25519") => {
                Verifier::Other { public, with: &ED25519 }
            }
            PublicKey::P256(_) | PublicKey::P384(_) | PublicKey::Ed25519(_) => return None,
        })
    }
}

impl Verifier<'_> {
    fn has_signed(&self, signed: &[u8], signature: &[u8]) -> bool {
        match *self {
            Verifier::Rsa { n, e, with } => {
                RsaPublicKeyComponents { n, e }.verify(with, signed, signature).is_ok()
            }
            Verifier::Other { public, with } => {
                UnparsedPublicKey::new(with, public).verify(signed, signature).is_ok()
            }
        }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            PublicKey::Rsa { .. } => "RSA",
            PublicKey::P256(_) => "P-256",
            PublicKey::P384(_) => "P-384",
            PublicKey::Ed25519(_) => "Ed25519",
        })
    }
}
