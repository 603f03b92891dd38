//! Connections, one task each.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use limits::{FrontEnd, Ledger, Origin};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use transport::{Arrival, Arrivals, Stream};

use crate::caller::{Caller, CertifiedPeer, ConnectionSlot, HEAD_BYTES_MAX, HEAD_WITHIN, closing};
use crate::failure::refuse;
use crate::http_2;
use crate::watched_stream::WatchedStream;

/// HTTP-24: places of their own for probes and metrics. A request there is answered within moments, so
/// where all are taken, whoever has had one longest has stalled.
const PROBES_MAX: usize = 64;

/// Who has such a place.
struct Probing {
    running: AbortHandle,
    has_asked: Arc<AtomicBool>,
}

/// Who gives his place up: of those that have asked for nothing yet, else of all, whoever has had it longest.
fn longest(probes: &VecDeque<Probing>) -> usize {
    let is_idle = |probe: &Probing| !probe.has_asked.load(Ordering::Relaxed);
    probes.iter().position(is_idle).unwrap_or(0)
}

/// Serves until `stop` resolves, and then until open requests are answered.
pub(crate) async fn serve(
    mut arrivals: Arrivals,
    app: Router,
    ledger: Ledger,
    stop: impl Future<Output = ()>,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_BYTES_MAX);
    let mut probes: VecDeque<Probing> = VecDeque::new();
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let arrival = tokio::select! {
            () = &mut stop => break,
            Some(arrival) = arrivals.recv() => arrival,
            Some(_) = connections.join_next() => continue,
        };
        let Arrival { stream, peer, misdirected, certified, http_2, is_tls, is_web_socket, .. } =
            arrival;
        let origin = Origin { peer, is_tls, is_web_socket };
        let (slot, surplus) = match ledger.open(FrontEnd::Http, origin) {
            Ok(slot) => (Some(slot), None),
            Err(exceeded) => (None, Some(exceeded)),
        };
        let caller = Caller {
            app: app.clone(),
            peer,
            certified: CertifiedPeer(certified),
            is_tls,
            slot: ConnectionSlot(slot),
            surplus,
            has_asked: Arc::default(),
        };
        let has_asked = caller.has_asked.clone();
        let (builder, stopped) = (builder.clone(), stopped.clone());
        let running = connections.spawn(async move {
            let ended = match http_2 {
                Some(no_grpc) => http_2::serve(stream, caller, no_grpc, stopped).await,
                None => serve_http_1(&builder, stream, caller, misdirected, stopped).await,
            };
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "HTTP connection lost");
            }
        });
        if surplus.is_some() {
            probes.retain(|probe| !probe.running.is_finished());
            if probes.len() >= PROBES_MAX
                && let Some(longest) = probes.remove(longest(&probes))
            {
                longest.running.abort();
            }
            probes.push_back(Probing { running, has_asked });
        }
    }
    drop(arrivals);
    stopping.send_replace(true);
    while connections.join_next().await.is_some() {}
}

async fn serve_http_1(
    builder: &http1::Builder,
    stream: Stream,
    caller: Caller,
    misdirected: Option<Arc<str>>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), hyper::Error> {
    let slot = caller.slot.clone();
    let (stream, framing) = WatchedStream::new(stream, slot.0.clone());
    let service = service_fn(move |request| {
        let (mut caller, misdirected) = (caller.clone(), misdirected.clone());
        let framing = framing.clone();
        async move {
            let answer = match misdirected {
                _ if framing.is_ambiguous() => {
                    let why = "the request has both Content-Length and Transfer-Encoding; send one";
                    Ok(last_word(StatusCode::BAD_REQUEST, why.to_owned()))
                }
                Some(why) => Ok(last_word(StatusCode::BAD_REQUEST, why.to_string())),
                None => match caller.too_many(&request) {
                    Some(refusal) => Ok(as_last(refusal)),
                    None => caller.call(request).await,
                },
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
    let mut served = pin!(served);
    tokio::select! {
        ended = served.as_mut() => ended,
        _ = stopped.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
        () = closing(slot.0.as_ref()) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    }
}

/// The answer to whatever is asked on a port of another protocol (CONN-24).
fn last_word(code: StatusCode, why: String) -> Response {
    as_last(refuse(code, why))
}

/// The connection ends with this answer.
fn as_last(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
