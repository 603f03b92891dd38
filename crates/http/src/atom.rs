//! Entity management as the Azure SDKs' administration clients speak it: Atom entries and feeds over
//! HTTP.

mod authorization;
mod description;
mod document;
mod duration;
mod feed;
mod layout;
mod properties;
mod rule;
#[cfg(test)]
mod tests;
mod typed;

use std::io;

use axum::http::header::{CONTENT_TYPE, IF_MATCH};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::{
    Described, EntityInfo, EntityKind, Excerpt, NewRule, Patch, Profile, QueueProperties, RuleRow,
    Specifics, SubscriptionProperties, TopicProperties, split_subscription_path, validate,
};
use roxmltree::{Document, Node};
use service::{Broker, QueueInfo};
use uuid::Uuid;

use crate::CLIENT_REQUEST_ID;
use crate::failure::Failure;
use crate::path::Target;
use description::{description, description_of};
use document::{Entry, Xml};
use layout::element_of;

pub(crate) use description::{BODY_BYTES_MAX, parse, text};
pub(crate) use feed::Cursors;

const ENTRY_TYPE: HeaderValue =
    HeaderValue::from_static("application/atom+xml;type=entry;charset=utf-8");
/// What clients speak that say no version.
const VERSION: &str = "2021-05";

/// How a client reached us, and in which dialect it reads.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub scheme: &'a str,
    /// Host and port: links must lead back here.
    pub authority: &'a str,
    /// As it was sent, escapes, case and slashes and all.
    pub path: &'a str,
    pub query: Option<&'a str>,
}

