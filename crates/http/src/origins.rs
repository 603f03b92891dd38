//! Pages in a browser (HTTP-22): where no key is asked for, a page that the browser took from elsewhere
//! would do as its author likes with every node that the browser reaches. It is told by the headers that
//! browsers send and pages cannot change.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::Response;

use crate::connection::Peer;
use crate::failure::refuse;
use crate::probe::{Probe, probe};

/// Whose pages may send requests.
pub(crate) struct Origins {
    /// Where a key is asked for, it decides: no page has one that it was not given.
    is_key_asked_for: bool,
    /// As `http.cors_origins` has them.
    allowed: Vec<String>,
}

impl Origins {
    pub fn new(is_key_asked_for: bool, allowed: Vec<String>) -> Origins {
        Origins { is_key_asked_for, allowed }
    }

    fn judge_request(&self, request: &Request) -> Result<(), String> {
        let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or("?"));
        let peer = request.extensions().get::<Peer>();
        let is_from_this_machine = peer.is_some_and(|Peer(peer)| peer.ip().is_loopback());
        self.judge(text(ORIGIN), text(HOST), is_from_this_machine)
    }

    /// # Errors
    /// Why a request is not let in.
    fn judge(
        &self,
        origin: Option<&str>,
        host: Option<&str>,
        is_from_this_machine: bool,
    ) -> Result<(), String> {
        if self.is_key_asked_for || self.allowed.iter().any(|allowed| allowed == "*") {
            return Ok(());
        }
        if let Some(host) = host
            && is_from_this_machine
            && !self.knows(host)
        {
            return Err(format!(
                "the Host '{host}' is no name of this machine; use localhost or an address, or add its \
                 origin to http.cors_origins"
            ));
        }
        match origin {
            Some(origin) if !self.allows(origin, host) => Err(format!(
                "a page of '{origin}' may send no requests here; add it to http.cors_origins, or ask \
                 for keys (security.secret)"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a page of this origin may: of this node itself, or one that is allowed.
    fn allows(&self, origin: &str, host: Option<&str>) -> bool {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        let is_own = authority.is_some() && authority == host;
        is_own || self.allowed.iter().any(|allowed| allowed == origin)
    }

    /// Whether a name is no stranger's, whatever a name server says of it: an address, a name below
    /// `localhost`, or one without a dot, which only this machine's own network gives.
    fn knows(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_own = !name.contains('.')
            || name.to_ascii_lowercase().ends_with(".localhost")
            || name.parse::<IpAddr>().is_ok();
        let is_of = |allowed: &String| {
            allowed.split_once("://").is_some_and(|(_, authority)| authority == host)
        };
        is_own || self.allowed.iter().any(is_of)
    }
}

/// Lets a request pass, or answers 403. Probes that are free for everybody tell a page nothing.
pub(crate) async fn check(
    State(origins): State<Arc<Origins>>,
    request: Request,
    next: Next,
) -> Response {
    if probe(request.method(), request.uri()).is_some_and(Probe::is_free) {
        return next.run(request).await;
    }
    match origins.judge_request(&request) {
        Ok(()) => next.run(request).await,
        Err(why) => refuse(StatusCode::FORBIDDEN, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_22_pages_of_elsewhere_and_names_of_others_are_refused() {
        let own = "localhost:5300";
        for (allowed, origin, host, is_let_in) in [
            ("", None, Some(own), true),
            ("", None, None, true),
            ("", Some("http://localhost:5300"), Some(own), true),
            ("", Some("http://localhost:8080"), Some(own), false),
            ("", Some("https://evil.example"), Some(own), false),
            ("", Some("null"), Some(own), false),
            ("", None, Some("127.0.0.1:5300"), true),
            ("", None, Some("[::1]:5300"), true),
            ("", None, Some("a.localhost"), true),
            ("", None, Some("servicebus-emulator:5300"), true),
            ("", Some("http://servicebus-emulator:8080"), Some("servicebus-emulator:5300"), false),
            ("", None, Some("evil.example:5300"), false),
            ("", None, Some("localhost.evil.example"), false),
            ("", None, Some("127.0.0.1.evil.example"), false),
            ("", Some("http://evil.example:5300"), Some("evil.example:5300"), false),
            ("https://console.example", Some("https://console.example"), Some(own), true),
            ("https://console.example", Some("http://console.example"), Some(own), false),
            ("http://node.example:5300", None, Some("node.example:5300"), true),
            ("*", Some("https://evil.example"), Some("evil.example"), true),
        ] {
            let allowed = Vec::from_iter((!allowed.is_empty()).then(|| allowed.to_owned()));
            let origins = Origins::new(false, allowed.clone());
            let found = origins.judge(origin, host, true).is_ok();
            assert_eq!(found, is_let_in, "{allowed:?} {origin:?} {host:?}");
            assert!(Origins::new(true, allowed).judge(origin, host, true).is_ok(), "a key decides");
        }
        let origins = Origins::new(false, Vec::new());
        assert!(origins.judge(None, Some("mayfly:5300"), false).is_ok(), "of another machine");
    }
}
