//! What a connection has been granted by logins, certificates and tokens (SASL-4, SASL-5, SASL-9, CBS-9 to
//! CBS-11).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp_protocol::codec::{Error, Symbol};
use amqp_protocol::engine::Credentials;
use audit::{Caller, Protocol, Refused, Trail};
use auth::{
    Access, Certified, Denied, Grant, Key, Principal, Right, TokenError, claimed_name, entity_path,
    resource_path,
};
use domain::{Namespace, QualifiedName};
use service::{EntityKeys, KeyWatch};

use super::failure;
use crate::cbs::Status;
use crate::condition;

/// Most paths one connection holds tokens for.
const GRANTS_MAX: usize = 1000;

/// What one connection may do.
#[derive(Default)]
pub(super) struct Grants {
    granted: Vec<Given>,
    /// Of a login with no key of the node.
    claim: Option<Claim>,
    /// A token replaced another, so something may be allowed no more.
    is_replaced: bool,
    /// What the client has shown of itself.
    pub certified: Option<Arc<Certified>>,
    /// The keys of entities whose own rules it was let in by.
    kept: Vec<Arc<EntityKeys>>,
    /// Where those are looked up.
    pub keys: Option<KeyWatch>,
    /// Where refusals are told.
    pub trail: Trail,
    /// Whose connection it is.
    pub peer: Option<SocketAddr>,
    /// What it is all about.
    pub namespace: Namespace,
}

/// A grant, and since when there is one.
struct Given {
    grant: Grant,
    since: std::time::Instant,
}

/// A name and a key that may be of an entity's own rule: which entity's, its links tell.
struct Claim {
    name: String,
    key: String,
}

impl Given {
    fn now(grant: Grant) -> Given {
        Given { grant, since: std::time::Instant::now() }
    }
}

impl Grants {
    /// Whether a login is good. One with a key needs no tokens any more (SASL-4). One by a name that no
    /// key of the node has proves nothing yet, and is let in to say which entity it is for.
    ///
    /// # Errors
    /// It is not, and is answered so after this time.
    pub fn login(&mut self, access: &Access, credentials: &Credentials) -> Result<(), Duration> {
        let (user, password) = match credentials {
            Credentials::Anonymous => return Ok(()),
            Credentials::External { identity } => return self.log_in_certified(access, identity),
            Credentials::Plain { user, password } => (user, password),
        };
        if !access.is_anyone()
            && let Err(held) = self.trail.admit(self.peer, Some(user))
        {
            return Err(self.tell(&held, Some(user), "", "login"));
        }
        match access.login(user, password) {
            Some(grant) => self.granted.push(Given::now(grant)),
            None if access.has(user) || password.is_empty() => {
                return Err(self.tell(
                    &wrong_login(user, access.has(user)),
                    Some(user),
                    "",
                    "login",
                ));
            }
            None => {
                let (name, key) = (user.to_string(), password.to_string());
                self.claim = Some(Claim { name, key });
            }
        }
        Ok(())
    }

    /// SASL-9: by what was shown on the connection. To act as anybody else but the key that it stands for
    /// is no more than to log in with a wrong name.
    fn log_in_certified(&mut self, access: &Access, identity: &str) -> Result<(), Duration> {
        if access.is_anyone() {
            self.granted.push(Given::now(Grant::all()));
            return Ok(());
        }
        let Some(shown) = &self.certified else {
            return Err(self.tell(&Denied::Nothing, None, "", "EXTERNAL"));
        };
        let grants = match access.certified(shown, now_s()) {
            Ok(grants) => grants,
            Err(error) => return Err(self.tell(&error.into(), None, "", "EXTERNAL")),
        };
        let is_key = |grant: &Grant| grant.principal.key_name() == Some(identity);
        if !identity.is_empty() && !grants.iter().any(is_key) {
            let denied = wrong_login(identity, access.has(identity));
            return Err(self.tell(&denied, Some(identity), "", "EXTERNAL"));
        }
        self.granted.extend(grants.into_iter().map(Given::now));
        Ok(())
    }

    /// Says of a client that goes and has proved nothing why the certificate that it has shown was no proof:
    /// one that finds no EXTERNAL offered may go without a word.
    pub fn tell_unproved(&self, access: &Access) {
        if let Some(shown) = &self.certified
            && !self.is_proved(access)
            && let Err(error) = access.certified(shown, now_s())
        {
            // It has gone.
            let _ = self.tell(&error.into(), None, "", "EXTERNAL");
        }
    }

