//! Authorization rules of queues and topics (ENT-11), as they are given and shown.

use client::v1;
use serde_json::{Value, json};

/// ENT-11.
#[derive(Clone, Debug, clap::Args)]
pub struct Given {
    /// A rule with keys of its own, which the cluster draws: its name, and what they allow of listen,
    /// send and manage, which includes both. May be repeated; rules not given are taken away, those of
    /// the same name keep their keys
    #[arg(long = "authorization-rule", value_name = "NAME=RIGHT,…", value_parser = parse)]
    rules: Vec<v1::AuthorizationRule>,
    /// Take all authorization rules away
    #[arg(long, conflicts_with = "rules")]
    no_authorization_rules: bool,
}

impl Given {
    pub fn into_wire(self) -> Option<v1::AuthorizationRules> {
        let is_given = self.no_authorization_rules || !self.rules.is_empty();
        is_given.then_some(v1::AuthorizationRules { rules: self.rules })
    }
}

fn parse(text: &str) -> Result<v1::AuthorizationRule, String> {
    let expected = "it is written NAME=RIGHT,…, as in worker=listen,send";
    let (name, rights) = text.split_once('=').ok_or(expected)?;
    let mut given = Vec::new();
    for right in rights.split(',') {
        given.extend(match right.trim().to_ascii_lowercase().as_str() {
            "listen" => vec![v1::AccessRight::Listen],
            "send" => vec![v1::AccessRight::Send],
            "manage" => {
                vec![v1::AccessRight::Listen, v1::AccessRight::Send, v1::AccessRight::Manage]
            }
            _ => return Err(format!("'{right}' is none of listen, send and manage; {expected}")),
        });
    }
    let rights = given.into_iter().map(Into::into).collect();
    Ok(v1::AuthorizationRule { name: name.to_owned(), rights, ..Default::default() })
}

/// For people. `keys`: who looks has asked for them.
pub fn shown(rules: Option<&v1::AuthorizationRules>, keys: bool) -> String {
    let rules = rules.into_iter().flat_map(|rules| &rules.rules).map(|rule| {
        let v1::AuthorizationRule { name, primary_key, secondary_key, .. } = rule;
        let rights = rights(rule).join(", ");
        match keys {
            true => format!("{name} ({rights}; {primary_key}, {secondary_key})"),
            false => format!("{name} ({rights})"),
        }
    });
    rules.collect::<Vec<String>>().join(", ")
}

pub fn as_json(rules: Option<&v1::AuthorizationRules>, keys: bool) -> Value {
    let rules = rules.into_iter().flat_map(|rules| &rules.rules).map(|rule| {
        let mut value = json!({ "name": rule.name, "rights": rights(rule) });
        if keys {
            value["primary_key"] = json!(rule.primary_key);
            value["secondary_key"] = json!(rule.secondary_key);
        }
        value
    });
    rules.collect()
}

fn rights(rule: &v1::AuthorizationRule) -> Vec<&'static str> {
    let name = |right| match right {
        v1::AccessRight::Listen => Some("listen"),
        v1::AccessRight::Send => Some("send"),
        v1::AccessRight::Manage => Some("manage"),
        v1::AccessRight::Unspecified => None,
    };
    rule.rights().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ent_11_a_rule_is_given_by_name_and_rights_and_shown_without_its_keys() {
        for (text, told) in [
            ("worker=listen", "worker (listen)"),
            ("w=Send, listen", "w (send, listen)"),
            ("boss=manage", "boss (listen, send, manage)"),
        ] {
            let rule = v1::AuthorizationRule {
                primary_key: "k1".into(),
                secondary_key: "k2".into(),
                ..parse(text).expect(text)
            };
            let rules = v1::AuthorizationRules { rules: vec![rule] };
            assert_eq!(shown(Some(&rules), false), told);
            assert!(!as_json(Some(&rules), false).to_string().contains("k1"), "{text}");
            assert!(shown(Some(&rules), true).ends_with("; k1, k2)"), "{text}");
            assert_eq!(as_json(Some(&rules), true)[0]["secondary_key"], "k2");
        }
        for text in ["worker", "worker=", "worker=listen,,", "worker=read"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(shown(None, true), "");
    }
}
