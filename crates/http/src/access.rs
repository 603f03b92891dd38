//! Authorization (HTTP-10 to HTTP-15): a token of an SDK, a key as a bearer token, or a certificate. Entities
//! take Manage, messages Send or Listen, and forwarding takes Send on where to (FWD-2). An entity's own
//! rules are asked for where no key of the node will do (ENT-12).

mod destination;
mod wait;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use audit::{Action, Caller, Entry, Outcome, Protocol, Refused, Trail};
use auth::{
    Access, Certified, Denied, Evidence, Grant, Key, Principal, Right, claimed_name, resource_path,
};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, IF_MATCH, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::Namespace;
use limits::{Exceeded, MANAGEMENT_CREDITS, Party};
use service::{Broker, KeyWatch};

use self::destination::{Forward, forwards};
use crate::caller::{CertifiedPeer, ConnectionSlot, InNamespace, Peer, asked_host};
use crate::failure::{Failure, refuse};
use crate::path;
use crate::path::Target;
use crate::probe::{Probe, probe};
use crate::whole_body::{self, BodyKind};

/// What stands behind an entity's path where its messages are meant (HTTP-12): nothing else takes Send or
/// Listen.
const MESSAGES: &str = "/messages";

/// Who may do what, and who hears of those who may not.
pub(crate) struct Guard {
    access: Access,
    trail: Trail,
    namespace: Namespace,
}

/// Who lets requests pass.
#[derive(Clone)]
pub(crate) struct Gate {
    guard: Arc<Guard>,
    broker: Broker,
    keys: KeyWatch,
}

impl Gate {
    pub fn new(access: Access, trail: Trail, broker: Broker, keys: KeyWatch) -> Gate {
        let access = if access.is_anyone() { access } else { keys.access(&Namespace::DEFAULT) };
        Gate { guard: Arc::new(Guard::new(access, trail)), broker, keys }
    }

    /// The one to where a request's host says that it is meant for (NS-5).
    async fn of(&self, host: &str) -> service::Result<Gate> {
        let namespace = self.broker.namespaces().meant_by(host).await?;
        if namespace.is_default() {
            return Ok(self.clone());
        }
        let (access, trail) = (self.keys.access(&namespace), self.guard.trail.clone());
        let (broker, keys) = (self.broker.within(namespace.clone()), self.keys.clone());
        Ok(Gate { guard: Arc::new(Guard { access, trail, namespace }), broker, keys })
    }
}

/// What a request's credentials are good for.
struct Proof(Grant);

/// What a request says of who sends it.
#[derive(Clone, Copy)]
struct Requester<'a> {
    headers: &'a HeaderMap,
    /// What was shown on its connection.
    certificate: Option<&'a Certified>,
}

impl<'a> Requester<'a> {
    fn of(request: &'a Request) -> Requester<'a> {
        let shown = request.extensions().get::<CertifiedPeer>();
        let certificate = shown.and_then(|CertifiedPeer(shown)| shown.as_deref());
        Requester { headers: request.headers(), certificate }
    }
}

/// What a request takes: a right on a path, which is the one of an entity, or in it.
#[derive(Clone)]
struct Taken {
    path: String,
    right: Right,
    entity: Option<String>,
}

impl Guard {
    pub fn new(access: Access, trail: Trail) -> Guard {
        Guard { access, trail, namespace: Namespace::DEFAULT }
    }

    /// ERR-17, ERR-25. The reason goes to the client. `own`: keys of the entity the path is of.
    fn proof(
        &self,
        path: &str,
        right: Right,
        from: Requester<'_>,
        own: &[Key],
    ) -> Result<Proof, Denied> {
        let Requester { headers, certificate } = from;
        let given = Evidence { authorization: given(headers), certificate };
        let path = resource_path(path);
        let permit = |path: &str| self.access.permit(given, path, &[right], own, now_s());
        // A token may be for the messages alone; an entity's own key is for the entity they are of.
        match (permit(&path), path.rfind(MESSAGES)) {
            (Err(Denied::Right { .. }), Some(at)) if right != Right::Manage => permit(&path[..at]),
            (permitted, _) => permitted,
        }
        .map(Proof)
    }

