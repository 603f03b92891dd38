//! Publishing: a message that a topic accepts, or whose time has come there, becomes a copy in every
//! subscription that takes it, all in one step (RULE-14). The body is stored once, with the topic,
//! under the topic's number for it; copies are small rows.

mod unmatched;

use bytes::Bytes;

pub(super) use self::unmatched::go_on;
use crate::filter::FoldedNames;
use crate::machine::Step;
use crate::machine::deadlines::Deadline;
use crate::machine::entity::EntityStep;
use crate::machine::overlay::lay;
use crate::machine::place::Move;
use crate::machine::rules::{Copy, Made};
use crate::{
    AcceptedMessage, COPIES_MAX, ContentHeader, DeadlineKind, Deed, EntityId, Fired, Key, LifeStep,
    MessageRow, NewMessage, NotedContent, Outcome, Properties, Refusal, Row, Rows, ScheduledRow,
    Send, SequenceNumber, SessionId, Span, Subject, SystemProperty, SystemValue, Timestamp, Travel,
    UnmatchedRow, Value,
};

/// DLQ-7.
const HEADER_REASON: &str = "HeaderSizeExceeded";
const HEADER_DESCRIPTION: &str = "The size quota for this stream has been exceeded.";

/// SESS-3, FWD-10.
pub(super) const SESSION_REASON: &str = "Session ID is null.";

/// A message on its way from a topic to its subscriptions.
struct Published {
    topic: EntityId,
    number: SequenceNumber,
    /// When the topic accepted it, or activated it (SEQ-10).
    at: Timestamp,
    content: Bytes,
    size_bytes: u32,
    header_bytes: u32,
    ttl: Option<Span>,
    session: Option<SessionId>,
    /// It waited at the topic for its time.
    was_scheduled: bool,
    travel: Option<Box<Travel>>,
}

