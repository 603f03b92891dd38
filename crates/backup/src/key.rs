//! The key of an encrypted repository, and what is derived from it.

use std::fmt::{self, Debug};

use ring::rand::{SecureRandom, SystemRandom};
use ring::{aead, hkdf, hmac};

use crate::chunk::{ChunkId, from_hex, hex};
use crate::error::Error;

const KEY_TEXT: &str = "no key of backups: a file that 'mayfly backup key' made has one line of 64 hexadecimal digits, \
                        and lines that begin with #";

/// What a key file holds: 32 random bytes. Whoever has them reads every backup made with them; without them nobody
/// does.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Draws a new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn draw() -> Result<Key, Error> {
        random().map(Key)
    }

    /// Of a key file's text.
    ///
    /// # Errors
    /// One line of what a key file is.
    pub fn parse(text: &str) -> Result<Key, Error> {
        let mut lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        match (lines.next().and_then(from_hex), lines.next()) {
            (Some(key), None) => Ok(Key(key)),
            _ => Err(Error::KeyText(KEY_TEXT)),
        }
    }

    /// A key file's text.
    pub fn to_text(&self) -> String {
        format!(
            "# A key of Mayfly's backups. Keep a copy elsewhere: without it nobody reads them.\n{}\n",
            hex(&self.0)
        )
    }
}

/// Keys print nowhere.
impl Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

pub(crate) fn random() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(bytes)
}

/// One secret for each purpose, by HKDF (RFC 5869) with the repository's salt: what one of them gives away tells nothing
/// of another.
pub(crate) struct Keys {
    chunks: [u8; 32],
    manifests: [u8; 32],
    names: hmac::Key,
    check: [u8; 32],
}

/// Of which secret an object's key is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Chunks,
    Manifests,
}

impl Keys {
    pub(crate) fn derive(key: &Key, salt: &[u8; 32]) -> Keys {
        let secret = |purpose: &str| expand(salt, &key.0, purpose);
        Keys {
            chunks: secret("mayfly backup 1: chunks"),
            manifests: secret("mayfly backup 1: manifests"),
            names: hmac::Key::new(hmac::HMAC_SHA256, &secret("mayfly backup 1: names")),
            check: secret("mayfly backup 1: check"),
        }
    }

    /// Tells a key from another, and nothing else about it.
    pub(crate) fn check(&self) -> String {
        hex(&self.check)
    }

    /// Not in constant time: who could measure it has the check, which lies open in the repository.
    pub(crate) fn is_check(&self, check: &str) -> bool {
        self.check() == check
    }

    /// What a chunk's object is called: who sees names cannot tell whether a known text is among the chunks.
    pub(crate) fn name(&self, id: &ChunkId) -> [u8; 32] {
        let tag = hmac::sign(&self.names, id.as_bytes());
        tag.as_ref().try_into().expect("an HMAC of SHA-256 has 32 bytes")
    }

    /// The key of one object alone, by a salt that was drawn for it: so a nonce of zeros is used once with each, however
    /// many objects there come to be. 96 random bits under one key would meet again.
    pub(crate) fn of_object(&self, purpose: Purpose, salt: &[u8; 32]) -> aead::LessSafeKey {
        let secret = match purpose {
            Purpose::Chunks => &self.chunks,
            Purpose::Manifests => &self.manifests,
        };
        let key = expand(salt, secret, "mayfly backup 1: object");
        let key = aead::UnboundKey::new(&aead::AES_256_GCM, &key);
        aead::LessSafeKey::new(key.expect("a key of AES-256 has 32 bytes"))
    }
}

fn expand(salt: &[u8], secret: &[u8], purpose: &str) -> [u8; 32] {
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    let mut bytes = [0; 32];
    let info = [purpose.as_bytes()];
    let expanded = extracted.expand(&info, hkdf::HKDF_SHA256).and_then(|key| key.fill(&mut bytes));
    expanded.expect("32 bytes are fewer than HKDF gives at most");
    bytes
}
