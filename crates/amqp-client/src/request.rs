//! Requests and replies over a pair of links.

use amqp_protocol::Limits;
use amqp_protocol::codec::{Map, Value};
use amqp_protocol::engine::LinkId;
use amqp_protocol::message::Message;
use amqp_protocol::request::{Envelope, request};

use crate::{Answer, Client, Error};

/// Replies that the node may send ahead.
const REPLIES_WINDOW: u32 = 50;

/// A pair of links to a node that replies to requests.
pub struct RequestLink {
    requests: LinkId,
    replies: LinkId,
    address: String,
    last_id: u64,
}

impl RequestLink {
    pub async fn open(client: &mut Client, address: &str) -> Result<Answer<RequestLink>, Error> {
        let requests = match client.sender(address).await? {
            Ok(link) => link,
            Err(refused) => return Ok(Err(refused)),
        };
        let replies = match client.settled_receiver(address).await? {
            Ok(link) => link,
            Err(refused) => return Ok(Err(refused)),
        };
        client.grant(replies, REPLIES_WINDOW).await?;
        Ok(Ok(RequestLink { requests, replies, address: address.to_owned(), last_id: 0 }))
    }

    /// Sends a request, and waits for the reply to it.
    pub async fn ask(
        &mut self,
        client: &mut Client,
        properties: &Map,
        body: &Value,
    ) -> Result<Envelope, Error> {
        self.last_id += 1;
        let id = Value::Ulong(self.last_id);
        let payload = request(id.clone(), Some(&self.address), properties, body);
        client.send(self.requests, 0, payload).await?;
        let delivery = client.receive(self.replies).await?;
        if !delivery.settled {
            return Err(Error::Senseless("a reply that wants a verdict"));
        }
        let payload =
            delivery.payload.map_err(|_| Error::Senseless("a reply that is too large"))?;
        let limits = Limits::default();
        let message = Message::parse(payload.clone(), &limits)?;
        if message.properties(&limits)?.correlation_id != Some(id) {
            return Err(Error::Senseless("the reply to another request"));
        }
        Ok(Envelope::decode(&payload, &limits)?)
    }

    /// Ends both links.
    pub async fn close(self, client: &mut Client) -> Result<(), Error> {
        client.detach(self.requests).await?;
        client.detach(self.replies).await
    }
}
