//! What Service Bus's clients say beside AMQP itself: tokens, sessions, filters and operations of a
//! management node.

use std::ops::{Deref, DerefMut};

use amqp::cbs;
use amqp_client::{Answer, Client, Options, RequestLink};
use amqp_protocol::Limits;
use amqp_protocol::codec::{Attach, Map, Value};
use amqp_protocol::engine::{LinkId, Mechanism};
use amqp_protocol::request::Envelope;
use anyhow::{Context, bail};

use crate::wire::{Blocking, Wire};

/// An AMQP client as Service Bus's are.
pub struct AmqpClient(Client);

impl Deref for AmqpClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

impl DerefMut for AmqpClient {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.0
    }
}

impl AmqpClient {
    pub async fn connect(address: &str) -> anyhow::Result<AmqpClient> {
        Ok(AmqpClient(Client::connect(address, options(Mechanism::Anonymous)).await?))
    }

    /// For a host that the node is called by, which need not be where it is.
    pub async fn to_host(
        address: &str,
        host: &str,
        login: Mechanism,
    ) -> anyhow::Result<AmqpClient> {
        let options = Options { hostname: Some(host.to_owned()), ..options(login) };
        Ok(AmqpClient(Client::connect(address, options).await?))
    }

    /// As Python's SDK says it is.
    pub async fn as_python(address: &str) -> anyhow::Result<AmqpClient> {
        let product = Some("azsdk-python-servicebus".to_owned());
        let options = Options { product, ..options(Mechanism::Anonymous) };
        Ok(AmqpClient(Client::connect(address, options).await?))
    }

    /// As [`AmqpClient::connect`], and takes no larger frames.
    pub async fn with_frames(address: &str, frame_bytes_max: u32) -> anyhow::Result<AmqpClient> {
        let limits = Limits { frame_bytes_max, ..Limits::default() };
        let options = Options { limits, ..options(Mechanism::Anonymous) };
        Ok(AmqpClient(Client::connect(address, options).await?))
    }

    /// On a stream of any kind whose reads return at once or soon.
    pub async fn over(stream: impl Wire + 'static, login: Mechanism) -> anyhow::Result<AmqpClient> {
        Ok(AmqpClient(Client::over(Blocking(stream), options(login)).await?))
    }

    /// As [`AmqpClient::over`], and names no host.
    pub async fn over_unnamed(stream: impl Wire + 'static) -> anyhow::Result<AmqpClient> {
        let options = Options { hostname: None, ..options(Mechanism::Anonymous) };
        Ok(AmqpClient(Client::over(Blocking(stream), options).await?))
    }

    /// Puts a token on `$cbs`; the status it is answered with.
    pub async fn put_token(&mut self, token: &str, audience: &str) -> anyhow::Result<i32> {
        let mut tokens = self.open_cbs().await?;
        let code = self.put_token_on(&mut tokens, token, audience).await?;
        tokens.close(self).await?;
        Ok(code)
    }

    /// Links to `$cbs` that stay.
    pub async fn open_cbs(&mut self) -> anyhow::Result<RequestLink> {
        let opened = RequestLink::open(self, cbs::ADDRESS).await?;
        opened.map_err(|error| anyhow::anyhow!("no $cbs: {error:?}"))
    }

    /// As [`AmqpClient::put_token`], on links of [`AmqpClient::open_cbs`].
    pub async fn put_token_on(
        &mut self,
        tokens: &mut RequestLink,
        token: &str,
        audience: &str,
    ) -> anyhow::Result<i32> {
        let properties = Map::default()
            .string("operation", "put-token".into())
            .string("type", "servicebus.windows.net:sastoken".into())
            .string("name", audience.into());
        let Envelope { properties, .. } = tokens.ask(self, &properties, &token.into()).await?;
        match properties.get("status-code") {
            Some(Value::Int(code)) => Ok(*code),
            other => bail!("no status: {other:?}"),
        }
    }

    /// A link from one session of `address`: the value of its filter is that of the session's name, null
    /// for the next that is free. Tells what the server said of it.
    pub async fn session(
        &mut self,
        address: &str,
        filter: Value,
        wait_ms: u32,
    ) -> anyhow::Result<Answer<(LinkId, Attach)>> {
        let attach = self.session_attach(address, filter, wait_ms);
        Ok(self.attach(attach).await?)
    }

    /// As [`AmqpClient::session`], without waiting for an answer.
    pub async fn ask_for_session(
        &mut self,
        address: &str,
        filter: Value,
        wait_ms: u32,
    ) -> anyhow::Result<LinkId> {
        let attach = self.session_attach(address, filter, wait_ms);
        Ok(self.ask(attach).await?)
    }

    fn session_attach(&mut self, address: &str, filter: Value, wait_ms: u32) -> Attach {
        let filter = Map::default().symbol("com.microsoft:session-filter", filter);
        let wait = Map::default().symbol("com.microsoft:timeout", Value::Uint(wait_ms));
        Attach { properties: Some(wait), ..self.filtered_attach(address, filter) }
    }

    /// A link from `address` with a filter of any kind.
    pub async fn filtered(&mut self, address: &str, filter: Map) -> anyhow::Result<Answer<Attach>> {
        let attach = self.filtered_attach(address, filter);
        Ok(self.attach(attach).await?.map(|(_, attach)| attach))
    }

    fn filtered_attach(&mut self, address: &str, filter: Map) -> Attach {
        let mut attach = Attach::receiver(&self.link_name(), address);
        attach.source.get_or_insert_default().filter = Some(filter);
        attach
    }

    /// Tells what a sender link takes: the attach it was answered with.
    pub async fn sender_attach(&mut self, address: &str) -> anyhow::Result<Answer<Attach>> {
        let attach = Attach::sender(&self.link_name(), address);
        Ok(self.attach(attach).await?.map(|(_, attach)| attach))
    }
}

fn options(login: Mechanism) -> Options {
    Options {
        container_id: "test".to_owned(),
        hostname: Some("localhost".to_owned()),
        login,
        ..Options::default()
    }
}

/// A pair of links to the management node of an entity.
pub struct AmqpNode(RequestLink);

/// A reply: its status, its condition, and what is in it.
#[derive(Debug)]
pub struct AmqpReply {
    pub status: i64,
    pub condition: Option<String>,
    pub body: Map,
}

impl AmqpNode {
    pub async fn open(client: &mut AmqpClient, entity: &str) -> anyhow::Result<AmqpNode> {
        let opened = RequestLink::open(client, &format!("{entity}/$management")).await?;
        opened.map(AmqpNode).map_err(|error| anyhow::anyhow!("{error:?}"))
    }

    /// Asks for an operation, less its prefix, and waits for the reply.
    pub async fn ask(
        &mut self,
        client: &mut AmqpClient,
        operation: &str,
        body: Map,
    ) -> anyhow::Result<AmqpReply> {
        let operation = format!("com.microsoft:{operation}");
        let properties = Map::default().string("operation", operation.as_str().into());
        let reply = self.0.ask(client, &properties, &Value::Map(body)).await?;
        let Envelope { properties, body, .. } = reply;
        Ok(AmqpReply {
            status: properties.get("statusCode").and_then(Value::as_i64).context("no status")?,
            condition: properties.get("errorCondition").and_then(Value::as_str).map(str::to_owned),
            body: body.as_map().cloned().unwrap_or_default(),
        })
    }
}

impl AmqpReply {
    /// What is under a name of the reply's body.
    pub fn get(&self, name: &str) -> anyhow::Result<&Value> {
        self.body.get(name).with_context(|| format!("no {name} in {self:?}"))
    }
}
