//! Checks that need nothing but the request itself. The edge makes them before it proposes; the
//! machine makes those of them again that its rows rely on, and refuses what is malformed.

mod authorization;

pub use authorization::authorization_rules;

use crate::{
    BATCH_DELETE_MAX, BATCH_MESSAGES_MAX, EntityStatus, HEADER_BYTES_MAX, ID_CHARS_MAX,
    NAME_CHARS_MAX, NewMessage, PATH_CHARS_MAX, PROPERTY_BYTES_MAX, Properties, QueueProperties,
    REASON_CHARS_MAX, Refusal, Span, SubscriptionProperties, TOKENS_MAX, TopicProperties,
    USER_METADATA_CHARS_MAX, Value, properties_bytes,
};

/// ENT-3, ENT-4: bounds of a queue's properties.
const LOCK_DURATION: (Span, Span) = (Span::from_secs(5), Span::from_secs(300));
const DUPLICATE_WINDOW: (Span, Span) = (Span::from_secs(20), Span::from_secs(7 * 24 * 3600));
const DEFAULT_TTL_MIN: Span = Span::from_secs(1);
const IDLE_MIN: Span = Span::from_secs(300);
const SIZE_MEGABYTES_STEP: u32 = 1024;
const SIZE_MEGABYTES_MAX: u32 = 80 * 1024;
const MESSAGE_KILOBYTES_MAX: u32 = 1024;
const DELIVERY_COUNT_MAX: u32 = i32::MAX as u32;

/// ENT-1. Letters are ASCII: what is lower-cased in the log must not depend on the Unicode tables of
/// a binary.
pub fn queue_name(name: &str) -> Result<(), Refusal> {
    let refuse = |why: String| Err(Refusal::Argument { what: "entity name", why });
    if name.is_empty() {
        return refuse("it is empty".to_owned());
    }
    let chars = name.chars().count();
    if chars > PATH_CHARS_MAX {
        return refuse(format!("it has {chars} characters, the limit is {PATH_CHARS_MAX}"));
    }
    if name.starts_with('/') || name.ends_with('/') {
        return refuse("it begins or ends with '/'".to_owned());
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    if let Some(c) = name.chars().find(|c| !allowed(*c)) {
        return refuse(format!("{c:?} is not a letter, a digit, '.', '-', '_' or '/'"));
    }
    // Or it could not be told from a subscription.
    match name.to_ascii_lowercase().contains("/subscriptions/") {
        true => refuse("'/subscriptions/' stands between a topic and its subscription".to_owned()),
        false => Ok(()),
    }
}

/// ENT-1: what a subscription is called in its topic.
pub fn subscription_name(name: &str) -> Result<(), Refusal> {
    short_name("subscription name", name, |c| {
        c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
    })
}

/// ENT-1, RULE-2: `$Default` is a name as well.
pub fn rule_name(name: &str) -> Result<(), Refusal> {
    short_name("rule name", name, |c| {
        c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '$' | ' ')
    })
}

/// QUOTA-16.
fn short_name(
    what: &'static str,
    name: &str,
    allowed: impl Fn(char) -> bool,
) -> Result<(), Refusal> {
    let refuse = |why: String| Err(Refusal::Argument { what, why });
    let chars = name.chars().count();
    if chars == 0 {
        return refuse("it is empty".to_owned());
    }
    if chars > NAME_CHARS_MAX {
        return refuse(format!("it has {chars} characters, the limit is {NAME_CHARS_MAX}"));
    }
    match name.chars().find(|c| !allowed(*c)) {
        Some(c) => refuse(format!("it must not hold {c:?}")),
        None => Ok(()),
    }
}

/// ENT-3, ENT-4, STATE-1.
pub fn topic_properties(properties: &TopicProperties) -> Result<(), Refusal> {
    let settable = properties.status != EntityStatus::ReceiveDisabled;
    let allowed = "Active, Disabled or SendDisabled";
    in_range("Status of a topic", settable, properties.status.as_str(), allowed)?;
    queue_properties(&properties.common())
}

/// ENT-3, ENT-4, STATE-1.
pub fn subscription_properties(properties: &SubscriptionProperties) -> Result<(), Refusal> {
    let settable = properties.status != EntityStatus::SendDisabled;
    let allowed = "Active, Disabled or ReceiveDisabled";
    in_range("Status of a subscription", settable, properties.status.as_str(), allowed)?;
    queue_properties(&properties.common(Span::MAX))
}

