//! A queue's description, to and from XML.

use std::io;

use domain::{EntityInfo, QueueProperties};
use roxmltree::Node;
use wire::v1;

use super::Asked;
use super::authorization;
use super::description::elements;
use super::document::Elements;
use crate::failure::Failure;

pub(super) const ELEMENT: &str = "QueueDescription";

/// In the order the service writes; the SDKs demand some of it and read the rest.
pub(super) fn write(out: &mut Elements<'_>, info: &EntityInfo, asked: Asked<'_>) -> io::Result<()> {
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
        authorization_rules,
        forward_to,
        forward_dead_letters_to,
    } = &info.properties;
    out.span("LockDuration", *lock_duration)?;
    out.number("MaxSizeInMegabytes", *max_size_megabytes)?;
    out.flag("RequiresDuplicateDetection", *requires_duplicate_detection)?;
    out.flag("RequiresSession", *requires_session)?;
    out.span("DefaultMessageTimeToLive", *default_ttl)?;
    out.flag("DeadLetteringOnMessageExpiration", *dead_letter_on_expiration)?;
    out.span("DuplicateDetectionHistoryTimeWindow", *duplicate_detection_window)?;
    out.number("MaxDeliveryCount", *max_delivery_count)?;
    out.flag("EnableBatchedOperations", *enable_batched_operations)?;
    out.number("SizeInBytes", info.size_bytes)?;
    out.number("MessageCount", info.counts.total())?;
    out.flag("IsAnonymousAccessible", false)?;
    authorization::write(out, authorization_rules)?;
    out.text("Status", status.as_str())?;
    out.instant("CreatedAt", info.created_at)?;
    out.instant("UpdatedAt", info.updated_at)?;
    out.instant("AccessedAt", info.accessed_at)?;
    out.flag("SupportOrdering", true)?;
    out.counts(&info.counts)?;
    out.span("AutoDeleteOnIdle", *auto_delete_on_idle)?;
    out.flag("EnablePartitioning", false)?;
    out.text("EntityAvailabilityStatus", "Available")?;
    out.flag("EnableExpress", false)?;
    out.some("ForwardTo", asked.destination(forward_to).as_deref())?;
    out.some("UserMetadata", Some(user_metadata.as_str()).filter(|text| !text.is_empty()))?;
    out.some(
        "ForwardDeadLetteredMessagesTo",
        asked.destination(forward_dead_letters_to).as_deref(),
    )?;
    out.number("MaxMessageSizeInKilobytes", *max_message_size_kilobytes)
}

/// What a client wrote, in any order; what is read-only or unknown is passed over. What is not there
/// stays as it is, save texts, which have no other way of being taken away.
pub(super) fn read(description: Node<'_, '_>) -> Result<v1::QueueProperties, Failure> {
    let mut given = v1::QueueProperties {
        user_metadata: Some(String::new()),
        forward_to: Some(String::new()),
        forward_dead_letters_to: Some(String::new()),
        ..Default::default()
    };
    for element in elements(description) {
        match element.name() {
            "LockDuration" => given.lock_duration_ms = element.span_ms()?,
            "MaxSizeInMegabytes" => given.max_size_megabytes = element.number()?,
            "MaxMessageSizeInKilobytes" => given.max_message_size_kilobytes = element.number()?,
            "RequiresDuplicateDetection" => given.requires_duplicate_detection = element.flag()?,
            "RequiresSession" => given.requires_session = element.flag()?,
            "DefaultMessageTimeToLive" => given.default_ttl_ms = element.span_ms()?,
            "AutoDeleteOnIdle" => given.auto_delete_on_idle_ms = element.span_ms()?,
            "DeadLetteringOnMessageExpiration" => {
                given.dead_letter_on_expiration = element.flag()?;
            }
            "DuplicateDetectionHistoryTimeWindow" => {
                given.duplicate_detection_window_ms = element.span_ms()?;
            }
            "MaxDeliveryCount" => given.max_delivery_count = element.number()?,
            "EnableBatchedOperations" => given.enable_batched_operations = element.flag()?,
            "Status" => given.status = element.status()?,
            "UserMetadata" => given.user_metadata = Some(element.text().to_owned()),
            "ForwardTo" => given.forward_to = element.destination()?,
            "ForwardDeadLetteredMessagesTo" => {
                given.forward_dead_letters_to = element.destination()?;
            }
            "EnablePartitioning" => element.only_false()?,
            "AuthorizationRules" => given.authorization_rules = authorization::read(element)?,
            _ => (),
        }
    }
    Ok(given)
}
