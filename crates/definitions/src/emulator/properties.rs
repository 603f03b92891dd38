//! An entity's properties in the file, as their table has them: under the names of the elements in
//! XML, durations in ISO 8601.

use std::fmt;
use std::marker::PhantomData;

use domain::{Described, EntityProperty, Patch, PropertyType, PropertyValue, Span};
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::document::status;
use crate::duration;

/// What the emulator's schema has by default where we have another default: a program that was tried
/// there counts on it.
const EMULATOR_DEFAULTS: [(&str, PropertyValue); 3] = [
    ("default_ttl", PropertyValue::Duration(Span::from_secs(3600))),
    ("duplicate_detection_window", PropertyValue::Duration(Span::from_secs(20))),
    ("max_delivery_count", PropertyValue::Number(3)),
];

/// What of these holds for an entity of which a file gives `given`, when it is created.
pub(super) fn schema_defaults<P: Described>(given: &Patch<P>) -> Patch<P> {
    let mut defaults = Patch::default();
    for (name, default) in EMULATOR_DEFAULTS {
        let property = EntityProperty::all_of(P::KIND).find(|property| property.name == name);
        if let Some(property) = property.filter(|property| given.get(property).is_none()) {
            defaults.set(property, default);
        }
    }
    defaults
}

/// The properties that the file gives of an entity.
#[derive(Default)]
pub(super) struct FileProperties<P>(pub Patch<P>);

/// Those that a file may give.
fn known<P: Described>() -> impl Iterator<Item = &'static EntityProperty> {
    EntityProperty::all_of(P::KIND).filter(|property| property.in_emulator_file)
}

impl<'de, P: Described> Deserialize<'de> for FileProperties<P> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<FileProperties<P>, D::Error> {
        input.deserialize_map(PropertiesVisitor(PhantomData)).map(FileProperties)
    }
}

struct PropertiesVisitor<P>(PhantomData<P>);

impl<'de, P: Described> Visitor<'de> for PropertiesVisitor<P> {
    type Value = Patch<P>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the properties of a {}", P::KIND.as_str())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Patch<P>, A::Error> {
        let mut given = Patch::default();
        while let Some(property) = members.next_key_seed(NameSeed::<P>(PhantomData))? {
            if let Some(value) = members.next_value_seed(PropertySeed(property))? {
                given.set(property, value);
            }
        }
        Ok(given)
    }
}

/// A member's name, which is a property's.
struct NameSeed<P>(PhantomData<P>);

impl<'de, P: Described> DeserializeSeed<'de> for NameSeed<P> {
    type Value = &'static EntityProperty;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_identifier(self)
    }
}

impl<P: Described> Visitor<'_> for NameSeed<P> {
    type Value = &'static EntityProperty;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the name of a property")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<&'static EntityProperty, E> {
        known::<P>().find(|property| property.element == name).ok_or_else(|| {
            let known: Vec<String> =
                known::<P>().map(|property| format!("`{}`", property.element)).collect();
            E::custom(format!("unknown field `{name}`, expected one of {}", known.join(", ")))
        })
    }
}

/// The value of a property; `null` gives none.
struct PropertySeed(&'static EntityProperty);

impl<'de> DeserializeSeed<'de> for PropertySeed {
    type Value = Option<PropertyValue>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        Ok(match self.0.of {
            PropertyType::Duration { .. } => {
                let text = Option::<String>::deserialize(input)?;
                let ms = text.map(|text| duration::parse_ms(&text)).transpose();
                ms.map_err(D::Error::custom)?.map(|ms| PropertyValue::Duration(Span(ms)))
            }
            PropertyType::Number { .. } => Option::deserialize(input)?.map(PropertyValue::Number),
            PropertyType::Flag(_) => Option::deserialize(input)?.map(PropertyValue::Flag),
            PropertyType::Text { .. } => Option::deserialize(input)?.map(PropertyValue::Text),
            PropertyType::Destination(_) => {
                let name = Option::<String>::deserialize(input)?;
                name.map(|name| {
                    PropertyValue::Destination(Some(name).filter(|name| !name.is_empty()))
                })
            }
            PropertyType::Status(_) => Option::<String>::deserialize(input)?
                .map(|text| status(&text).map(PropertyValue::Status))
                .transpose()
                .map_err(D::Error::custom)?,
            PropertyType::AuthorizationRules(_) => {
                return Err(D::Error::custom("it cannot be given in a file"));
            }
        })
    }
}
