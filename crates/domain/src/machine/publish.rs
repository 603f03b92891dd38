//! Publishing: a message that a topic accepts, or whose time has come there, becomes a copy in every
//! subscription that takes it, all in one step (RULE-14). The body is stored once, with the topic,
//! under the topic's number for it; copies are small rows.

use bytes::Bytes;

use crate::machine::Step;
use crate::machine::deadlines::Deadline;
use crate::machine::entity::EntityStep;
use crate::machine::overlay::lay;
use crate::machine::rules::{Copy, Made};
use crate::{
    COPIES_MAX, ContentHeader, DeadlineKind, EntityId, Fired, Key, MessageRow, NewMessage, Outcome,
    Properties, Refusal, Row, Rows, Send, SequenceNumber, SessionId, Span, Subject, SystemProperty,
    SystemValue, Timestamp, Travel,
};

/// DLQ-7.
const HEADER_REASON: &str = "HeaderSizeExceeded";
const HEADER_DESCRIPTION: &str = "The size quota for this stream has been exceeded.";

/// SESS-3, FWD-10.
pub(super) const SESSION_REASON: &str = "Session ID is null.";
pub(super) const SESSION_DESCRIPTION: &str =
    "The entity requires sessions, and the message has no session id.";

/// A message on its way from a topic to its subscriptions.
struct Published {
    topic: EntityId,
    number: SequenceNumber,
    content: Bytes,
    size_bytes: u32,
    header_bytes: u32,
    ttl: Option<Span>,
    session: Option<SessionId>,
    travel: Option<Box<Travel>>,
}

impl Send {
    /// As to a queue: all of it or nothing (SEND-3). A duplicate goes nowhere (DUP-2, DUP-7).
    pub(super) fn publish<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        // What is stored counts against the topic (COUNT-3), that of this entry as well.
        step.charge_topics();
        let topic = step.open(self.entity)?;
        topic.check_send()?;
        self.check(&topic)?;
        step.check_copies(&self)?;
        step.open(self.entity)?.used();
        let mut sequences = Vec::with_capacity(self.messages.len());
        for message in self.messages {
            sequences.push(step.accept_at_topic(self.entity, message, None)?);
        }
        Ok(Outcome::Sent { sequences })
    }
}

