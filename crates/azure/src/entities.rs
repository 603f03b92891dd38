//! Queues, topics and subscriptions.

use axum::http::Method;
use definitions::resource_body;
use domain::{
    Counts, Described, EntityInfo, EntityProperty, Mutability, Patch, ProfileLimits, PropertyType,
    QueueProperties, Refusal, Specifics, SubscriptionProperties, TopicProperties,
    split_subscription_path, validate,
};
use serde_json::{Map, Value, json};
use service::{Broker, Listed, PAGE_MAX, QueueInfo};

use crate::ask::{Answer, Ask, gone, told};
use crate::failure::Failure;
use crate::namespaces::{Place, instant};

/// The entities of a namespace.
pub(crate) struct Entities<'a> {
    pub ask: &'a Ask<'a>,
    /// Of the namespace.
    pub broker: &'a Broker,
    pub place: &'a Place,
}

impl Entities<'_> {
    pub async fn list(&self, list: Listed<'_>) -> Answer {
        if *self.ask.method != Method::GET {
            return Err(Failure::not_allowed(self.ask.method));
        }
        let window = self.ask.window()?;
        let (mut found, mut after, mut skip) = (Vec::new(), None, window.skip);
        // One more than is asked for, so that it is known whether there are more.
        while found.len() <= window.top {
            let wanted = window.top + 1 - found.len();
            let count = u32::try_from(wanted).unwrap_or(PAGE_MAX).min(PAGE_MAX);
            let entities = self.broker.entities();
            let page = entities.list_from(list, after.as_deref(), skip, count).await?;
            found.extend(page.queues.iter().map(|queue| self.shown(&queue.info)));
            skip = 0;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        Ok(self.ask.page(&window, found))
    }

    pub async fn queue(&self, name: &str) -> Answer {
        let (queues, limits) = (self.broker.queues(), self.broker.limits());
        match *self.ask.method {
            Method::GET => self.told(queues.get(name).await?),
            Method::PUT => {
                let patch = self.read::<QueueProperties>()?;
                let is_planned = self.place.is_planned;
                let before = if is_planned { None } else { found(queues.get(name).await)? };
                if self.ask.trial.is_some() {
                    let of = |info: &EntityInfo| Some(info.properties.clone());
                    let new = self.tried(&patch, before.and_then(|before| of(&before.info)))?;
                    domain::validate::queue_name(name)?;
                    domain::validate::queue_properties(&new)?;
                    let path = format!("queues/{}", segment(name));
                    return told(self.with(&path, "Queues", name, resource_body::write(&new)));
                }
                let put = match before {
                    None => queues.create(name, patch.created_in(limits), None).await?,
                    Some(_) => {
                        let change = |old: &mut QueueProperties| {
                            *old = replaced(&patch, old, limits)?;
                            Ok(())
                        };
                        queues.update(name, change).await?
                    }
                };
                self.told(put)
            }
            Method::DELETE => match found(queues.get(name).await)? {
                None => gone(false),
                Some(_) => {
                    queues.delete(name).await?;
                    gone(true)
                }
            },
            _ => Err(Failure::not_allowed(self.ask.method)),
        }
    }

    pub async fn topic(&self, name: &str) -> Answer {
        let (topics, limits) = (self.broker.topics(), self.broker.limits());
        match *self.ask.method {
            Method::GET => self.told(topics.get(name).await?),
            Method::PUT => {
                let patch = self.read::<TopicProperties>()?;
                let is_planned = self.place.is_planned;
                let before = if is_planned { None } else { found(topics.get(name).await)? };
                if self.ask.trial.is_some() {
                    let of = |info: &EntityInfo| match &info.specifics {
                        Specifics::Topic(specifics) => {
                            Some(TopicProperties::of(&info.properties, specifics))
                        }
                        _ => None,
                    };
                    let new = self.tried(&patch, before.and_then(|before| of(&before.info)))?;
                    domain::validate::queue_name(name)?;
                    domain::validate::topic_properties(&new)?;
                    let path = format!("topics/{}", segment(name));
                    return told(self.with(&path, "Topics", name, resource_body::write(&new)));
                }
                let put = match before {
                    None => topics.create(name, patch.created_in(limits), None).await?,
                    Some(_) => topics.update(name, |old| replaced(&patch, &old, limits)).await?,
                };
                self.told(put)
            }
            Method::DELETE => match found(topics.get(name).await)? {
                None => gone(false),
                Some(_) => {
                    topics.delete(name).await?;
                    gone(true)
                }
            },
            _ => Err(Failure::not_allowed(self.ask.method)),
        }
    }

    pub async fn subscription(&self, topic: &str, name: &str) -> Answer {
        let (subscriptions, limits) = (self.broker.subscriptions(), self.broker.limits());
        match *self.ask.method {
            Method::GET => self.told(subscriptions.get(topic, name).await?),
            Method::PUT => {
                let patch = self.read::<SubscriptionProperties>()?;
                let is_planned = self.place.is_planned;
                let before =
                    if is_planned { None } else { found(subscriptions.get(topic, name).await)? };
                if self.ask.trial.is_some() {
                    let of = |info: &EntityInfo| match &info.specifics {
                        Specifics::Subscription(specifics) => {
                            Some(SubscriptionProperties::of(&info.properties, specifics))
                        }
                        _ => None,
                    };
                    let new = self.tried(&patch, before.and_then(|before| of(&before.info)))?;
                    domain::validate::subscription_name(name)?;
                    domain::validate::subscription_properties(&new)?;
                    let path = format!("topics/{}/subscriptions/{name}", segment(topic));
                    return told(self.with(
                        &path,
                        "Topics/Subscriptions",
                        name,
                        resource_body::write(&new),
                    ));
                }
                let put = match before {
                    None => {
                        // RULE-2.
                        let rule = domain::NewRule::default();
                        subscriptions
                            .create(topic, name, patch.created_in(limits), rule, None)
                            .await?
                    }
                    Some(_) => {
                        subscriptions
                            .update(topic, name, |old| replaced(&patch, &old, limits))
                            .await?
                    }
                };
                self.told(put)
            }
            Method::DELETE => match found(subscriptions.get(topic, name).await)? {
                None => gone(false),
                Some(_) => {
                    subscriptions.delete(topic, name).await?;
                    gone(true)
                }
            },
            _ => Err(Failure::not_allowed(self.ask.method)),
        }
    }

    /// What it would be.
    fn tried<P: Described>(&self, patch: &Patch<P>, old: Option<P>) -> Result<P, Failure> {
        let in_profile = self.place.in_profile();
        let limits = in_profile.profile.limits();
        match old {
            Some(old) => {
                let new = replaced(patch, &old, limits)?;
                in_profile.changed(&old, &new)?;
                Ok(new)
            }
            None => {
                let new = patch.created_in(limits);
                in_profile.created(&new)?;
                Ok(new)
            }
        }
    }

    fn read<P: Described>(&self) -> Result<Patch<P>, Failure> {
        let properties = self.ask.properties()?;
        resource_body::read(&properties).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Failure::bad(format!("{}.", told.join("; ")))
        })
    }

    fn told(&self, found: QueueInfo) -> Answer {
        told(self.shown(&found.info))
    }

    fn shown(&self, info: &EntityInfo) -> Value {
        let (path, kind, name, mut properties) = match &info.specifics {
            Specifics::Queue => {
                let properties = resource_body::write(&info.properties);
                (format!("queues/{}", segment(&info.name)), "Queues", &*info.name, properties)
            }
            Specifics::Topic(specifics) => {
                let of = TopicProperties::of(&info.properties, specifics);
                let properties = resource_body::write(&of);
                (format!("topics/{}", segment(&info.name)), "Topics", &*info.name, properties)
            }
            Specifics::Subscription(specifics) => {
                let of = SubscriptionProperties::of(&info.properties, specifics);
                let properties = resource_body::write(&of);
                let (topic, name) = split_subscription_path(&info.name).unwrap_or(("", &info.name));
                let path = format!("topics/{}/subscriptions/{name}", segment(topic));
                (path, "Topics/Subscriptions", name, properties)
            }
        };
        for (member, value) in counted(info) {
            properties.insert(member.to_owned(), value);
        }
        self.with(&path, kind, name, properties)
    }

    fn with(&self, path: &str, kind: &str, name: &str, properties: Map<String, Value>) -> Value {
        json!({
            "id": format!("{}/{path}", self.place.id(self.ask)),
            "name": segment(name),
            "type": format!("Microsoft.ServiceBus/Namespaces/{kind}"),
            "location": self.place.kept.location,
            "properties": properties,
        })
    }
}

