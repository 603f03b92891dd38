//! Calls about queues (ENT).

use std::sync::Arc;

use tonic::Code;

use crate::calls::{Repeat, draw_number};
use crate::nodes::Node;
use crate::{Client, Error, v1};

/// Queues in one page of a listing.
const PAGE_SIZE: u32 = 500;

impl Client {
    /// ENT-2, ENT-3. Repeated until answered, and known by its number (SEND-8): of several clients
    /// one creates.
    pub async fn create_queue(
        &self,
        name: &str,
        properties: v1::QueueProperties,
    ) -> Result<v1::Queue, Error> {
        self.shared.routes.forget_queue(name);
        let number = draw_number();
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::CreateQueueRequest {
                name: name.to_owned(),
                properties: Some(properties.clone()),
                request: number,
            });
            async move { node.entities().create_queue(request).await }
        };
        let patience = self.shared.nodes.options().attempt_timeout;
        let queue: v1::Queue = self.shared.call(Repeat::Always, patience, attempt).await?;
        self.shared.routes.learn_queue(name, queue.group);
        Ok(queue)
    }

    /// Creates the queue unless it is there, whatever its properties then are.
    pub async fn ensure_queue(
        &self,
        name: &str,
        properties: v1::QueueProperties,
    ) -> Result<v1::Queue, Error> {
        match self.create_queue(name, properties).await {
            Err(error) if is_taken(&error) => self.get_queue(name).await,
            result => result,
        }
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
