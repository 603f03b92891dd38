//! The authority: who knows a key gets a token for it, and whoever has a token may do what that key may, as it is now.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use auth::{Access, Grant, KeyToken, TokenAuthority, TokenError, WebTokenFault};
use axum::Json;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use domain::{Excerpt, Namespace};
use serde_json::json;
use service::{Broker, KeyWatch};
use uuid::Uuid;

use crate::signature::{Claims, Flaw, SigningKey};

/// Where the key that signs tokens is kept.
const SIGNING_KEY: &str = "azure/signing-key";
/// A token is good for so long; no other is given for it, so that what is withdrawn is soon asked for again.
const LASTS_S: u64 = 3600;
/// Clocks of nodes differ by less, else they take no part in a cluster.
const EARLY_S: u64 = 60;
/// What tokens for Resource Manager are for, whichever node of the cluster it is asked at.
pub(crate) const MANAGEMENT: &str = "https://management.azure.com";
/// What tokens for messages are for, in whichever namespace.
const MESSAGES: &str = "https://servicebus.azure.net";
/// Another name of Resource Manager.
const MANAGEMENT_OF_OLD: &str = "https://management.core.windows.net";

/// What somebody asks a token with and for.
pub(crate) struct TokenRequest<'a> {
    pub client_id: &'a str,
    pub client_secret: &'a str,
    pub audience: &'a str,
    /// `https://` and the host that was asked.
    pub base: &'a str,
    pub is_v2: bool,
}

/// A token that is good, as long as its key is.
#[derive(Clone, Debug)]
pub(crate) struct Proven {
    pub grant: Grant,
    /// Whose key it is.
    pub namespace: Namespace,
    /// What it is called.
    pub name: String,
}

/// Why there is no token, as Entra's codes have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenFailure {
    pub status: StatusCode,
    pub error: &'static str,
    pub code: u32,
    pub message: String,
}

/// The signing key, as it was kept and as it signs.
struct ReadKey {
    kept: String,
    key: Arc<SigningKey>,
}

#[derive(Clone)]
pub(crate) struct Authority {
    broker: Broker,
    access: Access,
    keys: KeyWatch,
    /// What was read last.
    read: Arc<RwLock<Option<ReadKey>>>,
}

impl TokenFailure {
    pub fn new(
        status: StatusCode,
        error: &'static str,
        code: u32,
        message: String,
    ) -> TokenFailure {
        TokenFailure { status, error, code, message }
    }

    pub fn request(code: u32, message: impl Into<String>) -> TokenFailure {
        TokenFailure::new(StatusCode::BAD_REQUEST, "invalid_request", code, message.into())
    }

    /// The secret is none of the key's, or there is no such key: nobody is told which.
    pub fn client(name: &str) -> TokenFailure {
        let message = format!(
            "Invalid client secret provided: there is no key of the name '{}' with that value.",
            Excerpt(name)
        );
        TokenFailure::new(StatusCode::UNAUTHORIZED, "invalid_client", 7000215, message)
    }
}

impl IntoResponse for TokenFailure {
    fn into_response(self) -> Response {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%SZ").to_string();
        let [trace, correlation] = [(); 2].map(|()| Uuid::new_v4().to_string());
        let description = format!(
            "AADSTS{}: {} Trace ID: {trace} Correlation ID: {correlation} Timestamp: {now}",
            self.code, self.message
        );
        let body = json!({
            "error": self.error,
            "error_description": description,
            "error_codes": [self.code],
            "timestamp": now,
            "trace_id": trace,
            "correlation_id": correlation,
        });
        (self.status, [(CACHE_CONTROL, "no-store")], Json(body)).into_response()
    }
}

impl Authority {
    pub fn new(broker: Broker, access: Access, keys: KeyWatch) -> Authority {
        Authority { broker, access, keys, read: Arc::default() }
    }

    /// The cluster's key, drawn by whoever needs it first.
    ///
    /// # Errors
    /// While the catalog cannot keep it.
    pub async fn signing_key(&self) -> Result<Arc<SigningKey>, service::Error> {
        let documents = self.broker.documents();
        let kept = match documents.get(SIGNING_KEY) {
            Some(row) => row.text.0,
            None => {
                let Some(drawn) = SigningKey::draw() else {
                    return Err(no_key("the system has no random numbers to sign tokens with"));
                };
                documents.put(SIGNING_KEY, drawn, true).await?.text.0
            }
        };
        self.read_key(kept).ok_or_else(|| no_key("the key that signs tokens cannot be read"))
    }

