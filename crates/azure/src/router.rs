//! The way in: tokens, who asks for what, and what he may; then the resource that he asks for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use audit::{Protocol, Refused, Trail};
use auth::{Denied, Principal, TokenAuthority, TokenError};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use domain::{DEFAULT_NAMESPACE, Excerpt, Namespace};
use limits::{Exceeded, MANAGEMENT_CREDITS, Slot};
use service::{Broker, KeyWatch};
use uuid::Uuid;

use crate::ask::{Answer, Ask, Requester, Wanted};
use crate::authority::{Authority, Proven, TokenFailure, TokenRequest};
use crate::caller::Caller;
use crate::config::Config;
use crate::discovery;
use crate::failure::Failure;
use crate::path::{Target, Within, api_version, target};
use crate::right::{action_name, taken};
use crate::runs::Runs;
use crate::signature::Flaw;
use crate::{deployments, groups, namespaces, resource, subscriptions};

/// Of a body, in bytes: fifty tags are the largest that there is.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// Of a template with its parameters, in bytes.
const TEMPLATE_BYTES_MAX: usize = 1024 * 1024;
/// The first version of the interface that there is.
const FIRST_VERSION: &str = "2017-04-01";
/// What names any tenant.
const ANY_TENANT: [&str; 2] = ["common", "organizations"];

/// On whose connection a request came.
#[derive(Clone, Default)]
pub struct Visitor {
    pub peer: Option<SocketAddr>,
    pub slot: Option<Slot>,
}

/// What answers Azure's tools.
#[derive(Clone)]
pub struct Azure {
    config: Config,
    broker: Broker,
    authority: Authority,
    runs: Runs,
}

/// What the cluster is called in Azure.
#[derive(Clone, Copy)]
struct Ids {
    subscription: Uuid,
    tenant: Uuid,
}

impl Azure {
    pub fn new(config: Config, broker: Broker, keys: KeyWatch) -> Azure {
        let authority = Authority::new(broker.clone(), config.access.clone(), keys);
        Azure { config, broker, authority, runs: Runs::default() }
    }

    /// Answers what [`is_for`](crate::is_for) says, with a [`Visitor`] in its extensions.
    pub fn router(self) -> Router {
        Router::new().fallback(answer).with_state(self)
    }

    /// Who says what tokens for messages are good for.
    pub fn token_authority(&self) -> Arc<dyn TokenAuthority> {
        Arc::new(self.authority.clone())
    }

    /// `None`: this node does not know the cluster yet.
    fn ids(&self) -> Option<Ids> {
        let id = self.broker.cluster().id().map(Uuid::from_u128);
        let subscription = self.config.subscription.or(id)?;
        Some(Ids { subscription, tenant: self.config.tenant.or(id)? })
    }
}

async fn answer(State(azure): State<Azure>, request: Request) -> Response {
    let Some(ids) = azure.ids() else {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let failure =
            Failure::new(status, "ServiceUnavailable", "This node does not know its cluster yet.");
        return failure.after_s(1).into_response();
    };
    if let Err(error) = azure.broker.namespaces().caught_up().await {
        return Failure::from(error).into_response();
    }
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = host.map(str::to_owned).or(request.uri().authority().map(ToString::to_string));
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    let base = format!("https://{host}");
    let visitor = request.extensions().get::<Visitor>().cloned().unwrap_or_default();
    let version = api_version(request.uri());
    let target = target(request.uri().path());
    let (authority, tenant) = (&azure.authority, ids.tenant);
    match &target {
        Target::Metadata => {
            discovery::metadata(&base, tenant, version.as_deref().unwrap_or_default())
        }
        Target::Instances => discovery::instances(&base, tenant),
        Target::Configuration { tenant: named, is_v2 } => match is_tenant(named, tenant) {
            true => discovery::configuration(&base, tenant, *is_v2),
            false => unknown_tenant(named).into_response(),
        },
        Target::SigningKeys => match authority.signing_key().await {
            Ok(key) => axum::Json(key.set()).into_response(),
            Err(error) => Failure::from(error).into_response(),
        },
        Target::Interactive => TokenFailure::request(
            700016,
            "Nobody signs in here by hand; sign in as a service principal, whose id and secret are a key's name and \
             value.",
        )
        .into_response(),
        Target::Token { tenant: named, is_v2 } => {
            if !is_tenant(named, tenant) {
                return unknown_tenant(named).into_response();
            }
            token(&azure, request, &visitor, &base, tenant, *is_v2).await
        }
        Target::Tenants
        | Target::Subscriptions
        | Target::Operations
        | Target::Within { .. }
        | Target::Unknown => {
            let visit = Visit { azure: &azure, ids, visitor: &visitor, host: &host, target: &target };
            match visit.answer(request).await {
                Ok(response) => response,
                Err(failure) => failure.into_response(),
            }
        }
    }
}

