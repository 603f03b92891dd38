//! Entity management as the Azure SDKs' administration clients speak it: Atom entries and feeds over
//! HTTP. What is particular to queues, topics, subscriptions and rules is in a file each.

mod authorization;
mod description;
mod document;
mod duration;
mod feed;
mod queue;
mod rule;
mod subscription;
#[cfg(test)]
mod tests;
mod topic;
mod typed;

use std::io;

use axum::http::header::{CONTENT_TYPE, IF_MATCH};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::{
    EntityInfo, NewRule, QueueProperties, RuleRow, Specifics, SubscriptionProperties,
    TopicProperties, split_subscription_path, subscription_path,
};
use service::{Broker, QueueInfo};
use uuid::Uuid;
use wire::{native, v1};

use crate::CLIENT_REQUEST_ID;
use crate::failure::Failure;
use crate::path::Target;
use description::{description, description_of};
use document::{Entry, Xml};

pub(crate) use description::{BODY_BYTES_MAX, parse, text};
pub(crate) use feed::Cursors;

const ENTRY_TYPE: HeaderValue =
    HeaderValue::from_static("application/atom+xml;type=entry;charset=utf-8");
/// From which version on topics tell how many filters they have.
const COUNTS_FILTERS: &str = "2024-05";

/// How a client reached us, and in which dialect it reads.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub scheme: &'a str,
    /// Host and port: links must lead back here.
    pub authority: &'a str,
    pub query: Option<&'a str>,
}

impl Asked<'_> {
    fn address(self, path: &str) -> String {
        self.address_with(path, self.query)
    }

    fn address_with(self, path: &str, query: Option<&str>) -> String {
        let Asked { scheme, authority, .. } = self;
        match query {
            Some(query) => format!("{scheme}://{authority}/{path}?{query}"),
            None => format!("{scheme}://{authority}/{path}"),
        }
    }

    /// FWD-1: as an absolute URI, which .NET cuts to the name and the others show as it is.
    fn destination(self, name: &Option<String>) -> Option<String> {
        let name = name.as_ref()?;
        Some(format!("sb://{}/{}", self.authority, escaped(name)))
    }

    fn version(self) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.query.unwrap_or_default().as_bytes());
        pairs.find(|(name, _)| name == "api-version").map(|(_, version)| version.into_owned())
    }

    fn counts_filters(self) -> bool {
        self.version().is_some_and(|version| version.as_str() >= COUNTS_FILTERS)
    }
}

/// A request about entities.
pub(crate) struct Request<'a> {
    pub broker: &'a Broker,
    pub cursors: &'a Cursors,
    pub asked: Asked<'a>,
    pub headers: &'a HeaderMap,
}

