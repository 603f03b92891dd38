//! The door to the broker: nobody has it who was not let in by a right for what he asks (ERR-17). The
//! services hold a [`Door`] and no broker, so that no method can leave the question out.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use auth::{Access, Certified, Denied, Evidence, Right};
use service::{Broker, KeyWatch, Transaction};
use tonic::service::Interceptor;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};
use transport::Denials;
use wire::v1;

use crate::connection::ConnectionSlot;
use crate::connection_limit::ConnectionLimit;
use crate::right::{Ask, Need};
use crate::status::{DOMAIN, status};

/// How often it is looked whether the token of a stream has run out.
const PROOF_LOOK_EVERY: Duration = Duration::from_secs(60);
/// And whether its key is gone, while nobody can tell.
const UNDECIDED_LOOK_EVERY: Duration = Duration::from_millis(400);

/// Lets in whoever proves a right for what he asks.
#[derive(Clone)]
pub(crate) struct Door {
    broker: Broker,
    access: Access,
    denials: Arc<Denials>,
    started: Instant,
    keys: KeyWatch,
}

/// Somebody who has sent a proof, or none: what it is good for is seen by what he asks.
#[derive(Clone)]
pub(crate) struct Visitor {
    door: Door,
    /// As it came.
    proof: Option<String>,
    /// What was shown on the connection.
    certified: Option<Arc<Certified>>,
    peer: Option<SocketAddr>,
}

impl Door {
    pub fn new(broker: Broker, access: Access) -> Door {
        let keys = KeyWatch::start(broker.clone(), access.clone());
        Door { broker, access, denials: Arc::default(), started: Instant::now(), keys }
    }

    pub fn visitor<T>(&self, request: &Request<T>) -> Visitor {
        let Evidence { authorization, .. } = evidence(request);
        let proof = authorization.map(str::to_owned);
        let certified = certified(request).cloned();
        Visitor { door: self.clone(), proof, certified, peer: request.remote_addr() }
    }

    /// A transaction with nothing in it: each step of it is admitted by itself.
    pub fn begin(&self) -> Transaction {
        self.broker.transactions().begin()
    }

    /// Serves a call, if its client may ask for it.
    pub async fn call<M: Ask, T, F: Future<Output = Result<Response<T>, Status>>>(
        &self,
        request: Request<M>,
        serve: impl FnOnce(Broker, M) -> F,
    ) -> Result<Response<T>, Status> {
        let visitor = self.visitor(&request);
        let asked = request.into_inner();
        let broker = visitor.admit(&asked).await?;
        serve(broker, asked).await
    }
}

impl Visitor {
    /// The way in for what is asked.
    pub async fn admit<M: Ask>(&self, asked: &M) -> Result<Broker, Status> {
        if !self.door.access.is_anyone() {
            let mut needs = asked.needs();
            // A commit names the same entity with each of its operations.
            needs.sort_unstable();
            needs.dedup();
            for need in needs {
                self.meet(need, M::METHOD).await?;
            }
        }
        Ok(self.door.broker.clone())
    }

    /// Resolves once what was asked may be asked no more, as a key was removed or exchanged, or the token
    /// has run out; with what to say then.
    pub async fn is_shut_out<M: Ask>(&self, asked: M) -> Status {
        let Door { access, keys, .. } = &self.door;
        if access.is_anyone() {
            return std::future::pending().await;
        }
        let mut keys = keys.clone();
        // Which of them is the right one is seen when one changes.
        let entities = asked.needs();
        let entities = entities.iter().map(|need| auth::entity_path(&need.path));
        let _kept: Vec<_> = entities.map(|entity| keys.keep(entity)).collect();
        let mut look_in = PROOF_LOOK_EVERY;
        loop {
            tokio::select! {
                () = keys.changed() => {}
                () = tokio::time::sleep(look_in) => {}
            }
            look_in = match self.admit(&asked).await {
                Ok(_) => PROOF_LOOK_EVERY,
                Err(status) => match status.code() {
                    Code::Unauthenticated | Code::PermissionDenied => return status,
                    // Nobody knows at present, and what is open stays.
                    _ => UNDECIDED_LOOK_EVERY,
                },
            }
        }
    }

    /// An entity's own keys are asked for where no key of the node will do (ENT-12).
    async fn meet(&self, need: Need, method: &str) -> Result<(), Status> {
        let Need { path, any_of } = need;
        let Door { access, broker, .. } = &self.door;
        let (authorization, certificate) = (self.proof.as_deref(), self.certified.as_deref());
        let given = Evidence { authorization, certificate };
        let permit =
            |own: &[auth::Key]| access.permit(given, &path, any_of, own, now_s()).map(drop);
        let denied = match permit(&[]) {
            Err(denied) if denied.is_for_want_of_a_key() => {
                let own = broker.entities().keys_of(&path).await;
                permit(&own.map_err(|error| status(&error))?)
            }
            permitted => permitted,
        };
        denied.map_err(|denied| {
            self.tell(&denied, &path, method);
            refused(&denied, &path)
        })
    }

    /// To the log: the key is one that there is.
    fn tell(&self, denied: &Denied, path: &str, method: &str) {
        let Door { denials, started, .. } = &self.door;
        let now_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Some(untold) = denials.count(now_ms) {
            let peer = self.peer.map(tracing::field::display);
            let (key, entity) = (denied.key_name(), domain::Excerpt(path));
            tracing::warn!(peer, key, ?entity, method, untold, "gRPC call refused: {denied}");
        }
    }
}

/// What a refusal is on the wire: who is not known from who is known and may not.
fn refused(denied: &Denied, path: &str) -> Status {
    let code = match denied {
        Denied::Nothing | Denied::Proof(_) | Denied::Certificate(_) => Code::Unauthenticated,
        Denied::Right { .. } => Code::PermissionDenied,
    };
    let metadata = HashMap::from([
        ("rule".to_owned(), "ERR-17".to_owned()),
        ("entity".to_owned(), domain::Excerpt(path).to_string()),
        ("tracking_id".to_owned(), service::draw_message_id()),
        ("retry".to_owned(), v1::Retry::No.as_str_name().to_owned()),
    ]);
    let details = ErrorDetails::with_error_info("UnauthorizedAccessException", DOMAIN, metadata);
    Status::with_error_details(code, denied.to_string(), details)
}

/// Lets pass who has a key of the node, whatever it is good for: the API's description is nobody's
/// entity.
#[derive(Clone)]
pub(crate) struct KeyHolder {
    pub access: Access,
}

impl Interceptor for KeyHolder {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let request = ConnectionLimit.call(request)?;
        match self.access.permit(evidence(&request), "", &Right::ALL, &[], now_s()) {
            Ok(_) | Err(Denied::Right { .. }) => Ok(request),
            Err(denied) => Err(refused(&denied, "")),
        }
    }
}

/// What a request comes with.
fn evidence<T>(request: &Request<T>) -> Evidence<'_> {
    let authorization = request.metadata().get("authorization");
    let authorization = authorization.and_then(|given| given.to_str().ok());
    Evidence { authorization, certificate: certified(request).map(|shown| &**shown) }
}

fn certified<T>(request: &Request<T>) -> Option<&Arc<Certified>> {
    request.extensions().get::<ConnectionSlot>()?.certified.as_ref()
}

/// Tokens run out by the wall clock, whatever the cluster's time was moved to (ERR-25).
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}
