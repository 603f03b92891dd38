//! The way to what answers Azure's tools, which asks for its own proof.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use azure::Visitor;
use tower::ServiceExt as _;

use crate::caller::{ConnectionSlot, OverTls, Peer};

/// Answers what is for Resource Manager or its authority, where it came over TLS: secrets of clients are in it. Everything
/// else goes on.
pub(crate) async fn divert(
    State(azure): State<Option<Router>>,
    mut request: Request,
    next: Next,
) -> Response {
    // What the connection is, and not what a client writes before the path.
    let is_tls = request.extensions().get::<OverTls>().is_some_and(|OverTls(is_tls)| *is_tls);
    let Some(azure) = azure.filter(|_| is_tls && azure::is_for(request.uri())) else {
        return next.run(request).await;
    };
    let extensions = request.extensions();
    let visitor = Visitor {
        peer: extensions.get::<Peer>().map(|Peer(peer)| *peer),
        slot: extensions.get::<ConnectionSlot>().and_then(|ConnectionSlot(slot)| slot.clone()),
    };
    request.extensions_mut().insert(visitor);
    match azure.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
