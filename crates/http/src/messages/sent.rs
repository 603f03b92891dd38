//! What a request to send holds: one message, whose body is the request's, or a batch in JSON.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use domain::{Properties, Value};
use serde::Deserialize;
use wire::{native, v1};

use super::broker_properties::GivenProperties;
use super::{BROKER_PROPERTIES, custom};
use crate::failure::Failure;

/// The type of a batch.
const BATCH: &str = "application/vnd.microsoft.servicebus.json";

/// One message of a batch.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InBatch {
    body: String,
    #[serde(default)]
    broker_properties: GivenProperties,
    #[serde(default)]
    user_properties: serde_json::Map<String, serde_json::Value>,
}

pub(super) fn messages(headers: &HeaderMap, body: Bytes) -> Result<Vec<v1::Message>, Failure> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_batch = content_type.is_some_and(|kind| {
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(BATCH)
    });
    match is_batch {
        true => batch(&body),
        false => single(headers, content_type, body).map(|message| vec![message]),
    }
}

fn single(
    headers: &HeaderMap,
    content_type: Option<&str>,
    body: Bytes,
) -> Result<v1::Message, Failure> {
    let given = match headers.get(BROKER_PROPERTIES) {
        None => GivenProperties::default(),
        Some(json) => GivenProperties::read(json.as_bytes())
            .map_err(|error| Failure::unread("BrokerProperties is not as it should be", &error))?,
    };
    let properties = native::properties_to_v1(&custom::read(headers));
    let message = given.message()?;
    let content_type = message.content_type.or_else(|| content_type.map(str::to_owned));
    Ok(v1::Message { body, content_type, properties, ..message })
}

fn batch(body: &[u8]) -> Result<Vec<v1::Message>, Failure> {
    let batch: Vec<InBatch> = serde_json::from_slice(body).map_err(|error| {
        let form = "the batch is not as it should be, [{\"Body\": \"…\", \"BrokerProperties\": {…}, \
                    \"UserProperties\": {…}}, …]";
        Failure::unread(form, &error)
    })?;
    let message = |one: InBatch| {
        let properties: Properties =
            one.user_properties.into_iter().map(|(name, json)| (name, value(json))).collect();
        let properties = native::properties_to_v1(&properties);
        Ok(v1::Message { body: one.body.into(), properties, ..one.broker_properties.message()? })
    };
    batch.into_iter().map(message).collect()
}

/// What JSON has no type for goes as its text.
fn value(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Bool(flag),
        serde_json::Value::Number(number) => custom::number(&number.to_string()),
        serde_json::Value::String(text) => Value::String(text),
        other => Value::String(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn msg_2_rest_1_to_rest_3_a_message_is_its_body_and_its_headers() {
        let headers = headers(&[
            ("content-type", "text/plain"),
            ("host", "localhost"),
            ("priority", "\"High\""),
            ("count", "7"),
            (
                "brokerproperties",
                r#"{"MessageId":"m","Label":"l","TimeToLive":1.5,"SessionId":"s","Unheard":1,"ScheduledEnqueueTimeUtc":"Thu, 01 Jan 1970 00:00:05 GMT"}"#,
            ),
        ]);
        let sent = messages(&headers, Bytes::from_static(b"body")).unwrap();
        let properties = [("count", Value::Int(7)), ("priority", Value::String("High".to_owned()))];
        let properties: Properties =
            properties.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let expected = v1::Message {
            body: Bytes::from_static(b"body"),
            message_id: Some("m".into()),
            subject: Some("l".into()),
            ttl_ms: Some(1500),
            session_id: Some("s".into()),
            scheduled_at_ms: Some(5000),
            content_type: Some("text/plain".into()),
            properties: native::properties_to_v1(&properties),
            ..Default::default()
        };
        assert_eq!(sent, [expected]);
    }

    #[test]
    fn send_3_rest_4_a_batch_is_json() {
        let headers =
            headers(&[("content-type", "application/vnd.microsoft.servicebus.json; x=y")]);
        let body = r#"[{"Body":"one","BrokerProperties":{"TimeToLiveTimeSpan":"0.00:00:40"}},
            {"Body":"two","UserProperties":{"Priority":"Low","n":5000000000,"f":1.5}}]"#;
        let sent = messages(&headers, Bytes::from_static(body.as_bytes())).unwrap();
        assert_eq!((sent[0].body.as_ref(), sent[0].ttl_ms), (b"one".as_slice(), Some(40_000)));
        let properties = native::properties_from_v1(&sent[1].properties).unwrap();
        assert_eq!(properties["Priority"], Value::String("Low".to_owned()));
        assert_eq!(properties["n"], Value::Long(5_000_000_000));
        assert_eq!(properties["f"], Value::Double(1.5));
    }

    /// TTL-5, SCHED-1: each row what a sender writes, and what is sent.
    #[test]
    fn ttl_5_the_end_of_time_is_a_time() {
        const END_MS: u64 = 253_402_300_799_000;
        for (properties, ttl_ms, scheduled_at_ms) in [
            (r#"{"TimeToLive":922337203685.4775807}"#, Some(u64::MAX), None),
            (r#"{"TimeToLive":1e300}"#, Some(u64::MAX), None),
            (r#"{"TimeToLiveTimeSpan":"10675199.02:48:05.4775807"}"#, Some(u64::MAX), None),
            (r#"{"TimeToLive":null,"ScheduledEnqueueTimeUtc":null}"#, None, None),
            (
                r#"{"ScheduledEnqueueTimeUtc":"9999-12-31T23:59:59.9999999Z"}"#,
                None,
                Some(END_MS + 999),
            ),
            (r#"{"ScheduledEnqueueTimeUtc":"Fri, 31 Dec 9999 23:59:59 GMT"}"#, None, Some(END_MS)),
            (r#"{"ScheduledEnqueueTimeUtc":"0001-01-01T00:00:00Z"}"#, None, Some(0)),
        ] {
            let sent = messages(&headers(&[("brokerproperties", properties)]), Bytes::new());
            let sent = sent.unwrap_or_else(|error| panic!("{properties}: {error:?}"));
            assert_eq!(
                (sent[0].ttl_ms, sent[0].scheduled_at_ms),
                (ttl_ms, scheduled_at_ms),
                "{properties}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let of = |properties| headers(&[("brokerproperties", properties)]);
        for properties in [
            "{",
            "[]",
            r#"{"MessageId":7}"#,
            r#"{"TimeToLive":-1}"#,
            r#"{"TimeToLive":"soon"}"#,
            r#"{"TimeToLive":"inf"}"#,
            r#"{"TimeToLive":"NaN"}"#,
            r#"{"TimeToLive":true}"#,
            r#"{"TimeToLive":[1]}"#,
            r#"{"TimeToLiveTimeSpan":"inf:00:00"}"#,
            r#"{"TimeToLiveTimeSpan":"-00:00:01"}"#,
            r#"{"ScheduledEnqueueTimeUtc":7}"#,
            r#"{"ScheduledEnqueueTimeUtc":true}"#,
            r#"{"ScheduledEnqueueTimeUtc":"10000-01-01T00:00:00Z"}"#,
            r#"{"ScheduledEnqueueTimeUtc":"soon"}"#,
        ] {
            let refused = messages(&of(properties), Bytes::new()).expect_err(properties);
            assert_eq!(refused.status(), 400, "{properties}");
        }
        let batch = headers(&[("content-type", BATCH)]);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for body in ["", "{}", r#"[{"body":"x"}]"#, &deep] {
            assert!(messages(&batch, Bytes::copy_from_slice(body.as_bytes())).is_err());
        }
    }
}
