//! What clients are asked for, and who is let do what.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;

use crate::certified::{CertificateMap, Certified, NoClient};
use crate::grant::Grant;
use crate::guesses::Held;
use crate::issuer::{Issuers, KeyToken};
use crate::key::Key;
use crate::offer::{BEARER, Offer};
use crate::path::{covers, host_of, resource_path};
use crate::principal::Principal;
use crate::right::Right;
use crate::token::{Token, TokenError};
use crate::web_token::{WebToken, WebTokenFault};

/// As long as a name may be.
const PATH_CHARS_SHOWN_MAX: usize = 260;

/// How clients prove who they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// No proof is asked for: any token and any key will do, as with the emulator.
    #[default]
    Anyone,
    /// A token signed with one of these keys, or a key itself.
    Keys(Keyring),
}

/// The keys of the configuration. Clones are one ring: what is exchanged in one counts in all, at once.
#[derive(Clone)]
pub struct Keyring {
    keys: Arc<RwLock<Arc<[Key]>>>,
    /// Which of them certificates stand for.
    certificates: Arc<RwLock<Arc<CertificateMap>>>,
    /// Whose tokens are proofs beside the keys.
    issuers: Issuers,
    /// Which hosts tokens may be for; `None`: any.
    hosts: Option<Hosts>,
    /// Which namespace it is for; before that is said, none, and no role of an issuer's token is for it.
    namespace: Arc<str>,
}

/// Tells whether a host is one of those that something is called by.
pub type Hosts = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What somebody proves with who he is. An `Authorization` is looked at alone, where there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// The value of a request's `Authorization`.
    pub authorization: Option<&'a str>,
    /// What was shown on the connection that the request came over.
    pub certificate: Option<&'a Certified>,
}

