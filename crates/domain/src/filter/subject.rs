//! What rules look at: a message's properties, never its body (RULE-4).

use crate::{Properties, SystemProperty, SystemValue, Value};

/// A message, as far as rules can see it.
pub trait Subject {
    /// Absent: the message does not have it, and its value is null. A *name* that is no system
    /// property never comes here: it is an error of the rule (RULE-21, RULE-33).
    fn system(&self, property: SystemProperty) -> Option<SystemValue<'_>>;

    fn properties(&self) -> &Properties;
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
