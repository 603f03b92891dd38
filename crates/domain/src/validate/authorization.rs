//! Authorization rules as clients give them (ENT-11, QUOTA-23).

use crate::{
    AUTHORIZATION_CHARS_MAX, AUTHORIZATION_RULES_MAX, AccessRights, AuthorizationRule, Refusal,
};

/// ENT-11, QUOTA-23. Keys that are left out were drawn before.
pub fn authorization_rules(rules: &[AuthorizationRule]) -> Result<(), Refusal> {
    if rules.len() > AUTHORIZATION_RULES_MAX {
        let (used, max) = (rules.len() as u64, AUTHORIZATION_RULES_MAX as u64);
        return Err(Refusal::QuotaExceeded { what: "the entity (authorization rules)", used, max });
    }
    for (position, rule) in rules.iter().enumerate() {
        let refuse = |why: &str| {
            let why = format!("rule '{}' (number {}) {why}", shown(&rule.name), position + 1);
            Err(Refusal::Argument { what: "AuthorizationRules", why })
        };
        let AuthorizationRule { name, rights, primary_key, secondary_key, .. } = rule;
        if !has_length(name) {
            return refuse("has a name of less than 1 or more than 256 characters");
        }
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.!*()".contains(c)) {
            return refuse("has a name with characters other than letters, digits and -_.!*()");
        }
        if rules[..position].iter().any(|other| other.name == *name) {
            return refuse("is there twice; names are unique in an entity");
        }
        if rights.is_none() {
            return refuse("has no rights; name some of Listen, Send and Manage");
        }
        if rights.manage && *rights != AccessRights::ALL {
            return refuse("has Manage alone; name Listen and Send too, which it includes");
        }
        for (which, key) in [("primary", primary_key), ("secondary", secondary_key)] {
            if !has_length(key) || !key.chars().all(|c| c.is_ascii_graphic()) {
                return refuse(&format!(
                    "has a {which} key that is not 1 to 256 visible ASCII characters"
                ));
            }
        }
    }
    Ok(())
}

fn has_length(text: &str) -> bool {
    (1..=AUTHORIZATION_CHARS_MAX).contains(&text.chars().count())
}

/// As much of a name as a line of text has room for.
fn shown(name: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 50;
    let short: String = name.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if name.chars().count() > SHOWN_CHARS_MAX { short + "…" } else { short }
}
