//! What a deployment would change: what each resource is, beside what it would be by the same code that would make it so.

use arm_template::{Resource, placeholder};
use axum::http::Method;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::inner_ask;
use super::plan::Plan;
use crate::ask::Ask;
use crate::namespaces;

/// What is told of a resource, and is nobody's to say.
const TOLD_ONLY: [&str; 12] = [
    "accessedAt",
    "countDetails",
    "createdAt",
    "messageCount",
    "metricId",
    "privateEndpointConnections",
    "provisioningState",
    "serviceBusEndpoint",
    "sizeInBytes",
    "subscriptionCount",
    "updatedAt",
    "systemData",
];

pub(super) async fn answer(plan: &Plan, ask: &Ask<'_>) -> Value {
    let tried = match plan.tried().await {
        Ok(tried) => tried,
        Err(failure) => return json!({"status": "Failed", "error": failure.error()}),
    };
    let mut changes = Vec::new();
    let resources = tried.evaluation.resources.iter().zip(tried.told);
    for (resource, told) in resources.filter(|(resource, _)| !resource.is_existing) {
        let id = plan.id(resource);
        let before = inner_ask::ask(&plan.requester, &Method::GET, &id, Bytes::new(), None).await;
        let before = before.status.is_success().then(|| said(before.body, &resource.api_version));
        let after = told.map(|told| said(told.body, &resource.api_version));
        changes.push(change(resource, &id, before, after, plan.request.ids_only));
    }
    let named: Vec<&str> =
        tried.evaluation.resources.iter().map(|resource| &*resource.name).collect();
    changes.extend(ignored(plan, ask, &named));
    json!({"status": "Succeeded", "properties": {"changes": changes}})
}

/// `after`: none where it depends on what is not known before.
fn change(
    resource: &Resource,
    id: &str,
    before: Option<Value>,
    after: Option<Value>,
    ids_only: bool,
) -> Value {
    let deltas = match (&before, &after) {
        (Some(before), Some(after)) => delta("", before, after),
        _ => Vec::new(),
    };
    let kind = match (&before, &after) {
        (None, _) => "Create",
        (Some(_), None) => "Deploy",
        (Some(_), Some(_)) if deltas.is_empty() => "NoChange",
        (Some(_), Some(_)) => "Modify",
    };
    if ids_only {
        let kind = if before.is_some() { "Deploy" } else { kind };
        return json!({"resourceId": id, "changeType": kind});
    }
    let mut shown = json!({"resourceId": id, "changeType": kind});
    let after = match &before {
        // What the template says, rather than all that follows from that.
        None => Some(asked(resource, id)),
        Some(_) => after,
    };
    for (name, value) in [("before", before), ("after", after)] {
        if let Some(value) = value {
            shown[name] = value;
        }
    }
    if !deltas.is_empty() {
        shown["delta"] = json!(deltas);
    }
    shown
}

fn asked(resource: &Resource, id: &str) -> Value {
    let mut members = Map::new();
    let name = resource.name.rsplit('/').next().unwrap_or_default();
    for (member, value) in [
        ("apiVersion", &*resource.api_version),
        ("id", id),
        ("name", name),
        ("type", &*resource.kind),
    ] {
        members.insert(member.to_owned(), json!(value));
    }
    let body = resource.body.iter().filter(|(_, value)| !value.is_null());
    members.extend(body.map(|(name, value)| (name.clone(), placeholder::shown(value))));
    Value::Object(members)
}

/// Of what is told of a resource, what clients say.
fn said(mut told: Value, api_version: &str) -> Value {
    if let Some(properties) = told["properties"].as_object_mut() {
        properties.retain(|name, _| !TOLD_ONLY.contains(&name.as_str()));
    }
    if told["type"].as_str().is_some_and(|kind| kind.matches('/').count() == 1)
        && let Some(properties) = told["properties"].as_object_mut()
    {
        // Of a namespace it is told only.
        properties.remove("status");
    }
    told["apiVersion"] = json!(api_version);
    told
}

/// What differs, by paths like `properties.lockDuration`.
fn delta(path: &str, before: &Value, after: &Value) -> Vec<Value> {
    if before == after {
        return Vec::new();
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        let change = json!({
            "path": path, "propertyChangeType": "Modify", "before": before, "after": after,
        });
        return vec![change];
    };
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    let mut deltas = Vec::new();
    for (name, value) in old {
        match new.get(name) {
            Some(other) => deltas.extend(delta(&below(name), value, other)),
            None => deltas.push(json!({
                "path": below(name), "propertyChangeType": "Delete", "before": value, "after": null,
            })),
        }
    }
    let added = new.iter().filter(|(name, _)| !old.contains_key(*name));
    deltas.extend(added.map(|(name, value)| {
        json!({
            "path": below(name), "propertyChangeType": "Create", "before": null, "after": value,
        })
    }));
    deltas
}

/// Namespaces of the group that the template does not name.
fn ignored(plan: &Plan, ask: &Ask<'_>, named: &[&str]) -> Vec<Value> {
    let is_named = |one: &Value| {
        let name = one["name"].as_str().unwrap_or_default();
        named
            .iter()
            .any(|known| known.split('/').next().is_some_and(|of| of.eq_ignore_ascii_case(name)))
    };
    let all = namespaces::shown(ask, Some(&plan.group.name)).unwrap_or_default();
    let others = all.into_iter().filter(|one| !is_named(one));
    others
        .map(|one| json!({"resourceId": one["id"], "changeType": "Ignore", "before": one}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_by_its_path() {
        let before = json!({"a": 1, "b": {"c": 2, "d": [1]}, "gone": true});
        let after = json!({"a": 1, "b": {"c": 3, "d": [1, 2]}, "new": "x"});
        let told: Vec<String> = delta("", &before, &after)
            .iter()
            .map(|one| {
                let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
                format!(
                    "{} {} {} {}",
                    text("propertyChangeType"),
                    text("path"),
                    one["before"],
                    one["after"]
                )
            })
            .collect();
        let expected = [
            "Modify b.c 2 3",
            "Modify b.d [1] [1,2]",
            "Delete gone true null",
            "Create new null \"x\"",
        ];
        assert_eq!(told, expected);
        assert!(delta("", &before, &before).is_empty());
    }
}