impl Send {
    /// As to a queue: all of it or nothing (SEND-3). A duplicate goes nowhere (DUP-2, DUP-7).
    pub(super) fn publish<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        // What is stored counts against the topic (COUNT-3), that of this entry as well.
        step.charge_topics();
        let topic = step.open(self.entity)?;
        topic.row.check_send()?;
        self.check(topic.view.level, topic.row, topic.state)?;
        topic.check_backlog()?;
        self.check_copies(step)?;
        step.open(self.entity)?.used();
        let mut sequences = Vec::with_capacity(self.messages.len());
        for message in self.messages {
            sequences.push(accept(step, self.entity, message, None)?);
        }
        Ok(Outcome::Sent { sequences })
    }

    /// RULE-9, and that one log entry stays bounded. The messages are looked at only where a bound
    /// from the number of rules does not do.
    fn check_copies<R: Rows>(&self, step: &mut Step<'_, R>) -> Result<(), Refusal> {
        if step.is_paced(self.entity) {
            // What would be too much for one entry goes on in others (RULE-41).
            let mut messages = self.messages.iter();
            return messages.try_for_each(|message| check_taken(step, self.entity, message));
        }
        let topic = step.open(self.entity)?;
        let specifics = topic.topic_specifics()?;
        let bound = specifics.copies_max().saturating_mul(self.messages.len() as u64);
        if bound <= COPIES_MAX && !specifics.filter_before_publishing {
            return Ok(());
        }
        let name = topic.row.name.clone();
        let mut copies = 0;
        for message in &self.messages {
            let Some(published) = upcoming(&mut step.open(self.entity)?, message) else { continue };
            match published.copies(step).len() as u64 {
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
}

/// What a message would be published as, if it is neither scheduled nor a duplicate.
fn upcoming<R: Rows>(topic: &mut EntityStep<'_, R>, message: &NewMessage) -> Option<Published> {
    let waits = message.scheduled_at.is_some_and(|due| due > topic.at);
    if waits || topic.history().is_some_and(|mut history| history.is_repeat(message)) {
        return None;
    }
    Some(Published::new(topic.id, topic.state.next_sequence, topic.at, message))
}

/// RULE-9, of one message by itself.
pub(super) fn check_taken<R: Rows>(
    step: &mut Step<'_, R>,
    topic: EntityId,
    message: &NewMessage,
) -> Result<(), Refusal> {
    let mut opened = step.open(topic)?;
    if !opened.topic_specifics()?.filter_before_publishing {
        return Ok(());
    }
    let Some(published) = upcoming(&mut opened, message) else { return Ok(()) };
    let name = opened.row.name.clone();
    match published.is_taken(step) {
        Some(false) => Err(Refusal::NoMatchingSubscription { topic: name }),
        Some(true) | None => Ok(()),
    }
}

/// One message that passed all checks; the number it has, or that of the message it repeats
/// (DUP-2, DUP-9).
pub(super) fn accept<R: Rows>(
    step: &mut Step<'_, R>,
    topic: EntityId,
    mut message: NewMessage,
    travel: Option<Box<Travel>>,
) -> Result<SequenceNumber, Refusal> {
    let mut opened = step.open(topic)?;
    if let Some(first) = opened.repeats(&mut message) {
        opened.tally.count(Deed::Duplicate);
        return Ok(first);
    }
    let number = opened.next_sequence();
    opened.state.counts.accepted += 1;
    opened.tally.accepted(message.size_bytes);
    let hops = travel.as_ref().map_or(0, |travel| travel.hops);
    opened.note_accepted(opened.main(), number, &message, hops);
    // SCHED-9: it waits at the topic. SCHED-8: not in the future, so it is a plain message.
    match message.scheduled_at.filter(|due| *due > opened.at) {
        Some(due) => opened.schedule(number, due, message, travel),
        None => {
            opened.state.counts.published += 1;
            opened.tally.count(Deed::Published);
            let at = opened.at;
            let published = Published { travel, ..Published::new(topic, number, at, &message) };
            published.go_out(step);
        }
    }
    Ok(number)
}

/// SCHED-5, SCHED-7, SCHED-9: published as if sent now, to the rules as they are now.
pub(super) fn fire<R: Rows>(
    step: &mut Step<'_, R>,
    topic: EntityId,
    count_max: usize,
    fired: &mut Fired,
) {
    let Ok(mut opened) = step.open(topic) else { return };
    let (due, next) = opened.messages().deadlines().due(DeadlineKind::Scheduled, count_max);
    fired.more = next.is_some();
    let mut copies = 0;
    for deadline in due {
        if copies >= count_max {
            fired.more = true;
            return;
        }
        let Ok(mut opened) = step.open(topic) else { return };
        let published = activate(&mut opened, deadline);
        fired.activated += 1;
        fired.note_late(deadline.due, opened.at);
        copies += published.go_out(step).max(1);
    }
    if let Ok(mut opened) = step.open(topic) {
        opened.end_schedule(fired);
    }
}

/// Takes a message out of the topic's schedule. Its body moves to the number the topic gives it now.
fn activate<R: Rows>(topic: &mut EntityStep<'_, R>, deadline: Deadline) -> Published {
    let Deadline { due, number: scheduled, .. } = deadline;
    let mut messages = topic.messages();
    messages.deadlines().remove(DeadlineKind::Scheduled, due, scheduled);
    let row = messages.view.stored_scheduled(messages.id, scheduled);
    messages.leave_schedule(scheduled, &row, Move::Activate);
    messages.state.counts.published += 1;
    messages.tally.count(Deed::Published);
    messages.tally.count(Deed::Activated);
    messages.tally.late(messages.at.since(due));
    messages.state.size_bytes -= u64::from(row.size_bytes);
    let was_scheduled = messages.view.level.tells_schedules();
    let number = topic.next_sequence();
    let ttl = row.ttl.unwrap_or(Span::MAX).min(topic.properties().default_ttl);
    let expires_at = topic.at.plus(ttl);
    topic.view.note_event(topic.row, topic.main(), number, || LifeStep::Activated {
        scheduled_as: scheduled,
        due,
        expires_at,
    });
    let content = topic.view.take_body(topic.id, scheduled);
    let (at, topic) = (topic.at, topic.id);
    let ScheduledRow { size_bytes, header_bytes, ttl, session, travel, .. } = row;
    Published {
        topic,
        number,
        at,
        content,
        size_bytes,
        header_bytes,
        ttl,
        session,
        was_scheduled,
        travel,
    }
}

/// RULE-20.
fn keeps_failed<R: Rows>(step: &mut Step<'_, R>, subscription: EntityId) -> bool {
    let opened = step.open(subscription).ok();
    let specifics = opened.and_then(|opened| opened.subscription_specifics().ok());
    specifics.is_some_and(|specifics| specifics.dead_letter_on_filter_errors)
}

/// A message as rules see it (RULE-30): what its sender set, and what its topic makes of it.
struct Looked<'a> {
    published: &'a Published,
    default_ttl: Span,
    header: ContentHeader,
    names: FoldedNames,
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
                Some(SystemValue::Instant(self.published.at.plus(ttl)))
            }
            SystemProperty::ScheduledEnqueueTimeUtc => {
                self.header.scheduled_at.map(SystemValue::Instant)
            }
            SystemProperty::SequenceNumber | SystemProperty::EnqueuedSequenceNumber => {
                Some(number(self.published.number.0))
            }
            SystemProperty::EnqueuedTimeUtc => Some(SystemValue::Instant(self.published.at)),
            SystemProperty::DeliveryCount | SystemProperty::State => Some(number(0)),
            SystemProperty::Size => Some(number(self.published.size_bytes.into())),
            SystemProperty::ForcePersistence | SystemProperty::DeadLetterSource => None,
        }
    }

    fn properties(&self) -> &Properties {
        &self.header.properties
    }

    fn property(&self, name: &str) -> Option<&Value> {
        self.names.find(&self.header.properties, name)
    }
}

