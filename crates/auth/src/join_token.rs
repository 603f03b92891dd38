//! What admits one node to a cluster: a token that says which authority vouches for the cluster's nodes, so
//! that whoever has it knows them before he says the secret in it. The cluster keeps a hash of the secret.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Every token of any version begins so, then has its version.
const BEGIN: &str = "mjt";
const VERSION: &str = "1";
const ID_DIGITS: usize = 16;
const SUM_BYTES: usize = 4;
/// Two are trusted while one takes the other's place; more are a company's.
const AUTHORITIES_MAX: usize = 16;
/// No token is longer; what is, need not be looked at.
const TEXT_BYTES_MAX: usize = 1024;

/// `mjt1_` id `_` all else, with a checksum at its end: letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinToken {
    /// By which it is listed and revoked; no secret.
    pub id: u64,
    pub secret: JoinSecret,
    /// By the cluster's time, in milliseconds since the Unix epoch. The cluster decides.
    pub expires_at_ms: u64,
    /// The only node it admits, if it is for one.
    pub node: Option<u16>,
    /// SHA-256 of each certificate of an authority that the cluster's nodes are vouched for by. None: they
    /// know each other by the secret.
    pub authorities: Vec<[u8; 32]>,
}

/// 256 random bits.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinSecret(pub [u8; 32]);

/// Why a text is no join token. None of the texts holds any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoJoinToken {
    #[error("it is no join token; 'mayfly cluster token' makes one, which begins with mjt1_")]
    Other,
    #[error(
        "it is a join token of another version; upgrade this node first, or make one with its version"
    )]
    Version,
    #[error("some of the join token is missing or changed; copy the whole line again")]
    Damaged,
}

impl JoinSecret {
    /// What a cluster keeps of it. One hash will do: nobody guesses 256 random bits.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::new().chain_update(b"mayfly join token\0").chain_update(self.0).finalize().into()
    }
}

impl fmt::Debug for JoinSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JoinSecret(…)")
    }
}

impl JoinToken {
    /// As people and commands call a token.
    pub fn show_id(id: u64) -> String {
        format!("{id:016x}")
    }

    /// The id that [`JoinToken::show_id`] shows, and no other spelling of it.
    pub fn read_id(text: &str) -> Option<u64> {
        let id = u64::from_str_radix(text, 16).ok()?;
        (text.len() == ID_DIGITS && JoinToken::show_id(id) == text).then_some(id)
    }

    fn sum(id: u64, payload: &[u8]) -> [u8; SUM_BYTES] {
        let sum = Sha256::new().chain_update(id.to_be_bytes()).chain_update(payload).finalize();
        [sum[0], sum[1], sum[2], sum[3]]
    }
}

/// The whole token, its secret too.
impl fmt::Display for JoinToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut payload = self.secret.0.to_vec();
        payload.extend(self.expires_at_ms.to_be_bytes());
        payload.extend(self.node.unwrap_or(0).to_be_bytes());
        for authority in self.authorities.iter().take(AUTHORITIES_MAX) {
            payload.extend(authority);
        }
        payload.extend(JoinToken::sum(self.id, &payload));
        let id = JoinToken::show_id(self.id);
        write!(out, "{BEGIN}{VERSION}_{id}_{}", BASE64.encode(payload))
    }
}

impl FromStr for JoinToken {
    type Err = NoJoinToken;

    fn from_str(text: &str) -> Result<JoinToken, NoJoinToken> {
        let rest = text.strip_prefix(BEGIN).filter(|_| text.len() <= TEXT_BYTES_MAX);
        let (version, rest) = rest.and_then(|it| it.split_once('_')).ok_or(NoJoinToken::Other)?;
        if version != VERSION {
            let is_number = !version.is_empty() && version.bytes().all(|it| it.is_ascii_digit());
            return Err(if is_number { NoJoinToken::Version } else { NoJoinToken::Other });
        }
        read(rest).ok_or(NoJoinToken::Damaged)
    }
}