/// Why somebody may not do something. None of the texts holds what the client sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    #[error("no proof was sent; send 'Authorization: Bearer KEY', or a shared access signature")]
    Nothing,
    #[error("{0}")]
    Proof(#[from] TokenError),
    /// A certificate was shown, and nothing else.
    #[error("{0}")]
    Certificate(#[from] NoClient),
    /// Who he is, is proven.
    #[error("{principal} has no right '{}' on {}", right.name(), place(path))]
    Right { principal: Principal, right: Right, path: String },
    /// A join token admits nobody here. `reason`: a word for it; `is_guess`: no such token is known.
    #[error("{why}")]
    JoinToken { reason: &'static str, why: String, is_guess: bool },
    /// What was sent was not even looked at.
    #[error("too many wrong keys came from this address; send the right one in {} s", seconds(*.0))]
    Held(Held),
}

impl Denied {
    /// What [`Denied::reason`] says of clients, but for join tokens, which are nodes'.
    pub const REASONS: &[&str] = &[
        "no-proof",
        "malformed",
        "expired",
        "unknown-key",
        "wrong-key",
        "other-resource",
        "certificate",
        "no-right",
        "too-many",
    ];

    /// Whether the keys of an entity's own rules may make the same proof good.
    pub fn is_for_want_of_a_key(&self) -> bool {
        match self {
            Denied::Proof(error) => error.is_for_want_of_a_key(),
            Denied::Nothing
            | Denied::Certificate(_)
            | Denied::Right { .. }
            | Denied::JoinToken { .. }
            | Denied::Held(_) => false,
        }
    }

    /// A word for it, as metrics and the audit trail have it.
    pub fn reason(&self) -> &'static str {
        match self {
            Denied::Nothing => "no-proof",
            Denied::Proof(error) => error.reason(),
            Denied::Certificate(_) => "certificate",
            Denied::Right { .. } => "no-right",
            Denied::JoinToken { reason, .. } => reason,
            Denied::Held(_) => "too-many",
        }
    }

    /// The key that the proof was made with, where there is such a key.
    pub fn key_name(&self) -> Option<&str> {
        match self {
            Denied::Nothing
            | Denied::Certificate(_)
            | Denied::JoinToken { .. }
            | Denied::Held(_) => None,
            Denied::Proof(error) => error.key_name(),
            Denied::Right { principal, .. } => principal.key_name(),
        }
    }
}

fn seconds(held: Held) -> u64 {
    held.wait_ms.div_ceil(1_000)
}

/// For people; what a client sends is cut, and nothing in it ends a line.
fn place(path: &str) -> String {
    match path.char_indices().nth(PATH_CHARS_SHOWN_MAX) {
        _ if path.is_empty() => "the namespace".to_owned(),
        None => format!("'{}'", path.escape_debug()),
        Some((end, _)) => format!("'{}…'", path[..end].escape_debug()),
    }
}

impl Keyring {
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Keyring {
        let keys = keys.into_iter().collect();
        let keys = Arc::new(RwLock::new(keys));
        let (certificates, issuers, namespace) = Default::default();
        Keyring { keys, certificates, issuers, hosts: None, namespace }
    }

    /// The same, with tokens of these issuers as proofs beside the keys.
    #[must_use]
    pub fn with_issuers(self, issuers: Issuers) -> Keyring {
        Keyring { issuers, ..self }
    }

    pub fn issuers(&self) -> &Issuers {
        &self.issuers
    }

    /// The same keys, whatever becomes of them, for a namespace, which sign only for these hosts.
    #[must_use]
    pub fn for_hosts(&self, namespace: &str, hosts: Hosts) -> Keyring {
        Keyring { hosts: Some(hosts), namespace: namespace.into(), ..self.clone() }
    }

    /// Other keys, of a namespace, which sign only for these hosts; certificates stand for those of the node among
    /// them, and tokens of the same issuers are proofs.
    #[must_use]
    pub fn beside(
        &self,
        namespace: &str,
        keys: impl IntoIterator<Item = Key>,
        hosts: Hosts,
    ) -> Keyring {
        let keys = Arc::new(RwLock::new(keys.into_iter().collect()));
        Keyring { keys, ..self.for_hosts(namespace, hosts) }
    }

    /// NS-8: whether what a token says it is for, and what it is put for, may be meant for here.
    fn is_meant(&self, of_token: Option<String>, audience: &str) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let audience = host_of(audience).map(str::to_owned);
        [of_token, audience].into_iter().flatten().all(|host| hosts(&host))
    }

    /// What a token is good for, whatever kind it is of. `host`: which the request came to that it stands beside.
    fn verify_any(
        &self,
        token: &str,
        host: Option<&str>,
        audience: &str,
        own: &[Key],
        now_s: u64,
    ) -> Result<Grant, TokenError> {
        let of_request = token.strip_prefix(BEARER).unwrap_or(token);
        if WebToken::is_meant(of_request) {
            return self.verify_web(of_request, audience, now_s);
        }
        let token = Token::parse(token)?;
        let token = match host {
            Some(host) => token.at(host),
            None => token,
        };
        self.verify(&token, audience, own, now_s)
    }

    /// The same of a JSON web token, which this cluster gave itself, or an issuer.
    fn verify_web(&self, token: &str, audience: &str, now_s: u64) -> Result<Grant, TokenError> {
        if !self.is_meant(None, audience) {
            return Err(WebTokenFault::Audience.into());
        }
        let path = resource_path(audience);
        let Some(own) = self.issuers.own(token, now_s) else {
            return self.issuers.verify(token, (&self.namespace, &path), now_s);
        };
        let grant = self.of_own(&own?)?;
        match covers(&grant.path, &path) {
            true => Ok(Grant { path, ..grant }),
            false => Err(WebTokenFault::Audience.into()),
        }
    }

    /// What a token is good for that was given for a key, as that key is now. It is of this namespace, or the node's
    /// and good here too.
    fn of_own(&self, token: &KeyToken) -> Result<Grant, TokenError> {
        let is_here = *token.namespace == *self.namespace;
        let may_be = |known: &Key| is_here || known.owner.is_none();
        let KeyToken { key_name, is_it, expires_at_s, .. } = token;
        let grant = self.recognised(key_name, may_be, is_it, *expires_at_s);
        grant.ok_or(TokenError::Web(WebTokenFault::UnknownKey))
    }

    /// The key of that name, if it is one that it may be, and the one that was known.
    fn recognised(
        &self,
        name: &str,
        may_be: impl Fn(&Key) -> bool,
        is_it: impl Fn(&str) -> bool,
        expires_at_s: u64,
    ) -> Option<Grant> {
        let keys = self.current();
        let mut of_name = keys.iter().filter(|known| known.name == name && may_be(known));
        of_name.find_map(|known| {
            let key = known.pair().find(|key| is_it(key))?;
            Some(Grant { expires_at_s, ..Grant::by_key(known, key) })
        })
    }

    fn verify(
        &self,
        token: &Token<'_>,
        audience: &str,
        own: &[Key],
        now_s: u64,
    ) -> Result<Grant, TokenError> {
        let keys = self.current();
        let grant = token.verify(keys.iter().chain(own), audience, now_s)?;
        match self.is_meant(token.host(), audience) {
            true => Ok(grant),
            false => Err(TokenError::Resource { key: token.key_name().to_owned() }),
        }
    }

    /// As they are now.
    pub fn current(&self) -> Arc<[Key]> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These from now on.
    pub fn replace(&self, keys: impl IntoIterator<Item = Key>) {
        let keys = keys.into_iter().collect();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    fn certificates(&self) -> Arc<CertificateMap> {
        self.certificates.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets certificates stand for keys as this says, from now on.
    pub fn certify(&self, map: CertificateMap) {
        *self.certificates.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
    }

    /// Puts these in the place of the names of certificates and of the keys they stand for; whether they are
    /// others than before.
    pub fn map_certificates(&self, rows: BTreeMap<String, String>) -> bool {
        let mut map = self.certificates.write().unwrap_or_else(PoisonError::into_inner);
        let changed = map.with_rows(rows);
        let is_other = **map != changed;
        *map = Arc::new(changed);
        is_other
    }
}

impl PartialEq for Keyring {
    fn eq(&self, other: &Keyring) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys) || self.current() == other.current()
    }
}

