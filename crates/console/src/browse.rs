//! Messages of a queue, by their numbers: a page at a time, or those that a search finds within a bounded
//! part of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use maud::{Markup, html};
use wire::v1;

use crate::address::{Part, Place};
use crate::failure::Failure;
use crate::layout::{Answered, Page, form, hidden, unknown};
use crate::message::{self, Body};
use crate::text;
use crate::visit::Visit;

const PAGE: usize = 50;
/// Most that the broker shows at once.
const PEEK_MAX: u32 = 250;
/// Messages a search looks at, and for how long, before it says how far it came.
const LOOKED_AT_MAX: usize = 10_000;
const LOOK_FOR: Duration = Duration::from_millis(1500);

/// What is looked for; empty fields ask for nothing.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    state: &'a str,
    id: &'a str,
    session: &'a str,
    property: &'a str,
    value: &'a str,
    reason: &'a str,
}

impl<'a> Search<'a> {
    fn of(visit: &'a Visit) -> Search<'a> {
        let text = |name| visit.fields.text(name).trim();
        Search {
            state: text("state"),
            id: text("id"),
            session: text("session"),
            property: text("property"),
            value: text("value"),
            reason: text("reason"),
        }
    }

    fn fields(&self) -> Vec<(&'static str, &'a str)> {
        let Search { state, id, session, property, value, reason } = *self;
        let all = [
            ("state", state),
            ("id", id),
            ("session", session),
            ("property", property),
            ("value", value),
            ("reason", reason),
        ];
        all.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }

    fn finds(&self, found: &v1::ReceivedMessage) -> bool {
        let content = found.message.as_ref();
        let is = |wanted: &str, given: Option<&String>| {
            wanted.is_empty() || given.is_some_and(|given| given == wanted)
        };
        let has_property = || match (self.property, message::property_text(found, self.property)) {
            ("", _) => true,
            (_, Some(value)) => self.value.is_empty() || value == self.value,
            (_, None) => false,
        };
        (self.state.is_empty() || message::state(found) == self.state)
            && is(self.id, content.and_then(|content| content.message_id.as_ref()))
            && is(self.session, content.and_then(|content| content.session_id.as_ref()))
            && has_property()
            && (self.reason.is_empty() || message::reason(found).as_deref() == Some(self.reason))
    }
}

/// What was found, and how far it was looked.
pub(crate) struct Found {
    pub messages: Vec<v1::ReceivedMessage>,
    pub looked_at: usize,
    /// Where to go on; absent: there is no more.
    pub next: Option<u64>,
    /// Why it was not looked further.
    pub failure: Option<Failure>,
}

/// Looks from a number on until a page is full, or for long enough.
pub(crate) async fn look(
    visit: &Visit,
    place: &Place,
    part: Part,
    from: u64,
    finds: impl Fn(&v1::ReceivedMessage) -> bool,
) -> Found {
    let begun = Instant::now();
    let mut found = Found { messages: Vec::new(), looked_at: 0, next: Some(from), failure: None };
    while let Some(from) = found.next
        && found.messages.len() < PAGE
        && found.looked_at < LOOKED_AT_MAX
        && begun.elapsed() < LOOK_FOR
    {
        let asked = v1::PeekRequest {
            queue: place.path(),
            sub_queue: part.native(),
            from_sequence_number: from,
            max_messages: PEEK_MAX,
            stale: false,
        };
        let seen = match visit.read(asked).await {
            Ok(seen) => seen.messages,
            Err(error) => {
                found.failure = Some(error.into());
                break;
            }
        };
        // The broker may show fewer than were asked for, as bytes are bounded too: only none is the end.
        found.next = None;
        for seen in seen {
            found.next = seen.sequence_number.checked_add(1);
            found.looked_at += 1;
            if finds(&seen) {
                found.messages.push(seen);
                if found.messages.len() == PAGE {
                    break;
                }
            }
        }
    }
    found
}

pub(crate) async fn show(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    if !place.has_messages() {
        return Err(Failure::bad("A topic keeps no messages: its subscriptions do."));
    }
    let part = Part::of(&visit.fields);
    let search = Search::of(visit);
    let from = visit.fields.number("from").unwrap_or(0);
    let found = look(visit, &place, part, from, |message| search.finds(message)).await;
    if let Some(failure) = &found.failure
        && found.messages.is_empty()
        && !failure.status.is_server_error()
    {
        return Err(failure.clone());
    }
    let rights = visit.rights(&place.path()).await;
    let title = format!("{} of {}", part.title(), place.path());
    let may_choose = part.is_dead_letter() && rights.listen;
    let table = table(&place, part, &found.messages, may_choose);
    let body = html! {
        (crate::entity::crumbs(&place))
        h1 { (part.title()) " " small { (place.path()) } }
        (crate::entity::tabs(&place, rights, "messages", Some(part)))
        (search_form(&place, part, search, from))
        @if let Some(failure) = &found.failure { (unknown(&failure.text)) }
        @if part.is_dead_letter() { (reasons(&place, part, &found.messages)) }
        @if found.messages.is_empty() && found.failure.is_none() { p { "There are none here." } }
        @if !found.messages.is_empty() {
            @if may_choose {
                (form(visit, "/console/chosen", html! {
                    (hidden(&place.fields()))
                    (hidden(&[("part", part.name())]))
                    (table)
                    p.bar {
                        @if visit.rights(place.target()).await.send {
                            button type="submit" name="what" value="resubmit" { "Resubmit chosen…" }
                        }
                        button.danger type="submit" name="what" value="delete" { "Delete chosen…" }
                    }
                }))
            } @else { (table) }
        }
        (further(&place, part, search, from, &found))
    };
    Page::new(title, body).answer()
}

fn search_form(place: &Place, part: Part, search: Search<'_>, from: u64) -> Markup {
    let field = |name: &str, label: &str, value: &str| {
        html! { span.field { label for=(name) { (label) } input id=(name) name=(name) value=(value); } }
    };
    let from = if from == 0 { String::new() } else { from.to_string() };
    html! {
        form.search method="get" action="/console/messages" role="search" aria-label="Messages" {
            (hidden(&place.fields()))
            (hidden(&[("part", part.name())]))
            (field("from", "From number", &from))
            @if part == Part::Main {
                span.field { label for="state" { "State" }
                    select #state name="state" { @for state in ["", "active", "deferred", "scheduled"] {
                        option value=(state) selected[state == search.state] {
                            @if state.is_empty() { "any" } @else { (state) }
                        }
                    } } }
            } @else { (field("reason", "Reason", search.reason)) }
            (field("id", "Message id", search.id))
            (field("session", "Session", search.session))
            (field("property", "Property", search.property))
            (field("value", "Its value", search.value))
            span.field { button type="submit" { "Search" } }
        }
    }
}

