//! Calls about queues (ENT).

use std::sync::Arc;

use prost::Message as _;
use tonic::Code;

use crate::calls::Repeat;
use crate::nodes::Node;
use crate::{Client, Error, v1};

/// Queues in one page of a listing.
const PAGE_SIZE: u32 = 500;

impl Client {
    /// ENT-2, ENT-3. Where an answer was lost, a queue that has these properties by then counts as
    /// the one created: whose it is, if another client created the same at that moment, is not known.
    pub async fn create_queue(
        &self,
        name: &str,
        properties: v1::QueueProperties,
    ) -> Result<v1::Queue, Error> {
        let (result, doubtful) = self.create(name, &properties).await;
        match result {
            Err(error) if doubtful && is_taken(&error) => {
                let queue = self.get_queue(name).await?;
                let has = queue.properties.as_ref().is_some_and(|has| agree(has, &properties));
                if has { Ok(queue) } else { Err(error) }
            }
            result => result,
        }
    }

    /// Creates the queue unless it is there, whatever its properties then are.
    pub async fn ensure_queue(
        &self,
        name: &str,
        properties: v1::QueueProperties,
    ) -> Result<v1::Queue, Error> {
        match self.create(name, &properties).await.0 {
            Err(error) if is_taken(&error) => self.get_queue(name).await,
            result => result,
        }
    }

    /// Creates until answered. Also whether an answer was lost on the way.
    async fn create(
        &self,
        name: &str,
        properties: &v1::QueueProperties,
    ) -> (Result<v1::Queue, Error>, bool) {
        self.shared.routes.forget_queue(name);
        let mut doubtful = false;
        let attempt = |node: Arc<Node>, retry| {
            doubtful |= retry;
            let request = node.request(v1::CreateQueueRequest {
                name: name.to_owned(),
                properties: Some(properties.clone()),
            });
            async move { node.entities().create_queue(request).await }
        };
        let patience = self.shared.nodes.options().attempt_timeout;
        let result = self.shared.call(Repeat::Always, patience, attempt).await;
        (result, doubtful)
    }

    /// Properties and counters.
    pub async fn get_queue(&self, name: &str) -> Result<v1::Queue, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::GetQueueRequest { name: name.to_owned() });
            async move { node.entities().get_queue(request).await }
        };
        let patience = self.shared.nodes.options().attempt_timeout;
        self.shared.call(Repeat::Always, patience, attempt).await
    }

    /// All queues whose name begins so, in order of name.
    pub async fn list_queues(&self, name_prefix: &str) -> Result<Vec<v1::Queue>, Error> {
        let patience = self.shared.nodes.options().attempt_timeout;
        let mut queues = Vec::new();
        let mut page_token = String::new();
        loop {
            let attempt = |node: Arc<Node>, _| {
                let request = node.request(v1::ListQueuesRequest {
                    page_size: PAGE_SIZE,
                    page_token: page_token.clone(),
                    name_prefix: name_prefix.to_owned(),
                });
                async move { node.entities().list_queues(request).await }
            };
            let page = self.shared.call(Repeat::Always, patience, attempt).await?;
            queues.extend(page.queues);
            if page.next_page_token.is_empty() {
                return Ok(queues);
            }
            page_token = page.next_page_token;
        }
    }

    /// Changes the given properties, leaves the others (ENT-4, ENT-5).
    pub async fn update_queue(
        &self,
        name: &str,
        properties: v1::QueueProperties,
    ) -> Result<v1::Queue, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::UpdateQueueRequest {
                name: name.to_owned(),
                properties: Some(properties.clone()),
            });
            async move { node.entities().update_queue(request).await }
        };
        let patience = self.shared.nodes.options().attempt_timeout;
        self.shared.call(Repeat::Always, patience, attempt).await
    }

    /// ENT-7. A deletion of unknown outcome is not repeated, so that it cannot hit a queue created
    /// meanwhile under the same name; it is looked whether the queue is gone.
    pub async fn delete_queue(&self, name: &str) -> Result<(), Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::DeleteQueueRequest { name: name.to_owned() });
            async move { node.entities().delete_queue(request).await }
        };
        let patience = self.shared.nodes.options().attempt_timeout;
        let deleted = self.shared.call(Repeat::IfNotDone, patience, attempt).await;
        self.shared.routes.forget_queue(name);
        let Err(error @ Error::PerhapsDone(_)) = deleted else { return deleted.map(drop) };
        match self.get_queue(name).await {
            Err(gone @ Error::Refused(_)) if gone.detail().code == Code::NotFound => Ok(()),
            // It may be gone in a moment, or be another by now.
            Ok(_) | Err(_) => Err(error),
        }
    }
}

fn is_taken(error: &Error) -> bool {
    matches!(error, Error::Refused(detail) if detail.name == "MessagingEntityAlreadyExists")
}

/// Whether a queue has the properties that were given; it has others, too.
fn agree(has: &v1::QueueProperties, given: &v1::QueueProperties) -> bool {
    let mut both = has.clone();
    // Fields that are present replace. Cannot fail on what was just encoded.
    both.merge(given.encode_to_vec().as_slice()).is_ok() && both == *has
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_agrees_with_what_was_given_whatever_else_it_has() {
        let (lock_duration_ms, max_delivery_count) = (Some(5000), Some(3));
        let has =
            v1::QueueProperties { lock_duration_ms, max_delivery_count, ..Default::default() };
        let given = |count| v1::QueueProperties { max_delivery_count: count, ..Default::default() };
        assert!(agree(&has, &given(None)) && agree(&has, &given(Some(3))));
        assert!(!agree(&has, &given(Some(4))));
        let other = v1::QueueProperties { user_metadata: Some("m".into()), ..Default::default() };
        assert!(!agree(&has, &other));
    }
}