/// ENT-3, ENT-4, QUOTA-0.
pub fn queue_properties(properties: &QueueProperties) -> Result<(), Refusal> {
    let QueueProperties {
        lock_duration,
        max_size_megabytes,
        max_message_size_kilobytes,
        requires_duplicate_detection: _,
        duplicate_detection_window,
        requires_session,
        default_ttl,
        auto_delete_on_idle,
        dead_letter_on_expiration: _,
        max_delivery_count,
        status: _,
        user_metadata,
        enable_batched_operations: _,
        authorization_rules: rules,
        forward_to,
        forward_dead_letters_to: _,
    } = properties;
    if *requires_session && forward_to.is_some() {
        let why = "what requires sessions cannot be forwarded; its dead letters can";
        return Err(Refusal::InvalidOperation { why }); // FWD-1.
    }
    within("LockDuration", *lock_duration, LOCK_DURATION, "5 s to 5 min")?;
    within(
        "DuplicateDetectionHistoryTimeWindow",
        *duplicate_detection_window,
        DUPLICATE_WINDOW,
        "20 s to 7 days",
    )?;
    let from = |min| (min, Span::MAX);
    within("DefaultMessageTimeToLive", *default_ttl, from(DEFAULT_TTL_MIN), "1 s or more")?;
    within("AutoDeleteOnIdle", *auto_delete_on_idle, from(IDLE_MIN), "5 min or more")?;
    in_range(
        "MaxSizeInMegabytes",
        (SIZE_MEGABYTES_STEP..=SIZE_MEGABYTES_MAX).contains(max_size_megabytes)
            && max_size_megabytes % SIZE_MEGABYTES_STEP == 0,
        max_size_megabytes,
        "a multiple of 1024, up to 81920",
    )?;
    in_range(
        "MaxMessageSizeInKilobytes",
        (1..=MESSAGE_KILOBYTES_MAX).contains(max_message_size_kilobytes),
        max_message_size_kilobytes,
        "1 to 1024",
    )?;
    in_range(
        "MaxDeliveryCount",
        (1..=DELIVERY_COUNT_MAX).contains(max_delivery_count),
        max_delivery_count,
        "1 to 2147483647",
    )?;
    let chars = user_metadata.chars().count();
    let allowed = "at most 1024 characters";
    in_range("length of UserMetadata", chars <= USER_METADATA_CHARS_MAX, chars, allowed)?;
    authorization_rules(rules)
}

/// FWD-2: an entity of this name does not forward to itself. Whether there is a destination of that
/// name is the catalog's to say.
pub fn forwarding(name: &str, properties: &QueueProperties) -> Result<(), Refusal> {
    for to in [&properties.forward_to, &properties.forward_dead_letters_to].into_iter().flatten() {
        if to.eq_ignore_ascii_case(name) {
            let why = "an entity cannot forward to itself";
            return Err(Refusal::InvalidOperation { why });
        }
        queue_name(to)?;
    }
    Ok(())
}

/// MSG-2, MSG-7, SEND-5, QUOTA-17, QUOTA-19, TTL-8: what holds for a message whatever queue it goes
/// to. The size limits of message and batch are the queue's.
pub fn new_message(message: &NewMessage) -> Result<(), Refusal> {
    let header_bytes = message.header_bytes as usize;
    if header_bytes > HEADER_BYTES_MAX {
        return Err(serialization("all properties of the message", header_bytes, HEADER_BYTES_MAX));
    }
    id("MessageId", message.message_id.as_deref())?;
    if message.message_id.as_deref() == Some("") {
        let why = "it is empty; leave it out to have one drawn".to_owned();
        return Err(Refusal::Argument { what: "MessageId", why });
    }
    id("SessionId", message.session_id.as_deref())?;
    id("PartitionKey", message.partition_key.as_deref())?;
    if let (Some(session), Some(partition)) = (&message.session_id, &message.partition_key)
        && session != partition
    {
        let why = "SessionId and PartitionKey are both set and differ";
        return Err(Refusal::InvalidOperation { why });
    }
    match message.ttl {
        Some(Span(0)) => in_range("TimeToLive", false, "0", "more than 0"),
        _ => Ok(()),
    }
}

/// QUOTA-17.
pub fn id(what: &'static str, value: Option<&str>) -> Result<(), Refusal> {
    // A text of so few bytes has no more characters.
    let Some(value) = value.filter(|value| value.len() > ID_CHARS_MAX) else { return Ok(()) };
    let chars = value.chars().count();
    if chars > ID_CHARS_MAX {
        let why = format!("it has {chars} characters, the limit is {ID_CHARS_MAX}");
        return Err(Refusal::Argument { what, why });
    }
    Ok(())
}

