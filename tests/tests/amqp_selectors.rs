//! Selectors of JMS on receiver links, against real nodes (LINK-20, SEL-1 to SEL-8). `tests/sdk/jms`
//! holds the same with such a client, where there is Java.

use std::time::{Duration, Instant};

use amqp::condition;
use amqp_protocol::Limits;
use amqp_protocol::codec::{
    Attach, DeliveryState, Error, Map, Modified, Outcome, SenderSettleMode, Source, Symbol, Value,
    descriptor,
};
use amqp_protocol::engine::{Delivery, LinkId};
use amqp_protocol::message::{Header, Message, MessageBuilder};
use anyhow::{Context, ensure};
use bytes::Bytes;
use client::{Client, QueuePath};
use mayfly_tests::{AmqpClient, Cluster, Settings};
use message_content::{Body, Neutral};

/// What waits for an arrival hears of it at once, on a busy machine a little later.
const WITHIN: Duration = Duration::from_secs(20);

async fn cluster(nodes: u64) -> anyhow::Result<(Cluster, Client, AmqpClient)> {
    let settings = Settings { nodes, data_groups: 1, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("q", Default::default()).await?;
    let amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    Ok((cluster, client, amqp))
}

/// A message of a colour and a number, of that priority; its body is both.
fn message(colour: &str, number: u8) -> Bytes {
    let properties = [("colour", Value::from(colour)), ("number", Value::Int(number.into()))];
    let properties = Map(properties.map(|(name, value)| (name.into(), value)).into());
    MessageBuilder::default()
        .composite(&Header { priority: Some(number), ..Header::default() })
        .section(descriptor::APPLICATION_PROPERTIES, &properties)
        .data(format!("{colour}{number}"))
        .build()
}

async fn send(amqp: &mut AmqpClient, queue: &str, messages: &[(&str, u8)]) -> anyhow::Result<()> {
    let link = amqp.sender(queue).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    for (colour, number) in messages {
        let state = amqp.send(link, 0, message(colour, *number)).await?;
        ensure!(state == DeliveryState::ACCEPTED, "{state:?}");
    }
    Ok(amqp.detach(link).await?)
}

fn selecting(address: &str, selector: impl Into<Value>) -> Source {
    let descriptor = Value::Symbol(Symbol::from_static("apache.org:selector-filter:string"));
    let filter = Value::Described(Box::new((descriptor, selector.into())));
    let filter = Some(Map::default().symbol("jms-selector", filter));
    Source { address: Some(address.into()), filter, ..Source::default() }
}

async fn attach(
    amqp: &mut AmqpClient,
    source: Source,
    mode: SenderSettleMode,
) -> anyhow::Result<Result<(LinkId, Attach), Error>> {
    let attach = Attach::receiver(&amqp.link_name(), "");
    let attach = Attach { source: Some(source), snd_settle_mode: mode, ..attach };
    Ok(amqp.attach(attach).await?)
}

/// A link of a selector, as long as its answer repeats the filter.
async fn selector(
    amqp: &mut AmqpClient,
    source: Source,
    mode: SenderSettleMode,
) -> anyhow::Result<LinkId> {
    let filter = source.filter.clone();
    let attached = attach(amqp, source, mode).await?;
    let (link, answer) = attached.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    ensure!(answer.source.context("no source")?.filter == filter, "the filter is in force");
    Ok(link)
}

async fn locking(amqp: &mut AmqpClient, address: &str, text: &str) -> anyhow::Result<LinkId> {
    selector(amqp, selecting(address, text), SenderSettleMode::Unsettled).await
}

fn body(delivery: &Delivery) -> anyhow::Result<String> {
    let limits = Limits::default();
    let payload = delivery.payload.clone().ok().context("it is too large")?;
    match Neutral::from_amqp(&Message::parse(payload, &limits)?, &limits)?.body {
        Body::Binary(bytes) => Ok(std::str::from_utf8(&bytes)?.to_owned()),
        Body::Amqp(sections) => anyhow::bail!("no bytes: {sections:?}"),
    }
}

fn failed(delivery: &Delivery) -> anyhow::Result<u32> {
    let limits = Limits::default();
    let payload = delivery.payload.clone().ok().context("it is too large")?;
    Ok(Message::parse(payload, &limits)?.header(&limits)?.delivery_count.unwrap_or_default())
}

/// All that the link is sent for so much credit, until it says that there is no more.
async fn drained(
    amqp: &mut AmqpClient,
    link: LinkId,
    credit: u32,
) -> anyhow::Result<Vec<Delivery>> {
    amqp.grant(link, credit).await?;
    amqp.drain(link).await?;
    Ok(std::iter::from_fn(|| amqp.received(link)).collect())
}

async fn bodies(amqp: &mut AmqpClient, link: LinkId, credit: u32) -> anyhow::Result<Vec<String>> {
    drained(amqp, link, credit).await?.iter().map(body).collect()
}

async fn settle(
    amqp: &mut AmqpClient,
    delivery: &Delivery,
    state: DeliveryState,
) -> anyhow::Result<()> {
    let answer = amqp.settle(delivery, state.clone()).await?;
    ensure!(answer == state, "{answer:?}");
    Ok(())
}

const FIVE: [(&str, u8); 5] = [("red", 1), ("blue", 2), ("red", 3), ("blue", 4), ("blue", 5)];

/// A link is sent what its selector takes, in order and as far as its credit goes; what it leaves is there
/// for others as if it had never been.
#[tokio::test(flavor = "multi_thread")]
async fn link_20_sel_6_a_link_is_sent_what_its_selector_takes() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(3).await?;
    send(&mut amqp, "q", &FIVE).await?;
    let blue = locking(&mut amqp, "q", "colour = 'blue'").await?;
    let two = drained(&mut amqp, blue, 2).await?;
    assert_eq!(two.iter().map(body).collect::<Result<Vec<_>, _>>()?, ["blue2", "blue4"]);
    let last = drained(&mut amqp, blue, 9).await?;
    assert_eq!(last.iter().map(body).collect::<Result<Vec<_>, _>>()?, ["blue5"]);
    // One that failed comes again, counted; one that is released uncounted; one that is taken is gone.
    let modified = Modified { delivery_failed: Some(true), ..Modified::default() };
    amqp.settle(&two[0], DeliveryState::Outcome(Outcome::Modified(modified))).await?;
    settle(&mut amqp, &two[1], DeliveryState::Outcome(Outcome::Released)).await?;
    settle(&mut amqp, &last[0], DeliveryState::ACCEPTED).await?;
    let again = drained(&mut amqp, blue, 9).await?;
    assert_eq!(again.iter().map(body).collect::<Result<Vec<_>, _>>()?, ["blue2", "blue4"]);
    assert_eq!(again.iter().map(failed).collect::<Result<Vec<_>, _>>()?, [1, 0]);
    for delivery in &again {
        settle(&mut amqp, delivery, DeliveryState::ACCEPTED).await?;
    }
    let rest = amqp.receiver("q").await?.expect("the queue is there");
    let left = drained(&mut amqp, rest, 9).await?;
    assert_eq!(left.iter().map(body).collect::<Result<Vec<_>, _>>()?, ["red1", "red3"]);
    assert_eq!(left.iter().map(failed).collect::<Result<Vec<_>, _>>()?, [0, 0]);
    assert_eq!(client.peek(&QueuePath::main("q"), 0, 9).await?.len(), 2);
    Ok(())
}

