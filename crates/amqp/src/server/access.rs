//! What a connection has been granted by logins and tokens (§1.2, §2).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use auth::{Access, Denials, Grant, Right, resource_path};
use tokio::time::Instant;

use crate::cbs::Status;
use crate::condition;
use crate::engine::Credentials;

/// Most paths one connection holds tokens for.
const GRANTS_MAX: usize = 1000;

/// What one connection may do.
#[derive(Debug, Default)]
pub(super) struct Grants {
    granted: Vec<Grant>,
    /// A token replaced another, so something may be allowed no more.
    is_replaced: bool,
    /// Where refusals are told.
    pub ear: Option<Ear>,
}

/// Who hears of refusals, and whose they are.
#[derive(Debug)]
pub(super) struct Ear {
    pub peer: SocketAddr,
    pub denials: Arc<Denials>,
    /// The zero of the denials' time.
    pub started: Instant,
}

impl Grants {
    /// Whether a login is good. One with a key needs no tokens any more (§1.2).
    pub fn login(&mut self, access: &Access, credentials: &Credentials) -> bool {
        let Credentials::Plain { user, password } = credentials else { return true };
        match access.login(user, password) {
            Some(grant) => self.granted.push(grant),
            None => self.tell("a login with a wrong name or key"),
        }
        !self.granted.is_empty()
    }

    /// Takes a token. It replaces an earlier one for the same path.
    pub fn put_token(&mut self, access: &Access, token: &str, audience: &str) -> Status {
        let now_s = now_s();
        let grant = match access.verify(token, audience, now_s) {
            Ok(grant) => grant,
            Err(error) => {
                self.tell(&error.to_string());
                return Status::refused(error);
            }
        };
        let before = self.granted.len();
        self.granted.retain(|old| old.path != grant.path && old.expires_at_s > now_s);
        self.is_replaced |= self.granted.len() < before;
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

    /// Whether a token or a key came, where one is asked for.
    pub fn is_proved(&self, access: &Access) -> bool {
        access.is_anyone() || !self.granted.is_empty()
    }

    /// Whether `address`, in any form, may be used that way now.
    pub fn allow(&self, access: &Access, address: &str, right: Right) -> bool {
        if access.is_anyone() {
            return true;
        }
        let (path, now_s) = (resource_path(address), now_s());
        self.granted.iter().any(|grant| grant.allows(&path, right, now_s))
    }

    /// Whether a token was replaced since last asked.
    pub fn take_replaced(&mut self) -> bool {
        std::mem::take(&mut self.is_replaced)
    }

    /// Milliseconds until the next of them runs out.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        let now_s = now_s();
        let ends = self.granted.iter().map(|grant| grant.expires_at_s);
        let next = ends.filter(|end| (now_s..u64::MAX).contains(end)).min()?;
        Some((next - now_s).saturating_mul(1_000))
    }

    /// To the log, without names and keys: those are what the client likes to send.
    fn tell(&self, why: &str) {
        let Some(Ear { peer, denials, started }) = &self.ear else { return };
        let now_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Some(untold) = denials.count(now_ms) {
            tracing::warn!(%peer, untold, "AMQP client refused: {why}");
        }
    }
}

/// The name of a right, for people.
pub(super) fn name(right: Right) -> &'static str {
    right.name()
}

/// Tokens run out by the wall clock, whatever the cluster's time was moved to (ERR-25).
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use auth::{Key, Rights, sign};

    use super::*;

    fn key(name: &str, right: Right, scope: &str) -> Key {
        let rights = Rights::default().with(right);
        let (name, scope) = (name.to_owned(), scope.to_owned());
        let (primary, secondary) = ("secret".to_owned(), "spare".to_owned());
        Key { name, primary, secondary, rights, scope }
    }

    fn keys() -> Access {
        Access::keys([
            key("Sender", Right::Send, ""),
            key("Listener", Right::Listen, "Q"),
            key("Manager", Right::Manage, ""),
        ])
    }

    fn plain(user: &str, password: &str) -> Credentials {
        Credentials::Plain { user: user.into(), password: password.into() }
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

    /// §1.2, ERR-17: each row a key as login, and what is then allowed on `q`, and on another queue.
    #[test]
    fn section_1_2_a_key_as_login_opens_all_it_covers() {
        for (user, password, on_q, elsewhere) in [
            ("Sender", "secret", [false, true, false], [false, true, false]),
            ("Sender", "spare", [false, true, false], [false, true, false]),
            ("Listener", "secret", [true, false, false], [false, false, false]),
            ("Manager", "secret", [true, true, true], [true, true, true]),
        ] {
            let (access, mut grants) = (keys(), Grants::default());
            assert!(grants.login(&access, &plain(user, password)));
            for (address, allowed) in [("q/$management", on_q), ("any/q", elsewhere)] {
                let rights = [Right::Listen, Right::Send, Right::Manage];
                let found = rights.map(|right| grants.allow(&access, address, right));
                assert_eq!(found, allowed, "{user} {address}");
            }
        }
        for (user, password) in [("Sender", "guess"), ("Sender", ""), ("Nobody", "secret")] {
            assert!(!Grants::default().login(&keys(), &plain(user, password)), "{user} {password}");
        }
        assert!(Grants::default().login(&Access::Anyone, &plain("who", "ever")));
    }

    /// ERR-25: a token counts until it runs out, and its renewal is for longer.
    #[test]
    fn err_25_a_renewed_token_replaces_the_old_one() {
        let (access, mut grants) = (keys(), Grants::default());
        for (seconds, replaced) in [(60, false), (3_600, true)] {
            let token = sign("sb%3A%2F%2Fh%2Fq", "Sender", "secret", now_s() + seconds);
            assert_eq!(grants.put_token(&access, &token, "sb://h/q").code, 202);
            assert_eq!(grants.take_replaced(), replaced);
            let ms = grants.next_expiry_ms().unwrap();
            assert!((seconds - 2) * 1_000 <= ms && ms <= seconds * 1_000, "{ms}");
        }
        assert_eq!(grants.granted.len(), 1);
        let mut lasting = Grants::default();
        assert!(lasting.login(&access, &plain("Sender", "secret")));
        assert_eq!(lasting.next_expiry_ms(), None, "a login lasts as long as its connection");
    }
}
