//! The door to the broker: nobody has it who was not let in by a right for what he asks (ERR-17). The
//! services hold a [`Door`] and no broker, so that no method can leave the question out.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use audit::{Action, Caller, Protocol, Refused, Trail};
use auth::{Access, Certified, Denied, Evidence, JoinToken, Principal, Right, claimed_name};
use domain::{Namespace, Refusal};
use limits::{LinkRole, ListedLink, Load, Party, Slot};
use service::{Actor, Broker, KeyWatch, Transaction};
use tonic::service::Interceptor;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};
use wire::v1;

use crate::connection::ConnectionSlot;
use crate::connection_limit::ConnectionLimit;
use crate::right::{Ask, Need};
use crate::status::{DOMAIN, exceeded, outcome, status};

/// How often it is looked whether the token of a stream has run out.
const PROOF_LOOK_EVERY: Duration = Duration::from_secs(60);
/// And whether its key is gone, while nobody can tell.
const UNDECIDED_LOOK_EVERY: Duration = Duration::from_millis(400);

/// Lets in whoever proves a right for what he asks.
#[derive(Clone)]
pub(crate) struct Door {
    broker: Broker,
    access: Access,
    trail: Trail,
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
    /// The place of the connection.
    slot: Option<Slot>,
    /// What the audit calls the way he came.
    protocol: Protocol,
    /// Where what he asks for is; or why there is no such place.
    namespace: Result<Namespace, Box<service::Error>>,
}

/// Who asks, and may; and where.
struct Permitted {
    principal: Principal,
    namespace: Namespace,
}

/// The metadata that names a namespace (NS-5).
const NAMESPACE: &str = "mayfly-namespace";

/// Of a request that a page of this node makes for whoever looks at it: it came over HTTP.
#[derive(Clone, Copy)]
pub(crate) struct FromPage;

/// Somebody who was let in.
pub(crate) struct Admitted {
    pub broker: Broker,
    /// By whom what goes on is counted.
    pub party: Option<Party>,
    /// What was sent, until it is answered.
    pub load: Option<Load>,
}

impl Door {
    pub fn new(broker: Broker, access: Access, trail: Trail, keys: KeyWatch) -> Door {
        Door { broker, access, trail, keys }
    }

    pub async fn visitor<T>(&self, request: &Request<T>) -> Visitor {
        let Evidence { authorization, .. } = evidence(request);
        let proof = authorization.map(str::to_owned);
        let certified = certified(request).cloned();
        let slot = request.extensions().get::<ConnectionSlot>().and_then(|slot| slot.slot.clone());
        let protocol = match request.extensions().get::<FromPage>() {
            Some(FromPage) => Protocol::Http,
            None => Protocol::Grpc,
        };
        let named = request.metadata().get(NAMESPACE).map(|name| name.to_str().unwrap_or_default());
        let namespace = match named {
            Some(name) => self.broker.namespaces().named(name).await.map_err(Box::new),
            None => Ok(Namespace::DEFAULT),
        };
        let door = self.clone();
        Visitor { door, proof, certified, peer: peer(request), slot, protocol, namespace }
    }

    /// Whether anybody may do anything.
    pub fn is_open(&self) -> bool {
        self.access.is_anyone()
    }

    /// Serves a call, if its client may ask for it, and tells the audit what came of it.
    pub async fn call<M: Ask, T, F: Future<Output = Result<Response<T>, Status>>>(
        &self,
        request: Request<M>,
        serve: impl FnOnce(Broker, M) -> F,
    ) -> Result<Response<T>, Status> {
        let visitor = self.visitor(&request).await;
        let asked = request.into_inner();
        let permitted = visitor.permit(&asked).await?;
        let party = visitor.party(&permitted)?;
        let _load = charge(party.as_ref(), &asked)?;
        let broker = visitor.broker(&permitted);
        let Permitted { principal, namespace } = permitted;
        let entry = M::ACTION.map(|action| {
            let object = asked.object().unwrap_or_else(|| {
                asked.needs().into_iter().next().map(|need| need.path).unwrap_or_default()
            });
            self.trail.begin(visitor.caller(Some(principal), namespace), action, &object)
        });
        let answer = serve(broker, asked).await;
        if let Some(entry) = entry {
            entry.end(outcome(&answer));
        }
        answer
    }
}

