//! Issuers whose JSON web tokens are proofs, and what these are good for here.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::grant::Grant;
use crate::key::Seal;
use crate::path::{Reach, covers};
use crate::principal::Principal;
use crate::right::{Right, Rights};
use crate::token::TokenError;
use crate::web_token::{Claims, KeySet, VerifyingKey, WebToken, WebTokenFault};

/// Azure's roles for data, by name, as good as these rights.
pub const AZURE_ROLES: [(&str, &[Right]); 3] = [
    ("Azure Service Bus Data Owner", &[Right::Manage]),
    ("Azure Service Bus Data Sender", &[Right::Send]),
    ("Azure Service Bus Data Receiver", &[Right::Listen]),
];

/// Whoever a token is for that has a claim of this value may do so much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    pub value: String,
    pub rights: Rights,
    /// Paths of entities, normalised; each with all below it. None: everything in the namespace.
    pub entities: Vec<String>,
    pub namespace: String,
}

impl Role {
    /// Azure's own, in a namespace as a whole.
    pub fn of_azure(namespace: &str) -> impl Iterator<Item = Role> {
        AZURE_ROLES.into_iter().map(move |(name, rights)| Role {
            value: name.to_owned(),
            rights: rights.iter().fold(Rights::default(), |all, right| all.with(*right)),
            entities: Vec::new(),
            namespace: namespace.to_owned(),
        })
    }

    fn covers(&self, namespace: &str, path: &str) -> bool {
        let is_within = || self.entities.iter().any(|entity| covers(entity, path));
        self.namespace == namespace && (self.entities.is_empty() || is_within())
    }
}

/// An issuer of tokens. Its keys change, and what its tokens are good for does not while a node runs.
#[derive(Debug)]
pub struct Issuer {
    /// As its tokens say it.
    pub name: Arc<str>,
    /// What its tokens have to be for: one of these.
    pub audiences: Vec<String>,
    /// Which claim says what somebody may do.
    pub claim: String,
    pub roles: Vec<Role>,
    keys: RwLock<Arc<KeySet>>,
    /// A token was signed with a key that is not among them.
    is_behind: AtomicBool,
}

impl Issuer {
    /// Without a key, so that none of its tokens is good yet.
    pub fn new(name: &str, audiences: Vec<String>, claim: String, roles: Vec<Role>) -> Issuer {
        let (keys, is_behind) = Default::default();
        Issuer { name: name.into(), audiences, claim, roles, keys, is_behind }
    }

    pub fn keys(&self) -> Arc<KeySet> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These from now on; whether they are others.
    pub fn replace_keys(&self, keys: KeySet) -> bool {
        let mut known = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let is_other = **known != keys;
        if is_other {
            *known = Arc::new(keys);
        }
        is_other
    }

    /// Whether somebody showed a token since last asked whose key is not known here: the issuer may have another by now.
    pub fn take_behind(&self) -> bool {
        self.is_behind.swap(false, Ordering::Relaxed)
    }

    /// What a token of it is good for on a path (normalised) of a namespace.
    fn verify(
        &self,
        token: &WebToken<'_>,
        (namespace, path): (&str, &str),
        now_s: u64,
    ) -> Result<Grant, TokenError> {
        let keys = self.keys();
        let (claims, key) = token.claims(&keys).inspect_err(|fault| {
            if *fault == WebTokenFault::UnknownKey {
                self.is_behind.store(true, Ordering::Relaxed);
            }
        })?;
        let checked = claims.check(&self.audiences, now_s).ok_or(TokenError::Expired)?;
        Ok(Grant {
            expires_at_s: checked?,
            principal: Principal::WebToken {
                issuer: self.name.clone(),
                subject: subject(claims).into(),
            },
            path: path.to_owned(),
            reach: Reach::Below,
            rights: self.rights(claims, namespace, path),
            seal: seal(key),
        })
    }

    fn rights(&self, claims: &Claims, namespace: &str, path: &str) -> Rights {
        let roles = self.roles.iter().filter(|role| role.covers(namespace, path));
        let had = roles.filter(|role| claims.has(&self.claim, &role.value));
        had.fold(Rights::default(), |all, role| all.and(role.rights))
    }
}

/// As they are written down, whatever their keys are.
impl PartialEq for Issuer {
    fn eq(&self, other: &Issuer) -> bool {
        let written = |it: &Issuer| {
            (it.name.clone(), it.audiences.clone(), it.claim.clone(), it.roles.clone())
        };
        written(self) == written(other)
    }
}

/// Whom a token is for, as people know him: its application or user.
fn subject(claims: &Claims) -> &str {
    let names = ["sub", "oid", "appid", "azp"];
    names.into_iter().find_map(|name| claims.text(name)).unwrap_or("nobody")
}

fn seal(key: &VerifyingKey) -> Seal {
    Seal::of_digest(key.digest())
}

