//! `mayfly.v1.Entities`.

use domain::QueueProperties;
use service::{Broker, QueueInfo};
use tonic::{Request, Response, Status};
use wire::{native, v1};

use crate::api::entities_server::Entities;
use crate::status::{refused, status};

/// Names in a page whose size was not given.
const PAGE_DEFAULT: u32 = 100;

pub(crate) struct EntitiesService {
    pub broker: Broker,
}

#[tonic::async_trait]
impl Entities for EntitiesService {
    async fn create_queue(
        &self,
        request: Request<v1::CreateQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        let v1::CreateQueueRequest { name, properties } = request.into_inner();
        let given = properties.unwrap_or_default();
        let properties = native::merge_properties(QueueProperties::default(), given)
            .map_err(|refusal| refused(refusal, &name))?;
        let queue = self.broker.create_queue(&name, properties).await;
        queue.map(shown).map_err(|error| status(&error))
    }

    async fn get_queue(
        &self,
        request: Request<v1::GetQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        let queue = self.broker.get_queue(&request.into_inner().name).await;
        queue.map(shown).map_err(|error| status(&error))
    }

    async fn list_queues(
        &self,
        request: Request<v1::ListQueuesRequest>,
    ) -> Result<Response<v1::ListQueuesResponse>, Status> {
        let v1::ListQueuesRequest { page_size, page_token, name_prefix } = request.into_inner();
        let after = Some(page_token.as_str()).filter(|token| !token.is_empty());
        let count_max = if page_size == 0 { PAGE_DEFAULT } else { page_size };
        let page = self.broker.list_queues(after, &name_prefix, count_max).await;
        let page = page.map_err(|error| status(&error))?;
        Ok(Response::new(v1::ListQueuesResponse {
            queues: page.queues.iter().map(queue).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn update_queue(
        &self,
        request: Request<v1::UpdateQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        let v1::UpdateQueueRequest { name, properties } = request.into_inner();
        let given = properties.unwrap_or_default();
        let change = |properties: &mut QueueProperties| {
            *properties = native::merge_properties(properties.clone(), given)?;
            Ok(())
        };
        let queue = self.broker.update_queue(&name, change).await;
        queue.map(shown).map_err(|error| status(&error))
    }

    async fn delete_queue(
        &self,
        request: Request<v1::DeleteQueueRequest>,
    ) -> Result<Response<v1::DeleteQueueResponse>, Status> {
        let deleted = self.broker.delete_queue(&request.into_inner().name).await;
        deleted.map_err(|error| status(&error))?;
        Ok(Response::new(v1::DeleteQueueResponse {}))
    }
}

fn queue(queue: &QueueInfo) -> v1::Queue {
    native::queue(&queue.info, queue.shard, queue.leader.unwrap_or(0))
}

fn shown(info: QueueInfo) -> Response<v1::Queue> {
    Response::new(queue(&info))
}