/// What is told of an entity and not taken.
fn counted(info: &EntityInfo) -> Vec<(&'static str, Value)> {
    let Counts { active, scheduled, dead_lettered, transfer, transfer_dead_lettered, .. } =
        info.counts;
    let details = json!({
        "activeMessageCount": active,
        "deadLetterMessageCount": dead_lettered,
        "scheduledMessageCount": scheduled,
        "transferMessageCount": transfer,
        "transferDeadLetterMessageCount": transfer_dead_lettered,
    });
    let mut members = vec![
        ("countDetails", details),
        ("createdAt", json!(instant(info.created_at))),
        ("updatedAt", json!(instant(info.updated_at))),
        ("accessedAt", json!(instant(info.accessed_at))),
    ];
    // COUNT-1: what is in the queue, in whatever state.
    let count = active + scheduled + dead_lettered + transfer + transfer_dead_lettered;
    match &info.specifics {
        Specifics::Queue => {
            members.push(("messageCount", json!(count)));
            members.push(("sizeInBytes", json!(info.size_bytes)));
        }
        Specifics::Topic(specifics) => {
            members.push(("subscriptionCount", json!(specifics.subscriptions)));
            members.push(("sizeInBytes", json!(info.size_bytes)));
        }
        Specifics::Subscription(_) => members.push(("messageCount", json!(count))),
    }
    members
}

