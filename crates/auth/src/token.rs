//! Shared access signatures (CBS-6 to CBS-9): parsing and verification.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::percent_decode_str;
use sha2::Sha256;
use thiserror::Error;

use crate::grant::Grant;
use crate::key::{Key, Seal};
use crate::path::{covers, host_of, resource_path};
use crate::web_token::WebTokenFault;

/// What a token begins with. Its kind is told by this, whatever it is called beside it (CBS-3).
const PREFIX: &str = "SharedAccessSignature ";
/// Beyond this a text is no token: the longest resource is a path of 260 characters.
const BYTES_MAX: usize = 8192;

/// A token's parts, as they stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// `sr`, still encoded: it is signed letter for letter.
    resource: &'a str,
    /// What it is for.
    path: String,
    signature: Vec<u8>,
    /// `se`, as written; and as a number, seconds since the Unix epoch.
    expiry: &'a str,
    expires_at_s: u64,
    key_name: Cow<'a, str>,
}

/// Why a token is not one, or not good.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    #[error("the token is neither a shared access signature nor a JSON web token")]
    NotSas,
    #[error("the token lacks a part, or has one that cannot be read: {part}")]
    Malformed { part: &'static str },
    #[error("the token has expired")]
    Expired,
    #[error("no key has the name the token gives")]
    UnknownKey,
    /// There is a key of that name, or several.
    #[error("the token's signature is not that of key '{key}'")]
    Signature { key: String },
    #[error("the token, signed with key '{key}', is for another resource")]
    Resource { key: String },
    #[error("the login's key is not that of key '{key}'")]
    Login { key: String },
    #[error("the bearer token is no key of this cluster")]
    Bearer,
    #[error("{0}")]
    Web(#[from] WebTokenFault),
}

impl TokenError {
    /// Whether the same proof may be good by other keys.
    pub fn is_for_want_of_a_key(&self) -> bool {
        match self {
            TokenError::UnknownKey
            | TokenError::Signature { .. }
            | TokenError::Resource { .. }
            | TokenError::Login { .. }
            | TokenError::Bearer => true,
            TokenError::NotSas
            | TokenError::Malformed { .. }
            | TokenError::Expired
            | TokenError::Web(_) => false,
        }
    }

    /// A word for it, as metrics and the audit trail have it.
    pub fn reason(&self) -> &'static str {
        match self {
            TokenError::NotSas | TokenError::Malformed { .. } => "malformed",
            TokenError::Expired => "expired",
            TokenError::UnknownKey => "unknown-key",
            TokenError::Signature { .. } | TokenError::Login { .. } | TokenError::Bearer => {
                "wrong-key"
            }
            TokenError::Resource { .. } => "other-resource",
            TokenError::Web(fault) => fault.reason(),
        }
    }

    /// The key that it says it was made with, where there is such a key.
    pub fn key_name(&self) -> Option<&str> {
        match self {
            TokenError::Signature { key }
            | TokenError::Resource { key }
            | TokenError::Login { key } => Some(key),
            TokenError::NotSas
            | TokenError::Malformed { .. }
            | TokenError::Expired
            | TokenError::UnknownKey
            | TokenError::Bearer
            | TokenError::Web(_) => None,
        }
    }
}

