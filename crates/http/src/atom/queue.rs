//! A queue's description, to and from XML.

use std::io;

use domain::{EntityInfo, EntityStatus, QueueProperties, Refusal, Span};
use roxmltree::Node;

use super::document::{SERVICE_BUS, Xml, counts, empty, instant, text};
use super::duration;

pub(super) const ELEMENT: &str = "QueueDescription";

/// In the order the service writes; the SDKs demand some of it and read the rest.
pub(super) fn write(xml: &mut Xml, info: &EntityInfo) -> io::Result<()> {
    let QueueProperties {
        lock_duration,
        max_size_megabytes,
        max_message_size_kilobytes,
        requires_duplicate_detection,
        duplicate_detection_window,
        requires_session,
        default_ttl,
        auto_delete_on_idle,
        dead_letter_on_expiration,
        max_delivery_count,
        status,
        user_metadata,
        enable_batched_operations,
        forward_to,
        forward_dead_letters_to,
    } = &info.properties;
    let flag = |xml: &mut Xml, name, value: bool| text(xml, name, &value.to_string());
    let number = |xml: &mut Xml, name, value: u64| text(xml, name, &value.to_string());
    let span = |xml: &mut Xml, name, value: Span| text(xml, name, &duration::format(value));
    span(xml, "LockDuration", *lock_duration)?;
    number(xml, "MaxSizeInMegabytes", (*max_size_megabytes).into())?;
    flag(xml, "RequiresDuplicateDetection", *requires_duplicate_detection)?;
    flag(xml, "RequiresSession", *requires_session)?;
    span(xml, "DefaultMessageTimeToLive", *default_ttl)?;
    flag(xml, "DeadLetteringOnMessageExpiration", *dead_letter_on_expiration)?;
    span(xml, "DuplicateDetectionHistoryTimeWindow", *duplicate_detection_window)?;
    number(xml, "MaxDeliveryCount", (*max_delivery_count).into())?;
    flag(xml, "EnableBatchedOperations", *enable_batched_operations)?;
    number(xml, "SizeInBytes", info.size_bytes)?;
    number(xml, "MessageCount", info.counts.total())?;
    flag(xml, "IsAnonymousAccessible", false)?;
    empty(xml, "AuthorizationRules")?;
    text(xml, "Status", status.as_str())?;
    if let Some(to) = forward_to {
        text(xml, "ForwardTo", to)?;
    }
    text(xml, "CreatedAt", &instant(info.created_at))?;
    text(xml, "UpdatedAt", &instant(info.updated_at))?;
    text(xml, "AccessedAt", &instant(info.accessed_at))?;
    flag(xml, "SupportOrdering", true)?;
    counts(
        xml,
        [
            ("ActiveMessageCount", info.counts.active),
            ("DeadLetterMessageCount", info.counts.dead_lettered),
            ("ScheduledMessageCount", info.counts.scheduled),
            ("TransferMessageCount", info.counts.transfer),
            ("TransferDeadLetterMessageCount", info.counts.transfer_dead_lettered),
        ],
    )?;
    if let Some(to) = forward_dead_letters_to {
        text(xml, "ForwardDeadLetteredMessagesTo", to)?;
    }
    span(xml, "AutoDeleteOnIdle", *auto_delete_on_idle)?;
    flag(xml, "EnablePartitioning", false)?;
    text(xml, "EntityAvailabilityStatus", "Available")?;
    flag(xml, "EnableExpress", false)?;
    if !user_metadata.is_empty() {
        text(xml, "UserMetadata", user_metadata)?;
    }
    number(xml, "MaxMessageSizeInKilobytes", (*max_message_size_kilobytes).into())
}

