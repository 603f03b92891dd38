//! What an action makes of a copy, as a value: the caller applies it.

use std::collections::BTreeMap;

use super::convert::to_type_of;
use super::literal::{instant_ms, span_ticks};
use super::text::{TICKS_PER_MS, describe, to_text};
use crate::{
    Overlay, PROPERTY_BYTES_MAX, Properties, Span, Subject, SystemProperty, SystemValue, Timestamp,
    Value, find_property, validate,
};

/// What an action changes about one copy of a message (RULE-17). That all properties together stay
/// within their limit (MSG-7) is for whoever applies it to judge: it knows the message's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// User properties set and removed, under the names they have on the message (RULE-31).
    pub overlay: Overlay,
    /// System properties that are texts: set or, where `None`, taken off. Within QUOTA-17.
    pub texts: BTreeMap<SystemProperty, Option<String>>,
    /// The copy's own time-to-live, more than 0; `Some(None)`: it has none any more (TTL-2).
    pub ttl: Option<Option<Span>>,
    /// Has no effect on the copy itself (RULE-18), only where it is forwarded.
    pub scheduled_at: Option<Option<Timestamp>>,
}

/// The copy under way: a message, and what was done to it so far.
pub(super) struct Copied<'a> {
    original: &'a dyn Subject,
    properties: Properties,
    change: Change,
}

impl Subject for Copied<'_> {
    fn system(&self, property: SystemProperty) -> Option<SystemValue<'_>> {
        if let Some(text) = self.change.texts.get(&property) {
            return text.as_deref().map(SystemValue::Text);
        }
        match (property, self.change.ttl, self.change.scheduled_at) {
            (SystemProperty::TimeToLive, Some(ttl), _) => ttl.map(SystemValue::Duration),
            (SystemProperty::ScheduledEnqueueTimeUtc, _, Some(at)) => at.map(SystemValue::Instant),
            _ => self.original.system(property),
        }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }
}

impl<'a> Copied<'a> {
    pub fn new(original: &'a dyn Subject) -> Copied<'a> {
        Copied { original, properties: original.properties().clone(), change: Change::default() }
    }

    pub fn into_change(self) -> Change {
        self.change
    }

    /// RULE-19. QUOTA-19 holds for the result.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), String> {
        let (name, value) = match find_property(&self.properties, name) {
            Some((stored, existing)) => (stored.to_owned(), to_type_of(existing, value)),
            None => (name.to_owned(), value),
        };
        validate::property(&name, &value).map_err(|refusal| refusal.to_string())?;
        self.properties.insert(name.clone(), value.clone());
        self.change.overlay.removed.retain(|removed| *removed != name);
        self.change.overlay.set.insert(name, value);
        Ok(())
    }

    /// RULE-19: nothing there to remove is no error. Names that differ in case are one (RULE-31).
    pub fn remove(&mut self, name: &str) {
        while let Some((stored, _)) = find_property(&self.properties, name) {
            let stored = stored.to_owned();
            self.properties.remove(&stored);
            self.change.overlay.set.remove(&stored);
            if self.original.properties().contains_key(&stored) {
                self.change.overlay.removed.push(stored);
            }
        }
    }

    /// RULE-30: the parser has refused those that cannot be set. Null takes the property off. `reads_texts`: a
    /// text may be a span or an instant (RULE-19).
    pub fn set_system(
        &mut self,
        property: SystemProperty,
        value: &Value,
        reads_texts: bool,
    ) -> Result<(), String> {
        match property {
            SystemProperty::TimeToLive => self.change.ttl = Some(ttl(value, reads_texts)?),
            SystemProperty::ScheduledEnqueueTimeUtc => {
                self.change.scheduled_at = Some(instant(value, reads_texts)?);
            }
            text_property => {
                let text = text(text_property, value)?;
                self.change.texts.insert(text_property, text);
            }
        }
        Ok(())
    }
}

/// Whether an action may set a system property to a value.
pub(super) fn check_system(property: SystemProperty, value: &Value) -> Result<(), String> {
    match property {
        SystemProperty::TimeToLive => ttl(value, true).map(drop),
        SystemProperty::ScheduledEnqueueTimeUtc => instant(value, true).map(drop),
        text_property => text(text_property, value).map(drop),
    }
}

fn ttl(value: &Value, reads_texts: bool) -> Result<Option<Span>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if reads_texts && span_ticks(text).is_some_and(|ticks| ticks > 0) => {
            ttl(&Value::TimeSpan(span_ticks(text).unwrap_or_default()), reads_texts)
        }
        // As long as a time-span can be is never.
        Value::TimeSpan(i64::MAX) => Ok(Some(Span::MAX)),
        // What is no whole millisecond is rounded up: more than nothing stays so.
        Value::TimeSpan(ticks @ 1..) => {
            Ok(Some(Span(ticks.unsigned_abs().div_ceil(TICKS_PER_MS as u64))))
        }
        other => {
            let other = describe(other);
            let texts =
                if reads_texts { ", or one as text like '00:10:00' or 'PT10M'" } else { "" };
            Err(format!("sys.TimeToLive takes a TimeSpan of more than 0{texts}, not {other}"))
        }
    }
}

fn instant(value: &Value, reads_texts: bool) -> Result<Option<Timestamp>, String> {
    let ms = match value {
        Value::Null => return Ok(None),
        Value::DateTime(ms) => u64::try_from(*ms).ok(),
        Value::String(text) if reads_texts => {
            instant_ms(text).and_then(|ms| u64::try_from(ms).ok())
        }
        Value::DateTimeOffset(ticks) => {
            let ticks = i128::from(*ticks) - super::text::EPOCH_TICKS;
            u64::try_from(ticks.div_euclid(TICKS_PER_MS)).ok()
        }
        _ => None,
    };
    let refused = || {
        let value = describe(value);
        let texts = if reads_texts { ", or one as text like '2030-01-01T00:00:00Z'" } else { "" };
        format!("sys.ScheduledEnqueueTimeUtc takes a DateTime from 1970 on{texts}, not {value}")
    };
    ms.map(|ms| Some(Timestamp(ms))).ok_or_else(refused)
}

/// MSG-2, QUOTA-17.
fn text(property: SystemProperty, value: &Value) -> Result<Option<String>, String> {
    if *value == Value::Null && property != SystemProperty::MessageId {
        return Ok(None);
    }
    let Some(text) = to_text(value) else {
        return Err(format!("{property} takes a text, not {}", describe(value)));
    };
    if property == SystemProperty::MessageId && text.is_empty() {
        return Err(format!("{property} takes a text of 1 to 128 characters, not an empty one"));
    }
    if property.is_short() {
        validate::id(property.name(), Some(&text)).map_err(|refusal| refusal.to_string())?;
    }
    if text.len() > PROPERTY_BYTES_MAX {
        let bytes = text.len();
        return Err(format!("{property} takes {PROPERTY_BYTES_MAX} bytes at most, not {bytes}"));
    }
    Ok(Some(text))
}
