//! Pages in a browser (HTTP-22): where no key is asked for, or the browser itself adds the proof, a page
//! that it took from elsewhere would do as its author likes with every node that the browser reaches. It
//! is told by the headers that browsers send and pages cannot change.

use std::net::IpAddr;
use std::sync::Arc;

use auth::Offer;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::Response;

use crate::caller::{CertifiedPeer, Peer};
use crate::failure::refuse;
use crate::probe::{Probe, probe};

/// Whose pages may send requests.
pub(crate) struct Origins {
    /// Where a key is asked for, it decides: no page has one that it was not given, unless the browser
    /// adds it.
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
        let (origin, host) = (text(ORIGIN), text(HOST));
        match self.is_key_asked_for {
            false => self.judge(origin, host, is_from_this_machine),
            true if is_proved_by_the_browser(request) => self.judge_origin(origin, host),
            true => Ok(()),
        }
    }

    /// # Errors
    /// Why a request is not let in.
    fn judge(
        &self,
        origin: Option<&str>,
        host: Option<&str>,
        is_from_this_machine: bool,
    ) -> Result<(), String> {
        if self.allows_all() {
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
        self.judge_origin(origin, host)
    }

    fn judge_origin(&self, origin: Option<&str>, host: Option<&str>) -> Result<(), String> {
        let way = match self.is_key_asked_for {
            true => "have it send a token of its own",
            false => "ask for keys (security.secret)",
        };
        match origin {
            Some(origin) if !self.allows_all() && !self.allows(origin, host) => Err(format!(
                "a page of '{origin}' may send no requests here; add it to http.cors_origins, or {way}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn allows_all(&self) -> bool {
        self.allowed.iter().any(|allowed| allowed == "*")
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

/// Whether it is the browser that proves who asks, whatever page it asks for: by a certificate, or a name
/// and key that it was given once.
fn is_proved_by_the_browser(request: &Request) -> bool {
    let shown = request.extensions().get::<CertifiedPeer>();
    match request.headers().get(AUTHORIZATION) {
        Some(given) => matches!(given.to_str().map(Offer::parse), Ok(Ok(Offer::Login { .. }))),
        None => shown.is_some_and(|CertifiedPeer(shown)| shown.is_some()),
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
    use auth::Certified;

    use super::*;

    /// Each row: what proves who asks, and whether a page of elsewhere is let through to be asked for it.
    #[test]
    fn http_22_where_keys_are_asked_for_a_page_needs_its_own() {
        let certified = || Certified {
            subject: "CN=a".into(),
            common_name: None,
            uris: Vec::new(),
            expires_at_s: 0,
        };
        for (authorization, is_certified, is_let_in) in [
            (None, false, true),
            (Some("Bearer the-key"), false, true),
            (Some("Bearer the-key"), true, true),
            (Some("SharedAccessSignature sr=x"), true, true),
            (Some("Basic bmFtZTprZXk="), false, false),
            // No proof, and told so.
            (Some("basic bmFtZTprZXk="), false, true),
            (None, true, false),
        ] {
            let ask = |origin: &str| {
                let mut request = Request::builder().header(HOST, "node.example");
                request = request.header(ORIGIN, origin);
                if let Some(given) = authorization {
                    request = request.header(AUTHORIZATION, given);
                }
                let mut request = request.body(axum::body::Body::empty()).expect("a request");
                let shown = is_certified.then(|| Arc::new(certified()));
                request.extensions_mut().insert(CertifiedPeer(shown));
                let allowed = vec!["https://console.example".to_owned()];
                Origins::new(true, allowed).judge_request(&request).is_ok()
            };
            let found = ask("https://evil.example");
            assert_eq!(found, is_let_in, "{authorization:?} {is_certified}");
            assert!(ask("https://node.example") && ask("https://console.example"));
        }
    }

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
        }
        let origins = Origins::new(false, Vec::new());
        assert!(origins.judge(None, Some("mayfly:5300"), false).is_ok(), "of another machine");
    }
}
