//! What is let through to the services: requests of gRPC, on a port that takes them.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request, Response, StatusCode, header};
use tower::{Layer, Service};

use crate::connection::ConnectionSlot;

const GRPC: &[u8] = b"application/grpc";

/// Puts an [`Admission`] before the services.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionLayer;

impl<S> Layer<S> for AdmissionLayer {
    type Service = Admission<S>;

    fn layer(&self, services: S) -> Admission<S> {
        Admission { services }
    }
}

/// Turns away what is not for the services, each in its own words (CONN-24).
#[derive(Clone)]
pub(crate) struct Admission<S> {
    services: S,
}

impl<S> Service<Request<Body>> for Admission<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.services.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match refusal(&request) {
            None => Either::Left(self.services.call(request)),
            Some(refusal) => Either::Right(ready(Ok(refusal))),
        }
    }
}

fn refusal<B>(request: &Request<B>) -> Option<Response<Body>> {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let is_grpc = content_type.is_some_and(|told| told.as_bytes().starts_with(GRPC));
    let misdirected: Option<&Arc<str>> =
        request.extensions().get::<ConnectionSlot>().and_then(|slot| slot.misdirected.as_ref());
    match (is_grpc, misdirected) {
        (true, None) => None,
        (true, Some(why)) => Some(Status::unimplemented(&**why).into_http()),
        (false, Some(why)) => Some(plain(StatusCode::BAD_REQUEST, why)),
        (false, None) => {
            let why = "HTTP/2 is taken here for gRPC alone, content-type application/grpc; send all else \
                       with HTTP/1.1, or over TLS to a port of HTTP alone (listen.http)";
            Some(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
        }
    }
}

/// One line of JSON, for clients that speak HTTP/2 without gRPC.
fn plain(code: StatusCode, why: &str) -> Response<Body> {
    // Ours, and without a quote.
    let mut response = Response::new(Body::new(format!("{{\"error\":\"{why}\"}}")));
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: what is asked with, whether on a port of gRPC, and status and gRPC's status told.
    #[test]
    fn conn_24_what_is_not_for_the_services_is_told_in_its_own_words() {
        for (content_type, misdirected, told) in [
            (Some("application/grpc"), None, None),
            (Some("application/grpc+proto"), None, None),
            (Some("application/grpc"), Some("go there"), Some((200, Some("12")))),
            (Some("application/json"), Some("go there"), Some((400, None))),
            (None, Some("go there"), Some((400, None))),
            (None, None, Some((415, None))),
        ] {
            let misdirected: Option<Arc<str>> = misdirected.map(Arc::from);
            let slot = ConnectionSlot { misdirected, ..Default::default() };
            let mut request = Request::new(());
            request.extensions_mut().insert(slot);
            if let Some(content_type) = content_type {
                let value = HeaderValue::from_static(content_type);
                request.headers_mut().insert(header::CONTENT_TYPE, value);
            }
            let found = refusal(&request);
            let found = found.as_ref().map(|refusal| {
                let status = refusal.headers().get("grpc-status").map(|told| told.to_str());
                (refusal.status().as_u16(), status.map(|told| told.expect("text")))
            });
            assert_eq!(found, told, "{content_type:?}");
        }
    }
}