impl<R: Rows> Step<'_, R> {
    /// RULE-9, and that one log entry stays bounded. The messages are looked at only where a bound
    /// from the number of rules does not do.
    fn check_copies(&mut self, send: &Send) -> Result<(), Refusal> {
        let topic = self.open(send.entity)?;
        let specifics = topic.topic_specifics()?;
        let bound = specifics.copies_max().saturating_mul(send.messages.len() as u64);
        if bound <= COPIES_MAX && !specifics.filter_before_publishing {
            return Ok(());
        }
        let name = topic.entity.row.name.clone();
        let mut copies = 0;
        for message in &send.messages {
            let mut topic = self.open(send.entity)?;
            if message.scheduled_at.is_some_and(|due| due > topic.at) || topic.is_repeat(message) {
                continue;
            }
            let number = topic.entity.state.next_sequence;
            let published = Published::new(send.entity, number, message);
            match self.copies(&published).len() as u64 {
                0 if specifics.filter_before_publishing => {
                    return Err(Refusal::NoMatchingSubscription { topic: name });
                }
                more => copies += more,
            }
        }
        if copies > COPIES_MAX {
            return Err(Refusal::ArgumentOutOfRange {
                what: "number of copies that one send makes",
                value: copies.to_string(),
                allowed: "at most 100000; send fewer messages at once",
            });
        }
        Ok(())
    }

    /// RULE-9, of one message by itself.
    pub(super) fn check_taken(
        &mut self,
        topic: EntityId,
        message: &NewMessage,
    ) -> Result<(), Refusal> {
        let mut opened = self.open(topic)?;
        let waits = message.scheduled_at.is_some_and(|due| due > opened.at);
        if !opened.topic_specifics()?.filter_before_publishing || waits || opened.is_repeat(message)
        {
            return Ok(());
        }
        let name = opened.entity.row.name.clone();
        let number = opened.entity.state.next_sequence;
        let published = Published::new(topic, number, message);
        match self.copies(&published).is_empty() {
            true => Err(Refusal::NoMatchingSubscription { topic: name }),
            false => Ok(()),
        }
    }

    /// One message that passed all checks; the number it has, or that of the message it repeats
    /// (DUP-2, DUP-9).
    pub(super) fn accept_at_topic(
        &mut self,
        topic: EntityId,
        mut message: NewMessage,
        travel: Option<Box<Travel>>,
    ) -> Result<SequenceNumber, Refusal> {
        let mut opened = self.open(topic)?;
        if let Some(first) = opened.repeats(&mut message) {
            return Ok(first);
        }
        let number = opened.next_sequence();
        opened.state().counts.accepted += 1;
        // SCHED-9: it waits at the topic. SCHED-8: not in the future, so it is a plain message.
        match message.scheduled_at.filter(|due| *due > opened.at) {
            Some(due) => opened.schedule(number, due, message, travel),
            None => {
                opened.state().counts.published += 1;
                let published = Published { travel, ..Published::new(topic, number, &message) };
                self.fan_out(published);
            }
        }
        Ok(number)
    }

    /// SCHED-5, SCHED-7, SCHED-9: published as if sent now, to the rules as they are now. The body
    /// moves to the number the topic gives it now.
    pub(super) fn fire_publications(
        &mut self,
        topic: EntityId,
        count_max: usize,
        fired: &mut Fired,
    ) {
        let Ok(mut opened) = self.open(topic) else { return };
        let (due, next) = opened.due(DeadlineKind::Scheduled, count_max);
        fired.more = next.is_some();
        let mut copies = 0;
        for Deadline { due, number: scheduled, .. } in due {
            if copies >= count_max {
                fired.more = true;
                return;
            }
            let Ok(mut opened) = self.open(topic) else { return };
            opened.remove_deadline(DeadlineKind::Scheduled, due, scheduled);
            let row = opened.view.scheduled(topic, scheduled);
            let row = row.expect("what has a time is scheduled");
            opened.unschedule(scheduled);
            let number = opened.next_sequence();
            let state = opened.state();
            state.counts.published += 1;
            state.size_bytes -= u64::from(row.size_bytes);
            fired.activated += 1;
            fired.note_late(due, opened.at);
            let body = Key::Body(topic, scheduled);
            let Some(Row::Body(content)) = self.view.get(&body) else {
                panic!("what is scheduled has a body")
            };
            self.view.delete(body);
            let (size_bytes, header_bytes, ttl) = (row.size_bytes, row.header_bytes, row.ttl);
            let (session, travel) = (row.session, row.travel);
            let published = Published {
                topic,
                number,
                content,
                size_bytes,
                header_bytes,
                ttl,
                session,
                travel,
            };
            copies += self.fan_out(published).max(1);
        }
        if let Ok(mut opened) = self.open(topic) {
            opened.end_schedule(fired);
        }
    }

    /// Stores a message for every subscription that takes it; how many do.
    fn fan_out(&mut self, published: Published) -> usize {
        let copies = self.copies(&published);
        let Published { topic, number, .. } = published;
        if copies.is_empty() {
            return 0; // RULE-9.
        }
        self.view.insert(Key::Body(topic, number), Row::Body(published.content.clone()));
        if copies.len() > 1 {
            let count = u32::try_from(copies.len()).unwrap_or(u32::MAX);
            self.view.insert(Key::BodyCopies(topic, number), Row::BodyCopies(count));
        }
        let count = copies.len();
        if let Some(since) = &mut self.since {
            since.note_copies(count);
        }
        for copy in copies {
            let subscription = self.open(copy.subscription);
            let mut subscription = subscription.expect("a topic's subscription is there");
            subscription.take_copy(&published, copy.made);
        }
        count
    }

    /// The copies its topic's rules demand now (RULE-13). The content is read if a rule asks.
    fn copies(&mut self, published: &Published) -> Vec<Copy> {
        let looks = self.topic_rules(published.topic).look_at_messages();
        let header = self.machine.read.filter(|_| looks).and_then(|read| read(&published.content));
        let default_ttl = self.open(published.topic).map(|topic| topic.properties().default_ttl);
        let message = Looked {
            published,
            at: self.at,
            default_ttl: default_ttl.unwrap_or(Span::MAX),
            header: header.unwrap_or_default(),
        };
        let nonces = &mut self.nonces;
        let Some(rules) = self.machine.topics.get(&published.topic) else { return Vec::new() };
        let mut copies = rules.copies(&message, &mut || nonces.draw());
        copies.retain(|copy| match copy.made {
            Made::Plain | Made::Changed(..) => true,
            Made::Failed(_) => self.keeps_failed(copy.subscription),
        });
        copies
    }

    /// RULE-20.
    fn keeps_failed(&mut self, subscription: EntityId) -> bool {
        let opened = self.open(subscription).ok();
        let specifics = opened.and_then(|opened| opened.subscription_specifics().ok());
        specifics.is_some_and(|specifics| specifics.dead_letter_on_filter_errors)
    }
}

