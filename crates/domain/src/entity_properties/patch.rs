//! A change to a description: some properties and their new values.

use std::collections::BTreeSet;

use super::{Described, EntityProperty, PropertyValue, Tiered};
use crate::ProfileLimits;

/// The properties that a client gives of an entity. At creation the others stand at their defaults,
/// at update they stay as they are (ENT-4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch<P> {
    /// By name.
    given: BTreeSet<&'static str>,
    /// At its default, what is not given.
    values: P,
}

impl<P: Described> Patch<P> {
    /// All that a description says.
    pub fn of(values: P) -> Patch<P> {
        let given = EntityProperty::all_of(P::KIND).map(|property| property.name).collect();
        Patch { given, values }
    }

    /// # Panics
    ///
    /// If the value is not of the property's type, or `P` does not have the property: whoever reads
    /// a dialect goes by the property's type.
    pub fn set(&mut self, property: &'static EntityProperty, value: PropertyValue) {
        property.set(&mut self.values, property.granted(value));
        self.given.insert(property.name);
    }

    pub fn get(&self, property: &EntityProperty) -> Option<PropertyValue> {
        if self.given.contains(property.name) { property.get(&self.values) } else { None }
    }

    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// What is given, in the order of the table.
    pub fn given(&self) -> impl Iterator<Item = (&'static EntityProperty, PropertyValue)> {
        EntityProperty::all_of(P::KIND)
            .filter_map(|property| self.get(property).map(|value| (property, value)))
    }

    /// What an entity is that is created so: what is not given stands at its default (ENT-3).
    pub fn created(&self) -> P {
        let mut created = self.applied_to(P::default());
        created.settle_defaults(&|name| self.given.contains(name));
        created
    }

    /// The same in a namespace of a profile, which has defaults of its own (QUOTA-5, TTL-6).
    pub fn created_in(&self, limits: &ProfileLimits) -> P {
        let mut created = self.created();
        let is_said = |property: &&EntityProperty| self.given.contains(property.name);
        for property in EntityProperty::all_of(P::KIND).filter(|it| !is_said(it)) {
            let default = match property.tiered {
                Tiered::MessageSize => PropertyValue::Number(limits.message_kilobytes_default),
                Tiered::TimeToLive => PropertyValue::Duration(limits.default_ttl_max),
                Tiered::Not | Tiered::Feature | Tiered::Partitioning | Tiered::EntitySize => {
                    continue;
                }
            };
            property.set(&mut created, default);
        }
        created
    }

    /// `base`, changed.
    pub fn applied_to(&self, mut base: P) -> P {
        for (property, value) in self.given() {
            property.set(&mut base, value);
        }
        base
    }

    /// The part of it that is chosen, and the rest.
    pub fn split(&self, is_chosen: impl Fn(&EntityProperty) -> bool) -> (Patch<P>, Patch<P>) {
        let mut parts = (Patch::default(), Patch::default());
        for (property, value) in self.given() {
            let part = if is_chosen(property) { &mut parts.0 } else { &mut parts.1 };
            part.set(property, value);
        }
        parts
    }
}
