//! Which of a queue's messages a link wants (SEL): its selector, and what the names in one stand for.

use amqp_protocol::Limits;
use amqp_protocol::codec::{Source, Value};
use amqp_protocol::message::{Header, Message, Properties, UnixMs};
use bytes::BytesMut;
use domain::{Excerpt, Selector};
use message_content::{Shown, Unreadable, deliver, stored, to_domain};
use service::Received;

use crate::link_terms::{SELECTOR_FILTER, selector_filters};

/// As in the standard, of a message that does not say (part 3, 3.2.1).
const PRIORITY: u8 = 4;

/// A link's selectors, each of which a message must match.
#[derive(Clone, Debug)]
pub struct Selection {
    selectors: Vec<Selector>,
    limits: Limits,
}

impl Selection {
    /// `None`: every message is wanted.
    ///
    /// # Errors
    /// What is wrong with a selector, in a sentence that names the filter (SEL-1).
    pub fn of(source: &Source, limits: &Limits) -> Result<Option<Selection>, String> {
        let mut selectors = Vec::new();
        for (name, filter) in selector_filters(source) {
            let wrong = |why: &str| {
                let name = Excerpt(name);
                format!("the filter '{name}' ({SELECTOR_FILTER}) is no selector: {why}")
            };
            let value = match filter {
                Value::Described(parts) => &parts.1,
                value => value,
            };
            let text = value.as_str().ok_or_else(|| wrong("it is no text"))?;
            // As in JMS: one that says nothing is none.
            if !text.trim().is_empty() {
                selectors.push(Selector::new(text).map_err(|error| wrong(&error.to_string()))?);
            }
        }
        let limits = limits.clone();
        Ok((!selectors.is_empty()).then_some(Selection { selectors, limits }))
    }

    /// Whether a message is wanted. One that cannot be read is not.
    pub fn takes(&self, received: &Received) -> bool {
        let Ok(message) = shown(received, &self.limits) else { return false };
        let headed = Headed::of(&message, received.delivery.delivery_count, &self.limits);
        headed.is_some_and(|headed| {
            self.selectors.iter().all(|selector| selector.matches(&|name| headed.value(name)))
        })
    }
}

/// The message with what the broker laid over it.
fn shown(received: &Received, limits: &Limits) -> Result<Message, Unreadable> {
    let Received { delivery, content } = received;
    let scratch = &mut BytesMut::new();
    let message = stored(content, limits, scratch)?;
    if delivery.overlay.is_none() {
        return Ok(message);
    }
    let payload = deliver(&message, delivery, Shown::Peek, None, limits, scratch)?;
    Ok(Message::parse(payload.to_bytes(), limits)?)
}

/// What selectors see of a message: all but its annotations and its body.
struct Headed {
    header: Header,
    properties: Properties,
    application: amqp_protocol::codec::Map,
    failed: u32,
}

impl Headed {
    fn of(message: &Message, failed: u32, limits: &Limits) -> Option<Headed> {
        Some(Headed {
            header: message.header(limits).ok()?,
            properties: message.properties(limits).ok()?,
            application: message.application_properties(limits).ok()?,
            failed,
        })
    }

    /// SEL-4, SEL-5.
    fn value(&self, name: &str) -> Option<domain::Value> {
        match name.strip_prefix("amqp.") {
            Some(field) => self.field(field),
            None if name.starts_with("JMS") => self.jms(name),
            None => self.application.get(name).map(to_domain),
        }
    }

    /// JMS's headers, and what it defines of properties, as Qpid JMS maps them.
    fn jms(&self, name: &str) -> Option<domain::Value> {
        let Properties { message_id, correlation_id, .. } = &self.properties;
        match name {
            "JMSMessageID" => message_id.as_ref().and_then(|id| jms_id(id, true)).map(text),
            "JMSCorrelationID" => {
                correlation_id.as_ref().and_then(|id| jms_id(id, false)).map(text)
            }
            "JMSType" => self.field("subject"),
            "JMSTimestamp" => self.field("creation_time"),
            "JMSPriority" => self.field("priority"),
            "JMSDeliveryMode" => Some(text(match self.header.durable.unwrap_or_default() {
                true => "PERSISTENT",
                false => "NON_PERSISTENT",
            })),
            "JMSXGroupID" => self.field("group_id"),
            "JMSXGroupSeq" => self.field("group_sequence"),
            "JMSXUserID" => self.field("user_id"),
            "JMSXDeliveryCount" => Some(number(i64::from(self.failed) + 1)),
            _ => self.application.get(name).map(to_domain),
        }
    }

    /// The fields of header and properties by their names in the standard.
    fn field(&self, name: &str) -> Option<domain::Value> {
        let Properties {
            message_id,
            user_id,
            to,
            subject,
            reply_to,
            correlation_id,
            content_type,
            content_encoding,
            absolute_expiry_time,
            creation_time,
            group_id,
            group_sequence,
            reply_to_group_id,
        } = &self.properties;
        let value = |value: &Option<Value>| value.as_ref().map(to_domain);
        let instant = |at: &Option<UnixMs>| at.map(|at| number(at.0));
        match name {
            "durable" => Some(domain::Value::Bool(self.header.durable.unwrap_or_default())),
            "priority" => Some(number(self.header.priority.unwrap_or(PRIORITY).into())),
            "delivery_count" => Some(number(self.failed.into())),
            "redelivered" => Some(domain::Value::Bool(self.failed > 0)),
            "message_id" => value(message_id),
            "user_id" => user_id.as_ref().and_then(|id| std::str::from_utf8(id).ok()).map(text),
            "to" => value(to),
            "subject" => subject.as_deref().map(text),
            "reply_to" => value(reply_to),
            "correlation_id" => value(correlation_id),
            "content_type" => content_type.as_deref().map(text),
            "content_encoding" => content_encoding.as_deref().map(text),
            "absolute_expiry_time" => instant(absolute_expiry_time),
            "creation_time" => instant(creation_time),
            "group_id" => group_id.as_deref().map(text),
            "group_sequence" => group_sequence.map(|sequence| number(sequence.into())),
            "reply_to_group_id" => reply_to_group_id.as_deref().map(text),
            _ => None,
        }
    }
}

fn text(text: impl Into<String>) -> domain::Value {
    domain::Value::String(text.into())
}

fn number(number: i64) -> domain::Value {
    domain::Value::Long(number)
}

/// What begins an id of a message in JMS.
const ID: &str = "ID:";
/// What Qpid JMS puts behind it to remember an id's type.
const TYPES: [&str; 5] =
    ["AMQP_STRING:", "AMQP_UUID:", "AMQP_ULONG:", "AMQP_BINARY:", "AMQP_NO_PREFIX:"];

/// SEL-4: an id as Qpid JMS shows it, so that a program can select by what it was shown.
fn jms_id(id: &Value, of_message: bool) -> Option<String> {
    Some(match id {
        Value::String(id) => match id.strip_prefix(ID) {
            Some(rest) if TYPES.iter().any(|known| rest.starts_with(known)) => {
                format!("{ID}AMQP_STRING:{id}")
            }
            Some(_) => id.to_string(),
            None if of_message => format!("{ID}AMQP_NO_PREFIX:{id}"),
            None => id.to_string(),
        },
        Value::Uuid(bytes) => format!("{ID}AMQP_UUID:{}", uuid::Uuid::from_bytes(*bytes)),
        Value::Ulong(number) => format!("{ID}AMQP_ULONG:{number}"),
        Value::Binary(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("{ID}AMQP_BINARY:{digits}")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
