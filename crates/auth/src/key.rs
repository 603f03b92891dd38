//! Named keys.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::path::Reach;
use crate::principal::Principal;
use crate::right::Rights;

/// A named pair of keys, either of which signs and logs in, so that one can be replaced while the
/// other is in use (QUOTA-23). Nothing prints the keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    pub name: String,
    /// The text as it stands, not what it would be as base64 (CBS-7).
    pub primary: String,
    /// Empty: there is none.
    pub secondary: String,
    pub rights: Rights,
    /// Path of the entity it is for; empty for the whole namespace.
    pub scope: String,
    /// What lies below the scope is covered by it so far.
    pub reach: Reach,
    /// Whose it is: of a namespace's rule, that namespace; of the rule of an entity outside the default namespace, that
    /// entity's name in all the cluster. `None`: the scope says it.
    pub owner: Option<Arc<str>>,
}

impl Key {
    /// The name of the rule that every namespace is created with.
    pub const ROOT: &str = "RootManageSharedAccessKey";

    /// A key that may do everything.
    pub fn root(key: impl Into<String>) -> Key {
        Key {
            name: Key::ROOT.to_owned(),
            primary: key.into(),
            secondary: String::new(),
            rights: Rights::ALL,
            scope: String::new(),
            reach: Reach::Below,
            owner: None,
        }
    }

    /// Those of the pair that there are.
    pub(crate) fn pair(&self) -> impl Iterator<Item = &str> {
        [&self.primary, &self.secondary]
            .into_iter()
            .map(String::as_str)
            .filter(|key| !key.is_empty())
    }

    pub(crate) fn is(&self, given: &str) -> bool {
        self.pair().fold(false, |found, key| found | is_same(key, given))
    }

    /// Who has it. An entity's own rule is the only kind that reaches no further than that.
    pub(crate) fn principal(&self) -> Principal {
        let name = Arc::from(self.name.as_str());
        match (self.reach, self.owner.clone()) {
            (Reach::Below, None) => Principal::Key { name },
            (Reach::Below, Some(namespace)) => Principal::NamespaceRule { namespace, name },
            (Reach::Entity, Some(entity)) => Principal::Rule { entity, name },
            (Reach::Entity, None) => {
                Principal::Rule { entity: Arc::from(self.scope.as_str()), name }
            }
        }
    }
}

/// Tells the key of a pair that something was proven with, and cannot be turned back into it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Seal(Option<[u8; 32]>);

impl Seal {
    pub(crate) fn of(key: &str) -> Seal {
        Seal(Some(Sha256::digest(key.as_bytes()).into()))
    }

    pub(crate) fn of_digest(digest: [u8; 32]) -> Seal {
        Seal(Some(digest))
    }

    /// Whether it is one of this pair's, or of no key at all.
    pub(crate) fn is_of(self, key: &Key) -> bool {
        self.0.is_none() || key.pair().any(|key| Seal::of(key) == self)
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Seal").finish_non_exhaustive()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { name, primary: _, secondary: _, rights, scope, reach: _, owner: _ } = self;
        let mut shown = out.debug_struct("Key");
        shown.field("name", name).field("rights", rights).field("scope", scope);
        shown.finish_non_exhaustive()
    }
}

/// Compares secrets in a time that depends on their lengths only.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    let pairs = a.bytes().zip(b.bytes());
    let differ = pairs.fold(0, |differ, (a, b)| black_box(differ | (a ^ b)));
    a.len() == b.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_key_of_a_pair_will_do_and_none_is_shown() {
        let key = Key { secondary: "second".into(), ..Key::root("first") };
        for (given, good) in [("first", true), ("second", true), ("firs", false), ("", false)] {
            assert_eq!(key.is(given), good, "{given}");
        }
        assert!(!Key::root("first").is(""), "an absent key is no key");
        let shown = format!("{key:?}");
        assert!(!shown.contains("first") && !shown.contains("second"), "{shown}");
    }
}
