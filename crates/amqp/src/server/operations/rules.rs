//! Operations on the rules of a subscription (RULE-38).

use domain::{NewRule, Refusal};
use service::{Error, PAGE_MAX};

use super::OperationContext;
use crate::management::Reply;

impl OperationContext {
    pub(super) async fn add_rule(&self, rule: NewRule) -> Result<Reply, Error> {
        let (topic, subscription) = self.subscription()?;
        self.broker.rules().put(topic, subscription, rule, false).await?;
        Ok(Reply::Done)
    }

    pub(super) async fn remove_rule(&self, name: &str) -> Result<Reply, Error> {
        let (topic, subscription) = self.subscription()?;
        self.broker.rules().remove(topic, subscription, name).await?;
        Ok(Reply::Done)
    }

    /// A client that wants all of them asks for more than there can be.
    pub(super) async fn rules(&self, skip: u32, top: u32) -> Result<Reply, Error> {
        let (topic, subscription) = self.subscription()?;
        let rules = self.broker.rules().list(topic, subscription, skip, top.min(PAGE_MAX));
        rules.await.map(Reply::Rules)
    }

    fn subscription(&self) -> Result<(&str, &str), Error> {
        let why = "only subscriptions have rules; ask one of them";
        let refused = || self.refused(Refusal::InvalidOperation { why });
        self.entity.subscription().ok_or_else(refused)
    }
}