/// Who waits is told of what comes, on whichever node its leader is, and of what comes back of that it
/// has passed already.
#[tokio::test(flavor = "multi_thread")]
async fn sel_7_a_link_that_waits_is_sent_what_comes_and_what_comes_back() -> anyhow::Result<()> {
    let (cluster, _client, mut amqp) = cluster(3).await?;
    send(&mut amqp, "q", &[("blue", 1)]).await?;
    let plain = amqp.receiver("q").await?.expect("the queue is there");
    amqp.grant(plain, 1).await?;
    let held = amqp.receive(plain).await?;
    amqp.drain(plain).await?; // It wants no other.
    let mut others = Vec::new();
    for node in 1..=3 {
        let mut other = AmqpClient::connect(cluster.amqp_address(node)).await?;
        let number = node + 1;
        let link =
            locking(&mut other, "q", &format!("colour = 'blue' AND number = {number}")).await?;
        other.grant(link, 1).await?;
        others.push((other, link, format!("blue{number}")));
    }
    let first = locking(&mut amqp, "q", "number = 1").await?;
    assert!(bodies(&mut amqp, first, 1).await?.is_empty(), "it is another's");
    amqp.grant(first, 1).await?;
    let since = Instant::now();
    send(&mut amqp, "q", &[("red", 2), ("blue", 4), ("blue", 3), ("blue", 2)]).await?;
    for (other, link, expected) in &mut others {
        let delivery = other.receive(*link).await.with_context(|| format!("no {expected}"))?;
        assert_eq!(body(&delivery)?, *expected);
    }
    settle(&mut amqp, &held, DeliveryState::Outcome(Outcome::Released)).await?;
    let delivery = amqp.receive(first).await.context("no blue1")?;
    assert_eq!(body(&delivery)?, "blue1");
    ensure!(since.elapsed() < WITHIN, "after {:?}", since.elapsed());
    Ok(())
}

