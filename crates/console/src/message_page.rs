//! One message: properties with their types, and its body in each form that it has.

use maud::{Markup, html};
use wire::v1;

use crate::address::{Part, Place};
use crate::failure::Failure;
use crate::history;
use crate::layout::{Answered, Page, form, hidden};
use crate::message::{self, Body};
use crate::text;
use crate::visit::Visit;

const TEXT_BYTES_MAX: usize = 64 * 1024;
const HEX_BYTES_MAX: usize = 4 * 1024;

/// The message that an address names.
///
/// # Errors
/// It is not there, or not any more.
pub(crate) async fn find(
    visit: &Visit,
    place: &Place,
    part: Part,
) -> Result<v1::ReceivedMessage, Failure> {
    let number = visit.fields.number("number");
    let number =
        number.ok_or_else(|| Failure::bad("The address names no message: number is missing."))?;
    let asked = v1::PeekRequest {
        queue: place.path(),
        sub_queue: part.native(),
        from_sequence_number: number,
        max_messages: 1,
        stale: false,
    };
    let found = visit.read(asked).await?.messages.into_iter().next();
    found.filter(|found| found.sequence_number == number).ok_or_else(|| {
        let title = part.title().to_lowercase();
        Failure::not_found(format!(
            "There is no message {number} among the {title} of {}, or it is gone by now.",
            place.path()
        ))
    })
}

pub(crate) async fn show(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let part = Part::of(&visit.fields);
    let found = find(visit, &place, part).await?;
    let content = message::content(&found);
    let number = found.sequence_number.to_string();
    let rights = visit.rights(&place.path()).await;
    let may_resubmit =
        part.is_dead_letter() && rights.listen && visit.rights(place.target()).await.send;
    let history = history::of_message(visit, &place, found.sequence_number).await;
    let body = html! {
        (crate::entity::crumbs(&place))
        h1 { "Message " (number) " " small { (part.title()) " of " (place.path()) } }
        (crate::entity::tabs(&place, rights, "messages", Some(part)))
        @if part.is_dead_letter() && rights.listen {
            (form(visit, "/console/chosen", html! {
                (hidden(&place.fields()))
                (hidden(&[("part", part.name()), ("number", &number)]))
                p.bar {
                    @if may_resubmit {
                        button type="submit" name="what" value="resubmit" { "Resubmit…" }
                        a.button href=(place.link("edit", &[("part", part.name()), ("number", &number)])) { "Edit and resubmit" }
                    }
                    button.danger type="submit" name="what" value="delete" { "Delete…" }
                }
            }))
        }
        div.columns {
            div { (broker_properties(&found, &content)) }
            div { (user_properties(&content)) }
        }
        (shown_body(&content))
        (history)
    };
    Page::new(format!("Message {number} of {}", place.path()), body).answer()
}

fn broker_properties(found: &v1::ReceivedMessage, content: &v1::Message) -> Markup {
    let text = |value: &Option<String>| value.clone();
    let at = |ms: Option<u64>| ms.map(text::instant);
    let ttl = content.ttl_ms.map(text::span);
    let rows: [(&str, Option<String>); 18] = [
        ("Message id", text(&content.message_id)),
        ("Sequence number", Some(found.sequence_number.to_string())),
        ("Enqueued sequence number", Some(found.enqueued_sequence_number.to_string())),
        ("State", Some(message::state(found).to_owned())),
        ("Enqueued (UTC)", at(Some(found.enqueued_at_ms))),
        ("Delivery count", Some(found.delivery_count.to_string())),
        ("Time to live", ttl),
        ("Expires (UTC)", at(found.expires_at_ms)),
        ("Scheduled for (UTC)", at(content.scheduled_at_ms)),
        ("Session id", text(&content.session_id)),
        ("Reply-to session id", text(&content.reply_to_session_id)),
        ("Partition key", text(&content.partition_key)),
        ("Correlation id", text(&content.correlation_id)),
        ("Subject", text(&content.subject)),
        ("To", text(&content.to)),
        ("Reply to", text(&content.reply_to)),
        ("Content type", text(&content.content_type)),
        ("Dead-letter source", text(&found.dead_letter_source)),
    ];
    html! {
        table.facts {
            caption { "Broker properties" }
            tbody { @for (name, value) in rows { @if let Some(value) = value { tr {
                th scope="row" { (name) } td { (value) }
            } } } }
        }
    }
}

fn user_properties(content: &v1::Message) -> Markup {
    html! {
        @if content.properties.is_empty() { h2 { "User properties" } p { "It has none." } } @else {
            table.facts {
                caption { "User properties" }
                thead { tr { th scope="col" { "Name" } th scope="col" { "Type" } th scope="col" { "Value" } } }
                tbody { @for (name, value) in &content.properties {
                    @let (kind, shown) = message::value_text(value);
                    tr { th scope="row" { (name) } td { (kind) } td { (shown) } }
                } }
            }
        }
    }
}

fn shown_body(content: &v1::Message) -> Markup {
    let body = Body::of(content);
    let length = body.bytes.len();
    let json = body.text().filter(|text| text.len() <= TEXT_BYTES_MAX).and_then(text::json);
    let has_json = json.is_some();
    html! {
        section aria-labelledby="body" {
            h2 #body { "Body" }
            p.hint {
                (text::bytes(length as u64)) @if let Some(kind) = body.kind { ", " (kind) }
                @if let Some(kind) = &content.content_type { ", said to be " (kind) } "."
            }
            @if length > 0 {
                @if let Some(json) = json {
                    details open { summary { "JSON" } pre tabindex="0" { (json) } }
                }
                @if let Some(text) = body.text() {
                    details open[!has_json] { summary { "Text" } pre tabindex="0" { (text::head(text, TEXT_BYTES_MAX)) }
                        @if length > TEXT_BYTES_MAX { p.hint { "Its first 64 KiB." } } }
                }
                details open[body.text().is_none()] { summary { "Hex" }
                    pre tabindex="0" { (text::hex(&body.bytes[..length.min(HEX_BYTES_MAX)])) }
                    @if length > HEX_BYTES_MAX { p.hint { "Its first 4 KiB." } } }
            }
        }
    }
}
