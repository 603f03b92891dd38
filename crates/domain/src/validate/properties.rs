//! What entities may be told to be, property by property as their table has it (ENT-3).

use super::destinations::forwards_no_sessions;
use super::{authorization_rules, in_range};
use crate::{
    Described, EntityKind, EntityProperty, EntityStatus, Field, Mutability, PropertyType,
    QueueProperties, Refusal, SubscriptionProperties, TopicProperties,
};

/// ENT-3, ENT-4, ENT-10, FWD-1.
pub fn queue_properties(properties: &QueueProperties) -> Result<(), Refusal> {
    express_keeps_no_history(properties.enable_express, properties.requires_duplicate_detection)?;
    let forwards = properties.forward_to.is_some() && !properties.enable_partitioning;
    forwards_no_sessions(properties.requires_session, forwards)?;
    each_in_range(properties)
}

/// ENT-3, ENT-4, ENT-10, STATE-1.
pub fn topic_properties(properties: &TopicProperties) -> Result<(), Refusal> {
    express_keeps_no_history(properties.enable_express, properties.requires_duplicate_detection)?;
    each_in_range(properties)
}

/// ENT-3, ENT-4, FWD-1, STATE-1.
pub fn subscription_properties(properties: &SubscriptionProperties) -> Result<(), Refusal> {
    forwards_no_sessions(properties.requires_session, properties.forward_to.is_some())?;
    each_in_range(properties)
}

/// ENT-5: what is fixed at creation is as it was.
pub fn unchanged<P: Described>(old: &P, new: &P) -> Result<(), Refusal> {
    for property in EntityProperty::all_of(P::KIND) {
        match property.mutability {
            Mutability::Never(why) if property.get(old) != property.get(new) => {
                return Err(Refusal::InvalidOperation { why: why(P::KIND) });
            }
            Mutability::Never(_) | Mutability::Always => (),
        }
    }
    Ok(())
}

/// ENT-10.
fn express_keeps_no_history(is_express: bool, detects_duplicates: bool) -> Result<(), Refusal> {
    if is_express && detects_duplicates {
        let why = "EnableExpress and RequiresDuplicateDetection cannot both be true";
        return Err(Refusal::InvalidOperation { why });
    }
    Ok(())
}

/// ENT-4.
fn each_in_range<P: Described>(properties: &P) -> Result<(), Refusal> {
    EntityProperty::all_of(P::KIND).try_for_each(|property| value_in_range(property, properties))
}

fn value_in_range<P: Described>(property: &EntityProperty, of: &P) -> Result<(), Refusal> {
    let what = property.element;
    match &property.of {
        PropertyType::Duration { field, min, max, allowed, is_raised: _ } => {
            held(field, of, |span| {
                in_range(what, (min..=max).contains(&span), format_args!("{} ms", span.0), allowed)
            })
        }
        PropertyType::Number { field, min, max, multiple_of, unit: _, allowed } => {
            held(field, of, |number| {
                let holds = (min..=max).contains(&number) && number.is_multiple_of(*multiple_of);
                in_range(what, holds, number, allowed)
            })
        }
        PropertyType::Text { field, chars_max, length, allowed } => held(field, of, |text| {
            let chars = text.chars().count();
            in_range(length, chars <= *chars_max, chars, allowed)
        }),
        PropertyType::Status(field) => held(field, of, |status| settable(P::KIND, *status)),
        PropertyType::AuthorizationRules(field) => {
            held(field, of, |rules| authorization_rules(rules))
        }
        PropertyType::Flag(_) | PropertyType::Destination(_) => Ok(()),
    }
}

/// Whether a description's field holds what it may; one that is not there does.
fn held<P: Described, T>(
    field: &Field<T>,
    of: &P,
    check: impl FnOnce(&T) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    field.of(of).map_or(Ok(()), check)
}

/// STATE-1.
fn settable(kind: EntityKind, status: EntityStatus) -> Result<(), Refusal> {
    let (what, not, allowed) = match kind {
        EntityKind::Queue => return Ok(()),
        EntityKind::Topic => {
            ("Status of a topic", EntityStatus::ReceiveDisabled, "Active, Disabled or SendDisabled")
        }
        EntityKind::Subscription => (
            "Status of a subscription",
            EntityStatus::SendDisabled,
            "Active, Disabled or ReceiveDisabled",
        ),
    };
    in_range(what, status != not, status.as_str(), allowed)
}
