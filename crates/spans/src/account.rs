//! What is told of a step, as spans: names and attributes after the semantic conventions for messaging, as far as
//! these know what a broker does.

use domain::{
    LifeStep, Phase, PhaseState, QueueId, SequenceNumber, SpanId, SubQueue, Timestamp,
    TraceContext, TracedStep, namespace_of, split_subscription_path, told_name,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags, Status};
use otlp::{attribute, text};

use crate::queue::AppliedStep;
use crate::span_id::{Told, span_id};

const NANOSECONDS: u64 = 1_000_000;
/// The flag of Trace Context.
const SAMPLED: u32 = 1;
/// Most bytes of a dead letter's reason, and of its description.
const TEXT_BYTES_MAX: usize = 1024;

/// How a wait or a delivery ended.
const OUTCOME: &str = "mayfly.outcome";
/// Deadline to the entry that met it.
const LATENESS_MS: &str = "mayfly.lateness_ms";
const SEQUENCE_NUMBER: &str = "mayfly.sequence_number";
const DEAD_LETTER_REASON: &str = "mayfly.dead_letter.reason";
/// Nobody who knows of the message now was told when it began: the span has no length.
const START_UNKNOWN: &str = "mayfly.start_unknown";

/// All that a step tells.
pub fn spans(applied: &AppliedStep) -> Vec<Span> {
    Account { applied, step: &applied.step, spans: Vec::new() }.told()
}

struct Account<'a> {
    applied: &'a AppliedStep,
    step: &'a TracedStep,
    spans: Vec<Span>,
}

/// Of what a span tells: which it is, and under which it comes.
struct Place {
    id: SpanId,
    parent: SpanId,
}

