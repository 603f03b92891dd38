//! The way to the console's pages, which ask for their own proof.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::uri::Scheme;
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::Response;
use console::Connection;
use tower::ServiceExt as _;

use crate::caller::{CertifiedPeer, ConnectionSlot, Peer};
use crate::probe::is_of_management;

/// Below the path of an entity, where clients send and receive.
const MESSAGES: &str = "/messages";

/// Answers with a page what is for the console; everything else goes on.
pub(crate) async fn divert(
    State(console): State<Option<Router>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(console) = console.filter(|_| is_for(request.method(), request.uri())) else {
        return next.run(request).await;
    };
    let extensions = request.extensions();
    let connection = Connection {
        peer: extensions.get::<Peer>().map(|Peer(peer)| *peer),
        certified: extensions.get::<CertifiedPeer>().and_then(|CertifiedPeer(shown)| shown.clone()),
        slot: extensions.get::<ConnectionSlot>().and_then(|ConnectionSlot(slot)| slot.clone()),
        is_tls: request.uri().scheme() == Some(&Scheme::HTTPS),
    };
    request.extensions_mut().insert(connection);
    match console.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// An entity may be called so as well (HTTP-21): who manages it says which version of the API he speaks,
/// and who sends to it or receives from it asks for its messages.
fn is_for(method: &Method, uri: &Uri) -> bool {
    let path = uri.path();
    let Some(below) = path.strip_prefix("/console") else { return false };
    let is_ours = below.is_empty() || below.starts_with('/');
    let asks = match *method {
        Method::GET | Method::HEAD => !is_of_management(uri),
        // The console's own page of messages is read and not sent to.
        Method::POST => !format!("{path}/").contains(&format!("{MESSAGES}/")),
        _ => false,
    };
    is_ours && asks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_21_what_clients_ask_of_an_entity_called_console_is_the_entitys() {
        for (method, uri, is_page) in [
            (Method::GET, "/console", true),
            (Method::GET, "/console/messages?queue=console", true),
            (Method::POST, "/console/send", true),
            (Method::GET, "/consoles", false),
            (Method::GET, "/console?api-version=2021-05", false),
            (Method::PUT, "/console", false),
            (Method::DELETE, "/console/messages/head", false),
            (Method::POST, "/console/messages", false),
            (Method::POST, "/console/messages/head", false),
            (Method::POST, "/console/a/messages/1/2", false),
        ] {
            assert_eq!(is_for(&method, &uri.parse().expect(uri)), is_page, "{method} {uri}");
        }
    }
}
