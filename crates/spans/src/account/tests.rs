//! Steps as a machine notes them, and the spans that are told of each.

use std::sync::Arc;

use domain::{
    AcceptedMessage, Arrival, EntityId, MessageEvent, MessageTexts, ReceiverId, TraceId,
    TracedMessage,
};

use super::*;

const SENDER: SpanId = SpanId([9; 8]);
const TRACE: TraceId = TraceId([7; 16]);
const ORDERS: QueueId = QueueId { entity: EntityId(3), sub: SubQueue::Main };

/// Of message 5 of a queue, at 2,000 ms; durable a millisecond later.
fn told(step: LifeStep, before: Option<Phase>) -> Vec<Span> {
    let context = TraceContext { trace: TRACE, parent: SENDER, state: Some("v=1".into()) };
    let message = TracedMessage {
        context: Arc::new(context),
        message_id: Some("m".into()),
        enqueued_at: Timestamp(1_000),
    };
    let number = SequenceNumber(5);
    let event = MessageEvent { entity: "orders".into(), sub: SubQueue::Main, number, step };
    let at = Timestamp(2_000);
    let step = TracedStep { at, queue: ORDERS, event, message: Arc::new(message), before };
    spans(&AppliedStep { step, applied_at_ns: 2_001 * NANOSECONDS })
}

fn phase(state: PhaseState, since: u64) -> Option<Phase> {
    Some(Phase { state, since: Some(Timestamp(since)) })
}

fn locked(since: u64) -> Option<Phase> {
    phase(PhaseState::Locked { nonce: 11, delivery_count: 1 }, since)
}

fn waiting(since: u64) -> Option<Phase> {
    phase(PhaseState::Waiting, since)
}

fn stay() -> SpanId {
    span_id(TRACE, Told::Stay, ORDERS, SequenceNumber(5), 0)
}

/// Name, milliseconds, and whether it comes under all that the message is in the queue.
fn shown(spans: &[Span]) -> Vec<(&str, u64, u64, bool)> {
    let shown = spans.iter().map(|span| {
        let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
        let is_under = span.parent_span_id == stay().0;
        (span.name.as_str(), start / NANOSECONDS, end / NANOSECONDS, is_under)
    });
    shown.collect()
}

fn value(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => text.clone(),
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::BoolValue(is) => is.to_string(),
        other => format!("{other:?}"),
    })
}

#[test]
fn every_step_is_told_in_its_time() {
    let dead =
        |due| LifeStep::DeadLettered { reason: "why".into(), description: "because".into(), due };
    let due = Timestamp(1_900);
    for (step, before, expected) in [
        (
            LifeStep::Locked {
                nonce: 11,
                until: Timestamp(9_000),
                delivery_count: 0,
                receiver: ReceiverId::default(),
            },
            waiting(1_000),
            vec![("wait orders", 1_000, 2_000, true)],
        ),
        (
            LifeStep::Completed { on_delivery: false },
            locked(1_500),
            vec![("deliver orders", 1_500, 2_000, true), ("settle orders", 2_000, 2_001, false)],
        ),
        (
            LifeStep::Completed { on_delivery: true },
            locked(2_000),
            vec![("deliver orders", 2_000, 2_000, true)],
        ),
        (
            LifeStep::LockLapsed { until: due, delivery_count: 2 },
            locked(1_500),
            vec![("deliver orders", 1_500, 2_000, true)],
        ),
        (LifeStep::Released, locked(1_500), vec![("deliver orders", 1_500, 2_000, true)]),
        (LifeStep::LockRenewed { until: due }, locked(1_500), vec![]),
        (
            LifeStep::Expired { due },
            waiting(1_000),
            vec![("wait orders", 1_000, 2_000, true), ("expire orders", 1_900, 2_000, true)],
        ),
        (
            dead(Some(due)),
            waiting(1_000),
            vec![
                ("wait orders", 1_000, 2_000, true),
                ("expire orders", 1_900, 2_000, true),
                ("dead-letter orders", 2_000, 2_001, true),
            ],
        ),
        (
            dead(None),
            locked(1_500),
            vec![
                ("deliver orders", 1_500, 2_000, true),
                ("settle orders", 2_000, 2_001, false),
                ("dead-letter orders", 2_000, 2_001, true),
            ],
        ),
        // It was given back at the same instant, which is told already.
        (dead(None), waiting(2_000), vec![("dead-letter orders", 2_000, 2_001, true)]),
        (
            LifeStep::Forwarded { serial: 1, position: 0 },
            waiting(1_000),
            vec![("forward orders", 1_000, 2_000, true)],
        ),
        (LifeStep::Deleted, waiting(1_000), vec![("wait orders", 1_000, 2_000, true)]),
        (LifeStep::EntityDeleted, locked(1_500), vec![("deliver orders", 1_500, 2_000, true)]),
        (LifeStep::Published { copies: 2 }, waiting(2_000), {
            vec![("publish orders", 2_000, 2_001, true)]
        }),
    ] {
        let spans = told(step.clone(), before);
        assert_eq!(shown(&spans), expected, "{step:?}");
        for span in &spans {
            assert_eq!((&*span.trace_id, &*span.trace_state), (&TRACE.0[..], "v=1"));
            assert_eq!(value(span, "messaging.system").as_deref(), Some("servicebus"));
            assert_eq!(value(span, "messaging.destination.name").as_deref(), Some("orders"));
            assert_eq!(value(span, "messaging.message.id").as_deref(), Some("m"));
        }
    }
}