impl Account<'_> {
    fn told(mut self) -> Vec<Span> {
        let TracedStep { at, event, before, .. } = self.step;
        let (at, number) = (*at, event.number);
        match &event.step {
            LifeStep::Accepted(accepted) => {
                let sent_by = self.context().parent;
                let parent = match (accepted.arrival, accepted.published_by) {
                    (_, Some(topic)) => {
                        let number = accepted.published_as.unwrap_or_default();
                        self.id(Told::Publish, QueueId::main(topic), number, 0)
                    }
                    (Some(arrival), None) => {
                        let shipment = SequenceNumber(arrival.serial);
                        self.id(Told::Forward, arrival.source, shipment, arrival.position.into())
                    }
                    (None, None) => sent_by,
                };
                let place = Place { id: self.stay(number), parent };
                let span = self.open("enqueue", place, at, self.durable_at(at));
                span.kind = SpanKind::Server.into();
                let size = i64::from(accepted.size_bytes);
                span.attributes.push(int("messaging.message.envelope.size", size));
                if let Some(due) = accepted.scheduled_for {
                    span.attributes.push(int("mayfly.scheduled_for_ms", due.0 as i64));
                }
                if parent == sent_by {
                    span.flags |= SpanFlags::ContextIsRemoteMask as u32;
                } else {
                    self.link_to_sender();
                }
            }
            LifeStep::Activated { scheduled_as, due, .. } => {
                let place = Place { id: self.stay(number), parent: self.stay(*scheduled_as) };
                self.since("schedule", place, before, at);
                self.late(*due);
            }
            LifeStep::Cancelled => {
                let place = self.under_stay(Told::Cancellation, 0);
                self.since("schedule", place, before, at);
                self.outcome("cancelled");
            }
            LifeStep::Published { copies } => {
                // Where matching goes on later, this is told of each share; copies come under the first.
                let share = match before {
                    Some(Phase { since: Some(_), .. }) => 0,
                    _ => at.0,
                };
                let place = self.under_stay(Told::Publish, share);
                let from = before.and_then(|phase| phase.since).unwrap_or(at);
                self.open("publish", place, from, self.durable_at(at));
                self.attribute(int("mayfly.copies", i64::from(*copies)));
            }
            LifeStep::Locked { nonce, .. } => {
                let place = self.under_stay(Told::Wait, *nonce);
                self.since("wait", place, before, at);
                self.outcome("locked");
            }
            LifeStep::LockRenewed { .. } => (),
            LifeStep::Completed { on_delivery } => {
                self.delivered(if *on_delivery { "completed on delivery" } else { "completed" });
                if !on_delivery {
                    self.settled("complete");
                }
            }
            LifeStep::Abandoned { .. } => {
                self.delivered("abandoned");
                self.settled("abandon");
            }
            LifeStep::Released => self.delivered("released"),
            LifeStep::LockLapsed { until, .. } => {
                self.delivered("lock lapsed");
                self.late(*until);
                self.fail("the lock lapsed: its receiver neither settled nor renewed in time");
            }
            LifeStep::Deferred => {
                self.delivered("deferred");
                self.settled("defer");
            }
            LifeStep::DeadLettered { reason, description, due } => {
                match before {
                    Some(Phase { state: PhaseState::Locked { .. }, .. }) => {
                        self.delivered("dead-lettered");
                        self.settled("dead_letter");
                    }
                    _ => self.waited("dead-lettered"),
                }
                if let Some(due) = due {
                    self.expired(*due);
                }
                let place = self.under_stay(Told::DeadLetter, 0);
                self.open("dead-letter", place, at, self.durable_at(at));
                self.attribute(text(DEAD_LETTER_REASON, cut(reason)));
                self.link_to_sender();
                self.fail(cut(if description.is_empty() { reason } else { description }));
            }
            LifeStep::Expired { due } => {
                self.waited("expired");
                self.expired(*due);
            }
            LifeStep::Deleted => self.ended("deleted"),
            LifeStep::EntityDeleted => self.ended("entity deleted"),
            LifeStep::Forwarded { serial, position } => {
                let (queue, shipment) = (self.step.queue, SequenceNumber(*serial));
                let id = self.id(Told::Forward, queue, shipment, u64::from(*position));
                let place = Place { id, parent: self.stay(number) };
                self.since("forward", place, before, at);
            }
        }
        self.spans
    }

    fn context(&self) -> &TraceContext {
        &self.step.message.context
    }

    fn id(&self, told: Told, queue: QueueId, number: SequenceNumber, more: u64) -> SpanId {
        span_id(self.context().trace, told, queue, number, more)
    }

    /// What everything comes under that a message is in its entity, under that number, in whichever subqueue.
    fn stay(&self, number: SequenceNumber) -> SpanId {
        self.id(Told::Stay, QueueId::main(self.step.queue.entity), number, 0)
    }

    fn under_stay(&self, told: Told, more: u64) -> Place {
        let (queue, number) = (self.step.queue, self.step.event.number);
        Place { id: self.id(told, queue, number, more), parent: self.stay(number) }
    }

    /// The instant at which a step of that time was durable here. The log's clock is its leader's, and may be ahead.
    fn durable_at(&self, at: Timestamp) -> Instant {
        Instant(self.applied.applied_at_ns.max(Instant::from(at).0))
    }

    /// A wait that ended otherwise than by a delivery. One of no length is told by what it ended with.
    fn waited(&mut self, outcome: &str) {
        let TracedStep { at, before, .. } = self.step;
        if before.and_then(|phase| phase.since).is_none_or(|since| since < *at) {
            // As no lock ended it, what it waited for is told by when it ended.
            let place = self.under_stay(Told::Wait, at.0);
            self.since("wait", place, before, *at);
            self.outcome(outcome);
        }
    }

    /// What ends with the message, whatever it was.
    fn ended(&mut self, outcome: &str) {
        match self.step.before {
            Some(Phase { state: PhaseState::Locked { .. }, .. }) => self.delivered(outcome),
            _ => self.waited(outcome),
        }
    }

    fn delivered(&mut self, outcome: &str) {
        let TracedStep { at, before, .. } = self.step;
        let (nonce, failed) = self.lock();
        let place = self.under_stay(Told::Delivery, nonce);
        self.since("deliver", place, before, *at);
        self.outcome(outcome);
        // LOCK-19: this delivery counts as one more.
        let count = i64::from(failed).saturating_add(1);
        self.attribute(int("azure.servicebus.message.delivery_count", count));
        self.link_to_sender();
    }

    /// Behind the delivery that it ended.
    fn settled(&mut self, disposition: &'static str) {
        let at = self.step.at;
        let (nonce, _) = self.lock();
        let parent = self.under_stay(Told::Delivery, nonce).id;
        let place = Place { parent, ..self.under_stay(Told::Settlement, nonce) };
        self.open("settle", place, at, self.durable_at(at));
        self.attribute(text("messaging.operation.type", "settle"));
        self.attribute(text("azure.servicebus.disposition_status", disposition));
    }

    /// From the deadline to what met it.
    fn expired(&mut self, due: Timestamp) {
        let place = self.under_stay(Told::Expiry, 0);
        self.open("expire", place, due, self.step.at);
        self.late(due);
    }

    fn lock(&self) -> (u64, u32) {
        match self.step.before {
            // A lock that nobody knows any more is told by its end.
            Some(Phase { state: PhaseState::Locked { nonce: 0, delivery_count }, .. }) => {
                (self.step.at.0, delivery_count)
            }
            Some(Phase { state: PhaseState::Locked { nonce, delivery_count }, .. }) => {
                (nonce, delivery_count)
            }
            _ => (self.step.at.0, 0),
        }
    }

    fn since(&mut self, name: &'static str, place: Place, before: &Option<Phase>, at: Timestamp) {
        let since = before.and_then(|phase| phase.since);
        self.open(name, place, since.unwrap_or(at), at);
        if since.is_none() {
            self.attribute(attribute(START_UNKNOWN, any_value::Value::BoolValue(true)));
        }
    }

    /// Begins to tell of something; the others say more of it.
    fn open(
        &mut self,
        name: &'static str,
        place: Place,
        start: impl Into<Instant>,
        end: impl Into<Instant>,
    ) -> &mut Span {
        let (start, end) = (start.into(), end.into());
        let destination = self.destination();
        let context = self.context();
        let span = Span {
            trace_id: context.trace.0.to_vec(),
            span_id: place.id.0.to_vec(),
            parent_span_id: place.parent.0.to_vec(),
            trace_state: context.state.as_deref().unwrap_or_default().to_owned(),
            flags: SAMPLED | SpanFlags::ContextHasIsRemoteMask as u32,
            name: format!("{name} {destination}"),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: start.0,
            end_time_unix_nano: end.0.max(start.0),
            attributes: self.common(name, &destination),
            ..Span::default()
        };
        let at = self.spans.len();
        self.spans.push(span);
        &mut self.spans[at]
    }

    /// The name of the entity, and of the subqueue as clients ask for it.
    fn destination(&self) -> String {
        let name = told_name(&self.step.event.entity);
        let queue = self.step.queue;
        match queue.sub {
            SubQueue::Main => name.to_string(),
            SubQueue::DeadLetter => format!("{name}/$DeadLetterQueue"),
            SubQueue::Transfer => format!("{name}/$Transfer"),
            SubQueue::TransferDeadLetter => format!("{name}/$Transfer/$DeadLetterQueue"),
        }
    }

    fn common(&self, name: &str, destination: &str) -> Vec<KeyValue> {
        let TracedStep { event, message, .. } = self.step;
        let mut attributes = vec![
            text("messaging.system", "servicebus"),
            text("messaging.operation.name", name),
            int(SEQUENCE_NUMBER, event.number.0 as i64),
        ];
        // Of one whose schedule is all that is known of it, nobody knows.
        if message.enqueued_at > Timestamp::ZERO {
            let seconds = (message.enqueued_at.0 / 1000) as i64;
            attributes.push(int("azure.servicebus.message.enqueued_time", seconds));
        }
        let entity = told_name(&event.entity);
        let namespace = namespace_of(&event.entity);
        if !namespace.is_default() {
            attributes.push(text("mayfly.namespace", namespace.as_str()));
        }
        match split_subscription_path(entity) {
            Some((topic, subscription)) => {
                let behind = &destination[entity.len()..];
                attributes.push(text("messaging.destination.name", topic));
                let subscription = format!("{subscription}{behind}");
                attributes.push(text("messaging.destination.subscription.name", &subscription));
            }
            None => attributes.push(text("messaging.destination.name", destination)),
        }
        if let Some(id) = &message.message_id {
            attributes.push(text("messaging.message.id", id));
        }
        attributes
    }

    fn link_to_sender(&mut self) {
        let context = &self.step.message.context;
        let link = Link {
            trace_id: context.trace.0.to_vec(),
            span_id: context.parent.0.to_vec(),
            trace_state: context.state.as_deref().unwrap_or_default().to_owned(),
            flags: SAMPLED
                | SpanFlags::ContextHasIsRemoteMask as u32
                | SpanFlags::ContextIsRemoteMask as u32,
            ..Link::default()
        };
        if let Some(span) = self.spans.last_mut() {
            span.links.push(link);
        }
    }

    fn outcome(&mut self, outcome: &str) {
        self.attribute(text(OUTCOME, outcome));
    }

    fn late(&mut self, due: Timestamp) {
        let late = self.step.at.since(due).0;
        self.attribute(int(LATENESS_MS, i64::try_from(late).unwrap_or(i64::MAX)));
    }

    fn fail(&mut self, why: &str) {
        if let Some(span) = self.spans.last_mut() {
            span.status = Some(Status { message: why.to_owned(), code: StatusCode::Error.into() });
        }
    }

    /// Of what was told last.
    fn attribute(&mut self, attribute: KeyValue) {
        if let Some(span) = self.spans.last_mut() {
            span.attributes.push(attribute);
        }
    }
}

/// Of a receiver's text, which may be long, its beginning.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// Nanoseconds since the Unix epoch.
#[derive(Clone, Copy)]
struct Instant(u64);

impl From<Timestamp> for Instant {
    fn from(at: Timestamp) -> Instant {
        Instant(at.0.saturating_mul(NANOSECONDS))
    }
}

fn int(key: &'static str, value: i64) -> KeyValue {
    attribute(key, any_value::Value::IntValue(value))
}

#[cfg(test)]
mod tests;
