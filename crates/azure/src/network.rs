//! Rules for networks: there is one set of them, and it lets everybody in.

use axum::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ask::{Answer, Ask, told};
use crate::failure::Failure;
use crate::namespaces::Place;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RuleSet {
    default_action: Option<String>,
    public_network_access: Option<String>,
    trusted_service_access_enabled: Option<bool>,
    ip_rules: Option<Vec<Value>>,
    virtual_network_rules: Option<Vec<Value>>,
}

pub(crate) async fn answer(ask: &Ask<'_>, place: Place) -> Answer {
    match *ask.method {
        Method::GET => told(shown(ask, &place)),
        Method::PUT => put(ask, place).await,
        _ => Err(Failure::not_allowed(ask.method)),
    }
}

pub(crate) fn list(ask: &Ask<'_>, place: &Place) -> Answer {
    match *ask.method {
        Method::GET => ask.page_of(vec![shown(ask, place)]),
        _ => Err(Failure::not_allowed(ask.method)),
    }
}

async fn put(ask: &Ask<'_>, mut place: Place) -> Answer {
    let set: RuleSet = ask.properties()?;
    let is_other = |said: &Option<String>, known: &str| {
        said.as_ref().is_some_and(|said| !said.eq_ignore_ascii_case(known))
    };
    let is_some = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if is_other(&set.default_action, "Allow")
        || is_other(&set.public_network_access, "Enabled")
        || is_some(&set.ip_rules)
        || is_some(&set.virtual_network_rules)
    {
        return Err(Failure::not_here("rules for networks: firewalls before its nodes have them"));
    }
    if let Some(trusted) = set.trusted_service_access_enabled {
        place.kept.trusted_service_access_enabled = trusted;
        if ask.trial.is_none() {
            place.kept.put(ask, place.namespace.as_str()).await?;
        }
    }
    told(shown(ask, &place))
}

fn shown(ask: &Ask<'_>, place: &Place) -> Value {
    json!({
        "id": format!("{}/networkRuleSets/default", place.id(ask)),
        "name": "default",
        "type": "Microsoft.ServiceBus/Namespaces/NetworkRuleSets",
        "location": place.kept.location,
        "properties": {
            "publicNetworkAccess": "Enabled",
            "defaultAction": "Allow",
            "virtualNetworkRules": [],
            "ipRules": [],
            "trustedServiceAccessEnabled": place.kept.trusted_service_access_enabled,
        },
    })
}