/// What arrives comes under what its source tells of the same shipment, and a copy under what its topic tells of it.
#[test]
fn what_one_entity_tells_another_goes_on_with() {
    let accepted = |accepted: AcceptedMessage| {
        let texts = Arc::new(MessageTexts::default());
        let accepted = AcceptedMessage { texts, ..accepted };
        told(LifeStep::Accepted(Box::new(accepted)), None).remove(0)
    };
    let sent = accepted(AcceptedMessage::default());
    assert_eq!((&*sent.parent_span_id, sent.links.len()), (&SENDER.0[..], 0));
    assert_eq!((&*sent.span_id, sent.kind), (&stay().0[..], SpanKind::Server.into()));
    assert!(sent.flags & SpanFlags::ContextIsRemoteMask as u32 != 0, "its sender is elsewhere");

    let arrival = Arrival { source: ORDERS, serial: 4, position: 2 };
    let arrived = accepted(AcceptedMessage { arrival: Some(arrival), ..Default::default() });
    let forward = told(LifeStep::Forwarded { serial: 4, position: 2 }, waiting(1_000)).remove(0);
    assert_eq!(arrived.parent_span_id, forward.span_id);
    assert_eq!(arrived.links[0].span_id, SENDER.0);

    let copied = accepted(AcceptedMessage {
        published_as: Some(SequenceNumber(5)),
        published_by: Some(ORDERS.entity),
        ..Default::default()
    });
    let first = told(LifeStep::Published { copies: 1 }, waiting(2_000)).remove(0);
    assert_eq!(copied.parent_span_id, first.span_id);
    let unknown = Some(Phase { state: PhaseState::Waiting, since: None });
    let later = told(LifeStep::Published { copies: 1 }, unknown).remove(0);
    assert_ne!(later.span_id, first.span_id, "a later share is another span");

    let activated = LifeStep::Activated {
        scheduled_as: SequenceNumber(5),
        due: Timestamp(1_990),
        expires_at: Timestamp::NEVER,
    };
    let scheduled = told(activated, phase(PhaseState::Scheduled, 1_000)).remove(0);
    assert_eq!(scheduled.parent_span_id, stay().0);
    assert_eq!(value(&scheduled, LATENESS_MS).as_deref(), Some("10"));
}

#[test]
fn a_delivery_says_how_often_and_how_it_ended() {
    let lapsed = LifeStep::LockLapsed { until: Timestamp(1_950), delivery_count: 2 };
    let lapsed = told(lapsed, locked(1_500)).remove(0);
    let key = "azure.servicebus.message.delivery_count";
    assert_eq!(value(&lapsed, key).as_deref(), Some("2"), "one failed before it");
    assert_eq!(value(&lapsed, OUTCOME).as_deref(), Some("lock lapsed"));
    assert_eq!(value(&lapsed, LATENESS_MS).as_deref(), Some("50"));
    assert_eq!(lapsed.status.map(|status| status.code), Some(StatusCode::Error.into()));
    assert_eq!(lapsed.links[0].span_id, SENDER.0);

    let completed = LifeStep::Completed { on_delivery: false };
    let known = told(completed.clone(), locked(1_500));
    assert_eq!(known[1].parent_span_id, known[0].span_id);
    assert_eq!(value(&known[0], START_UNKNOWN), None);
    let locked = PhaseState::Locked { nonce: 0, delivery_count: 1 };
    let unknown = told(completed, Some(Phase { state: locked, since: None }));
    assert_eq!(shown(&unknown)[0], ("deliver orders", 2_000, 2_000, true));
    assert_eq!(value(&unknown[0], START_UNKNOWN).as_deref(), Some("true"));
}

#[test]
fn of_a_long_reason_the_beginning_is_told() {
    let reason = "é".repeat(2_000);
    let step = LifeStep::DeadLettered {
        reason: reason.as_str().into(),
        description: Box::default(),
        due: None,
    };
    let span = told(step, waiting(2_000)).remove(0);
    assert_eq!(value(&span, DEAD_LETTER_REASON), Some("é".repeat(512)));
    assert_eq!(span.status.map(|status| status.message), Some("é".repeat(512)));
}
