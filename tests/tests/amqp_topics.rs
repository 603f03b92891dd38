//! Topics, subscriptions and rules over AMQP against real nodes: what the SDKs do with them by way of
//! links and of `$management`.

use amqp::condition;
use amqp_protocol::Limits;
use amqp_protocol::codec::{Array, DeliveryState, Map, Modified, Outcome, Value};
use amqp_protocol::engine::Delivery;
use amqp_protocol::message::Message;
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use client::{
    Client, Message as Native, QueuePath, ReceiverOptions, SenderOptions, subscription_path, value,
};
use domain::Value as Property;
use mayfly_tests::{AmqpClient, AmqpNode, Cluster, Settings};
use message_content::{BATCH_FORMAT, Body, Neutral, from_domain};

async fn cluster(subscriptions: &[&str]) -> anyhow::Result<(Cluster, Client)> {
    let cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_topic("t", Default::default()).await?;
    for name in subscriptions {
        client.create_subscription("t", name, Default::default(), None).await?;
    }
    Ok((cluster, client))
}

fn message(id: &str, n: i32) -> Neutral {
    let properties = [
        ("n", Property::Int(n)),
        ("wait", Property::TimeSpan(600_000_000)),
        ("kind", Property::String("quake".into())),
        ("gone", Property::Bool(true)),
    ];
    Neutral {
        body: Body::Binary(Bytes::copy_from_slice(id.as_bytes())),
        message_id: Some(id.to_owned()),
        subject: Some("strong".to_owned()),
        properties: properties.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Neutral::default()
    }
}

fn encoded(neutral: &Neutral) -> Bytes {
    neutral.to_amqp(&mut BytesMut::new())
}

/// A batch: data sections that each hold a message (XFER-6).
fn batch(messages: &[Neutral]) -> Bytes {
    let data = |bytes| Neutral { body: Body::Binary(bytes), ..Neutral::default() };
    let sections = messages.iter().map(|message| encoded(&data(encoded(message))));
    sections.collect::<Vec<_>>().concat().into()
}

fn decoded(delivery: &Delivery) -> anyhow::Result<Neutral> {
    neutral(&delivery.payload.clone().ok().context("it is too large")?)
}

fn neutral(message: &Bytes) -> anyhow::Result<Neutral> {
    let limits = Limits::default();
    Ok(Neutral::from_amqp(&Message::parse(message.clone(), &limits)?, &limits)?)
}

fn sql(text: &str) -> Map {
    Map::default().string("expression", text.into())
}

fn rule(name: &str, kind: &'static str, filter: Map, action: Option<&str>) -> Map {
    let action = action.map_or(Value::Null, |action| Value::Map(sql(action)));
    let description =
        Map::default().string(kind, Value::Map(filter)).string("sql-rule-action", action);
    Map::default()
        .string("rule-name", name.into())
        .string("rule-description", Value::Map(description))
}

fn sql_rule(name: &str, filter: &str, action: Option<&str>) -> Map {
    rule(name, "sql-filter", sql(filter), action)
}

/// Takes the rule away that a new subscription has, and gives it this one.
async fn only_rule(amqp: &mut AmqpClient, subscription: &str, rule: Map) -> anyhow::Result<()> {
    let mut node = AmqpNode::open(amqp, &format!("t/Subscriptions/{subscription}")).await?;
    let default = Map::default().string("rule-name", "$Default".into());
    ensure!(node.ask(amqp, "remove-rule", default).await?.status == 200);
    let added = node.ask(amqp, "add-rule", rule).await?;
    ensure!(added.status == 200, "{added:?}");
    Ok(())
}

/// The bodies and subjects of all messages there are.
async fn receive_all(amqp: &mut AmqpClient, address: &str) -> anyhow::Result<Vec<Neutral>> {
    let receiver =
        amqp.settled_receiver(address).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    amqp.grant(receiver, 100).await?;
    amqp.drain(receiver).await?;
    let mut found = Vec::new();
    while let Some(delivery) = amqp.received(receiver) {
        found.push(decoded(&delivery)?);
    }
    amqp.detach(receiver).await?;
    Ok(found)
}

