//! Who may do what (§1.2, §2): keys, and what a connection has been granted by tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::cbs::Status;
use crate::condition;
use crate::engine::Credentials;
use crate::sas::{Grant, Right, Rights, Rule, Token, resource_path};

/// Most paths one connection holds tokens for.
const GRANTS_MAX: usize = 1000;

/// How clients prove who they are.
#[derive(Clone, Debug, Default)]
pub enum Access {
    /// No proof is asked for: any token and any login will do, as with the emulator.
    #[default]
    Anyone,
    /// A token signed with one of these keys, or a key itself as login.
    Keys(Vec<Key>),
}

/// A named key of the whole namespace.
#[derive(Clone, Debug)]
pub struct Key {
    pub name: String,
    pub key: String,
    pub rights: Rights,
}

impl Key {
    fn rule(&self) -> Rule<'_> {
        let Key { name, key, rights } = self;
        Rule { name, primary_key: key, secondary_key: "", rights: *rights, scope: "" }
    }
}

/// What one connection may do.
#[derive(Debug, Default)]
pub(super) struct Grants {
    granted: Vec<Grant>,
}

impl Grants {
    /// Whether a login is good. One with a key needs no tokens any more (§1.2).
    pub fn login(&mut self, access: &Access, credentials: &Credentials) -> bool {
        let (Access::Keys(keys), Credentials::Plain { user, password }) = (access, credentials)
        else {
            return true;
        };
        let named = |key: &&Key| key.name == **user && is_same(&key.key, password);
        let Some(key) = keys.iter().find(named) else { return false };
        let all = Grant { path: String::new(), rights: key.rights, expires_at_s: u64::MAX };
        self.granted.push(all);
        true
    }

    /// Takes a token. It replaces an earlier one for the same path.
    pub fn put_token(&mut self, access: &Access, token: &str, audience: &str) -> Status {
        let Access::Keys(keys) = access else { return Status::accepted() };
        let now_s = now_s();
        let rules = keys.iter().map(Key::rule);
        let verified = Token::parse(token).and_then(|token| token.verify(rules, audience, now_s));
        let grant = match verified {
            Ok(grant) => grant,
            Err(error) => return Status::refused(error),
        };
        self.granted.retain(|old| old.path != grant.path && old.expires_at_s > now_s);
        if self.granted.len() >= GRANTS_MAX {
            return Status {
                code: 403,
                description: "this connection holds as many tokens as it may".into(),
                condition: Some(condition::RESOURCE_LIMIT_EXCEEDED),
            };
        }
        self.granted.push(grant);
        Status::accepted()
    }

    /// Whether `address`, in any form, may be used that way now.
    pub fn allow(&self, access: &Access, address: &str, right: Right) -> bool {
        let Access::Keys(_) = access else { return true };
        let (path, now_s) = (resource_path(address), now_s());
        self.granted.iter().any(|grant| grant.allows(&path, right, now_s))
    }
}

/// The name of a right, for people.
pub(super) fn name(right: Right) -> &'static str {
    match right {
        Right::Listen => "Listen",
        Right::Send => "Send",
        Right::Manage => "Manage",
    }
}

/// In a time that depends on the lengths only.
fn is_same(a: &str, b: &str) -> bool {
    let differ = a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

/// Tokens run out by the wall clock, whatever the cluster's time was moved to (ERR-25).
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sas::sign;

    fn keys() -> Access {
        let rights = Rights { send: true, ..Rights::default() };
        Access::Keys(vec![Key { name: "Sender".into(), key: "secret".into(), rights }])
    }

    /// ERR-17: a token opens what it is for, and no more.
    #[test]
    fn err_17_a_token_grants_its_path_and_rights() {
        let (access, mut grants) = (keys(), Grants::default());
        assert!(!grants.allow(&access, "q", Right::Send));
        let token = sign("sb%3A%2F%2Flocalhost%2Fq", "Sender", "secret", now_s() + 60);
        assert_eq!(grants.put_token(&access, &token, "sb://localhost/q").code, 202);
        assert!(grants.allow(&access, "amqps://localhost:5672/Q/$management", Right::Send));
        assert!(!grants.allow(&access, "q", Right::Listen));
        assert!(!grants.allow(&access, "other", Right::Send));
        let forged = sign("sb%3A%2F%2Flocalhost%2Fq", "Sender", "guess", now_s() + 60);
        assert_eq!(grants.put_token(&access, &forged, "sb://localhost/q").code, 401);
    }

    #[test]
    fn section_1_2_a_key_as_login_opens_all_it_covers() {
        let plain = |password: &str| Credentials::Plain {
            user: "Sender".into(),
            password: password.into(),
        };
        let mut grants = Grants::default();
        assert!(!grants.login(&keys(), &plain("guess")));
        assert!(grants.login(&keys(), &plain("secret")));
        assert!(grants.allow(&keys(), "any/q", Right::Send));
        assert!(!grants.allow(&keys(), "any/q", Right::Manage));
        assert!(grants.login(&Access::Anyone, &plain("whatever")));
    }
}
