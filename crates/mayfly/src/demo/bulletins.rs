//! The second act: the week again, as bulletins on a topic. A filter gives one subscription the strong
//! quakes and marks them, another what was no earthquake; a third reads each network's bulletins in
//! their order, as a session. Then somebody asks a question on a temporary reply queue, leaves, and
//! the cluster deletes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use client::v1::{self, filter, value::Kind};
use client::{Client, Delivery, Error, Message, ReceiverOptions, SenderOptions, subscription_path};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::alert::Alert;
use super::tally::{Gone, Tally};

/// What the strong ones are to the filter and to the count that is expected of it.
const STRONG: &str = "magnitude >= 4.5";
const STRONG_FROM: f64 = 4.5;
const MARK: &str = "SET alarm = 'red'";
const BLAST: &str = "quarry blast";
/// Readers of sessions, each of one at a time.
const READERS: usize = 4;
/// A session without a message for so long has been read.
const SESSION_IDLE: Duration = Duration::from_millis(300);
/// Anything here that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// The shortest there is (IDLE-1).
const REPLY_QUEUE_IDLE: Duration = Duration::from_secs(5 * 60);
/// What is known of its last use may be a minute old (IDLE-14).
const CLOCK_MOVES: Duration = Duration::from_secs(7 * 60);

/// The whole act. `development`: the cluster's clock may be moved.
pub async fn run(
    client: &Client,
    prefix: &str,
    alerts: &Arc<Vec<Alert>>,
    development: bool,
) -> anyhow::Result<Tally> {
    let topic = format!("{prefix}-bulletins");
    create(client, &topic).await?;
    let started = Instant::now();
    publish(client, &topic, alerts).await?;

    let mut tally = Tally { published: alerts.len() as u64, ..Tally::default() };
    let count =
        |of: &dyn Fn(&Alert) -> bool| alerts.iter().filter(|alert| of(alert)).count() as u64;
    tally.strong.due = count(&|alert| alert.magnitude.is_some_and(|m| m >= STRONG_FROM));
    tally.blasts.due = count(&|alert| alert.kind == BLAST);
    tally.in_order.due = alerts.len() as u64;

    for delivery in drain(client, &topic, "strong", tally.strong.due).await? {
        tally.strong.came += u64::from(delivery.text_property("alarm") == Some("red"));
    }
    tally.blasts.came = drain(client, &topic, "blasts", tally.blasts.due).await?.len() as u64;
    let sessions = read_sessions(client, &topic, tally.in_order.due).await?;
    tally.sessions = sessions.len() as u64;
    tally.in_order.came = sessions.values().sum();
    tally.took = started.elapsed();
    let counters = client.get_topic(&topic).await?.counters.unwrap_or_default();
    tally.counted = counters.published;

    let replies = ask(client, prefix, tally.strong.came).await?;
    if development {
        tally.reply_queue = vanish(client, &replies).await?;
    } else {
        client.delete_topic(&topic).await?;
        client.delete_queue(&questions(prefix)).await?;
    }
    Ok(tally)
}

fn questions(prefix: &str) -> String {
    format!("{prefix}-questions")
}

async fn create(client: &Client, topic: &str) -> anyhow::Result<()> {
    let rule = |kind: filter::Kind, action: Option<&str>| {
        let action = action.map(|text| v1::Sql { text: text.to_owned(), ..Default::default() });
        let filter = Some(v1::Filter { kind: Some(kind) });
        v1::Rule { name: "rule".to_owned(), filter, action, ..Default::default() }
    };
    client.create_topic(topic, v1::TopicProperties::default()).await?;
    let plain = v1::SubscriptionProperties::default;
    let sql = v1::Sql { text: STRONG.to_owned(), ..Default::default() };
    let strong = rule(filter::Kind::Sql(sql), Some(MARK));
    client.create_subscription(topic, "strong", plain(), Some(strong)).await?;
    let subject = Some(BLAST.to_owned());
    let equal = v1::Correlation { subject, ..Default::default() };
    let blasts = rule(filter::Kind::Correlation(equal), None);
    client.create_subscription(topic, "blasts", plain(), Some(blasts)).await?;
    let ordered = v1::SubscriptionProperties { requires_session: Some(true), ..plain() };
    client.create_subscription(topic, "networks", ordered, None).await?;
    Ok(())
}

async fn publish(client: &Client, topic: &str, alerts: &[Alert]) -> anyhow::Result<()> {
    let options = SenderOptions { window: alerts.len().max(1), ..SenderOptions::default() };
    let sender = client.sender(topic, options);
    let mut answers = Vec::new();
    for (number, alert) in (1..).zip(alerts) {
        answers.push(sender.submit(vec![bulletin(number, alert)]).await?);
    }
    for answer in answers {
        answer.await.context("a bulletin was not published")?;
    }
    sender.close().await;
    Ok(())
}

fn bulletin(number: i64, alert: &Alert) -> Message {
    let message = Message::new(alert.body)
        .message_id(&alert.id)
        .subject(&alert.kind)
        .session_id(&alert.network)
        .property("number", client::value::long(number));
    match alert.magnitude {
        Some(magnitude) => message.property("magnitude", client::value::double(magnitude)),
        None => message,
    }
}

