//! A receiver's verdict (SETTLE-4 to SETTLE-13): what it asks of the broker, and what it is answered
//! once that is done.

use amqp_protocol::codec::{DeliveryState, Error, Map, Modified, Outcome, Tag};
use amqp_protocol::engine::DeliveryId;
use domain::{Disposition, LockToken, Properties, Settlement, properties_bytes};
use message_content::to_domain;

use super::backlog::Share;
use crate::condition;
use crate::management::from_tag;

/// A verdict on its way to the log.
#[derive(Debug)]
pub(super) struct Verdict {
    /// `None`: the client wants no answer.
    pub id: Option<DeliveryId>,
    pub settlement: Settlement,
    /// For when it is done (SETTLE-5).
    pub answer: DeliveryState,
    /// What it takes until then; `None`: next to nothing.
    pub share: Option<Share>,
}

impl Verdict {
    /// Bytes of what the client says along with it, a copy for each delivery.
    pub fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match &self.settlement.disposition {
            Disposition::Complete | Disposition::Release | Disposition::Withheld => 0,
            Disposition::Abandon { properties } | Disposition::Defer { properties } => {
                properties_bytes(properties)
            }
            Disposition::DeadLetter { reason, description, properties } => {
                text(reason) + text(description) + properties_bytes(properties)
            }
        }
    }
}

const REASON: &str = "DeadLetterReason";
const DESCRIPTION: &str = "DeadLetterErrorDescription";

/// # Errors
/// The answer to a state that is no verdict.
pub(super) fn verdict(
    id: Option<DeliveryId>,
    tag: &Tag,
    state: Option<DeliveryState>,
) -> Result<Verdict, DeliveryState> {
    let Some(token) = from_tag(tag) else {
        let why = "no lock has such a delivery-tag";
        return Err(DeliveryState::rejected(Error::new(condition::MESSAGE_LOCK_LOST, why)));
    };
    match state {
        Some(DeliveryState::Outcome(outcome)) => Ok(of_outcome(id, token, outcome)),
        None
        | Some(
            DeliveryState::Received(_)
            | DeliveryState::Declared(_)
            | DeliveryState::Transactional { .. },
        ) => {
            let why = "the state of the disposition is no outcome";
            Err(DeliveryState::rejected(Error::new(condition::INVALID_FIELD, why)))
        }
    }
}

fn of_outcome(id: Option<DeliveryId>, token: LockToken, outcome: Outcome) -> Verdict {
    let (disposition, answer) = match outcome {
        Outcome::Accepted => (Disposition::Complete, Outcome::Accepted),
        Outcome::Released => (Disposition::Release, Outcome::Released),
        Outcome::Rejected(error) => (dead_letter(error), Outcome::Rejected(None)),
        Outcome::Modified(modified) => {
            // SETTLE-7: whether delivery failed is not asked; this is.
            let is_deferred = modified.undeliverable_here == Some(true);
            let properties = modified.message_annotations.as_ref().map(properties);
            let properties = properties.unwrap_or_default();
            let disposition = match is_deferred {
                true => Disposition::Defer { properties },
                false => Disposition::Abandon { properties },
            };
            let answer =
                Modified { undeliverable_here: modified.undeliverable_here, ..Modified::default() };
            (disposition, Outcome::Modified(answer))
        }
    };
    let settlement = Settlement { token, disposition };
    Verdict { id, settlement, answer: DeliveryState::Outcome(answer), share: None }
}

/// The SDKs put reason and description into the error's info; a plain AMQP client has but the error.
fn dead_letter(error: Option<Error>) -> Disposition {
    let Some(Error { condition, description, info }) = error else {
        let properties = Properties::new();
        return Disposition::DeadLetter { reason: None, description: None, properties };
    };
    let mut info = info.as_ref().map(properties).unwrap_or_default();
    let (mut reason, mut told) = (take_text(&mut info, REASON), take_text(&mut info, DESCRIPTION));
    let says_why = reason.is_some() || info.contains_key(REASON);
    if *condition != *condition::DEAD_LETTER && !says_why {
        reason = Some(condition.to_string());
        told = told.or(description.map(String::from));
    }
    Disposition::DeadLetter { reason, description: told, properties: info }
}

/// A property that is a text, taken out of the others. One that is none stays a property (DLQ-8).
fn take_text(properties: &mut Properties, name: &str) -> Option<String> {
    let Some(domain::Value::String(text)) = properties.get(name) else { return None };
    let text = text.clone();
    properties.remove(name);
    Some(text)
}

fn properties(map: &Map) -> Properties {
    let named = map.0.iter().filter_map(|(key, value)| key.as_str().zip(Some(value)));
    named.map(|(name, value)| (name.to_owned(), to_domain(value))).collect()
}