/// MSG-7, QUOTA-19: one user property, name and value.
pub fn property(name: &str, value: &Value) -> Result<(), Refusal> {
    let bytes = name.len() + value.size_bytes();
    match bytes > PROPERTY_BYTES_MAX {
        true => Err(serialization(&format!("property '{name}'"), bytes, PROPERTY_BYTES_MAX)),
        false => Ok(()),
    }
}

/// MSG-7, QUOTA-19: user properties, each and together.
pub fn properties(properties: &Properties) -> Result<(), Refusal> {
    properties.iter().try_for_each(|(name, value)| property(name, value))?;
    let bytes = properties_bytes(properties);
    match bytes > HEADER_BYTES_MAX {
        true => Err(serialization("all properties", bytes, HEADER_BYTES_MAX)),
        false => Ok(()),
    }
}

/// DLQ-5, QUOTA-29.
pub fn reason(reason: Option<&str>, description: Option<&str>) -> Result<(), Refusal> {
    for (what, text) in [
        ("length of DeadLetterReason", reason),
        ("length of DeadLetterErrorDescription", description),
    ] {
        let chars = text.map_or(0, |text| text.chars().count());
        in_range(what, chars <= REASON_CHARS_MAX, chars, "at most 4096 characters")?;
    }
    Ok(())
}

/// Messages in one send: its rows stay bounded.
pub fn message_count(count: usize) -> Result<(), Refusal> {
    let holds = (1..=BATCH_MESSAGES_MAX).contains(&count);
    in_range("number of messages in one send", holds, count, "1 to 4500")
}

/// BATCH-5, QUOTA-10.
pub fn delete_count(count: u32) -> Result<(), Refusal> {
    let holds = (1..=BATCH_DELETE_MAX).contains(&count);
    in_range("number of messages to delete", holds, count, "1 to 4000")
}

/// PEEK-2: more than are honoured is no error (QUOTA-25), none is.
pub fn peek_count(count: u32) -> Result<(), Refusal> {
    in_range("number of messages to peek", count > 0, count, "1 or more")
}

/// Settlements, locks or numbers in one request.
pub fn count(what: &'static str, count: usize) -> Result<(), Refusal> {
    in_range(what, count <= TOKENS_MAX, count, "at most 1000")
}

fn within(
    what: &'static str,
    value: Span,
    (min, max): (Span, Span),
    allowed: &'static str,
) -> Result<(), Refusal> {
    in_range(what, (min..=max).contains(&value), format_args!("{} ms", value.0), allowed)
}

fn in_range(
    what: &'static str,
    holds: bool,
    value: impl std::fmt::Display,
    allowed: &'static str,
) -> Result<(), Refusal> {
    match holds {
        true => Ok(()),
        false => Err(Refusal::ArgumentOutOfRange { what, value: value.to_string(), allowed }),
    }
}

fn serialization(what: &str, bytes: usize, max: usize) -> Refusal {
    Refusal::Serialization { what: what.to_owned(), bytes: bytes as u64, max: max as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ent_1_names() {
        for name in ["a", "Orders", "a/b.c-d_e/9", &"x".repeat(260)] {
            assert_eq!(queue_name(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "/a",
            "a/",
            "a b",
            "a@b",
            "a?",
            "a#",
            "a*",
            "a\\b",
            "a$",
            "ä",
            "a/Subscriptions/b",
            "a/subscriptions/b/c",
        ] {
            assert!(matches!(queue_name(name), Err(Refusal::Argument { .. })), "{name}");
        }
        assert!(queue_name(&"x".repeat(261)).is_err());
    }

    #[test]
    fn quota_16_names_of_subscriptions_and_rules_are_short() {
        for name in ["a", "A.b-c_9", &"x".repeat(50)] {
            assert_eq!(subscription_name(name), Ok(()), "{name}");
            assert_eq!(rule_name(name), Ok(()), "{name}");
        }
        assert_eq!(rule_name(crate::DEFAULT_RULE), Ok(()));
        for name in ["", "a/b", "a\\b", "a@b", "a?b", "a#b", "a*b", &"x".repeat(51)] {
            assert!(subscription_name(name).is_err() && rule_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn quota_17_counts_characters_not_bytes() {
        assert_eq!(id("MessageId", Some(&"ä".repeat(128))), Ok(()));
        assert!(id("MessageId", Some(&"ä".repeat(129))).is_err());
    }
}