impl Request<'_> {
    pub async fn answer(
        &self,
        method: &Method,
        target: Target,
        body: &[u8],
    ) -> Result<Response, Failure> {
        match *method {
            Method::GET => self.get(target).await,
            Method::PUT => {
                let text = text(body)?;
                match self.headers.contains_key(IF_MATCH) {
                    true => self.update(target, text).await,
                    false => self.create(target, text).await,
                }
            }
            Method::DELETE => self.delete(target).await,
            _ => Err(refused(method)),
        }
    }

    async fn get(&self, target: Target) -> Result<Response, Failure> {
        let broker = self.broker;
        match target {
            Target::Namespace => self.namespace(),
            Target::Queues(window) => self.queues(window).await,
            Target::Topics(window) => self.topics(window).await,
            Target::Entity(name) => self.found(&broker.entities().get(&name).await?),
            Target::Subscriptions { topic, window } => self.subscriptions(&topic, window).await,
            Target::Subscription { topic, name } => {
                self.found(&broker.subscriptions().get(&topic, &name).await?)
            }
            Target::Rules { topic, subscription, window } => {
                self.rules(&topic, &subscription, window).await
            }
            Target::Rule { topic, subscription, name } => {
                let rule = broker.rules().get(&topic, &subscription, &name).await?;
                self.rule(StatusCode::OK, &topic, &subscription, &rule)
            }
            Target::Messages { .. } | Target::Head { .. } | Target::Lock { .. } => {
                Err(refused(&Method::GET))
            }
        }
    }

    async fn create(&self, target: Target, body: &str) -> Result<Response, Failure> {
        let (broker, request) = (self.broker, self.repeatable());
        let document = parse(body)?;
        let created = match target {
            Target::Entity(name) => match read_entity(description(&document)?)? {
                Given::Queue(given) => {
                    let properties = native::merge_properties(QueueProperties::default(), given);
                    let properties = properties.map_err(|why| Failure::refused(why, &name))?;
                    broker.queues().create(&name, properties, request).await?
                }
                Given::Topic(given) => {
                    let properties = native::merge_topic(TopicProperties::default(), given);
                    let properties = properties.map_err(|why| Failure::refused(why, &name))?;
                    broker.topics().create(&name, properties, request).await?
                }
            },
            Target::Subscription { topic, name } => {
                let given = description_of(&document, subscription::ELEMENT)?;
                let rule = subscription::read_rule(given)?;
                let given = subscription::read(given)?;
                let base = SubscriptionProperties::default();
                let properties = native::merge_subscription(base, given);
                let path = subscription_path(&topic, &name);
                let properties = properties.map_err(|why| Failure::refused(why, &path))?;
                broker.subscriptions().create(&topic, &name, properties, rule, request).await?
            }
            Target::Rule { topic, subscription, name } => {
                let rule = rule::read(description_of(&document, rule::ELEMENT)?, Some(&name))?;
                let status = StatusCode::CREATED;
                return self.put_rule(status, &topic, &subscription, rule, false).await;
            }
            _ => return Err(refused(&Method::PUT)),
        };
        self.one(StatusCode::CREATED, &created)
    }

    async fn update(&self, target: Target, body: &str) -> Result<Response, Failure> {
        let broker = self.broker;
        let document = parse(body)?;
        let updated = match target {
            Target::Entity(name) => match read_entity(description(&document)?)? {
                Given::Queue(given) => {
                    let change = |properties: &mut QueueProperties| {
                        *properties = native::merge_properties(properties.clone(), given)?;
                        Ok(())
                    };
                    broker.queues().update(&name, change).await?
                }
                Given::Topic(given) => {
                    broker.topics().update(&name, |base| native::merge_topic(base, given)).await?
                }
            },
            Target::Subscription { topic, name } => {
                let given = subscription::read(description_of(&document, subscription::ELEMENT)?)?;
                let change = |base| native::merge_subscription(base, given);
                broker.subscriptions().update(&topic, &name, change).await?
            }
            Target::Rule { topic, subscription, name } => {
                let rule = rule::read(description_of(&document, rule::ELEMENT)?, Some(&name))?;
                return self.put_rule(StatusCode::OK, &topic, &subscription, rule, true).await;
            }
            _ => return Err(refused(&Method::PUT)),
        };
        self.found(&updated)
    }

    async fn put_rule(
        &self,
        status: StatusCode,
        topic: &str,
        subscription: &str,
        rule: NewRule,
        replace: bool,
    ) -> Result<Response, Failure> {
        let name = rule.name.clone();
        self.broker.rules().put(topic, subscription, rule, replace).await?;
        let rule = self.broker.rules().get(topic, subscription, &name).await?;
        self.rule(status, topic, subscription, &rule)
    }

    async fn delete(&self, target: Target) -> Result<Response, Failure> {
        let broker = self.broker;
        match target {
            Target::Entity(name) => broker.entities().delete(&name).await?,
            Target::Subscription { topic, name } => {
                broker.subscriptions().delete(&topic, &name).await?;
            }
            Target::Rule { topic, subscription, name } => {
                broker.rules().remove(&topic, &subscription, &name).await?;
            }
            _ => return Err(refused(&Method::DELETE)),
        }
        // Python accepts nothing else than 200.
        Ok(StatusCode::OK.into_response())
    }

    /// SEND-8: the SDKs draw a uuid for a call and send it with each try, so that a creation whose
    /// answer was lost is known again.
    fn repeatable(&self) -> Option<u64> {
        let id = self.headers.get(CLIENT_REQUEST_ID)?.to_str().ok()?;
        let (high, low) = Uuid::parse_str(id).ok()?.as_u64_pair();
        Some(high ^ low)
    }

    fn found(&self, found: &QueueInfo) -> Result<Response, Failure> {
        self.one(StatusCode::OK, found)
    }

    fn one(&self, status: StatusCode, found: &QueueInfo) -> Result<Response, Failure> {
        let asked = self.asked;
        let id = asked.address(&escaped(&found.info.name));
        answer_entry(status, |xml| entity(xml, id, &found.info, asked))
    }

    fn rule(
        &self,
        status: StatusCode,
        topic: &str,
        subscription: &str,
        row: &RuleRow,
    ) -> Result<Response, Failure> {
        let id = self.asked.address(&rule_path(topic, subscription, &row.name));
        answer_entry(status, |xml| write_rule(xml, id, row))
    }

    /// Standard, because that is whose limits are the defaults (QUOTA-0).
    fn namespace(&self) -> Result<Response, Failure> {
        const NAME: &str = "mayfly";
        let (now, _) = self.broker.cluster().now_here();
        let id = self.asked.address("$namespaceinfo");
        let entry = Entry { id, title: NAME, published: now, updated: now };
        answer_entry(StatusCode::OK, |xml| {
            document::entry(xml, &entry, "NamespaceInfo", |out| {
                out.instant("CreatedTime", now)?;
                out.text("MessagingSKU", "Standard")?;
                out.instant("ModifiedTime", now)?;
                out.text("Name", NAME)?;
                out.text("NamespaceType", "Messaging")
            })
        })
    }
}

