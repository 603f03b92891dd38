//! Requests to a `$management` node.

use amqp_protocol::Limits;
use amqp_protocol::codec::{Map, Value};
use amqp_protocol::engine::LinkId;
use amqp_protocol::message::Message;
use amqp_protocol::request::{Envelope, request};
use anyhow::Context;

use crate::AmqpClient;

/// A pair of links to the management node of an entity.
pub struct AmqpNode {
    requests: LinkId,
    replies: LinkId,
    address: String,
    last_id: u64,
}

/// A reply: its status, its condition, and what is in it.
#[derive(Debug)]
pub struct AmqpReply {
    pub status: i64,
    pub condition: Option<String>,
    pub body: Map,
}

impl AmqpNode {
    pub fn open(client: &mut AmqpClient, entity: &str) -> anyhow::Result<AmqpNode> {
        let address = format!("{entity}/$management");
        let requests = client.sender(&address)?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let replies =
            client.receiver(&address, true)?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        client.grant(replies, 50)?;
        Ok(AmqpNode { requests, replies, address, last_id: 0 })
    }

    /// Asks for an operation, less its prefix, and waits for the reply.
    pub fn ask(
        &mut self,
        client: &mut AmqpClient,
        operation: &str,
        body: Map,
    ) -> anyhow::Result<AmqpReply> {
        self.last_id += 1;
        let operation = format!("com.microsoft:{operation}");
        let properties = Map::default().string("operation", operation.as_str().into());
        let id = Value::Ulong(self.last_id);
        let payload = request(id, Some(&self.address), &properties, &Value::Map(body));
        client.send(self.requests, 0, payload)?;
        let delivery = client.receive(self.replies)?;
        let payload = delivery.payload.ok().context("a reply that is too large")?;
        let limits = Limits::default();
        let message = Message::parse(payload.clone(), &limits)?;
        let correlation = message.properties(&limits)?.correlation_id;
        anyhow::ensure!(correlation == Some(Value::Ulong(self.last_id)), "{correlation:?}");
        let Envelope { properties, body, .. } = Envelope::decode(&payload, &limits)?;
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
