//! Who sends the requests of a connection, and what all of them are held to.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use auth::Certified;
use axum::Router;
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{HeaderMap, Request, StatusCode, Uri, header};
use axum::response::Response;
use domain::Namespace;
use hyper::body::Incoming;
use limits::{ClientInfo, Exceeded, Scope, Slot};
use tower::Service;

use crate::failure::refuse;
use crate::probe::probe;

/// A request's head takes no longer, and a connection without a request lasts no longer.
pub(crate) const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// Of a request's head. A token has up to 8 KiB, and there may be three.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Whose request it is.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub SocketAddr);

/// Whether a request came over TLS.
#[derive(Clone, Copy)]
pub(crate) struct OverTls(pub bool);

/// Where what a request asks for is (NS-5).
#[derive(Clone)]
pub(crate) struct InNamespace(pub Namespace);

/// What was shown on the connection of a request.
#[derive(Clone, Default)]
pub(crate) struct CertifiedPeer(pub Option<Arc<Certified>>);

/// The place of a request's connection; a probe may do without.
#[derive(Clone)]
pub(crate) struct ConnectionSlot(pub Option<Slot>);

/// Who sends the requests of a connection, and who answers them.
#[derive(Clone)]
pub(crate) struct Caller {
    pub app: Router,
    pub peer: SocketAddr,
    pub certified: CertifiedPeer,
    pub is_tls: bool,
    pub slot: ConnectionSlot,
    /// The connection is one too many.
    pub surplus: Option<Exceeded>,
    /// Whether a request came over it, by whichever version of HTTP.
    pub has_asked: Arc<AtomicBool>,
}

impl Caller {
    /// The answer over a connection that is one too many: of all that the node takes (QUOTA-13), or of what
    /// one client may have of them (HTTP-28).
    pub fn too_many(&self, request: &Request<Incoming>) -> Option<Response> {
        self.has_asked.store(true, Ordering::Relaxed);
        if let Some(slot) = &self.slot.0 {
            slot.introduce(|| {
                let agent = request.headers().get(header::USER_AGENT);
                ClientInfo::new("", agent.and_then(|agent| agent.to_str().ok()).unwrap_or_default())
            });
        }
        let surplus = self.surplus.filter(|_| probe(request.method(), request.uri()).is_none())?;
        let why = format!("{surplus}; nothing was done, try another node, or again later");
        let status = match surplus.limit.scope() {
            Scope::Protocol => return Some(refuse(StatusCode::SERVICE_UNAVAILABLE, why)),
            Scope::Address | Scope::Key | Scope::Connection | Scope::Namespace => {
                StatusCode::TOO_MANY_REQUESTS
            }
        };
        let mut refusal = refuse(status, why);
        refusal.headers_mut().insert(header::RETRY_AFTER, surplus.wait_s().into());
        Some(refusal)
    }

    pub async fn call(&mut self, mut request: Request<Incoming>) -> Result<Response, Infallible> {
        request.extensions_mut().insert(Peer(self.peer));
        request.extensions_mut().insert(OverTls(self.is_tls));
        request.extensions_mut().insert(self.certified.clone());
        request.extensions_mut().insert(self.slot.clone());
        if self.is_tls
            && let Some(uri) = absolute(&request)
        {
            *request.uri_mut() = uri;
        }
        self.app.call(request).await
    }
}

/// The host that a request is meant for, perhaps with its port. Where the address names one, `Host` is not looked at
/// (RFC 9112, section 3.2.2).
pub(crate) fn asked_host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let host = || headers.get(header::HOST).and_then(|host| host.to_str().ok());
    uri.host().or_else(host)
}

/// Resolves once an operator has the connection end.
pub(crate) async fn closing(slot: Option<&Slot>) {
    match slot {
        Some(slot) => slot.closing().await,
        None => std::future::pending().await,
    }
}

/// `None`: the client does not say which host it means.
fn absolute<B>(request: &Request<B>) -> Option<Uri> {
    let host = request.headers().get(header::HOST)?;
    let path = request.uri().path_and_query().cloned();
    let mut parts = axum::http::uri::Parts::default();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(Authority::try_from(host.as_bytes()).ok()?);
    parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    Uri::from_parts(parts).ok()
}