    /// FWD-2. A header that is missing falls back to the request's own token. `own`: keys of the target.
    fn may_forward(
        &self,
        proof: &Proof,
        headers: &HeaderMap,
        forward: &Forward,
        own: &[Key],
    ) -> bool {
        let Forward { header, target, .. } = forward;
        match headers.get(*header).map(HeaderValue::to_str) {
            None => {
                let Proof(grant) = proof;
                grant.allows(&resource_path(target), Right::Send, now_s())
                    || self.signs_too(headers, target, own)
            }
            Some(Ok(token)) => self.is_granted(headers, token, target, own),
            Some(Err(_)) => false,
        }
    }

    /// Whether the request's own token, verified for its own path, covers the target as well.
    fn signs_too(&self, headers: &HeaderMap, target: &str, own: &[Key]) -> bool {
        given(headers).is_some_and(|token| self.is_granted(headers, token, target, own))
    }

    fn is_granted(&self, headers: &HeaderMap, token: &str, target: &str, own: &[Key]) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let granted = self.access.verify_beside(token, host, target, own, now_s());
        granted.is_ok_and(|grant| grant.allows(&resource_path(target), Right::Send, now_s()))
    }

    /// The answer to somebody who is not let in, and how long it is to wait. `why`: what he is told.
    fn refuse(&self, request: &Request, denied: &Denied, why: String) -> (Response, Duration) {
        let (protocol, peer) = (Protocol::Http, peer(request));
        let claimed = given(request.headers()).and_then(claimed_name);
        let claimed = claimed.as_deref();
        let path = request.uri().path().trim_start_matches('/');
        let method = request.method().as_str();
        let namespace = &self.namespace;
        let told = Refused { protocol, peer, denied, claimed, path, method, namespace };
        let (wait, probe) = (self.trail.refuse(&told), probe(request.method(), request.uri()));
        (unauthorized(probe, denied, why), wait)
    }

    /// Whether what was sent is looked at.
    fn admit(&self, request: &Request) -> Result<(), Denied> {
        // A certificate is guessed by nobody.
        let Some(given) = given(request.headers()) else { return Ok(()) };
        self.trail.admit(peer(request), claimed_name(given).as_deref())
    }

    /// Somebody is about to do something that the audit is told of.
    fn begin(
        &self,
        request: &Request,
        principal: Principal,
        (action, object): (Action, String),
    ) -> Entry {
        let (protocol, address) = (Protocol::Http, peer(request));
        let (principal, namespace) = (Some(principal), self.namespace.clone());
        self.trail.begin(Caller { protocol, address, principal, namespace }, action, &object)
    }
}

impl Gate {
    /// By the keys of the node, or else those of the entity.
    async fn proof(
        &self,
        taken: &Taken,
        from: Requester<'_>,
    ) -> Result<Result<Proof, Denied>, service::Error> {
        let Taken { path, right, entity } = taken;
        let proof = self.guard.proof(path, *right, from, &[]);
        match (&proof, entity) {
            (Err(denied), Some(entity)) if denied.is_for_want_of_a_key() => {
                let own = self.broker.entities().keys_of(entity).await?;
                Ok(self.guard.proof(path, *right, from, &own))
            }
            _ => Ok(proof),
        }
    }

    /// Who asks, if he may; otherwise what he is answered. `taken`: nothing where nobody is asked.
    async fn permit(
        &self,
        taken: Option<&Taken>,
        request: Request,
    ) -> Result<(Request, Principal), Response> {
        let Gate { guard, broker, .. } = self;
        let Some(taken) = taken else { return Ok((request, Principal::Anyone)) };
        let proof = match guard.admit(&request) {
            Ok(()) => self.proof(taken, Requester::of(&request)).await,
            Err(held) => Ok(Err(held)),
        };
        let proof = match proof {
            Ok(Ok(proof)) => proof,
            Ok(Err(denied)) => {
                let (refusal, wait) = guard.refuse(&request, &denied, denied.to_string());
                tokio::time::sleep(wait).await;
                return Err(refusal);
            }
            Err(error) => return Err(Failure::from(error).into_response()),
        };
        if request.method() != Method::PUT || taken.right != Right::Manage {
            let Proof(Grant { principal, .. }) = proof;
            return Ok((request, principal));
        }
        permit_forwarding(guard, broker, proof, request).await
    }