    /// As this node knows it, if anybody drew one.
    fn known_key(&self) -> Option<Arc<SigningKey>> {
        self.read_key(self.broker.documents().get(SIGNING_KEY)?.text.0)
    }

    /// `None`: that is none.
    fn read_key(&self, kept: String) -> Option<Arc<SigningKey>> {
        let is_it = |read: &&ReadKey| read.kept == kept;
        let known = self.read.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(is_it) {
            return Some(known.key.clone());
        }
        drop(known);
        let key = Arc::new(SigningKey::read(&kept)?);
        let read = ReadKey { kept, key: key.clone() };
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = Some(read);
        Some(key)
    }

    /// What is answered to who asks for a token with a key of the configuration or of a namespace (RFC 6749,
    /// section 4.4).
    ///
    /// # Errors
    /// [`TokenFailure`]; the inner one: the catalog cannot be asked.
    pub async fn issue(
        &self,
        asked: &TokenRequest<'_>,
        tenant: Uuid,
    ) -> Result<Result<Response, TokenFailure>, service::Error> {
        let Some(audience) = audience(asked.audience, asked.base) else {
            let message = format!(
                "The resource principal named '{}' was not found in the tenant: tokens are for {}, {MANAGEMENT} \
                 and {MESSAGES}.",
                Excerpt(asked.audience),
                asked.base
            );
            let status = StatusCode::BAD_REQUEST;
            return Ok(Err(TokenFailure::new(status, "invalid_resource", 500011, message)));
        };
        let Some(namespace) = self.owner(asked.client_id, asked.client_secret) else {
            return Ok(Err(TokenFailure::client(asked.client_id)));
        };
        let key = self.signing_key().await?;
        let (now_s, name, tenant) = (now_s(), asked.client_id.to_owned(), tenant.to_string());
        let version = if asked.is_v2 { "v2.0" } else { "" };
        let claims = Claims {
            iss: format!("{}/{tenant}/{version}", asked.base),
            aud: audience.to_owned(),
            iat: now_s,
            nbf: now_s - EARLY_S,
            exp: now_s + LASTS_S,
            sub: name.clone(),
            oid: name.clone(),
            appid: name,
            tid: tenant,
            ver: if asked.is_v2 { "2.0" } else { "1.0" }.to_owned(),
            tag: key.tag(namespace.as_str(), asked.client_id, asked.client_secret),
            namespace: namespace.as_str().to_owned(),
        };
        let Some(token) = key.sign(&claims) else {
            return Ok(Err(TokenFailure::request(90033, "No token can be signed now.")));
        };
        let lasts_s = claims.exp - now_s;
        let mut body = json!({
            "token_type": "Bearer",
            "access_token": token,
            "expires_in": lasts_s,
            "ext_expires_in": lasts_s,
        });
        if !asked.is_v2 {
            // As its first version has it: numbers are texts.
            let told = [
                ("expires_in", lasts_s.to_string()),
                ("ext_expires_in", lasts_s.to_string()),
                ("expires_on", claims.exp.to_string()),
                ("not_before", claims.nbf.to_string()),
                ("resource", audience.to_owned()),
            ];
            for (name, text) in told {
                body[name] = json!(text);
            }
        }
        Ok(Ok(([(CACHE_CONTROL, "no-store")], Json(body)).into_response()))
    }

    /// Whose key it is: the default namespace's or the cluster's, or else another namespace's. `None`: it is none.
    fn owner(&self, name: &str, key: &str) -> Option<Namespace> {
        if self.access.is_anyone() {
            return Some(Namespace::DEFAULT);
        }
        if self.keys.access(&Namespace::DEFAULT).login(name, key).is_some() {
            return Some(Namespace::DEFAULT);
        }
        let rows = self.broker.namespaces().rows().into_iter();
        let mut of_name = rows.filter(|row| {
            row.is_ready() && row.authorization_rules.iter().any(|rule| rule.name == name)
        });
        of_name.find_map(|row| {
            let namespace = Namespace::named(&row.name).ok()?;
            self.keys.access(&namespace).login(name, key).map(|_| namespace)
        })
    }

