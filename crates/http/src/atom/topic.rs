//! A topic's description, to and from XML.

use std::io;

use domain::{EntityInfo, TopicProperties, TopicSpecifics};
use roxmltree::Node;
use wire::v1;

use super::Asked;
use super::authorization;
use super::description::elements;
use super::document::Elements;
use crate::failure::Failure;

pub(super) const ELEMENT: &str = "TopicDescription";

/// In the order the service writes.
pub(super) fn write(
    out: &mut Elements<'_>,
    info: &EntityInfo,
    specifics: &TopicSpecifics,
    asked: Asked<'_>,
) -> io::Result<()> {
    let TopicProperties {
        max_size_megabytes,
        max_message_size_kilobytes,
        requires_duplicate_detection,
        duplicate_detection_window,
        default_ttl,
        auto_delete_on_idle,
        status,
        user_metadata,
        enable_batched_operations,
        authorization_rules,
        support_ordering,
        filter_before_publishing,
    } = TopicProperties::of(&info.properties, specifics);
    out.span("DefaultMessageTimeToLive", default_ttl)?;
    out.number("MaxSizeInMegabytes", max_size_megabytes)?;
    out.flag("RequiresDuplicateDetection", requires_duplicate_detection)?;
    out.span("DuplicateDetectionHistoryTimeWindow", duplicate_detection_window)?;
    out.flag("EnableBatchedOperations", enable_batched_operations)?;
    out.number("SizeInBytes", info.size_bytes)?;
    out.flag("FilteringMessagesBeforePublishing", filter_before_publishing)?;
    out.flag("IsAnonymousAccessible", false)?;
    authorization::write(out, &authorization_rules)?;
    out.text("Status", status.as_str())?;
    out.instant("CreatedAt", info.created_at)?;
    out.instant("UpdatedAt", info.updated_at)?;
    out.instant("AccessedAt", info.accessed_at)?;
    out.flag("SupportOrdering", support_ordering)?;
    out.counts(&info.counts)?;
    out.number("SubscriptionCount", specifics.subscriptions)?;
    if asked.counts_filters() {
        out.number("SqlFilterCount", specifics.rules.sql)?;
        out.number("CorrelationFilterCount", specifics.rules.correlation)?;
    }
    out.span("AutoDeleteOnIdle", auto_delete_on_idle)?;
    out.flag("EnablePartitioning", false)?;
    out.text("EntityAvailabilityStatus", "Available")?;
    out.flag("EnableSubscriptionPartitioning", false)?;
    out.flag("EnableExpress", false)?;
    out.some("UserMetadata", Some(user_metadata.as_str()).filter(|text| !text.is_empty()))?;
    out.number("MaxMessageSizeInKilobytes", max_message_size_kilobytes)
}

/// As of queues.
pub(super) fn read(description: Node<'_, '_>) -> Result<v1::TopicProperties, Failure> {
    let mut given =
        v1::TopicProperties { user_metadata: Some(String::new()), ..Default::default() };
    for element in elements(description) {
        match element.name() {
            "DefaultMessageTimeToLive" => given.default_ttl_ms = element.span_ms()?,
            "MaxSizeInMegabytes" => given.max_size_megabytes = element.number()?,
            "MaxMessageSizeInKilobytes" => given.max_message_size_kilobytes = element.number()?,
            "RequiresDuplicateDetection" => given.requires_duplicate_detection = element.flag()?,
            "DuplicateDetectionHistoryTimeWindow" => {
                given.duplicate_detection_window_ms = element.span_ms()?;
            }
            "EnableBatchedOperations" => given.enable_batched_operations = element.flag()?,
            "FilteringMessagesBeforePublishing" => {
                given.filter_before_publishing = element.flag()?;
            }
            "Status" => given.status = element.status()?,
            "SupportOrdering" => given.support_ordering = element.flag()?,
            "AutoDeleteOnIdle" => given.auto_delete_on_idle_ms = element.span_ms()?,
            "UserMetadata" => given.user_metadata = Some(element.text().to_owned()),
            "EnablePartitioning" | "EnableSubscriptionPartitioning" => element.only_false()?,
            "AuthorizationRules" => given.authorization_rules = authorization::read(element)?,
            _ => (),
        }
    }
    Ok(given)
}
