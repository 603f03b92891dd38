//! What a request is about, by its path.

use axum::http::Uri;
use percent_encoding::percent_decode_str;

/// What clients of Resource Manager always send, as a date: those that manage entities over HTTP send year and month.
const API_VERSION: &str = "api-version";
const PROVIDER: &str = "microsoft.servicebus";
const RESOURCES: &str = "microsoft.resources";
/// Of Resource Manager itself: each is the first part of a path.
const ROOTS: [&str; 4] = ["metadata", "tenants", "subscriptions", "providers"];

/// What a request is about. Names are as the client wrote them, and in an entity's a `~` is a `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Where everything is, for whoever has only this address.
    Metadata,
    /// Which authorities there are, as MSAL asks.
    Instances,
    /// OpenID's document of the authority; `is_v2`: of its second version.
    Configuration {
        tenant: String,
        is_v2: bool,
    },
    /// The keys that tokens are signed with.
    SigningKeys,
    Token {
        tenant: String,
        is_v2: bool,
    },
    /// Ways to sign in that take a person.
    Interactive,
    Tenants,
    Subscriptions,
    /// What the provider can do.
    Operations,
    Within {
        subscription: String,
        what: Within,
    },
    Unknown,
}

/// A part of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    Subscription,
    Locations,
    Providers,
    Provider {
        name: String,
    },
    Registration {
        name: String,
    },
    Groups,
    Group {
        name: String,
    },
    /// All of the subscription's, or of the group's.
    Resources {
        group: Option<String>,
    },
    NameCheck,
    /// Whether a deletion is over.
    Deletion {
        namespace: String,
    },
    Deployments {
        group: String,
    },
    Deployment {
        group: String,
        name: String,
        part: DeploymentPart,
    },
    Namespaces {
        group: Option<String>,
    },
    Namespace {
        group: String,
        name: String,
        part: Part,
    },
    /// Something that there is in Azure and not here, by its type.
    Absent {
        kind: String,
    },
}

/// A part of a deployment, or what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeploymentPart {
    Itself,
    Validate,
    WhatIf,
    Cancel,
    Operations,
    Operation {
        id: String,
    },
    /// Whether it is over.
    Status,
    Absent {
        kind: String,
    },
}

/// A part of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Itself,
    AuthorizationRules {
        of: Holder,
    },
    AuthorizationRule {
        of: Holder,
        name: String,
    },
    ListKeys {
        of: Holder,
        name: String,
    },
    RegenerateKeys {
        of: Holder,
        name: String,
    },
    NetworkRuleSets,
    NetworkRuleSet,
    Queues,
    Queue {
        name: String,
    },
    Topics,
    Topic {
        name: String,
    },
    Subscriptions {
        topic: String,
    },
    Subscription {
        topic: String,
        name: String,
    },
    Rules {
        topic: String,
        subscription: String,
    },
    Rule {
        topic: String,
        subscription: String,
        name: String,
    },
    /// There is no such thing here; a list of them is empty.
    AbsentList,
    Absent {
        kind: String,
    },
}

/// What has authorization rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Namespace,
    Queue(String),
    Topic(String),
}

impl Part {
    /// The entity that rights are asked for on; empty: the namespace.
    pub fn entity(&self) -> &str {
        match self {
            Part::AuthorizationRules { of }
            | Part::AuthorizationRule { of, .. }
            | Part::ListKeys { of, .. }
            | Part::RegenerateKeys { of, .. } => of.entity(),
            Part::Queue { name } | Part::Topic { name } => name,
            Part::Subscriptions { topic }
            | Part::Subscription { topic, .. }
            | Part::Rules { topic, .. }
            | Part::Rule { topic, .. } => topic,
            Part::Itself
            | Part::NetworkRuleSets
            | Part::NetworkRuleSet
            | Part::Queues
            | Part::Topics
            | Part::AbsentList
            | Part::Absent { .. } => "",
        }
    }
}