/// What this cluster says of a token that it gave itself: it was given for a key, whose rights it has.
pub struct KeyToken {
    /// Where the key is.
    pub namespace: String,
    pub key_name: String,
    /// Whether this is the key.
    pub is_it: Box<dyn Fn(&str) -> bool + Send>,
    /// Seconds since the Unix epoch.
    pub expires_at_s: u64,
}

/// Whoever gives tokens for this cluster's own keys.
pub trait TokenAuthority: Send + Sync {
    /// What a token for messages says; `None`: it gave no such token.
    ///
    /// # Errors
    /// It did, and the token is good no more.
    fn read(&self, token: &str, now_s: u64) -> Option<Result<KeyToken, TokenError>>;
}

/// Whose tokens are proofs. Clones are one.
#[derive(Clone, Default)]
pub struct Issuers(Arc<RwLock<Known>>);

#[derive(Clone, Default)]
struct Known {
    issuers: Arc<[Arc<Issuer>]>,
    authority: Option<Arc<dyn TokenAuthority>>,
}

impl Issuers {
    pub fn new(issuers: impl IntoIterator<Item = Arc<Issuer>>) -> Issuers {
        let issuers = issuers.into_iter().collect();
        Issuers(Arc::new(RwLock::new(Known { issuers, authority: None })))
    }

    fn known(&self) -> Known {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn all(&self) -> Arc<[Arc<Issuer>]> {
        self.known().issuers
    }

    /// Takes tokens that this one gives as well, from now on.
    pub fn trust(&self, authority: Arc<dyn TokenAuthority>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).authority = Some(authority);
    }

    /// Their keys as they are now: what is opened by one that is gone ends.
    pub fn keys(&self) -> Vec<Arc<KeySet>> {
        self.all().iter().map(|issuer| issuer.keys()).collect()
    }

    /// What the cluster's own authority says of a token, if it gave it.
    pub(crate) fn own(&self, token: &str, now_s: u64) -> Option<Result<KeyToken, TokenError>> {
        self.known().authority?.read(token, now_s)
    }

    /// What a token of one of the issuers is good for on a path (normalised) of a namespace.
    pub(crate) fn verify(
        &self,
        token: &str,
        place: (&str, &str),
        now_s: u64,
    ) -> Result<Grant, TokenError> {
        let token = WebToken::parse(token)?;
        let issuers = self.all();
        let issuer = issuers.iter().find(|issuer| *issuer.name == *token.issuer());
        issuer.ok_or(WebTokenFault::Issuer)?.verify(&token, place, now_s)
    }

    /// Whether an issuer still has the key that something was proven with.
    pub(crate) fn vouch_for(&self, issuer: &str, sealed: Seal) -> bool {
        let issuers = self.all();
        let known = issuers.iter().find(|known| *known.name == *issuer);
        known.is_some_and(|known| known.keys().keys().iter().any(|key| seal(key) == sealed))
    }
}