impl Eq for Keyring {}

impl fmt::Debug for Keyring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Keyring").field(&self.current()).finish()
    }
}

impl Access {
    pub fn keys(keys: impl IntoIterator<Item = Key>) -> Access {
        Access::Keys(Keyring::new(keys))
    }

    pub fn is_anyone(&self) -> bool {
        match self {
            Access::Anyone => true,
            Access::Keys(_) => false,
        }
    }

    /// What whoever knows the key of that name may do (SASL-4); `None`: it is not the key.
    pub fn login(&self, name: &str, key: &str) -> Option<Grant> {
        let Access::Keys(keys) = self else { return Some(Grant::all()) };
        Grant::of_key(&keys.current(), name, key)
    }

    /// What somebody may do who once proved that he knows a key of that name, as long as that proof lasts. `is_it`: whether
    /// this is the key that he knew. `None`: it is gone or exchanged.
    pub fn recognised(
        &self,
        name: &str,
        is_it: impl Fn(&str) -> bool,
        expires_at_s: u64,
    ) -> Option<Grant> {
        let Access::Keys(keys) = self else { return Some(Grant::all()) };
        keys.recognised(name, |_| true, is_it, expires_at_s)
    }

    /// What whoever showed a certificate may do, by each key of the name that it stands for; there is one
    /// at least (SASL-9).
    ///
    /// # Errors
    /// [`NoClient`].
    pub fn certified(&self, shown: &Certified, now_s: u64) -> Result<Vec<Grant>, NoClient> {
        let Access::Keys(ring) = self else { return Ok(vec![Grant::all()]) };
        let (map, keys) = (ring.certificates(), ring.current());
        let (name, key) = map.find(shown)?;
        if now_s >= shown.expires_at_s {
            return Err(NoClient::Expired { subject: shown.subject.clone() });
        }
        // A namespace's rule of that name is another's (NS-7).
        let of_node = keys.iter().filter(|known| known.owner.is_none());
        let of_name = of_node.filter(|known| known.name == key);
        let grants: Vec<Grant> =
            of_name.map(|known| Grant::by_certificate(known, &name, shown.expires_at_s)).collect();
        match grants.is_empty() {
            true => Err(NoClient::NoKey { subject: shown.subject.clone(), key: key.to_owned() }),
            false => Ok(grants),
        }
    }