fn is_tenant(named: &str, tenant: Uuid) -> bool {
    Uuid::parse_str(named).is_ok_and(|named| named == tenant)
        || ANY_TENANT.iter().any(|any| any.eq_ignore_ascii_case(named))
}

fn unknown_tenant(named: &str) -> TokenFailure {
    let message = format!(
        "Tenant '{}' not found: /metadata/endpoints says which one this cluster is, and azure.tenant sets it.",
        Excerpt(named)
    );
    TokenFailure::request(90002, message)
}

/// RFC 6749, section 4.4: the client proves who it is in the body, or as section 2.3.1 has it.
async fn token(
    azure: &Azure,
    request: Request,
    visitor: &Visitor,
    base: &str,
    tenant: Uuid,
    is_v2: bool,
) -> Response {
    if request.method() != Method::POST {
        return Failure::not_allowed(request.method()).into_response();
    }
    if let Some(slot) = &visitor.slot
        && let Err(exceeded) = slot.ask(MANAGEMENT_CREDITS)
    {
        return Failure::exceeded(&exceeded).into_response();
    }
    let (parts, body) = request.into_parts();
    let body = match read_body(body).await {
        Ok(body) => body,
        Err(failure) => return failure.into_response(),
    };
    let given = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(&body);
        pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let grant_type = given("grant_type").unwrap_or_default();
    if grant_type != "client_credentials" {
        let message = format!(
            "The grant type '{}' is not supported: a key's name and value are a client's credentials \
             (client_credentials).",
            Excerpt(&grant_type)
        );
        let status = StatusCode::BAD_REQUEST;
        return TokenFailure::new(status, "unsupported_grant_type", 70003, message).into_response();
    }
    let login = basic(&parts.headers);
    let client = (given("client_id"), given("client_secret"));
    let (client_id, client_secret) = match (client, login) {
        ((Some(id), Some(secret)), _) => (id, secret),
        (_, Some(login)) => login,
        ((_, None), None) if given("client_assertion").is_some() => {
            let message =
                "Certificates of clients are not taken here; send client_secret, a key's value.";
            return TokenFailure::request(700027, message).into_response();
        }
        _ => {
            let message = "The request body must contain the following parameters: 'client_id' and 'client_secret'.";
            return TokenFailure::request(900144, message).into_response();
        }
    };
    let Some(audience) = given(if is_v2 { "scope" } else { "resource" }) else {
        let name = if is_v2 { "scope" } else { "resource" };
        let message = format!("The request body must contain the following parameter: '{name}'.");
        return TokenFailure::request(900144, message).into_response();
    };
    if let Err(denied) = azure.config.trail.admit(visitor.peer, Some(&client_id)) {
        let message = format!("{denied}.");
        let status = StatusCode::TOO_MANY_REQUESTS;
        return TokenFailure::new(status, "temporarily_unavailable", 90055, message)
            .into_response();
    }
    let (client_id, client_secret) = (client_id.as_str(), client_secret.as_str());
    let asked = TokenRequest { client_id, client_secret, audience: &audience, base, is_v2 };
    match azure.authority.issue(&asked, tenant).await {
        Ok(Ok(response)) => response,
        Ok(Err(failure)) => {
            if failure.error == "invalid_client" {
                let denied = Denied::Proof(TokenError::UnknownKey);
                let told = Told { visitor, path: parts.uri.path(), method: "POST" };
                tokio::time::sleep(told.refused(&azure.config.trail, &denied, Some(client_id)))
                    .await;
            }
            failure.into_response()
        }
        Err(error) => Failure::from(error).into_response(),
    }
}

