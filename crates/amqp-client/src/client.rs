//! A connection with one session, driven by whoever owns it.

mod exchange;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use amqp_protocol::Limits;
use amqp_protocol::codec::{self, Attach, DeliveryState, Map, Open, Role, SenderSettleMode, Tag};
use amqp_protocol::engine::{
    Config, Connection, Delivery, Event, LinkId, Mechanism, Millis, Outgoing, Payload, SessionId,
};
use bytes::Bytes;
use tokio::net::TcpStream;

use self::exchange::Exchange;
pub use self::exchange::Transport;
use crate::{Answer, Error};

/// How to connect, and as whom.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of this side, for people who look at traffic.
    pub container_id: String,
    /// Name of the host one wants to reach.
    pub hostname: Option<String>,
    /// What the program says it is.
    pub product: Option<String>,
    pub login: Mechanism,
    pub limits: Limits,
    /// Within this every answer has to come.
    pub answer_within: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            container_id: "amqp-client".to_owned(),
            hostname: None,
            product: None,
            login: Mechanism::Anonymous,
            limits: Limits::default(),
            answer_within: Duration::from_secs(30),
        }
    }
}

/// One connection with one session.
pub struct Client {
    exchange: Exchange,
    /// Seen while something else was waited for.
    unclaimed: VecDeque<Event>,
    server: Box<Open>,
    session: SessionId,
    links: u32,
    answer_within: Duration,
}

impl Client {
    /// Over TCP.
    pub async fn connect(address: &str, options: Options) -> Result<Client, Error> {
        let connecting = tokio::time::timeout(options.answer_within, TcpStream::connect(address));
        let stream = connecting.await.map_err(|_| Error::Late("to connect"))??;
        stream.set_nodelay(true)?;
        Client::over(stream, options).await
    }

    /// Over a stream of any kind.
    pub async fn over(stream: impl Transport + 'static, options: Options) -> Result<Client, Error> {
        let Options { container_id, hostname, product, login, limits, answer_within } = options;
        let properties =
            product.map(|product| Map::default().symbol("product", product.as_str().into()));
        let config = Config {
            container_id: container_id.into(),
            hostname: hostname.map(Into::into),
            offered_capabilities: Default::default(),
            properties,
            limits,
        };
        let engine = Connection::client(config, login, Millis(0));
        let mut exchange = Exchange::new(Box::new(stream), engine);
        let mut unclaimed = VecDeque::new();
        let by = Instant::now() + answer_within;
        let opened = |event: &Event| matches!(event, Event::Opened(_));
        let server = match exchange.wait(&mut unclaimed, opened, by, "to open").await? {
            Event::Opened(open) => open,
            _ => return Err(Error::Senseless("an open")),
        };
        let session = exchange.engine.begin().ok_or(Error::Senseless("no channel is allowed"))?;
        let began = |event: &Event| matches!(event, Event::Began(_));
        exchange.wait(&mut unclaimed, began, by, "to begin a session").await?;
        Ok(Client { exchange, unclaimed, server, session, links: 0, answer_within })
    }

    /// What the server said of itself.
    pub fn server(&self) -> &Open {
        &self.server
    }

    /// The session that all links are in.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Begins another session, which all further links are in.
    pub async fn begin_another(&mut self) -> Result<(), Error> {
        let begun =
            self.exchange.engine.begin().ok_or(Error::Senseless("no channel is allowed"))?;
        let began = |event: &Event| matches!(event, Event::Began(of) if *of == begun);
        self.wait(began, "to begin a session").await?;
        self.session = begun;
        Ok(())
    }

    /// For what is not waited for. What it gathers, the next [`Client::turn`] writes.
    pub fn engine(&mut self) -> &mut Connection {
        &mut self.exchange.engine
    }

    /// Writes what there is to write, and waits until something was read or all was written, a second at
    /// most. Cancelling it loses nothing.
    pub async fn turn(&mut self) -> Result<(), Error> {
        Ok(self.exchange.turn().await?)
    }

