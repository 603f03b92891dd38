//! Sending a message: a new one, or a dead letter that was changed.

use axum::http::StatusCode;
use maud::{Markup, html};
use wire::v1;

use crate::address::{Part, Place};
use crate::dead_letters::{self, Outcome};
use crate::failure::Failure;
use crate::form::Fields;
use crate::layout::{Answer, Answered, Page, done, form, hidden};
use crate::message::{self, Body, OF_THE_BROKER};
use crate::text;
use crate::visit::Visit;

/// What is larger is not typed anew.
const EDITED_BYTES_MAX: usize = 256 * 1024;

/// Types that properties can be given by hand.
const TYPED: [&str; 5] = ["string", "int", "long", "double", "bool"];

pub(crate) async fn ask(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    page(visit, &place, &visit.fields, None).await.answer()
}

async fn page(visit: &Visit, place: &Place, typed: &Fields, failure: Option<&Failure>) -> Page {
    let rights = visit.rights(place.target()).await;
    let body = html! {
        (crate::entity::crumbs(place))
        h1 { "Send a message " small { "to " (place.target()) } }
        (crate::entity::tabs(place, rights, "send", None))
        @if let Some(failure) = failure { p.wrong role="alert" { (failure.text) } }
        (form(visit, "/console/send", html! {
            (hidden(&place.fields()))
            (fields(typed))
            p.bar { button.primary type="submit" { "Send" } }
        }))
    };
    let status = failure.map_or(StatusCode::OK, |failure| failure.status);
    Page { status, ..Page::new(format!("Send to {}", place.target()), body) }
}

fn fields(typed: &Fields) -> Markup {
    let field = |name: &str, label: &str, hint: &str| {
        html! { p { label for=(name) { (label) }
        input id=(name) name=(name) value=(typed.text(name)) placeholder=(hint) autocomplete="off"; } }
    };
    html! {
        p { label for="body" { "Body" } textarea #body name="body" rows="8" { (typed.text("body")) } }
        fieldset { legend { "Broker properties" } div.grid {
            (field("message_id", "Message id", "drawn"))
            (field("content_type", "Content type", "application/json"))
            (field("subject", "Subject", ""))
            (field("session_id", "Session id", ""))
            (field("correlation_id", "Correlation id", ""))
            (field("reply_to", "Reply to", ""))
            (field("to", "To", ""))
            (field("ttl", "Time to live", "as the entity has it"))
            (field("delay", "Deliver after", "at once"))
        } }
        p { label for="properties" { "User properties, one in a line, as in " code { "quantity: int = 5" } "; types: " (TYPED.join(", ")) }
            textarea #properties name="properties" rows="4" { (typed.text("properties")) } }
    }
}

/// What was typed, over what is carried along.
async fn typed(visit: &Visit, fields: &Fields, base: v1::Message) -> Result<v1::Message, Failure> {
    let text = |name: &str| fields.given(name).map(str::to_owned);
    let span =
        |name: &str| fields.given(name).map(text::parse_span).transpose().map_err(Failure::bad);
    let mut message = v1::Message {
        message_id: text("message_id"),
        content_type: text("content_type"),
        subject: text("subject"),
        session_id: text("session_id"),
        correlation_id: text("correlation_id"),
        reply_to: text("reply_to"),
        to: text("to"),
        ttl_ms: span("ttl")?,
        ..base
    };
    if let Some(delay_ms) = span("delay")? {
        let now = visit.read(v1::NowRequest {}).await?;
        message.scheduled_at_ms = Some(now.now_ms.saturating_add(delay_ms));
    }
    // Browsers end lines of a form as mail does.
    if fields.text("keep-body").is_empty() {
        message.body = fields.text("body").replace("\r\n", "\n").into();
        message.amqp_sections = false;
    }
    for line in fields.text("properties").lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) = property(line).map_err(Failure::bad)?;
        message.properties.insert(name, value);
    }
    Ok(message)
}

/// Of `name: type = value`.
fn property(line: &str) -> Result<(String, v1::Value), String> {
    use v1::value::Kind;
    let wrong = || {
        format!(
            "'{line}' is no property; write name: type = value, with a type of {}",
            TYPED.join(", ")
        )
    };
    let (head, value) = line.split_once('=').ok_or_else(wrong)?;
    let (name, kind) = head.rsplit_once(':').ok_or_else(wrong)?;
    let value = value.strip_prefix(' ').unwrap_or(value).trim_end_matches('\r');
    let kind = match kind.trim() {
        "string" => Some(Kind::StringValue(value.to_owned())),
        "int" => value.trim().parse().ok().map(Kind::IntValue),
        "long" => value.trim().parse().ok().map(Kind::LongValue),
        "double" => value.trim().parse().ok().map(Kind::DoubleValue),
        "bool" => value.trim().parse().ok().map(Kind::BoolValue),
        _ => None,
    };
    Ok((name.trim().to_owned(), v1::Value { kind: Some(kind.ok_or_else(wrong)?) }))
}