/// A message as rules see it (RULE-30): what its sender set, and what its topic makes of it.
struct Looked<'a> {
    published: &'a Published,
    at: Timestamp,
    default_ttl: Span,
    header: ContentHeader,
}

impl Subject for Looked<'_> {
    fn system(&self, property: SystemProperty) -> Option<SystemValue<'_>> {
        let number = |number: u64| SystemValue::Number(i64::try_from(number).unwrap_or(i64::MAX));
        match property {
            SystemProperty::MessageId
            | SystemProperty::SessionId
            | SystemProperty::ReplyToSessionId
            | SystemProperty::PartitionKey
            | SystemProperty::TransactionPartitionKey
            | SystemProperty::CorrelationId
            | SystemProperty::Subject
            | SystemProperty::To
            | SystemProperty::ReplyTo
            | SystemProperty::ContentType => {
                self.header.texts.get(&property).map(|text| SystemValue::Text(text))
            }
            // TTL-3.
            SystemProperty::TimeToLive => {
                self.published.ttl.map(|ttl| SystemValue::Duration(ttl.min(self.default_ttl)))
            }
            SystemProperty::ExpiresAtUtc => {
                let ttl = self.published.ttl.unwrap_or(Span::MAX).min(self.default_ttl);
                Some(SystemValue::Instant(self.at.plus(ttl)))
            }
            SystemProperty::ScheduledEnqueueTimeUtc => {
                self.header.scheduled_at.map(SystemValue::Instant)
            }
            SystemProperty::SequenceNumber | SystemProperty::EnqueuedSequenceNumber => {
                Some(number(self.published.number.0))
            }
            SystemProperty::EnqueuedTimeUtc => Some(SystemValue::Instant(self.at)),
            SystemProperty::DeliveryCount | SystemProperty::State => Some(number(0)),
            SystemProperty::Size => Some(number(self.published.size_bytes.into())),
            SystemProperty::ForcePersistence | SystemProperty::DeadLetterSource => None,
        }
    }

    fn properties(&self) -> &Properties {
        &self.header.properties
    }
}

impl Published {
    fn new(topic: EntityId, number: SequenceNumber, message: &NewMessage) -> Published {
        let NewMessage { size_bytes, header_bytes, ttl, .. } = *message;
        let session = message.session_id.clone().map(SessionId::from);
        let content = message.content.clone();
        let travel = None;
        Published { topic, number, content, size_bytes, header_bytes, ttl, session, travel }
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// SEQ-9, SEQ-10, TTL-7: a copy under a number of the subscription's own. The deadline is that of
    /// its own default, which is no later than the topic's.
    fn take_copy(&mut self, published: &Published, made: Made) {
        let number = self.next_sequence();
        let requires_session = self.properties().requires_session;
        let mut session = published.session.as_ref();
        let mut ttl = published.ttl;
        let set;
        if let Made::Changed(_, change) = &made {
            ttl = change.ttl.unwrap_or(ttl);
            if let Some(changed) = change.texts.get(&SystemProperty::SessionId) {
                set = changed.clone().map(SessionId::from);
                session = set.as_ref();
            }
        }
        let mut message = MessageRow {
            body: published.number,
            size_bytes: published.size_bytes,
            header_bytes: published.header_bytes,
            deferred: false,
            delivery_count: 0,
            enqueued_at: self.at,
            lifetime: self.lifetime(ttl),
            session: session.filter(|_| requires_session).cloned(),
            overlay: None,
            // Topic to subscription is no hop (FWD-7).
            travel: published.travel.clone(),
        };
        let failed = match made {
            Made::Plain | Made::Changed(..) if requires_session && session.is_none() => {
                Some((SESSION_REASON, SESSION_DESCRIPTION.to_owned())) // SESS-3.
            }
            Made::Plain => None,
            Made::Changed(rule, change) => match lay(&mut message, &rule, *change) {
                true => None,
                false => Some((HEADER_REASON, HEADER_DESCRIPTION.to_owned())),
            },
            Made::Failed(error) => Some((error.name(), error.text)),
        };
        let state = self.state();
        state.counts.accepted += 1;
        state.size_bytes += u64::from(message.size_bytes);
        match failed {
            None => self.append(number, message),
            Some((reason, description)) => {
                message.session = None; // DLQ-11.
                self.explain(&mut message, reason, &description);
                self.enter_dead_letter(number, message);
            }
        }
    }

    /// Gives back a message's body: a copy's is the topic's while other copies share it.
    pub fn release_body(&mut self, body: SequenceNumber) {
        match self.topic() {
            None => self.view.delete(Key::Body(self.id, body)),
            Some(topic) => self.view.release_body(topic, body),
        }
    }
}
