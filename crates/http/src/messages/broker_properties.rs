//! `BrokerProperties`: a message's broker properties as JSON, in one header.

use axum::http::HeaderValue;
use domain::{Excerpt, Timestamp};
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use uuid::Uuid;
use wire::v1;

use crate::failure::Failure;

/// What a sender says (MSG-2); other names are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct GivenProperties {
    message_id: Option<String>,
    session_id: Option<String>,
    reply_to_session_id: Option<String>,
    partition_key: Option<String>,
    correlation_id: Option<String>,
    #[serde(alias = "Subject")]
    label: Option<String>,
    to: Option<String>,
    reply_to: Option<String>,
    content_type: Option<String>,
    /// Seconds.
    #[serde(alias = "TimeToLiveTimeSpan")]
    time_to_live: Option<TimeToLive>,
    scheduled_enqueue_time_utc: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "Json")]
enum TimeToLive {
    Seconds(f64),
    /// `d.hh:mm:ss.fff`, days and fraction left out at will.
    Span(String),
}

impl GivenProperties {
    /// From an object: alone, the type would take a list as well.
    pub fn read(json: &[u8]) -> serde_json::Result<GivenProperties> {
        let object: Map<String, Json> = serde_json::from_slice(json)?;
        serde_json::from_value(Json::Object(object))
    }

    /// A message without a body and user properties.
    pub fn message(self) -> Result<v1::Message, Failure> {
        let ttl_ms = self.time_to_live.map(TimeToLive::ms).transpose()?;
        let scheduled_at_ms = self.scheduled_enqueue_time_utc.as_deref().map(instant_ms);
        Ok(v1::Message {
            message_id: self.message_id,
            session_id: self.session_id,
            reply_to_session_id: self.reply_to_session_id,
            partition_key: self.partition_key,
            correlation_id: self.correlation_id,
            subject: self.label,
            to: self.to,
            reply_to: self.reply_to,
            content_type: self.content_type,
            ttl_ms,
            scheduled_at_ms: scheduled_at_ms.transpose()?,
            ..Default::default()
        })
    }
}

impl TryFrom<Json> for TimeToLive {
    type Error = String;

    fn try_from(given: Json) -> Result<TimeToLive, String> {
        match given {
            Json::String(text) => Ok(TimeToLive::Span(text)),
            Json::Number(seconds) => Ok(TimeToLive::Seconds(seconds.as_f64().unwrap_or(f64::NAN))),
            other => Err(no_ttl(&other.to_string())),
        }
    }
}

fn no_ttl(given: &str) -> String {
    let given = Excerpt(given);
    format!("TimeToLive: '{given}' is neither a number of seconds nor like 00:01:30")
}

impl TimeToLive {
    fn ms(self) -> Result<u64, Failure> {
        let wrong = |given: &str| Failure::bad(no_ttl(given));
        match self {
            TimeToLive::Seconds(seconds) => ms(seconds).ok_or_else(|| wrong(&seconds.to_string())),
            TimeToLive::Span(text) => {
                let seconds = text.parse().ok().and_then(ms);
                seconds.or_else(|| span_ms(&text)).ok_or_else(|| wrong(&text))
            }
        }
    }
}

/// Seconds in milliseconds. One too large is the longest; `None` for what is no span.
fn ms(seconds: f64) -> Option<u64> {
    /// .NET's `TimeSpan.MaxValue`, rounded: "never" (TTL-5).
    const NEVER_SECONDS: f64 = 922_337_203_685.0;
    match seconds {
        seconds if !seconds.is_finite() || seconds < 0.0 => None,
        seconds if seconds >= NEVER_SECONDS => Some(u64::MAX),
        0.0 => Some(0),
        // More than nothing stays so (ATOM-8).
        seconds => Some(((seconds * 1000.0).round() as u64).max(1)),
    }
}

fn span_ms(text: &str) -> Option<u64> {
    let (days, time) = match text.split_once('.') {
        Some((days, time)) if time.contains(':') => (days.parse::<u64>().ok()?, time),
        _ => (0, text),
    };
    let mut parts = time.split(':');
    // A sign, an exponent or a word is none of these.
    let is_part = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let mut next = || parts.next().filter(is_part)?.parse::<f64>().ok();
    let (hours, minutes, seconds) = (next()?, next()?, next()?);
    if parts.next().is_some() {
        return None;
    }
    ms(((days as f64 * 24.0 + hours) * 60.0 + minutes) * 60.0 + seconds)
}

/// As mail and HTTP write it, or ISO 8601.
fn instant_ms(text: &str) -> Result<u64, Failure> {
    let mailed = DateTimeParser::new().parse_timestamp(text).map(|at| at.as_millisecond());
    let iso = || crate::instant::parse_ms(text);
    let ms = mailed.ok().or_else(iso).or_else(|| last_day_ms(text)).ok_or_else(|| {
        Failure::bad(format!(
            "ScheduledEnqueueTimeUtc: '{}' is no instant such as Sun, 06 Nov 1994 08:49:37 GMT",
            Excerpt(text)
        ))
    })?;
    // Before 1970 is as good as now.
    Ok(u64::try_from(ms).unwrap_or(0))
}

/// The end of the year 9999 in UTC, as .NET's `DateTime.MaxValue` has it: the library's instants end a
/// day before, so that they are in that year at any place.
fn last_day_ms(text: &str) -> Option<i64> {
    let mailed = jiff::civil::DateTime::strptime("%a, %d %b %Y %H:%M:%S GMT", text.trim());
    let at = mailed.ok().filter(|at| at.year() == 9999)?;
    let since = at.duration_since(jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0));
    i64::try_from(since.as_millis()).ok()
}

