//! Connections, one task each.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use auth::Certified;
use axum::Router;
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{HeaderValue, Request, StatusCode, Uri, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tower::Service;
use transport::{Arrival, Arrivals};

use crate::failure::refuse;
use crate::probe::probe;
use crate::watched_stream::WatchedStream;

/// A request's head takes no longer, and a connection without a request lasts no longer.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// Of a request's head. A token has up to 8 KiB, and there may be three.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// HTTP-24: places of their own for probes and metrics. A request there is answered within moments, so
/// where all are taken, whoever has had one longest has stalled.
const PROBES_MAX: usize = 64;

/// Whose request it is.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub SocketAddr);

/// What was shown on the connection of a request.
#[derive(Clone, Default)]
pub(crate) struct CertifiedPeer(pub Option<Arc<Certified>>);

/// Serves until `stop` resolves, and then until open requests are answered.
pub(crate) async fn serve(
    mut arrivals: Arrivals,
    app: Router,
    connections_max: usize,
    stop: impl Future<Output = ()>,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_BYTES_MAX);
    let slots = Arc::new(Semaphore::new(connections_max));
    let mut probes: VecDeque<AbortHandle> = VecDeque::new();
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let Arrival { stream, peer, misdirected, certified, .. } = tokio::select! {
            () = &mut stop => break,
            Some(arrival) = arrivals.recv() => arrival,
            Some(_) = connections.join_next() => continue,
        };
        let slot = slots.clone().try_acquire_owned().ok();
        let is_surplus = slot.is_none();
        let (app, is_tls) = (app.clone(), stream.is_tls());
        let (stream, framing) = WatchedStream::new(stream);
        let service = service_fn(move |request| {
            let (mut app, misdirected) = (app.clone(), misdirected.clone());
            let certified = CertifiedPeer(certified.clone());
            let framing = framing.clone();
            async move {
                let answer = match misdirected {
                    _ if framing.is_ambiguous() => {
                        let why =
                            "the request has both Content-Length and Transfer-Encoding; send one";
                        Ok(last_word(StatusCode::BAD_REQUEST, why.to_owned()))
                    }
                    Some(why) => Ok(last_word(StatusCode::BAD_REQUEST, why.to_string())),
                    None if is_surplus && probe(request.method(), request.uri()).is_none() => {
                        Ok(last_word(StatusCode::SERVICE_UNAVAILABLE, surplus(connections_max)))
                    }
                    None => app.call(seen_from(request, peer, certified, is_tls)).await,
                };
                answer.map(|answer| match answer.status() {
                    StatusCode::SWITCHING_PROTOCOLS => {
                        framing.upgrade();
                        answer
                    }
                    _ if framing.is_last() => as_last(answer),
                    _ => answer,
                })
            }
        });
        let served = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut stopped = stopped.clone();
        let running = connections.spawn(async move {
            let mut served = pin!(served);
            let ended = tokio::select! {
                ended = served.as_mut() => ended,
                _ = stopped.changed() => {
                    served.as_mut().graceful_shutdown();
                    served.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "HTTP connection lost");
            }
            drop(slot);
        });
        if is_surplus {
            probes.retain(|probe| !probe.is_finished());
            if probes.len() >= PROBES_MAX
                && let Some(longest) = probes.pop_front()
            {
                longest.abort();
            }
            probes.push_back(running);
        }
    }
    drop(arrivals);
    stopping.send_replace(true);
    while connections.join_next().await.is_some() {}
}

/// QUOTA-13.
fn surplus(connections_max: usize) -> String {
    format!(
        "this node has as many HTTP connections as it may, {connections_max}; nothing was done, try \
         another node, or again later"
    )
}

/// The answer to whatever is asked on a port of another protocol (CONN-24), or over a connection that is
/// one too many.
fn last_word(code: StatusCode, why: String) -> Response {
    as_last(refuse(code, why))
}

/// The connection ends with this answer.
fn as_last(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Tells the request whose it is, and its scheme.
fn seen_from(
    mut request: Request<Incoming>,
    peer: SocketAddr,
    certified: CertifiedPeer,
    is_tls: bool,
) -> Request<Incoming> {
    request.extensions_mut().insert(Peer(peer));
    request.extensions_mut().insert(certified);
    if is_tls && let Some(uri) = absolute(&request) {
        *request.uri_mut() = uri;
    }
    request
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