/// Takes as many as are due out of a subscription; fewer if no more come.
async fn drain(
    client: &Client,
    topic: &str,
    subscription: &str,
    due: u64,
) -> anyhow::Result<Vec<Delivery>> {
    let path = subscription_path(topic, subscription);
    let mut receiver = client.receiver(path, ReceiverOptions::default());
    let (mut taken, mut settling) = (Vec::new(), Vec::new());
    while (taken.len() as u64) < due {
        let Ok(delivery) = timeout(PATIENCE, receiver.recv()).await else { break };
        let delivery = delivery?;
        settling.push(receiver.complete(&delivery));
        taken.push(delivery);
    }
    for settled in settling {
        settled.await.context("a bulletin was not completed")?;
    }
    receiver.close().await;
    Ok(taken)
}

/// Each network's bulletins by readers that take one session after the other. How many came in
/// order, by network.
async fn read_sessions(
    client: &Client,
    topic: &str,
    due: u64,
) -> anyhow::Result<BTreeMap<String, u64>> {
    let path = subscription_path(topic, "networks");
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let (client, path) = (client.clone(), path.clone());
        readers.spawn(async move { read_until_none_is_left(&client, &path).await });
    }
    let mut sessions: BTreeMap<String, u64> = BTreeMap::new();
    let read = async {
        while let Some(read) = readers.join_next().await {
            for (session, count) in read?? {
                *sessions.entry(session).or_default() += count;
            }
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, read).await.with_context(|| format!("{due} bulletins were not read"))??;
    Ok(sessions)
}

async fn read_until_none_is_left(
    client: &Client,
    path: &str,
) -> anyhow::Result<Vec<(String, u64)>> {
    let mut read = Vec::new();
    loop {
        let options = ReceiverOptions::default();
        let mut session = match client.accept_next_session(path, SESSION_IDLE, options).await {
            Ok(session) => session,
            Err(error) if error.name() == "ServiceTimeout" => return Ok(read),
            Err(error) => return Err(error.into()),
        };
        let mut settling = Vec::new();
        let (mut last, mut in_order) = (0, 0);
        while let Ok(delivery) = timeout(SESSION_IDLE, session.recv()).await {
            let delivery = delivery?;
            let number = number(&delivery);
            in_order += u64::from(number > last);
            last = number;
            settling.push(session.complete(&delivery));
        }
        for settled in settling {
            settled.await.context("a session's bulletin was not completed")?;
        }
        session.set_state(Some(in_order.to_string().into())).await?;
        read.push((session.session_id().to_owned(), in_order));
        session.close().await;
    }
}

fn number(delivery: &Delivery) -> i64 {
    match delivery.property("number").and_then(|value| value.kind.as_ref()) {
        Some(Kind::LongValue(number)) => *number,
        _ => 0,
    }
}

/// Asks how many were strong, and gets the answer on a queue of its own. Its name.
async fn ask(client: &Client, prefix: &str, strong: u64) -> anyhow::Result<String> {
    let questions = questions(prefix);
    client.create_queue(&questions, v1::QueueProperties::default()).await?;
    let replies = format!("{prefix}-replies-{}", uuid::Uuid::new_v4().simple());
    let idle = Some(REPLY_QUEUE_IDLE.as_millis() as u64);
    let properties = v1::QueueProperties { auto_delete_on_idle_ms: idle, ..Default::default() };
    client.create_queue(&replies, properties).await?;

    let question = Message::new("how many were strong?").message_id("question").reply_to(&replies);
    client.send(&questions, vec![question]).await?;
    let answering = async {
        let mut receiver = client.receiver(&questions, ReceiverOptions::default());
        let question = receiver.recv().await?;
        let answer = Message::new(strong.to_string())
            .correlation_id(question.message_id().unwrap_or_default());
        client.send(question.reply_to().unwrap_or_default(), vec![answer]).await?;
        receiver.complete(&question).await?;
        receiver.close().await;
        Ok::<_, Error>(())
    };
    let listening = async {
        let mut receiver = client.receiver(&replies, ReceiverOptions::default());
        let answer = receiver.recv().await?;
        receiver.complete(&answer).await?;
        receiver.close().await;
        Ok::<_, Error>(answer)
    };
    let (_, answer) = timeout(PATIENCE, async { tokio::try_join!(answering, listening) })
        .await
        .context("nobody answered")??;
    if answer.correlation_id() != Some("question") || *answer.body() != strong.to_string() {
        bail!("{replies} got an answer to something else");
    }
    Ok(replies)
}

/// Moves the clock past the reply queue's time, and waits until it is gone.
async fn vanish(client: &Client, replies: &str) -> anyhow::Result<Option<Gone>> {
    client.advance_clock(CLOCK_MOVES).await?;
    let moved = Instant::now();
    while moved.elapsed() < PATIENCE {
        match client.get_queue(replies).await {
            Err(error) if error.name() == "MessagingEntityNotFound" => {
                return Ok(Some(Gone::After(moved.elapsed())));
            }
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    Ok(Some(Gone::Never))
}
