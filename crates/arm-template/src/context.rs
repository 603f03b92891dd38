//! What is known around a template: where it is deployed, and what was answered of resources that are there.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::placeholder;

/// What a template asks of a resource that it cannot know by itself. Ids are in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// The resource as it is told: `reference(id)`.
    Resource { id: String },
    /// What a POST of that name answers: `listKeys(id)`.
    List { function: String, id: String },
}

impl Question {
    pub fn id(&self) -> &str {
        match self {
            Question::Resource { id } | Question::List { id, .. } => id,
        }
    }
}

/// Where a template is evaluated, and what is known there.
#[derive(Clone, Debug)]
pub struct Context {
    /// `/subscriptions/…`
    pub subscription_id: String,
    pub group_name: String,
    /// `resourceGroup()`, `subscription()`, `tenant()` and `environment()`.
    pub group: Value,
    pub subscription: Value,
    pub tenant: Value,
    pub environment: Value,
    /// Of the deployment; empty: there is none.
    pub deployment_name: String,
    /// Year, month, day, hour, minute and second.
    pub now: Option<[u16; 6]>,
    /// To questions of former evaluations. `None`: nobody answers, and what depends on an answer is refused.
    pub answers: Option<BTreeMap<Question, Value>>,
}

impl Context {
    /// Of a file that is read apart from any cluster: names are made up, nothing is answered.
    pub fn nowhere() -> Context {
        const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";
        const GROUP: &str = "local";
        let id = format!("/subscriptions/{SUBSCRIPTION}");
        let known = |what: &str, of: Value| {
            placeholder::object(what, of.as_object().cloned().unwrap_or_default())
        };
        let group = json!({
            "id": format!("{id}/resourceGroups/{GROUP}"), "name": GROUP, "location": "local",
        });
        let unknown = |what: &str| placeholder::object(what, Map::new());
        Context {
            group_name: GROUP.to_owned(),
            group: known("resourceGroup()", group),
            subscription: known(
                "subscription()",
                json!({"id": &id, "subscriptionId": SUBSCRIPTION}),
            ),
            subscription_id: id,
            tenant: unknown("tenant()"),
            environment: unknown("environment()"),
            deployment_name: String::new(),
            now: None,
            answers: None,
        }
    }

    pub(crate) fn is_deployed(&self) -> bool {
        self.answers.is_some()
    }

    pub fn group_id(&self) -> String {
        format!("{}/resourceGroups/{}", self.subscription_id, self.group_name)
    }

    /// Of a resource of the group: the names go with the parts of its type.
    pub fn resource_id(&self, kind: &str, name: &str) -> String {
        format!("{}{}", self.group_id(), id_end(kind, name))
    }

    pub(crate) fn answer(&self, question: &Question) -> Option<&Value> {
        self.answers.as_ref()?.get(question)
    }
}

/// `/providers/Some.Provider/type/name/type/name`.
pub(crate) fn id_end(kind: &str, name: &str) -> String {
    let (provider, types) = kind.split_once('/').unwrap_or((kind, ""));
    let pairs = types.split('/').zip(name.split('/'));
    pairs.fold(format!("/providers/{provider}"), |id, (kind, name)| format!("{id}/{kind}/{name}"))
}