    /// Whether links have to wait for what the login is good for.
    pub fn has_claim(&self) -> bool {
        self.claim.is_some()
    }

    /// Takes what the login is good for by the keys of a resource's entity, and no longer what it was
    /// good for there before.
    pub fn redeem(&mut self, resource: &str, own: &[Key]) {
        let Some(Claim { name, key }) = &self.claim else { return };
        let path = resource_path(resource);
        let entity = entity_path(&path);
        if entity.is_empty() {
            return;
        }
        match Grant::of_key(own, name, key) {
            Some(grant) => drop(self.take(grant)),
            None => {
                let before = self.granted.len();
                let is_void = |old: &Grant| old.path == entity && old.expires_at_s == u64::MAX;
                self.granted.retain(|old| !is_void(&old.grant));
                self.is_replaced |= self.granted.len() < before;
                let is_known = own.iter().any(|key| key.name == *name);
                // Its link is refused at once; too many, and the next login is held.
                let _ = self.tell(&wrong_login(name, is_known), Some(name), &path, "login");
            }
        }
    }

    /// Takes a token, by the node's keys or the entity's own. It replaces an earlier one for the same
    /// path.
    pub fn put_token(
        &mut self,
        access: &Access,
        token: &str,
        audience: &str,
        own: &[Key],
    ) -> Result<Status, TokenError> {
        access.verify(token, audience, own, now_s()).map(|grant| self.take(grant))
    }

    /// A token that is not even looked at: its answer.
    pub fn hold(&self, access: &Access, token: &str, audience: &str) -> Option<Status> {
        let name = claimed_name(token).filter(|_| !access.is_anyone());
        let held = self.trail.admit(self.peer, name.as_deref()).err()?;
        let _ = self.tell(&held, name.as_deref(), &resource_path(audience), "put-token");
        Some(Status::later(&held.to_string()))
    }

    /// A token that no key makes good: its answer, and how long that is to wait.
    pub fn refuse(&self, error: TokenError, token: &str, audience: &str) -> (Status, Duration) {
        let (name, path) = (claimed_name(token), resource_path(audience));
        let wait = self.tell(&error.clone().into(), name.as_deref(), &path, "put-token");
        (Status::refused(error), wait)
    }

    /// ENT-12: takes what the grants are good for by the keys as they are now.
    ///
    /// A login or token that the broker made good while they were changed is good until it is known
    /// whether it came before or after.
    pub fn renew(&mut self, access: &Access) {
        let Some(keys) = &self.keys else { return };
        let mut is_replaced = false;
        self.granted.retain_mut(|given| {
            let renewed = keys.renewed(access, &given.grant, given.since, &self.kept);
            is_replaced |= renewed.as_ref() != Some(&given.grant);
            renewed.map(|grant| given.grant = grant).is_some()
        });
        if is_replaced {
            self.is_replaced = true;
            self.keep();
        }
    }

    /// Has the keys looked up that a grant is by, as long as there are grants by them.
    fn keep(&mut self) {
        let of_rule = |given: &Given| match &given.grant.principal {
            Principal::Rule { entity, .. } => Some(entity.clone()),
            Principal::Anyone
            | Principal::Key { .. }
            | Principal::NamespaceRule { .. }
            | Principal::Certificate { .. }
            | Principal::WebToken { .. }
            | Principal::JoinToken { .. } => None,
        };
        let entities: BTreeSet<Arc<str>> = self.granted.iter().filter_map(of_rule).collect();
        let Some(keys) = self.keys.as_ref().filter(|_| entities.len() + self.kept.len() > 0) else {
            return;
        };
        let known = entities.iter().map(|entity| QualifiedName::known(entity));
        self.kept = known.map(|entity| keys.keep(&entity)).collect();
    }

    fn take(&mut self, grant: Grant) -> Status {
        let now_s = now_s();
        let before = self.granted.len();
        self.granted
            .retain(|Given { grant: old, .. }| old.path != grant.path && old.expires_at_s > now_s);
        self.is_replaced |= self.granted.len() < before;
        if self.granted.len() >= GRANTS_MAX {
            return Status {
                code: 403,
                description: "this connection holds as many tokens as it may".into(),
                condition: Some(Symbol::from_static(condition::RESOURCE_LIMIT_EXCEEDED)),
            };
        }
        self.granted.push(Given::now(grant));
        self.keep();
        Status::accepted()
    }

