//! Resources of Azure, as its templates and its command line tell of them: one shape, however they came.

mod arm;
mod cli;
mod export;
mod property;
pub mod resource_body;
mod rule;

pub(crate) use arm::{TemplateFile, read as read_template};
pub(crate) use cli::read as read_list;
pub use export::write as write_template;

use std::collections::BTreeMap;

use domain::{AuthorizationRule, Described, EntityProperty, Patch, PropertyType, PropertyValue};
use serde_json::{Map, Value as Json};

use crate::{
    Definitions, EntityDefinition, EntityPath, Lists, Problem, RuleDefinition,
    SubscriptionDefinition,
};

/// The provider and the type of what holds all others.
pub(crate) const NAMESPACES: &str = "microsoft.servicebus/namespaces";

/// What belongs to a namespace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AzureResource {
    pub at: String,
    /// Behind the namespace's, in lower case: `topics/subscriptions`; empty for the namespace itself.
    pub kind: String,
    /// As many as the type has parts.
    pub names: Vec<String>,
    pub properties: Map<String, Json>,
    /// It is only referred to.
    pub is_existing: bool,
    pub lists: Lists,
}

/// Resources as definitions, in whatever order they come.
#[derive(Default)]
struct Collection {
    definitions: Definitions,
    problems: Vec<Problem>,
    /// Kinds of resources that a cluster does not have, with how many there are.
    others: BTreeMap<String, usize>,
}

/// # Errors
/// Everything that cannot be had, each with its place.
pub(crate) fn definitions(resources: Vec<AzureResource>) -> Result<Definitions, Vec<Problem>> {
    let mut collection = Collection::default();
    // What belongs to an entity comes after it.
    let rank = |resource: &AzureResource| match resource.kind.as_str() {
        "queues" | "topics" => 0,
        "topics/subscriptions" => 1,
        _ => 2,
    };
    let mut resources = resources;
    resources.sort_by_key(rank);
    for resource in resources {
        collection.add(resource);
    }
    let Collection { mut definitions, problems, others } = collection;
    let is_bare = |one: &&SubscriptionDefinition| {
        one.rules.is_none() && one.entity.lists == Lists::Whole && !one.entity.is_reference
    };
    let bare: Vec<String> =
        definitions.subscriptions.iter().filter(is_bare).map(|one| one.path().path()).collect();
    if !bare.is_empty() {
        definitions.notes.push(format!(
            "no rules are listed of {}: a new subscription takes everything; add what 'az servicebus topic \
             subscription rule list' prints",
            bare.join(", ")
        ));
    }
    for (kind, count) in others {
        definitions
            .notes
            .push(format!("{count} of {kind} not taken over: a cluster has no such thing"));
    }
    if problems.is_empty() { Ok(definitions) } else { Err(problems) }
}

impl Collection {
    fn add(&mut self, resource: AzureResource) {
        // What belongs to it says so.
        if resource.is_existing {
            return;
        }
        match (resource.kind.as_str(), resource.names.len()) {
            ("", _) => self.namespace(&resource),
            ("queues", 1) => {
                let queue = self.entity(&resource);
                self.definitions.queues.extend(queue);
            }
            ("topics", 1) => {
                let topic = self.entity(&resource);
                self.definitions.topics.extend(topic);
            }
            ("topics/subscriptions", 2) => {
                let Some(entity) = self.entity(&resource) else { return };
                let topic = entity_name(&resource.names[0]);
                let subscription = SubscriptionDefinition { topic, entity, rules: None };
                self.definitions.subscriptions.push(subscription);
            }
            ("topics/subscriptions/rules", 3) => self.rule(&resource),
            ("queues/authorizationrules", 2) => {
                let entity = EntityPath::queue(&entity_name(&resource.names[0]));
                self.authorization(&resource, entity);
            }
            ("topics/authorizationrules", 2) => {
                let entity = EntityPath::topic(&entity_name(&resource.names[0]));
                self.authorization(&resource, entity);
            }
            ("authorizationrules", 1) => self.namespace_key(&resource),
            (other, _) => *self.others.entry(other.to_owned()).or_default() += 1,
        }
    }