/// The name and the secret of a client (RFC 6749, section 2.3.1): both are encoded as in a form.
fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let login = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let login = String::from_utf8(BASE64.decode(login.trim()).ok()?).ok()?;
    let (name, secret) = login.split_once(':')?;
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    Some((decoded(name), decoded(secret)))
}

async fn read_body(body: Body) -> Result<Bytes, Failure> {
    read_body_of(body, BODY_BYTES_MAX).await
}

async fn read_body_of(body: Body, bytes_max: usize) -> Result<Bytes, Failure> {
    to_bytes(body, bytes_max).await.map_err(|_| {
        let message = format!("The body has more than {bytes_max} bytes, or was not sent whole.");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestContentTooLarge", message)
    })
}

/// A request that was refused, as the audit is told of it.
struct Told<'a> {
    visitor: &'a Visitor,
    path: &'a str,
    method: &'a str,
}

impl Told<'_> {
    /// How long the answer waits.
    fn refused(&self, trail: &Trail, denied: &Denied, claimed: Option<&str>) -> Duration {
        let Told { visitor, path, method } = *self;
        let (path, namespace) = (path.trim_start_matches('/'), &Namespace::DEFAULT);
        let (protocol, peer) = (Protocol::Http, visitor.peer);
        trail.refuse(&Refused { protocol, peer, denied, claimed, path, method, namespace })
    }
}

/// A request to Resource Manager.
struct Visit<'a> {
    azure: &'a Azure,
    ids: Ids,
    visitor: &'a Visitor,
    host: &'a str,
    target: &'a Target,
}

impl Visit<'_> {
    async fn answer(&self, request: Request) -> Answer {
        let (parts, body) = request.into_parts();
        let caller = self.authenticate(&parts).await?;
        self.charge(caller.principal()).map_err(|exceeded| Failure::exceeded(&exceeded))?;
        self.check_version(&parts.uri)?;
        let (method, path) = (&parts.method, parts.uri.path());
        let taken = taken(self.target, method);
        if !caller.may(&taken) {
            let (failure, denied) = caller.refused(&taken, &action_name(self.target, method), path);
            let told = Told { visitor: self.visitor, path, method: method.as_str() };
            tokio::time::sleep(told.refused(&self.azure.config.trail, &denied, None)).await;
            return Err(failure);
        }
        let bytes_max = match self.target {
            Target::Within { what: Within::Deployment { .. }, .. } => TEMPLATE_BYTES_MAX,
            _ => BODY_BYTES_MAX,
        };
        let body = read_body_of(body, bytes_max).await?;
        let requester = Requester {
            config: self.azure.config.clone(),
            broker: self.azure.broker.clone(),
            tenant: self.ids.tenant,
            subscription: self.ids.subscription,
            host: self.host.to_owned(),
            peer: self.visitor.peer,
            runs: self.azure.runs.clone(),
            caller,
        };
        let query = parts.uri.query().unwrap_or_default();
        let ask = requester.ask(Wanted { method, path, query }, body, None);
        Ok(resource::recorded(&ask, self.target, respond(&ask, self.target)).await)
    }

    async fn authenticate(&self, parts: &Parts) -> Result<Caller, Failure> {
        let authority = format!("https://{}/{}", self.host, self.ids.tenant);
        let given = parts.headers.get(AUTHORIZATION).and_then(|given| given.to_str().ok());
        let given = given.and_then(|given| given.strip_prefix("Bearer "));
        let refuse = async |code, message: &str, error: Option<TokenError>| {
            let denied = error.map_or(Denied::Nothing, Denied::Proof);
            let (path, method) = (parts.uri.path(), parts.method.as_str());
            let told = Told { visitor: self.visitor, path, method };
            tokio::time::sleep(told.refused(&self.azure.config.trail, &denied, None)).await;
            Failure::unauthorized(code, message, &authority)
        };
        let Some(token) = given else {
            let message = "Authentication failed. The 'Authorization' header is missing.";
            return Err(refuse("AuthenticationFailed", message, None).await);
        };
        if let Err(denied) = self.azure.config.trail.admit(self.visitor.peer, None) {
            let message = format!("{denied}.");
            return Err(Failure::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message));
        }
        let verified = self.azure.authority.verify(token, self.ids.tenant).await?;
        let proven: Result<Proven, Flaw> = verified;
        match proven {
            Ok(proven) => Ok(Caller::new(proven)),
            Err(Flaw::Expired) => {
                let message = "The access token expiry UTC time has passed.";
                Err(refuse("ExpiredAuthenticationToken", message, Some(TokenError::Expired)).await)
            }
            Err(Flaw::Malformed) => {
                let error = TokenError::Malformed { part: "Bearer" };
                let message = "The access token is invalid.";
                Err(refuse("InvalidAuthenticationToken", message, Some(error)).await)
            }
            Err(Flaw::Signature) => {
                let message = "The access token is not this cluster's, or its key was withdrawn.";
                Err(refuse("InvalidAuthenticationToken", message, Some(TokenError::Bearer)).await)
            }
        }
    }

    /// Counts what is asked for (QUOTA-34); or it is not done, as it is too much.
    fn charge(&self, principal: &Principal) -> Result<(), Exceeded> {
        let Some(slot) = &self.visitor.slot else { return Ok(()) };
        slot.party(principal, DEFAULT_NAMESPACE)?.ask(MANAGEMENT_CREDITS)
    }

    fn check_version(&self, uri: &Uri) -> Result<(), Failure> {
        let version = api_version(uri).unwrap_or_default();
        let is_of_service_bus = matches!(
            self.target,
            Target::Operations
                | Target::Within {
                    what: Within::Namespace { .. } | Within::Namespaces { .. } | Within::NameCheck,
                    ..
                }
        );
        match is_of_service_bus && version.as_str() < FIRST_VERSION {
            false => Ok(()),
            true => Err(Failure::new(
                StatusCode::BAD_REQUEST,
                "NoRegisteredProviderFound",
                format!(
                    "No registered resource provider found for API version '{}': the first one is {FIRST_VERSION}.",
                    Excerpt(&version)
                ),
            )),
        }
    }
}