/// RULE-4, RULE-12, RULE-17, RULE-30: rules added over AMQP see all that a message sent over AMQP says.
#[tokio::test(flavor = "multi_thread")]
async fn rule_4_what_is_sent_over_amqp_is_filtered_by_all_it_says() -> anyhow::Result<()> {
    let (cluster, native) = cluster(&["sql", "correlated", "acted", "none"]).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    let filter = "n = 7 AND sys.Label = 'strong' AND sys.MessageId LIKE 'm%' AND wait > @brief";
    let brief = Map::default().string("@brief", from_domain(&Property::TimeSpan(7)));
    let filter = sql(filter).string("parameters", Value::Map(brief));
    only_rule(&mut amqp, "sql", rule("sql", "sql-filter", filter, None)).await?;
    let conditions = Map::default()
        .string("label", "strong".into())
        .string("properties", Value::Map(Map::default().string("kind", "quake".into())));
    let correlated = rule("correlated", "correlation-filter", conditions, None);
    only_rule(&mut amqp, "correlated", correlated).await?;
    let action = "SET sys.Label = 'felt'; SET twice = n * 2; REMOVE gone";
    only_rule(&mut amqp, "acted", sql_rule("acts", "n > 5", Some(action))).await?;
    only_rule(&mut amqp, "none", sql_rule("none", "n = 8 OR missing = 1", None)).await?;

    let sender = amqp.sender("amqps://localhost/T").await?.expect("the topic is there");
    assert_eq!(amqp.send(sender, 0, encoded(&message("m1", 7))).await?, DeliveryState::ACCEPTED);
    let rest = batch(&[message("m2", 3), message("m3", 7)]);
    let format = BATCH_FORMAT;
    assert_eq!(amqp.send(sender, format, rest).await?, DeliveryState::ACCEPTED);

    let mut ids = async |address: &str| -> anyhow::Result<Vec<String>> {
        let found = receive_all(&mut amqp, address).await?;
        Ok(found.into_iter().filter_map(|neutral| neutral.message_id).collect())
    };
    assert_eq!(ids("T/SUBSCRIPTIONS/Sql").await?, ["m1", "m3"], "in whatever case");
    assert_eq!(ids("t/Subscriptions/correlated").await?, ["m1", "m2", "m3"]);
    assert_eq!(ids("t/Subscriptions/none").await?, [""; 0]);

    // A copy that an action changed, over either protocol.
    let path = subscription_path("t", "acted");
    let mut receiver = native.receiver(&path, ReceiverOptions::default());
    let first = receiver.recv().await?;
    let subject = first.wire().message.as_ref().and_then(|message| message.subject.as_deref());
    assert_eq!((&first.body()[..], subject), (&b"m1"[..], Some("felt")));
    assert_eq!(first.property("twice"), Some(&value::long(14)));
    assert_eq!(first.property("gone"), None);
    assert!(receiver.complete(&first).failures().await.is_empty());
    receiver.close().await;
    let found = receive_all(&mut amqp, "t/Subscriptions/acted").await?;
    let [second] = &found[..] else { anyhow::bail!("{found:?}") };
    assert_eq!(second.subject.as_deref(), Some("felt"));
    assert_eq!(second.properties["RuleName"], Property::String("acts".into()));
    assert_eq!(second.properties["wait"], Property::TimeSpan(600_000_000));
    Ok(())
}

