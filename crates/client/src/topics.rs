//! Calls about topics, subscriptions and rules (ENT, RULE).

use std::sync::Arc;

use crate::calls::{Repeat, draw_number};
use crate::nodes::Node;
use crate::{Client, Error, v1};

/// Entities in one page of a listing, and rules.
const PAGE_SIZE: u32 = 500;

/// One call: `entities.$method($request)`, repeated as `$repeat` allows.
macro_rules! call {
    ($client:expr, $repeat:expr, $method:ident, $request:expr) => {{
        let request = $request;
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(request.clone());
            async move { node.entities().$method(request).await }
        };
        let patience = $client.shared.nodes.options().attempt_timeout;
        $client.shared.call($repeat, patience, attempt).await
    }};
}

/// The path under which a subscription is received from.
pub fn subscription_path(topic: &str, name: &str) -> String {
    format!("{topic}/Subscriptions/{name}")
}

impl Client {
    /// ENT-2, ENT-3, as [`Client::create_queue`].
    pub async fn create_topic(
        &self,
        name: &str,
        properties: v1::TopicProperties,
    ) -> Result<v1::Topic, Error> {
        self.shared.routes.forget_queue(name);
        let (name, properties) = (name.to_owned(), Some(properties));
        let request = v1::CreateTopicRequest { name, properties, request: draw_number() };
        call!(self, Repeat::Always, create_topic, request)
    }

    /// Properties and counters.
    pub async fn get_topic(&self, name: &str) -> Result<v1::Topic, Error> {
        call!(self, Repeat::Always, get_topic, v1::GetTopicRequest { name: name.to_owned() })
    }

    /// All topics whose name begins so, in order of name.
    pub async fn list_topics(&self, name_prefix: &str) -> Result<Vec<v1::Topic>, Error> {
        let (mut topics, mut page_token) = (Vec::new(), String::new());
        loop {
            let name_prefix = name_prefix.to_owned();
            let request = v1::ListTopicsRequest { page_size: PAGE_SIZE, page_token, name_prefix };
            let page = call!(self, Repeat::Always, list_topics, request)?;
            topics.extend(page.topics);
            if page.next_page_token.is_empty() {
                return Ok(topics);
            }
            page_token = page.next_page_token;
        }
    }

    /// Changes the given properties, leaves the others (ENT-4, ENT-5).
    pub async fn update_topic(
        &self,
        name: &str,
        properties: v1::TopicProperties,
    ) -> Result<v1::Topic, Error> {
        let (name, properties) = (name.to_owned(), Some(properties));
        let request = v1::UpdateTopicRequest { name, properties };
        call!(self, Repeat::Always, update_topic, request)
    }

    /// ENT-7: with its subscriptions. A deletion of unknown outcome is not repeated.
    pub async fn delete_topic(&self, name: &str) -> Result<(), Error> {
        let request = v1::DeleteTopicRequest { name: name.to_owned() };
        call!(self, Repeat::IfNotDone, delete_topic, request)?;
        self.shared.routes.forget_queue(name);
        Ok(())
    }

    /// `rule`: the first one; absent, everything comes (RULE-2). Repeated as
    /// [`Client::create_queue`].
    pub async fn create_subscription(
        &self,
        topic: &str,
        name: &str,
        properties: v1::SubscriptionProperties,
        rule: Option<v1::Rule>,
    ) -> Result<v1::Subscription, Error> {
        let (topic, name, properties) = (topic.to_owned(), name.to_owned(), Some(properties));
        let request = draw_number();
        let request = v1::CreateSubscriptionRequest { topic, name, properties, rule, request };
        call!(self, Repeat::Always, create_subscription, request)
    }

    /// Properties and counters.
    pub async fn get_subscription(
        &self,
        topic: &str,
        name: &str,
    ) -> Result<v1::Subscription, Error> {
        let (topic, name) = (topic.to_owned(), name.to_owned());
        let request = v1::GetSubscriptionRequest { topic, name };
        call!(self, Repeat::Always, get_subscription, request)
    }

    /// All subscriptions of a topic, in order of name.
    pub async fn list_subscriptions(&self, topic: &str) -> Result<Vec<v1::Subscription>, Error> {
        let (mut subscriptions, mut page_token) = (Vec::new(), String::new());
        loop {
            let (topic, page_size) = (topic.to_owned(), PAGE_SIZE);
            let request = v1::ListSubscriptionsRequest { topic, page_size, page_token };
            let page = call!(self, Repeat::Always, list_subscriptions, request)?;
            subscriptions.extend(page.subscriptions);
            if page.next_page_token.is_empty() {
                return Ok(subscriptions);
            }
            page_token = page.next_page_token;
        }
    }

    /// Changes the given properties, leaves the others (ENT-4, ENT-5).
    pub async fn update_subscription(
        &self,
        topic: &str,
        name: &str,
        properties: v1::SubscriptionProperties,
    ) -> Result<v1::Subscription, Error> {
        let (topic, name, properties) = (topic.to_owned(), name.to_owned(), Some(properties));
        let request = v1::UpdateSubscriptionRequest { topic, name, properties };
        call!(self, Repeat::Always, update_subscription, request)
    }

    /// ENT-7. A deletion of unknown outcome is not repeated.
    pub async fn delete_subscription(&self, topic: &str, name: &str) -> Result<(), Error> {
        let (topic, name) = (topic.to_owned(), name.to_owned());
        let request = v1::DeleteSubscriptionRequest { topic, name };
        call!(self, Repeat::IfNotDone, delete_subscription, request).map(drop)
    }

    /// Adds a rule, or with `replace` puts it in the place of the one of its name (RULE-1). One of
    /// unknown outcome is not repeated: the repeat might meet it.
    pub async fn put_rule(
        &self,
        topic: &str,
        subscription: &str,
        rule: v1::Rule,
        replace: bool,
    ) -> Result<(), Error> {
        let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
        let repeat = if replace { Repeat::Always } else { Repeat::IfNotDone };
        let request = v1::PutRuleRequest { topic, subscription, rule: Some(rule), replace };
        call!(self, repeat, put_rule, request).map(drop)
    }

    /// All rules of a subscription, in order of name (RULE-38).
    pub async fn list_rules(
        &self,
        topic: &str,
        subscription: &str,
    ) -> Result<Vec<v1::Rule>, Error> {
        let mut rules = Vec::new();
        loop {
            let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
            let (skip, top) = (rules.len() as u32, PAGE_SIZE);
            let request = v1::ListRulesRequest { topic, subscription, skip, top };
            let page = call!(self, Repeat::Always, list_rules, request)?.rules;
            let full = page.len() == PAGE_SIZE as usize;
            rules.extend(page);
            if !full {
                return Ok(rules);
            }
        }
    }

    pub async fn remove_rule(
        &self,
        topic: &str,
        subscription: &str,
        rule: &str,
    ) -> Result<(), Error> {
        let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
        let request = v1::RemoveRuleRequest { topic, subscription, rule: rule.to_owned() };
        call!(self, Repeat::IfNotDone, remove_rule, request).map(drop)
    }
}