    /// What a token for Resource Manager is good for now.
    ///
    /// # Errors
    /// [`Flaw`]; the outer one: the catalog cannot be asked.
    pub async fn verify(
        &self,
        token: &str,
        tenant: Uuid,
    ) -> Result<Result<Proven, Flaw>, service::Error> {
        let key = self.signing_key().await?;
        let claims = match key.verify(token, now_s()) {
            Ok(claims) => claims,
            Err(flaw) => return Ok(Err(flaw)),
        };
        let is_meant = claims.tid == tenant.to_string() && claims.aud == MANAGEMENT;
        let namespace = Namespace::named(&claims.namespace).ok();
        let Some(namespace) = namespace.filter(|_| is_meant) else {
            return Ok(Err(Flaw::Signature));
        };
        let is_it = |value: &str| {
            // Tags are as good as random to who has no key: how far two agree tells nothing.
            key.tag(namespace.as_str(), &claims.sub, value) == claims.tag
        };
        let access = match self.access.is_anyone() {
            true => self.access.clone(),
            false => self.keys.access(&namespace),
        };
        let grant = access.recognised(&claims.sub, is_it, claims.exp);
        Ok(grant.map(|grant| Proven { grant, namespace, name: claims.sub }).ok_or(Flaw::Signature))
    }
}

/// Over AMQP, HTTP and gRPC whoever has a token for messages is who has the key that it was given for.
impl TokenAuthority for Authority {
    fn read(&self, token: &str, now_s: u64) -> Option<Result<KeyToken, TokenError>> {
        let key = self.known_key().filter(|key| key.is_named_by(token))?;
        let claims = match key.verify(token, now_s) {
            Ok(claims) => claims,
            Err(Flaw::Malformed) => return Some(Err(WebTokenFault::Malformed.into())),
            Err(Flaw::Signature) => return Some(Err(WebTokenFault::Signature.into())),
            Err(Flaw::Expired) => return Some(Err(TokenError::Expired)),
        };
        if claims.aud != MESSAGES {
            return Some(Err(WebTokenFault::Audience.into()));
        }
        let Claims { namespace, sub: key_name, exp: expires_at_s, tag, .. } = claims;
        let (within, name) = (namespace.clone(), key_name.clone());
        // As in `Authority::verify`.
        let is_it = Box::new(move |value: &str| key.tag(&within, &name, value) == tag);
        Some(Ok(KeyToken { namespace, key_name, is_it, expires_at_s }))
    }
}

fn no_key(why: &'static str) -> service::Error {
    service::Error::new(domain::Refusal::InvalidOperation { why }, "")
}

/// Tokens run out by the wall clock, whatever the cluster's time was moved to (ERR-25).
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}

/// What a token is for, of a scope or a resource; `None`: nothing of ours. `base`: the address that was asked, which is
/// Resource Manager's too.
fn audience(asked: &str, base: &str) -> Option<&'static str> {
    let resource = asked.strip_suffix("/.default").unwrap_or(asked).trim_end_matches('/');
    let is_one_of = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(resource));
    if is_one_of(&[MESSAGES]) {
        return Some(MESSAGES);
    }
    is_one_of(&[MANAGEMENT, MANAGEMENT_OF_OLD, base]).then_some(MANAGEMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_what_is_here() {
        const BASE: &str = "https://localhost:5300";
        for (asked, expected) in [
            ("https://localhost:5300/.default", Some(MANAGEMENT)),
            // Of a resource that ends with a slash, as scopes are made of it.
            ("https://localhost:5300//.default", Some(MANAGEMENT)),
            ("https://LOCALHOST:5300", Some(MANAGEMENT)),
            ("https://management.azure.com/", Some(MANAGEMENT)),
            ("https://management.core.windows.net//.default", Some(MANAGEMENT)),
            ("https://servicebus.azure.net/.default", Some(MESSAGES)),
            ("https://servicebus.azure.net//.default", Some(MESSAGES)),
            ("https://servicebus.azure.net/", Some(MESSAGES)),
            ("https://graph.microsoft.com/.default", None),
            ("https://localhost:5301/.default", None),
            ("", None),
        ] {
            assert_eq!(audience(asked, BASE), expected, "{asked}");
        }
    }
}
