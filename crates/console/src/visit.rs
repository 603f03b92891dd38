//! A request by somebody who looks at the console.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::{Certified, Rights};
use axum::http::Method;
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use grpc::{LocalApi, LocalCall, LocalCaller, LocalError, LocalErrorKind};
use limits::Slot;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::form::Fields;
use crate::session::Session;

/// Of what a page shows: what is unknown by then is shown as unknown.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// In a form, of [`Session::form_token`].
pub(crate) const FORM_TOKEN: &str = "form-token";

/// What requests know of their connection; whoever serves the pages adds it to each.
#[derive(Clone, Default)]
pub struct Connection {
    pub peer: Option<SocketAddr>,
    /// What was shown on it.
    pub certified: Option<Arc<Certified>>,
    /// Its place, by which what is asked is counted.
    pub slot: Option<Slot>,
    pub is_tls: bool,
}

/// Who asks, and with what.
#[derive(Clone)]
pub(crate) struct Visit {
    pub api: LocalApi,
    pub session: Session,
    pub connection: Connection,
    /// Path and query.
    pub address: String,
    /// Of the query, or of the form.
    pub fields: Fields,
}

impl Visit {
    /// # Errors
    /// A form did not come from a page of the console that this browser was given.
    pub fn new(api: LocalApi, parts: &Parts, body: &[u8]) -> Result<Visit, Failure> {
        let session = Session::of(&parts.headers);
        let query = parts.uri.query().unwrap_or_default();
        let is_form = parts.method == Method::POST;
        let fields = Fields::parse(if is_form { body } else { query.as_bytes() });
        let connection = parts.extensions.get::<Connection>().cloned().unwrap_or_default();
        let address = parts.uri.path_and_query().map_or("/console", |address| address.as_str());
        let visit = Visit { api, session, connection, address: address.to_owned(), fields };
        if is_form {
            visit.check_form(parts)?;
        }
        Ok(visit)
    }

    fn check_form(&self, parts: &Parts) -> Result<(), Failure> {
        let text = |name| parts.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(HOST).or(parts.uri.authority().map(|authority| authority.as_str()));
        let authority =
            text(ORIGIN).map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
        let is_foreign = authority.is_some_and(|authority| Some(authority) != host);
        if is_foreign || !self.session.takes(self.fields.text(FORM_TOKEN)) {
            return Err(Failure::new(
                axum::http::StatusCode::FORBIDDEN,
                "The form did not come from a page of this console, or is from before you signed in; \
                 nothing was done. Go back, load the page anew and send it again.",
            ));
        }
        Ok(())
    }

    fn caller(&self) -> LocalCaller {
        self.caller_with(self.session.proof())
    }

    fn caller_with(&self, proof: Option<&str>) -> LocalCaller {
        let Connection { peer, certified, slot, .. } = self.connection.clone();
        LocalCaller { authorization: proof.map(str::to_owned), certified, peer, slot }
    }

    /// Whether he has said who he is, or nobody asks.
    pub fn is_in(&self) -> bool {
        self.api.is_open() || self.session.proof().is_some() || self.connection.certified.is_some()
    }

    /// Asks for what a page shows.
    pub async fn read<M: LocalCall>(&self, asked: M) -> Result<M::Answer, LocalError> {
        let caller = self.caller();
        match timeout(READ_WITHIN, asked.ask(&self.api, &caller)).await {
            Ok(answer) => answer,
            Err(_) => Err(LocalError {
                kind: LocalErrorKind::Unavailable,
                text:
                    "no answer within 2 s: whoever knows it may be gone and not replaced yet; look \
                       again in a moment"
                        .to_owned(),
            }),
        }
    }

    /// Asks for something to be done: for as long as the broker takes to say what became of it.
    pub async fn change<M: LocalCall>(&self, asked: M) -> Result<M::Answer, LocalError> {
        asked.ask(&self.api, &self.caller()).await
    }

    pub async fn take(
        &self,
        asked: wire::v1::ReceiveDeferredRequest,
    ) -> Result<Vec<wire::v1::ReceivedMessage>, LocalError> {
        self.api.take(&self.caller(), asked).await
    }

    /// What he may do with an entity, or, by an empty path, with the cluster.
    pub async fn rights(&self, path: &str) -> Rights {
        if !self.session.is_of(path) {
            return Rights::default();
        }
        let (caller, path) = (self.caller(), auth::named_path(path));
        let known = timeout(READ_WITHIN, self.api.rights(&caller, &path)).await;
        known.unwrap_or_default()
    }

    /// Who has this session, by its proof for an entity or the cluster.
    pub async fn identify(&self, session: &Session, path: &str) -> Result<String, LocalError> {
        let (caller, path) = (self.caller_with(session.proof()), auth::named_path(path));
        self.api.identify(&caller, &path).await
    }
}