    /// Whether anything was proved or claimed before it was said what it is for.
    pub fn has_logged_in(&self) -> bool {
        self.claim.is_some() || !self.granted.is_empty()
    }

    /// Nothing that came so far is a proof any more.
    pub fn forget(&mut self) {
        (self.claim, self.is_replaced) = (None, true);
        self.granted.clear();
        self.keep();
    }

    /// Whether a token or a key came, where one is asked for.
    pub fn is_proved(&self, access: &Access) -> bool {
        access.is_anyone() || !self.granted.is_empty()
    }

    /// Who proved something first, of what still counts.
    pub fn principal(&self, access: &Access) -> Option<&Principal> {
        match access.is_anyone() {
            true => Some(&Principal::Anyone),
            false => self.granted.first().map(|given| &given.grant.principal),
        }
    }

    /// Whether `address`, in any form, may be used that way now.
    pub fn allow(&self, access: &Access, address: &str, right: Right) -> bool {
        self.holder(access, address, right).is_some()
    }

    /// Who may use `address`, in any form, that way now.
    pub fn holder(&self, access: &Access, address: &str, right: Right) -> Option<&Principal> {
        if access.is_anyone() {
            return Some(&Principal::Anyone);
        }
        let (path, now_s) = (resource_path(address), now_s());
        let given = self.granted.iter().find(|given| given.grant.allows(&path, right, now_s))?;
        Some(&given.grant.principal)
    }

    /// ERR-17: who asks to use `path` that way now; or what to say of `address`, as the client wrote it.
    pub fn permit(
        &self,
        access: &Access,
        path: &str,
        right: Right,
        address: &str,
    ) -> Result<&Principal, Error> {
        self.holder(access, path, right).ok_or_else(|| self.missing(right, path, address))
    }

    /// The same of somebody who may not.
    pub fn missing(&self, right: Right, path: &str, address: &str) -> Error {
        let path = resource_path(path);
        // Of several, the one that is for the place.
        let mut granted = self.granted.iter().map(|given| &given.grant);
        let first = granted.clone().next();
        let grant = granted.find(|grant| auth::covers(&grant.path, &path)).or(first);
        let (denied, why) = match grant {
            None => (Denied::Nothing, "no proof was sent".to_owned()),
            Some(Grant { principal, .. }) => {
                let (principal, path) = (principal.clone(), path.clone());
                let why = format!("{principal} has it not");
                (Denied::Right { principal, right, path }, why)
            }
        };
        // It is no guess.
        let _ = self.tell(&denied, None, &path, right.name());
        failure::unauthorized(right.name(), &why, address)
    }

    /// Who asks, for the audit.
    pub fn caller(&self, principal: &Principal) -> Caller {
        let (protocol, principal) = (Protocol::Amqp, Some(principal.clone()));
        Caller { protocol, address: self.peer, principal, namespace: self.namespace.clone() }
    }

    /// Whether a token was replaced since last asked.
    pub fn take_replaced(&mut self) -> bool {
        std::mem::take(&mut self.is_replaced)
    }

    /// Milliseconds until the next of them runs out.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        let now_s = now_s();
        let ends = self.granted.iter().map(|given| given.grant.expires_at_s);
        // One that ends now has ended: see `allow`.
        let next = ends.filter(|end| *end > now_s && *end < u64::MAX).min()?;
        Some((next - now_s).saturating_mul(1_000))
    }

    fn tell(&self, denied: &Denied, claimed: Option<&str>, path: &str, method: &str) -> Duration {
        let (protocol, peer, namespace) = (Protocol::Amqp, self.peer, &self.namespace);
        self.trail.refuse(&Refused { protocol, peer, denied, claimed, path, method, namespace })
    }
}

/// By a key of the node or of an entity.
fn wrong_login(name: &str, is_known: bool) -> Denied {
    match is_known {
        true => TokenError::Login { key: name.to_owned() }.into(),
        false => TokenError::UnknownKey.into(),
    }
}

/// Whether a certificate is a way to log in.
pub(super) fn stands_for_a_key(access: &Access, shown: &Certified) -> bool {
    access.certified(shown, now_s()).is_ok()
}

