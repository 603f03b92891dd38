//! Proofs by keys of an entity's own rules (ENT-12). Whoever knows those is asked while the client
//! waits: for a token that no key of the node has signed, and for a link of a login with no key of the
//! node.

use std::collections::BTreeMap;
use std::time::Duration;

use amqp_protocol::codec::{Attach, Error};
use amqp_protocol::engine::{LinkId, SessionId};
use amqp_protocol::request::Envelope;
use auth::Key;
use bytestring::ByteString;
use service::Broker;
use tokio::time::sleep;

use super::access::Grants;
use super::address::Node;
use super::idle::IdleTimers;
use super::link_table::address_of;
use super::note::{Note, tell};
use super::requests::RequestLink;
use super::tasks::Tasks;
use super::{Shared, failure};
use crate::cbs::{Request, Status};
use crate::link_terms;

/// What waits for keys.
#[derive(Debug)]
pub(super) enum Proof {
    Token { from: RequestLink, envelope: Box<Envelope>, token: ByteString, audience: ByteString },
    Link(LinkId),
}

/// A link that was asked for and waits for keys.
pub(super) struct Unproved {
    pub session: SessionId,
    pub attach: Box<Attach>,
    /// What the client gave it, and whether it is to be drained, since it was asked for.
    pub credit: Option<(u32, bool)>,
}

/// The keys of the entity of each resource asked about.
pub(super) type Keys = Vec<(String, Vec<Key>)>;

/// What came of a proof.
pub(super) enum Proved {
    /// A token is answered.
    Token { from: RequestLink, envelope: Box<Envelope>, status: Status },
    /// A link may be attached, as far as its rights go.
    Link { id: LinkId, unproved: Unproved },
    /// Nobody knows whether it may.
    Refused { id: LinkId, attach: Box<Attach>, error: Error },
    /// The link has gone in the meantime.
    Gone,
}

pub(super) struct ProofHandler<'a> {
    pub shared: &'a Shared,
    pub grants: &'a mut Grants,
    /// Links that are asked for, and wait for the keys of their entities.
    pub unproved: &'a mut BTreeMap<LinkId, Unproved>,
    pub tasks: &'a mut Tasks,
    pub timers: &'a mut IdleTimers,
}

