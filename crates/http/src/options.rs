//! What a path takes: for whoever asks with OPTIONS, or came with another method (HTTP-8, HTTP-19), and
//! for browsers that run a page of another origin (HTTP-20).

use axum::extract::{Request, State};
use axum::http::header::{ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CONTENT_LENGTH};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::path::{self, Target};
use crate::tunnel;

/// All that any path takes.
const METHODS: [Method; 4] = [Method::GET, Method::PUT, Method::POST, Method::DELETE];
/// Paths that are asked for and nothing else.
const ASKED: [&str; 2] = [tunnel::PATH, tunnel::PATH_WITH_SLASH];
/// Answers have these for clients to read, beside those any page may.
const EXPOSED: [&str; 3] = ["brokerproperties", "location", "x-ms-client-request-id"];

/// Answers OPTIONS by the form of a path alone, so that it tells nobody what is there; and says what is
/// taken where the method is not. What a browser asks before a page's request goes on, where pages may
/// send any.
pub(crate) async fn answer(State(has_cors): State<bool>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let asks_for_page = request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if request.method() == Method::OPTIONS && !(has_cors && asks_for_page) {
        let taken = taken(&path);
        let code = if taken.is_empty() { StatusCode::NOT_FOUND } else { StatusCode::NO_CONTENT };
        let mut response = code.into_response();
        response.headers_mut().remove(CONTENT_LENGTH);
        response.headers_mut().insert(ALLOW, allow(&taken));
        return response;
    }
    let mut response = next.run(request).await;
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, allow(&taken(&path)));
    }
    response
}

fn allow(taken: &[Method]) -> HeaderValue {
    let names = taken.iter().map(Method::as_str).chain(["OPTIONS"]);
    let names = names.collect::<Vec<_>>().join(", ");
    HeaderValue::from_str(&names).unwrap_or(HeaderValue::from_static("OPTIONS"))
}

fn taken(path: &str) -> Vec<Method> {
    if ASKED.contains(&path) {
        return vec![Method::GET];
    }
    if path == "*" {
        return METHODS.into();
    }
    METHODS.into_iter().filter(|method| takes(method, path)).collect()
}

fn takes(method: &Method, path: &str) -> bool {
    let one_of = |methods: &[Method]| methods.contains(method);
    path::target(method, path, None).is_ok_and(|target| match target {
        Target::Namespace
        | Target::Queues(_)
        | Target::Topics(_)
        | Target::Subscriptions { .. }
        | Target::Rules { .. }
        | Target::History { .. } => one_of(&[Method::GET]),
        Target::Entity(_) | Target::Subscription { .. } | Target::Rule { .. } => {
            one_of(&[Method::GET, Method::PUT, Method::DELETE])
        }
        Target::Messages { .. } => one_of(&[Method::POST]),
        Target::Head { .. } => one_of(&[Method::POST, Method::DELETE]),
        Target::Lock { .. } => one_of(&[Method::PUT, Method::POST, Method::DELETE]),
        Target::Faults { name: None } => one_of(&[Method::GET, Method::DELETE]),
        Target::Faults { name: Some(_) } => one_of(&[Method::PUT, Method::DELETE]),
    })
}

/// Lets pages of these origins send requests; `*` for all. None: browsers let no page do so.
pub(crate) fn cors(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> =
        origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    let allowed = match &origins[..] {
        [] => return None,
        origins if origins.iter().any(|origin| origin == "*") => AllowOrigin::any(),
        origins => AllowOrigin::list(origins.to_vec()),
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods(METHODS)
        // `Authorization` has to be named, which a star does not.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED.map(HeaderName::from_static));
    Some(layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_8_http_19_a_path_takes_what_its_form_says() {
        for (path, taken_there) in [
            ("/q", "GET, PUT, DELETE, OPTIONS"),
            ("/t/subscriptions/s", "GET, PUT, DELETE, OPTIONS"),
            ("/t/subscriptions/s/rules/r", "GET, PUT, DELETE, OPTIONS"),
            ("/t/subscriptions", "GET, OPTIONS"),
            ("/$Resources/queues", "GET, OPTIONS"),
            // Also an entity of that name.
            ("/q/messages", "GET, PUT, POST, DELETE, OPTIONS"),
            ("/q/messages/head", "GET, PUT, POST, DELETE, OPTIONS"),
            // Also an entity of that name (HTTP-21).
            ("/health", "GET, PUT, DELETE, OPTIONS"),
            ("/$servicebus/websocket", "GET, OPTIONS"),
            ("*", "GET, PUT, POST, DELETE, OPTIONS"),
            ("/$nothing", "OPTIONS"),
        ] {
            assert_eq!(allow(&taken(path)), taken_there, "{path}");
        }
    }
}
