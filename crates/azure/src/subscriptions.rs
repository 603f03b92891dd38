//! What stands above resource groups: the one tenant, the one subscription, and the providers in it.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::{Value, json};

use crate::ask::{Answer, Ask, LOCATION, Requester, told};
use crate::failure::Failure;
use crate::groups::Group;

const NAME: &str = "Mayfly";
const SERVICE_BUS: &str = "Microsoft.ServiceBus";
const RESOURCES: &str = "Microsoft.Resources";
/// Versions of the interface that clients are told of; others since the first one are taken as well.
const VERSIONS: [&str; 5] =
    ["2026-01-01", "2024-01-01", "2022-10-01-preview", "2021-11-01", "2017-04-01"];
const VERSIONS_OF_RESOURCES: [&str; 3] = ["2025-04-01", "2022-09-01", "2021-04-01"];
/// Types below a namespace, and what can be done to each.
const TYPES: [(&str, &[&str]); 9] = [
    ("namespaces", &["read", "write", "delete"]),
    ("namespaces/authorizationRules", ENTITY_RULES),
    ("namespaces/networkRuleSets", &["read", "write"]),
    ("namespaces/queues", &["read", "write", "delete"]),
    ("namespaces/queues/authorizationRules", ENTITY_RULES),
    ("namespaces/topics", &["read", "write", "delete"]),
    ("namespaces/topics/authorizationRules", ENTITY_RULES),
    ("namespaces/topics/subscriptions", &["read", "write", "delete"]),
    ("namespaces/topics/subscriptions/rules", &["read", "write", "delete"]),
];
const ENTITY_RULES: &[&str] =
    &["read", "write", "delete", "listkeys/action", "regenerateKeys/action"];

pub(crate) fn tenants(ask: &Ask<'_>) -> Answer {
    ask.page_of(vec![tenant(ask.requester)])
}

pub(crate) fn tenant(requester: &Requester) -> Value {
    json!({
        "id": format!("/tenants/{}", requester.tenant),
        "tenantId": requester.tenant.to_string(),
        "displayName": NAME,
        "tenantCategory": "Home",
    })
}

pub(crate) fn list(ask: &Ask<'_>) -> Answer {
    ask.page_of(vec![shown(ask.requester)])
}

pub(crate) fn get(ask: &Ask<'_>) -> Answer {
    told(shown(ask.requester))
}

pub(crate) fn shown(requester: &Requester) -> Value {
    json!({
        "id": format!("/subscriptions/{}", requester.subscription),
        "subscriptionId": requester.subscription.to_string(),
        "tenantId": requester.tenant.to_string(),
        "displayName": NAME,
        "state": "Enabled",
        "authorizationSource": "RoleBased",
        "managedByTenants": [],
        "subscriptionPolicies": {"locationPlacementId": "Mayfly", "quotaId": "Mayfly", "spendingLimit": "Off"},
    })
}

/// Where something is said to be, and where it is by itself.
pub(crate) fn locations(ask: &Ask<'_>) -> Answer {
    let groups = Group::all(ask).into_iter().map(|group| group.location);
    let names: BTreeSet<String> = groups.chain([LOCATION.to_owned()]).collect();
    let location = |name: &String| {
        json!({
            "id": format!("/subscriptions/{}/locations/{name}", ask.subscription),
            "name": name,
            "displayName": name,
            "regionalDisplayName": name,
            "type": "Region",
            "metadata": {"regionType": "Physical", "regionCategory": "Recommended"},
        })
    };
    told(json!({"value": names.iter().map(location).collect::<Vec<_>>()}))
}

pub(crate) fn providers(ask: &Ask<'_>) -> Answer {
    ask.page_of([SERVICE_BUS, RESOURCES].map(|name| provider_shown(ask, name)).into())
}

/// One of both, which are registered always: who registers one finds that done.
pub(crate) fn provider(ask: &Ask<'_>, name: &str) -> Answer {
    let known = [SERVICE_BUS, RESOURCES].into_iter().find(|known| known.eq_ignore_ascii_case(name));
    match known {
        Some(known) => told(provider_shown(ask, known)),
        None => Err(Failure::not_found(
            "InvalidResourceNamespace",
            format!(
                "The resource namespace '{}' is invalid: there are {SERVICE_BUS} and {RESOURCES} here.",
                domain::Excerpt(name)
            ),
        )),
    }
}

pub(crate) fn register(ask: &Ask<'_>, name: &str) -> Answer {
    match *ask.method {
        Method::POST => provider(ask, name),
        _ => Err(Failure::not_allowed(ask.method)),
    }
}

fn provider_shown(ask: &Ask<'_>, name: &str) -> Value {
    let types: Vec<Value> = match name {
        SERVICE_BUS => TYPES.iter().map(|(kind, _)| kind_shown(kind, &VERSIONS)).collect(),
        _ => ["resourceGroups", "deployments"]
            .map(|kind| kind_shown(kind, &VERSIONS_OF_RESOURCES))
            .into(),
    };
    json!({
        "id": format!("/subscriptions/{}/providers/{name}", ask.subscription),
        "namespace": name,
        "registrationPolicy": "RegistrationRequired",
        "registrationState": "Registered",
        "resourceTypes": types,
    })
}

fn kind_shown(kind: &str, versions: &[&str]) -> Value {
    json!({"resourceType": kind, "locations": [LOCATION], "apiVersions": versions, "capabilities": "None"})
}

/// What the provider can do.
pub(crate) fn operations(ask: &Ask<'_>) -> Answer {
    let of_type = |(kind, verbs): &(&str, &[&str])| {
        let of_verb = |verb: &&str| {
            json!({
                "name": format!("{SERVICE_BUS}/{kind}/{verb}"),
                "isDataAction": false,
                "display": {"provider": SERVICE_BUS, "resource": kind, "operation": verb, "description": ""},
            })
        };
        verbs.iter().map(of_verb).collect::<Vec<_>>()
    };
    ask.page_of(TYPES.iter().flat_map(of_type).collect())
}