impl fmt::Debug for Issuers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Issuers").field(&self.all()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made once with a library of another language; the private keys were thrown away.
    const KEYS: &str = include_str!("issuer/keys.json");
    const TOKENS: &str = include_str!("issuer/tokens.txt");
    const NOW_S: u64 = 1_750_000_000;

    fn token(name: &str) -> &'static str {
        let mut lines = TOKENS.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(of, _)| *of == name).unwrap_or_else(|| panic!("no token '{name}'")).1
    }

    fn role(value: &str, right: Right, entities: &[&str], namespace: &str) -> Role {
        Role {
            value: value.to_owned(),
            rights: Rights::default().with(right),
            entities: entities.iter().map(|it| (*it).to_owned()).collect(),
            namespace: namespace.to_owned(),
        }
    }

    fn issuers(claim: &str, roles: Vec<Role>) -> Issuers {
        let audiences = vec!["https://servicebus.azure.net".to_owned()];
        let issuer = Issuer::new("https://issuer.example/", audiences, claim.to_owned(), roles);
        issuer.replace_keys(KeySet::parse(KEYS.as_bytes()).expect("keys"));
        Issuers::new([Arc::new(issuer)])
    }

    /// Each row: a token, and why it is none; nothing where it is good.
    #[test]
    fn cbs_6_a_token_is_good_as_its_issuer_signed_it_and_no_other() {
        use WebTokenFault::{
            Algorithm, Audience, Critical, Early, Endless, Malformed, Signature, UnknownKey,
        };
        let roles = vec![role("orders-writer", Right::Send, &[], "default")];
        let issuers = issuers("roles", roles);
        let web = |fault: WebTokenFault| Some(TokenError::Web(fault));
        for (name, expected) in [
            ("RS256", None),
            ("RS512", None),
            ("PS256", None),
            ("PS384", None),
            ("ES256", None),
            ("ES384", None),
            ("EdDSA", None),
            ("RS256-no-kid", None),
            ("slash", None),
            ("no-subject", None),
            ("float", None),
            ("RS256-unknown-kid", web(UnknownKey)),
            ("RS256-for-encryption", web(UnknownKey)),
            ("wrong-key", web(Signature)),
            ("tampered", web(Signature)),
            ("HS256-with-public-key", web(Algorithm)),
            ("none", web(Algorithm)),
            ("ES256-with-RSA-key-named", web(Algorithm)),
            ("crit", web(Critical)),
            ("issuer", web(WebTokenFault::Issuer)),
            ("audience", web(Audience)),
            ("no-audience", web(Audience)),
            ("endless", web(Endless)),
            ("early", web(Early)),
            ("expired", Some(TokenError::Expired)),
        ] {
            let verified = issuers.verify(token(name), ("default", "orders"), NOW_S);
            let rights = verified.as_ref().map(|grant| grant.rights);
            match &expected {
                None => assert_eq!(rights, Ok(Rights::default().with(Right::Send)), "{name}"),
                Some(_) => assert_eq!(verified.clone().err(), expected, "{name}"),
            }
        }
        let good = token("RS256");
        let (signed, signature) = good.rsplit_once('.').expect("parts");
        let (header, claims) = signed.split_once('.').expect("parts");
        for text in [
            String::new(),
            "eyJ..".to_owned(),
            format!("{signed}."),
            format!("{header}.{claims}.{signature}="),
            format!("{header}.{claims}.{signature}.x"),
            format!("{claims}.{header}.{signature}"),
            format!("eyJ{}.{claims}.{signature}", "A".repeat(40 * 1024)),
        ] {
            let refused = issuers.verify(&text, ("default", "orders"), NOW_S).expect_err("none");
            assert!(
                matches!(refused, TokenError::Web(Malformed | Signature | Algorithm)),
                "{refused} {text}"
            );
        }
    }

    /// Each row: where it is asked, and what the roles of the token come to there.
    #[test]
    fn cbs_6_roles_give_their_rights_where_they_are_for() {
        let none = Rights::default();
        let writer = role("orders-writer", Right::Send, &["orders", "bills"], "default");
        let reader = role("reader", Right::Listen, &[], "default");
        let elsewhere = role("reader", Right::Manage, &[], "shop");
        let other = role("nobody-has-it", Right::Manage, &[], "default");
        let table = issuers("roles", vec![writer, reader, elsewhere, other]);
        for (place, expected) in [
            (("default", "orders"), none.with(Right::Send).with(Right::Listen)),
            (("default", "orders/$management"), none.with(Right::Send).with(Right::Listen)),
            (("default", "orders2"), none.with(Right::Listen)),
            (("default", ""), none.with(Right::Listen)),
            (("shop", "orders"), none.with(Right::Manage)),
            (("other", "orders"), none),
        ] {
            let grant = table.verify(token("ES256"), place, NOW_S).expect("it is good");
            assert_eq!((grant.rights, &*grant.path), (expected, place.1), "{place:?}");
            assert_eq!(grant.principal.to_string(), "'worker' of 'https://issuer.example/'");
            assert_eq!(grant.expires_at_s, 2_000_000_000);
        }
        for (claim, value, has_it) in [
            ("roles", "reader", true),
            ("roles", "read", false),
            ("realm_access.roles", "deep", true),
            ("realm_access", "deep", false),
            ("realm_access.none", "deep", false),
            ("scp", "two", true),
            ("scp", "one two", true),
            ("sub", "worker", true),
            ("", "worker", false),
        ] {
            let roles = vec![role(value, Right::Send, &[], "default")];
            let grant = issuers(claim, roles).verify(token("EdDSA"), ("default", "q"), NOW_S);
            assert_eq!(grant.expect("it is good").rights.send, has_it, "{claim} {value}");
        }
    }

    #[test]
    fn cbs_6_what_is_opened_with_a_key_that_its_issuer_withdraws_ends() {
        let table = issuers("roles", Role::of_azure("default").collect());
        let grant = table.verify(token("PS256"), ("default", "q"), NOW_S).expect("it is good");
        assert_eq!(grant.rights, Rights::default());
        assert!(table.vouch_for("https://issuer.example/", grant.seal));
        assert!(!table.vouch_for("https://other.example/", grant.seal));
        let issuer = &table.all()[0];
        assert!(!issuer.take_behind(), "no key was missed");
        let set: serde_json::Value = serde_json::from_str(KEYS).expect("JSON");
        let rest = serde_json::json!({"keys": [set["keys"][1]]}).to_string();
        let rest = KeySet::parse(rest.as_bytes()).expect("a key");
        assert!(issuer.replace_keys(rest.clone()) && !issuer.replace_keys(rest));
        assert!(!table.vouch_for("https://issuer.example/", grant.seal));
        let refused = table.verify(token("PS256"), ("default", "q"), NOW_S);
        assert_eq!(refused, Err(WebTokenFault::UnknownKey.into()));
        assert!(issuer.take_behind() && !issuer.take_behind());
        for wrong in ["", "[]", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AA"}]}"#] {
            assert!(KeySet::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