    /// Whether there is a key of that name.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Access::Anyone => false,
            Access::Keys(keys) => keys.current().iter().any(|key| key.name == name),
        }
    }

    /// What a token is good for when it is put for an audience. `own`: keys of the entity that the
    /// audience is of (see [`entity_path`](crate::entity_path)), as good as the node's there. Who has
    /// to ask for those tries without any first, and looks at [`TokenError::is_for_want_of_a_key`].
    ///
    /// # Errors
    /// [`TokenError`]. Where anyone may do anything there are none, whatever the token is.
    pub fn verify(
        &self,
        token: &str,
        audience: &str,
        own: &[Key],
        now_s: u64,
    ) -> Result<Grant, TokenError> {
        let Access::Keys(keys) = self else { return Ok(Grant::all()) };
        keys.verify_any(token, None, audience, own, now_s)
    }

    /// The same for a token beside a request's own (HTTP-14), which came to
    /// this host.
    ///
    /// # Errors
    /// As [`Access::verify`].
    pub fn verify_beside(
        &self,
        token: &str,
        host: &str,
        audience: &str,
        own: &[Key],
        now_s: u64,
    ) -> Result<Grant, TokenError> {
        let Access::Keys(keys) = self else { return Ok(Grant::all()) };
        keys.verify_any(token, Some(host), audience, own, now_s)
    }

    /// Who a request is from, by its `Authorization`, or without one by the certificate of its connection,
    /// if he may use `path` (normalised) in one of these ways (ERR-17). `own`: as for [`Access::verify`].
    ///
    /// # Errors
    /// [`Denied`], of the first of the rights where it is one that is missing.
    pub fn permit(
        &self,
        given: Evidence<'_>,
        path: &str,
        any_of: &[Right],
        own: &[Key],
        now_s: u64,
    ) -> Result<Grant, Denied> {
        let Access::Keys(ring) = self else { return Ok(Grant::all()) };
        let keys = ring.current();
        let Evidence { authorization, certificate } = given;
        let may = |grant: &Grant| any_of.iter().any(|right| grant.allows(path, *right, now_s));
        // Who may have one key under several names is whoever may do what is asked.
        let best = |grants: &mut dyn Iterator<Item = Grant>| {
            grants.fold(None, |best: Option<Grant>, grant| match best {
                Some(best) if may(&best) || !may(&grant) => Some(best),
                _ => Some(grant),
            })
        };
        let known = || keys.iter().chain(own);
        let offer = authorization.map(Offer::parse).transpose()?;
        let found = match offer.or(certificate.map(Offer::Certificate)).ok_or(Denied::Nothing)? {
            Offer::Certificate(shown) => {
                let found = best(&mut self.certified(shown, now_s)?.into_iter());
                found.ok_or(Denied::Nothing)?
            }
            Offer::Bearer(given) if WebToken::is_meant(given) => {
                ring.verify_web(given, path, now_s)?
            }
            Offer::Bearer(given) => {
                let of_value = known().filter(|key| key.is(given));
                let found = best(&mut of_value.map(|key| Grant::by_key(key, given)));
                found.ok_or(TokenError::Bearer)?
            }
            Offer::Login { name, key: given } => {
                let named = || known().filter(|key| key.name == name);
                let mut good = named().filter(|key| key.is(&given));
                let found = best(&mut good.by_ref().map(|key| Grant::by_key(key, &given)));
                match (found, named().next()) {
                    (Some(found), _) => found,
                    (None, Some(_)) => return Err(TokenError::Login { key: name }.into()),
                    (None, None) => return Err(TokenError::UnknownKey.into()),
                }
            }
            Offer::Token(token) => ring.verify(&Token::parse(token)?, path, own, now_s)?,
        };
        match (may(&found), any_of) {
            (false, [right, ..]) => {
                let (principal, path) = (found.principal, path.to_owned());
                Err(Denied::Right { principal, right: *right, path })
            }
            _ => Ok(found),
        }
    }

    /// What a grant is good for by now; `None`: nothing, as its key is gone or exchanged. `own`: the keys
    /// of the entity, if it was proven by a rule of one.
    pub fn renewed(&self, grant: &Grant, own: &[Key]) -> Option<Grant> {
        let Access::Keys(keys) = self else { return Some(grant.clone()) };
        match &grant.principal {
            Principal::Rule { .. } => grant.renewed(own),
            Principal::WebToken { issuer, .. } => {
                keys.issuers.vouch_for(issuer, grant.seal).then(|| grant.clone())
            }
            Principal::Certificate { subject, key }
                if keys.certificates().key_of(&subject[..]) != Some(&key[..]) =>
            {
                None
            }
            _ => grant.renewed(&keys.current()),
        }
    }
}

/// The path of a resource that is called by its name, and not by an address: nothing in it is decoded or
/// dropped, as what is opened by it is not.
pub fn named_path(name: &str) -> String {
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
