//! The connections of clients to all nodes, and the end of one.

use maud::{Markup, html};
use wire::v1;

use crate::address::link;
use crate::failure::Failure;
use crate::layout::{Answered, Page, done, form, hidden, known};
use crate::text;
use crate::visit::Visit;

/// Links that a row names; the rest are counted.
const LINKS_SHOWN_MAX: usize = 5;

pub(crate) async fn show(visit: &Visit) -> Answered {
    let after = visit.fields.text("after").to_owned();
    let found = visit.read(v1::ListConnectionsRequest { node: 0, after }).await;
    let body = html! {
        h1 { "Connections" }
        div #connections data-refresh { (known(&found, table)) }
        @if let Ok(v1::ListConnectionsResponse { connections, more: true, .. }) = &found
            && let Some(last) = connections.last()
        {
            nav.pages aria-label="Pages" { a rel="next" href=(link("connections", [("after", last.id.as_str())])) { "Next page" } }
        }
    };
    Page::new("Connections", body).answer()
}

fn table(found: &v1::ListConnectionsResponse) -> Markup {
    html! {
        @for untold in &found.untold {
            p.unknown { strong { "Unknown: " } "the connections to node " (untold.node) ", " (untold.why) }
        }
        @if found.connections.is_empty() { p { "There are none." } } @else {
            div.wide tabindex="0" role="group" aria-label="Connections" { table {
                caption { "Clients that are connected, node by node" }
                thead { tr {
                    th scope="col" { "Connection" } th scope="col" { "Protocol" } th scope="col" { "From" }
                    th scope="col" { "Since (UTC)" } th scope="col" { "Key" } th scope="col" { "Client" }
                    th scope="col" { "Links" } th.number scope="col" { "Received" } th.number scope="col" { "Sent" }
                    th scope="col" { "Do" }
                } }
                tbody { @for connection in &found.connections { tr {
                    th scope="row" { (connection.id) }
                    td { (protocol(connection)) }
                    td { (connection.peer) }
                    td { (text::instant(connection.opened_at_ms)) }
                    td { (connection.key_name) }
                    td { (connection.client_product) @if !connection.client_name.is_empty() { br; small { (connection.client_name) } } }
                    td { (links(connection)) }
                    td.number { (text::bytes(connection.received_bytes)) }
                    td.number { (text::bytes(connection.sent_bytes)) }
                    td { a href=(link("connections/close", [("id", connection.id.as_str())])) { "Close" } }
                } } }
            } }
        }
    }
}

fn protocol(connection: &v1::Connection) -> String {
    let inside = if connection.web_socket { " in a WebSocket" } else { "" };
    let encrypted = if connection.tls { " over TLS" } else { "" };
    let name = match connection.protocol.as_str() {
        "amqp" => "AMQP",
        "http" => "HTTP",
        "grpc" => "gRPC",
        other => other,
    };
    format!("{name}{inside}{encrypted}")
}

fn links(connection: &v1::Connection) -> Markup {
    let of_entities = connection.links.iter().filter(|link| link.role() != v1::LinkRole::Asks);
    let shown: Vec<_> = of_entities.take(LINKS_SHOWN_MAX).collect();
    let beyond = (connection.links_count as usize).saturating_sub(shown.len());
    html! {
        ul.inline { @for link in &shown { li { (role(link.role())) " " (link.address) } } }
        @if beyond > 0 { small { @if shown.is_empty() { (beyond) " for requests and tokens" } @else { "and " (beyond) " more" } } }
    }
}

fn role(role: v1::LinkRole) -> &'static str {
    match role {
        v1::LinkRole::Sends => "sends to",
        v1::LinkRole::Receives => "receives from",
        v1::LinkRole::Asks | v1::LinkRole::Unspecified => "asks",
    }
}

fn named(visit: &Visit) -> Result<&str, Failure> {
    visit.fields.given("id").ok_or_else(|| Failure::bad("No connection is named."))
}

/// What a client does that is cut off is not known here, so whoever does it is told what becomes of it.
pub(crate) async fn ask_close(visit: &Visit) -> Answered {
    let id = named(visit)?;
    let title = format!("Close connection {id}");
    let body = html! {
        h1 { (title) }
        p.wrong { "Its client is told goodbye. Over AMQP what it holds is given back and delivered again; over gRPC what is \
            under way is perhaps done." }
        p { "A client library connects again by itself. To keep a client out, take its key away." }
        (form(visit, "/console/connections/close", html! {
            (hidden(&[("id", id)]))
            p.bar {
                button.danger type="submit" { "Close it" }
                a.button href="/console/connections" { "Do nothing" }
            }
        }))
    };
    Page::new(title, body).answer()
}

pub(crate) async fn close(visit: &Visit) -> Answered {
    let id = named(visit)?.to_owned();
    visit.change(v1::CloseConnectionRequest { id }).await?;
    done("/console/connections".to_owned(), "connection-closed")
}