/// What a description says that replaces another: of what is fixed at creation, and of what is a resource of its own, that
/// which it had.
fn replaced<P: Described>(patch: &Patch<P>, old: &P, limits: &ProfileLimits) -> Result<P, Refusal> {
    let mut whole = Patch::of(patch.created_in(limits));
    for property in EntityProperty::all_of(P::KIND) {
        let is_fixed = matches!(property.mutability, Mutability::Never(_));
        let is_of_its_own = matches!(property.of, PropertyType::AuthorizationRules(_));
        let stays = (is_fixed && patch.get(property).is_none()) || is_of_its_own;
        if let Some(value) = property.get(old).filter(|_| stays) {
            whole.set(property, value);
        }
    }
    let new = whole.applied_to(P::default());
    validate::unchanged(old, &new)?;
    Ok(new)
}

/// `None`: it is not there.
pub(crate) fn found<T>(result: service::Result<T>) -> Result<Option<T>, Failure> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.refusal(), Some(Refusal::EntityNotFound { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A resource's name has no slash.
pub(crate) fn segment(name: &str) -> String {
    name.replace('/', "~")
}

#[cfg(test)]
mod tests {
    use domain::Profile;

    use super::*;

    /// Each row: what an entity has, what is put, and what it has then, or nothing where that is refused.
    #[test]
    fn ent_5_what_is_put_replaces_all_but_what_is_fixed() {
        let sessions = QueueProperties {
            requires_session: true,
            max_delivery_count: 3,
            ..QueueProperties::default()
        };
        for (put, expected) in [
            (json!({}), Some((true, 10))),
            (json!({"maxDeliveryCount": 5}), Some((true, 5))),
            (json!({"requiresSession": true, "maxDeliveryCount": 4}), Some((true, 4))),
            (json!({"requiresSession": false}), None),
        ] {
            let patch =
                resource_body::read(put.as_object().expect("an object")).expect("properties");
            let found = replaced(&patch, &sessions, Profile::SelfHosted.limits()).ok();
            let found = found.map(|new| (new.requires_session, new.max_delivery_count));
            assert_eq!(found, expected, "{put}");
        }
    }
}
