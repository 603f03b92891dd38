//! Authorization rules (ENT-11).

use domain::{AccessRights, AuthorizationRule, Refusal, Timestamp};

use crate::v1;

/// # Errors
/// A right that there is not.
pub fn authorization_rules(
    rules: v1::AuthorizationRules,
) -> Result<Vec<AuthorizationRule>, Refusal> {
    rules.rules.into_iter().map(rule_from_v1).collect()
}

/// What every namespace is created with where nothing else is said: all rights, and keys that are to be drawn.
pub fn root_rule() -> AuthorizationRule {
    AuthorizationRule {
        name: ROOT_RULE.to_owned(),
        rights: AccessRights::ALL,
        ..AuthorizationRule::default()
    }
}

/// As Service Bus calls it.
const ROOT_RULE: &str = "RootManageSharedAccessKey";

fn rule_from_v1(rule: v1::AuthorizationRule) -> Result<AuthorizationRule, Refusal> {
    let mut rights = AccessRights::default();
    for right in &rule.rights {
        match v1::AccessRight::try_from(*right) {
            Ok(v1::AccessRight::Listen) => rights.listen = true,
            Ok(v1::AccessRight::Send) => rights.send = true,
            Ok(v1::AccessRight::Manage) => rights.manage = true,
            Ok(v1::AccessRight::Unspecified) | Err(_) => {
                let why = format!("{right} is no access right");
                return Err(Refusal::Argument { what: "AuthorizationRules", why });
            }
        }
    }
    Ok(AuthorizationRule {
        name: rule.name,
        rights,
        primary_key: rule.primary_key,
        secondary_key: rule.secondary_key,
        created_at: Timestamp(rule.created_at_ms),
        modified_at: Timestamp(rule.modified_at_ms),
    })
}

pub fn shown_rules(rules: &[AuthorizationRule]) -> v1::AuthorizationRules {
    v1::AuthorizationRules { rules: rules.iter().map(rule_to_v1).collect() }
}

fn rule_to_v1(rule: &AuthorizationRule) -> v1::AuthorizationRule {
    let AccessRights { listen, send, manage } = rule.rights;
    let rights = [
        (listen, v1::AccessRight::Listen),
        (send, v1::AccessRight::Send),
        (manage, v1::AccessRight::Manage),
    ];
    let rights = rights.into_iter().filter(|(is_given, _)| *is_given);
    v1::AuthorizationRule {
        name: rule.name.clone(),
        rights: rights.map(|(_, right)| right.into()).collect(),
        primary_key: rule.primary_key.clone(),
        secondary_key: rule.secondary_key.clone(),
        created_at_ms: rule.created_at.0,
        modified_at_ms: rule.modified_at.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_right_is_refused() {
        for right in [0, 4, -1] {
            let rule = v1::AuthorizationRule { rights: vec![1, right], ..Default::default() };
            let refusal =
                authorization_rules(v1::AuthorizationRules { rules: vec![rule] }).unwrap_err();
            assert_eq!(refusal.rule(), "ERR-12", "{right}");
        }
    }

    #[test]
    fn nothing_prints_a_key() {
        let (primary_key, secondary_key) = ("first-key".to_owned(), "second-key".to_owned());
        let rule = AuthorizationRule { primary_key, secondary_key, ..Default::default() };
        let native = v1::QueueProperties {
            authorization_rules: Some(shown_rules(std::slice::from_ref(&rule))),
            ..Default::default()
        };
        for shown in [format!("{rule:?}"), format!("{native:?}")] {
            assert!(shown.contains("AuthorizationRule") && !shown.contains("-key"), "{shown}");
        }
    }
}
