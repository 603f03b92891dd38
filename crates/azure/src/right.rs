//! What each request takes, what that is called in Azure, and what the audit is told of it.

use audit::Action;
use axum::http::Method;
use domain::Namespace;

use crate::caller::Taken;
use crate::path::{DeploymentPart, Part, Target, Within};

/// What a request takes.
pub(crate) fn taken(target: &Target, method: &Method) -> Taken {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    match target {
        Target::Within { what, .. } => match what {
            Within::Group { .. } if !reads => Taken::Operate,
            // It may make anything, and its outputs may be keys.
            Within::Deployments { .. } | Within::Deployment { .. } => Taken::Operate,
            Within::Namespace { name, part, .. } => {
                let Ok(namespace) = Namespace::named(name) else {
                    // Nothing is there for whoever asks.
                    return if reads { Taken::Token } else { Taken::Operate };
                };
                match part {
                    // What is not there yet nobody manages.
                    Part::Itself if matches!(*method, Method::PUT | Method::DELETE) => {
                        Taken::Operate
                    }
                    part => Taken::Manage { namespace, entity: part.entity().to_owned() },
                }
            }
            Within::Subscription
            | Within::Locations
            | Within::Providers
            | Within::Provider { .. }
            | Within::Registration { .. }
            | Within::Groups
            | Within::Group { .. }
            | Within::Resources { .. }
            | Within::NameCheck
            | Within::Deletion { .. }
            | Within::Namespaces { .. }
            | Within::Absent { .. } => Taken::Token,
        },
        _ => Taken::Token,
    }
}

/// What is asked for, in Azure's words.
pub(crate) fn action_name(target: &Target, method: &Method) -> String {
    let kind = match target {
        Target::Within { what: Within::Group { .. }, .. } => {
            "Microsoft.Resources/subscriptions/resourceGroups".to_owned()
        }
        Target::Within { what: Within::Namespace { part, .. }, .. } => {
            let below = match part {
                Part::Queues | Part::Queue { .. } => "/queues",
                Part::Topics | Part::Topic { .. } => "/topics",
                Part::Subscriptions { .. } | Part::Subscription { .. } => "/topics/subscriptions",
                Part::Rules { .. } | Part::Rule { .. } => "/topics/subscriptions/rules",
                Part::AuthorizationRules { .. } | Part::AuthorizationRule { .. } => {
                    "/authorizationRules"
                }
                Part::ListKeys { .. } => "/authorizationRules/listKeys",
                Part::RegenerateKeys { .. } => "/authorizationRules/regenerateKeys",
                Part::NetworkRuleSets | Part::NetworkRuleSet => "/networkRuleSets",
                Part::Itself | Part::AbsentList | Part::Absent { .. } => "",
            };
            format!("Microsoft.ServiceBus/namespaces{below}")
        }
        Target::Within { what: Within::Deployments { .. } | Within::Deployment { .. }, .. } => {
            "Microsoft.Resources/deployments".to_owned()
        }
        _ => "Microsoft.Resources/subscriptions".to_owned(),
    };
    let verb = match *method {
        Method::GET | Method::HEAD => "read",
        Method::DELETE => "delete",
        Method::POST => "action",
        _ => "write",
    };
    format!("{kind}/{verb}")
}

/// What the audit is told of, where, and of which object.
pub(crate) fn audited(target: &Target, method: &Method) -> Option<(Action, Namespace, String)> {
    let Target::Within { what, .. } = target else { return None };
    let changed = |put: Action, delete: Action| match *method {
        Method::PUT | Method::PATCH => Some(put),
        Method::DELETE => Some(delete),
        _ => None,
    };
    match what {
        Within::Group { name } => {
            let action = changed(Action::GroupPut, Action::GroupDelete)?;
            Some((action, Namespace::DEFAULT, name.clone()))
        }
        Within::Deployment { group, name, part } => {
            let action = match part {
                DeploymentPart::Itself => changed(Action::DeploymentPut, Action::DeploymentDelete)?,
                DeploymentPart::Cancel => Action::DeploymentCancel,
                _ => return None,
            };
            Some((action, Namespace::DEFAULT, format!("{group}/{name}")))
        }
        Within::Namespace { name, part, .. } => {
            let namespace = Namespace::named(name).ok()?;
            let (action, object) = match part {
                Part::Itself => {
                    let (put, delete) = (Action::NamespaceCreate, Action::NamespaceDelete);
                    let put = if *method == Method::PATCH { Action::NamespaceUpdate } else { put };
                    let action = changed(put, delete)?;
                    return Some((action, Namespace::DEFAULT, name.clone()));
                }
                Part::Queue { name } | Part::Topic { name } => {
                    (changed(Action::EntityCreate, Action::EntityDelete)?, name.clone())
                }
                Part::Subscription { topic, name } => {
                    let path = domain::subscription_path(topic, name);
                    (changed(Action::EntityCreate, Action::EntityDelete)?, path)
                }
                Part::Rule { topic, subscription, name } => {
                    let of = domain::subscription_path(topic, subscription);
                    (changed(Action::RulePut, Action::RuleDelete)?, format!("{of}/rules/{name}"))
                }
                Part::RegenerateKeys { of, .. } if *method == Method::POST => {
                    return Some(of_holder(of.entity(), name, namespace));
                }
                Part::AuthorizationRule { of, .. } => {
                    changed(Action::EntityUpdate, Action::EntityUpdate)?;
                    return Some(of_holder(of.entity(), name, namespace));
                }
                Part::NetworkRuleSet => {
                    changed(Action::NamespaceUpdate, Action::NamespaceUpdate)?;
                    return Some((Action::NamespaceUpdate, Namespace::DEFAULT, name.clone()));
                }
                Part::AuthorizationRules { .. }
                | Part::ListKeys { .. }
                | Part::RegenerateKeys { .. }
                | Part::NetworkRuleSets
                | Part::Queues
                | Part::Topics
                | Part::Subscriptions { .. }
                | Part::Rules { .. }
                | Part::AbsentList
                | Part::Absent { .. } => return None,
            };
            Some((action, namespace, object))
        }
        _ => None,
    }
}

/// Rules and keys of an entity, or of a namespace.
fn of_holder(entity: &str, name: &str, namespace: Namespace) -> (Action, Namespace, String) {
    match entity {
        "" => (Action::NamespaceUpdate, Namespace::DEFAULT, name.to_owned()),
        entity => (Action::EntityUpdate, namespace, entity.to_owned()),
    }
}