impl Door {
    /// As [`Door::call`], of what comes as a stream, which the first item says what is asked with.
    pub async fn call_streaming<S, M: Ask, T, F: Future<Output = Result<Response<T>, Status>>>(
        &self,
        request: Request<Streaming<S>>,
        first: impl FnOnce(S) -> Option<M>,
        serve: impl FnOnce(Broker, M, Streaming<S>) -> F,
    ) -> Result<Response<T>, Status> {
        let (metadata, extensions, mut items) = request.into_parts();
        let asked = items.message().await?.and_then(first).ok_or_else(|| {
            let why = format!("{} begins with what it is about", M::METHOD);
            crate::status::refused(Refusal::Argument { what: "request", why }, "")
        })?;
        let asked = Request::from_parts(metadata, extensions, asked);
        self.call(asked, |broker, asked| serve(broker, asked, items)).await
    }
}

/// Of a node that asks to be let in.
pub(crate) struct Knock<'a> {
    pub token: u64,
    /// For the audit.
    pub who: &'a str,
}

impl Door {
    /// What takes a join token and no other proof.
    pub const JOIN: &'static str = "Cluster/Join";

    /// Lets a node be served that has a join token; `serve` knows whether it is good. Whoever has none waits
    /// as for a wrong key.
    pub async fn join<T, F: Future<Output = Result<Result<T, Denied>, Status>>>(
        &self,
        visitor: Visitor,
        knock: Knock<'_>,
        serve: impl FnOnce(Broker) -> F,
    ) -> Result<Response<T>, Status> {
        let Visitor { peer, .. } = visitor;
        let id = JoinToken::show_id(knock.token);
        let claimed = Some(id.as_str());
        if let Err(held) = self.trail.admit(peer, claimed) {
            return Err(self.refuse_token(peer, claimed, &held).await);
        }
        let principal = Some(Principal::JoinToken { id: id.as_str().into() });
        let caller = visitor.caller(principal, Namespace::DEFAULT);
        let entry = self.trail.begin(caller, Action::NodeAdd, knock.who);
        let answer = match serve(self.broker.clone()).await {
            Ok(Err(denied)) => {
                entry.withdraw();
                return Err(self.refuse_token(peer, claimed, &denied).await);
            }
            Ok(Ok(joined)) => Ok(Response::new(joined)),
            Err(status) => Err(status),
        };
        entry.end(outcome(&answer));
        answer
    }

    async fn refuse_token(
        &self,
        peer: Option<SocketAddr>,
        claimed: Option<&str>,
        denied: &Denied,
    ) -> Status {
        let (protocol, path, method) = (Protocol::Grpc, "", Door::JOIN);
        let namespace = &Namespace::DEFAULT;
        let told = Refused { protocol, peer, denied, claimed, path, method, namespace };
        tokio::time::sleep(self.trail.refuse(&told)).await;
        refused(denied, path)
    }
}

impl Visitor {
    /// The way in for what is asked over a stream: what the audit is told of is a call by itself.
    pub async fn admit<M: Ask>(&self, asked: &M) -> Result<Admitted, Status> {
        const { assert!(M::ACTION.is_none(), "the audit is told of it by Door::call") };
        let permitted = self.permit(asked).await?;
        let party = self.party(&permitted)?;
        let load = charge(party.as_ref(), asked)?;
        Ok(Admitted { broker: self.broker(&permitted), party, load })
    }

    /// For what he asks for.
    fn broker(&self, permitted: &Permitted) -> Broker {
        let Permitted { principal, namespace } = permitted;
        let broker = self.door.broker.within(namespace.clone());
        let Some(slot) = &self.slot else { return broker };
        broker.acting_for(|| Actor {
            connection: slot.id().to_string(),
            key_name: principal.key_name().unwrap_or_default().to_owned(),
        })
    }

    /// A transaction with nothing in it: each step of it is admitted by itself.
    pub fn begin(&self) -> Result<Transaction, Status> {
        let broker = self.door.broker.within(self.namespace()?.clone());
        broker.check_transactions().map_err(|error| status(&error))?;
        Ok(broker.transactions().begin())
    }

    /// NS-5: refused where there is none of the name that was asked for.
    fn namespace(&self) -> Result<&Namespace, Status> {
        self.namespace.as_ref().map_err(|error| status(error))
    }

    /// A stream was opened; it is listed with its connection until what is returned is dropped.
    pub fn list_stream(&self, role: LinkRole, entity: &str) -> Option<ListedLink> {
        self.slot.as_ref().map(|slot| slot.list_link(role, entity))
    }