impl Holder {
    pub fn entity(&self) -> &str {
        match self {
            Holder::Namespace => "",
            Holder::Queue(name) | Holder::Topic(name) => name,
        }
    }
}

/// Lists in a namespace of what there is not here.
const ABSENT_LISTS: [&str; 5] = [
    "privateendpointconnections",
    "privatelinkresources",
    "disasterrecoveryconfigs",
    "migrationconfigurations",
    "networksecurityperimeterconfigurations",
];

/// Whether a request is one of Azure's tools. An entity may be called like a part of the path: what is asked of it has
/// the version of another interface, or none.
pub fn is_for(uri: &Uri) -> bool {
    let path = uri.path().to_ascii_lowercase();
    let is_of_authority = path.ends_with("/oauth2/token")
        || path.contains("/oauth2/v2.0/")
        || path.ends_with("/.well-known/openid-configuration")
        || path.ends_with("/discovery/v2.0/keys")
        || path.ends_with("/discovery/instance");
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match api_version(uri) {
        None => is_of_authority,
        Some(version) => {
            (ROOTS.contains(&first) && is_date(&version))
                || (path.ends_with("/discovery/instance") && is_of_authority)
        }
    }
}

/// Which version of the interface a request is for.
pub(crate) fn api_version(uri: &Uri) -> Option<String> {
    let mut query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let found = query.find(|(name, _)| name.eq_ignore_ascii_case(API_VERSION));
    found.map(|(_, version)| version.into_owned())
}

/// `2017-04-01`, and what may stand behind it.
fn is_date(version: &str) -> bool {
    let mut parts = version.splitn(4, '-');
    let [year, month, day] = [4, 2, 2].map(|digits| {
        parts.next().is_some_and(|part| {
            part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())
        })
    });
    year && month && day
}

/// Reads a path as it was sent.
pub(crate) fn target(path: &str) -> Target {
    let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
    let names: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
    let lower: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let tenant = || names.first().cloned().unwrap_or_default();
    match lower.as_slice() {
        ["metadata", "endpoints"] => Target::Metadata,
        [.., "discovery", "instance"] => Target::Instances,
        [_, "v2.0", ".well-known", "openid-configuration"] => {
            Target::Configuration { tenant: tenant(), is_v2: true }
        }
        [_, ".well-known", "openid-configuration"] => {
            Target::Configuration { tenant: tenant(), is_v2: false }
        }
        [_, "discovery", "v2.0", "keys"] => Target::SigningKeys,
        [_, "oauth2", "v2.0", "token"] => Target::Token { tenant: tenant(), is_v2: true },
        [_, "oauth2", "token"] => Target::Token { tenant: tenant(), is_v2: false },
        [_, "oauth2", ..] => Target::Interactive,
        ["tenants"] => Target::Tenants,
        ["subscriptions"] => Target::Subscriptions,
        ["providers", PROVIDER, "operations"] => Target::Operations,
        ["subscriptions", _, rest @ ..] => {
            let what = within(rest, &names[2..]);
            Target::Within { subscription: names[1].clone(), what }
        }
        _ => Target::Unknown,
    }
}

