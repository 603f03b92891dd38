//! Topics and their limits, where several ask at once.

use domain::{
    NewRule, Refusal, RuleFilter, SQL_FILTERS_MAX, Specifics, SqlText, SubscriptionProperties,
    TopicProperties,
};
use futures::future::join_all;
use service::{Broker, Error};

use super::harness::*;

const LEFT: usize = 5;
const AT_ONCE: usize = 20;

fn sql(name: String) -> NewRule {
    let filter = RuleFilter::Sql(SqlText { text: "n = 1".to_owned(), ..SqlText::default() });
    NewRule { name, filter, action: None }
}

async fn subscribe(broker: &Broker, name: String, rule: NewRule) -> Result<(), Error> {
    let properties = SubscriptionProperties::default();
    broker.subscriptions().create("t", &name, properties, rule, None).await.map(drop)
}

/// How many were done; the others must have been refused for want of room.
fn done(outcomes: &[Result<(), Error>]) -> usize {
    let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    for error in refused {
        assert!(matches!(error.refusal(), Some(Refusal::QuotaExceeded { .. })), "{error}");
    }
    outcomes.iter().filter(|outcome| outcome.is_ok()).count()
}

/// Each finds room when it looks; the topic's log lets in as many as there is room for. Whoever is
/// refused leaves no name behind.
#[tokio::test]
async fn rule_10_quota_20_creations_at_once_do_not_pass_the_limit_together() {
    let cluster = Cluster::start(1, 1).await;
    let broker = cluster.broker(1);
    soon("a topic", broker.topics().create("t", TopicProperties::default(), None))
        .await
        .expect("t");
    subscribe(&broker, "first".to_owned(), NewRule::default()).await.expect("a subscription");
    let names: Vec<String> = (0..SQL_FILTERS_MAX - LEFT).map(|n| format!("r{n}")).collect();
    for some in names.chunks(100) {
        let adding =
            some.iter().map(|name| broker.rules().put("t", "first", sql(name.clone()), false));
        assert_eq!(done(&join_all(adding).await), some.len());
    }

    let creating = (0..AT_ONCE).map(|n| subscribe(&broker, format!("s{n}"), sql("r".to_owned())));
    let adding =
        (0..AT_ONCE).map(|n| broker.rules().put("t", "first", sql(format!("late{n}")), false));
    let racing = async { tokio::join!(join_all(creating), join_all(adding)) };
    let (created, added) = soon("the race", racing).await;
    assert_eq!(done(&created) + done(&added), LEFT);
    let Specifics::Topic(of_topic) = broker.topics().get("t").await.expect("t").info.specifics
    else {
        panic!("no topic")
    };
    assert_eq!(of_topic.rules.sql as usize, SQL_FILTERS_MAX);
    assert_eq!(of_topic.subscriptions as usize, 1 + done(&created));

    for (n, outcome) in created.iter().enumerate().filter(|(_, outcome)| outcome.is_err()) {
        let name = format!("s{n}");
        let gone = broker.subscriptions().get("t", &name).await.expect_err("it was refused");
        assert!(matches!(gone.refusal(), Some(Refusal::EntityNotFound { .. })), "{gone}");
        let free = subscribe(&broker, name, NewRule::default()).await;
        assert!(free.is_ok(), "{free:?} after {outcome:?}");
    }
    let page = broker.subscriptions().list("t", None, 1000).await.expect("a page");
    assert_eq!(page.queues.len(), 1 + AT_ONCE);
}