    /// Writes what there is to write.
    pub async fn flush(&mut self) -> Result<(), Error> {
        Ok(self.exchange.flush().await?)
    }

    /// The next event of what was read.
    pub fn poll(&mut self) -> Option<Event> {
        self.unclaimed.pop_front().or_else(|| self.exchange.poll())
    }

    /// The first event that fits, now or later; the others wait for whoever asks for them.
    ///
    /// # Errors
    /// [`Error::Ended`] once the connection is over, unless its end is what fits.
    pub async fn wait(
        &mut self,
        fits: impl Fn(&Event) -> bool,
        what: &'static str,
    ) -> Result<Event, Error> {
        let by = Instant::now() + self.answer_within;
        self.exchange.wait(&mut self.unclaimed, fits, by, what).await
    }

    /// A link to `address`.
    pub async fn sender(&mut self, address: &str) -> Result<Answer<LinkId>, Error> {
        let attach = Attach::sender(&self.link_name(), address);
        Ok(self.attach(attach).await?.map(|(link, _)| link))
    }

    /// A link from `address`, without credit. Deliveries wait for a verdict.
    pub async fn receiver(&mut self, address: &str) -> Result<Answer<LinkId>, Error> {
        let attach = Attach::receiver(&self.link_name(), address);
        Ok(self.attach(attach).await?.map(|(link, _)| link))
    }

    /// As [`Client::receiver`], and deliveries come settled.
    pub async fn settled_receiver(&mut self, address: &str) -> Result<Answer<LinkId>, Error> {
        let mut attach = Attach::receiver(&self.link_name(), address);
        attach.snd_settle_mode = SenderSettleMode::Settled;
        Ok(self.attach(attach).await?.map(|(link, _)| link))
    }

    /// A name that no link of this client has.
    pub fn link_name(&mut self) -> String {
        self.links += 1;
        format!("link-{}", self.links)
    }

    /// A link of any kind, and what the server answered.
    pub async fn attach(&mut self, attach: Attach) -> Result<Answer<(LinkId, Attach)>, Error> {
        let role = attach.role;
        let link = self.ask(attach).await?;
        Ok(self.attached(link, role).await?.map(|attach| (link, attach)))
    }

    /// Asks for a link and does not wait for the answer, which [`Client::attached`] does.
    pub async fn ask(&mut self, attach: Attach) -> Result<LinkId, Error> {
        let link = self.exchange.engine.attach(self.session, attach)?;
        self.flush().await?;
        Ok(link)
    }

    /// The server's answer to an attach. Some brokers end the session over a link that they do not want.
    ///
    /// # Errors
    /// [`Error::Ended`] then, too.
    pub async fn attached(&mut self, link: LinkId, role: Role) -> Result<Answer<Attach>, Error> {
        let session = self.session;
        let is_answer = |event: &Event| match event {
            Event::Attached { link: of, .. } => *of == link,
            Event::Ended { session: of, .. } => *of == session,
            _ => false,
        };
        let attach = match self.wait(is_answer, "to attach").await? {
            Event::Attached { attach, .. } => attach,
            Event::Ended { error, .. } => return Err(Error::Ended(error)),
            _ => return Err(Error::Senseless("an attach")),
        };
        // A refusal shows a link whose terminus on that side is missing, and then ends it.
        let is_refused = match role {
            Role::Sender => attach.target.is_none(),
            Role::Receiver => attach.source.is_none(),
        };
        match is_refused {
            true => self.detached(link).await.map(Err),
            false => Ok(Ok(*attach)),
        }
    }

    /// Ends a link.
    pub async fn detach(&mut self, link: LinkId) -> Result<(), Error> {
        self.exchange.engine.detach(link, None)?;
        self.flush().await
    }

    /// Waits until the server ends the link; why it did.
    pub async fn detached(&mut self, link: LinkId) -> Result<codec::Error, Error> {
        let is_end =
            |event: &Event| matches!(event, Event::Detached { link: of, .. } if *of == link);
        match self.wait(is_end, "a detach").await? {
            Event::Detached { error: Some(error), .. } => Ok(error),
            _ => Err(Error::Senseless("a detach without a reason")),
        }
    }

