//! What is laid over a message's content: properties to modify (LOCK-10) and why it was
//! dead-lettered (DLQ-8). The content itself is never rewritten.

use crate::{
    Change, DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON, HEADER_BYTES_MAX, MessageRow,
    Overlay, Properties, RULE_NAME, Refusal, Value, properties_bytes,
};

fn overlay_bytes(message: &MessageRow) -> usize {
    message.overlay.as_ref().map_or(0, |overlay| {
        let texts = overlay.texts.values().flatten().map(String::len);
        properties_bytes(&overlay.set) + texts.sum::<usize>()
    })
}

/// Changes a message's overlay and what the message counts for. A property that also stands in the
/// content counts twice: the content is opaque here, and the limit is not missed that way.
fn change(message: &mut MessageRow, change: impl FnOnce(&mut Overlay)) {
    let before = overlay_bytes(message);
    change(message.overlay.get_or_insert_default());
    let after = overlay_bytes(message);
    let resized = |bytes: u32| {
        u32::try_from((bytes as usize).saturating_sub(before) + after).unwrap_or(u32::MAX)
    };
    message.header_bytes = resized(message.header_bytes);
    message.size_bytes = resized(message.size_bytes);
}

fn set(overlay: &mut Overlay, name: String, value: Value) {
    overlay.removed.retain(|removed| *removed != name);
    overlay.set.insert(name, value);
}

fn remove(overlay: &mut Overlay, name: &str) {
    overlay.set.remove(name);
    if !overlay.removed.iter().any(|removed| removed == name) {
        overlay.removed.push(name.to_owned());
    }
}

/// RULE-6, RULE-17: what a rule's action makes of its copy. False where all properties together
/// would pass the limit (MSG-7): then nothing is laid over it.
pub(super) fn lay(message: &mut MessageRow, rule: &str, changed: Change) -> bool {
    let before = message.clone();
    change(message, |overlay| {
        *overlay = changed.overlay;
        overlay.texts = changed.texts;
        overlay.scheduled_at = changed.scheduled_at.flatten();
        set(overlay, RULE_NAME.to_owned(), Value::String(rule.to_owned()));
    });
    let fits = message.header_bytes as usize <= HEADER_BYTES_MAX;
    if !fits {
        *message = before;
    }
    fits
}

/// LOCK-10. Refused where all properties together would pass the limit (MSG-7).
pub(super) fn modify(message: &mut MessageRow, properties: Properties) -> Result<(), Refusal> {
    if properties.is_empty() {
        return Ok(());
    }
    change(message, |overlay| {
        properties.into_iter().for_each(|(name, value)| set(overlay, name, value));
    });
    if message.header_bytes as usize > HEADER_BYTES_MAX {
        return Err(Refusal::Serialization {
            what: "all properties of the message".to_owned(),
            bytes: u64::from(message.header_bytes),
            max: HEADER_BYTES_MAX as u64,
        });
    }
    Ok(())
}

/// DLQ-8, DLQ-9: overwrites what an earlier dead-lettering left, or removes it. A value among
/// `kept`, the properties given with this dead-lettering, stays where no other is given (DLQ-8).
/// Never fails: what does not fit under the header limit is cut (DLQ-15).
pub(super) fn explain(
    message: &mut MessageRow,
    reason: Option<&str>,
    description: Option<&str>,
    kept: [bool; 2],
) {
    change(message, |overlay| {
        for (name, value, kept) in [
            (DEAD_LETTER_REASON, reason, kept[0]),
            (DEAD_LETTER_ERROR_DESCRIPTION, description, kept[1]),
        ] {
            if value.is_some() || !kept {
                remove(overlay, name);
            }
        }
    });
    let mut room = HEADER_BYTES_MAX.saturating_sub(message.header_bytes as usize);
    change(message, |overlay| {
        for (name, value) in
            [(DEAD_LETTER_REASON, reason), (DEAD_LETTER_ERROR_DESCRIPTION, description)]
        {
            let Some(value) = value else { continue };
            if name.len() > room {
                continue;
            }
            let value = cut(value, room - name.len());
            room -= name.len() + value.len();
            set(overlay, name.to_owned(), Value::String(value.to_owned()));
        }
    });
}

/// The longest beginning of a text within so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lifetime, SequenceNumber, Timestamp};

    fn message(header_bytes: u32) -> MessageRow {
        MessageRow {
            body: SequenceNumber::FIRST,
            size_bytes: header_bytes + 100,
            header_bytes,
            deferred: false,
            was_scheduled: false,
            delivery_count: 0,
            enqueued_at: Timestamp::ZERO,
            lifetime: Lifetime::Derived,
            session: None,
            overlay: None,
            travel: None,
        }
    }

    fn text(message: &MessageRow, name: &str) -> Option<String> {
        match message.overlay.as_ref()?.set.get(name)? {
            Value::String(text) => Some(text.clone()),
            _ => None,
        }
    }

    #[test]
    fn lock_10_later_properties_overwrite_earlier_ones_and_count_once() {
        let mut message = message(10);
        let one = |value: &str| Properties::from([("k".into(), Value::String(value.into()))]);
        modify(&mut message, one("four")).unwrap();
        assert_eq!((message.header_bytes, message.size_bytes), (15, 115));
        modify(&mut message, one("ab")).unwrap();
        assert_eq!((message.header_bytes, message.size_bytes), (13, 113));
        let huge = one(&"x".repeat(HEADER_BYTES_MAX));
        assert!(matches!(modify(&mut message, huge), Err(Refusal::Serialization { .. })));
    }

    #[test]
    fn dlq_9_a_new_reason_overwrites_and_none_removes() {
        let mut message = message(10);
        explain(&mut message, Some("r"), Some("d"), [false; 2]);
        assert_eq!(text(&message, DEAD_LETTER_REASON).as_deref(), Some("r"));
        explain(&mut message, None, None, [false; 2]);
        let overlay = message.overlay.as_ref().unwrap();
        assert!(overlay.set.is_empty());
        assert_eq!(overlay.removed, [DEAD_LETTER_REASON, DEAD_LETTER_ERROR_DESCRIPTION]);
        assert_eq!((message.header_bytes, message.size_bytes), (10, 110));
    }

    #[test]
    fn dlq_15_the_description_is_cut_before_the_reason() {
        let names = DEAD_LETTER_REASON.len() + DEAD_LETTER_ERROR_DESCRIPTION.len();
        let room = 6 + names;
        let mut tight = message((HEADER_BYTES_MAX - room) as u32);
        explain(&mut tight, Some("four"), Some("éé"), [false; 2]);
        assert_eq!(text(&tight, DEAD_LETTER_REASON).as_deref(), Some("four"));
        assert_eq!(text(&tight, DEAD_LETTER_ERROR_DESCRIPTION).as_deref(), Some("é"));
        assert_eq!(tight.header_bytes as usize, HEADER_BYTES_MAX);

        let mut full = message(HEADER_BYTES_MAX as u32);
        explain(&mut full, Some("four"), None, [false; 2]);
        assert_eq!(text(&full, DEAD_LETTER_REASON), None);
    }
}