/// What a link was sent and did not settle stays locked when it goes (LINK-18); what it was not sent is
/// for others at once.
#[tokio::test(flavor = "multi_thread")]
async fn sel_6_what_a_link_was_not_sent_is_for_others_when_it_goes() -> anyhow::Result<()> {
    let (_cluster, _client, mut amqp) = cluster(1).await?;
    send(&mut amqp, "q", &FIVE).await?;
    let blue = locking(&mut amqp, "q", "colour = 'blue'").await?;
    amqp.grant(blue, 1).await?;
    assert_eq!(body(&amqp.receive(blue).await?)?, "blue2");
    amqp.detach(blue).await?;
    let rest = amqp.receiver("q").await?.expect("the queue is there");
    let since = Instant::now();
    let mut left = Vec::new();
    amqp.grant(rest, 4).await?;
    while left.len() < 4 {
        left.push(body(&amqp.receive(rest).await?)?);
    }
    left.sort();
    assert_eq!(left, ["blue4", "blue5", "red1", "red3"]);
    ensure!(since.elapsed() < WITHIN, "after {:?}", since.elapsed());
    Ok(())
}

/// Both ways of receiving, copies, and each kind of queue there is.
#[tokio::test(flavor = "multi_thread")]
async fn sel_8_selectors_work_wherever_messages_are_received() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(1).await?;
    client.create_topic("t", Default::default()).await?;
    client.create_subscription("t", "s", Default::default(), None).await?;
    for (to, from) in [("q", "q"), ("t", "t/Subscriptions/s")] {
        send(&mut amqp, to, &FIVE).await?;
        // A browser takes nothing.
        let copies = Source {
            distribution_mode: Some(Symbol::from_static("copy")),
            ..selecting(from, "JMSPriority > 3")
        };
        let browser = selector(&mut amqp, copies, SenderSettleMode::Settled).await?;
        assert_eq!(bodies(&mut amqp, browser, 1).await?, ["blue4"], "{from}");
        assert_eq!(bodies(&mut amqp, browser, 9).await?, ["blue5"], "{from}");
        // Dead letters are messages as well.
        let dying = locking(&mut amqp, from, "number = 4").await?;
        let dead = drained(&mut amqp, dying, 9).await?;
        assert_eq!(dead.len(), 1, "{from}");
        settle(&mut amqp, &dead[0], DeliveryState::Outcome(Outcome::Rejected(None))).await?;
        let letters = format!("{from}/$DeadLetterQueue");
        let none = locking(&mut amqp, &letters, "number <> 4").await?;
        assert!(bodies(&mut amqp, none, 9).await?.is_empty(), "{from}");
        let letters = locking(&mut amqp, &letters, "number = 4").await?;
        assert_eq!(bodies(&mut amqp, letters, 9).await?, ["blue4"], "{from}");
        // Receive and delete.
        let source = selecting(from, "colour = 'blue'");
        let taking = selector(&mut amqp, source, SenderSettleMode::Settled).await?;
        assert_eq!(bodies(&mut amqp, taking, 9).await?, ["blue2", "blue5"], "{from}");
        let rest = amqp.settled_receiver(from).await?.expect("it is there");
        assert_eq!(bodies(&mut amqp, rest, 9).await?, ["red1", "red3"], "{from}");
    }
    Ok(())
}

