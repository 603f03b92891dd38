//! What entities are told to be, by the table that every dialect is made from: shown, and asked for in forms.

use domain::{
    Described, EntityProperty, EntityStatus, Mutability, Patch, PropertyType, PropertyValue, Span,
};
use maud::{Markup, html};

use crate::failure::Failure;
use crate::form::Fields;
use crate::text;

/// The fields of a form have the properties' names behind this.
const PREFIX: &str = "p-";

fn is_shown(property: &EntityProperty) -> bool {
    // Their keys are nobody's to see here.
    !matches!(property.of, PropertyType::AuthorizationRules(_))
}

fn value_text(value: &PropertyValue) -> String {
    match value {
        PropertyValue::Duration(span) => text::span(span.0),
        PropertyValue::Number(number) => number.to_string(),
        PropertyValue::Flag(flag) => flag.to_string(),
        PropertyValue::Text(text) => text.clone(),
        PropertyValue::Destination(to) => to.clone().unwrap_or_default(),
        PropertyValue::Status(status) => status.as_str().to_owned(),
        PropertyValue::AuthorizationRules(_) => String::new(),
    }
}

/// A row for each.
pub(crate) fn table<P: Described>(patch: &Patch<P>) -> Markup {
    let given = patch.given().filter(|(property, _)| is_shown(property));
    html! {
        table.facts {
            caption { "Properties" }
            tbody { @for (property, value) in given { tr {
                th scope="row" { (property.label) }
                td { @let shown = value_text(&value); @if shown.is_empty() { "–" } @else { (shown) } }
            } } }
        }
    }
}

/// A field for each that may be given: at creation all, later those that may change. `typed`: what was
/// typed before.
pub(crate) fn fields<P: Described>(now: &P, is_new: bool, typed: &Fields) -> Markup {
    let asked = EntityProperty::all_of(P::KIND)
        .filter(|property| is_shown(property))
        .filter(|property| is_new || matches!(property.mutability, Mutability::Always));
    html! { @for property in asked { (field(property, property.get(now), typed)) } }
}

fn field(property: &EntityProperty, now: Option<PropertyValue>, typed: &Fields) -> Markup {
    let name = format!("{PREFIX}{}", property.name);
    let now = now.as_ref().map(value_text).unwrap_or_default();
    let value = typed.all(&name).next().map_or(now, str::to_owned);
    let chosen = |options: &[&str]| {
        html! { select id=(name) name=(name) { @for option in options {
            option value=(option) selected[*option == value] { (option) }
        } } }
    };
    html! {
        p {
            label for=(name) { (property.label) }
            @match &property.of {
                PropertyType::Flag(_) => { (chosen(&["false", "true"])) }
                PropertyType::Status(_) => { (chosen(&EntityStatus::ALL.map(EntityStatus::as_str))) }
                _ => { input id=(name) name=(name) value=(value) autocomplete="off"; }
            }
        }
    }
}

/// What of a form differs from what is now.
///
/// # Errors
/// A value cannot be read.
pub(crate) fn changed<P: Described>(now: &P, typed: &Fields) -> Result<Patch<P>, Failure> {
    let mut patch = Patch::default();
    for property in EntityProperty::all_of(P::KIND).filter(|property| is_shown(property)) {
        let name = format!("{PREFIX}{}", property.name);
        let Some(given) = typed.all(&name).next() else { continue };
        let value = read(property, given)
            .map_err(|why| Failure::bad(format!("{}: {why}", property.label)))?;
        if property.get(now).as_ref() != Some(&value) {
            patch.set(property, value);
        }
    }
    Ok(patch)
}

fn read(property: &EntityProperty, given: &str) -> Result<PropertyValue, String> {
    let given = given.trim();
    Ok(match &property.of {
        PropertyType::Duration { .. } => PropertyValue::Duration(Span(text::parse_span(given)?)),
        PropertyType::Number { allowed, .. } => {
            let number = given.parse().map_err(|_| format!("'{given}' is not {allowed}"))?;
            PropertyValue::Number(number)
        }
        PropertyType::Flag(_) => PropertyValue::Flag(given == "true"),
        PropertyType::Text { .. } => PropertyValue::Text(given.to_owned()),
        PropertyType::Destination(_) => {
            PropertyValue::Destination(Some(given.to_owned()).filter(|given| !given.is_empty()))
        }
        PropertyType::Status(_) => {
            let found = EntityStatus::ALL.into_iter().find(|status| status.as_str() == given);
            PropertyValue::Status(found.ok_or_else(|| format!("'{given}' is no status"))?)
        }
        PropertyType::AuthorizationRules(_) => return Err("it is not set here".to_owned()),
    })
}
