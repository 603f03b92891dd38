//! How an object's bytes are laid: compressed, and sealed, or with a checksum where the repository is not encrypted.
//!
//! | "MFBK" | layout u8 | kind u8 | codec u8 | sealed u8 | plain length u32 | salt, if sealed | payload | end |
//!
//! Big-endian. The end is the AEAD's tag, or the SHA-256 of all of it: both also of the repository's id and the
//! object's name, so that an object in the place of another is found out.

use ring::{aead, digest};

use crate::error::Error;
use crate::key::{Keys, Purpose, random};

const MAGIC: &[u8; 4] = b"MFBK";
const LAYOUT: u8 = 1;
const HEAD: usize = 12;
const SALT: usize = 32;
const HASH: usize = 32;

/// A plain byte takes at least this much of a block of LZ4: what claims to hold more is told before memory is taken
/// for it.
const RATIO_MAX: usize = 255;

/// Bytes that an object has beside its payload, at most.
pub(crate) const OVERHEAD: usize = HEAD + SALT + HASH;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Chunk = 1,
    Contents = 2,
    Summary = 3,
    Unfinished = 4,
    Suspects = 5,
}

impl Kind {
    fn purpose(self) -> Purpose {
        match self {
            Kind::Chunk => Purpose::Chunks,
            Kind::Contents | Kind::Summary | Kind::Unfinished | Kind::Suspects => {
                Purpose::Manifests
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codec {
    Stored = 0,
    /// A block, without a frame.
    Lz4 = 1,
}

/// The envelopes of one repository.
pub(crate) struct Envelopes {
    pub(crate) repository: String,
    /// None: it is not encrypted.
    pub(crate) keys: Option<Keys>,
}

impl Envelopes {
    /// What is stored under a name.
    pub(crate) fn pack(&self, kind: Kind, name: &str, plain: &[u8]) -> Result<Vec<u8>, Error> {
        let packed = lz4_flex::block::compress(plain);
        let (codec, payload) = match packed.len() < plain.len() {
            true => (Codec::Lz4, packed.as_slice()),
            false => (Codec::Stored, plain),
        };
        let length = u32::try_from(plain.len());
        let length =
            length.map_err(|_| Error::ChunkBytes { bytes: plain.len(), max: u32::MAX as usize })?;
        let mut object = Vec::with_capacity(payload.len() + OVERHEAD);
        object.extend_from_slice(MAGIC);
        object.extend([LAYOUT, kind as u8, codec as u8, self.keys.is_some().into()]);
        object.extend(length.to_be_bytes());
        let Some(keys) = &self.keys else {
            object.extend_from_slice(payload);
            let hash = self.hash(name, &object);
            object.extend_from_slice(hash.as_ref());
            return Ok(object);
        };
        let salt = random()?;
        object.extend(salt);
        let about = self.about(name, &object);
        let (key, from) = (keys.of_object(kind.purpose(), &salt), object.len());
        object.extend_from_slice(payload);
        let tag =
            key.seal_in_place_separate_tag(nonce(), aead::Aad::from(about), &mut object[from..]);
        object.extend_from_slice(tag.expect("an object is shorter than AES-GCM seals").as_ref());
        Ok(object)
    }

    /// The plain bytes of what is stored under a name; `bytes_max` at most.
    ///
    /// # Errors
    /// What is wrong with them, for [`Error::Damaged`].
    pub(crate) fn unpack(
        &self,
        kind: Kind,
        name: &str,
        object: &[u8],
        bytes_max: usize,
    ) -> Result<Vec<u8>, String> {
        let (head, rest) = object.split_at_checked(HEAD).ok_or("it is cut off")?;
        if !head.starts_with(MAGIC) {
            return Err("it is no object of a backup".into());
        }
        if head[4] != LAYOUT {
            return Err(format!(
                "its layout is {}, and {LAYOUT} is known: of a newer version?",
                head[4]
            ));
        }
        if head[5] != kind as u8 {
            return Err("it is an object of another kind".into());
        }
        if head[7] != u8::from(self.keys.is_some()) {
            return Err("whether it is encrypted is not as in mayfly-backup.json".into());
        }
        let length = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let packed = match &self.keys {
            None => self.checked(name, object)?.to_vec(),
            Some(keys) => {
                let (salt, payload) = rest.split_first_chunk::<SALT>().ok_or("it is cut off")?;
                let about = self.about(name, &object[..HEAD + SALT]);
                let mut payload = payload.to_vec();
                let key = keys.of_object(kind.purpose(), salt);
                let opened = key.open_in_place(nonce(), aead::Aad::from(about), &mut payload);
                let bytes = opened.map_err(|_| "it was changed, or is another object")?.len();
                payload.truncate(bytes);
                payload
            }
        };
        if length > bytes_max || length > packed.len().saturating_mul(RATIO_MAX) {
            return Err(format!("it claims to hold {length} bytes"));
        }
        let plain = match head[6] {
            codec if codec == Codec::Stored as u8 => packed,
            codec if codec == Codec::Lz4 as u8 => {
                let plain = lz4_flex::block::decompress(&packed, length);
                plain.map_err(|error| format!("it does not unpack: {error}"))?
            }
            codec => return Err(format!("its codec is {codec}: of a newer version?")),
        };
        match plain.len() == length {
            true => Ok(plain),
            false => Err(format!("it holds {} bytes in place of {length}", plain.len())),
        }
    }

    fn checked<'a>(&self, name: &str, object: &'a [u8]) -> Result<&'a [u8], String> {
        let end =
            object.len().checked_sub(HASH).filter(|end| *end >= HEAD).ok_or("it is cut off")?;
        let (said, hash) = object.split_at(end);
        match self.hash(name, said).as_ref() == hash {
            true => Ok(&said[HEAD..]),
            false => Err("it was changed, or is another object".into()),
        }
    }

    /// What is authenticated beside the payload.
    fn about(&self, name: &str, head: &[u8]) -> Vec<u8> {
        [self.repository.as_bytes(), &[0], name.as_bytes(), &[0], head].concat()
    }

    fn hash(&self, name: &str, said: &[u8]) -> digest::Digest {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(&self.about(name, &[]));
        hash.update(said);
        hash.finish()
    }
}

/// Once with each key: every object has its own.
fn nonce() -> aead::Nonce {
    aead::Nonce::assume_unique_for_key([0; 12])
}
