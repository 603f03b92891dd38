//! Sessions of a queue or a subscription.

use maud::{Markup, html};
use wire::v1;

use crate::address::Place;
use crate::layout::{Answered, Page, known};
use crate::text;
use crate::visit::Visit;

const PAGE: u32 = 100;

pub(crate) async fn show(visit: &Visit) -> Answered {
    let place = crate::entity::place(visit)?;
    let asked = v1::ListSessionsRequest {
        queue: place.path(),
        updated_after_ms: None,
        page_size: PAGE,
        from: visit.fields.given("from").map(str::to_owned),
    };
    let found = visit.read(asked).await;
    let rights = visit.rights(&place.path()).await;
    let body = html! {
        (crate::entity::crumbs(&place))
        h1 { "Sessions " small { (place.path()) } }
        (crate::entity::tabs(&place, rights, "sessions", None))
        div #sessions data-refresh { (known(&found, |found| table(&place, found))) }
        @if let Ok(v1::ListSessionsResponse { next: Some(next), .. }) = &found {
            nav.pages aria-label="Pages" { a rel="next" href=(place.link("sessions", &[("from", next)])) { "Next page" } }
        }
    };
    Page::new(format!("Sessions of {}", place.path()), body).answer()
}

fn table(place: &Place, found: &v1::ListSessionsResponse) -> Markup {
    html! {
        @if found.sessions.is_empty() { p { "There are none with messages or a state." } } @else {
            div.wide tabindex="0" role="group" aria-label="Sessions" { table {
                caption { "Sessions with messages or a state" }
                thead { tr {
                    th scope="col" { "Session" } th.number scope="col" { "Active" } th.number scope="col" { "Deferred" }
                    th.number scope="col" { "State" } th scope="col" { "State set (UTC)" } th scope="col" { "Held until (UTC)" }
                } }
                tbody { @for session in &found.sessions { tr {
                    th scope="row" { a href=(place.link("messages", &[("session", &session.session_id)])) { (session.session_id) } }
                    td.number { (text::count(session.active_message_count)) }
                    td.number { (text::count(session.deferred_message_count)) }
                    td.number { (text::bytes(session.state_bytes.into())) }
                    td { (session.state_changed_at_ms.map_or_else(|| "never".to_owned(), text::instant)) }
                    td { (session.locked_until_ms.map_or_else(|| "nobody holds it".to_owned(), text::instant)) }
                } } }
            } }
        }
    }
}
