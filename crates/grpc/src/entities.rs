//! `mayfly.v1.Entities`.

use domain::{Patch, QueueProperties, subscription_path};
use service::{Broker, Error, QueueInfo};
use tonic::{Request, Response, Status};
use wire::{native, v1};

use crate::api::entities_server::Entities;
use crate::status::{refused, status};

/// Names in a page whose size was not given.
const PAGE_DEFAULT: u32 = 100;

/// The number of a creation that may be repeated.
fn repeatable(request: u64) -> Option<u64> {
    (request != 0).then_some(request)
}

pub(crate) struct EntitiesService {
    pub broker: Broker,
}

#[tonic::async_trait]
impl Entities for EntitiesService {
    async fn create_queue(
        &self,
        request: Request<v1::CreateQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        let v1::CreateQueueRequest { name, properties, request } = request.into_inner();
        let given = Patch::try_from(properties.unwrap_or_default())
            .map_err(|refusal| refused(refusal, &name))?;
        let properties = given.created();
        let queue = self.broker.queues().create(&name, properties, repeatable(request)).await;
        queue.map(shown).map_err(|error| status(&error))
    }

    async fn get_queue(
        &self,
        request: Request<v1::GetQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        let queue = self.broker.queues().get(&request.into_inner().name).await;
        queue.map(shown).map_err(|error| status(&error))
    }