/// The tag of a message that has no lock.
pub(super) fn unlocked_tag(sequence: u64) -> Tag {
    Tag::new(&sequence.to_be_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use amqp_protocol::codec::{Declared, Value};
    use bytes::Bytes;
    use domain::SequenceNumber;

    use super::*;
    use crate::management::tag;

    const TOKEN: LockToken = LockToken { sequence: SequenceNumber(7), nonce: 9 };

    fn check(outcome: Outcome) -> (Disposition, DeliveryState) {
        let state = Some(DeliveryState::Outcome(outcome));
        let verdict = verdict(None, &tag(TOKEN), state).unwrap();
        assert_eq!(verdict.settlement.token, TOKEN);
        (verdict.settlement.disposition, verdict.answer)
    }

    /// SETTLE-7: Python sets delivery-failed for both, JS for neither.
    #[test]
    fn settle_5_settle_7_undeliverable_here_tells_defer_from_abandon() {
        for delivery_failed in [None, Some(false), Some(true)] {
            for undeliverable_here in [None, Some(false), Some(true)] {
                let modified =
                    Modified { delivery_failed, undeliverable_here, message_annotations: None };
                let (disposition, answer) = check(Outcome::Modified(modified));
                let is_deferred = matches!(disposition, Disposition::Defer { .. });
                assert_eq!(is_deferred, undeliverable_here == Some(true));
                let expected = Modified { undeliverable_here, ..Modified::default() };
                assert_eq!(answer, DeliveryState::Outcome(Outcome::Modified(expected)));
            }
        }
    }

    /// SETTLE-5, SETTLE-8, DLQ-9: reason and description come out of the info, the rest is laid over
    /// the message.
    #[test]
    fn settle_5_settle_8_a_rejected_message_is_dead_lettered_and_answered_without_an_error() {
        let info = Map::default()
            .string(REASON, "why".into())
            .string(DESCRIPTION, "because".into())
            .string("attempt", Value::Int(3));
        let error = Error { info: Some(info), ..Error::new(condition::DEAD_LETTER, "text") };
        let (disposition, answer) = check(Outcome::Rejected(Some(error)));
        let expected = Disposition::DeadLetter {
            reason: Some("why".into()),
            description: Some("because".into()),
            properties: [("attempt".to_owned(), domain::Value::Int(3))].into(),
        };
        assert_eq!(disposition, expected);
        assert_eq!(answer, DeliveryState::Outcome(Outcome::Rejected(None)));
    }

    /// What is no text is no reason, and is laid over the message like any other property.
    #[test]
    fn dlq_8_a_reason_that_is_no_text_is_kept_as_it_is() {
        let now = Value::Timestamp(1_700_000_000_000);
        let others: &[(&str, Value, Option<&str>)] = &[
            (REASON, now.clone(), None),
            (REASON, Value::Int(42), None),
            (REASON, Value::Null, None),
            (DESCRIPTION, Value::Int(42), None),
            // A plain AMQP client's condition is no reason where there is another.
            (REASON, Value::Int(42), Some("amqp:not-allowed")),
        ];
        for (name, value, condition) in others {
            let info = Some(Map::default().string(name, value.clone()));
            let condition = condition.unwrap_or(condition::DEAD_LETTER);
            let (disposition, _) =
                check(Outcome::Rejected(Some(Error { info, ..Error::new(condition, "text") })));
            let properties = [((*name).to_owned(), to_domain(value))].into();
            let expected = Disposition::DeadLetter { reason: None, description: None, properties };
            assert_eq!(disposition, expected, "{name}: {value:?}");
        }
    }

    #[test]
    fn settle_12_what_is_no_outcome_is_refused() {
        let condition = |state| match verdict(None, &tag(TOKEN), state) {
            Err(DeliveryState::Outcome(Outcome::Rejected(Some(error)))) => error.condition,
            other => panic!("{other:?}"),
        };
        let declared = DeliveryState::Declared(Declared { txn_id: Bytes::new() });
        assert_eq!(*condition(Some(declared)), *condition::INVALID_FIELD);
        assert_eq!(*condition(None), *condition::INVALID_FIELD);
    }

    #[test]
    fn settle_9_a_modified_message_has_user_properties_changed() {
        let changes = Some(Map::default().symbol("attempt", Value::Int(3)));
        let modified = Modified { message_annotations: changes, ..Modified::default() };
        let (disposition, answer) = check(Outcome::Modified(modified));
        let properties = [("attempt".to_owned(), domain::Value::Int(3))].into();
        assert_eq!(disposition, Disposition::Abandon { properties });
        let expected = Outcome::Modified(Modified::default());
        assert_eq!(answer, DeliveryState::Outcome(expected));
    }
}
