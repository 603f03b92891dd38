//! Faults that clients are made to meet.

use std::sync::Arc;

use crate::calls::Repeat;
use crate::nodes::Node;
use crate::v1;
use crate::{Client, Error};

impl Client {
    /// Has clients meet a fault, in the place of another of that name; `rule` is JSON, with the keys of a table
    /// `[[faults]]` in a file. Returns once all nodes that answer go by it; the others.
    ///
    /// # Errors
    /// Refused where faults are not allowed, or the rule makes no sense.
    pub async fn put_fault_rule(&self, name: &str, rule: &str) -> Result<Vec<u64>, Error> {
        let request = v1::PutFaultRuleRequest { name: name.to_owned(), rule: rule.to_owned() };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.faults().put_rule(node.request(request)).await }
        };
        Ok(self.shared.call(Repeat::Always, self.patience(), attempt).await?.silent)
    }

    /// Has the fault of that name, or with `None` all of them, be met no more.
    ///
    /// # Errors
    /// Refused where faults are not allowed, or there is none of that name.
    pub async fn remove_fault_rules(&self, name: Option<&str>) -> Result<Vec<u64>, Error> {
        let name = name.unwrap_or_default().to_owned();
        let request = v1::RemoveFaultRulesRequest { name };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.faults().remove_rules(node.request(request)).await }
        };
        Ok(self.shared.call(Repeat::IfNotDone, self.patience(), attempt).await?.silent)
    }

    /// The faults that clients are to meet, and what came of them on all nodes.
    pub async fn fault_rules(&self) -> Result<v1::ListFaultRulesResponse, Error> {
        let attempt = |node: Arc<Node>, _| async move {
            node.faults().list_rules(node.request(v1::ListFaultRulesRequest {})).await
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }
}