impl Published {
    fn new(
        topic: EntityId,
        number: SequenceNumber,
        at: Timestamp,
        message: &NewMessage,
    ) -> Published {
        let NewMessage { size_bytes, header_bytes, ttl, .. } = *message;
        let session = message.session_id.clone().map(SessionId::from);
        let content = message.content.clone();
        let (was_scheduled, travel) = (false, None);
        Published {
            topic,
            number,
            at,
            content,
            size_bytes,
            header_bytes,
            ttl,
            session,
            was_scheduled,
            travel,
        }
    }

    /// As it waited.
    fn waiting(
        topic: EntityId,
        number: SequenceNumber,
        content: Bytes,
        row: &UnmatchedRow,
    ) -> Published {
        let UnmatchedRow { size_bytes, header_bytes, ttl, was_scheduled, .. } = *row;
        Published {
            topic,
            number,
            at: row.accepted_at,
            content,
            size_bytes,
            header_bytes,
            ttl,
            session: row.session.clone(),
            was_scheduled,
            travel: row.travel.clone(),
        }
    }

    /// Stores the message for every subscription that takes it; how many do.
    fn fan_out<R: Rows>(self, step: &mut Step<'_, R>) -> usize {
        let copies = self.copies(step);
        let count = copies.len();
        self.store(step, count);
        self.copy_all(step, copies);
        count
    }

    /// The body, once, for so many who share it.
    fn store<R: Rows>(&self, step: &mut Step<'_, R>, shares: usize) {
        let Published { topic, number, .. } = *self;
        if shares == 0 {
            return; // RULE-9.
        }
        step.view.insert(Key::Body(topic, number), Row::Body(self.content.clone()));
        if shares > 1 {
            let count = u32::try_from(shares).unwrap_or(u32::MAX);
            step.view.insert(Key::BodyCopies(topic, number), Row::BodyCopies(count));
        }
    }

    fn copy_all<R: Rows>(&self, step: &mut Step<'_, R>, copies: Vec<Copy>) {
        if let Some(since) = &mut step.since {
            since.note_copies(copies.len());
        }
        let noted = step.view.content_to_note(&self.content);
        if let Some(noted) = &noted
            && let Ok(topic) = step.open(self.topic)
        {
            let copies = u32::try_from(copies.len()).unwrap_or(u32::MAX);
            let queue = topic.main();
            topic.view.follow_trace(queue, self.number, noted, self.at);
            let step = || LifeStep::Published { copies };
            topic.view.note_event(topic.row, queue, self.number, step);
        }
        for copy in copies {
            let subscription = step.open(copy.subscription);
            let mut subscription = subscription.expect("a topic's subscription is there");
            self.copy_to(&mut subscription, copy.made, noted.clone());
        }
    }

