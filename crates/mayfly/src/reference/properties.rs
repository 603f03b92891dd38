//! `docs/reference/properties.md`: what queues, topics and subscriptions can be told to be, as a page.

use domain::{
    Described, EntityKind, EntityProperty, EntityStatus, Mutability, PROPERTIES, PropertyType,
    QueueProperties, SubscriptionProperties, TopicProperties, validate,
};

use super::{cell, hold};
use crate::commands::properties::shown_value;

const HEAD: &str = "\
# Properties of queues, topics and subscriptions

What an entity is told to be when it is created; what is left out stands at its default. An update changes what
it names and leaves the rest, but for what is fixed at creation. A value outside of what is allowed is refused,
and the entity left as it is. The rules named are those of [the semantics](../semantics.md).

## What they do

Durations are written as `90s`, `1h 30m`, or in ISO 8601 as `PT1M`; `never` is the longest.

| Property | Of | What it does | Default | Allowed | Changeable | Rules |
| --- | --- | --- | --- | --- | --- | --- |
";

const NAMES: &str = "
## What they are called

On the command line, in the JSON that it prints, in the messages of the gRPC API, and in XML: the descriptions of
the administration clients and, where marked, the file of an emulator (`--emulator-config`).

| Property | Flag | JSON | gRPC | XML | Emulator's file |
| --- | --- | --- | --- | --- | --- |
";

const KINDS: [EntityKind; 3] = [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription];

fn page() -> String {
    let mut page = HEAD.to_owned();
    for property in &PROPERTIES {
        let kinds = KINDS.into_iter().filter(|kind| property.is_of(*kind));
        let of = kinds.map(EntityKind::as_str).collect::<Vec<_>>().join(", ");
        let changeable = match property.mutability {
            Mutability::Always => "yes",
            Mutability::Never(_) => "no",
        };
        page += &row(&[
            property.label,
            &of,
            &what_it_does(property),
            &default(property),
            &allowed(property),
            changeable,
            &property.rules.join(", "),
        ]);
    }
    page += NAMES;
    for property in &PROPERTIES {
        let code = |name: &str| format!("`{name}`");
        page += &row(&[
            property.label,
            &property.flag.map_or_else(String::new, |flag| code(&format!("--{flag}"))),
            &code(property.name),
            &code(property.native),
            &code(property.element),
            if property.in_emulator_file { "yes" } else { "" },
        ]);
    }
    page
}

fn row(cells: &[&str]) -> String {
    let cells = cells.iter().map(|text| cell(text)).collect::<Vec<_>>();
    format!("| {} |\n", cells.join(" | "))
}

/// For all kinds of entities, and then what is particular to some.
fn what_it_does(property: &EntityProperty) -> String {
    let mut text = property.help.replace("{entity}", "entity") + ".";
    for (kind, more) in property.particulars {
        let more = more.trim_start_matches([',', ';', ' ']);
        text += &format!(" Of a {}: {more}.", kind.as_str());
    }
    text
}

/// Every kind that has a property has the same default of it.
fn default(property: &EntityProperty) -> String {
    fn of<P: Described>(property: &EntityProperty) -> Option<String> {
        property.get(&P::default()).map(|default| shown_value(property, &default, false))
    }
    let default = of::<QueueProperties>(property)
        .or_else(|| of::<TopicProperties>(property))
        .or_else(|| of::<SubscriptionProperties>(property));
    default.filter(|default| !default.is_empty()).unwrap_or_else(|| "none".to_owned())
}

fn allowed(property: &EntityProperty) -> String {
    match &property.of {
        PropertyType::Duration { allowed, .. } | PropertyType::Text { allowed, .. } => {
            (*allowed).to_owned()
        }
        PropertyType::Number { allowed, unit, .. } => match unit {
            Some(unit) => format!("{allowed} {unit}"),
            None => (*allowed).to_owned(),
        },
        PropertyType::Flag(_) => "yes or no".to_owned(),
        PropertyType::Destination(_) => "the name of a queue or topic".to_owned(),
        PropertyType::Status(_) => EntityStatus::ALL.map(status).join(", "),
        PropertyType::AuthorizationRules(_) => "at most 12".to_owned(),
    }
}

/// STATE-1: with the kinds of entities that have it, where some have not.
fn status(status: EntityStatus) -> String {
    let queue = QueueProperties { status, ..QueueProperties::default() };
    let topic = TopicProperties { status, ..TopicProperties::default() };
    let subscription = SubscriptionProperties { status, ..SubscriptionProperties::default() };
    let allowed = [
        validate::queue_properties(&queue).is_ok(),
        validate::topic_properties(&topic).is_ok(),
        validate::subscription_properties(&subscription).is_ok(),
    ];
    let name = status.as_str();
    if allowed == [true; 3] {
        return name.to_owned();
    }
    let kinds = KINDS.into_iter().zip(allowed).filter(|(_, is_allowed)| *is_allowed);
    let kinds: Vec<&str> = kinds.map(|(kind, _)| kind.as_str()).collect();
    format!("{name} ({})", kinds.join(", "))
}

#[test]
fn reference_properties_are_current() {
    hold("properties.md", &page());
}
