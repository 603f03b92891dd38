//! What members a file may have, whatever the case of their names. The file's schema forbids no others,
//! and tools write some: they are taken out and told of, as `null` is, which says nothing.

use domain::{EntityKind, EntityProperty, PROPERTIES, PropertyType};
use serde_json::{Map, Value};

use crate::duration;

/// What belongs in a place of the file.
#[derive(Clone, Copy)]
enum Shape {
    /// An object of these members.
    Object(&'static [(&'static str, Shape)]),
    /// An object of the properties of such an entity.
    Properties(EntityKind),
    /// A list of such.
    List(&'static Shape),
    /// A value, or an object whose members have names of their own.
    Leaf,
    /// It is known, and changes nothing.
    NoEffect,
}

use Shape::{Leaf, List, NoEffect, Object, Properties};

const FILE: Shape = Object(&[
    ("$schema", NoEffect),
    ("UserConfig", Object(&[("Namespaces", List(&NAMESPACE)), ("Logging", NoEffect)])),
]);
const NAMESPACE: Shape =
    Object(&[("Name", NoEffect), ("Queues", List(&QUEUE)), ("Topics", List(&TOPIC))]);
const QUEUE: Shape = Object(&[("Name", Leaf), ("Properties", Properties(EntityKind::Queue))]);
const TOPIC: Shape = Object(&[
    ("Name", Leaf),
    ("Properties", Properties(EntityKind::Topic)),
    ("Subscriptions", List(&SUBSCRIPTION)),
]);
const SUBSCRIPTION: Shape = Object(&[
    ("Name", Leaf),
    ("Properties", Properties(EntityKind::Subscription)),
    ("Rules", List(&RULE)),
]);
const RULE: Shape = Object(&[
    ("Name", Leaf),
    (
        "Properties",
        Object(&[
            ("FilterType", Leaf),
            ("CorrelationFilter", CORRELATION),
            ("SqlFilter", SQL),
            ("Action", SQL),
        ]),
    ),
]);
/// Aspire writes the last two.
const SQL: Shape = Object(&[
    ("SqlExpression", Leaf),
    ("CompatibilityLevel", NoEffect),
    ("RequiresPreprocessing", NoEffect),
]);
const CORRELATION: Shape = Object(&[
    ("ContentType", Leaf),
    ("CorrelationId", Leaf),
    ("Label", Leaf),
    ("MessageId", Leaf),
    ("ReplyTo", Leaf),
    ("ReplyToSessionId", Leaf),
    ("SessionId", Leaf),
    ("To", Leaf),
    ("Properties", Leaf),
    ("RequiresPreprocessing", NoEffect),
]);

/// What of the file counts, under the names that the schema gives; and what is to tell of the rest, with
/// its place.
pub(super) fn tidied(file: Value) -> (Value, Vec<String>) {
    let mut notes = Vec::new();
    let tidied = tidy(file, FILE, "", &mut notes);
    (tidied, notes)
}

fn tidy(value: Value, shape: Shape, path: &str, notes: &mut Vec<String>) -> Value {
    match (value, shape) {
        (Value::Array(values), List(of)) => {
            let values = values.into_iter().enumerate();
            let tidied =
                values.map(|(index, value)| tidy(value, *of, &format!("{path}[{index}]"), notes));
            Value::Array(tidied.collect())
        }
        (Value::Object(members), Object(_) | Properties(_)) => {
            let mut tidied = Map::new();
            for (name, value) in members {
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match (member(shape, &name), value) {
                    (_, Value::Null) | (Some((_, NoEffect)), _) => (),
                    (Some((known, of)), value) => {
                        notes.extend(
                            raised(known, &value).map(|to| format!("{at} is taken as {to}")),
                        );
                        tidied.insert(known.to_owned(), tidy(value, of, &at, notes));
                    }
                    (None, _) => notes.push(format!("{at} is not known, and passed over")),
                }
            }
            Value::Object(tidied)
        }
        // Conditions on user properties: null is none.
        (Value::Object(mut members), Leaf) => {
            members.retain(|_, value| !value.is_null());
            Value::Object(members)
        }
        (value, _) => value,
    }
}

/// The member that a name means.
fn member(shape: Shape, name: &str) -> Option<(&'static str, Shape)> {
    match shape {
        Object(members) => {
            members.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
        }
        Properties(kind) => EntityProperty::all_of(kind)
            .filter(|property| property.in_emulator_file)
            .find(|property| property.element.eq_ignore_ascii_case(name))
            .map(|property| (property.element, Leaf)),
        List(_) | Leaf | NoEffect => None,
    }
}

/// What a span is taken as that is shorter than it can be.
fn raised(name: &str, value: &Value) -> Option<String> {
    let mut raised = PROPERTIES.iter().filter(|property| property.element == name);
    let min = raised.find_map(|property| match property.of {
        PropertyType::Duration { min, is_raised: true, .. } => Some(min.0),
        _ => None,
    })?;
    let asked = duration::parse_ms(value.as_str()?).ok()?;
    (1..min).contains(&asked).then(|| duration::show_ms(min))
}
