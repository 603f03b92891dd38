//! The key that signs tokens, and tokens themselves: JSON Web Tokens (RFC 7519) of one form, with ES256 (RFC 7518).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use ring::{digest, hmac};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const ALGORITHM: &str = "ES256";
const TYPE: &str = "JWT";
/// Ours have less than half of it.
const TOKEN_BYTES_MAX: usize = 4096;
/// Of a tag, in bytes.
const TAG_BYTES: usize = 16;

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// The authority, by the address that the client knows.
    pub iss: String,
    /// What it is for.
    pub aud: String,
    /// Seconds since the Unix epoch.
    pub iat: u64,
    pub nbf: u64,
    pub exp: u64,
    /// The key's name, as subject and as application.
    pub sub: String,
    pub oid: String,
    pub appid: String,
    /// The tenant.
    pub tid: String,
    pub ver: String,
    /// Where the key is.
    #[serde(rename = "mayfly_namespace")]
    pub namespace: String,
    /// Tells the key again that it was asked for with.
    #[serde(rename = "mayfly_key")]
    pub tag: String,
}

/// Nothing else may stand there, as what is marked critical (RFC 7515, section 4.1.11).
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    alg: String,
    typ: String,
    kid: String,
}

/// Why a token is not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    Malformed,
    Signature,
    Expired,
}

/// A pair of keys for signatures.
pub(crate) struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
    /// What keys are told again by.
    tags: hmac::Key,
}

impl SigningKey {
    /// A new one, as it is kept. `None`: the system has no random numbers.
    pub fn draw() -> Option<String> {
        let made =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        made.ok().map(|pkcs8| BASE64.encode(pkcs8.as_ref()))
    }

