//! Properties as Azure names and writes them: names in camel case, whatever their case; truths and
//! numbers as texts too; durations in ISO 8601, and as Python shows them.

use domain::{
    AccessRights, Described, EntityProperty, EntityStatus, Patch, PropertyType, PropertyValue, Span,
};
use serde_json::{Map, Value as Json};

use crate::{Problem, document, duration, rule};

/// What Azure tells of an entity and takes of none, or what means nothing here.
const NO_PROPERTIES: &[&str] = &[
    "accessedAt",
    "countDetails",
    "createdAt",
    "messageCount",
    "sizeInBytes",
    "subscriptionCount",
    "updatedAt",
    // Of old templates: the name again.
    "path",
    "entityAvailabilityStatus",
    "isAnonymousAccessible",
    // Of a subscription of the Java Message Service, which is refused where it is one.
    "clientAffineProperties",
];

/// Names that are not the XML element's in camel case.
const OTHER_NAMES: &[(&str, &str)] =
    &[("enableFilteringMessagesBeforePublishing", "FilteringMessagesBeforePublishing")];

/// In Azure's spelling.
pub(super) fn name(property: &EntityProperty) -> String {
    match OTHER_NAMES.iter().find(|(_, element)| *element == property.element) {
        Some((name, _)) => (*name).to_owned(),
        None => {
            let (first, rest) = property.element.split_at(1);
            first.to_ascii_lowercase() + rest
        }
    }
}

/// What the properties of a resource say of an entity, and what of that cannot be had. `at`: of the resource.
pub(super) fn read<P: Described>(
    at: &str,
    properties: &Map<String, Json>,
) -> (Patch<P>, Vec<Problem>) {
    let (mut patch, mut problems) = (Patch::default(), Vec::new());
    for (member, value) in properties {
        let mut wrong = |why: String| {
            problems.push(Problem::new(format!("{at}.properties.{member}"), why));
        };
        // Old templates have the names of the XML.
        let is_it = |property: &&EntityProperty| {
            name(property).eq_ignore_ascii_case(member)
                || property.element.eq_ignore_ascii_case(member)
        };
        let property = EntityProperty::all_of(P::KIND).find(is_it);
        let Some(property) = property.filter(|property| !is_list(property)) else {
            let is_known = NO_PROPERTIES.iter().any(|known| known.eq_ignore_ascii_case(member));
            if !is_known && !means_nothing::<P>(member, value) {
                wrong(format!(
                    "a {} has no such property here, and {value} would change what it does",
                    P::KIND.as_str()
                ));
            }
            continue;
        };
        match read_value(property, value) {
            Ok(Some(value)) => patch.set(property, value),
            Ok(None) => (),
            Err(why) => wrong(why),
        }
    }
    (patch, problems)
}

fn is_list(property: &EntityProperty) -> bool {
    matches!(property.of, PropertyType::AuthorizationRules(_))
}

/// What is said of an entity that does not have it changes nothing where it says no, or what others of its
/// name are told by default: a subscription's window for duplicates, say.
fn means_nothing<P: Described>(member: &str, value: &Json) -> bool {
    let says_no = match value {
        Json::Null | Json::Bool(false) => true,
        Json::String(text) => text.is_empty() || text.eq_ignore_ascii_case("false"),
        Json::Array(values) => values.is_empty(),
        Json::Object(members) => members.is_empty(),
        Json::Bool(true) | Json::Number(_) => false,
    };
    let is_elsewhere = domain::PROPERTIES.iter().any(|property| {
        let is_span = matches!(property.of, PropertyType::Duration { .. });
        is_span && !property.is_of(P::KIND) && name(property).eq_ignore_ascii_case(member)
    });
    says_no || is_elsewhere
}

