//! How what is there differs from what a file says. What the file does not mention may be anything.

use client::v1;
use domain::{Described, Patch, PropertyValue};

use crate::input::duration;

pub(super) fn properties<P: Described>(found: &Patch<P>, listed: &Patch<P>) -> Vec<String> {
    let mut differences = Vec::new();
    for (property, value) in listed.given() {
        let found = found.get(property);
        if found.as_ref() != Some(&value) {
            let (name, found) = (property.element, found.as_ref().map(shown).unwrap_or_default());
            differences.push(format!("{name} is {found}, the file says {}", shown(&value)));
        }
    }
    differences
}

/// Whether it gives a destination.
pub(super) fn forwards<P: Described>(listed: &Patch<P>) -> bool {
    listed.given().any(|(_, value)| matches!(value, PropertyValue::Destination(Some(_))))
}

/// As people read it.
fn shown(value: &PropertyValue) -> String {
    match value {
        PropertyValue::Duration(span) => duration::show_ms(span.0),
        PropertyValue::Number(number) => number.to_string(),
        PropertyValue::Flag(flag) => flag.to_string(),
        PropertyValue::Text(text) => format!("'{text}'"),
        PropertyValue::Destination(name) => format!("'{}'", name.as_deref().unwrap_or_default()),
        PropertyValue::Status(status) => status.as_str().to_owned(),
        PropertyValue::AuthorizationRules(rules) => format!("{} rules", rules.len()),
    }
}

/// `listed` is empty: the default rule alone (RULE-2).
pub(super) fn rules(found: &[v1::Rule], listed: &[v1::Rule]) -> Vec<String> {
    let default = [v1::Rule {
        name: domain::DEFAULT_RULE.to_owned(),
        filter: Some(v1::Filter { kind: Some(v1::filter::Kind::Constant(true)) }),
        ..Default::default()
    }];
    let listed = if listed.is_empty() { &default[..] } else { listed };
    let of = |rules: &[v1::Rule], name: &str| {
        rules.iter().find(|rule| rule.name.eq_ignore_ascii_case(name)).cloned()
    };
    let missing = listed.iter().filter_map(|rule| match of(found, &rule.name) {
        None => Some(format!("it has no rule '{}'", rule.name)),
        Some(other) if other.filter != rule.filter || other.action != rule.action => {
            Some(format!("its rule '{}' has another filter or action", rule.name))
        }
        Some(_) => None,
    });
    let more = found.iter().filter(|rule| of(listed, &rule.name).is_none());
    missing.chain(more.map(|rule| format!("it has a rule '{}' too", rule.name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_file_says_is_compared() {
        let patch = |properties| {
            Patch::<domain::QueueProperties>::try_from(properties).expect("properties")
        };
        let found = patch(v1::QueueProperties {
            lock_duration_ms: Some(60_000),
            max_delivery_count: Some(10),
            forward_to: Some("a".into()),
            ..Default::default()
        });
        let listed = patch(v1::QueueProperties {
            lock_duration_ms: Some(60_000),
            max_delivery_count: Some(3),
            forward_to: Some(String::new()),
            ..Default::default()
        });
        assert_eq!(
            properties(&found, &listed),
            ["MaxDeliveryCount is 10, the file says 3", "ForwardTo is 'a', the file says ''"]
        );
        assert!(properties(&found, &Patch::default()).is_empty());
    }

    #[test]
    fn rule_2_without_rules_there_is_the_default_one() {
        let rule = |name: &str, flag| v1::Rule {
            name: name.to_owned(),
            filter: Some(v1::Filter { kind: Some(v1::filter::Kind::Constant(flag)) }),
            created_at_ms: 7,
            ..Default::default()
        };
        assert!(rules(&[rule("$Default", true)], &[]).is_empty());
        assert_eq!(rules(&[], &[]), ["it has no rule '$Default'"]);
        assert_eq!(
            rules(&[rule("A", false), rule("b", true)], &[rule("a", true)]),
            ["its rule 'a' has another filter or action", "it has a rule 'b' too"]
        );
    }
}