async fn respond(ask: &Ask<'_>, target: &Target) -> Answer {
    match target {
        Target::Tenants => subscriptions::tenants(ask),
        Target::Subscriptions => subscriptions::list(ask),
        Target::Operations => subscriptions::operations(ask),
        Target::Within { subscription, what } => {
            let is_known = Uuid::parse_str(subscription).is_ok_and(|id| id == ask.subscription);
            if !is_known {
                let message = format!(
                    "The subscription '{}' could not be found: this cluster is the subscription '{}', and \
                     azure.subscription sets it.",
                    Excerpt(subscription),
                    ask.subscription
                );
                return Err(Failure::not_found("SubscriptionNotFound", message));
            }
            within(ask, what).await
        }
        _ => {
            let message = format!("There is no {}.", Excerpt(ask.path));
            Err(Failure::not_found("NotFound", message))
        }
    }
}

async fn within(ask: &Ask<'_>, what: &Within) -> Answer {
    match what {
        Within::Subscription => subscriptions::get(ask),
        Within::Locations => subscriptions::locations(ask),
        Within::Providers => subscriptions::providers(ask),
        Within::Provider { name } => subscriptions::provider(ask, name),
        Within::Registration { name } => subscriptions::register(ask, name),
        Within::Groups => groups::list(ask),
        Within::Group { name } => groups::answer(ask, name).await,
        Within::Resources { group } => namespaces::list_resources(ask, group.as_deref()),
        Within::Namespaces { group } => namespaces::list(ask, group.as_deref()),
        Within::NameCheck => namespaces::check_name(ask),
        Within::Deletion { namespace } => namespaces::deletion(ask, namespace),
        Within::Namespace { group, name, part } => resource::answer(ask, group, name, part).await,
        Within::Deployments { group } => deployments::list(ask, group).await,
        Within::Deployment { group, name, part } => {
            deployments::answer(ask, group, name, part).await
        }
        Within::Absent { kind } => {
            let message = format!("There is no '{}' here.", Excerpt(kind));
            Err(Failure::not_found("InvalidResourceType", message))
        }
    }
}