/// `lower` are the parts of `names`, in lower case.
fn within(lower: &[&str], names: &[String]) -> Within {
    let name = |index: usize| names[index].clone();
    match lower {
        [] => Within::Subscription,
        ["locations"] => Within::Locations,
        ["providers"] => Within::Providers,
        ["providers", _] => Within::Provider { name: name(1) },
        ["providers", _, "register"] => Within::Registration { name: name(1) },
        ["resourcegroups"] => Within::Groups,
        ["resources"] => Within::Resources { group: None },
        ["resourcegroups", _] => Within::Group { name: name(1) },
        ["resourcegroups", _, "resources"] => Within::Resources { group: Some(name(1)) },
        ["providers", PROVIDER, "checknameavailability"] => Within::NameCheck,
        ["providers", PROVIDER, "locations", _, "operationresults", _] => {
            Within::Deletion { namespace: name(5) }
        }
        ["providers", PROVIDER, "namespaces"] => Within::Namespaces { group: None },
        ["resourcegroups", _, "providers", RESOURCES, "deployments"] => {
            Within::Deployments { group: name(1) }
        }
        ["resourcegroups", _, "providers", RESOURCES, "deployments", _, rest @ ..] => {
            let part = deployment_part(rest, &names[6..]);
            Within::Deployment { group: name(1), name: name(5), part }
        }
        // Operations are asked for without their provider.
        ["resourcegroups", _, "deployments", _, rest @ ..] => {
            let part = deployment_part(rest, &names[4..]);
            Within::Deployment { group: name(1), name: name(3), part }
        }
        ["resourcegroups", _, "providers", PROVIDER, "namespaces"] => {
            Within::Namespaces { group: Some(name(1)) }
        }
        ["resourcegroups", _, "providers", PROVIDER, "namespaces", _, rest @ ..] => {
            let part = part(rest, &names[6..]);
            Within::Namespace { group: name(1), name: name(5), part }
        }
        [.., "providers", _, _] | [.., "providers", _, _, _] => {
            let from = lower.iter().rposition(|part| *part == "providers").unwrap_or_default();
            Within::Absent { kind: format!("{}/{}", names[from + 1], names[from + 2]) }
        }
        _ => Within::Absent { kind: names.join("/") },
    }
}

fn deployment_part(lower: &[&str], names: &[String]) -> DeploymentPart {
    match lower {
        [] => DeploymentPart::Itself,
        ["validate"] => DeploymentPart::Validate,
        ["whatif"] => DeploymentPart::WhatIf,
        ["cancel"] => DeploymentPart::Cancel,
        ["operations"] => DeploymentPart::Operations,
        ["operations", _] => DeploymentPart::Operation { id: names[1].clone() },
        ["operationstatuses", _] => DeploymentPart::Status,
        _ => DeploymentPart::Absent { kind: names.join("/") },
    }
}

fn part(lower: &[&str], names: &[String]) -> Part {
    let name = |index: usize| names[index].clone();
    let entity = |index: usize| names[index].replace('~', "/");
    match lower {
        [] => Part::Itself,
        ["authorizationrules", rest @ ..] => authorization(rest, &names[1..], Holder::Namespace),
        ["queues", _, "authorizationrules", rest @ ..] => {
            authorization(rest, &names[3..], Holder::Queue(entity(1)))
        }
        ["topics", _, "authorizationrules", rest @ ..] => {
            authorization(rest, &names[3..], Holder::Topic(entity(1)))
        }
        ["networkrulesets"] => Part::NetworkRuleSets,
        ["networkrulesets", "default"] => Part::NetworkRuleSet,
        ["queues"] => Part::Queues,
        ["queues", _] => Part::Queue { name: entity(1) },
        ["topics"] => Part::Topics,
        ["topics", _] => Part::Topic { name: entity(1) },
        ["topics", _, "subscriptions"] => Part::Subscriptions { topic: entity(1) },
        ["topics", _, "subscriptions", _] => Part::Subscription { topic: entity(1), name: name(3) },
        ["topics", _, "subscriptions", _, "rules"] => {
            Part::Rules { topic: entity(1), subscription: name(3) }
        }
        ["topics", _, "subscriptions", _, "rules", _] => {
            Part::Rule { topic: entity(1), subscription: name(3), name: name(5) }
        }
        [list] if ABSENT_LISTS.contains(list) => Part::AbsentList,
        _ => Part::Absent { kind: names.join("/") },
    }
}