pub(crate) async fn send(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let sent = async {
        let message = typed(visit, &visit.fields, v1::Message::default()).await?;
        let queue = place.target().to_owned();
        visit.change(v1::SendRequest { queue, messages: vec![message], origin: None }).await?;
        Ok(())
    };
    match sent.await {
        Ok(()) => done(place.link("send", &[]), "sent"),
        Err(failure) => Ok(Answer::Page(page(visit, &place, &visit.fields, Some(&failure)).await)),
    }
}

/// Whether a property can be typed as a line that means the same.
fn is_typed(value: &v1::Value) -> bool {
    let (kind, shown) = message::value_text(value);
    TYPED.contains(&kind) && !shown.contains(['\n', '\r'])
}

pub(crate) async fn ask_edit(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let part = Part::of(&visit.fields);
    let found = crate::message_page::find(visit, &place, part).await?;
    let content = message::content(&found);
    let fields = as_typed(&found, &content);
    edit_page(visit, &place, part, found.sequence_number, &fields, None).answer()
}

/// The fields of a form that would send it as it is.
fn as_typed(found: &v1::ReceivedMessage, content: &v1::Message) -> Fields {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let own = content.properties.iter().filter(|(name, _)| !OF_THE_BROKER.contains(&name.as_str()));
    let lines = own
        .filter(|(name, value)| is_typed(value) && !name.contains([':', '=', '\n']))
        .map(|(name, value)| {
            let (kind, shown) = message::value_text(value);
            format!("{name}: {kind} = {shown}\n")
        });
    let lines: String = lines.collect();
    let fields = Fields::default()
        .with("message_id", text(&content.message_id))
        .with("content_type", text(&content.content_type))
        .with("subject", text(&content.subject))
        .with("session_id", text(&content.session_id))
        .with("correlation_id", text(&content.correlation_id))
        .with("reply_to", text(&content.reply_to))
        .with("to", text(&content.to))
        .with("ttl", found.sent_ttl_ms.map(text::span).unwrap_or_default())
        .with("properties", lines);
    let body = Body::of(content);
    // What is no plain text is carried along as it is.
    match body.text().filter(|_| body.kind.is_none() && body.bytes.len() <= EDITED_BYTES_MAX) {
        Some(body) => fields.with("body", body),
        None => fields.with("keep-body", "true"),
    }
}

fn edit_page(
    visit: &Visit,
    place: &Place,
    part: Part,
    number: u64,
    typed: &Fields,
    failure: Option<&Failure>,
) -> Page {
    let number = number.to_string();
    let keeps_body = !typed.text("keep-body").is_empty();
    let body = html! {
        (crate::entity::crumbs(place))
        h1 { "Edit and resubmit " small { "message " (number) " of " (place.path()) } }
        @if let Some(failure) = failure { p.wrong role="alert" { (failure.text) } }
        p { "A new message is sent to " strong { (place.target()) } ", and then the dead letter is completed. Should a node \
            end in between, both are there." }
        (form(visit, "/console/edit", html! {
            (hidden(&place.fields()))
            (hidden(&[("part", part.name()), ("number", &number)]))
            @if keeps_body { (hidden(&[("keep-body", "true")])) p.hint { "The body is no plain text, or large, and stays as it is." } }
            (fields(typed))
            p.hint { "Properties of other types stay as they are. A line that is taken out is a property that is not sent." }
            p.bar { button.primary type="submit" { "Resubmit" }
                a.button href=(place.link("message", &[("part", part.name()), ("number", &number)])) { "Do nothing" } }
        }))
    };
    let status = failure.map_or(StatusCode::OK, |failure| failure.status);
    Page { status, ..Page::new("Edit and resubmit", body) }
}

pub(crate) async fn edit(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let part = Part::of(&visit.fields);
    let number = visit.fields.number("number").unwrap_or_default();
    match resubmit_edited(visit, &place, part, number).await {
        Ok(outcome) => dead_letters::told(&place, part, "resubmit", &outcome).answer(),
        Err(failure) => {
            Ok(Answer::Page(edit_page(visit, &place, part, number, &visit.fields, Some(&failure))))
        }
    }
}

async fn resubmit_edited(
    visit: &Visit,
    place: &Place,
    part: Part,
    number: u64,
) -> Result<Outcome, Failure> {
    let found = crate::message_page::find(visit, place, part).await?;
    let mut base = dead_letters::copy(&found);
    base.properties.retain(|name, value| !is_typed(value) || name.contains([':', '=', '\n']));
    let message = typed(visit, &visit.fields, base).await?;
    dead_letters::resubmit(visit, place, part, vec![number], |_| message.clone()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_read_as_it_is_shown() {
        for line in [
            "a: string = x = y",
            "b: int = -5",
            "c:d: long = 7",
            "e: double = 1.5",
            "f: bool = true",
        ] {
            let (name, value) = property(line).expect(line);
            let (kind, shown) = message::value_text(&value);
            assert_eq!(format!("{name}: {kind} = {shown}"), line);
        }
        for wrong in ["a", "a = b", "a: int = x", "a: what = 1"] {
            assert!(property(wrong).is_err(), "{wrong}");
        }
    }
}
