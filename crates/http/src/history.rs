//! `/ENTITY/$history`: what became of messages that came to an entity (HIST-7).

use axum::Json;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use domain::Excerpt;
use serde_json::{Value, json};
use service::Broker;
use wire::history::{step_name, step_text};
use wire::v1::find_messages_request::By;
use wire::v1::message_event::Step;
use wire::v1::{FindMessagesRequest, FindMessagesResponse, MessageStep};

use crate::failure::Failure;
use crate::instant;

/// Answers what all nodes recorded of the messages that the query means.
pub(crate) async fn answer(
    broker: &Broker,
    method: &Method,
    entity: String,
    follow: bool,
    query: Option<&str>,
) -> Result<Response, Failure> {
    if *method != Method::GET {
        return Err(Failure::not_allowed(format!(
            "the history of messages does not take {method}; GET reads it"
        )));
    }
    let asked = FindMessagesRequest { follow, ..asked(entity, query)? };
    let found = broker.cluster().find_messages(asked).await?;
    Ok(Json(shown(&found)).into_response())
}

fn asked(entity: String, query: Option<&str>) -> Result<FindMessagesRequest, Failure> {
    let mut asked = FindMessagesRequest { entity, ..FindMessagesRequest::default() };
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let by = match name.to_ascii_lowercase().as_str() {
            "message-id" => By::MessageId(value.into_owned()),
            "session-id" => By::SessionId(value.into_owned()),
            "sequence-number" => By::SequenceNumber(number(&name, &value)?),
            "limit" => {
                asked.steps_max = number(&name, &value)?;
                continue;
            }
            // Others may say what they like (HTTP-6).
            _ => continue,
        };
        if asked.by.replace(by).is_some() {
            return Err(Failure::bad(
                "the query names more than one of message-id, sequence-number and session-id",
            ));
        }
    }
    match asked.by {
        None => Err(Failure::bad(
            "the query names no message: give message-id, sequence-number or session-id",
        )),
        Some(_) => Ok(asked),
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Failure> {
    value.trim().parse().map_err(|_| {
        Failure::bad(format!("{} is '{}', and takes a number", Excerpt(name), Excerpt(value)))
    })
}

fn shown(found: &FindMessagesResponse) -> Value {
    let FindMessagesResponse { steps, untold, more, gaps, since_ms } = found;
    let untold = untold.iter().map(|untold| json!({"node": untold.node, "why": untold.why}));
    let gaps = gaps.iter().map(|gap| {
        json!({"group": gap.group, "first_index": gap.first_index, "last_index": gap.last_index})
    });
    json!({
        "steps": steps.iter().map(step).collect::<Vec<_>>(),
        "more": more,
        "unknown": untold.collect::<Vec<_>>(),
        "gaps": gaps.collect::<Vec<_>>(),
        "since": since_ms.map(at),
    })
}

fn step(step: &MessageStep) -> Value {
    let event = step.event.clone().unwrap_or_default();
    let lock_token = match &event.step {
        Some(Step::Locked(locked)) => Some(&locked.lock_token).filter(|token| !token.is_empty()),
        _ => None,
    };
    json!({
        "at": at(event.at_ms),
        "at_ms": event.at_ms,
        "node": event.leader,
        "entity": event.entity,
        "sequence_number": event.sequence_number,
        "message_id": Some(&step.message_id).filter(|id| !id.is_empty()),
        "group": event.group,
        "log_index": event.index,
        "step": event.step.as_ref().map(step_name),
        "lock_token": lock_token,
        "connection": step.by.as_ref().map(|by| &by.connection),
        "key_name": step.by.as_ref().map(|by| &by.key_name).filter(|name| !name.is_empty()),
        "told": step_text(&event, at),
    })
}

fn at(ms: u64) -> String {
    instant::show_ms(i64::try_from(ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hist_7_a_query_means_one_message_or_session_or_is_refused() {
        let asked = |query: &str| asked("q".to_owned(), Some(query));
        for (query, by, limit) in [
            ("message-id=a%20b", By::MessageId("a b".to_owned()), 0),
            ("Sequence-Number=7&follow=true", By::SequenceNumber(7), 0),
            ("session-id=s&limit=5&other=x", By::SessionId("s".to_owned()), 5),
        ] {
            let found = asked(query).expect(query);
            assert_eq!((found.by.expect(query), found.steps_max), (by, limit), "{query}");
        }
        for query in [
            "",
            "message=a",
            "message-id=a&session-id=b",
            "sequence-number=x",
            "sequence-number=-1",
            "message-id=a&limit=many",
        ] {
            assert_eq!(asked(query).expect_err(query).status(), 400, "{query}");
        }
    }
}
