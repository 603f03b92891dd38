//! What `az servicebus queue list`, `topic list`, `topic subscription list` and their like print as JSON:
//! a list of resources with their ids, their properties beside them or in `properties`.

use serde_json::{Map, Value as Json};

use super::{AzureResource, NAMESPACES};
use crate::{Lists, Problem};

/// What stands beside the properties.
const NO_PROPERTIES: &[&str] =
    &["id", "location", "name", "resourceGroup", "systemData", "tags", "type", "properties"];

/// None: it is no such list.
pub(crate) fn read(json: &Json, file: &str) -> Option<Result<Vec<AzureResource>, Vec<Problem>>> {
    let items = match json {
        Json::Array(items) => items.as_slice(),
        // What `show` prints.
        one @ Json::Object(_) => std::slice::from_ref(one),
        _ => return None,
    };
    let is_resource = |item: &Json| item.get("id").and_then(Json::as_str).is_some_and(is_ours);
    if json.is_object() && !items.iter().all(is_resource) {
        return None;
    }
    let (mut resources, mut problems) = (Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        let at = format!("'{file}': [{index}]");
        match resource(item, &at) {
            Some(resource) => resources.push(resource),
            None => {
                let why = "it has no `id` of something in a Service Bus namespace, as az prints it";
                problems.push(Problem::new(at, why));
            }
        }
    }
    Some(if problems.is_empty() { Ok(resources) } else { Err(problems) })
}

fn is_ours(id: &str) -> bool {
    id.to_ascii_lowercase().contains(NAMESPACES)
}

/// `…/providers/Microsoft.ServiceBus/namespaces/NAMESPACE/topics/T/subscriptions/S`.
fn resource(item: &Json, at: &str) -> Option<AzureResource> {
    let members = item.as_object()?;
    let id = members.get("id")?.as_str()?;
    let start = id.to_ascii_lowercase().find(NAMESPACES)? + NAMESPACES.len();
    let mut parts = id.get(start..)?.trim_matches('/').split('/').skip(1);
    let (mut kinds, mut names) = (Vec::new(), Vec::new());
    while let Some(kind) = parts.next() {
        kinds.push(kind.to_ascii_lowercase());
        names.push(parts.next()?.to_owned());
    }
    let mut properties: Map<String, Json> = members
        .iter()
        .filter(|(name, _)| !NO_PROPERTIES.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(Json::Object(more)) = members.get("properties") {
        properties.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    Some(AzureResource {
        at: at.to_owned(),
        kind: kinds.join("/"),
        names,
        properties,
        is_existing: false,
        lists: Lists::Whole,
    })
}