impl<'a> Token<'a> {
    /// Takes `sr`, `sig`, `se` and `skn` in any order.
    pub fn parse(text: &'a str) -> Result<Token<'a>, TokenError> {
        let parts = text.strip_prefix(PREFIX).ok_or(TokenError::NotSas)?;
        if text.len() > BYTES_MAX {
            return Err(TokenError::Malformed { part: "all" });
        }
        let part = |name: &'static str| {
            let values = parts.split('&').filter_map(|part| part.split_once('='));
            let found = values.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value);
            found.ok_or(TokenError::Malformed { part: name })
        };
        let expiry = part("se")?;
        let expires_at_s = expiry.parse().map_err(|_| TokenError::Malformed { part: "se" })?;
        let signature = decoded(part("sig")?, "sig")?;
        let signature =
            BASE64.decode(&*signature).map_err(|_| TokenError::Malformed { part: "sig" })?;
        let key_name = decoded(part("skn")?, "skn")?;
        let resource = part("sr")?;
        let path = resource_path(resource);
        Ok(Token { resource, path, signature, expiry, expires_at_s, key_name })
    }

    /// Of the key that it says it was signed with.
    pub fn key_name(&self) -> &str {
        &self.key_name
    }

    /// Takes a resource that is no more than this host for the whole namespace: JS writes it so in
    /// supplementary tokens.
    #[must_use]
    pub fn at(mut self, host: &str) -> Token<'a> {
        let resource = percent_decode_str(self.resource).decode_utf8_lossy();
        if resource.eq_ignore_ascii_case(host) {
            self.path.clear();
        }
        self
    }

    /// The host that it is for, if it names one.
    pub(crate) fn host(&self) -> Option<String> {
        host_of(&percent_decode_str(self.resource).decode_utf8_lossy()).map(str::to_owned)
    }

    /// Which key of the pair has signed, if either.
    fn signer(&self, key: &Key) -> Option<Seal> {
        key.pair().find(|key| self.is_signed_with(key)).map(Seal::of)
    }

    /// The key is the text as it stands, not what it would be as base64 (CBS-7). The comparison takes
    /// the same time wherever the signatures differ.
    fn is_signed_with(&self, key: &str) -> bool {
        // A key of any length will do for HMAC.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else { return false };
        mac.update(self.resource.as_bytes());
        mac.update(b"\n");
        mac.update(self.expiry.as_bytes());
        mac.verify_slice(&self.signature).is_ok()
    }

    /// Checks the token against the keys at a time and for an audience.
    ///
    /// # Errors
    /// [`TokenError`]. A key of an entity does not vouch for what is not below that entity.
    pub fn verify<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k Key>,
        audience: &str,
        now_s: u64,
    ) -> Result<Grant, TokenError> {
        if now_s >= self.expires_at_s {
            return Err(TokenError::Expired);
        }
        let mut refusal = TokenError::UnknownKey;
        for key in keys {
            if !self.names(&key.name) {
                continue;
            }
            let Some(seal) = self.signer(key) else {
                refusal = TokenError::Signature { key: key.name.clone() };
                continue;
            };
            let path = resource_path(audience);
            let is_covered = covers(&self.path, &path) && covers(&resource_path(&key.scope), &path);
            if is_covered {
                let (reach, rights, expires_at_s) = (key.reach, key.rights, self.expires_at_s);
                let principal = key.principal();
                return Ok(Grant { principal, path, reach, rights, expires_at_s, seal });
            }
            refusal = TokenError::Resource { key: key.name.clone() };
        }
        Err(refusal)
    }

    /// Python may have encoded the name twice.
    fn names(&self, key: &str) -> bool {
        let twice = percent_decode_str(&self.key_name).decode_utf8();
        *self.key_name == *key || twice.is_ok_and(|name| name == key)
    }
}

fn decoded<'a>(text: &'a str, part: &'static str) -> Result<Cow<'a, str>, TokenError> {
    percent_decode_str(text).decode_utf8().map_err(|_| TokenError::Malformed { part })
}