fn authorization(lower: &[&str], names: &[String], of: Holder) -> Part {
    let name = || names[0].clone();
    match lower {
        [] => Part::AuthorizationRules { of },
        [_] => Part::AuthorizationRule { of, name: name() },
        [_, "listkeys"] => Part::ListKeys { of, name: name() },
        [_, "regeneratekeys"] => Part::RegenerateKeys { of, name: name() },
        _ => Part::Absent { kind: names.join("/") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn azures_tools_are_told_from_clients_that_manage_entities() {
        for (uri, is_azures) in [
            ("/metadata/endpoints?api-version=2022-09-01", true),
            ("/subscriptions?api-version=2022-12-01", true),
            ("/SUBSCRIPTIONS/1/resourcegroups/g?Api-Version=2021-04-01-preview", true),
            ("/tenants?api-version=2022-12-01", true),
            ("/t/oauth2/v2.0/token", true),
            ("/t/oauth2/token", true),
            ("/t/oauth2/v2.0/devicecode", true),
            ("/t/v2.0/.well-known/openid-configuration", true),
            ("/common/discovery/instance?api-version=1.1&authorization_endpoint=x", true),
            // Entities of such names.
            ("/subscriptions", false),
            ("/subscriptions?api-version=2021-05", false),
            ("/subscriptions/messages", false),
            ("/tenants/subscriptions/s?api-version=2017-04", false),
            ("/t/oauth2/token?api-version=2021-05", false),
            ("/orders?api-version=2022-10-01", false),
        ] {
            assert_eq!(is_for(&uri.parse().expect("a path")), is_azures, "{uri}");
        }
    }

    #[test]
    fn paths_name_resources_whatever_their_case() {
        const NAMESPACE: &str =
            "/subscriptions/S/resourceGroups/G/providers/Microsoft.ServiceBus/namespaces/Orders";
        let of = |part| Target::Within {
            subscription: "S".into(),
            what: Within::Namespace { group: "G".into(), name: "Orders".into(), part },
        };
        for (below, part) in [
            ("", Part::Itself),
            ("/Queues", Part::Queues),
            ("/queues/a~b", Part::Queue { name: "a/b".into() }),
            ("/queues/a%2Fb", Part::Queue { name: "a/b".into() }),
            (
                "/AuthorizationRules/R/listKeys",
                Part::ListKeys { of: Holder::Namespace, name: "R".into() },
            ),
            (
                "/topics/t/authorizationRules/R",
                Part::AuthorizationRule { of: Holder::Topic("t".into()), name: "R".into() },
            ),
            (
                "/topics/t/subscriptions/s/rules/r",
                Part::Rule { topic: "t".into(), subscription: "s".into(), name: "r".into() },
            ),
            ("/networkRuleSets/default", Part::NetworkRuleSet),
            ("/privateEndpointConnections", Part::AbsentList),
            (
                "/privateEndpointConnections/x",
                Part::Absent { kind: "privateEndpointConnections/x".into() },
            ),
        ] {
            assert_eq!(target(&format!("{NAMESPACE}{below}")), of(part), "{below}");
            let lower = target(&format!("{NAMESPACE}{below}").to_ascii_lowercase());
            assert!(matches!(lower, Target::Within { what: Within::Namespace { .. }, .. }));
        }
        for (below, part) in [
            ("providers/Microsoft.Resources/deployments/d", DeploymentPart::Itself),
            ("providers/microsoft.resources/Deployments/d/whatIf", DeploymentPart::WhatIf),
            ("deployments/d/operations", DeploymentPart::Operations),
            ("deployments/d/operations/1", DeploymentPart::Operation { id: "1".into() }),
            (
                "providers/Microsoft.Resources/deployments/d/exportTemplate",
                DeploymentPart::Absent { kind: "exportTemplate".into() },
            ),
        ] {
            let what = Within::Deployment { group: "G".into(), name: "d".into(), part };
            let path = format!("/subscriptions/S/resourcegroups/G/{below}");
            assert_eq!(target(&path), Target::Within { subscription: "S".into(), what }, "{path}");
        }
        let other = target("/subscriptions/S/resourceGroups/G/providers/Microsoft.Web/sites/x");
        let kind = "Microsoft.Web/sites".to_owned();
        let what = Within::Absent { kind };
        assert_eq!(other, Target::Within { subscription: "S".into(), what });
        assert_eq!(target("/providers"), Target::Unknown);
    }
}
