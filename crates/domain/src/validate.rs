//! Checks that need nothing but the request itself. The edge makes them before it proposes; the
//! machine makes those of them again that its rows rely on, and refuses what is malformed.

mod authorization;
mod destinations;
mod in_profile;
mod properties;

pub use authorization::authorization_rules;
pub use destinations::{forwarding_of_sessions, new_forwarding};
pub use in_profile::InProfile;
pub use properties::{queue_properties, subscription_properties, topic_properties, unchanged};

use crate::{
    BATCH_BYTES_MAX, BATCH_DELETE_MAX, Excerpt, HEADER_BYTES_MAX, ID_CHARS_MAX, MESSAGE_BYTES_MIN,
    NAME_CHARS_MAX, NewMessage, PATH_CHARS_MAX, PROPERTY_BYTES_MAX, Properties, REASON_CHARS_MAX,
    Refusal, Span, TOKENS_MAX, Value, properties_bytes,
};

/// ENT-1, ENT-13.
pub fn queue_name(name: &str) -> Result<(), Refusal> {
    path(name)?;
    let lower = name.to_ascii_lowercase();
    match TAKEN_PATHS.iter().find(|taken| (taken.is_taken)(&lower)) {
        Some(taken) => Err(Refusal::Argument { what: ENTITY_NAME, why: taken.why.to_owned() }),
        None => Ok(()),
    }
}

/// ENT-1, as 0.1 had it: fewer characters, and fewer forms that are no entity's.
pub(crate) fn queue_name_of_0_1(name: &str) -> Result<(), Refusal> {
    path(name)?;
    let why = match name.to_ascii_lowercase().contains(SUBSCRIPTIONS) {
        true => "'/subscriptions/' stands between a topic and its subscription",
        false if name.contains('~') => "'~' is not a letter, a digit, '.', '-', '_' or '/'",
        false => return Ok(()),
    };
    Err(Refusal::Argument { what: ENTITY_NAME, why: why.to_owned() })
}

/// What an entity's name is made of.
fn path(name: &str) -> Result<(), Refusal> {
    let refuse = |why: String| Err(Refusal::Argument { what: ENTITY_NAME, why });
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
    entity_characters(name)
}

/// ENT-1: what the segments of an entity's name consist of. Letters are ASCII: what is lower-cased in
/// the log must not depend on the Unicode tables of a binary.
pub fn entity_characters(name: &str) -> Result<(), Refusal> {
    let allowed = |c: char| is_in_names(c) || c == '/';
    match name.chars().find(|c| !allowed(*c)) {
        Some(c) => {
            let why = format!("{c:?} is not a letter, a digit, '.', '-', '_', '~' or '/'");
            Err(Refusal::Argument { what: ENTITY_NAME, why })
        }
        None => Ok(()),
    }
}

const ENTITY_NAME: &str = "entity name";
const SUBSCRIPTIONS: &str = "/subscriptions/";

fn is_in_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '~')
}

/// A form of names that is no entity's (ENT-13).
struct TakenPath {
    /// Of a name in lower case.
    is_taken: fn(&str) -> bool,
    why: &'static str,
}

/// ENT-13: paths of any front end that are something else, whatever entities are called.
const TAKEN_PATHS: &[TakenPath] = &[
    TakenPath {
        is_taken: |name| name.contains(SUBSCRIPTIONS),
        why: "'/subscriptions/' stands between a topic and its subscription",
    },
    TakenPath {
        is_taken: |name| name.ends_with("/subscriptions"),
        why: "behind a topic's name, '/subscriptions' is the list of its subscriptions",
    },
    TakenPath {
        is_taken: |name| name.ends_with("/messages/head"),
        why: "behind an entity's name, '/messages/head' is its next message",
    },
    TakenPath {
        is_taken: |name| {
            let behind = name.rfind("/messages/").map(|at| &name[at + "/messages/".len()..]);
            let token = behind.and_then(|behind| behind.rsplit_once('/')).map(|(_, token)| token);
            token.is_some_and(is_uuid)
        },
        why: "behind an entity's name, '/messages/…/' and a uuid is a message that is locked",
    },
    TakenPath {
        is_taken: |name| name.split('/').any(|segment| matches!(segment, "" | "." | "..")),
        why: "a segment of it is empty, '.' or '..', which clients leave out of addresses",
    },
];

/// As clients write lock tokens.
fn is_uuid(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_hexdigit).count();
    let dashes = text.match_indices('-').map(|(at, _)| at);
    digits == 32 && (text.len() == 32 || dashes.eq([8, 13, 18, 23])) && text.len() <= 36
}

/// ENT-1: what a subscription is called in its topic.
pub fn subscription_name(name: &str) -> Result<(), Refusal> {
    short_name("subscription name", name, is_in_names)
}

/// ENT-1, RULE-2: `$Default` is a name as well.
pub fn rule_name(name: &str) -> Result<(), Refusal> {
    short_name("rule name", name, |c| is_in_names(c) || matches!(c, '$' | ' '))
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
        && !session.is_empty()
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
    property_bytes(&format_args!("property '{}'", Excerpt(name)), name.len() + value.size_bytes())
}

/// MSG-7, QUOTA-19: any property, name and value, by what they take where they came from.
pub fn property_bytes(what: &dyn std::fmt::Display, bytes: usize) -> Result<(), Refusal> {
    match bytes > PROPERTY_BYTES_MAX {
        true => Err(serialization(&what.to_string(), bytes, PROPERTY_BYTES_MAX)),
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

/// QUOTA-6: the messages of one send, some, and so many bytes together at most.
pub fn batch(messages: &[NewMessage]) -> Result<(), Refusal> {
    in_range("number of messages in one send", !messages.is_empty(), 0, "1 or more")?;
    batch_within(messages, BATCH_BYTES_MAX)
}

/// QUOTA-6: of a profile's limit.
pub fn batch_within(messages: &[NewMessage], bytes_max: usize) -> Result<(), Refusal> {
    let bytes_of = |message: &NewMessage| u64::from(message.size_bytes.max(MESSAGE_BYTES_MIN));
    let (what, max) = ("the batch", bytes_max as u64);
    let bytes = messages.iter().map(bytes_of).sum();
    match bytes > max {
        true => Err(Refusal::MessageSizeExceeded { what, bytes, max }),
        false => Ok(()),
    }
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
        for name in [
            "a",
            "Orders",
            "a/b.c-d_e/9",
            "company.messages~orderupdated",
            "~",
            "metrics",
            "health/live",
            "q/messages",
            "messages/head",
            "q/messages/7/8",
            "q/headmessages/head",
            "subscriptions",
            "rules",
            &"x".repeat(260),
        ] {
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
            "a+b",
            "a(b)",
            "a%b",
            "q/$DeadLetterQueue",
            // ENT-13.
            "a/Subscriptions/b",
            "a/subscriptions/b/c",
            "a/SUBSCRIPTIONS",
            "q/Messages/Head",
            "a/q/messages/head",
            "q/messages/7/00000000-0000-0007-0000-000000000009",
            "q/messages/7/00000000000000070000000000000009",
            "a//b",
            "a/../b",
            "./a",
        ] {
            assert!(matches!(queue_name(name), Err(Refusal::Argument { .. })), "{name}");
        }
        assert!(queue_name(&"x".repeat(261)).is_err());
    }

    #[test]
    fn quota_16_names_of_subscriptions_and_rules_are_short() {
        for name in ["a", "A.b-c_9", "a~b", &"x".repeat(50)] {
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
