//! An AMQP client of the least kind: the engine of the `amqp` crate in client role over a socket.

mod attaching;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use amqp::cbs;
use amqp_protocol::Limits;
use amqp_protocol::codec::{DeliveryState, Error, Map, Tag, Value};
use amqp_protocol::engine::{
    Config, Connection, Delivery, Event, LinkId, Mechanism, Millis, Outgoing, Payload, SessionId,
};
use amqp_protocol::request::request;
use anyhow::{Context, bail, ensure};
use bytes::{Buf, Bytes, BytesMut};

use crate::wire::{self, Wire};

/// Longer than an election on a busy machine.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// One connection with one session. Every call waits for what it asks for.
pub struct AmqpClient {
    stream: Box<dyn Wire>,
    engine: Connection,
    input: BytesMut,
    /// Seen and not asked for yet.
    events: VecDeque<Event>,
    session: Option<SessionId>,
    started: Instant,
    links: u32,
}

impl AmqpClient {
    pub fn connect(address: &str) -> anyhow::Result<AmqpClient> {
        AmqpClient::over(wire::tcp(address)?, Mechanism::Anonymous)
    }

    /// On a stream of any kind whose reads return at once or soon.
    pub fn over(stream: impl Wire + 'static, login: Mechanism) -> anyhow::Result<AmqpClient> {
        let config = Config {
            container_id: "test".into(),
            hostname: Some("localhost".into()),
            properties: None,
            limits: Limits::default(),
        };
        let mut client = AmqpClient {
            stream: Box::new(stream),
            engine: Connection::client(config, login, Millis(0)),
            input: BytesMut::new(),
            events: VecDeque::new(),
            session: None,
            started: Instant::now(),
            links: 0,
        };
        client.wait("open", |event| matches!(event, Event::Opened(_)))?;
        let session = client.engine.begin();
        client.wait("begin", |event| matches!(event, Event::Began(_)))?;
        client.session = session;
        Ok(client)
    }

    /// Puts a token on `$cbs`; the status it is answered with.
    pub fn put_token(&mut self, token: &str, audience: &str) -> anyhow::Result<i32> {
        let links = self.open_cbs()?;
        let code = self.put_token_on(links, token, audience)?;
        for link in links {
            self.engine.detach(link, None)?;
        }
        Ok(code)
    }

    /// A link for requests to `$cbs` and one for their replies, in this order.
    pub fn open_cbs(&mut self) -> anyhow::Result<[LinkId; 2]> {
        let refused = |error: Error| anyhow::anyhow!("no $cbs: {error:?}");
        let replies = self.receiver(cbs::ADDRESS, false)?.map_err(refused)?;
        let requests = self.sender(cbs::ADDRESS)?.map_err(refused)?;
        Ok([requests, replies])
    }

    /// As [`AmqpClient::put_token`], on links of [`AmqpClient::open_cbs`].
    pub fn put_token_on(
        &mut self,
        [requests, replies]: [LinkId; 2],
        token: &str,
        audience: &str,
    ) -> anyhow::Result<i32> {
        self.grant(replies, 1)?;
        let properties = Map::default()
            .string("operation", "put-token".into())
            .string("type", "servicebus.windows.net:sastoken".into())
            .string("name", audience.into());
        let payload = request(Value::Ulong(1), None, &properties, &token.into());
        self.send(requests, 0, payload)?;
        let reply = self.receive(replies)?;
        let payload = reply.payload.clone().ok().context("the reply is too large")?;
        ensure!(reply.settled, "a reply wants a verdict");
        let limits = Limits::default();
        let message = amqp_protocol::message::Message::parse(payload, &limits)?;
        let answer = message.application_properties(&limits)?;
        match answer.get("status-code") {
            Some(Value::Int(code)) => Ok(*code),
            other => bail!("no status: {other:?}"),
        }
    }