/// Each row a source, and how it is refused; the connection goes on.
#[tokio::test(flavor = "multi_thread")]
async fn sel_1_sel_8_what_no_selector_can_be_for_is_refused() -> anyhow::Result<()> {
    let (_cluster, client, mut amqp) = cluster(1).await?;
    let sessions =
        client::v1::QueueProperties { requires_session: Some(true), ..Default::default() };
    client.create_queue("s", sessions).await?;
    client.create_topic("t", Default::default()).await?;
    let mut of_session = selecting("s", "a = 1");
    let filters = of_session.filter.take().unwrap_or_default();
    of_session.filter = Some(filters.symbol("com.microsoft:session-filter", "one".into()));
    for (source, condition, words) in [
        (selecting("q", "a ="), condition::INVALID_FIELD, "'jms-selector'"),
        (selecting("q", "a = 'x"), condition::INVALID_FIELD, "column 5"),
        (selecting("q", Value::Int(5)), condition::INVALID_FIELD, "it is no text"),
        (of_session, condition::NOT_IMPLEMENTED, "a selector among the messages of one session"),
        (selecting("s", "a = 1"), condition::NOT_ALLOWED, "requires sessions"),
        (selecting("t", "a = 1"), condition::NOT_ALLOWED, "a topic holds no messages"),
        (selecting("none", "a = 1"), condition::NOT_FOUND, "could not be found"),
    ] {
        let copies =
            Source { distribution_mode: Some(Symbol::from_static("copy")), ..source.clone() };
        for source in [source, copies] {
            let Err(error) = attach(&mut amqp, source.clone(), SenderSettleMode::Mixed).await?
            else {
                // A browser may look into a queue of sessions as a peek may.
                ensure!(source.address.as_deref() == Some("s"), "{source:?} is accepted");
                continue;
            };
            assert_eq!(error.condition.as_str(), condition, "{error:?}");
            let told = error.description.unwrap_or_default();
            let is_browsers = source.distribution_mode.is_some();
            ensure!(is_browsers || told.contains(words), "{told}");
        }
    }
    send(&mut amqp, "q", &[("blue", 1)]).await?;
    // A link whose entity goes is told.
    let link = locking(&mut amqp, "q", "colour = 'red'").await?;
    amqp.grant(link, 1).await?;
    client.delete_queue("q").await?;
    assert_eq!(amqp.detached(link).await?.condition.as_str(), condition::NOT_FOUND);
    Ok(())
}