    /// As rules see it. The content is read if one asks.
    fn looked<R: Rows>(&self, step: &mut Step<'_, R>) -> Looked<'_> {
        let looks = step.rules().of(self.topic).look_at_messages();
        let header = step.machine.read.filter(|_| looks).and_then(|read| read(&self.content));
        let default_ttl = step.open(self.topic).map(|topic| topic.properties().default_ttl);
        let header = header.unwrap_or_default();
        Looked {
            published: self,
            default_ttl: default_ttl.unwrap_or(Span::MAX),
            names: FoldedNames::of(&header.properties),
            header,
        }
    }

    /// The copies its topic's rules demand now (RULE-13).
    fn copies<R: Rows>(&self, step: &mut Step<'_, R>) -> Vec<Copy> {
        let message = self.looked(step);
        let nonces = &mut step.nonces;
        let Some(rules) = step.machine.topics.get(&self.topic) else { return Vec::new() };
        let mut copies = rules.copies(&message, &mut || nonces.draw());
        copies.retain(|copy| match copy.made {
            Made::Plain | Made::Changed(..) => true,
            Made::Failed(_) => keeps_failed(step, copy.subscription),
        });
        copies
    }

    /// SEQ-9, SEQ-10, TTL-7: a copy under a number of the subscription's own. The deadline is that of
    /// its own default, which is no later than the topic's.
    fn copy_to<R: Rows>(
        &self,
        subscription: &mut EntityStep<'_, R>,
        made: Made,
        noted: Option<NotedContent>,
    ) {
        let number = subscription.next_sequence();
        let requires_session = subscription.properties().requires_session;
        let keeps_sessions = subscription.properties().keeps_sessions();
        let mut session = self.session.as_ref();
        let mut ttl = self.ttl;
        let set;
        if let Made::Changed(_, change) = &made {
            ttl = change.ttl.unwrap_or(ttl);
            if let Some(changed) = change.texts.get(&SystemProperty::SessionId) {
                set = changed.clone().map(SessionId::from);
                session = set.as_ref();
            }
        }
        let mut message = MessageRow {
            body: self.number,
            size_bytes: self.size_bytes,
            header_bytes: self.header_bytes,
            deferred: false,
            was_scheduled: self.was_scheduled,
            delivery_count: 0,
            enqueued_at: self.at,
            lifetime: subscription.row.lifetime(ttl, self.at),
            session: session.filter(|_| keeps_sessions).cloned(),
            overlay: None,
            // Topic to subscription is no hop (FWD-7).
            travel: self.travel.clone(),
        };
        let failed = match made {
            Made::Plain | Made::Changed(..) if requires_session && session.is_none() => {
                let description = subscription.view.level.session_description();
                Some((SESSION_REASON, description.to_owned())) // SESS-3.
            }
            Made::Plain => None,
            Made::Changed(rule, change) => match lay(&mut message, &rule, *change) {
                true => None,
                false => Some((HEADER_REASON, HEADER_DESCRIPTION.to_owned())),
            },
            Made::Failed(error) => Some((error.name(), error.text)),
        };
        subscription.state.counts.accepted += 1;
        subscription.tally.accepted(message.size_bytes);
        subscription.state.size_bytes += u64::from(message.size_bytes);
        let mut messages = subscription.messages();
        if let Some(NotedContent { texts, trace }) = noted {
            let accepted = AcceptedMessage {
                texts,
                trace,
                arrival: None,
                size_bytes: self.size_bytes,
                scheduled_for: None,
                expires_at: Some(messages.row.expires_at(&message)),
                published_as: Some(self.number),
                published_by: Some(self.topic),
                hops: message.travel.as_ref().map_or(0, |travel| travel.hops),
            };
            let queue = messages.main();
            let step = || LifeStep::Accepted(accepted.into());
            messages.view.note_event(messages.row, queue, number, step);
        }
        match failed {
            None => messages.append(number, message),
            Some((reason, description)) => {
                message.session = None; // DLQ-11.
                messages.tally.count(Deed::DeadLetteredByRule);
                messages.explain(&mut message, reason, &description);
                messages.enter_dead_letter(number, message);
            }
        }
    }
}
