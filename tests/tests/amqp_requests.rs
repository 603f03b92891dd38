//! Requests that cannot be taken, and errors that have to fit: whoever asks hears of it at once, on every
//! link, whatever was asked and however small a frame its client takes.

use amqp::condition;
use amqp_client::Answer;
use amqp_protocol::Limits;
use amqp_protocol::codec::{
    Attach, Composite, DeliveryState, Error, Map, Outcome, Role, Tag, Value, descriptor,
};
use amqp_protocol::engine::{Event, LinkId, Outgoing, Payload};
use amqp_protocol::message::{Message, MessageBuilder, Properties};
use amqp_protocol::request::request;
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use mayfly_tests::{AmqpClient, Cluster, Settings};
use message_content::{Body, Neutral};

const ID: u64 = 7;

async fn cluster() -> anyhow::Result<(Cluster, AmqpClient)> {
    let settings = Settings { nodes: 1, data_groups: 1, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("q", Default::default()).await?;
    client.create_topic("t", Default::default()).await?;
    client.create_subscription("t", "s", Default::default(), None).await?;
    let amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    Ok((cluster, amqp))
}

/// A pair of links to a node.
struct RequestPair {
    requests: LinkId,
    replies: LinkId,
    address: String,
}

/// What a request came to.
#[derive(Debug, PartialEq)]
enum Heard {
    /// The status and the condition of the reply to it.
    Reply(i64, String),
    /// The link it came on has ended.
    Detached(String),
}

impl RequestPair {
    async fn open(amqp: &mut AmqpClient, address: &str) -> anyhow::Result<RequestPair> {
        let told = |refused: Error| anyhow::anyhow!("{refused:?}");
        let requests = amqp.sender(address).await?.map_err(told)?;
        let replies = amqp.settled_receiver(address).await?.map_err(told)?;
        amqp.grant(replies, 10).await?;
        Ok(RequestPair { requests, replies, address: address.to_owned() })
    }

    fn request(&self, operation: &str, body: &Value) -> Bytes {
        let properties = Map::default().string("operation", operation.into());
        request(Value::Ulong(ID), Some(&self.address), &properties, body)
    }

    async fn ask(
        &self,
        amqp: &mut AmqpClient,
        payload: Bytes,
        settled: bool,
    ) -> anyhow::Result<Heard> {
        let outgoing = Outgoing {
            tag: Tag::new(b"t").unwrap_or_default(),
            message_format: 0,
            settled,
            state: None,
            payload: Payload::from(payload),
        };
        amqp.engine().send(self.requests, &outgoing).context("no credit")?;
        let (requests, replies) = (self.requests, self.replies);
        let is_heard = |event: &Event| match event {
            Event::Delivery(delivery) => delivery.link == replies,
            Event::Detached { link, .. } => *link == requests,
            _ => false,
        };
        let limits = Limits::default();
        match amqp.wait(is_heard, "an answer").await? {
            Event::Delivery(delivery) => {
                let reply = Message::parse(delivery.payload.ok().context("it is whole")?, &limits)?;
                let correlation_id = reply.properties(&limits)?.correlation_id;
                ensure!(
                    correlation_id == Some(Value::Ulong(ID)),
                    "the reply to {correlation_id:?}"
                );
                let told = reply.application_properties(&limits)?;
                let one_of = |a, b| told.get(a).or_else(|| told.get(b));
                let status = one_of("statusCode", "status-code").and_then(Value::as_i64);
                let condition = one_of("errorCondition", "error-condition");
                let condition = condition.and_then(Value::as_str).unwrap_or_default().to_owned();
                Ok(Heard::Reply(status.context("a status")?, condition))
            }
            Event::Detached { error: Some(error), .. } => {
                Ok(Heard::Detached(error.condition.to_string()))
            }
            other => anyhow::bail!("{other:?}"),
        }
    }
}

/// A request whose message is whole, and whose map holds an array of a type that there is not.
fn array_of_nothing() -> Bytes {
    let mut out = BytesMut::new();
    Properties { message_id: Some(Value::Ulong(ID)), ..Properties::default() }.write(&mut out);
    // An amqp-value of a map of 18 bytes, with 2 values: "lock-tokens" and the array.
    out.extend_from_slice(b"\x00\x53\x77\xc1\x12\x02\xa1\x0block-tokens\xe0\x02\x01");
    out.extend_from_slice(b"\x3f");
    out.freeze()
}

/// Each row a request, and what it comes to at a management node and at `$cbs`; whether it is settled by
/// its sender or not.
#[tokio::test(flavor = "multi_thread")]
async fn req_4_req_9_cbs_5_err_9_err_32_each_request_is_answered() -> anyhow::Result<()> {
    let (_cluster, mut amqp) = cluster().await?;
    let too_large = (403, condition::MESSAGE_SIZE_EXCEEDED);
    let undecodable = (400, condition::DECODE_ERROR);
    let unknown = (501, condition::NOT_IMPLEMENTED);
    for address in
        ["q/$management", "q/$deadletterqueue/$management", "t/subscriptions/s/$management", "$cbs"]
    {
        let pair = RequestPair::open(&mut amqp, address).await?;
        let large = Value::Binary(vec![b'x'; 2 << 20].into());
        let large = Value::Map(Map::default().string("messages", large));
        let by_correlation = MessageBuilder::default().composite(&Properties {
            correlation_id: Some(Value::Ulong(ID)),
            ..Properties::default()
        });
        let mut cut = pair.request("com.microsoft:peek-message", &Value::Map(Map::default()));
        cut.truncate(cut.len() - 1);
        let rows = [
            ("too large", pair.request("com.microsoft:schedule-message", &large), too_large),
            ("cut off", cut, undecodable),
            ("an array of nothing", array_of_nothing(), undecodable),
            ("unknown", pair.request("com.microsoft:brew-coffee", &Value::Null), unknown),
            ("no operation", pair.request("", &Value::Null), unknown),
            ("known by its correlation-id", by_correlation.build(), unknown),
        ];
        for (what, payload, (status, symbol)) in rows {
            for settled in [false, true] {
                let heard = pair.ask(&mut amqp, payload.clone(), settled).await?;
                let expected = Heard::Reply(status, symbol.to_owned());
                ensure!(heard == expected, "{address}, {what}, settled {settled}: {heard:?}");
            }
        }
        for (what, payload, symbol) in [
            ("no message", Bytes::from_static(b"hello"), condition::DECODE_ERROR),
            ("no message, too large", vec![0; 2 << 20].into(), condition::MESSAGE_SIZE_EXCEEDED),
        ] {
            let nobody = RequestPair::open(&mut amqp, address).await?;
            let heard = nobody.ask(&mut amqp, payload, true).await?;
            ensure!(heard == Heard::Detached(symbol.to_owned()), "{address}, {what}: {heard:?}");
        }
    }
    Ok(())
}

/// Each row how many links for replies there are, and what the request says of them: none, or several and
/// none that it names, is no place for a reply, whatever it would say.
#[tokio::test(flavor = "multi_thread")]
async fn req_31_a_request_whose_reply_finds_no_link_ends_its_link() -> anyhow::Result<()> {
    let (_cluster, mut amqp) = cluster().await?;
    for address in ["q/$management", "q/$deadletterqueue/$management", "$cbs"] {
        for links in [0, 2] {
            for _ in 0..links {
                amqp.settled_receiver(address).await?.expect("it is there");
            }
            let peek = Map::default()
                .string("from-sequence-number", Value::Long(1))
                .string("message-count", Value::Int(1));
            let to_nowhere = |operation: &str, body: &Value| {
                let properties = Map::default().string("operation", operation.into());
                request(Value::Ulong(ID), Some("nowhere"), &properties, body)
            };
            for (what, payload) in [
                ("done", to_nowhere("com.microsoft:peek-message", &Value::Map(peek))),
                ("refused", to_nowhere("com.microsoft:brew-coffee", &Value::Null)),
                ("undecodable", array_of_nothing()),
            ] {
                let requests = amqp.sender(address).await?.expect("it is there");
                let pair = RequestPair { requests, replies: requests, address: "nowhere".into() };
                let heard = pair.ask(&mut amqp, payload, true).await?;
                let expected = Heard::Detached(condition::NOT_ALLOWED.to_owned());
                ensure!(heard == expected, "{address}, {links} links, {what}: {heard:?}");
            }
        }
    }
    // The connection and its session go on.
    let pair = RequestPair::open(&mut amqp, "t/subscriptions/s/$management").await?;
    let payload = pair.request("com.microsoft:brew-coffee", &Value::Null);
    let heard = pair.ask(&mut amqp, payload, true).await?;
    ensure!(heard == Heard::Reply(501, condition::NOT_IMPLEMENTED.to_owned()), "{heard:?}");
    Ok(())
}

/// A request that is cut anywhere is answered, or its link is closed.
#[tokio::test(flavor = "multi_thread")]
async fn req_9_a_request_is_answered_or_its_link_is_closed() -> anyhow::Result<()> {
    let (_cluster, mut amqp) = cluster().await?;
    let mut pair = RequestPair::open(&mut amqp, "q/$management").await?;
    let body = Map::default()
        .string("from-sequence-number", Value::Long(1))
        .string("message-count", Value::Int(1));
    let whole = pair.request("com.microsoft:peek-message", &Value::Map(body));
    let mut answered = 0;
    // One of no bytes is a message, and says of itself nothing at all.
    for end in 1..=whole.len() {
        match pair.ask(&mut amqp, whole.slice(..end), true).await? {
            Heard::Reply(..) => answered += 1,
            Heard::Detached(symbol) => {
                ensure!(symbol == condition::DECODE_ERROR, "{symbol} at {end}");
                ensure!(answered == 0, "what was answered shorter is not answered at {end}");
                // Replies go to the first link that their request names.
                amqp.detach(pair.replies).await?;
                pair = RequestPair::open(&mut amqp, "q/$management").await?;
            }
        }
    }
    ensure!(answered > whole.len() / 2, "only {answered} were answered");
    Ok(())
}

/// CONN-9, ERR-31: a client with the smallest frames is told why, whatever it wrote, and its other links
/// go on.
#[tokio::test(flavor = "multi_thread")]
async fn conn_9_err_31_errors_fit_the_smallest_frame() -> anyhow::Result<()> {
    let (cluster, _) = cluster().await?;
    let mut amqp = AmqpClient::with_frames(cluster.amqp_address(1), 512).await?;
    let good = amqp.sender("q").await?.expect("the queue is there");
    let long = |count: usize| "n".repeat(count);
    for name in [long(200), long(260), format!("{}/$management", long(200)), "ö".repeat(200)] {
        for role in [Role::Sender, Role::Receiver] {
            let name_of_link = amqp.link_name();
            let attach = match role {
                Role::Sender => Attach::sender(&name_of_link, &name),
                Role::Receiver => Attach::receiver(&name_of_link, &name),
            };
            let answer: Answer<(LinkId, Attach)> = amqp.attach(attach).await?;
            if name.ends_with("$management") {
                continue; // LINK-16: it is there in any case.
            }
            let error = answer.err().context("there is no such entity")?;
            let known = [condition::NOT_FOUND, condition::ARGUMENT_ERROR];
            ensure!(known.contains(&error.condition.as_str()), "{error:?}");
            let told = error.description.context("a text")?;
            ensure!(told.contains(&name[..100]), "{told}");
        }
    }
    for (properties, symbol) in [
        ([(long(40_000), domain::Value::Int(1))], condition::ARGUMENT_ERROR),
        ([(long(40), domain::Value::String(long(40_000)))], condition::ARGUMENT_ERROR),
    ] {
        let properties = properties.into();
        let message = Neutral { properties, body: Body::default(), ..Neutral::default() };
        let state = amqp.send(good, 0, message.to_amqp(&mut BytesMut::new())).await?;
        let DeliveryState::Outcome(Outcome::Rejected(Some(error))) = state else {
            anyhow::bail!("not rejected: {state:?}")
        };
        ensure!(error.condition.as_str() == symbol, "{error:?}");
        ensure!(error.description.context("a text")?.len() < 400);
    }
    // An answer that does not fit costs its link.
    let mut attach = Attach::sender(&amqp.link_name(), "q");
    let source = attach.source.get_or_insert_default();
    source.address = Some(long(600).as_str().into());
    let error = amqp.attach(attach).await?.err().context("its source comes back")?;
    ensure!(error.condition.as_str() == condition::FRAME_SIZE_TOO_SMALL, "{error:?}");
    let message = MessageBuilder::default().section(descriptor::AMQP_VALUE, &Value::Int(1));
    assert_eq!(amqp.send(good, 0, message.build()).await?, DeliveryState::ACCEPTED);
    Ok(())
}
