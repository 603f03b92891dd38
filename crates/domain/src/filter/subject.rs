//! What rules look at: a message's properties, never its body (RULE-4).

use std::collections::BTreeMap;

use crate::{Properties, SystemProperty, SystemValue, Value};

/// A message, as far as rules can see it.
pub trait Subject {
    /// Absent: the message does not have it, and its value is null. A *name* that is no system
    /// property never comes here: it is an error of the rule (RULE-21, RULE-33).
    fn system(&self, property: SystemProperty) -> Option<SystemValue<'_>>;

    fn properties(&self) -> &Properties;

    /// The user property of that name, as [`find_property`] has it.
    fn property(&self, name: &str) -> Option<&Value> {
        find_property(self.properties(), name).map(|(_, value)| value)
    }
}

/// The property of that name and the name it is stored under. Case does not count (RULE-31), in
/// ASCII only: what replicas decide must not depend on the Unicode tables of a binary. Of names
/// that differ in case only, the one written alike comes first, then the first in byte order.
pub fn find_property<'a>(properties: &'a Properties, name: &str) -> Option<(&'a str, &'a Value)> {
    let (stored, value) = properties
        .get_key_value(name)
        .or_else(|| properties.iter().find(|(stored, _)| stored.eq_ignore_ascii_case(name)))?;
    Some((stored, value))
}

/// [`find_property`] for whoever asks often: names are put in lower case once, instead of all of them being
/// gone through for each that is not there as it is written.
pub(crate) struct FoldedNames(BTreeMap<String, String>);

impl FoldedNames {
    pub fn of(properties: &Properties) -> FoldedNames {
        let mut folded = BTreeMap::new();
        for name in properties.keys() {
            folded.entry(name.to_ascii_lowercase()).or_insert_with(|| name.clone());
        }
        FoldedNames(folded)
    }

    /// Of the properties it was made of.
    pub fn find<'a>(&self, properties: &'a Properties, name: &str) -> Option<&'a Value> {
        properties.get(name).or_else(|| {
            let stored = match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                true => self.0.get(&name.to_ascii_lowercase()),
                false => self.0.get(name),
            };
            properties.get(stored?)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rule_31_folded_names_find_the_same(
            properties in btree_map("[aAbBé]{0,3}", (0..9i64).prop_map(Value::Long), 0..8),
            names in vec("[aAbBé]{0,3}", 1..8),
        ) {
            let folded = FoldedNames::of(&properties);
            for name in names {
                let expected = find_property(&properties, &name).map(|(_, value)| value);
                prop_assert_eq!(folded.find(&properties, &name), expected, "{}", name);
            }
        }
    }
}