/// What follows the version.
fn read(rest: &str) -> Option<JoinToken> {
    let (id, payload) = rest.split_once('_')?;
    let (id, payload) = (JoinToken::read_id(id)?, BASE64.decode(payload).ok()?);
    let (payload, sum) = payload.split_last_chunk::<SUM_BYTES>()?;
    if JoinToken::sum(id, payload) != *sum {
        return None;
    }
    let (secret, rest) = payload.split_first_chunk::<32>()?;
    let (expires_at_ms, rest) = rest.split_first_chunk::<8>()?;
    let (node, rest) = rest.split_first_chunk::<2>()?;
    let (authorities, left) = rest.as_chunks::<32>();
    if !left.is_empty() || authorities.len() > AUTHORITIES_MAX {
        return None;
    }
    Some(JoinToken {
        id,
        secret: JoinSecret(*secret),
        expires_at_ms: u64::from_be_bytes(*expires_at_ms),
        node: Some(u16::from_be_bytes(*node)).filter(|node| *node > 0),
        authorities: authorities.to_vec(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn token() -> JoinToken {
        JoinToken {
            id: 0x0123_4567_89ab_cdef,
            secret: JoinSecret([7; 32]),
            expires_at_ms: 1_700_000_000_000,
            node: Some(4),
            authorities: vec![[1; 32], [2; 32]],
        }
    }

    /// These lines stay: whoever made a token may use it after an upgrade.
    #[test]
    fn a_token_is_written_as_ever() {
        let bare = JoinToken { node: None, authorities: Vec::new(), ..token() };
        assert_eq!(
            bare.to_string(),
            "mjt1_0123456789abcdef_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcAAAGL\
             z-VoAAAAoGlIuA"
        );
        for token in [bare, token()] {
            assert_eq!(token.to_string().parse(), Ok(token));
        }
    }

    /// Each row: a text, and what is wrong with it.
    #[test]
    fn what_is_no_token_is_told_why() {
        use NoJoinToken::{Damaged, Other, Version};
        let whole = token().to_string();
        let upper = whole.replace("cdef_", "CDEF_");
        let twice = format!("{whole}{whole}");
        for (text, why) in [
            ("", Other),
            ("mjt", Other),
            ("mjt1", Other),
            ("K10deadbeef::server:secret", Other),
            ("mjtx_0", Other),
            ("mjt_0", Other),
            (&format!(" {whole}"), Other),
            (&whole.replace("mjt1", "mjt2"), Version),
            (&whole.replace("mjt1", "mjt01"), Version),
            ("mjt1_", Damaged),
            ("mjt1_0123456789abcdef", Damaged),
            ("mjt1_0123456789abcdef_", Damaged),
            ("mjt1_0123456789abcdef_AAAA", Damaged),
            (&whole[..whole.len() - 1], Damaged),
            (&whole[..whole.len() / 2], Damaged),
            (&format!("{whole}\n"), Damaged),
            (&format!("{whole}="), Damaged),
            (&upper, Damaged),
            (&whole.replace("mjt1_0", "mjt1_1"), Damaged),
            (&whole.replace("mjt1_0", "mjt1_+"), Damaged),
            (&twice, Damaged),
            (&"mjt1_".repeat(1000), Other),
        ] {
            assert_eq!(text.parse::<JoinToken>(), Err(why), "{text}");
        }
    }

    #[test]
    fn a_secret_is_shown_to_nobody_and_its_hash_tells_it_from_others() {
        assert_eq!(format!("{:?}", token().secret), "JoinSecret(…)");
        assert!(format!("{:?}", token()).contains("JoinSecret(…)"), "{:?}", token());
        let other = JoinSecret([8; 32]);
        assert_ne!(token().secret.hash(), other.hash());
        assert_ne!(token().secret.hash(), token().secret.0);
    }
}