/// None: it says nothing.
fn read_value(property: &EntityProperty, json: &Json) -> Result<Option<PropertyValue>, String> {
    if json.is_null() {
        return Ok(None);
    }
    let text = || json.as_str().ok_or_else(|| format!("{json} is no text"));
    Ok(Some(match &property.of {
        PropertyType::Duration { .. } => PropertyValue::Duration(Span(span_ms(text()?)?)),
        PropertyType::Number { allowed, .. } => {
            let number = match json {
                Json::String(text) => text.trim().parse().ok(),
                json => json.as_u64().and_then(|number| u32::try_from(number).ok()),
            };
            let number = number.ok_or_else(|| format!("{json} is no such number: {allowed}"))?;
            PropertyValue::Number(number)
        }
        PropertyType::Flag(_) => PropertyValue::Flag(truth(json)?),
        PropertyType::Text { .. } => PropertyValue::Text(text()?.to_owned()),
        PropertyType::Destination(_) => {
            // Its id will do as well: its name is what comes last.
            let name = text()?;
            let name = match name.rsplit_once("/providers/") {
                Some((_, id)) => id.rsplit('/').next().unwrap_or_default().replace('~', "/"),
                None => name.replace('~', "/"),
            };
            PropertyValue::Destination(Some(name).filter(|name| !name.is_empty()))
        }
        PropertyType::Status(_) => PropertyValue::Status(status(text()?)?),
        PropertyType::AuthorizationRules(_) => return Ok(None),
    }))
}

fn truth(json: &Json) -> Result<bool, String> {
    let text = json.as_str().map(str::to_ascii_lowercase);
    match (json.as_bool(), text.as_deref()) {
        (Some(truth), _) => Ok(truth),
        (None, Some("true")) => Ok(true),
        (None, Some("false")) => Ok(false),
        (None, _) => Err(format!("{json} is neither true nor false")),
    }
}

fn status(text: &str) -> Result<EntityStatus, String> {
    document::status(text).map_err(|_| {
        format!("'{text}' is no status; there are Active, Disabled, SendDisabled, ReceiveDisabled")
    })
}

/// `PT1M`, and `0:01:00` or `14 days, 0:00:00`, as the command line shows it.
fn span_ms(text: &str) -> Result<u64, String> {
    if text.trim_start().starts_with(['P', 'p']) {
        return duration::parse_ms(text);
    }
    let told = || format!("'{text}' is no duration; write it like PT1M or P14D");
    let (days, clock) = match text.split_once(" day") {
        Some((days, clock)) => {
            let days: u64 = days.trim().parse().map_err(|_| told())?;
            (days, clock.trim_start_matches('s').trim_start_matches(',').trim())
        }
        None => (0, text.trim()),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = parts.as_slice() else { return Err(told()) };
    let whole = |part: &str| part.parse::<u64>().map_err(|_| told());
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    if fraction.is_empty() || !fraction.chars().all(|c| c.is_ascii_digit()) {
        return Err(told());
    }
    let (hours, minutes, seconds) = (whole(hours)?, whole(minutes)?, whole(seconds)?);
    let iso = format!("P{days}DT{hours}H{minutes}M{seconds}.{fraction}S");
    duration::parse_ms(&iso).map_err(|_| told())
}

/// Which of Listen, Send and Manage; all that is wrong with them is another's to say.
pub(super) fn rights(of: &Map<String, Json>) -> Option<Vec<String>> {
    let rights = access_rights(of).ok()?;
    let named = [(rights.listen, "listen"), (rights.send, "send"), (rights.manage, "manage")];
    Some(named.into_iter().filter(|(is, _)| *is).map(|(_, name)| name.to_owned()).collect())
}

pub(super) fn access_rights(of: &Map<String, Json>) -> Result<AccessRights, String> {
    let rights = of.iter().find(|(name, _)| name.eq_ignore_ascii_case("rights"));
    let (_, rights) = rights.ok_or("it lacks `rights`")?;
    rule::rights(rights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_azure_and_as_python_write_them() {
        const DAY_MS: u64 = 86_400_000;
        for (text, ms) in [
            ("PT1M", Some(60_000)),
            ("P1M", Some(30 * DAY_MS)),
            ("P10675199DT2H48M5.4775807S", Some(duration::NEVER_MS)),
            ("0:01:00", Some(60_000)),
            ("1 day, 0:00:00.5", Some(DAY_MS + 500)),
            ("14 days, 1:00:00", Some(14 * DAY_MS + 3_600_000)),
            ("10675199 days, 2:48:05.477581", Some(duration::NEVER_MS)),
            ("1m", None),
            ("90", None),
            ("1:00", None),
            ("x days, 0:00:00", None),
            ("0:00:é", None),
            ("0:00:1.e", None),
            ("", None),
        ] {
            assert_eq!(span_ms(text).ok(), ms, "{text}");
        }
    }
}