    /// Sends a message, or a batch, and waits for its outcome.
    pub fn send(
        &mut self,
        link: LinkId,
        message_format: u32,
        payload: Bytes,
    ) -> anyhow::Result<DeliveryState> {
        if self.engine.credit(link) == 0 {
            self.wait("credit", |event| {
                matches!(event, Event::Credit { link: of, credit, .. } if *of == link && *credit > 0)
            })?;
        }
        let outgoing = Outgoing {
            tag: Tag::new(b"t").context("a short tag")?,
            message_format,
            settled: false,
            state: None,
            payload: Payload::from(payload),
        };
        let sent = self.engine.send(link, &outgoing)?;
        let found = self
            .wait("outcome", |event| matches!(event, Event::Disposed { id, .. } if *id == sent))?;
        match found {
            Event::Disposed { state: Some(state), settled: true, .. } => Ok(state),
            other => bail!("no outcome: {other:?}"),
        }
    }

    /// Gives credit for so many messages, less those that wait for a verdict.
    pub fn grant(&mut self, link: LinkId, count: u32) -> anyhow::Result<()> {
        self.engine.grant(link, count)?;
        self.turn()
    }

    /// The next message of the link.
    pub fn receive(&mut self, link: LinkId) -> anyhow::Result<Delivery> {
        let found = self.wait(
            "a message",
            |event| matches!(event, Event::Delivery(delivery) if delivery.link == link),
        )?;
        match found {
            Event::Delivery(delivery) => Ok(delivery),
            other => bail!("no delivery: {other:?}"),
        }
    }

    /// A message of the link that has come already.
    pub fn received(&mut self, link: LinkId) -> Option<Delivery> {
        let of_link =
            |event: &Event| matches!(event, Event::Delivery(delivery) if delivery.link == link);
        let at = self.events.iter().position(of_link)?;
        match self.events.remove(at) {
            Some(Event::Delivery(delivery)) => Some(delivery),
            _ => None,
        }
    }

    /// Takes the credit back, and waits until the sender says that it has.
    pub fn drain(&mut self, link: LinkId) -> anyhow::Result<()> {
        self.engine.drain(link)?;
        self.wait("drain", |event| matches!(event, Event::Drained(of) if *of == link)).map(drop)
    }

    /// Gives a verdict and waits for the answer to it.
    pub fn settle(
        &mut self,
        delivery: &Delivery,
        state: DeliveryState,
    ) -> anyhow::Result<DeliveryState> {
        self.engine.propose(delivery.id, state)?;
        let id = delivery.id;
        let found = self.wait(
            "settlement",
            |event| matches!(event, Event::Settled { id: of, .. } if *of == id),
        )?;
        match found {
            Event::Settled { state: Some(state), .. } => Ok(state),
            other => bail!("no state: {other:?}"),
        }
    }

    /// Waits until the other side closes the connection, and tells why.
    pub fn closed(&mut self) -> anyhow::Result<Error> {
        let until = Instant::now() + ANSWER_WITHIN;
        loop {
            let is_end = |event: &Event| matches!(event, Event::Closed { .. });
            if let Some(at) = self.events.iter().position(is_end) {
                return match self.events.remove(at) {
                    Some(Event::Closed { error: Some(error), .. }) => Ok(error),
                    other => bail!("no reason: {other:?}"),
                };
            }
            ensure!(Instant::now() < until, "it stays open");
            self.turn()?;
        }
    }

    /// The first event that fits, now or later.
    fn wait(&mut self, what: &str, fits: impl Fn(&Event) -> bool) -> anyhow::Result<Event> {
        let until = Instant::now() + ANSWER_WITHIN;
        loop {
            if let Some(at) = self.events.iter().position(&fits) {
                return self.events.remove(at).context("just found");
            }
            let ended = self.events.iter().find(|event| matches!(event, Event::Closed { .. }));
            ensure!(ended.is_none(), "waited for {what}: {ended:?}");
            ensure!(Instant::now() < until, "waited in vain for {what}: {:?}", self.events);
            self.turn().with_context(|| format!("waited for {what}"))?;
        }
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let now = Millis(u64::try_from(self.started.elapsed().as_millis())?);
        self.engine.tick(now);
        self.engine.flush();
        while self.engine.output().has_remaining() {
            let count = self.stream.write(self.engine.output().chunk())?;
            self.engine.output().advance(count);
        }
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => bail!("the connection ended"),
            Ok(count) => self.input.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(event) = self.engine.poll(&mut self.input, now) {
            self.events.push_back(event);
        }
        Ok(())
    }
}
