//! What happens at a front end, as far as rules can tell it from others.

use std::cell::OnceCell;

use bytes::Bytes;
use domain::{ContentHeader, Properties, Subject, SystemProperty, SystemValue};

use crate::operation::{Operation, Protocol};

/// What a client does, or is about to get.
pub struct Event<'a> {
    pub protocol: Protocol,
    pub operation: Operation,
    /// The entity's path, with its subqueue; empty where there is none.
    pub entity: &'a str,
    /// What the client calls itself: the container id over AMQP, the user agent elsewhere.
    pub client: &'a str,
    /// The link's name; empty where there is none.
    pub link: &'a str,
    /// The key's name; empty where there is none.
    pub key: &'a str,
    /// The content of the message that it is about, where one is at hand.
    pub message: Option<&'a Bytes>,
    /// Of that message, where it is on its way to the client.
    pub failed_deliveries: u32,
    pub(crate) header: OnceCell<Option<Headed>>,
}

impl<'a> Event<'a> {
    pub fn new(protocol: Protocol, operation: Operation, entity: &'a str) -> Event<'a> {
        Event {
            protocol,
            operation,
            entity,
            client: "",
            link: "",
            key: "",
            message: None,
            failed_deliveries: 0,
            header: OnceCell::new(),
        }
    }

    /// What filters look at, read once; `None` where there is no message, or none that can be read.
    pub(crate) fn headed(&self) -> Option<&Headed> {
        let read = || {
            let header = wire::content::header(self.message?)?;
            Some(Headed { header, failed_deliveries: self.failed_deliveries })
        };
        self.header.get_or_init(read).as_ref()
    }
}

pub(crate) struct Headed {
    header: ContentHeader,
    failed_deliveries: u32,
}

impl Subject for Headed {
    fn system(&self, property: SystemProperty) -> Option<SystemValue<'_>> {
        if let Some(text) = self.header.texts.get(&property) {
            return Some(SystemValue::Text(text));
        }
        match property {
            SystemProperty::TimeToLive => self.header.ttl.map(SystemValue::Duration),
            SystemProperty::ScheduledEnqueueTimeUtc => {
                self.header.scheduled_at.map(SystemValue::Instant)
            }
            SystemProperty::DeliveryCount => {
                Some(SystemValue::Number(self.failed_deliveries.into()))
            }
            SystemProperty::State => Some(SystemValue::Number(0)),
            _ => None,
        }
    }

    fn properties(&self) -> &Properties {
        &self.header.properties
    }
}