type Property = (&'static str, fn(&str, u8) -> bool);

/// The broker takes what a selector says by definition, of many messages, by copies and by locks.
#[tokio::test(flavor = "multi_thread")]
async fn sel_3_sel_6_the_broker_agrees_with_the_definition() -> anyhow::Result<()> {
    const COLOURS: [&str; 4] = ["red", "green", "blue", "grey"];
    const SELECTORS: [Property; 8] = [
        ("colour = 'red' OR number > 200", |colour, number| colour == "red" || number > 200),
        ("colour LIKE 'gr%' AND number BETWEEN 20 AND 120", |colour, number| {
            colour.starts_with("gr") && (20..=120).contains(&number)
        }),
        ("number % 7 = 3 AND missing IS NULL", |_, number| number % 7 == 3),
        ("NOT (colour IN ('red', 'blue')) AND number < 60", |colour, number| {
            !["red", "blue"].contains(&colour) && number < 60
        }),
        ("missing = 1", |_, _| false),
        ("colour <> 'green' AND JMSPriority * 2 >= 300", |colour, number| {
            colour != "green" && u32::from(number) * 2 >= 300
        }),
        ("number NOT BETWEEN 10 AND 240", |_, number| !(10..=240).contains(&number)),
        ("TRUE", |_, _| true),
    ];
    let (_cluster, client, mut amqp) = cluster(1).await?;
    let mut state = 7_u32;
    let mut draw = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let drawn = |_| {
        let colour = COLOURS[draw(4) as usize];
        (colour, u8::try_from(draw(256)).unwrap_or_default())
    };
    let mut left: Vec<(&str, u8)> = (0..300).map(drawn).collect();
    send(&mut amqp, "q", &left).await?;
    for (text, property) in SELECTORS {
        let (taken, others): (Vec<_>, Vec<_>) =
            left.iter().copied().partition(|(colour, number)| property(colour, *number));
        let expected: Vec<String> =
            taken.iter().map(|(colour, number)| format!("{colour}{number}")).collect();
        let copies =
            Source { distribution_mode: Some(Symbol::from_static("copy")), ..selecting("q", text) };
        let browser = selector(&mut amqp, copies, SenderSettleMode::Settled).await?;
        assert_eq!(bodies(&mut amqp, browser, 400).await?, expected, "{text}");
        amqp.detach(browser).await?;
        let link = locking(&mut amqp, "q", text).await?;
        let deliveries = drained(&mut amqp, link, 400).await?;
        let seen: Vec<String> = deliveries.iter().map(body).collect::<Result<_, _>>()?;
        assert_eq!(seen, expected, "{text}");
        for delivery in &deliveries {
            settle(&mut amqp, delivery, DeliveryState::ACCEPTED).await?;
        }
        amqp.detach(link).await?;
        left = others;
    }
    assert!(client.peek(&QueuePath::main("q"), 0, 9).await?.is_empty(), "all are taken");
    Ok(())
}

/// Many messages that nobody wants lie before one that somebody does: it is found, and meanwhile the same
/// group serves others.
#[tokio::test(flavor = "multi_thread")]
async fn sel_6_a_long_queue_is_looked_through_part_by_part() -> anyhow::Result<()> {
    const BATCHES: u64 = 40;
    const IN_BATCH: u64 = 500;
    let (_cluster, client, mut amqp) = cluster(1).await?;
    client.create_queue("other", Default::default()).await?;
    for _ in 0..BATCHES {
        let batch = (0..IN_BATCH).map(|_| client::Message::new("x").subject("many")).collect();
        client.send("q", batch).await?;
    }
    client.send("q", vec![client::Message::new("wanted").subject("one")]).await?;
    let link = locking(&mut amqp, "q", "JMSType = 'one'").await?;
    amqp.grant(link, 1).await?;
    let mut slowest = Duration::ZERO;
    let found = {
        let mut receiving = std::pin::pin!(amqp.receive(link));
        loop {
            let asked = Instant::now();
            tokio::select! {
                found = &mut receiving => break found?,
                sent = client.send("other", vec![client::Message::new("y")]) => sent?,
            };
            slowest = slowest.max(asked.elapsed());
        }
    };
    assert_eq!(body(&found)?, "wanted");
    ensure!(slowest < WITHIN, "others waited {slowest:?}");
    let rest = amqp.receiver("q").await?.expect("the queue is there");
    amqp.grant(rest, 1).await?;
    let first = amqp.receive(rest).await?;
    assert_eq!((body(&first)?.as_str(), failed(&first)?), ("x", 0));
    let path = QueuePath::main("q");
    assert_eq!(client.peek(&path, BATCHES * IN_BATCH, 9).await?.len(), 2, "nothing is lost");
    Ok(())
}