/// Signs a token, for tests and tools: `resource` is written as given, so it is encoded already.
pub fn sign(resource: &str, key_name: &str, key: &str, expires_at_s: u64) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    let mut signature = String::new();
    if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) {
        mac.update(format!("{resource}\n{expires_at_s}").as_bytes());
        signature = BASE64.encode(mac.finalize().into_bytes());
    }
    let signature = utf8_percent_encode(&signature, NON_ALPHANUMERIC);
    format!("{PREFIX}sr={resource}&sig={signature}&se={expires_at_s}&skn={key_name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::path::Reach;
    use crate::right::{Right, Rights};

    const KEY: &str = "c2VjcmV0";
    const NOW_S: u64 = 1_700_000_000;

    fn key(scope: &str) -> Key {
        let rights = Rights { send: true, ..Rights::default() };
        let (name, scope) = ("Root".to_owned(), scope.to_owned());
        let (primary, secondary) = ("other".to_owned(), KEY.to_owned());
        Key { name, primary, secondary, rights, scope, reach: Reach::Below, owner: None }
    }

    fn of_other() -> TokenError {
        TokenError::Resource { key: "Root".to_owned() }
    }

    fn wrong() -> TokenError {
        TokenError::Signature { key: "Root".to_owned() }
    }

    fn check(token: &str, scope: &str, audience: &str) -> Result<Grant, TokenError> {
        Token::parse(token)?.verify([&key(scope)], audience, NOW_S)
    }

    fn signed(resource: &str) -> String {
        sign(resource, "Root", KEY, NOW_S + 60)
    }

    /// CBS-7, CBS-9: `sr` is signed as it stands and covers itself and what lies below it.
    #[test]
    fn cbs_9_a_token_covers_its_path_and_below() {
        let q = signed("sb%3a%2f%2flocalhost%2Fq");
        let all = signed("sb%3a%2f%2flocalhost%3A5672%2F");
        let table = [
            (&q, "", "sb://localhost:5672/q", Ok("q")),
            (&q, "", "amqps://localhost/Q/$management", Ok("q/$management")),
            (&q, "", "sb://localhost/q2", Err(of_other())),
            (&q, "", "sb://localhost/", Err(of_other())),
            (&q, "q", "sb://localhost/q", Ok("q")),
            (&all, "", "amqp://localhost:5672/a/b%2Fc", Ok("a/b/c")),
            (&all, "q", "sb://localhost/other", Err(of_other())),
        ];
        for (token, scope, audience, expected) in table {
            let path = check(token, scope, audience).map(|grant| grant.path);
            assert_eq!(path.as_deref(), expected.as_ref().copied(), "{scope} {audience}");
        }
    }

    #[test]
    fn cbs_6_cbs_7_what_is_wrong_with_a_token_is_named() {
        let good = signed("sb%3A%2F%2Fh%2Fq");
        let late = sign("sb%3A%2F%2Fh%2Fq", "Root", KEY, NOW_S);
        let tampered = good.replace("%2Fq&", "%2Fr&");
        let table = [
            ("eyJhbGciOi".to_owned(), TokenError::NotSas),
            (good.replace("&se=", "&sx="), TokenError::Malformed { part: "se" }),
            (good.replace("sig=", "sig=!"), TokenError::Malformed { part: "sig" }),
            (late, TokenError::Expired),
            (good.replace("skn=Root", "skn=Other"), TokenError::UnknownKey),
            (tampered, wrong()),
            (sign("sb%3A%2F%2Fh%2Fq", "Root", "", NOW_S + 60), wrong()),
        ];
        for (token, expected) in table {
            assert_eq!(check(&token, "", "sb://h/q"), Err(expected), "{token}");
        }
    }

    /// Computed with Python: base64(hmac(b"c2VjcmV0", b"sb%3A%2F%2Fh%2Fq\n1700000060", sha256)).
    #[test]
    fn cbs_7_the_signature_is_that_of_other_implementations() {
        let token = signed("sb%3A%2F%2Fh%2Fq");
        let parsed = Token::parse(&token).unwrap();
        assert_eq!(BASE64.encode(&parsed.signature), PYTHON);
    }

    const PYTHON: &str = "2WjcyMT3PLeShrv4B6KqvW7RC969Q8RVM9snpnqdqgU=";

    #[test]
    fn cbs_6_a_key_name_may_be_encoded_twice() {
        let token = sign("sb%3A%2F%2Fh", "Root%2520Key", KEY, NOW_S + 60);
        let named = Key { name: "Root Key".to_owned(), ..key("") };
        assert!(Token::parse(&token).unwrap().verify([&named], "sb://h/q", NOW_S).is_ok());
    }

    /// Keys of an entity beside the node's own, also one of the same name; what they sign is
    /// for that entity, and not for another below its name.
    #[test]
    fn ent_12_an_entitys_own_keys_sign_for_it_alone() {
        let node = Key { primary: "node".to_owned(), secondary: String::new(), ..key("") };
        let access = Access::keys([node]);
        let own = [Key { reach: Reach::Entity, ..key("q") }];
        let verify = |token: &str, audience: &str, own: &[Key]| {
            access.verify(token, audience, own, NOW_S).map(|grant| grant.path)
        };
        let all = signed("sb%3A%2F%2Fh");
        assert_eq!(verify(&all, "sb://h/q", &own), Ok("q".to_owned()));
        assert_eq!(verify(&all, "sb://h/q", &[]), Err(wrong()));
        assert_eq!(verify(&all, "sb://h/", &own), Err(of_other()));
        assert_eq!(verify(&all, "sb://h/other", &own), Err(of_other()));
        let of_node = sign("sb%3A%2F%2Fh", "Root", "node", NOW_S + 60);
        assert_eq!(verify(&of_node, "sb://h/other", &own), Ok("other".to_owned()));

        let grant = access.verify(&all, "sb://h/q", &own, NOW_S).unwrap();
        for (path, allowed) in [("q", true), ("q/subscriptions/s", true), ("q/r", false)] {
            assert_eq!(grant.allows(path, Right::Send, NOW_S), allowed, "{path}");
        }
        let login = Grant::of_key(&own, "Root", KEY).unwrap();
        assert!(login.allows("q", Right::Send, NOW_S) && !login.allows("q/r", Right::Send, NOW_S));
        assert!(!login.allows("q", Right::Listen, NOW_S));
        assert_eq!(Grant::of_key(&own, "Root", "guess"), None);
    }

    #[test]
    fn ent_12_only_a_lack_of_keys_is_mended_by_more() {
        use TokenError::{Bearer, Expired, Login, Malformed, NotSas, UnknownKey};
        for (error, mended) in [
            (NotSas, false),
            (Malformed { part: "se" }, false),
            (Expired, false),
            (UnknownKey, true),
            (wrong(), true),
            (of_other(), true),
            (Login { key: "Root".to_owned() }, true),
            (Bearer, true),
        ] {
            assert_eq!(error.is_for_want_of_a_key(), mended, "{error}");
        }
    }

    /// ERR-17, ERR-25: a right that was not given, and one that has run out.
    #[test]
    fn err_25_a_grant_ends_with_its_token() {
        let grant = check(&signed("sb%3A%2F%2Fh%2Fq"), "", "sb://h/q").unwrap();
        assert!(grant.allows("q/$management", Right::Send, NOW_S));
        assert!(!grant.allows("q", Right::Listen, NOW_S));
        assert!(!grant.allows("q", Right::Send, NOW_S + 60));
    }
}
