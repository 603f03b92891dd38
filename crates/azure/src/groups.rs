//! Resource groups: names and tags that clients gave, under which namespaces are told of.

use std::collections::BTreeMap;

use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ask::{Answer, Ask, LOCATION, Requester, gone, told};
use crate::failure::Failure;
use crate::namespaces::{self, Kept};
use crate::records;

pub(crate) type Tags = BTreeMap<String, String>;

/// Where namespaces are that no client of Resource Manager created: always there.
pub(crate) const DEFAULT_GROUP: &str = "mayfly";
const PREFIX: &str = "azure/groups/";
const NAME_CHARS_MAX: usize = 90;
/// Of one resource, and the lengths of a tag's name and value.
const TAGS_MAX: usize = 50;
const TAG_NAME_CHARS_MAX: usize = 512;
const TAG_VALUE_CHARS_MAX: usize = 256;

/// What is kept of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Group {
    /// As the client wrote it.
    pub name: String,
    pub location: String,
    pub tags: Tags,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupBody {
    location: Option<String>,
    tags: Option<Tags>,
    /// Told and not taken.
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(rename = "type")]
    _type: Option<IgnoredAny>,
    #[serde(rename = "properties")]
    _properties: Option<IgnoredAny>,
    managed_by: Option<String>,
}

impl Group {
    fn default_one() -> Group {
        let [name, location] = [DEFAULT_GROUP, LOCATION].map(str::to_owned);
        Group { name, location, tags: Tags::new() }
    }

    /// The one of that name, in whatever case.
    ///
    /// # Errors
    /// There is none.
    pub fn find(ask: &Ask<'_>, name: &str) -> Result<Group, Failure> {
        let found = kept(ask, name);
        let of_name = name.eq_ignore_ascii_case(DEFAULT_GROUP);
        found.or(of_name.then(Group::default_one)).ok_or_else(|| {
            let message = format!("Resource group '{name}' could not be found.");
            Failure::not_found("ResourceGroupNotFound", message)
        })
    }

    /// Of all, that of namespaces which nobody created here included.
    pub fn all(ask: &Ask<'_>) -> Vec<Group> {
        let rows = ask.broker.documents().list(PREFIX);
        let mut groups: Vec<Group> =
            rows.iter().filter_map(|row| serde_json::from_str(&row.text.0).ok()).collect();
        if !groups.iter().any(|group| group.name.eq_ignore_ascii_case(DEFAULT_GROUP)) {
            groups.insert(0, Group::default_one());
        }
        groups
    }

    pub fn shown(&self, requester: &Requester) -> Value {
        json!({
            "id": requester.group_id(&self.name),
            "name": self.name,
            "type": "Microsoft.Resources/resourceGroups",
            "location": self.location,
            "tags": self.tags,
            "properties": {"provisioningState": "Succeeded"},
        })
    }
}

fn kept(ask: &Ask<'_>, name: &str) -> Option<Group> {
    let row = ask.broker.documents().get(&document(name))?;
    serde_json::from_str(&row.text.0).ok()
}

fn document(name: &str) -> String {
    format!("{PREFIX}{}", name.to_lowercase())
}

/// As Resource Manager has them.
///
/// # Errors
/// Too many, or too long.
pub(crate) fn check_tags(tags: &Tags) -> Result<(), Failure> {
    if tags.len() > TAGS_MAX {
        let message =
            format!("A resource has {TAGS_MAX} tags at most, and {} are given.", tags.len());
        return Err(Failure::bad(message));
    }
    let is_long = |(name, value): &(&String, &String)| {
        let name = name.chars().count();
        name == 0 || name > TAG_NAME_CHARS_MAX || value.chars().count() > TAG_VALUE_CHARS_MAX
    };
    match tags.iter().find(is_long) {
        None => Ok(()),
        Some(_) => Err(Failure::bad(format!(
            "A tag's name has 1 to {TAG_NAME_CHARS_MAX} characters, its value {TAG_VALUE_CHARS_MAX} at most."
        ))),
    }
}

