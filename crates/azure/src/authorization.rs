//! Authorization rules of a namespace, a queue or a topic, and their keys. Those of the default namespace stand in the
//! nodes' configuration: they are told, and changed there.

use auth::{Access, Key};
use axum::http::{Method, StatusCode};
use domain::{AccessRights, AuthorizationRule, Excerpt};
use serde::Deserialize;
use serde_json::{Value, json};
use service::{Broker, draw_key};

use crate::ask::{Answer, Ask, gone, told};
use crate::failure::Failure;
use crate::namespaces::Place;
use crate::path::Holder;

/// Where no key is asked for, any will do; this is the emulator's.
const ANY_KEY: &str = "SAS_KEY_VALUE";

#[derive(Clone, Copy, Deserialize)]
enum KeyType {
    PrimaryKey,
    SecondaryKey,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Regeneration {
    key_type: KeyType,
    /// What it is to be; nothing: one that is drawn.
    key: Option<String>,
}

/// The rules of one holder.
pub(crate) struct Rules<'a> {
    pub ask: &'a Ask<'a>,
    /// Of the namespace.
    pub broker: &'a Broker,
    pub place: &'a Place,
    pub holder: &'a Holder,
}

impl Rules<'_> {
    pub async fn list(&self) -> Answer {
        match *self.ask.method {
            Method::GET => {
                let rules = self.all().await?;
                self.ask.page_of(rules.iter().map(|rule| self.shown(rule)).collect())
            }
            _ => Err(Failure::not_allowed(self.ask.method)),
        }
    }

    pub async fn answer(&self, name: &str) -> Answer {
        match *self.ask.method {
            Method::GET => told(self.shown(&self.find(name).await?)),
            Method::PUT => self.put(name).await,
            Method::DELETE => self.delete(name).await,
            _ => Err(Failure::not_allowed(self.ask.method)),
        }
    }

    pub async fn list_keys(&self, name: &str) -> Answer {
        self.check_post()?;
        // A key of the configuration may do more than who asks.
        let is_configured = self.is_configured() && !self.ask.access.is_anyone();
        if is_configured && !self.ask.caller.is_operator() {
            return Err(Failure::new(
                StatusCode::FORBIDDEN,
                "AuthorizationFailed",
                "The keys of the default namespace are told to who has the right 'Operate' on everything.",
            ));
        }
        told(self.keys(&self.find(name).await?))
    }

    pub async fn regenerate(&self, name: &str) -> Answer {
        self.check_post()?;
        self.check_changeable()?;
        let Regeneration { key_type, key } = self.ask.read()?;
        let mut rules = self.all().await?;
        let rule = rules.iter_mut().find(|rule| rule.name.eq_ignore_ascii_case(name));
        let rule = rule.ok_or_else(|| self.missing(name))?;
        let key = key.filter(|key| !key.is_empty()).unwrap_or_else(draw_key);
        match key_type {
            KeyType::PrimaryKey => rule.primary_key = key,
            KeyType::SecondaryKey => rule.secondary_key = key,
        }
        self.set(rules).await?;
        told(self.keys(&self.find(name).await?))
    }

    async fn put(&self, name: &str) -> Answer {
        self.check_changeable()?;
        let properties = self.ask.properties()?;
        let rights = definitions::resource_body::read_rights(&properties);
        let rights: AccessRights = rights.map_err(|why| Failure::bad(format!("{why}.")))?;
        if self.ask.trial.is_some() {
            let name = name.to_owned();
            return told(self.shown(&AuthorizationRule {
                name,
                rights,
                ..AuthorizationRule::default()
            }));
        }
        let mut rules = self.all().await?;
        match rules.iter_mut().find(|rule| rule.name.eq_ignore_ascii_case(name)) {
            Some(rule) => rule.rights = rights,
            None => rules.push(AuthorizationRule {
                name: name.to_owned(),
                rights,
                ..AuthorizationRule::default()
            }),
        }
        self.set(rules).await?;
        told(self.shown(&self.find(name).await?))
    }

    async fn delete(&self, name: &str) -> Answer {
        self.check_changeable()?;
        let mut rules = self.all().await?;
        let before = rules.len();
        rules.retain(|rule| !rule.name.eq_ignore_ascii_case(name));
        let was_there = rules.len() < before;
        if was_there {
            self.set(rules).await?;
        }
        gone(was_there)
    }

    async fn all(&self) -> Result<Vec<AuthorizationRule>, Failure> {
        let found = match self.holder {
            Holder::Namespace if self.is_configured() => return Ok(configured(self.ask.access)),
            Holder::Namespace => {
                let info = self.broker.namespaces().get(self.place.namespace.as_str()).await?;
                return Ok(info.row.authorization_rules);
            }
            Holder::Queue(name) => self.broker.queues().get(name).await?,
            Holder::Topic(name) => self.broker.topics().get(name).await?,
        };
        Ok(found.info.properties.authorization_rules)
    }

    async fn set(&self, rules: Vec<AuthorizationRule>) -> Result<(), Failure> {
        match self.holder {
            Holder::Namespace => {
                let namespace = self.place.namespace.as_str();
                self.broker.namespaces().update(namespace, rules).await?;
            }
            Holder::Queue(name) => {
                let change = |properties: &mut domain::QueueProperties| {
                    properties.authorization_rules = rules;
                    Ok(())
                };
                self.broker.queues().update(name, change).await?;
            }
            Holder::Topic(name) => {
                let change = |properties: domain::TopicProperties| {
                    Ok(domain::TopicProperties { authorization_rules: rules, ..properties })
                };
                self.broker.topics().update(name, change).await?;
            }
        }
        Ok(())
    }

    async fn find(&self, name: &str) -> Result<AuthorizationRule, Failure> {
        let found = self.all().await?;
        let mut found = found.into_iter().filter(|rule| rule.name.eq_ignore_ascii_case(name));
        found.next().ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> Failure {
        let message = format!("There is no authorization rule '{}'.", Excerpt(name));
        Failure::not_found("NotFound", message)
    }

    fn is_configured(&self) -> bool {
        *self.holder == Holder::Namespace && self.place.namespace.is_default()
    }

    fn check_changeable(&self) -> Result<(), Failure> {
        match self.is_configured() {
            false => Ok(()),
            true => Err(Failure::new(
                StatusCode::CONFLICT,
                "Conflict",
                "The keys of the default namespace stand in each node's configuration ([[security.key]]); change them \
                 there, or create a namespace.",
            )),
        }
    }

    fn check_post(&self) -> Result<(), Failure> {
        match *self.ask.method {
            Method::POST => Ok(()),
            _ => Err(Failure::not_allowed(self.ask.method)),
        }
    }

    fn shown(&self, rule: &AuthorizationRule) -> Value {
        let (segment, entity) = match self.holder {
            Holder::Namespace => ("", String::new()),
            Holder::Queue(name) => ("queues", name.replace('/', "~")),
            Holder::Topic(name) => ("topics", name.replace('/', "~")),
        };
        let below = if segment.is_empty() { String::new() } else { format!("/{segment}/{entity}") };
        let kind = if segment.is_empty() { String::new() } else { format!("/{segment}") };
        let AccessRights { listen, send, manage } = rule.rights;
        let rights = [(listen, "Listen"), (manage, "Manage"), (send, "Send")];
        let rights: Vec<&str> =
            rights.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        json!({
            "id": format!("{}{below}/authorizationRules/{}", self.place.id(self.ask), rule.name),
            "name": rule.name,
            "type": format!("Microsoft.ServiceBus/Namespaces{kind}/AuthorizationRules"),
            "location": self.place.kept.location,
            "properties": {"rights": rights},
        })
    }

    fn keys(&self, rule: &AuthorizationRule) -> Value {
        let endpoint = self.ask.messaging.endpoint(self.ask.host, &self.place.host(self.ask));
        let path = match self.holder.entity() {
            "" => String::new(),
            entity => format!(";EntityPath={entity}"),
        };
        let connection = |key: &str| {
            format!(
                "Endpoint=sb://{endpoint}/;SharedAccessKeyName={};SharedAccessKey={key}{path}",
                rule.name
            )
        };
        json!({
            "primaryConnectionString": connection(&rule.primary_key),
            "secondaryConnectionString": connection(&rule.secondary_key),
            "primaryKey": rule.primary_key,
            "secondaryKey": rule.secondary_key,
            "keyName": rule.name,
        })
    }
}

/// The keys for everything in the default namespace, as rules.
fn configured(access: &Access) -> Vec<AuthorizationRule> {
    let keys = match access {
        Access::Anyone => vec![Key { secondary: ANY_KEY.to_owned(), ..Key::root(ANY_KEY) }],
        Access::Keys(ring) => ring.current().to_vec(),
    };
    let of_namespace = keys.into_iter().filter(|key| key.scope.is_empty());
    let rules = of_namespace.map(|key| {
        let rights = key.rights;
        let (listen, send, manage) = match rights.manage {
            true => (true, true, true),
            false => (rights.listen, rights.send, false),
        };
        let secondary_key =
            if key.secondary.is_empty() { key.primary.clone() } else { key.secondary };
        AuthorizationRule {
            name: key.name,
            rights: AccessRights { listen, send, manage },
            primary_key: key.primary,
            secondary_key,
            ..AuthorizationRule::default()
        }
    });
    rules.filter(|rule| !rule.rights.is_none()).collect()
}
