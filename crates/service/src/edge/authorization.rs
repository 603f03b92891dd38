//! Authorization rules of an entity (ENT-11, ENT-12): what a client leaves out of them is settled
//! before they are proposed, since all replicas apply the same entry; and the edges ask for the keys
//! whenever they verify a proof, so that a rule counts from its change on.

use auth::{Key, Reach, Rights};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::{AccessRights, AuthorizationRule, Namespace, QualifiedName, Timestamp};

/// Random bytes of a key that is drawn.
const KEY_BYTES: usize = 32;

/// Of an entity, called by its path.
pub(super) fn key(rule: AuthorizationRule, entity: &QualifiedName) -> Key {
    let entity = entity.to_lowercase();
    let is_told_so = entity.told() == entity.as_str();
    let owner = (!is_told_so).then(|| entity.shared());
    Key { scope: entity.told().to_owned(), reach: Reach::Entity, owner, ..bare(rule) }
}

/// Of a namespace (NS-7).
pub(super) fn namespace_key(rule: AuthorizationRule, namespace: &Namespace) -> Key {
    Key { owner: Some(namespace.as_str().into()), ..bare(rule) }
}

fn bare(rule: AuthorizationRule) -> Key {
    let AccessRights { listen, send, manage } = rule.rights;
    Key {
        name: rule.name,
        primary: rule.primary_key,
        secondary: rule.secondary_key,
        rights: Rights { listen, send, manage, ..Rights::default() },
        ..Key::root("")
    }
}

/// Completes rules as a client gave them, where `old` is what the entity had. A key that is left out
/// stays what it was, or is drawn; the instants are not the client's to say.
pub(super) fn settle(old: &[AuthorizationRule], new: &mut [AuthorizationRule], now: Timestamp) {
    for rule in new {
        let before = old.iter().find(|before| before.name == rule.name);
        for (key, kept) in [
            (&mut rule.primary_key, before.map(|before| &before.primary_key)),
            (&mut rule.secondary_key, before.map(|before| &before.secondary_key)),
        ] {
            if key.is_empty() {
                *key = kept.cloned().unwrap_or_else(draw_key);
            }
        }
        rule.created_at = before.map_or(now, |before| before.created_at);
        rule.modified_at = match before {
            Some(before) if rule.is_as_good_as(before) => before.modified_at,
            _ => now,
        };
    }
}

/// A value that nobody guesses: 256 random bits, as base64.
pub fn draw_key() -> String {
    BASE64.encode(rand::random::<[u8; KEY_BYTES]>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, primary: &str, secondary: &str, at: u64) -> AuthorizationRule {
        let rights = AccessRights { send: true, ..AccessRights::default() };
        let (created_at, modified_at) = (Timestamp(at), Timestamp(at));
        let [name, primary_key, secondary_key] = [name, primary, secondary].map(str::to_owned);
        AuthorizationRule { name, rights, primary_key, secondary_key, created_at, modified_at }
    }

    #[test]
    fn ent_11_keys_left_out_are_drawn_and_later_kept() {
        let mut drawn = [rule("a", "", "", 0), rule("b", "own", "", 0)];
        settle(&[], &mut drawn, Timestamp(7));
        let [a, b] = &drawn;
        assert_eq!(BASE64.decode(&a.primary_key).expect("base64").len(), KEY_BYTES);
        let keys = [&a.primary_key, &a.secondary_key, &b.primary_key, &b.secondary_key];
        for (position, key) in keys.iter().enumerate() {
            assert!(!keys[..position].contains(key), "{position}");
        }
        assert_eq!(b.primary_key, "own");
        assert_eq!(domain::validate::authorization_rules(&drawn), Ok(()));
        // The same names without keys: they stay.
        let mut again = [rule("a", "", "", 0), rule("b", "", "", 0)];
        settle(&drawn, &mut again, Timestamp(9));
        assert_eq!(again, drawn);
    }

    /// CreatedTime and ModifiedTime, whatever the client says of them.
    #[test]
    fn ent_11_a_rule_remembers_when_it_came_and_was_changed() {
        let old = [rule("a", "p", "s", 7)];
        let mut sent = rule("a", "p", "s", 5);
        sent.rights.listen = true;
        for (sent, created, modified) in [
            (rule("a", "p", "s", 5), 7, 7),
            (rule("a", "p", "", 5), 7, 7),
            (rule("a", "p2", "s", 5), 7, 9),
            (rule("a", "p", "s2", 5), 7, 9),
            (sent, 7, 9),
            (rule("A", "p", "s", 5), 9, 9),
        ] {
            let mut new = [sent];
            settle(&old, &mut new, Timestamp(9));
            let [rule] = new;
            let found = (rule.created_at.0, rule.modified_at.0);
            assert_eq!(found, (created, modified), "{rule:?}");
        }
    }
}