    /// From what is kept; `None`: that is none.
    pub fn read(kept: &str) -> Option<SigningKey> {
        let pkcs8 = BASE64.decode(kept).ok()?;
        let random = SystemRandom::new();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8, &random).ok()?;
        let thumbprint = digest::digest(&digest::SHA256, pair.public_key().as_ref());
        let id = BASE64.encode(thumbprint);
        let root = hmac::Key::new(hmac::HMAC_SHA256, &pkcs8);
        let tags = hmac::sign(&root, b"tags of keys");
        Some(SigningKey { pair, id, tags: hmac::Key::new(hmac::HMAC_SHA256, tags.as_ref()) })
    }

    /// As a set of keys (RFC 7517): without what is private.
    pub fn set(&self) -> Value {
        // An uncompressed point: a byte for that, and both coordinates.
        let coordinates = self.pair.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = coordinates.split_at(coordinates.len() / 2);
        let (x, y) = (BASE64.encode(x), BASE64.encode(y));
        json!({"keys": [{
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": ALGORITHM, "kid": self.id, "x": x, "y": y,
        }]})
    }

    /// `None`: the system has no random numbers.
    pub fn sign(&self, claims: &Claims) -> Option<String> {
        let header = Header { alg: ALGORITHM.into(), typ: TYPE.into(), kid: self.id.clone() };
        let part = |json: serde_json::Result<Vec<u8>>| json.ok().map(|json| BASE64.encode(json));
        let header = part(serde_json::to_vec(&header))?;
        let claims = part(serde_json::to_vec(claims))?;
        let signed = format!("{header}.{claims}");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", BASE64.encode(signature)))
    }

    /// Whether a token says that this key has signed it.
    pub fn is_named_by(&self, token: &str) -> bool {
        let is_short = token.len() <= TOKEN_BYTES_MAX;
        let header = token.split('.').next().filter(|_| is_short);
        let header = header.and_then(|header| BASE64.decode(header).ok());
        let header = header.and_then(|json| serde_json::from_slice::<Value>(&json).ok());
        header.is_some_and(|header| header["kid"] == self.id)
    }

    /// What a token says that this key has signed and that has not run out.
    ///
    /// # Errors
    /// [`Flaw`].
    pub fn verify(&self, token: &str, now_s: u64) -> Result<Claims, Flaw> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Flaw::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Flaw::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Flaw::Malformed)?;
        let decoded = |part: &str| BASE64.decode(part).map_err(|_| Flaw::Malformed);
        let header: Header =
            serde_json::from_slice(&decoded(header)?).map_err(|_| Flaw::Malformed)?;
        if header.alg != ALGORITHM || header.typ != TYPE {
            return Err(Flaw::Malformed);
        }
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key());
        let signature = decoded(signature)?;
        let is_ours = public.verify(signed.as_bytes(), &signature).is_ok();
        if !is_ours || header.kid != self.id {
            return Err(Flaw::Signature);
        }
        let claims: Claims =
            serde_json::from_slice(&decoded(claims)?).map_err(|_| Flaw::Malformed)?;
        match (claims.nbf..claims.exp).contains(&now_s) {
            true => Ok(claims),
            false => Err(Flaw::Expired),
        }
    }

    /// Tells a key again, and says nothing of it to who does not have this pair.
    pub fn tag(&self, namespace: &str, name: &str, key: &str) -> String {
        let mut context = hmac::Context::with_key(&self.tags);
        for part in [namespace, name, key] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
        BASE64.encode(&context.sign().as_ref()[..TAG_BYTES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_700_000_000;

    fn key() -> SigningKey {
        SigningKey::read(&SigningKey::draw().expect("random numbers")).expect("a key")
    }

    fn claims() -> Claims {
        Claims {
            iss: "https://h/t/".into(),
            aud: "https://h".into(),
            iat: NOW_S,
            nbf: NOW_S,
            exp: NOW_S + 60,
            sub: "Root".into(),
            oid: "Root".into(),
            appid: "Root".into(),
            tid: "t".into(),
            ver: "1.0".into(),
            namespace: "default".into(),
            tag: "x".into(),
        }
    }

    fn with_header(token: &str, header: &str) -> String {
        let (_, rest) = token.split_once('.').expect("parts");
        format!("{}.{rest}", BASE64.encode(header))
    }

    #[test]
    fn a_token_says_what_was_signed_until_it_runs_out() {
        let key = key();
        let token = key.sign(&claims()).expect("a token");
        assert_eq!(key.verify(&token, NOW_S), Ok(claims()));
        let other = self::key();
        assert!(key.is_named_by(&token) && !other.is_named_by(&token) && !key.is_named_by("a.b"));
        for (now_s, told) in [
            (NOW_S + 59, None),
            (NOW_S + 60, Some(Flaw::Expired)),
            (NOW_S - 1, Some(Flaw::Expired)),
        ] {
            assert_eq!(key.verify(&token, now_s).err(), told, "{now_s}");
        }
    }

    #[test]
    fn what_another_wrote_is_no_token() {
        let (key, other) = (key(), key());
        let token = key.sign(&claims()).expect("a token");
        let (signed, signature) = token.rsplit_once('.').expect("parts");
        let forged = {
            let (header, _) = signed.split_once('.').expect("parts");
            let claims = Claims { namespace: "orders".into(), ..claims() };
            let claims = BASE64.encode(serde_json::to_vec(&claims).expect("JSON"));
            format!("{header}.{claims}.{signature}")
        };
        let id = &key.id;
        for (token, told) in [
            (other.sign(&claims()).expect("a token"), Flaw::Signature),
            (forged, Flaw::Signature),
            (format!("{signed}."), Flaw::Signature),
            (signed.to_owned(), Flaw::Malformed),
            (String::new(), Flaw::Malformed),
            ("a.b.c".into(), Flaw::Malformed),
            ("x".repeat(TOKEN_BYTES_MAX + 1), Flaw::Malformed),
            (with_header(&token, r#"{"alg":"none","typ":"JWT","kid":""}"#), Flaw::Malformed),
            (
                with_header(&token, &format!(r#"{{"alg":"HS256","typ":"JWT","kid":"{id}"}}"#)),
                Flaw::Malformed,
            ),
            (
                with_header(
                    &token,
                    &format!(r#"{{"alg":"ES256","typ":"JWT","kid":"{id}","crit":["exp"]}}"#),
                ),
                Flaw::Malformed,
            ),
        ] {
            assert_eq!(key.verify(&token, NOW_S), Err(told), "{token}");
        }
    }

    #[test]
    fn a_tag_is_of_one_key() {
        let key = key();
        let tag = key.tag("default", "Root", "secret");
        assert_eq!(tag, key.tag("default", "Root", "secret"));
        for other in [
            key.tag("default", "Root", "secre"),
            key.tag("default", "Roots", "ecret"),
            key.tag("orders", "Root", "secret"),
        ] {
            assert_ne!(other, tag);
        }
    }

    #[test]
    fn what_is_told_of_a_key_is_its_public_half() {
        let kept = SigningKey::draw().expect("random numbers");
        let key = SigningKey::read(&kept).expect("a key");
        let told = key.set().to_string();
        assert!(told.contains("\"kty\":\"EC\"") && !told.contains("\"d\""), "{told}");
        assert_eq!(key.set()["keys"][0]["x"].as_str().map(str::len), Some(43));
        assert!(SigningKey::read("AAAA").is_none() && SigningKey::read("!").is_none());
    }
}