    /// Waits until the server ends the connection; why it did.
    pub async fn closed(&mut self) -> Result<codec::Error, Error> {
        match self.wait(|event| matches!(event, Event::Closed { .. }), "a close").await? {
            Event::Closed { error: Some(error), .. } => Ok(error),
            _ => Err(Error::Senseless("a close without a reason")),
        }
    }

    /// Says goodbye; whether it is heard does not matter.
    pub async fn close(mut self) {
        self.exchange.engine.close(None);
        drop(self.flush().await);
    }

    /// Sends a message once there is credit for it, and waits for its outcome.
    pub async fn send(
        &mut self,
        link: LinkId,
        message_format: u32,
        payload: Bytes,
    ) -> Result<DeliveryState, Error> {
        self.send_in(link, message_format, payload, None).await
    }

    /// As [`Client::send`], in the transaction that `state` names.
    pub async fn send_in(
        &mut self,
        link: LinkId,
        message_format: u32,
        payload: Bytes,
        state: Option<DeliveryState>,
    ) -> Result<DeliveryState, Error> {
        let outgoing = Outgoing {
            tag: Tag::new(b"t").unwrap_or_default(),
            message_format,
            settled: false,
            state,
            payload: Payload::from(payload),
        };
        if self.exchange.engine.credit(link) == 0 {
            let has_credit = |event: &Event| matches!(event, Event::Credit { link: of, credit, .. } if *of == link && *credit > 0);
            self.wait(has_credit, "credit").await?;
        }
        let sent = self.exchange.engine.send(link, &outgoing)?;
        let is_outcome = |event: &Event| matches!(event, Event::Disposed { id, .. } if *id == sent);
        match self.wait(is_outcome, "an outcome").await? {
            Event::Disposed { state: Some(state), settled: true, .. } => Ok(state),
            _ => Err(Error::Senseless("a disposition without an outcome")),
        }
    }

    /// Gives credit for so many messages, less those that wait for a verdict.
    pub async fn grant(&mut self, link: LinkId, count: u32) -> Result<(), Error> {
        self.exchange.engine.grant(link, count)?;
        self.flush().await
    }

    /// Takes the credit back, and waits until the sender says that it has.
    pub async fn drain(&mut self, link: LinkId) -> Result<(), Error> {
        self.exchange.engine.drain(link)?;
        let is_drained = |event: &Event| matches!(event, Event::Drained(of) if *of == link);
        self.wait(is_drained, "a drain").await.map(drop)
    }

    /// The next message of the link.
    pub async fn receive(&mut self, link: LinkId) -> Result<Delivery, Error> {
        match self.wait(is_delivery_of(link), "a message").await? {
            Event::Delivery(delivery) => Ok(delivery),
            _ => Err(Error::Senseless("a delivery")),
        }
    }

    /// A message of the link that was read while something else was waited for.
    pub fn received(&mut self, link: LinkId) -> Option<Delivery> {
        let at = self.unclaimed.iter().position(is_delivery_of(link))?;
        match self.unclaimed.remove(at) {
            Some(Event::Delivery(delivery)) => Some(delivery),
            _ => None,
        }
    }

    /// Gives a verdict, and waits for the sender's answer to it.
    pub async fn settle(
        &mut self,
        delivery: &Delivery,
        verdict: DeliveryState,
    ) -> Result<DeliveryState, Error> {
        let id = delivery.id;
        self.exchange.engine.propose(id, verdict)?;
        let is_answer = |event: &Event| matches!(event, Event::Settled { id: of, .. } if *of == id);
        match self.wait(is_answer, "a settlement").await? {
            Event::Settled { state: Some(state), .. } => Ok(state),
            _ => Err(Error::Senseless("a settlement without a state")),
        }
    }
}

fn is_delivery_of(link: LinkId) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Delivery(delivery) if delivery.link == link)
}