/// As mail and HTTP write it.
pub(super) fn instant(at: Timestamp) -> String {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    let at = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap_or_default()
}

/// What a receiver is told (MSG-2, MSG-3); what is absent is left out.
#[derive(Debug, Default)]
pub(super) struct Told(Map<String, Json>);

impl Told {
    pub fn of(received: &v1::ReceivedMessage) -> Told {
        let mut told = Told::default();
        let message = received.message.as_ref();
        let mut text = |name: &str, text: fn(&v1::Message) -> &Option<String>| {
            told.put(name, message.and_then(|message| text(message).clone()));
        };
        text("MessageId", |message| &message.message_id);
        text("SessionId", |message| &message.session_id);
        text("ReplyToSessionId", |message| &message.reply_to_session_id);
        text("PartitionKey", |message| &message.partition_key);
        text("CorrelationId", |message| &message.correlation_id);
        text("Label", |message| &message.subject);
        text("To", |message| &message.to);
        text("ReplyTo", |message| &message.reply_to);
        let at = |ms| instant(Timestamp(ms));
        let ttl_ms = message.and_then(|message| message.ttl_ms);
        told.put("TimeToLive", ttl_ms.map(|ms| ms as f64 / 1000.0));
        told.put("SequenceNumber", Some(received.sequence_number));
        told.put("EnqueuedSequenceNumber", Some(received.enqueued_sequence_number));
        told.put("EnqueuedTimeUtc", Some(at(received.enqueued_at_ms)));
        told.put("ExpiresAtUtc", received.expires_at_ms.map(at));
        told.put("DeliveryCount", Some(received.delivery_count));
        told.put("State", Some(state(received.state())));
        told.put("DeadLetterSource", received.dead_letter_source.clone());
        let token = received.lock_token.as_ref().and_then(|token| Uuid::from_slice(token).ok());
        told.put("LockToken", token.map(|token| token.to_string()));
        told.put("LockedUntilUtc", received.locked_until_ms.map(at));
        told
    }

    /// Of a lock that was renewed.
    pub fn renewed(until: Option<Timestamp>) -> Told {
        let mut told = Told::default();
        told.put("LockedUntilUtc", until.map(instant));
        told
    }

    fn put(&mut self, name: &str, value: Option<impl Into<Json>>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
    }

    pub fn header(self) -> Result<HeaderValue, Failure> {
        let json = Json::Object(self.0).to_string();
        HeaderValue::from_str(&ascii(&json)).map_err(|error| Failure::internal(&error))
    }
}

fn state(state: v1::MessageState) -> &'static str {
    match state {
        v1::MessageState::Active => "Active",
        v1::MessageState::Deferred => "Deferred",
        v1::MessageState::Scheduled => "Scheduled",
    }
}

/// JSON whose other characters are escaped, as a header may hold no others.
pub(super) fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            ' '..='~' => out.push(c),
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    out += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_27_a_time_to_live_is_seconds_or_a_span() {
        for (json, ms) in [
            ("1.5", Some(1500)),
            ("\"90\"", Some(90_000)),
            ("\"00:00:40\"", Some(40_000)),
            ("\"1.02:03:04.5\"", Some(93_784_500)),
            ("0.0001", Some(1)),
            ("\"00:00:00.0001\"", Some(1)),
            ("0", Some(0)),
            ("922337203684.5", Some(922_337_203_684_500)),
            ("922337203685.47754", Some(u64::MAX)),
            ("1e300", Some(u64::MAX)),
            ("-1", None),
            ("\"00:40\"", None),
            ("\"1:2:3:4\"", None),
            ("\"x\"", None),
        ] {
            let given: TimeToLive = serde_json::from_str(json).expect(json);
            assert_eq!(given.ms().ok(), ms, "{json}");
        }
    }

    #[test]
    fn msg_3_a_header_is_json_in_ascii() {
        let message = v1::Message {
            message_id: Some("m\r\nx: y".into()),
            subject: Some("ü\u{1f41d}\u{7f}".into()),
            ttl_ms: Some(1500),
            ..Default::default()
        };
        let received = v1::ReceivedMessage {
            message: Some(message),
            sequence_number: 7,
            locked_until_ms: Some(784_111_777_000),
            ..Default::default()
        };
        let header = Told::of(&received).header().unwrap();
        let text = header.to_str().unwrap();
        for part in [
            r#""Label":"\u00fc\ud83d\udc1d\u007f""#,
            r#""MessageId":"m\r\nx: y""#,
            r#""SequenceNumber":7"#,
            r#""TimeToLive":1.5"#,
            r#""LockedUntilUtc":"Sun, 06 Nov 1994 08:49:37 GMT""#,
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("LockToken"), "{text}");
        assert_eq!(instant_ms("Sun, 06 Nov 1994 08:49:37 GMT").unwrap(), 784_111_777_000);
        assert_eq!(instant_ms("1994-11-06T08:49:37Z").unwrap(), 784_111_777_000);
        assert_eq!(instant_ms("9999-12-31T23:59:59.9999999Z").unwrap(), 253_402_300_799_999);
        assert_eq!(instant_ms("0001-01-01T00:00:00").unwrap(), 0);
    }
}