/// What a client wrote, over the properties as they are: in any order, and what is read-only or
/// unknown is passed over. What is not there stays, save texts, which have no other way of being
/// taken away.
pub(super) fn read(description: Node<'_, '_>, into: &mut QueueProperties) -> Result<(), Refusal> {
    into.user_metadata.clear();
    (into.forward_to, into.forward_dead_letters_to) = (None, None);
    for element in description.children().filter(|node| node.has_tag_name_in(SERVICE_BUS)) {
        let name = element.tag_name().name();
        let value = Value { name, text: element.text().unwrap_or_default().trim() };
        match name {
            "LockDuration" => into.lock_duration = value.span("LockDuration")?,
            "MaxSizeInMegabytes" => into.max_size_megabytes = value.number("MaxSizeInMegabytes")?,
            "MaxMessageSizeInKilobytes" => {
                into.max_message_size_kilobytes = value.number("MaxMessageSizeInKilobytes")?;
            }
            "RequiresDuplicateDetection" => {
                into.requires_duplicate_detection = value.flag("RequiresDuplicateDetection")?;
            }
            "RequiresSession" => into.requires_session = value.flag("RequiresSession")?,
            "DefaultMessageTimeToLive" => {
                into.default_ttl = value.span("DefaultMessageTimeToLive")?;
            }
            "AutoDeleteOnIdle" => into.auto_delete_on_idle = value.span("AutoDeleteOnIdle")?,
            "DeadLetteringOnMessageExpiration" => {
                into.dead_letter_on_expiration = value.flag("DeadLetteringOnMessageExpiration")?;
            }
            "DuplicateDetectionHistoryTimeWindow" => {
                let window = value.span("DuplicateDetectionHistoryTimeWindow")?;
                into.duplicate_detection_window = window;
            }
            "MaxDeliveryCount" => into.max_delivery_count = value.number("MaxDeliveryCount")?,
            "EnableBatchedOperations" => {
                into.enable_batched_operations = value.flag("EnableBatchedOperations")?;
            }
            "Status" => into.status = value.status()?,
            "UserMetadata" => into.user_metadata = value.text.to_owned(),
            "EnablePartitioning" if value.flag("EnablePartitioning")? => {
                return Err(Refusal::NotSupported { what: "EnablePartitioning" });
            }
            "ForwardTo" => into.forward_to = value.destination(),
            "ForwardDeadLetteredMessagesTo" => {
                into.forward_dead_letters_to = value.destination();
            }
            _ => (),
        }
    }
    Ok(())
}

/// An element's text, to be read as what it should be.
struct Value<'a> {
    name: &'a str,
    text: &'a str,
}

impl Value<'_> {
    fn wrong(&self, what: &'static str, expected: &str) -> Refusal {
        debug_assert_eq!(self.name, what, "named after its element");
        Refusal::Argument { what, why: format!("'{}' is not {expected}", self.text) }
    }

    fn span(&self, what: &'static str) -> Result<Span, Refusal> {
        duration::parse(self.text)
            .ok_or_else(|| self.wrong(what, "an ISO 8601 duration such as PT1M or P14D"))
    }

    fn number(&self, what: &'static str) -> Result<u32, Refusal> {
        self.text.parse().map_err(|_| self.wrong(what, "a number"))
    }

    fn flag(&self, what: &'static str) -> Result<bool, Refusal> {
        match self.text.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(self.wrong(what, "true or false")),
        }
    }

    /// The name of an entity: clients write it as it is, or as the path of an absolute URI.
    fn destination(&self) -> Option<String> {
        let path = match self.text.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            None => self.text,
        };
        let name = path.trim_matches('/');
        (!name.is_empty()).then(|| name.to_owned())
    }

    fn status(&self) -> Result<EntityStatus, Refusal> {
        const SETTABLE: [EntityStatus; 4] = [
            EntityStatus::Active,
            EntityStatus::Disabled,
            EntityStatus::SendDisabled,
            EntityStatus::ReceiveDisabled,
        ];
        SETTABLE.into_iter().find(|status| status.as_str() == self.text).ok_or_else(|| {
            self.wrong("Status", "Active, Disabled, SendDisabled or ReceiveDisabled")
        })
    }
}

trait InNamespace {
    fn has_tag_name_in(&self, namespace: &str) -> bool;
}

impl InNamespace for Node<'_, '_> {
    fn has_tag_name_in(&self, namespace: &str) -> bool {
        self.is_element() && self.tag_name().namespace() == Some(namespace)
    }
}
