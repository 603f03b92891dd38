//! Requests and replies over a pair of links, as `$cbs` and `$management` have them (REQ-1 to REQ-4).

use bytes::{Bytes, BytesMut};

use crate::Limits;
use crate::codec::{self, Composite, DecodeError, Encode, Map, Value, descriptor};
use crate::message::{Message, MessageBuilder, Properties};

/// What every request says beside its content, and the reply has to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Comes back as the reply's correlation-id, same value and type. The request's own correlation-id
    /// where it has no message-id (REQ-4).
    pub message_id: Option<Value>,
    /// An address, or the name of the link that replies go to, or nothing (REQ-3).
    pub reply_to: Option<Value>,
    /// Application properties.
    pub properties: Map,
    pub body: Value,
}

impl Envelope {
    /// Decodes a request; what it asks for is left to whoever it is meant for.
    ///
    /// # Errors
    /// [`DecodeError`]: what [`Envelope::salvage`] finds all the same is owed a reply that says so.
    pub fn decode(payload: &Bytes, limits: &Limits) -> Result<Envelope, DecodeError> {
        let message = Message::parse(payload.clone(), limits)?;
        let Properties { message_id, correlation_id, reply_to, .. } = message.properties(limits)?;
        Ok(Envelope {
            message_id: message_id.or(correlation_id),
            reply_to,
            properties: message.application_properties(limits)?,
            body: message.value(limits)?,
        })
    }

    /// What it takes to answer a request that cannot be decoded, or of which only the head was kept
    /// (REQ-9). `None`: nobody knows whose it is, or where its reply goes.
    pub fn salvage(head: &Bytes, limits: &Limits) -> Option<Envelope> {
        let message = Message::parse_head(head.clone(), limits);
        let (message_id, correlation_id, reply_to) = message.addressing(limits)?;
        let message_id = message_id.or(correlation_id);
        message_id.as_ref()?;
        let properties = message.application_properties(limits).unwrap_or_default();
        Some(Envelope { message_id, reply_to, properties, body: Value::Null })
    }

    pub fn reply_to(&self) -> Option<&str> {
        self.reply_to.as_ref()?.as_str()
    }

    /// The text under an application property.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.properties.get(name)?.as_str()
    }

    /// Encodes a reply to this request.
    pub fn reply(&self, properties: &Map, body: &Value, out: &mut BytesMut) -> Bytes {
        Properties {
            to: self.reply_to.clone(),
            correlation_id: self.message_id.clone(),
            ..Properties::default()
        }
        .write(out);
        codec::write_descriptor(out, descriptor::APPLICATION_PROPERTIES);
        properties.encode(out);
        codec::write_descriptor(out, descriptor::AMQP_VALUE);
        body.encode(out);
        out.split().freeze()
    }
}

/// A sender link of a session that could carry a reply: what is known of it from its attach.
#[derive(Clone, Copy, Debug)]
pub struct ReplyLink<'a, L> {
    pub link: L,
    pub name: &'a str,
    pub target: Option<&'a str>,
}

/// The link a reply goes to (REQ-3): the one whose target is the address asked for, else the one
/// of that name, else the only one there is. `links` are the session's sender links of the same node.
pub fn reply_link<'a, L: Copy>(
    links: impl Iterator<Item = ReplyLink<'a, L>> + Clone,
    reply_to: Option<&str>,
) -> Option<L> {
    let by_target = || links.clone().find(|link| link.target.is_some() && link.target == reply_to);
    let by_name = || links.clone().find(|link| Some(link.name) == reply_to);
    let only = || {
        let mut all = links.clone();
        all.next().filter(|_| all.next().is_none())
    };
    by_target().or_else(by_name).or_else(only).map(|link| link.link)
}

/// Encodes a request.
pub fn request(message_id: Value, reply_to: Option<&str>, properties: &Map, body: &Value) -> Bytes {
    let head = Properties {
        message_id: Some(message_id),
        reply_to: reply_to.map(Value::from),
        ..Properties::default()
    };
    let message = MessageBuilder::default().composite(&head);
    let message = message.section(descriptor::APPLICATION_PROPERTIES, properties);
    message.section(descriptor::AMQP_VALUE, body).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: [ReplyLink<'static, u8>; 3] = [
        ReplyLink { link: 1, name: "a", target: None },
        ReplyLink { link: 2, name: "b", target: Some("x") },
        ReplyLink { link: 3, name: "x", target: Some("y") },
    ];

    #[test]
    fn req_3_a_reply_finds_its_link() {
        let find = |links: &[ReplyLink<'static, u8>], to| reply_link(links.iter().copied(), to);
        assert_eq!(find(&LINKS, Some("x")), Some(2), "by target, before name");
        assert_eq!(find(&LINKS, Some("a")), Some(1), "by name");
        assert_eq!(find(&LINKS, None), None, "several, and nothing to tell them apart");
        assert_eq!(find(&LINKS[..1], None), Some(1), "the only one");
        assert_eq!(find(&LINKS[..1], Some("elsewhere")), Some(1), "an address of no link's");
    }
}