/// A queue's or a topic's properties, as far as they are given.
enum Given {
    Queue(v1::QueueProperties),
    Topic(v1::TopicProperties),
}

fn read_entity(description: roxmltree::Node<'_, '_>) -> Result<Given, Failure> {
    match description.tag_name().name() {
        queue::ELEMENT => queue::read(description).map(Given::Queue),
        topic::ELEMENT => topic::read(description).map(Given::Topic),
        other => Err(Failure::bad(format!(
            "this path takes a {} or a {}, not a {other}",
            queue::ELEMENT,
            topic::ELEMENT
        ))),
    }
}

/// An entity's entry, of whichever kind it is: who expected another reads none.
fn entity(xml: &mut Xml, id: String, info: &EntityInfo, asked: Asked<'_>) -> io::Result<()> {
    let title = match split_subscription_path(&info.name) {
        Some((_, subscription)) => subscription,
        None => &info.name,
    };
    let entry = Entry { id, title, published: info.created_at, updated: info.updated_at };
    match &info.specifics {
        Specifics::Queue => {
            document::entry(xml, &entry, queue::ELEMENT, |out| queue::write(out, info, asked))
        }
        Specifics::Topic(of) => {
            document::entry(xml, &entry, topic::ELEMENT, |out| topic::write(out, info, of, asked))
        }
        Specifics::Subscription(of) => {
            let write =
                |out: &mut document::Elements<'_>| subscription::write(out, info, of, asked);
            document::entry(xml, &entry, subscription::ELEMENT, write)
        }
    }
}

fn write_rule(xml: &mut Xml, id: String, row: &RuleRow) -> io::Result<()> {
    let at = row.created_at;
    let entry = Entry { id, title: &row.name, published: at, updated: at };
    document::entry(xml, &entry, rule::ELEMENT, |out| rule::write(out, row))
}

/// JS takes the names from it, by the words between them.
fn rule_path(topic: &str, subscription: &str, rule: &str) -> String {
    format!("{}/Rules/{}", escaped(&subscription_path(topic, subscription)), escaped(rule))
}

fn answer_entry(
    status: StatusCode,
    write: impl FnOnce(&mut Xml) -> io::Result<()>,
) -> Result<Response, Failure> {
    let body = document::alone(write).map_err(|error| Failure::internal(&error))?;
    Ok((status, [(CONTENT_TYPE, ENTRY_TYPE)], body).into_response())
}

fn refused(method: &Method) -> Failure {
    Failure::not_allowed(format!(
        "this path does not take {method}; entities and rules take GET, PUT and DELETE, lists and \
         $namespaceinfo GET"
    ))
}

/// As a path: the slashes of a name stay.
fn escaped(name: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'$');
    utf8_percent_encode(name, ESCAPED).to_string()
}