fn reasons(place: &Place, part: Part, messages: &[v1::ReceivedMessage]) -> Markup {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for found in messages {
        *counts.entry(message::reason(found).unwrap_or_default()).or_default() += 1;
    }
    html! { @if !counts.is_empty() {
        h2 { "Reasons on this page" }
        ul.inline { @for (reason, count) in &counts { li {
            @if reason.is_empty() { "no reason" } @else {
                a href=(place.link("messages", &[("part", part.name()), ("reason", reason)])) { (reason) }
            }
            ": " (text::count(*count))
        } } }
    } }
}

fn table(place: &Place, part: Part, messages: &[v1::ReceivedMessage], may_choose: bool) -> Markup {
    html! {
        div.wide tabindex="0" role="group" aria-label="Messages" { table {
            caption { (part.title()) ", in the order of their numbers" }
            thead { tr {
                @if may_choose { th scope="col" { "Choose" } }
                th scope="col" { "Number" } th scope="col" { "Message id" } th scope="col" { "State" }
                @if part.is_dead_letter() { th scope="col" { "Reason" } }
                th scope="col" { "Enqueued (UTC)" } th.number scope="col" { "Deliveries" }
                th scope="col" { "Subject" } th scope="col" { "Session" } th scope="col" { "Body" }
            } }
            tbody { @for found in messages { (row(place, part, found, may_choose)) } }
        } }
    }
}

fn row(place: &Place, part: Part, found: &v1::ReceivedMessage, may_choose: bool) -> Markup {
    let content = message::content(found);
    let number = found.sequence_number.to_string();
    let id = content.message_id.as_deref().unwrap_or_default();
    html! { tr {
        @if may_choose { td {
            input type="checkbox" name="number" value=(number) aria-label={ "Message " (number) };
        } }
        th scope="row" {
            a href=(place.link("message", &[("part", part.name()), ("number", &number)])) { (number) }
        }
        td.cut { (id) }
        td { (message::state(found)) }
        @if part.is_dead_letter() { td.cut { (message::reason(found).unwrap_or_default()) } }
        td { time { (text::instant(found.enqueued_at_ms)) } }
        td.number { (found.delivery_count) }
        td.cut { (content.subject.as_deref().unwrap_or_default()) }
        td.cut { (content.session_id.as_deref().unwrap_or_default()) }
        td.cut { (Body::of(&content).excerpt()) }
    } }
}

fn further(place: &Place, part: Part, search: Search<'_>, from: u64, found: &Found) -> Markup {
    let mut fields = search.fields();
    fields.push(("part", part.name()));
    let first = place.link("messages", &fields);
    let next = found.next.map(|next| next.to_string());
    let next = next.as_deref().map(|next| {
        fields.push(("from", next));
        place.link("messages", &fields)
    });
    html! {
        p.hint {
            "Looked at " (text::count(found.looked_at as u64)) " messages from number " (from) " on"
            @if found.next.is_none() { ", to the end" } "."
        }
        nav.pages aria-label="Pages" {
            @if from > 0 { a href=(first) { "From the beginning" } }
            @if let Some(next) = next { a rel="next" href=(next) { "Go on" } }
        }
    }
}
