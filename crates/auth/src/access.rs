//! What clients are asked for, and what a proof of theirs is good for.

use std::sync::Arc;

use crate::key::{Key, is_same};
use crate::path::{Reach, resource_path};
use crate::right::{Right, Rights};
use crate::token::{Token, TokenError};

/// How clients prove who they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// No proof is asked for: any token and any key will do, as with the emulator.
    #[default]
    Anyone,
    /// A token signed with one of these keys, or a key itself.
    Keys(Arc<[Key]>),
}

/// What a proof is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Normalised, see [`resource_path`]; it is covered, and what is below it as far as that reaches.
    pub path: String,
    pub reach: Reach,
    pub rights: Rights,
    /// Seconds since the Unix epoch; from then on the grant is void (ERR-25).
    pub expires_at_s: u64,
}

impl Grant {
    /// Everything, for ever.
    pub fn all() -> Grant {
        Grant {
            path: String::new(),
            reach: Reach::Below,
            rights: Rights::ALL,
            expires_at_s: u64::MAX,
        }
    }

    /// What one of these keys is good for to whoever knows it; `None`: it is none of them.
    pub fn of_key(keys: &[Key], name: &str, key: &str) -> Option<Grant> {
        let known = keys.iter().find(|known| known.name == name && known.is(key))?;
        let Key { scope, reach, rights, .. } = known;
        let (path, reach, rights) = (resource_path(scope), *reach, *rights);
        Some(Grant { path, reach, rights, expires_at_s: u64::MAX })
    }

    /// Whether it covers using `path` (normalised) that way at that time.
    pub fn allows(&self, path: &str, right: Right, now_s: u64) -> bool {
        now_s < self.expires_at_s && self.rights.allow(right) && self.reach.covers(&self.path, path)
    }
}

impl Access {
    pub fn keys(keys: impl IntoIterator<Item = Key>) -> Access {
        Access::Keys(keys.into_iter().collect())
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
        Grant::of_key(keys, name, key)
    }

    /// Whether there is a key of that name.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Access::Anyone => false,
            Access::Keys(keys) => keys.iter().any(|key| key.name == name),
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
        Token::parse(token)?.verify(keys.iter().chain(own), audience, now_s)
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
        Token::parse(token)?.at(host).verify(keys.iter().chain(own), audience, now_s)
    }

    /// Whether `given` is itself a key that may do everything: whoever knows it needs no token.
    pub fn is_master(&self, given: &str) -> bool {
        let Access::Keys(keys) = self else { return true };
        let is_master = |key: &&Key| key.scope.is_empty() && key.rights.manage;
        let pairs = keys.iter().filter(is_master).flat_map(Key::pair);
        pairs.fold(false, |found, key| found | is_same(key, given))
    }
}
