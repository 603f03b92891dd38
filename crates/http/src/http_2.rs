//! Connections of HTTP/2 (HTTP-27): requests side by side, each with the deadlines of one that comes alone.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderValue, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::io::{InspectReader, InspectWriter};
use transport::Stream;

use crate::caller::{Caller, HEAD_BYTES_MAX, HEAD_WITHIN, closing};
use crate::failure::refuse;

/// Requests of one connection at a time.
const STREAMS_MAX: u32 = 100;
/// Of one connection: requests that their client has given up before they were taken, and those it spoilt.
/// One more, and the connection ends (CVE-2023-44487).
const GIVEN_UP_STREAMS_MAX: usize = 20;
/// Flow control: what may come of one body, and of all, before it is read.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// What waits to be written of one answer, beside the answer itself.
const SEND_BYTES_MAX: usize = 64 * 1024;
/// A client that answers no ping for so long is gone.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// A client that was told goodbye takes its answers within this.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
const GRPC: &[u8] = b"application/grpc";
/// UNIMPLEMENTED.
const GRPC_STATUS: &str = "12";

/// Serves a connection until its client goes, has asked nothing for as long as a request's head may take, or
/// the node ends. `no_grpc`: what is told to whoever looks for gRPC.
pub(crate) async fn serve(
    stream: Stream,
    caller: Caller,
    no_grpc: Arc<str>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), hyper::Error> {
    let slot = caller.slot.0.clone();
    let count = |received: usize, sent: usize| {
        if let Some(slot) = &slot {
            slot.count_bytes(received as u64, sent as u64);
        }
    };
    let stream = InspectReader::new(stream, |bytes: &[u8]| count(bytes.len(), 0));
    let stream = InspectWriter::new(stream, |bytes: &[u8]| count(0, bytes.len()));
    let (under_way, mut seen) = watch::channel(0_u32);
    let under_way = Arc::new(under_way);
    let service = service_fn(move |request| {
        let (mut caller, no_grpc) = (caller.clone(), no_grpc.clone());
        let counted = Counted::one_of(&under_way);
        async move {
            let answer = answer(&mut caller, &no_grpc, request).await;
            drop(counted);
            answer
        }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(GIVEN_UP_STREAMS_MAX)
        .max_local_error_reset_streams(GIVEN_UP_STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = served.as_mut() => return ended,
        _ = stopped.changed() => (),
        () = closing(slot.as_ref()) => (),
        () = idle(&mut seen) => (),
    }
    served.as_mut().graceful_shutdown();
    tokio::select! {
        ended = served => ended,
        () = sleep_until(Instant::now() + ENDS_WITHIN) => Ok(()),
    }
}

/// Resolves when no request was under way for as long as a request's head may take.
async fn idle(seen: &mut watch::Receiver<u32>) {
    loop {
        // It fails with the service, and then the connection has ended.
        drop(seen.wait_for(|count| *count == 0).await);
        if timeout(HEAD_WITHIN, seen.changed()).await.is_err() {
            return;
        }
    }
}

/// A request that is under way.
struct Counted(Arc<watch::Sender<u32>>);

impl Counted {
    fn one_of(all: &Arc<watch::Sender<u32>>) -> Counted {
        all.send_modify(|count| *count += 1);
        Counted(all.clone())
    }
}

impl Drop for Counted {
    /// Also of one that its client has given up.
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

async fn answer(
    caller: &mut Caller,
    no_grpc: &str,
    mut request: Request<Incoming>,
) -> Result<Response, Infallible> {
    let content_type = request.headers().get(CONTENT_TYPE);
    if content_type.is_some_and(|told| told.as_bytes().starts_with(GRPC)) {
        return Ok(unimplemented(no_grpc));
    }
    if let Err(why) = name_host(&mut request) {
        return Ok(refuse(StatusCode::BAD_REQUEST, why.to_owned()));
    }
    match caller.too_many(&request) {
        Some(refusal) => Ok(refusal),
        None => caller.call(request).await,
    }
}

/// The host that a request is for, as one of HTTP/1.1 names it (RFC 9113, 8.3.1): whoever looks at it has one
/// place to look at.
fn name_host<B>(request: &mut Request<B>) -> Result<(), &'static str> {
    let Some(authority) = request.uri().authority() else { return Ok(()) };
    let named = HeaderValue::from_str(authority.as_str());
    let named = named.map_err(|_| "':authority' is no host")?;
    let mut told = request.headers().get_all(HOST).iter();
    match (told.next(), told.next()) {
        (None, _) => drop(request.headers_mut().insert(HOST, named)),
        (Some(told), None) if told == named => (),
        _ => return Err("':authority' and 'Host' are not the same; send one"),
    }
    Ok(())
}

/// As gRPC says it.
fn unimplemented(why: &str) -> Response {
    let message = utf8_percent_encode(why, NON_ALPHANUMERIC).to_string();
    let headers = [
        (CONTENT_TYPE.as_str(), "application/grpc".to_owned()),
        ("grpc-status", GRPC_STATUS.to_owned()),
        ("grpc-message", message),
    ];
    (StatusCode::OK, headers, Body::empty()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: `:authority`, `Host` as a client sends them, and the one that counts.
    #[test]
    fn http_27_a_request_names_one_host() {
        for (uri, told, host) in [
            ("https://a:1/q", &[][..], Ok(Some("a:1"))),
            ("https://a:1/q", &["a:1"], Ok(Some("a:1"))),
            ("https://a:1/q", &["b:1"], Err(())),
            ("https://a:1/q", &["a:1", "a:1"], Err(())),
            ("/q", &["b:1"], Ok(Some("b:1"))),
            ("/q", &[], Ok(None)),
        ] {
            let mut request = Request::new(());
            *request.uri_mut() = uri.parse().expect("a URI");
            for told in told {
                request.headers_mut().append(HOST, HeaderValue::from_static(told));
            }
            let found = name_host(&mut request).map_err(drop);
            let named = request.headers().get(HOST).map(|host| host.to_str().expect("text"));
            assert_eq!(found.map(|()| named), host, "{uri} {told:?}");
        }
    }

    #[test]
    fn http_27_grpc_is_told_where_it_is() {
        let told = unimplemented("port 1 takes HTTP");
        let header = |name| told.headers().get(name).map(|value| value.to_str().expect("text"));
        assert_eq!(header("grpc-status"), Some("12"));
        assert_eq!(header("grpc-message"), Some("port%201%20takes%20HTTP"));
    }
}
