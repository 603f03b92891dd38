//! An expression of the rule language against messages that are in an entity now: which it matches, and
//! what it met where it does not.

use std::collections::BTreeMap;

use domain::{
    Filter, MessageState, Properties, Span, Subject, SystemProperty, SystemValue, Timestamp,
};
use maud::{Markup, html};
use wire::{native, v1};

use crate::address::{Part, Place};
use crate::browse;
use crate::failure::Failure;
use crate::layout::{Answered, Page, hidden, unknown};
use crate::message;
use crate::text;
use crate::visit::Visit;

/// A message as rules look at it.
struct Sample<'a> {
    found: &'a v1::ReceivedMessage,
    texts: BTreeMap<SystemProperty, &'a str>,
    properties: Properties,
}

impl<'a> Sample<'a> {
    fn of(found: &'a v1::ReceivedMessage) -> Option<Sample<'a>> {
        let content = found.message.as_ref()?;
        let texts = [
            (SystemProperty::MessageId, &content.message_id),
            (SystemProperty::SessionId, &content.session_id),
            (SystemProperty::ReplyToSessionId, &content.reply_to_session_id),
            (SystemProperty::PartitionKey, &content.partition_key),
            (SystemProperty::CorrelationId, &content.correlation_id),
            (SystemProperty::Subject, &content.subject),
            (SystemProperty::To, &content.to),
            (SystemProperty::ReplyTo, &content.reply_to),
            (SystemProperty::ContentType, &content.content_type),
        ];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)));
        let properties = native::properties_from_v1(&content.properties).ok()?;
        Some(Sample { found, texts: texts.collect(), properties })
    }
}

impl Subject for Sample<'_> {
    fn system(&self, property: SystemProperty) -> Option<SystemValue<'_>> {
        if let Some(text) = self.texts.get(&property) {
            return Some(SystemValue::Text(text));
        }
        let (found, content) = (self.found, self.found.message.as_ref());
        let number =
            |number: u64| Some(SystemValue::Number(i64::try_from(number).unwrap_or(i64::MAX)));
        let instant = |ms: u64| Some(SystemValue::Instant(Timestamp(ms)));
        match property {
            SystemProperty::TimeToLive => content?.ttl_ms.map(|ms| SystemValue::Duration(Span(ms))),
            SystemProperty::ScheduledEnqueueTimeUtc => instant(content?.scheduled_at_ms?),
            SystemProperty::SequenceNumber => number(found.sequence_number),
            SystemProperty::EnqueuedSequenceNumber => number(found.enqueued_sequence_number),
            SystemProperty::EnqueuedTimeUtc => instant(found.enqueued_at_ms),
            SystemProperty::ExpiresAtUtc => instant(found.expires_at_ms?),
            // Rules look at messages that nobody has received yet.
            SystemProperty::DeliveryCount => number(0),
            SystemProperty::State => number(MessageState::Active as u64),
            _ => None,
        }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }
}

pub(crate) async fn show(visit: &Visit) -> Answered {
    let place = Place::of(&visit.fields);
    let expression = visit.fields.text("expression").trim();
    let filter = match expression {
        "" => None,
        text => Some(Filter::sql(text, &Properties::new())),
    };
    let rights = match &place {
        Some(place) => visit.rights(&place.path()).await,
        None => Default::default(),
    };
    let body = html! {
        @if let Some(place) = &place { (crate::entity::crumbs(place)) }
        h1 { "Filter tester" @if let Some(place) = &place { " " small { (place.path()) } } }
        @if let Some(place) = &place { (crate::entity::tabs(place, rights, "filter-tester", None)) }
        (form(visit, place.as_ref(), expression))
        @match (&place, &filter) {
            (_, Some(Err(error))) => { p.wrong role="alert" { (error) } }
            (Some(place), Some(Ok(filter))) => { (results(visit, place, filter).await?) }
            _ => {}
        }
        p.hint {
            "Rules of a subscription are met by messages as they are published. Here the expression is put to \
             messages that are in the entity now, as they were sent."
        }
    };
    Page::new("Filter tester", body).answer()
}

fn form(visit: &Visit, place: Option<&Place>, expression: &str) -> Markup {
    html! {
        form method="get" action="/console/filter-tester" {
            @match place {
                Some(place) => { (hidden(&place.fields())) (hidden(&[("part", Part::of(&visit.fields).name())])) }
                None => { p { label for="queue" { "Queue with messages to try it on" } input #queue name="queue" required; } }
            }
            p { label for="expression" { "Expression, as in " code { "color = 'red' AND quantity > 5" } }
                textarea #expression name="expression" rows="3" required { (expression) } }
            p.bar { button.primary type="submit" { "Try it" } }
        }
    }
}

async fn results(visit: &Visit, place: &Place, filter: &Filter) -> Result<Markup, Failure> {
    let (part, from) = (Part::of(&visit.fields), visit.fields.number("from").unwrap_or(0));
    let found = browse::look(visit, place, part, from, |_| true).await;
    if let Some(failure) = found.failure.filter(|_| found.messages.is_empty()) {
        return match failure.status.is_server_error() {
            true => Ok(unknown(&failure.text)),
            false => Err(failure),
        };
    }
    let told = found.messages.iter().filter_map(|message| {
        let sample = Sample::of(message)?;
        let mut state = message.sequence_number;
        // newid() need only be new.
        let mut draw = move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state
        };
        let matches = filter.matches(&sample, &mut draw) == Ok(true);
        Some((message, matches, filter.explain(&sample, &mut draw), properties(message)))
    });
    let told: Vec<_> = told.collect();
    let matching = told.iter().filter(|(_, matches, ..)| *matches).count();
    Ok(html! {
        div role="status" { h2 { (matching) " of " (told.len()) " messages match" } }
        @if told.is_empty() { p { "There are no messages here to try it on." } } @else {
            div.wide tabindex="0" role="group" aria-label="Messages" { table {
                caption { "The first " (told.len()) " messages from number " (from) " on" }
                thead { tr { th scope="col" { "Number" } th scope="col" { "Verdict" } th scope="col" { "Why" } th scope="col" { "Its properties" } } }
                tbody { @for (message, matches, lines, properties) in &told { tr {
                    @let number = message.sequence_number.to_string();
                    th scope="row" { a href=(place.link("message", &[("part", part.name()), ("number", &number)])) { (number) } }
                    td { @if *matches { span.fine { "✓ matches" } } @else { span.bad { "✗ does not match" } } }
                    td { pre { (lines.join("\n")) } }
                    td { pre { (properties) } }
                } } }
            } }
        }
    })
}

/// What a filter could have looked at, for whoever wonders why it matched.
fn properties(found: &v1::ReceivedMessage) -> String {
    let content = message::content(found);
    let mut lines: Vec<String> = content
        .properties
        .iter()
        .map(|(name, value)| {
            let (kind, shown) = message::value_text(value);
            format!("{name} = {} ({kind})", text::head(&shown, 200))
        })
        .collect();
    lines.extend(
        content.subject.map(|subject| format!("sys.Subject = {}", text::head(&subject, 200))),
    );
    lines.join("\n")
}