/// RULE-1, RULE-38, REQ-20 to REQ-23: rules are listed, and what cannot be done to them is told.
#[tokio::test(flavor = "multi_thread")]
async fn rule_38_req_20_req_21_req_23_link_16_rules_are_managed_on_their_subscription()
-> anyhow::Result<()> {
    let (cluster, _) = cluster(&["s"]).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(2)).await?;
    let mut node = AmqpNode::open(&mut amqp, "T/subscriptions/S").await?;
    let mut ask = async |operation, body| node.ask(&mut amqp, operation, body).await;
    let added = ask("add-rule", sql_rule("b", "a = 1", Some("SET a = 2"))).await?;
    assert_eq!((added.status, added.condition), (200, None));
    let page =
        |skip, top| Map::default().string("skip", Value::Int(skip)).string("top", Value::Int(top));
    let listed = ask("enumerate-rules", page(0, i32::MAX)).await?;
    assert_eq!(listed.get("rules")?.as_items().map(<[Value]>::len), Some(2));
    let second = ask("enumerate-rules", page(1, 1)).await?;
    let rules = second.get("rules")?.as_items().context("a list")?.to_vec();
    let described = rules[0].as_map().and_then(|entry| entry.get("rule-description"));
    let Some(Value::Described(parts)) = described else { anyhow::bail!("{rules:?}") };
    assert_eq!(parts.0, Value::Ulong(0x137_0000_0004));
    assert_eq!(parts.1.as_items().and_then(|fields| fields[2].as_str()), Some("b"));
    assert_eq!(ask("enumerate-rules", page(2, 10)).await?.status, 204, "there are two");

    let name = |name: &'static str| Map::default().string("rule-name", name.into());
    for (operation, body, status, condition) in [
        ("add-rule", sql_rule("B", "a = 1", None), 409, condition::ENTITY_ALREADY_EXISTS),
        ("add-rule", sql_rule("c", "a = = 1", None), 400, condition::ARGUMENT_ERROR),
        ("remove-rule", name("none"), 404, condition::NOT_FOUND),
        ("no-such-operation", Map::default(), 501, condition::NOT_IMPLEMENTED),
    ] {
        let reply = ask(operation, body).await?;
        assert_eq!((reply.status, reply.condition.as_deref()), (status, Some(condition)));
    }
    assert_eq!(ask("remove-rule", name("b")).await?.status, 200);
    let mut topic = AmqpNode::open(&mut amqp, "t").await?;
    let refused = topic.ask(&mut amqp, "add-rule", sql_rule("c", "a = 1", None)).await?;
    assert_eq!(refused.condition.as_deref(), Some(condition::NOT_ALLOWED));
    // LINK-16: there are links, and no such entity.
    let mut none = AmqpNode::open(&mut amqp, "none").await?;
    let missing = none.ask(&mut amqp, "renew-session-lock", Map::default()).await?;
    assert_eq!(missing.status, 400, "{missing:?}");
    let peek = Map::default()
        .string("from-sequence-number", Value::Long(1))
        .string("message-count", Value::Int(1));
    let missing = none.ask(&mut amqp, "peek-message", peek).await?;
    assert_eq!((missing.status, missing.condition.as_deref()), (404, Some(condition::NOT_FOUND)));
    Ok(())
}

/// DLQ-2, PEEK-2, DEFER-3, LOCK-13, LOCK-17, BATCH-1: a subscription is received from like a queue.
#[tokio::test(flavor = "multi_thread")]
async fn dlq_2_req_1_req_10_a_subscription_is_managed_like_a_queue() -> anyhow::Result<()> {
    let (cluster, native) = cluster(&["s"]).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(3)).await?;
    let sender = native.sender("t", SenderOptions::default());
    for n in 1..=4 {
        let message = Native::new(n.to_string()).property("n", value::long(n));
        sender.send(message.message_id(format!("m{n}"))).await?;
    }
    let address = "t/Subscriptions/s";
    let mut node = AmqpNode::open(&mut amqp, address).await?;
    let receiver = amqp.receiver(address).await?.expect("the subscription is there");
    amqp.grant(receiver, 2).await?;
    let (dead, deferred) = (amqp.receive(receiver).await?, amqp.receive(receiver).await?);
    amqp.drain(receiver).await?;
    let shown = decoded(&dead)?;
    assert_eq!(
        (shown.message_id.as_deref(), &shown.properties["n"]),
        (Some("m1"), &Property::Long(1))
    );

    let token = |delivery: &Delivery| {
        let token = amqp::management::from_tag(&delivery.tag).map(amqp::management::uuid);
        let uuids = Array::new(token.map(Value::Uuid).into_iter().collect());
        Map::default().string("lock-tokens", uuids.map_or(Value::Null, Value::Array))
    };
    assert_eq!(node.ask(&mut amqp, "renew-lock", token(&dead)).await?.status, 200);
    let buried = token(&dead)
        .string("disposition-status", "suspended".into())
        .string("deadletter-reason", "why".into());
    assert_eq!(node.ask(&mut amqp, "update-disposition", buried.clone()).await?.status, 200);
    let again = node.ask(&mut amqp, "update-disposition", buried).await?;
    assert_eq!(
        (again.status, again.condition.as_deref()),
        (410, Some(condition::MESSAGE_LOCK_LOST))
    );
    let found = receive_all(&mut amqp, "t/subscriptions/s/$DeadLetterQueue").await?;
    assert_eq!(found[0].properties["DeadLetterReason"], Property::String("why".into()));

    let modified = Modified { undeliverable_here: Some(true), ..Modified::default() };
    amqp.settle(&deferred, DeliveryState::Outcome(Outcome::Modified(modified))).await?;
    let sequence = amqp::management::from_tag(&deferred.tag).context("a lock")?.sequence.0;
    let numbers = Value::Array(Array::longs([sequence.cast_signed()]));
    let body = Map::default()
        .string("sequence-numbers", numbers)
        .string("receiver-settle-mode", Value::Uint(0));
    let received = node.ask(&mut amqp, "receive-by-sequence-number", body.clone()).await?;
    assert_eq!(received.status, 200);
    let messages = received.get("messages")?.as_items().context("a list")?;
    let message = messages[0].as_map().and_then(|entry| entry.get("message"));
    let Some(Value::Binary(message)) = message else { anyhow::bail!("{messages:?}") };
    assert_eq!(neutral(message)?.message_id.as_deref(), Some("m2"));
    assert_eq!(node.ask(&mut amqp, "receive-by-sequence-number", body).await?.status, 404);

    let peek = Map::default()
        .string("from-sequence-number", Value::Long(1))
        .string("message-count", Value::Int(10));
    let peeked = node.ask(&mut amqp, "peek-message", peek.clone()).await?;
    assert_eq!(peeked.get("messages")?.as_items().map(<[Value]>::len), Some(2));
    let count = || Map::default().string("message-count", Value::Int(10));
    let deleted = node.ask(&mut amqp, "batch-delete-messages", count()).await?;
    assert_eq!((deleted.status, deleted.get("message-count")?), (200, &Value::Int(2)));
    let none = node.ask(&mut amqp, "batch-delete-messages", count()).await?;
    assert_eq!((none.status, none.get("message-count")?), (200, &Value::Int(0)), "REQ-8");
    assert_eq!(node.ask(&mut amqp, "peek-message", peek).await?.status, 204);
    Ok(())
}

