//! Namespaces and what is in them, by their paths: whoever asks for one, a client or a deployment, asks here.

use audit::{Outcome, Protocol};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use service::{Broker, Listed};

use crate::ask::{Answer, Ask};
use crate::authorization::Rules;
use crate::entities::Entities;
use crate::failure::Failure;
use crate::namespaces::{self, Place};
use crate::network;
use crate::path::{Part, Target};
use crate::right::audited;
use crate::rules::SubscriptionRules;

/// The answer, of which the audit is told where it is told of such requests.
pub(crate) async fn recorded(
    ask: &Ask<'_>,
    target: &Target,
    answer: impl Future<Output = Answer>,
) -> Response {
    let entry = audited(target, ask.method).map(|(action, namespace, object)| {
        let (protocol, address) = (Protocol::Http, ask.requester.peer);
        let principal = Some(ask.caller.principal().clone());
        let caller = audit::Caller { protocol, address, principal, namespace };
        ask.requester.config.trail.begin(caller, action, &object)
    });
    let answer = answer.await.unwrap_or_else(Failure::into_response);
    if let Some(entry) = entry {
        let told = answer.extensions().get::<Outcome>().cloned();
        entry.end(told.unwrap_or(Outcome::Done));
    }
    answer
}

pub(crate) async fn answer(ask: &Ask<'_>, group: &str, name: &str, part: &Part) -> Answer {
    if *part == Part::Itself {
        return namespaces::answer(ask, group, name).await;
    }
    let place = Place::find(ask, group, name)?;
    let broker = ask.broker.within(place.namespace.clone());
    part_of_namespace(ask, &broker, place, part).await
}

async fn part_of_namespace(ask: &Ask<'_>, broker: &Broker, place: Place, part: &Part) -> Answer {
    let entities = Entities { ask, broker, place: &place };
    let rules = |holder| Rules { ask, broker, place: &place, holder };
    match part {
        Part::AuthorizationRules { of } => rules(of).list().await,
        Part::AuthorizationRule { of, name } => rules(of).answer(name).await,
        Part::ListKeys { of, name } => rules(of).list_keys(name).await,
        Part::RegenerateKeys { of, name } => rules(of).regenerate(name).await,
        Part::NetworkRuleSets => network::list(ask, &place),
        Part::NetworkRuleSet => network::answer(ask, place).await,
        Part::Queues => entities.list(Listed::Queues).await,
        Part::Queue { name } => entities.queue(name).await,
        Part::Topics => entities.list(Listed::Topics).await,
        Part::Topic { name } => entities.topic(name).await,
        Part::Subscriptions { topic } => entities.list(Listed::SubscriptionsOf(topic)).await,
        Part::Subscription { topic, name } => entities.subscription(topic, name).await,
        Part::Rules { topic, subscription } => {
            SubscriptionRules { ask, broker, place: &place, topic, subscription }.list().await
        }
        Part::Rule { topic, subscription, name } => {
            let of = SubscriptionRules { ask, broker, place: &place, topic, subscription };
            of.answer(name).await
        }
        Part::AbsentList if *ask.method == Method::GET => ask.page_of(Vec::new()),
        Part::AbsentList => Err(Failure::not_allowed(ask.method)),
        Part::Itself | Part::Absent { .. } if *ask.method == Method::GET => {
            Err(Failure::not_found("ResourceNotFound", "There is nothing of that name."))
        }
        Part::Absent { kind } => Err(Failure::not_here(kind.split('/').next().unwrap_or(kind))),
        Part::Itself => namespaces::answer(ask, &place.kept.group, place.namespace.as_str()).await,
    }
}
