//! Authorization rules of queues and topics (ENT-11), as they are given and shown.

use domain::{AccessRights, AuthorizationRule};
use serde_json::{Value, json};

/// The flag that gives one.
pub const HELP: &str = "\
A rule with keys of its own, which the cluster draws: its name, and what they allow of listen, send and \
manage, which includes both. May be repeated; rules not given are taken away, those of the same name \
keep their keys";

pub fn parse(text: &str) -> Result<AuthorizationRule, String> {
    let expected = "it is written NAME=RIGHT,…, as in worker=listen,send";
    let (name, rights) = text.split_once('=').ok_or(expected)?;
    let mut given = AccessRights::default();
    for right in rights.split(',') {
        match right.trim().to_ascii_lowercase().as_str() {
            "listen" => given.listen = true,
            "send" => given.send = true,
            "manage" => given = AccessRights::ALL,
            _ => return Err(format!("'{right}' is none of listen, send and manage; {expected}")),
        }
    }
    Ok(AuthorizationRule { name: name.to_owned(), rights: given, ..Default::default() })
}

/// For people. `keys`: who looks has asked for them.
pub fn shown(rules: &[AuthorizationRule], keys: bool) -> String {
    let rules = rules.iter().map(|rule| {
        let AuthorizationRule { name, primary_key, secondary_key, .. } = rule;
        let rights = rights(rule).join(", ");
        match keys {
            true => format!("{name} ({rights}; {primary_key}, {secondary_key})"),
            false => format!("{name} ({rights})"),
        }
    });
    rules.collect::<Vec<String>>().join(", ")
}

pub fn as_json(rules: &[AuthorizationRule], keys: bool) -> Value {
    let rules = rules.iter().map(|rule| {
        let mut value = json!({ "name": rule.name, "rights": rights(rule) });
        if keys {
            value["primary_key"] = json!(rule.primary_key);
            value["secondary_key"] = json!(rule.secondary_key);
        }
        value
    });
    rules.collect()
}

fn rights(rule: &AuthorizationRule) -> Vec<&'static str> {
    let AccessRights { listen, send, manage } = rule.rights;
    let rights = [(listen, "listen"), (send, "send"), (manage, "manage")];
    rights.into_iter().filter_map(|(is_given, name)| is_given.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ent_11_a_rule_is_given_by_name_and_rights_and_shown_without_its_keys() {
        for (text, told) in [
            ("worker=listen", "worker (listen)"),
            ("w=Send, listen", "w (listen, send)"),
            ("boss=manage", "boss (listen, send, manage)"),
        ] {
            let rule = AuthorizationRule {
                primary_key: "k1".into(),
                secondary_key: "k2".into(),
                ..parse(text).expect(text)
            };
            let rules = [rule];
            assert_eq!(shown(&rules, false), told);
            assert!(!as_json(&rules, false).to_string().contains("k1"), "{text}");
            assert!(shown(&rules, true).ends_with("; k1, k2)"), "{text}");
            assert_eq!(as_json(&rules, true)[0]["secondary_key"], "k2");
        }
        for text in ["worker", "worker=", "worker=listen,,", "worker=read"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(shown(&[], true), "");
    }
}
