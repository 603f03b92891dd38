//! Rules of subscriptions (RULE).

use domain::{
    Command, EntityId, Namespace, NewRule, PutRule, QualifiedName, Refusal, RemoveRule, RuleRow,
    TopicCommand, subscription_path,
};

use super::{PAGE_MAX, Subscriptions};
use crate::edge::address::Caller;
use crate::edge::router::{Router, not_found};
use crate::error::{Error, Result};
use crate::exchange::{Read, ReadAnswer};

/// Subscriptions' rules, by their names.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    pub(in crate::edge) router: &'a Router,
    pub(in crate::edge) namespace: &'a Namespace,
}

impl Rules<'_> {
    /// Adds a rule, or with `replace` puts it in the place of the one of its name (RULE-1, RULE-13).
    pub async fn put(
        self,
        topic: &str,
        subscription: &str,
        rule: NewRule,
        replace: bool,
    ) -> Result<()> {
        let path = self.path(topic, subscription)?;
        let route = self.router.route(&path, self.router.deadline()).await?;
        let (origin, entity, rule) = (None, route.entity, Box::new(rule));
        self.ask(&path, TopicCommand::PutRule(PutRule { origin, entity, rule, replace })).await
    }

    pub async fn remove(self, topic: &str, subscription: &str, name: &str) -> Result<()> {
        let path = self.path(topic, subscription)?;
        let route = self.router.route(&path, self.router.deadline()).await?;
        let (origin, entity, name) = (None, route.entity, name.to_owned());
        self.ask(&path, TopicCommand::RemoveRule(RemoveRule { origin, entity, name })).await
    }

    /// RULE-38: in order of name, at most `top` (1 to 1,000) after `skip` of them.
    pub async fn list(
        self,
        topic: &str,
        subscription: &str,
        skip: u32,
        top: u32,
    ) -> Result<Vec<RuleRow>> {
        let path = self.path(topic, subscription)?;
        if !(1..=PAGE_MAX).contains(&top) {
            let (what, value, allowed) = ("top", top.to_string(), "1 to 1000");
            return Err(Error::new(Refusal::ArgumentOutOfRange { what, value, allowed }, &path));
        }
        let read = |subscription| Read::Rules { subscription, skip, count_max: top };
        self.read(&path, read).await
    }

    /// A rule by its name, in whatever case.
    pub async fn get(self, topic: &str, subscription: &str, name: &str) -> Result<RuleRow> {
        let path = self.path(topic, subscription)?;
        // Whether the subscription is there is asked too: without it there is an empty list.
        let Rules { router, namespace } = self;
        Subscriptions { router, namespace }.get(topic, subscription).await?;
        let read = |subscription| Read::Rule { subscription, name: name.to_owned() };
        let found = self.read(&path, read).await?.pop();
        found.ok_or_else(|| {
            let name = format!("{}/Rules/{name}", path.told());
            Error::new(Refusal::EntityNotFound { name }, &path)
        })
    }

    /// NS-3.
    fn path(self, topic: &str, subscription: &str) -> Result<QualifiedName> {
        let path = subscription_path(topic, subscription);
        self.namespace.qualify(&path).map_err(|refusal| Error::new(refusal, path))
    }

    async fn read(
        self,
        path: &QualifiedName,
        read: impl Fn(EntityId) -> Read,
    ) -> Result<Vec<RuleRow>> {
        match self.router.read_entity(path, false, self.router.deadline(), read).await? {
            ReadAnswer::Rules(rules) => Ok(rules),
            _ => Err(not_found(path.as_str())),
        }
    }

    async fn ask(self, path: &QualifiedName, command: TopicCommand) -> Result<()> {
        let _in_use = self.router.enter(self.namespace, path.told()).await?;
        let deadline = self.router.deadline();
        self.router.execute(path, Command::Topic(command), Caller::Edge, deadline).await.map(drop)
    }
}
