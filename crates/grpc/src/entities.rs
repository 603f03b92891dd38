//! `mayfly.v1.Entities`.

use domain::{Patch, QueueProperties, subscription_path};
use service::{Broker, Error, QueueInfo};
use tonic::{Request, Response, Status};
use wire::{native, v1};

use crate::api::entities_server::Entities;
use crate::door::Door;
use crate::status::{refused, status};

/// Names in a page whose size was not given.
const PAGE_DEFAULT: u32 = 100;

/// The number of a creation that may be repeated.
fn repeatable(request: u64) -> Option<u64> {
    (request != 0).then_some(request)
}

pub(crate) struct EntitiesService {
    pub door: Door,
}

#[tonic::async_trait]
impl Entities for EntitiesService {
    async fn create_queue(
        &self,
        request: Request<v1::CreateQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        let serve = |broker: Broker, asked: v1::CreateQueueRequest| async move {
            let v1::CreateQueueRequest { name, properties, request } = asked;
            let given = Patch::try_from(properties.unwrap_or_default())
                .map_err(|refusal| refused(refusal, &name))?;
            let properties = given.created_in(broker.limits());
            let queue = broker.queues().create(&name, properties, repeatable(request)).await;
            queue.map(shown).map_err(|error| status(&error))
        };
        self.door.call(request, serve).await
    }

    async fn get_queue(
        &self,
        request: Request<v1::GetQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        let serve = |broker: Broker, asked: v1::GetQueueRequest| async move {
            let queue = broker.queues().get(&asked.name).await;
            queue.map(shown).map_err(|error| status(&error))
        };
        self.door.call(request, serve).await
    }

    async fn list_queues(
        &self,
        request: Request<v1::ListQueuesRequest>,
    ) -> Result<Response<v1::ListQueuesResponse>, Status> {
        let serve = |broker: Broker, asked: v1::ListQueuesRequest| async move {
            let v1::ListQueuesRequest { page_size, page_token, name_prefix } = asked;
            let after = Some(page_token.as_str()).filter(|token| !token.is_empty());
            let count_max = if page_size == 0 { PAGE_DEFAULT } else { page_size };
            let page = broker.queues().list(after, &name_prefix, count_max).await;
            let page = page.map_err(|error| status(&error))?;
            Ok(Response::new(v1::ListQueuesResponse {
                queues: page.queues.iter().map(queue).collect(),
                next_page_token: page.next.unwrap_or_default(),
            }))
        };
        self.door.call(request, serve).await
    }

    async fn update_queue(
        &self,
        request: Request<v1::UpdateQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        let serve = |broker: Broker, asked: v1::UpdateQueueRequest| async move {
            let v1::UpdateQueueRequest { name, properties } = asked;
            let given = properties.unwrap_or_default();
            let change = |properties: &mut QueueProperties| {
                *properties = Patch::try_from(given)?.applied_to(properties.clone());
                Ok(())
            };
            let queue = broker.queues().update(&name, change).await;
            queue.map(shown).map_err(|error| status(&error))
        };
        self.door.call(request, serve).await
    }

    async fn delete_queue(
        &self,
        request: Request<v1::DeleteQueueRequest>,
    ) -> Result<Response<v1::DeleteQueueResponse>, Status> {
        let serve = |broker: Broker, asked: v1::DeleteQueueRequest| async move {
            let deleted = broker.queues().delete(&asked.name).await;
            deleted.map_err(|error| status(&error))?;
            Ok(Response::new(v1::DeleteQueueResponse {}))
        };
        self.door.call(request, serve).await
    }

    async fn create_topic(
        &self,
        request: Request<v1::CreateTopicRequest>,
    ) -> Result<Response<v1::Topic>, Status> {
        let serve = |broker: Broker, asked: v1::CreateTopicRequest| async move {
            let v1::CreateTopicRequest { name, properties, request } = asked;
            let given = Patch::try_from(properties.unwrap_or_default())
                .map_err(|refusal| refused(refusal, &name))?;
            let properties = given.created_in(broker.limits());
            answer(broker.topics().create(&name, properties, repeatable(request)).await, topic)
        };
        self.door.call(request, serve).await
    }

    async fn get_topic(
        &self,
        request: Request<v1::GetTopicRequest>,
    ) -> Result<Response<v1::Topic>, Status> {
        let serve = |broker: Broker, asked: v1::GetTopicRequest| async move {
            answer(broker.topics().get(&asked.name).await, topic)
        };
        self.door.call(request, serve).await
    }

    async fn list_topics(
        &self,
        request: Request<v1::ListTopicsRequest>,
    ) -> Result<Response<v1::ListTopicsResponse>, Status> {
        let serve = |broker: Broker, asked: v1::ListTopicsRequest| async move {
            let v1::ListTopicsRequest { page_size, page_token, name_prefix } = asked;
            let page =
                broker.topics().list(after(&page_token), &name_prefix, count_max(page_size)).await;
            let page = page.map_err(|error| status(&error))?;
            Ok(Response::new(v1::ListTopicsResponse {
                topics: page.queues.iter().map(topic).collect(),
                next_page_token: page.next.unwrap_or_default(),
            }))
        };
        self.door.call(request, serve).await
    }

    async fn update_topic(
        &self,
        request: Request<v1::UpdateTopicRequest>,
    ) -> Result<Response<v1::Topic>, Status> {
        let serve = |broker: Broker, asked: v1::UpdateTopicRequest| async move {
            let v1::UpdateTopicRequest { name, properties } = asked;
            let given = properties.unwrap_or_default();
            let change = |base| Ok(Patch::try_from(given)?.applied_to(base));
            answer(broker.topics().update(&name, change).await, topic)
        };
        self.door.call(request, serve).await
    }