    fn namespace(&mut self, resource: &AzureResource) {
        let said: Vec<&str> = resource.properties.keys().map(String::as_str).collect();
        if !said.is_empty() {
            self.definitions.notes.push(format!(
                "{}: not taken over: {}; a cluster is one namespace, and its configuration says such \
                 things",
                resource.at,
                said.join(", ")
            ));
        }
    }

    /// Keys for everything are the nodes' configuration.
    fn namespace_key(&mut self, resource: &AzureResource) {
        let rights = property::rights(&resource.properties).unwrap_or_default();
        let rights: Vec<String> = rights.iter().map(|right| format!("\"{right}\"")).collect();
        self.definitions.notes.push(format!(
            "{}: not taken over: a key for everything stands in each node's configuration: \
             [[security.key]] name = \"{}\", rights = [{}]",
            resource.at,
            resource.names[0],
            rights.join(", ")
        ));
    }

    fn entity<P: Described>(&mut self, resource: &AzureResource) -> Option<EntityDefinition<P>> {
        let name = entity_name(resource.names.last()?);
        let (properties, problems) = property::read(&resource.at, &resource.properties);
        self.problems.extend(problems);
        Some(EntityDefinition {
            at: resource.at.clone(),
            name,
            properties,
            defaults: Patch::default(),
            lists: resource.lists,
            is_reference: false,
        })
    }

    fn rule(&mut self, resource: &AzureResource) {
        let name = resource.names[2].clone();
        let rule = match rule::read(name, &resource.properties) {
            Ok(rule) => RuleDefinition { at: resource.at.clone(), rule },
            Err(why) => return self.problems.push(Problem::new(&resource.at, why)),
        };
        let (topic, name) = (entity_name(&resource.names[0]), entity_name(&resource.names[1]));
        let path = EntityPath::subscription(&topic, &name);
        let subscriptions = &mut self.definitions.subscriptions;
        let found = subscriptions.iter().position(|one| one.path() == path);
        let index = found.unwrap_or_else(|| {
            let entity = reference(resource, name);
            subscriptions.push(SubscriptionDefinition { topic, entity, rules: None });
            subscriptions.len() - 1
        });
        subscriptions[index].rules.get_or_insert_default().push(rule);
    }

    fn authorization(&mut self, resource: &AzureResource, entity: EntityPath) {
        let rights = match property::access_rights(&resource.properties) {
            Ok(rights) => rights,
            Err(why) => return self.problems.push(Problem::new(&resource.at, why)),
        };
        let name = resource.names[1].clone();
        let rule = AuthorizationRule { name, rights, ..AuthorizationRule::default() };
        match entity.kind {
            domain::EntityKind::Topic => {
                add_authorization(&mut self.definitions.topics, resource, &entity.name, rule);
            }
            _ => add_authorization(&mut self.definitions.queues, resource, &entity.name, rule),
        }
    }
}

/// To the entity that it belongs to; to a reference to it, where the file does not define it.
fn add_authorization<P: Described>(
    to: &mut Vec<EntityDefinition<P>>,
    resource: &AzureResource,
    name: &str,
    rule: AuthorizationRule,
) {
    let of = PropertyValue::AuthorizationRules(Vec::new());
    let property = EntityProperty::all_of(P::KIND)
        .find(|property| matches!(property.of, PropertyType::AuthorizationRules(_)));
    let Some(property) = property else { return };
    let found = to.iter().position(|one| one.name.eq_ignore_ascii_case(name));
    let index = found.unwrap_or_else(|| {
        to.push(reference(resource, name.to_owned()));
        to.len() - 1
    });
    let patch = &mut to[index].properties;
    if let PropertyValue::AuthorizationRules(mut rules) = patch.get(property).unwrap_or(of) {
        rules.push(rule);
        patch.set(property, PropertyValue::AuthorizationRules(rules));
    }
}

fn reference<P: Described>(resource: &AzureResource, name: String) -> EntityDefinition<P> {
    EntityDefinition {
        at: resource.at.clone(),
        name,
        lists: resource.lists,
        is_reference: true,
        ..EntityDefinition::default()
    }
}

/// A resource's name has no slash: an entity's is written as `~` there, and that is what it means.
fn entity_name(name: &str) -> String {
    name.replace('~', "/")
}