    /// What a request takes, if anybody is asked.
    fn taken(&self, request: &Request, target: Option<&Target>) -> Option<Taken> {
        let probe = probe(request.method(), request.uri());
        if self.guard.access.is_anyone() || probe.is_some_and(Probe::is_free) {
            return None;
        }
        // What is not there takes as much as what is, so that nobody finds out without.
        Some(match probe {
            Some(_) => Taken { path: String::new(), right: Right::Monitor, entity: None },
            // It may lead anywhere.
            None if matches!(target, Some(Target::History { follow: true, .. })) => {
                Taken { path: String::new(), right: Right::Listen, entity: None }
            }
            None => Taken {
                path: request.uri().path().to_owned(),
                right: target.map_or(Right::Manage, Target::right),
                entity: target.and_then(Target::entity).map(str::to_owned),
            },
        })
    }
}

fn given(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()
}

fn peer(request: &Request) -> Option<SocketAddr> {
    request.extensions().get::<Peer>().map(|Peer(peer)| *peer)
}

/// Lets a request pass, or answers 401; and tells the audit what came of one that changes something.
pub(crate) async fn check(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let is_update = request.headers().contains_key(IF_MATCH);
    let (method, uri) = (request.method(), request.uri());
    let target = match probe(method, uri) {
        Some(_) => None,
        None => path::target(method, uri.path(), uri.query()).ok(),
    };
    let action = target.as_ref().and_then(|target| target.action(method, is_update));
    let right = target.as_ref().map(Target::right);
    let is_of_cluster = probe(method, uri).is_some() || right.is_some_and(Right::is_of_cluster);
    // What is about the cluster itself is never of another namespace than the default one.
    let host = asked_host(request.headers(), request.uri()).filter(|_| !is_of_cluster);
    let gate = match host.map(str::to_owned) {
        Some(host) => match gate.of(&host).await {
            Ok(gate) => gate,
            Err(error) => return Failure::from(error).into_response(),
        },
        None => gate,
    };
    let taken = gate.taken(&request, target.as_ref());
    let (mut request, principal) = match gate.permit(taken.as_ref(), request).await {
        Ok(permitted) => permitted,
        Err(refusal) => return refusal,
    };
    request.extensions_mut().insert(InNamespace(gate.guard.namespace.clone()));
    let is_of_node = probe(request.method(), request.uri()).is_some();
    let creates = matches!(action, Some((Action::EntityCreate, _)));
    // Whoever watches a node is never held up.
    if !is_of_node {
        match charge(&request, &principal, &gate.guard.namespace, target.as_ref(), creates) {
            Ok(party) => drop(request.extensions_mut().insert(party)),
            Err(exceeded) => {
                let entity = target.as_ref().and_then(Target::entity).unwrap_or_default();
                return Failure::exceeded(&exceeded, entity).into_response();
            }
        }
    }
    if let (Some(Target::Head { .. }), Some(taken)) = (target, taken) {
        return gate.while_proved(taken, request, next).await;
    }
    let entry = action.map(|action| gate.guard.begin(&request, principal, action));
    let response = next.run(request).await;
    if let Some(entry) = entry {
        let told = response.extensions().get::<Outcome>().cloned();
        entry.end(told.unwrap_or(Outcome::Done));
    }
    response
}

