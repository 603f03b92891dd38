//! What became of messages: as a search on an entity's page, and as part of a message's.

use grpc::{LocalError, LocalErrorKind};
use maud::{Markup, html};
use wire::history::{step_name, step_text};
use wire::v1::find_messages_request::By;
use wire::v1::{self, FindMessagesRequest, FindMessagesResponse};

use crate::address::Place;
use crate::layout::{Answered, Page, hidden, known};
use crate::text;
use crate::visit::Visit;

/// Nodes have so long: pages wait for two seconds.
const WITHIN_MS: u32 = 1_700;
/// Steps that a page shows, the latest ones.
const STEPS_MAX: u32 = 200;

/// The search, and what it finds.
pub(crate) async fn show(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let rights = visit.rights(&place.path()).await;
    let (by, id) = (visit.fields.text("by"), visit.fields.text("id").trim());
    let found = match wanted(by, id) {
        Some(wanted) => Some(find(visit, &place, wanted).await),
        None => None,
    };
    if let Some(Err(error)) = &found
        && matches!(error.kind, LocalErrorKind::Unproven | LocalErrorKind::Forbidden)
    {
        return Err(error.clone().into());
    }
    let title = format!("History of messages of {}", place.path());
    let body = html! {
        (crate::entity::crumbs(&place))
        h1 { "History " small { "of messages of " (place.path()) } }
        (crate::entity::tabs(&place, rights, "history", None))
        (search_form(&place, by, id))
        @match &found {
            None if !id.is_empty() => { p.wrong { "A sequence number has digits only." } }
            None => { p.hint { "Every step of a message's life, also of one that is gone, as long as the nodes keep it." } }
            Some(found) => (known(found, table)),
        }
    };
    Page::new(title, body).answer()
}

/// What nodes recorded of one message, or why that is not known.
pub(crate) async fn of_message(visit: &Visit, place: &Place, number: u64) -> Markup {
    let found = find(visit, place, By::SequenceNumber(number)).await;
    html! {
        section aria-labelledby="history" {
            h2 #history { "History" }
            (known(&found, table))
        }
    }
}

fn wanted(by: &str, id: &str) -> Option<By> {
    match by {
        _ if id.is_empty() => None,
        "number" => id.trim_start_matches('#').parse().ok().map(By::SequenceNumber),
        "session" => Some(By::SessionId(id.to_owned())),
        _ => Some(By::MessageId(id.to_owned())),
    }
}

/// Followed to other entities for whoever may listen to all of them.
async fn find(visit: &Visit, place: &Place, by: By) -> Result<FindMessagesResponse, LocalError> {
    let asked = FindMessagesRequest {
        entity: place.path(),
        by: Some(by),
        follow: visit.rights("").await.listen,
        steps_max: STEPS_MAX,
        within_ms: WITHIN_MS,
    };
    visit.read(asked).await
}

fn search_form(place: &Place, by: &str, id: &str) -> Markup {
    let kinds = [("id", "Message id"), ("number", "Sequence number"), ("session", "Session id")];
    html! {
        form.search method="get" action="/console/history" role="search" aria-label="History" {
            (hidden(&place.fields()))
            span.field { label for="by" { "By" }
                select #by name="by" { @for (name, label) in kinds {
                    option value=(name) selected[name == by] { (label) }
                } } }
            span.field { label for="id" { "It is" } input #id name="id" value=(id); }
            span.field { button type="submit" { "Search" } }
        }
    }
}

fn table(found: &FindMessagesResponse) -> Markup {
    let FindMessagesResponse { steps, untold, more, gaps, since_ms } = found;
    html! {
        @for untold in untold {
            p.unknown { strong { "Unknown: " } "what node " (untold.node) " has, " (untold.why) }
        }
        @for gap in gaps {
            p.unknown { strong { "Unknown: " } "what happened in entries " (gap.first_index) " to " (gap.last_index)
                " of group " (gap.group) ", which no node has any more" }
        }
        @if steps.is_empty() {
            p { "Nothing is recorded of it. "
                @match since_ms {
                    Some(ms) => { "The record goes back to " (text::instant(*ms)) " UTC." }
                    None => { "The record has all since the cluster began." }
                }
            }
        } @else {
            @if *more { p.hint { "There are more steps: earlier ones are left out." } }
            div.wide tabindex="0" role="group" aria-label="Steps" { table {
                caption { "Steps, in the order of their times" }
                thead { tr {
                    th scope="col" { "When (UTC)" } th scope="col" { "Node" } th scope="col" { "Where" }
                    th scope="col" { "Step" } th scope="col" { "By" } th scope="col" { "Message id" } th scope="col" { "What happened" }
                } }
                tbody { @for step in steps { (row(step)) } }
            } }
        }
    }
}

fn row(step: &v1::MessageStep) -> Markup {
    let event = step.event.clone().unwrap_or_default();
    let name = event.step.as_ref().map_or("unknown", step_name).replace('_', "-");
    let told = step_text(&event, text::instant);
    html! { tr {
        th scope="row" { time { (text::instant(event.at_ms)) } }
        td { (event.leader) }
        td { (event.entity) }
        td { (name) }
        td { @if let Some(by) = &step.by { (by.connection) @if !by.key_name.is_empty() { br; small { "key " (by.key_name) } } } }
        td.cut { (step.message_id) }
        td { (told.unwrap_or_else(|| "a step that this release does not know".to_owned())) }
    } }
}