/// Tokens run out by the wall clock, whatever the cluster's time was moved to (ERR-25).
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use auth::{Reach, Rights, sign};

    use super::*;

    fn key(name: &str, right: Right, scope: &str) -> Key {
        let rights = Rights::default().with(right);
        let (name, scope) = (name.to_owned(), scope.to_owned());
        let (primary, secondary) = ("secret".to_owned(), "spare".to_owned());
        Key { name, primary, secondary, rights, scope, reach: Reach::Below, owner: None }
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

    fn code(status: Result<Status, TokenError>) -> i32 {
        status.unwrap_or_else(Status::refused).code
    }

    fn own(name: &str, right: Right, entity: &str) -> Key {
        Key { reach: Reach::Entity, ..key(name, right, entity) }
    }

    /// A token signed by an entity's own rule is good there only, and for its rights.
    #[test]
    fn ent_12_cbs_12_an_entitys_own_rule_signs_tokens_for_it() {
        let (access, mut grants) = (keys(), Grants::default());
        let rules = [own("Rule", Right::Listen, "q")];
        let token = sign("sb%3A%2F%2Fh%2Fq", "Rule", "spare", now_s() + 60);
        assert_eq!(code(grants.put_token(&access, &token, "sb://h/q", &[])), 401);
        assert_eq!(code(grants.put_token(&access, &token, "sb://h/q", &rules)), 202);
        for (address, right, allowed) in [
            ("q", Right::Listen, true),
            ("q/$deadletterqueue", Right::Listen, true),
            ("q/Subscriptions/s/$management", Right::Listen, true),
            ("q", Right::Send, false),
            ("q/below", Right::Listen, false),
        ] {
            assert_eq!(grants.allow(&access, address, right), allowed, "{address} {right:?}");
        }
    }

    /// SASL-5: a login by a name of no key of the node proves nothing until an entity's own
    /// rule makes it good, and as long as that has this key.
    #[test]
    fn ent_12_sasl_5_a_login_is_redeemed_by_an_entitys_own_rule() {
        let (access, mut grants) = (keys(), Grants::default());
        assert!(grants.login(&access, &plain("Rule", "secret")).is_ok());
        assert!(grants.has_claim() && !grants.is_proved(&access));
        assert!(!grants.allow(&access, "q", Right::Listen));
        let rules = [own("Rule", Right::Listen, "q")];
        for (rules, proved) in [(&[][..], false), (&rules, true), (&rules, true), (&[], false)] {
            grants.redeem("amqps://h/Q/$deadletterqueue", rules);
            assert_eq!(grants.is_proved(&access), proved);
            assert_eq!(grants.allow(&access, "q", Right::Listen), proved);
            assert!(!grants.allow(&access, "q", Right::Send));
            assert!(!grants.allow(&access, "q/below", Right::Listen));
        }
        assert!(grants.take_replaced(), "links of a rule that is gone end");
        grants.redeem("$cbs", &rules);
        assert!(!grants.is_proved(&access));
        let mut by_token = Grants::default();
        assert!(by_token.login(&access, &Credentials::Anonymous).is_ok() && !by_token.has_claim());
    }

    /// Each row: what was shown, whom the login is to act as, and whether it is taken.
    #[test]
    fn sasl_9_a_certificate_logs_in_as_the_key_it_stands_for() {
        let shown = |name: &str| Certified {
            subject: "CN=a".into(),
            common_name: None,
            uris: vec![format!("mayfly://cluster/client/{name}")],
            expires_at_s: now_s() + 60,
        };
        for (name, identity, taken) in [
            (Some("Sender"), "", true),
            (Some("Sender"), "Sender", true),
            (Some("Sender"), "Manager", false),
            (Some("Nobody"), "", false),
            (None, "", false),
        ] {
            let (access, mut grants) = (keys(), Grants::default());
            grants.certified = name.map(|name| Arc::new(shown(name)));
            let external = Credentials::External { identity: identity.into() };
            assert_eq!(grants.login(&access, &external).is_ok(), taken, "{name:?} {identity}");
            assert_eq!(grants.is_proved(&access), taken);
            assert_eq!(grants.allow(&access, "q", Right::Send), taken);
            assert!(!grants.allow(&access, "q", Right::Listen));
            assert_eq!(grants.next_expiry_ms().is_some(), taken, "it ends with the certificate");
            let by_name = grants.certified.as_ref().is_some_and(|s| stands_for_a_key(&access, s));
            assert_eq!(by_name, name == Some("Sender"));
            assert!(Grants::default().login(&Access::Anyone, &external).is_ok(), "SASL-7");
        }
    }

    /// ERR-17: a token opens what it is for, and no more.
    #[test]
    fn err_17_a_token_grants_its_path_and_rights() {
        let (access, mut grants) = (keys(), Grants::default());
        assert!(!grants.allow(&access, "q", Right::Send));
        let token = sign("sb%3A%2F%2Flocalhost%2Fq", "Sender", "secret", now_s() + 60);
        assert_eq!(code(grants.put_token(&access, &token, "sb://localhost/q", &[])), 202);
        assert!(grants.allow(&access, "amqps://localhost:5672/Q/$management", Right::Send));
        assert!(!grants.allow(&access, "q", Right::Listen));
        assert!(!grants.allow(&access, "other", Right::Send));
        let forged = sign("sb%3A%2F%2Flocalhost%2Fq", "Sender", "guess", now_s() + 60);
        assert_eq!(code(grants.put_token(&access, &forged, "sb://localhost/q", &[])), 401);
    }

    /// SASL-4, ERR-17: each row a key as login, and what is then allowed on `q`, and on another queue.
    #[test]
    fn sasl_4_sasl_7_a_key_as_login_opens_all_it_covers() {
        for (user, password, on_q, elsewhere) in [
            ("Sender", "secret", [false, true, false], [false, true, false]),
            ("Sender", "spare", [false, true, false], [false, true, false]),
            ("Listener", "secret", [true, false, false], [false, false, false]),
            ("Manager", "secret", [true, true, true], [true, true, true]),
        ] {
            let (access, mut grants) = (keys(), Grants::default());
            assert!(grants.login(&access, &plain(user, password)).is_ok());
            for (address, allowed) in [("q/$management", on_q), ("any/q", elsewhere)] {
                let rights = [Right::Listen, Right::Send, Right::Manage];
                let found = rights.map(|right| grants.allow(&access, address, right));
                assert_eq!(found, allowed, "{user} {address}");
            }
        }
        for (user, password) in [("Sender", "guess"), ("Sender", ""), ("Nobody", "")] {
            let refused = Grants::default().login(&keys(), &plain(user, password));
            assert_eq!(refused, Err(Duration::ZERO), "{user} {password}");
        }
        assert!(Grants::default().login(&Access::Anyone, &plain("who", "ever")).is_ok());
    }

    /// ERR-25: a token counts until it runs out, and its renewal is for longer.
    #[test]
    fn err_25_cbs_10_a_renewed_token_replaces_the_old_one() {
        let (access, mut grants) = (keys(), Grants::default());
        for (seconds, replaced) in [(60, false), (3_600, true)] {
            let token = sign("sb%3A%2F%2Fh%2Fq", "Sender", "secret", now_s() + seconds);
            assert_eq!(code(grants.put_token(&access, &token, "sb://h/q", &[])), 202);
            assert_eq!(grants.take_replaced(), replaced);
            let ms = grants.next_expiry_ms().unwrap();
            assert!((seconds - 2) * 1_000 <= ms && ms <= seconds * 1_000, "{ms}");
        }
        assert_eq!(grants.granted.len(), 1);
        let mut lasting = Grants::default();
        assert!(lasting.login(&access, &plain("Sender", "secret")).is_ok());
        assert_eq!(lasting.next_expiry_ms(), None, "a login lasts as long as its connection");
    }

    /// Renewing one is always possible.
    #[test]
    fn cbs_11_a_connection_holds_so_many_tokens() {
        let mut grants = Grants::default();
        let grant = |path: usize| Grant { path: path.to_string(), ..Grant::all() };
        for path in 0..GRANTS_MAX {
            assert_eq!(grants.take(grant(path)).code, 202);
        }
        assert_eq!(grants.take(grant(GRANTS_MAX)).code, 403);
        assert_eq!(grants.take(grant(0)).code, 202);
    }

    #[test]
    fn cbs_13_any_text_is_a_token_where_none_is_asked_for() {
        let mut grants = Grants::default();
        let put = grants.put_token(&Access::Anyone, "not a token", "sb://h/q", &[]);
        assert_eq!(code(put), 202);
    }
}
