//! Rules of subscriptions.

use axum::http::Method;
use definitions::resource_body;
use domain::{NewRule, RuleRow};
use serde_json::{Map, Value, json};
use service::Broker;

use crate::ask::{Answer, Ask, gone, told};
use crate::entities::{found, segment};
use crate::failure::Failure;
use crate::namespaces::Place;

/// The rules of a subscription.
pub(crate) struct SubscriptionRules<'a> {
    pub ask: &'a Ask<'a>,
    /// Of the namespace.
    pub broker: &'a Broker,
    pub place: &'a Place,
    pub topic: &'a str,
    pub subscription: &'a str,
}

impl SubscriptionRules<'_> {
    pub async fn list(&self) -> Answer {
        if *self.ask.method != Method::GET {
            return Err(Failure::not_allowed(self.ask.method));
        }
        let window = self.ask.window()?;
        // Without it there would be an empty list.
        self.broker.subscriptions().get(self.topic, self.subscription).await?;
        let skip = u32::try_from(window.skip).unwrap_or(u32::MAX);
        let top = u32::try_from(window.top + 1).unwrap_or(u32::MAX);
        let rules = self.broker.rules().list(self.topic, self.subscription, skip, top).await?;
        Ok(self.ask.page(&window, rules.into_iter().map(|rule| self.shown(rule)).collect()))
    }

    pub async fn answer(&self, name: &str) -> Answer {
        let (rules, topic, subscription) = (self.broker.rules(), self.topic, self.subscription);
        match *self.ask.method {
            Method::GET => told(self.shown(rules.get(topic, subscription, name).await?)),
            Method::PUT => {
                let properties = self.ask.properties()?;
                let rule = resource_body::read_rule(name, &properties);
                let rule: NewRule = rule.map_err(|why| Failure::bad(format!("{why}.")))?;
                if self.ask.trial.is_some() {
                    definitions::check_rule(&rule)?;
                    let properties = resource_body::write_rule(&rule.filter, rule.action.as_ref());
                    return told(self.with(&rule.name, properties));
                }
                let is_there = found(rules.get(topic, subscription, name).await)?.is_some();
                rules.put(topic, subscription, rule, is_there).await?;
                told(self.shown(rules.get(topic, subscription, name).await?))
            }
            Method::DELETE => {
                let is_there = found(rules.get(topic, subscription, name).await)?.is_some();
                if is_there {
                    rules.remove(topic, subscription, name).await?;
                }
                gone(is_there)
            }
            _ => Err(Failure::not_allowed(self.ask.method)),
        }
    }

    fn shown(&self, rule: RuleRow) -> Value {
        let RuleRow { name, filter, action, .. } = rule;
        self.with(&name, resource_body::write_rule(&filter, action.as_ref()))
    }

    fn with(&self, name: &str, properties: Map<String, Value>) -> Value {
        let path = format!(
            "topics/{}/subscriptions/{}/rules/{name}",
            segment(self.topic),
            self.subscription
        );
        json!({
            "id": format!("{}/{path}", self.place.id(self.ask)),
            "name": name,
            "type": "Microsoft.ServiceBus/Namespaces/Topics/Subscriptions/Rules",
            "location": self.place.kept.location,
            "properties": properties,
        })
    }
}
