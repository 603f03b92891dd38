//! What a proof is good for.

use std::sync::Arc;

use crate::key::{Key, Seal};
use crate::path::{Reach, covers, resource_path};
use crate::principal::Principal;
use crate::right::{Right, Rights};

/// What somebody may do, as far as he has proven who he is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub principal: Principal,
    /// Normalised, see [`resource_path`]; it is covered, and what is below it as far as that reaches.
    pub path: String,
    pub reach: Reach,
    pub rights: Rights,
    /// Seconds since the Unix epoch; from then on the grant is void (ERR-25).
    pub expires_at_s: u64,
    /// Which key it was proven with.
    pub seal: Seal,
}

impl Grant {
    /// Everything, for ever.
    pub fn all() -> Grant {
        Grant {
            principal: Principal::Anyone,
            path: String::new(),
            reach: Reach::Below,
            rights: Rights::ALL,
            expires_at_s: u64::MAX,
            seal: Seal::default(),
        }
    }

    /// What one of these keys is good for to whoever knows it; `None`: it is none of them.
    pub fn of_key(keys: &[Key], name: &str, key: &str) -> Option<Grant> {
        let known = keys.iter().find(|known| known.name == name && known.is(key))?;
        Some(Grant::by_key(known, key))
    }

    /// What a key is good for, by the one of its pair that was given.
    pub(crate) fn by_key(known: &Key, given: &str) -> Grant {
        Grant {
            principal: known.principal(),
            path: resource_path(&known.scope),
            reach: known.reach,
            rights: known.rights,
            expires_at_s: u64::MAX,
            seal: Seal::of(given),
        }
    }

    /// What a key of the configuration is good for to whoever shows a certificate that stands for it, by
    /// the name it is known by, as long as that counts.
    pub(crate) fn by_certificate(known: &Key, subject: &str, expires_at_s: u64) -> Grant {
        let (subject, key) = (Arc::from(subject), Arc::from(known.name.as_str()));
        let principal = Principal::Certificate { subject, key };
        Grant { principal, expires_at_s, seal: Seal::default(), ..Grant::by_key(known, "") }
    }

    /// Whether it covers using `path` (normalised) that way at that time.
    pub fn allows(&self, path: &str, right: Right, now_s: u64) -> bool {
        now_s < self.expires_at_s && self.rights.allow(right) && self.reach.covers(&self.path, path)
    }

    /// What it is good for by the keys as they are now: those of the configuration, or of the entity
    /// whose rule it was proven by. `None`: nothing any more, as its key was removed or exchanged.
    pub fn renewed(&self, keys: &[Key]) -> Option<Grant> {
        let name = match &self.principal {
            Principal::Anyone => return Some(self.clone()),
            principal => principal.key_name()?,
        };
        let is_by = |key: &&Key| {
            key.name == name
                && key.reach == self.reach
                && self.seal.is_of(key)
                && covers(&resource_path(&key.scope), &self.path)
        };
        let rights = keys.iter().find(is_by)?.rights;
        Some(Grant { rights, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the keys as they are now, and what the grant by `orders`' first key is good for then.
    #[test]
    fn ent_12_a_grant_lasts_as_long_as_the_key_it_was_proven_with() {
        let key = |name: &str, primary: &str, secondary: &str, right: Right| Key {
            name: name.to_owned(),
            secondary: secondary.to_owned(),
            rights: Rights::default().with(right),
            scope: "orders".to_owned(),
            ..Key::root(primary)
        };
        let old = key("worker", "first", "second", Right::Send);
        let grant = Grant::of_key(&[old], "worker", "first").expect("its key");
        for (now, right) in [
            (vec![key("worker", "first", "second", Right::Send)], Some(Right::Send)),
            (vec![key("worker", "first", "", Right::Listen)], Some(Right::Listen)),
            // It moved to the second place, as a rotation has it.
            (vec![key("worker", "third", "first", Right::Send)], Some(Right::Send)),
            (vec![key("worker", "third", "second", Right::Send)], None),
            (vec![key("other", "first", "second", Right::Send)], None),
            (
                vec![Key { scope: "elsewhere".into(), ..key("worker", "first", "", Right::Send) }],
                None,
            ),
            (vec![], None),
        ] {
            let found = grant.renewed(&now).map(|grant| grant.rights);
            assert_eq!(found, right.map(|right| Rights::default().with(right)), "{now:?}");
        }
        assert_eq!(Grant::all().renewed(&[]), Some(Grant::all()));
        let shown = Grant::by_certificate(&key("worker", "first", "", Right::Send), "CN=w", 1);
        let exchanged = [key("worker", "third", "", Right::Send)];
        assert!(shown.renewed(&exchanged).is_some(), "it never was proven with the key");
        assert_eq!(shown.renewed(&[]), None);
        assert!(!format!("{grant:?}").contains("first"), "{grant:?}");
    }
}
