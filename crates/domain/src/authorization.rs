//! Authorization rules in the description of a queue or a topic (ENT-11): named pairs of keys,
//! and what whoever knows one may do there. They are kept and told here; the edges ask for them.

use std::fmt;

use crate::Timestamp;

/// A named pair of keys and its rights. Nothing prints the keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthorizationRule {
    /// Unique in its entity; 1 to 256 letters, digits and `-_.!*()`, since it stands in URLs.
    pub name: String,
    pub rights: AccessRights,
    /// 1 to 256 visible ASCII characters each. Both count, so that one can be replaced while the
    /// other is in use. What proposes an entry has drawn those that the client left out.
    pub primary_key: String,
    pub secondary_key: String,
    /// By the clock of the node that proposed it.
    pub created_at: Timestamp,
    /// When its rights or keys last changed.
    pub modified_at: Timestamp,
}

/// What a rule allows; at least one, and Manage only with the other two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessRights {
    pub listen: bool,
    pub send: bool,
    pub manage: bool,
}

impl AuthorizationRule {
    /// Whether it lets the same clients do the same as another of its name.
    pub fn is_as_good_as(&self, other: &AuthorizationRule) -> bool {
        self.rights == other.rights
            && self.primary_key == other.primary_key
            && self.secondary_key == other.secondary_key
    }
}

impl AccessRights {
    pub const ALL: AccessRights = AccessRights { listen: true, send: true, manage: true };

    pub fn is_none(self) -> bool {
        self == AccessRights::default()
    }
}

impl fmt::Debug for AuthorizationRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AuthorizationRule { name, rights, created_at, modified_at, .. } = self;
        let mut shown = out.debug_struct("AuthorizationRule");
        shown.field("name", name).field("rights", rights);
        shown.field("created_at", created_at).field("modified_at", modified_at);
        shown.finish_non_exhaustive()
    }
}