impl Asked<'_> {
    /// ATOM-10: the address that was asked, as it was sent.
    fn own(self) -> String {
        self.address(self.path, self.query)
    }

    fn address(self, path: &str, query: Option<&str>) -> String {
        let Asked { scheme, authority, .. } = self;
        match query {
            Some(query) => format!("{scheme}://{authority}{path}?{query}"),
            None => format!("{scheme}://{authority}{path}"),
        }
    }

    /// ATOM-22: what a list has of this name, in the version that was asked for.
    fn entry(self, list: &str, name: &str) -> String {
        let query = self.version().map(|version| format!("api-version={version}"));
        let list = list.trim_end_matches('/');
        self.address(&format!("{list}/{}", escaped(name)), query.as_deref())
    }

    /// FWD-1: as an absolute URI, which .NET cuts to the name and the others show as it is.
    fn destination(self, name: &Option<String>) -> Option<String> {
        let name = name.as_ref()?;
        Some(format!("sb://{}/{}", self.authority, escaped(name)))
    }

    fn version(self) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.query.unwrap_or_default().as_bytes());
        let version = pairs.find(|(name, _)| name.eq_ignore_ascii_case("api-version"));
        version.map(|(_, version)| version.into_owned()).filter(|version| is_plain(version))
    }

    /// Whether clients of the version that was asked for know what came with this one (ATOM-26).
    fn knows(self, since: &str) -> bool {
        self.version().as_deref().unwrap_or(VERSION) >= since
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
        if let Target::Entity(name) = &target {
            // Nothing can have such a name: clients are told what is wrong with it, as when they create.
            validate::entity_characters(name).map_err(|why| Failure::refused(why, name))?;
        }
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
                self.rule(StatusCode::OK, &rule)
            }
            Target::Messages { .. }
            | Target::Head { .. }
            | Target::Lock { .. }
            | Target::History { .. }
            | Target::Faults { .. } => Err(refused(&Method::GET)),
        }
    }

    async fn create(&self, target: Target, body: &str) -> Result<Response, Failure> {
        let (broker, request) = (self.broker, self.repeatable());
        let document = parse(body)?;
        let created = match target {
            Target::Entity(name) => match read_entity(description(&document)?)? {
                EntityPatch::Queue(given) => {
                    broker
                        .queues()
                        .create(&name, given.created_in(broker.limits()), request)
                        .await?
                }
                EntityPatch::Topic(given) => {
                    broker
                        .topics()
                        .create(&name, given.created_in(broker.limits()), request)
                        .await?
                }
            },
            Target::Subscription { topic, name } => {
                let given = subscription_in(&document)?;
                let rule = rule::read_first(given)?;
                let properties =
                    properties::read::<SubscriptionProperties>(given)?.created_in(broker.limits());
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
                EntityPatch::Queue(given) => {
                    let change = |properties: &mut QueueProperties| {
                        *properties = given.applied_to(properties.clone());
                        Ok(())
                    };
                    broker.queues().update(&name, change).await?
                }
                EntityPatch::Topic(given) => {
                    broker.topics().update(&name, |base| Ok(given.applied_to(base))).await?
                }
            },
            Target::Subscription { topic, name } => {
                let given: Patch<SubscriptionProperties> =
                    properties::read(subscription_in(&document)?)?;
                let change = |base| Ok(given.applied_to(base));
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
        self.rule(status, &rule)
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
        answer_entry(status, |xml| entity(xml, asked.own(), &found.info, asked))
    }

    fn rule(&self, status: StatusCode, row: &RuleRow) -> Result<Response, Failure> {
        answer_entry(status, |xml| write_rule(xml, self.asked.own(), row))
    }

    /// ATOM-23.
    fn namespace(&self) -> Result<Response, Failure> {
        const DEFAULT: &str = "mayfly";
        let namespace = self.broker.namespace();
        let name = if namespace.is_default() { DEFAULT } else { namespace.as_str() };
        let (now, _) = self.broker.cluster().now_here();
        let sku = self.broker.limits().sku;
        let id = self.asked.own();
        let entry = Entry { id, title: name, published: now, updated: now };
        answer_entry(StatusCode::OK, |xml| {
            document::entry(xml, &entry, "NamespaceInfo", |out| {
                out.instant("CreatedTime", now)?;
                out.text("MessagingSKU", sku)?;
                if sku == Profile::Premium.limits().sku {
                    out.text("MessagingUnits", "1")?;
                }
                out.instant("ModifiedTime", now)?;
                out.text("Name", name)?;
                out.text("NamespaceType", "Messaging")
            })
        })
    }
}

/// A queue's or a topic's properties, as far as they are given.
enum EntityPatch {
    Queue(Patch<QueueProperties>),
    Topic(Patch<TopicProperties>),
}

fn read_entity(description: Node<'_, '_>) -> Result<EntityPatch, Failure> {
    let (queue, topic) = (element_of(EntityKind::Queue), element_of(EntityKind::Topic));
    match description.tag_name().name() {
        name if name == queue => properties::read(description).map(EntityPatch::Queue),
        name if name == topic => properties::read(description).map(EntityPatch::Topic),
        other => Err(Failure::bad(format!(
            "this path takes a {queue} or a {topic}, not a {}",
            Excerpt(other)
        ))),
    }
}

fn subscription_in<'a, 'input>(
    document: &'a Document<'input>,
) -> Result<Node<'a, 'input>, Failure> {
    description_of(document, element_of(EntityKind::Subscription))
}

/// An entity's entry, of whichever kind it is: who expected another reads none.
fn entity(xml: &mut Xml, id: String, info: &EntityInfo, asked: Asked<'_>) -> io::Result<()> {
    let title = match split_subscription_path(&info.name) {
        Some((_, subscription)) => subscription,
        None => &info.name,
    };
    let entry = Entry { id, title, published: info.created_at, updated: info.updated_at };
    match &info.specifics {
        Specifics::Queue => entry_of(xml, &entry, info, &info.properties, asked),
        Specifics::Topic(of) => {
            entry_of(xml, &entry, info, &TopicProperties::of(&info.properties, of), asked)
        }
        Specifics::Subscription(of) => {
            entry_of(xml, &entry, info, &SubscriptionProperties::of(&info.properties, of), asked)
        }
    }
}

fn entry_of<P: Described>(
    xml: &mut Xml,
    entry: &Entry<'_>,
    info: &EntityInfo,
    properties: &P,
    asked: Asked<'_>,
) -> io::Result<()> {
    let write = |out: &mut document::Elements<'_>| properties::write(out, info, properties, asked);
    document::entry(xml, entry, element_of(P::KIND), write)
}

fn write_rule(xml: &mut Xml, id: String, row: &RuleRow) -> io::Result<()> {
    let at = row.created_at;
    let entry = Entry { id, title: &row.name, published: at, updated: at };
    document::entry(xml, &entry, rule::ELEMENT, |out| rule::write(out, row))
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

/// Whether it can stand in a query as it is.
fn is_plain(version: &str) -> bool {
    version.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// As a path: the slashes of a name stay.
fn escaped(name: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'/')
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b'$');
    utf8_percent_encode(name, ESCAPED).to_string()
}