impl ProofHandler<'_> {
    /// Takes a token; `None`: it waits for keys.
    pub fn put_token(
        &mut self,
        from: RequestLink,
        envelope: Box<Envelope>,
        request: Request,
    ) -> Option<Proved> {
        let (token, audience) = match request {
            Request::PutToken { token, audience } => (token, audience),
            Request::Bad(status) => return Some(self.judged(from, envelope, status)),
        };
        let access = &self.shared.access_now();
        if let Some(status) = self.grants.hold(access, &token, &audience) {
            return Some(self.judged(from, envelope, status));
        }
        let status = match self.grants.put_token(access, &token, &audience, &[]) {
            Err(error) if error.is_for_want_of_a_key() => {
                let resources = vec![audience.to_string()];
                self.ask_for_keys(resources, Proof::Token { from, envelope, token, audience });
                return None;
            }
            Err(error) => {
                let refused = self.grants.refuse(error, &token, &audience);
                return self.refused(from, envelope, refused);
            }
            Ok(status) => status,
        };
        self.judged_for(&audience, from, envelope, status)
    }

    /// CBS-15: a good token for what does not exist is answered so. `None`: whoever knows what there is
    /// is asked first, as this node's own rows may be behind.
    fn judged_for(
        &mut self,
        audience: &str,
        from: RequestLink,
        envelope: Box<Envelope>,
        status: Status,
    ) -> Option<Proved> {
        let broker = &self.shared.broker;
        let name = entity_of(audience).filter(|name| broker.entities().known_here(name).is_none());
        let Some(name) = name.filter(|_| status.is_accepted()) else {
            return Some(self.judged(from, envelope, status));
        };
        self.tasks.request_began();
        let (broker, notes) = (broker.clone(), self.tasks.notes.clone());
        let address = address_in(audience, &name);
        self.tasks.spawn(async move {
            let status = match broker.entities().is_missing(&name).await {
                Ok(true) => Status::missing(&address),
                // Where nobody knows, the link is told more, if it is attached.
                Ok(false) | Err(_) => status,
            };
            tell(&notes, Note::Token { from, envelope, status }).await;
        });
        None
    }

    /// What was found out of a token's audience.
    pub fn on_token(
        &mut self,
        from: RequestLink,
        envelope: Box<Envelope>,
        status: Status,
    ) -> Proved {
        self.tasks.request_ended();
        self.judged(from, envelope, status)
    }

    /// Whether a link has to wait until it is known what the login is good for there. It is looked up
    /// for every link anew, so that a rule that was changed or removed opens none.
    pub fn waits_for_keys(&mut self, id: LinkId, attach: &Attach) -> bool {
        if !self.grants.has_claim() {
            return false;
        }
        let addresses = [address_of(attach), attach.property(link_terms::TRANSFER_DESTINATION)];
        let resources: Vec<String> = addresses.into_iter().flatten().map(str::to_owned).collect();
        self.ask_for_keys(resources, Proof::Link(id));
        true
    }

    fn ask_for_keys(&mut self, resources: Vec<String>, proof: Proof) {
        self.tasks.request_began();
        let (broker, notes) = (self.shared.broker.clone(), self.tasks.notes.clone());
        self.tasks.spawn(async move {
            let keys = keys_of(&broker, resources).await;
            tell(&notes, Note::Keys { proof, keys }).await;
        });
    }

    /// `None`: it waits on.
    pub fn on_keys(&mut self, proof: Proof, keys: Result<Keys, service::Error>) -> Option<Proved> {
        self.tasks.request_ended();
        Some(match proof {
            Proof::Token { from, envelope, token, audience } => {
                let status = match keys.map(|keys| self.judge(&token, &audience, keys)) {
                    Ok(Ok(status)) => status,
                    Ok(Err(refused)) => return self.refused(from, envelope, refused),
                    Err(error) => Status::later(&error.to_string()),
                };
                return self.judged_for(&audience, from, envelope, status);
            }
            Proof::Link(id) => {
                let Some(unproved) = self.unproved.remove(&id) else { return Some(Proved::Gone) };
                match keys {
                    Ok(keys) => {
                        for (resource, keys) in keys {
                            self.grants.redeem(&resource, &keys);
                        }
                        self.note_proof();
                        Proved::Link { id, unproved }
                    }
                    Err(error) => {
                        let (attach, error) = (unproved.attach, failure::error(&error));
                        Proved::Refused { id, attach, error }
                    }
                }
            }
        })
    }

    /// A token was not good. `None`: whoever put it waits for the answer, as he guesses.
    fn refused(
        &mut self,
        from: RequestLink,
        envelope: Box<Envelope>,
        (status, wait): (Status, Duration),
    ) -> Option<Proved> {
        if wait.is_zero() {
            return Some(self.judged(from, envelope, status));
        }
        self.tasks.request_began();
        let notes = self.tasks.notes.clone();
        self.tasks.spawn(async move {
            sleep(wait).await;
            tell(&notes, Note::Token { from, envelope, status }).await;
        });
        None
    }

    fn judge(
        &mut self,
        token: &str,
        audience: &str,
        keys: Keys,
    ) -> Result<Status, (Status, Duration)> {
        let own: Vec<Key> = keys.into_iter().flat_map(|(_, keys)| keys).collect();
        let put = self.grants.put_token(&self.shared.access_now(), token, audience, &own);
        put.map_err(|error| self.grants.refuse(error, token, audience))
    }

    fn judged(&mut self, from: RequestLink, envelope: Box<Envelope>, status: Status) -> Proved {
        self.note_proof();
        Proved::Token { from, envelope, status }
    }

    fn note_proof(&mut self) {
        if self.grants.is_proved(&self.shared.config.access) {
            self.timers.proved();
        }
    }
}

/// The entity that an audience names, if it names one.
fn entity_of(audience: &str) -> Option<String> {
    match Node::parse(audience).ok()? {
        Node::Cbs => None,
        Node::Entity(entity) | Node::Management(entity) => {
            let name = entity.name.trim_matches('/');
            Some(name.to_owned()).filter(|name| !name.is_empty() && !name.contains('$'))
        }
    }
}

/// Where a client looks for an entity, as Service Bus writes it.
fn address_in(audience: &str, name: &str) -> String {
    let authority = audience.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    authority.map_or_else(|| name.to_owned(), |host| format!("sb://{host}/{name}"))
}

async fn keys_of(broker: &Broker, resources: Vec<String>) -> Result<Keys, service::Error> {
    let mut found = Vec::new();
    for resource in resources {
        let keys = broker.entities().keys_of(&resource).await?;
        found.push((resource, keys));
    }
    Ok(found)
}