    async fn delete_topic(
        &self,
        request: Request<v1::DeleteTopicRequest>,
    ) -> Result<Response<v1::DeleteTopicResponse>, Status> {
        let serve = |broker: Broker, asked: v1::DeleteTopicRequest| async move {
            let deleted = broker.topics().delete(&asked.name).await;
            answer(deleted, |()| v1::DeleteTopicResponse {})
        };
        self.door.call(request, serve).await
    }

    async fn create_subscription(
        &self,
        request: Request<v1::CreateSubscriptionRequest>,
    ) -> Result<Response<v1::Subscription>, Status> {
        let serve = |broker: Broker, asked: v1::CreateSubscriptionRequest| async move {
            let v1::CreateSubscriptionRequest { topic, name, properties, rule, request } = asked;
            let refuse = |refusal| refused(refusal, &subscription_path(&topic, &name));
            let given = Patch::try_from(properties.unwrap_or_default()).map_err(refuse)?;
            let properties = given.created_in(broker.limits());
            let rule = native::rule_from_v1(rule.unwrap_or_default()).map_err(refuse)?;
            let request = repeatable(request);
            let created =
                broker.subscriptions().create(&topic, &name, properties, rule, request).await;
            answer(created, subscription)
        };
        self.door.call(request, serve).await
    }

    async fn get_subscription(
        &self,
        request: Request<v1::GetSubscriptionRequest>,
    ) -> Result<Response<v1::Subscription>, Status> {
        let serve = |broker: Broker, asked: v1::GetSubscriptionRequest| async move {
            let v1::GetSubscriptionRequest { topic, name } = asked;
            answer(broker.subscriptions().get(&topic, &name).await, subscription)
        };
        self.door.call(request, serve).await
    }

    async fn list_subscriptions(
        &self,
        request: Request<v1::ListSubscriptionsRequest>,
    ) -> Result<Response<v1::ListSubscriptionsResponse>, Status> {
        let serve = |broker: Broker, asked: v1::ListSubscriptionsRequest| async move {
            let v1::ListSubscriptionsRequest { topic, page_size, page_token } = asked;
            let (after, count_max) = (after(&page_token), count_max(page_size));
            let page = broker.subscriptions().list(&topic, after, count_max).await;
            let page = page.map_err(|error| status(&error))?;
            Ok(Response::new(v1::ListSubscriptionsResponse {
                subscriptions: page.queues.iter().map(subscription).collect(),
                next_page_token: page.next.unwrap_or_default(),
            }))
        };
        self.door.call(request, serve).await
    }

    async fn update_subscription(
        &self,
        request: Request<v1::UpdateSubscriptionRequest>,
    ) -> Result<Response<v1::Subscription>, Status> {
        let serve = |broker: Broker, asked: v1::UpdateSubscriptionRequest| async move {
            let v1::UpdateSubscriptionRequest { topic, name, properties } = asked;
            let given = properties.unwrap_or_default();
            let change = |base| Ok(Patch::try_from(given)?.applied_to(base));
            let updated = broker.subscriptions().update(&topic, &name, change).await;
            answer(updated, subscription)
        };
        self.door.call(request, serve).await
    }

    async fn delete_subscription(
        &self,
        request: Request<v1::DeleteSubscriptionRequest>,
    ) -> Result<Response<v1::DeleteSubscriptionResponse>, Status> {
        let serve = |broker: Broker, asked: v1::DeleteSubscriptionRequest| async move {
            let v1::DeleteSubscriptionRequest { topic, name } = asked;
            let deleted = broker.subscriptions().delete(&topic, &name).await;
            answer(deleted, |()| v1::DeleteSubscriptionResponse {})
        };
        self.door.call(request, serve).await
    }

    async fn put_rule(
        &self,
        request: Request<v1::PutRuleRequest>,
    ) -> Result<Response<v1::PutRuleResponse>, Status> {
        let serve = |broker: Broker, asked: v1::PutRuleRequest| async move {
            let v1::PutRuleRequest { topic, subscription, rule, replace } = asked;
            let rule = native::rule_from_v1(rule.unwrap_or_default())
                .map_err(|refusal| refused(refusal, &subscription_path(&topic, &subscription)))?;
            let put = broker.rules().put(&topic, &subscription, rule, replace).await;
            answer(put, |()| v1::PutRuleResponse {})
        };
        self.door.call(request, serve).await
    }

    async fn list_rules(
        &self,
        request: Request<v1::ListRulesRequest>,
    ) -> Result<Response<v1::ListRulesResponse>, Status> {
        let serve = |broker: Broker, asked: v1::ListRulesRequest| async move {
            let v1::ListRulesRequest { topic, subscription, skip, top } = asked;
            let rules = broker.rules().list(&topic, &subscription, skip, count_max(top)).await;
            answer(rules, |rules| v1::ListRulesResponse {
                rules: rules.iter().map(native::rule_to_v1).collect(),
            })
        };
        self.door.call(request, serve).await
    }

    async fn remove_rule(
        &self,
        request: Request<v1::RemoveRuleRequest>,
    ) -> Result<Response<v1::RemoveRuleResponse>, Status> {
        let serve = |broker: Broker, asked: v1::RemoveRuleRequest| async move {
            let v1::RemoveRuleRequest { topic, subscription, rule } = asked;
            let removed = broker.rules().remove(&topic, &subscription, &rule).await;
            answer(removed, |()| v1::RemoveRuleResponse {})
        };
        self.door.call(request, serve).await
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
