//! A subscription's description, to and from XML.

use std::io;

use domain::{EntityInfo, NewRule, SubscriptionProperties, SubscriptionSpecifics};
use roxmltree::Node;
use wire::v1;

use super::description::{element, elements};
use super::document::Elements;
use super::{Asked, rule};
use crate::failure::Failure;

pub(super) const ELEMENT: &str = "SubscriptionDescription";

/// In the order the service writes.
pub(super) fn write(
    out: &mut Elements<'_>,
    info: &EntityInfo,
    specifics: &SubscriptionSpecifics,
    asked: Asked<'_>,
) -> io::Result<()> {
    let SubscriptionProperties {
        lock_duration,
        requires_session,
        default_ttl,
        auto_delete_on_idle,
        dead_letter_on_expiration,
        dead_letter_on_filter_errors,
        max_delivery_count,
        status,
        user_metadata,
        enable_batched_operations,
        forward_to,
        forward_dead_letters_to,
    } = SubscriptionProperties::of(&info.properties, specifics);
    out.span("LockDuration", lock_duration)?;
    out.flag("RequiresSession", requires_session)?;
    out.span("DefaultMessageTimeToLive", default_ttl)?;
    out.flag("DeadLetteringOnMessageExpiration", dead_letter_on_expiration)?;
    out.flag("DeadLetteringOnFilterEvaluationExceptions", dead_letter_on_filter_errors)?;
    out.number("MessageCount", info.counts.total())?;
    out.number("MaxDeliveryCount", max_delivery_count)?;
    out.flag("EnableBatchedOperations", enable_batched_operations)?;
    out.text("Status", status.as_str())?;
    out.some("ForwardTo", asked.destination(&forward_to).as_deref())?;
    out.instant("CreatedAt", info.created_at)?;
    out.instant("UpdatedAt", info.updated_at)?;
    out.instant("AccessedAt", info.accessed_at)?;
    out.counts(&info.counts)?;
    out.some(
        "ForwardDeadLetteredMessagesTo",
        asked.destination(&forward_dead_letters_to).as_deref(),
    )?;
    out.span("AutoDeleteOnIdle", auto_delete_on_idle)?;
    out.text("EntityAvailabilityStatus", "Available")?;
    out.some("UserMetadata", Some(user_metadata.as_str()).filter(|text| !text.is_empty()))
}

/// As of queues.
pub(super) fn read(description: Node<'_, '_>) -> Result<v1::SubscriptionProperties, Failure> {
    let mut given = v1::SubscriptionProperties {
        user_metadata: Some(String::new()),
        forward_to: Some(String::new()),
        forward_dead_letters_to: Some(String::new()),
        ..Default::default()
    };
    for element in elements(description) {
        match element.name() {
            "LockDuration" => given.lock_duration_ms = element.span_ms()?,
            "RequiresSession" => given.requires_session = element.flag()?,
            "DefaultMessageTimeToLive" => given.default_ttl_ms = element.span_ms()?,
            "DeadLetteringOnMessageExpiration" => {
                given.dead_letter_on_expiration = element.flag()?;
            }
            "DeadLetteringOnFilterEvaluationExceptions" => {
                given.dead_letter_on_filter_errors = element.flag()?;
            }
            "MaxDeliveryCount" => given.max_delivery_count = element.number()?,
            "EnableBatchedOperations" => given.enable_batched_operations = element.flag()?,
            "Status" => given.status = element.status()?,
            "ForwardTo" => given.forward_to = element.destination()?,
            "ForwardDeadLetteredMessagesTo" => {
                given.forward_dead_letters_to = element.destination()?;
            }
            "AutoDeleteOnIdle" => given.auto_delete_on_idle_ms = element.span_ms()?,
            "UserMetadata" => given.user_metadata = Some(element.text().to_owned()),
            _ => (),
        }
    }
    Ok(given)
}

/// RULE-2: the first rule, where one is given.
pub(super) fn read_rule(description: Node<'_, '_>) -> Result<NewRule, Failure> {
    match element(description, "DefaultRuleDescription") {
        Some(given) => rule::read(given.0, None),
        None => Ok(NewRule::default()),
    }
}