/// Counts what is asked for (QUOTA-34); or it is not done, as it is too much. What is sent counts when it is
/// known how many messages it is.
fn charge(
    request: &Request,
    principal: &Principal,
    namespace: &Namespace,
    target: Option<&Target>,
    creates: bool,
) -> Result<Option<Party>, Exceeded> {
    let slot = request.extensions().get::<ConnectionSlot>();
    let Some(slot) = slot.and_then(|ConnectionSlot(slot)| slot.as_ref()) else { return Ok(None) };
    let party = slot.party(principal, namespace.as_str())?;
    let credits = match target {
        Some(Target::Messages { .. }) => 0,
        // Every node looks through all that it has.
        Some(Target::History { .. }) => MANAGEMENT_CREDITS,
        Some(target) if target.right() == Right::Manage => MANAGEMENT_CREDITS,
        Some(_) | None => 1,
    };
    party.ask(credits)?;
    if creates {
        party.create()?;
    }
    Ok(Some(party))
}

/// FWD-2: whoever has an entity forward takes the right to send where to.
async fn permit_forwarding(
    guard: &Guard,
    broker: &Broker,
    proof: Proof,
    request: Request,
) -> Result<(Request, Principal), Response> {
    let (parts, body) = request.into_parts();
    let body = match whole_body::read(body, BodyKind::Description).await {
        Ok(body) => body,
        Err(failure) => return Err(failure.into_response()),
    };
    let mut refused = None;
    for forward in forwards(&body) {
        let may = |own: &[Key]| guard.may_forward(&proof, &parts.headers, &forward, own);
        if may(&[]) {
            continue;
        }
        match broker.entities().keys_of(&forward.target).await {
            Ok(own) if may(&own) => (),
            Ok(_) => refused = refused.or(Some(forward)),
            Err(error) => return Err(Failure::from(error).into_response()),
        }
    }
    let request = Request::from_parts(parts, Body::from(body));
    let Proof(Grant { principal, .. }) = proof;
    let Some(Forward { element, target, .. }) = refused else { return Ok((request, principal)) };
    let why = format!("{element} takes a token with the right 'Send' for its target");
    let denied = Denied::Right { principal, right: Right::Send, path: target };
    // It is no guess.
    let (refusal, _) = guard.refuse(&request, &denied, why);
    Err(refusal)
}

/// 401, or 429 to whom is to come again later.
fn unauthorized(probe: Option<Probe>, denied: &Denied, why: String) -> Response {
    let (code, wait_ms) = match denied {
        Denied::Nothing
        | Denied::Proof(_)
        | Denied::Certificate(_)
        | Denied::JoinToken { .. }
        | Denied::Right { .. } => (StatusCode::UNAUTHORIZED, None),
        Denied::Held(held) => (StatusCode::TOO_MANY_REQUESTS, Some(held.wait_ms)),
    };
    let mut response = match probe.is_some() {
        true => refuse(code, why),
        false => {
            let why = quick_xml::escape::escape(&why);
            let id = service::draw_message_id();
            let xml = "application/xml; charset=utf-8";
            let body = format!(
                "<Error><Code>{}</Code><Detail>{why}. TrackingId:{id}, SystemTracker:mayfly</Detail></Error>",
                code.as_u16()
            );
            (code, [(CONTENT_TYPE, xml)], body).into_response()
        }
    };
    let headers = response.headers_mut();
    match wait_ms {
        None => headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
        Some(wait_ms) => headers.insert(RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(1_000))),
    };
    response
}

