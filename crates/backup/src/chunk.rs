//! What a chunk is called.

use std::fmt::{self, Debug, Display};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of a chunk at most, before it is compressed: bounds the memory of whoever reads or writes some at a time.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;

/// The SHA-256 of a chunk's plain bytes (FIPS 180-4): equal bytes are one chunk, in all backups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId([u8; 32]);

impl ChunkId {
    /// The id of these bytes.
    pub fn of(bytes: &[u8]) -> ChunkId {
        let hash = digest::digest(&digest::SHA256, bytes);
        ChunkId(hash.as_ref().try_into().expect("a SHA-256 has 32 bytes"))
    }

    pub fn from_bytes(bytes: [u8; 32]) -> ChunkId {
        ChunkId(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// In lower-case hex, as objects are named.
impl Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkId({self})")
    }
}

/// Base64 in manifests, which hold many: 43 characters where hex has 64.
impl Serialize for ChunkId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for ChunkId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ChunkId, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(&text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes
            .map(ChunkId)
            .ok_or_else(|| serde::de::Error::custom("an id of a chunk is 43 characters of base64"))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 32 bytes of lower-case hex; nothing else.
pub(crate) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let is_hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    if text.len() != 64 || !text.bytes().all(is_hex) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}