    fn party(
        &self,
        Permitted { principal, namespace }: &Permitted,
    ) -> Result<Option<Party>, Status> {
        let of = |slot: &Slot| slot.party(principal, namespace.as_str());
        self.slot.as_ref().map(of).transpose().map_err(|over| exceeded(&over, ""))
    }

    /// Resolves once what was asked may be asked no more, as a key was removed or exchanged, or the token
    /// has run out; with what to say then.
    pub async fn is_shut_out<M: Ask>(&self, asked: M) -> Status {
        let Door { access, keys, .. } = &self.door;
        let Some(namespace) = self.namespace().ok().filter(|_| !access.is_anyone()) else {
            return std::future::pending().await;
        };
        let mut keys = keys.clone();
        // Which of them is the right one is seen when one changes.
        let entities = asked.needs();
        let entities = entities.iter().map(|need| auth::entity_path(&need.path));
        let entities = entities.filter_map(|entity| namespace.qualify(entity).ok());
        let _kept: Vec<_> = entities.map(|entity| keys.keep(&entity)).collect();
        let mut look_in = PROOF_LOOK_EVERY;
        loop {
            tokio::select! {
                () = keys.changed() => {}
                () = tokio::time::sleep(look_in) => {}
            }
            look_in = PROOF_LOOK_EVERY;
            for need in asked.needs() {
                match self.known(&need).await {
                    Ok(Ok(_)) => (),
                    Ok(Err(denied)) => return refused(&denied, &need.path),
                    // Nobody knows at present, and what is open stays.
                    Err(_) => look_in = UNDECIDED_LOOK_EVERY,
                }
            }
        }
    }

    /// Who asks, if he may.
    async fn permit<M: Ask>(&self, asked: &M) -> Result<Permitted, Status> {
        let namespace = self.namespace()?.clone();
        if self.door.access.is_anyone() {
            return Ok(Permitted { principal: Principal::Anyone, namespace });
        }
        let mut needs = asked.needs();
        // A commit names the same entity with each of its operations.
        needs.sort_unstable();
        needs.dedup();
        let mut principal = Principal::Anyone;
        for need in needs {
            principal = self.meet(need, M::METHOD).await?;
        }
        Ok(Permitted { principal, namespace })
    }

    fn caller(&self, principal: Option<Principal>, namespace: Namespace) -> Caller {
        Caller { protocol: self.protocol, address: self.peer, principal, namespace }
    }

    /// Who has sent the proof, whatever it is good for there; whoever guesses waits.
    pub async fn identify(&self, need: Need, method: &str) -> Result<Principal, Status> {
        if self.door.access.is_anyone() {
            return Ok(Principal::Anyone);
        }
        let known = match &self.proof {
            // Only a guess costs.
            Some(proof) => {
                let claimed = claimed_name(proof);
                match self.door.trail.admit(self.peer, claimed.as_deref()) {
                    Ok(()) => self.known(&need).await?,
                    Err(_) => return self.meet(need, method).await,
                }
            }
            None => self.known(&need).await?,
        };
        match known {
            Ok(principal) | Err(Denied::Right { principal, .. }) => Ok(principal),
            Err(_) => self.meet(need, method).await,
        }
    }

    /// Whether he may. Nobody is told of it.
    pub async fn may(&self, need: Need) -> bool {
        let Door { access, trail, .. } = &self.door;
        if access.is_anyone() {
            return true;
        }
        let claimed = self.proof.as_deref().and_then(claimed_name);
        trail.admit(self.peer, claimed.as_deref()).is_ok()
            && matches!(self.known(&need).await, Ok(Ok(_)))
    }

    /// Lets in, or tells of a refusal; whoever guesses waits for it.
    async fn meet(&self, need: Need, method: &str) -> Result<Principal, Status> {
        let trail = &self.door.trail;
        let authorization = self.proof.as_deref();
        let claimed = authorization.and_then(claimed_name);
        let claimed = claimed.as_deref();
        // A certificate is guessed by nobody.
        let admitted = authorization.map_or(Ok(()), |_| trail.admit(self.peer, claimed));
        let known = match admitted {
            Ok(()) => self.known(&need).await?,
            Err(held) => Err(held),
        };
        match known {
            Ok(principal) => Ok(principal),
            Err(denied) => {
                let (protocol, peer, denied, path) =
                    (self.protocol, self.peer, &denied, &*need.path);
                let namespace = self.namespace()?;
                let told = Refused { protocol, peer, denied, claimed, path, method, namespace };
                tokio::time::sleep(trail.refuse(&told)).await;
                Err(refused(denied, path))
            }
        }
    }