/// SCHED-9, ENT-9, SEND-6, SEND-7, LINK-7, LINK-8: what goes to a topic, what does not, and how much
/// of it.
#[tokio::test(flavor = "multi_thread")]
async fn link_7_link_8_links_tell_what_may_be_sent_and_received() -> anyhow::Result<()> {
    let (cluster, native) = cluster(&["s"]).await?;
    let properties = client::v1::QueueProperties {
        max_message_size_kilobytes: Some(1024),
        ..Default::default()
    };
    native.create_queue("large", properties).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    for (address, max, batch_max) in [("t", 256 << 10, 256 << 10), ("large", 1 << 20, 983_040)] {
        let attach = amqp.sender_attach(address).await?.expect("it is there");
        assert_eq!(attach.max_message_size, Some(max), "{address}");
        let batch = attach.properties.and_then(|all| {
            all.get("com.microsoft:max-message-batch-size").and_then(Value::as_i64)
        });
        assert_eq!(batch, Some(batch_max), "{address}");
    }
    for address in ["t/subscriptions/s", "t/subscriptions/s/$deadletterqueue"] {
        let refused = amqp.sender(address).await?.expect_err("nobody sends there");
        assert_eq!(&*refused.condition, condition::NOT_ALLOWED, "{address}");
    }
    let refused = amqp.receiver("t").await?.expect_err("a topic holds nothing");
    assert_eq!(&*refused.condition, condition::NOT_ALLOWED);
    let missing = amqp.receiver("t/subscriptions/none").await?.expect_err("it is not there");
    assert_eq!(&*missing.condition, condition::NOT_FOUND);

    let mut node = AmqpNode::open(&mut amqp, "t").await?;
    let at = domain::Timestamp(u64::MAX >> 20);
    let scheduled = encoded(&Neutral { scheduled_at: Some(at), ..message("later", 1) });
    let entry = Map::default()
        .string("message", Value::Binary(scheduled))
        .string("message-id", "later".into());
    let messages = Map::default().string("messages", Value::List(vec![Value::Map(entry)]));
    let reply = node.ask(&mut amqp, "schedule-message", messages).await?;
    let numbers = reply.get("sequence-numbers")?.clone();
    assert_eq!(native.get_topic("t").await?.counters.map(|all| all.scheduled), Some(1));
    assert!(native.peek(&QueuePath::main(subscription_path("t", "s")), 0, 1).await?.is_empty());
    let cancel = Map::default().string("sequence-numbers", numbers);
    assert_eq!(node.ask(&mut amqp, "cancel-scheduled-message", cancel.clone()).await?.status, 200);
    let again = node.ask(&mut amqp, "cancel-scheduled-message", cancel).await?;
    assert_eq!(
        (again.status, again.condition.as_deref()),
        (404, Some(condition::MESSAGE_NOT_FOUND))
    );
    Ok(())
}
