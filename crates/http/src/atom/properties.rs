//! Descriptions of queues, topics and subscriptions, to and from XML, as the table of their
//! properties has them.

use std::io;

use domain::{
    Described, EntityInfo, EntityProperty, Patch, PropertyType, PropertyValue, Specifics,
};
use roxmltree::Node;

use super::Asked;
use super::authorization;
use super::description::{Element, elements};
use super::document::Elements;
use super::layout::{COUNTS_FILTERS, Part, layout};
use crate::failure::Failure;

/// `properties`: what the description in `info` says of them, as entities of its kind have them.
pub(super) fn write<P: Described>(
    out: &mut Elements<'_>,
    info: &EntityInfo,
    properties: &P,
    asked: Asked<'_>,
) -> io::Result<()> {
    let (_, parts) = layout(P::KIND);
    let is_placed = |property: &EntityProperty| {
        parts.iter().any(|part| match part {
            Part::Property(name) | Part::Since(_, name) => *name == property.element,
            _ => false,
        })
    };
    for part in parts {
        match *part {
            Part::Property(element) => {
                if let Some(property) = property::<P>(element) {
                    write_value(out, property, properties, asked)?;
                }
            }
            Part::Since(version, element) if asked.knows(version) => {
                if let Some(property) = property::<P>(element) {
                    write_value(out, property, properties, asked)?;
                }
            }
            Part::Since(..) => (),
            Part::Constant(name, text) => out.text(name, text)?,
            Part::SizeInBytes => out.number("SizeInBytes", info.size_bytes)?,
            Part::MessageCount => out.number("MessageCount", info.counts.total())?,
            Part::Instants => {
                out.instant("CreatedAt", info.created_at)?;
                out.instant("UpdatedAt", info.updated_at)?;
                out.instant("AccessedAt", info.accessed_at)?;
            }
            Part::Counts => out.counts(&info.counts)?,
            Part::SubscriptionCount => {
                if let Specifics::Topic(topic) = &info.specifics {
                    out.number("SubscriptionCount", topic.subscriptions)?;
                }
            }
            Part::FilterCounts => match &info.specifics {
                Specifics::Topic(topic) if asked.knows(COUNTS_FILTERS) => {
                    out.number("SqlFilterCount", topic.rules.told_as_sql())?;
                    out.number("CorrelationFilterCount", topic.rules.correlation)?;
                }
                Specifics::Topic(_) | Specifics::Queue | Specifics::Subscription(_) => (),
            },
        }
    }
    let mut others = EntityProperty::all_of(P::KIND).filter(|property| !is_placed(property));
    others.try_for_each(|property| write_value(out, property, properties, asked))
}

/// Texts and destinations are left out where there is none.
fn write_value<P: Described>(
    out: &mut Elements<'_>,
    property: &EntityProperty,
    properties: &P,
    asked: Asked<'_>,
) -> io::Result<()> {
    let name = property.element;
    let Some(value) = property.get(properties) else { return Ok(()) };
    match value {
        PropertyValue::Duration(span) => out.span(name, span),
        PropertyValue::Number(number) => out.number(name, number),
        PropertyValue::Flag(flag) => out.flag(name, flag),
        PropertyValue::Text(text) => out.some(name, Some(&*text).filter(|text| !text.is_empty())),
        PropertyValue::Destination(to) => out.some(name, asked.destination(&to).as_deref()),
        PropertyValue::Status(status) => out.text(name, status.as_str()),
        PropertyValue::AuthorizationRules(rules) => authorization::write(out, name, &rules),
    }
}

/// What a client wrote, in any order; what is read-only or unknown is passed over. What is not there
/// stays as it is, save texts and destinations, which have no other way of being taken away.
pub(super) fn read<P: Described>(description: Node<'_, '_>) -> Result<Patch<P>, Failure> {
    let mut given = taken_away();
    for element in elements(description) {
        if let Some(property) = property::<P>(element.name()) {
            given.set(property, read_value(property, element)?);
        }
    }
    Ok(given)
}

/// What a description without elements says.
fn taken_away<P: Described>() -> Patch<P> {
    let mut given = Patch::default();
    for property in EntityProperty::all_of(P::KIND) {
        match property.of {
            PropertyType::Text { .. } => given.set(property, PropertyValue::Text(String::new())),
            PropertyType::Destination(_) => given.set(property, PropertyValue::Destination(None)),
            PropertyType::Duration { .. }
            | PropertyType::Number { .. }
            | PropertyType::Flag(_)
            | PropertyType::Status(_)
            | PropertyType::AuthorizationRules(_) => (),
        }
    }
    given
}

fn read_value(
    property: &EntityProperty,
    element: Element<'_, '_>,
) -> Result<PropertyValue, Failure> {
    Ok(match property.of {
        PropertyType::Duration { .. } => PropertyValue::Duration(element.span()?),
        PropertyType::Number { .. } => PropertyValue::Number(element.number()?),
        PropertyType::Flag(_) => PropertyValue::Flag(element.flag()?),
        PropertyType::Text { .. } => PropertyValue::Text(element.text().to_owned()),
        PropertyType::Destination(_) => PropertyValue::Destination(element.destination()?),
        PropertyType::Status(_) => PropertyValue::Status(element.status()?),
        PropertyType::AuthorizationRules(_) => {
            PropertyValue::AuthorizationRules(authorization::read(element)?)
        }
    })
}

fn property<P: Described>(element: &str) -> Option<&'static EntityProperty> {
    EntityProperty::all_of(P::KIND).find(|property| property.element == element)
}