    /// By the keys of the node, or where none of them will do by the entity's own (ENT-12).
    async fn known(&self, need: &Need) -> Result<Result<Principal, Denied>, Status> {
        let Need { path, any_of } = need;
        let Door { broker, keys, .. } = &self.door;
        let namespace = self.namespace()?;
        let of = match any_of.iter().any(|right| right.is_of_cluster()) {
            true => &Namespace::DEFAULT,
            false => namespace,
        };
        let (access, broker) = (keys.access(of), broker.within(namespace.clone()));
        let (authorization, certificate) = (self.proof.as_deref(), self.certified.as_deref());
        let given = Evidence { authorization, certificate };
        let permit = |own: &[auth::Key]| access.permit(given, path, any_of, own, now_s());
        let granted = match permit(&[]) {
            Err(denied) if denied.is_for_want_of_a_key() => {
                let own = broker.entities().keys_of(path).await;
                permit(&own.map_err(|error| status(&error))?)
            }
            permitted => permitted,
        };
        Ok(granted.map(|grant| grant.principal))
    }
}

/// Counts what is asked for; or it is not done, as it is too much.
pub(crate) fn charge<M: Ask>(party: Option<&Party>, asked: &M) -> Result<Option<Load>, Status> {
    let Some(party) = party else { return Ok(None) };
    let load = party.ask(asked.credits()).and_then(|()| {
        if M::ACTION == Some(Action::EntityCreate) {
            party.create()?;
        }
        party.carry(asked.encoded_len())
    });
    match load {
        Ok(load) => Ok(Some(load)),
        Err(over) => {
            let path = asked.needs().into_iter().next().map(|need| need.path).unwrap_or_default();
            Err(exceeded(&over, &path))
        }
    }
}

/// Where a request comes from.
fn peer<T>(request: &Request<T>) -> Option<SocketAddr> {
    request.extensions().get::<ConnectionSlot>().and_then(|slot| slot.peer)
}

/// What a refusal is on the wire: who is not known from who is known and may not.
fn refused(denied: &Denied, path: &str) -> Status {
    let (code, name, rule, retry) = match denied {
        Denied::Nothing | Denied::Proof(_) | Denied::Certificate(_) | Denied::JoinToken { .. } => {
            (Code::Unauthenticated, "UnauthorizedAccessException", "ERR-17", v1::Retry::No)
        }
        Denied::Right { .. } => {
            (Code::PermissionDenied, "UnauthorizedAccessException", "ERR-17", v1::Retry::No)
        }
        Denied::Held(_) => (Code::ResourceExhausted, "ServiceBusy", "ERR-11", v1::Retry::No),
    };
    let metadata = HashMap::from([
        ("rule".to_owned(), rule.to_owned()),
        ("entity".to_owned(), domain::Excerpt(path).to_string()),
        ("tracking_id".to_owned(), service::draw_message_id()),
        ("retry".to_owned(), retry.as_str_name().to_owned()),
    ]);
    let mut details = ErrorDetails::with_error_info(name, DOMAIN, metadata);
    if let Denied::Held(held) = denied {
        details.set_retry_info(Some(Duration::from_millis(held.wait_ms)));
    }
    Status::with_error_details(code, denied.to_string(), details)
}

/// Lets pass who has a key of the node, whatever it is good for: the API's description is nobody's
/// entity.
#[derive(Clone)]
pub(crate) struct KeyHolder {
    pub access: Access,
    pub trail: Trail,
}

impl Interceptor for KeyHolder {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let request = ConnectionLimit.call(request)?;
        let given = evidence(&request);
        let claimed = given.authorization.and_then(claimed_name);
        let permit = || self.access.permit(given, "", &Right::ALL, &[], now_s());
        let peer = peer(&request);
        let admitted =
            given.authorization.map_or(Ok(()), |_| self.trail.admit(peer, claimed.as_deref()));
        match admitted.and_then(|()| permit()) {
            Ok(_) | Err(Denied::Right { .. }) => Ok(request),
            Err(denied) => {
                let (protocol, path, method) = (Protocol::Grpc, "", "reflection");
                let (denied, claimed) = (&denied, claimed.as_deref());
                // There is no waiting here; with too many he is held all the same.
                let namespace = &Namespace::DEFAULT;
                let told = Refused { protocol, peer, denied, claimed, path, method, namespace };
                let _ = self.trail.refuse(&told);
                Err(refused(denied, ""))
            }
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