    async fn list_queues(
        &self,
        request: Request<v1::ListQueuesRequest>,
    ) -> Result<Response<v1::ListQueuesResponse>, Status> {
        let v1::ListQueuesRequest { page_size, page_token, name_prefix } = request.into_inner();
        let after = Some(page_token.as_str()).filter(|token| !token.is_empty());
        let count_max = if page_size == 0 { PAGE_DEFAULT } else { page_size };
        let page = self.broker.queues().list(after, &name_prefix, count_max).await;
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
            *properties = Patch::try_from(given)?.applied_to(properties.clone());
            Ok(())
        };
        let queue = self.broker.queues().update(&name, change).await;
        queue.map(shown).map_err(|error| status(&error))
    }

    async fn delete_queue(
        &self,
        request: Request<v1::DeleteQueueRequest>,
    ) -> Result<Response<v1::DeleteQueueResponse>, Status> {
        let deleted = self.broker.queues().delete(&request.into_inner().name).await;
        deleted.map_err(|error| status(&error))?;
        Ok(Response::new(v1::DeleteQueueResponse {}))
    }

    async fn create_topic(
        &self,
        request: Request<v1::CreateTopicRequest>,
    ) -> Result<Response<v1::Topic>, Status> {
        let v1::CreateTopicRequest { name, properties, request } = request.into_inner();
        let given = Patch::try_from(properties.unwrap_or_default())
            .map_err(|refusal| refused(refusal, &name))?;
        let properties = given.created();
        answer(self.broker.topics().create(&name, properties, repeatable(request)).await, topic)
    }

    async fn get_topic(
        &self,
        request: Request<v1::GetTopicRequest>,
    ) -> Result<Response<v1::Topic>, Status> {
        answer(self.broker.topics().get(&request.into_inner().name).await, topic)
    }

    async fn list_topics(
        &self,
        request: Request<v1::ListTopicsRequest>,
    ) -> Result<Response<v1::ListTopicsResponse>, Status> {
        let v1::ListTopicsRequest { page_size, page_token, name_prefix } = request.into_inner();
        let page =
            self.broker.topics().list(after(&page_token), &name_prefix, count_max(page_size)).await;
        let page = page.map_err(|error| status(&error))?;
        Ok(Response::new(v1::ListTopicsResponse {
            topics: page.queues.iter().map(topic).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn update_topic(
        &self,
        request: Request<v1::UpdateTopicRequest>,
    ) -> Result<Response<v1::Topic>, Status> {
        let v1::UpdateTopicRequest { name, properties } = request.into_inner();
        let given = properties.unwrap_or_default();
        let change = |base| Ok(Patch::try_from(given)?.applied_to(base));
        answer(self.broker.topics().update(&name, change).await, topic)
    }

    async fn delete_topic(
        &self,
        request: Request<v1::DeleteTopicRequest>,
    ) -> Result<Response<v1::DeleteTopicResponse>, Status> {
        let deleted = self.broker.topics().delete(&request.into_inner().name).await;
        answer(deleted, |()| v1::DeleteTopicResponse {})
    }

    async fn create_subscription(
        &self,
        request: Request<v1::CreateSubscriptionRequest>,
    ) -> Result<Response<v1::Subscription>, Status> {
        let v1::CreateSubscriptionRequest { topic, name, properties, rule, request } =
            request.into_inner();
        let refuse = |refusal| refused(refusal, &subscription_path(&topic, &name));
        let given = Patch::try_from(properties.unwrap_or_default()).map_err(refuse)?;
        let properties = given.created();
        let rule = native::rule_from_v1(rule.unwrap_or_default()).map_err(refuse)?;
        let request = repeatable(request);
        let broker = &self.broker;
        let created = broker.subscriptions().create(&topic, &name, properties, rule, request).await;
        answer(created, subscription)
    }

    async fn get_subscription(
        &self,
        request: Request<v1::GetSubscriptionRequest>,
    ) -> Result<Response<v1::Subscription>, Status> {
        let v1::GetSubscriptionRequest { topic, name } = request.into_inner();
        answer(self.broker.subscriptions().get(&topic, &name).await, subscription)
    }

    async fn list_subscriptions(
        &self,
        request: Request<v1::ListSubscriptionsRequest>,
    ) -> Result<Response<v1::ListSubscriptionsResponse>, Status> {
        let v1::ListSubscriptionsRequest { topic, page_size, page_token } = request.into_inner();
        let (after, count_max) = (after(&page_token), count_max(page_size));
        let page = self.broker.subscriptions().list(&topic, after, count_max).await;
        let page = page.map_err(|error| status(&error))?;
        Ok(Response::new(v1::ListSubscriptionsResponse {
            subscriptions: page.queues.iter().map(subscription).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn update_subscription(
        &self,
        request: Request<v1::UpdateSubscriptionRequest>,
    ) -> Result<Response<v1::Subscription>, Status> {
        let v1::UpdateSubscriptionRequest { topic, name, properties } = request.into_inner();
        let given = properties.unwrap_or_default();
        let change = |base| Ok(Patch::try_from(given)?.applied_to(base));
        let updated = self.broker.subscriptions().update(&topic, &name, change).await;
        answer(updated, subscription)
    }

    async fn delete_subscription(
        &self,
        request: Request<v1::DeleteSubscriptionRequest>,
    ) -> Result<Response<v1::DeleteSubscriptionResponse>, Status> {
        let v1::DeleteSubscriptionRequest { topic, name } = request.into_inner();
        let deleted = self.broker.subscriptions().delete(&topic, &name).await;
        answer(deleted, |()| v1::DeleteSubscriptionResponse {})
    }

    async fn put_rule(
        &self,
        request: Request<v1::PutRuleRequest>,
    ) -> Result<Response<v1::PutRuleResponse>, Status> {
        let v1::PutRuleRequest { topic, subscription, rule, replace } = request.into_inner();
        let rule = native::rule_from_v1(rule.unwrap_or_default())
            .map_err(|refusal| refused(refusal, &subscription_path(&topic, &subscription)))?;
        let put = self.broker.rules().put(&topic, &subscription, rule, replace).await;
        answer(put, |()| v1::PutRuleResponse {})
    }

    async fn list_rules(
        &self,
        request: Request<v1::ListRulesRequest>,
    ) -> Result<Response<v1::ListRulesResponse>, Status> {
        let v1::ListRulesRequest { topic, subscription, skip, top } = request.into_inner();
        let rules = self.broker.rules().list(&topic, &subscription, skip, count_max(top)).await;
        answer(rules, |rules| v1::ListRulesResponse {
            rules: rules.iter().map(native::rule_to_v1).collect(),
        })
    }

    async fn remove_rule(
        &self,
        request: Request<v1::RemoveRuleRequest>,
    ) -> Result<Response<v1::RemoveRuleResponse>, Status> {
        let v1::RemoveRuleRequest { topic, subscription, rule } = request.into_inner();
        let removed = self.broker.rules().remove(&topic, &subscription, &rule).await;
        answer(removed, |()| v1::RemoveRuleResponse {})
    }
}

/// What came of a call, as it travels.
fn answer<T, U>(
    result: Result<T, Error>,
    shown: impl FnOnce(T) -> U,
) -> Result<Response<U>, Status> {
    result.map(|value| Response::new(shown(value))).map_err(|error| status(&error))
}

fn after(page_token: &str) -> Option<&str> {
    Some(page_token).filter(|token| !token.is_empty())
}

fn count_max(page_size: u32) -> u32 {
    if page_size == 0 { PAGE_DEFAULT } else { page_size }
}

fn topic(info: impl std::borrow::Borrow<QueueInfo>) -> v1::Topic {
    let QueueInfo { group, leader, info, .. } = info.borrow();
    native::topic(info, *group, leader.unwrap_or(0))
}

fn subscription(info: impl std::borrow::Borrow<QueueInfo>) -> v1::Subscription {
    let QueueInfo { group, leader, info, .. } = info.borrow();
    native::subscription(info, *group, leader.unwrap_or(0))
}

fn queue(queue: &QueueInfo) -> v1::Queue {
    native::queue(&queue.info, queue.group, queue.leader.unwrap_or(0))
}

fn shown(info: QueueInfo) -> Response<v1::Queue> {
    Response::new(queue(&info))
}