/// Tokens run out by the wall clock, whatever the cluster's time was moved to (ERR-25).
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use auth::{Reach, Rights, sign};

    use super::destination::FORWARDING;
    use super::*;
    use crate::atom;

    fn guard() -> Guard {
        let key = |name: &str, right: Right, scope: &str| Key {
            name: name.to_owned(),
            rights: Rights::default().with(right),
            scope: scope.to_owned(),
            ..Key::root("key")
        };
        let keys = [
            key("All", Right::Manage, ""),
            key("Q", Right::Manage, "q"),
            key("S", Right::Send, ""),
        ];
        Guard::new(Access::keys(keys.into_iter().chain([Key::root("secret")])), Trail::off())
    }

    fn from(headers: &HeaderMap) -> Requester<'_> {
        Requester { headers, certificate: None }
    }

    fn token(resource: &str, name: &str) -> String {
        sign(resource, name, "key", now_s() + 60)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (axum::http::HeaderName::from_static(name), value.parse().expect("a value"))
        };
        pairs.iter().map(pair).collect()
    }

    /// HTTP-10, HTTP-11: the audience as Python, JS and .NET write it; and what else is sent.
    #[test]
    fn http_10_to_http_12_tokens_of_every_sdk_are_understood() {
        const PYTHON: &str = "https%3A%2F%2Flocalhost%3A5300";
        const JS: &str = "https%3a%2f%2flocalhost%3a5300%2fq%3fapi-version%3d2021-05";
        const NET: &str = "http%3A%2F%2Flocalhost%3A5300%2Fq";
        let late = sign(PYTHON, "All", "key", now_s());
        let forged = sign(PYTHON, "All", "guess", now_s() + 60);
        for (given, path, allowed) in [
            (token(PYTHON, "All"), "/Q", true),
            (token(PYTHON, "All"), "/$Resources/queues", true),
            (token(JS, "All"), "/q", true),
            (token(JS, "All"), "/other", false),
            (token(NET, "All"), "/q/subscriptions/s", true),
            (token(NET, "All"), "/$namespaceinfo", false),
            // A key of one queue, and a right that is not Manage.
            (token(PYTHON, "Q"), "/q", true),
            (token(PYTHON, "Q"), "/other", false),
            (token(PYTHON, "S"), "/q", false),
            (late, "/q", false),
            (forged, "/q", false),
            ("Bearer secret".to_owned(), "/q", true),
            ("Bearer secre".to_owned(), "/q", false),
            (auth::authorization(Some("Q"), "key").into_owned(), "/q", true),
            (auth::authorization(Some("Q"), "key").into_owned(), "/other", false),
            ("Basic c2VjcmV0".to_owned(), "/q", false),
        ] {
            let proof = guard().proof(
                path,
                Right::Manage,
                from(&headers(&[("authorization", &given)])),
                &[],
            );
            assert_eq!(proof.is_ok(), allowed, "{path} {given}");
        }
        assert!(guard().proof("/q", Right::Manage, from(&HeaderMap::new()), &[]).is_err());
        // Messages take the right of what is done with them.
        let sender = token("http%3A%2F%2Flocalhost%3A5300%2Fq", "S");
        let sender = headers(&[("authorization", &sender)]);
        for (right, allowed) in [(Right::Send, true), (Right::Listen, false)] {
            let proof = guard().proof("/q/messages", right, from(&sender), &[]);
            assert_eq!(proof.is_ok(), allowed, "{right:?}");
        }
    }

    /// An entity's own rule opens it and its messages, and is nobody else's token.
    #[test]
    fn ent_12_http_13_an_entitys_own_rule_opens_it_alone() {
        let rule = |name: &str, right| {
            let (name, scope) = (name.to_owned(), "q".to_owned());
            let rights = Rights::default().with(right);
            Key { name, scope, reach: Reach::Entity, rights, ..Key::root("key") }
        };
        let own = [rule("Rule", Right::Send), rule("Boss", Right::Manage)];
        const PYTHON: &str = "https%3A%2F%2Flocalhost%3A5300";
        const NET: &str = "http%3A%2F%2Flocalhost%3A5300%2Fq%2Fmessages";
        for (given, path, right, allowed) in [
            (token(PYTHON, "Rule"), "/q/messages", Right::Send, true),
            (token(NET, "Rule"), "/q/messages", Right::Send, true),
            (token(PYTHON, "Rule"), "/q/messages/head", Right::Listen, false),
            (token(PYTHON, "Rule"), "/q", Right::Manage, false),
            (token(PYTHON, "Boss"), "/q", Right::Manage, true),
            (token(PYTHON, "Boss"), "/q/subscriptions/s/rules/r", Right::Manage, true),
            (token(PYTHON, "Boss"), "/$namespaceinfo", Right::Manage, false),
            (token(PYTHON, "Boss"), "/other", Right::Manage, false),
        ] {
            let headers = headers(&[("authorization", &given)]);
            let without = guard().proof(path, right, from(&headers), &[]);
            assert!(without.is_err_and(|denied| denied.is_for_want_of_a_key()), "{path}");
            let proof = guard().proof(path, right, from(&headers), &own);
            assert_eq!(proof.is_ok(), allowed, "{path} {given}");
        }
    }

    /// FWD-2: whatever is read as a description is looked at here as well.
    #[test]
    fn fwd_2_no_body_that_is_read_hides_where_it_forwards_to() {
        let filler = "<a/>".repeat(15_000);
        let body = format!("<e><D xmlns='x'>{filler}<ForwardTo>t</ForwardTo></D></e>");
        assert!(atom::text(body.as_bytes()).and_then(atom::parse).is_ok());
        assert_eq!(forwards(body.as_bytes()).len(), 1);
    }

    /// FWD-2: a key of `q` opens what is below `q`, so no spelling of another entity may look like that.
    #[test]
    fn fwd_2_what_is_forwarded_to_is_what_rights_are_asked_for() {
        let headers = headers(&[("authorization", &token("http%3A%2F%2Fh%2Fq", "Q"))]);
        let proof = guard().proof("/q", Right::Manage, from(&headers), &[]).expect("Manage on q");
        for (written, target, allowed) in [
            ("q/below", "q/below", true),
            ("sb://h%2Fq/secret", "secret", false),
            ("secret", "secret", false),
            // No entity has such a name (ENT-1).
            ("q/$x://h/secret", "q/$x://h/secret", true),
        ] {
            let body = format!("<e><D xmlns='x'><ForwardTo>{written}</ForwardTo></D></e>");
            let forwards = forwards(body.as_bytes());
            assert_eq!(forwards[0].target, target, "{written}");
            let may = guard().may_forward(&proof, &headers, &forwards[0], &[]);
            assert_eq!(may, allowed, "{written}");
        }
    }

    /// FWD-2: Manage on the source, Send on the target, from the header meant for it or from the
    /// request's own token.
    #[test]
    fn fwd_2_forwarding_takes_send_on_the_target() {
        let body = r#"<e><D xmlns="x"><ForwardTo>sb://localhost:5300/Target</ForwardTo></D></e>"#;
        let dead = body.replace("ForwardTo", "ForwardDeadLetteredMessagesTo");
        const OWN: &str = "http%3A%2F%2Flocalhost%3A5300%2Fq";
        const TARGET: &str = "sb%3A%2F%2Flocalhost%3A5300%2Ftarget";
        const ELSEWHERE: &str = "sb%3A%2F%2Flocalhost%3A5300%2Felse";
        const HOST_ONLY: &str = "localhost%3a5300";
        const ALL: &str = "https%3A%2F%2Flocalhost%3A5300";
        for (own, beside, allowed) in [
            (token(OWN, "All"), Some(token(TARGET, "S")), true),
            (token(OWN, "All"), Some(token(HOST_ONLY, "S")), true),
            (token(OWN, "All"), Some(token(ELSEWHERE, "S")), false),
            (token(OWN, "All"), Some(token(TARGET, "Q")), false),
            (token(OWN, "All"), None, false),
            (token(ALL, "All"), None, true),
            (token(ALL, "Q"), None, false),
            ("Bearer secret".to_owned(), None, true),
        ] {
            for (body, [(_, header), (_, other)]) in
                [(body, FORWARDING), (&dead, [FORWARDING[1], FORWARDING[0]])]
            {
                let mut pairs = vec![("authorization", own.as_str()), ("host", "localhost:5300")];
                pairs.extend(beside.as_deref().map(|token| (header, token)));
                // A token for the one is none for the other.
                let junk = "SharedAccessSignature junk";
                pairs.push((other, junk));
                let headers = headers(&pairs);
                let proof = guard()
                    .proof("/q", Right::Manage, from(&headers), &[])
                    .expect("Manage on the source");
                let forwards = forwards(body.as_bytes());
                let may = |forward| guard().may_forward(&proof, &headers, forward, &[]);
                assert!(!forwards.is_empty());
                assert_eq!(forwards.iter().all(may), allowed, "{own} {beside:?} {header}");
            }
        }
    }
}