/// A location, as Azure writes its names.
pub(crate) fn location(written: Option<&str>) -> String {
    let written = written.unwrap_or(LOCATION);
    written.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

pub(crate) fn list(ask: &Ask<'_>) -> Answer {
    match *ask.method {
        Method::GET => {
            ask.page_of(Group::all(ask).iter().map(|group| group.shown(ask.requester)).collect())
        }
        _ => Err(Failure::not_allowed(ask.method)),
    }
}

pub(crate) async fn answer(ask: &Ask<'_>, name: &str) -> Answer {
    match *ask.method {
        Method::GET => told(Group::find(ask, name)?.shown(ask.requester)),
        Method::HEAD => Ok(match Group::find(ask, name) {
            Ok(_) => StatusCode::NO_CONTENT.into_response(),
            Err(_) => StatusCode::NOT_FOUND.into_response(),
        }),
        Method::PUT | Method::PATCH => put(ask, name).await,
        Method::DELETE => delete(ask, name).await,
        _ => Err(Failure::not_allowed(ask.method)),
    }
}

async fn put(ask: &Ask<'_>, name: &str) -> Answer {
    check_name(name)?;
    let body: GroupBody = ask.read()?;
    if body.managed_by.is_some() {
        return Err(Failure::not_here("managed applications"));
    }
    let before = Group::find(ask, name);
    let is_new = before.is_err();
    let group = match before {
        Err(missing) if *ask.method == Method::PATCH => return Err(missing),
        Err(_) => Group {
            name: name.to_owned(),
            location: location(body.location.as_deref()),
            tags: body.tags.unwrap_or_default(),
        },
        Ok(before) => {
            let location = body.location.as_deref().map(|written| location(Some(written)));
            if location.is_some_and(|location| location != before.location) {
                let message = format!(
                    "Invalid resource group location '{}'. The Resource group already exists in location '{}'.",
                    body.location.unwrap_or_default(),
                    before.location
                );
                let code = "InvalidResourceGroupLocation";
                return Err(Failure::new(StatusCode::CONFLICT, code, message));
            }
            let tags = match *ask.method {
                Method::PATCH => body.tags.unwrap_or(before.tags),
                _ => body.tags.unwrap_or_default(),
            };
            Group { tags, ..before }
        }
    };
    check_tags(&group.tags)?;
    let text = serde_json::to_string(&group).unwrap_or_default();
    ask.broker.documents().put(&document(name), text, false).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(group.shown(ask.requester))).into_response())
}

/// With its namespaces, and all that is in them.
async fn delete(ask: &Ask<'_>, name: &str) -> Answer {
    let Ok(group) = Group::find(ask, name) else { return gone(false) };
    if kept(ask, name).is_none() {
        let message = format!("The resource group '{DEFAULT_GROUP}' is always there.");
        return Err(Failure::new(StatusCode::CONFLICT, "ResourceGroupIsNotDeletable", message));
    }
    // Whoever carries one out ends, and makes nothing anew.
    for name in records::names(ask.broker, &group.name) {
        records::forget(ask.broker, &group.name, &name).await?;
    }
    for info in ask.broker.namespaces().list() {
        if !Kept::of(ask, &info.row).group.eq_ignore_ascii_case(&group.name) {
            continue;
        }
        if !namespaces::delete_all(ask, &info.row.name).await? {
            let message = format!("The namespace '{}' is still being deleted.", info.row.name);
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Err(Failure::new(status, "ServiceUnavailable", message).after_s(1));
        }
    }
    ask.broker.documents().remove(&document(name)).await?;
    gone(true)
}

fn check_name(name: &str) -> Result<(), Failure> {
    let is_allowed = |c: char| c.is_alphanumeric() || "-_.()".contains(c);
    let chars = name.chars().count();
    match (1..=NAME_CHARS_MAX).contains(&chars)
        && name.chars().all(is_allowed)
        && !name.ends_with('.')
    {
        true => Ok(()),
        false => Err(Failure::new(
            StatusCode::BAD_REQUEST,
            "InvalidResourceGroup",
            format!(
                "The provided resource group name '{}' has 1 to {NAME_CHARS_MAX} letters, digits and '-_.()', and \
                 does not end with '.'.",
                domain::Excerpt(name)
            ),
        )),
    }
}
