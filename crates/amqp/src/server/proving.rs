//! Proofs by keys of an entity's own rules (ENT-12). Whoever knows those is asked while the client
//! waits: for a token that no key of the node has signed, and for a link of a login with no key of the
//! node.

use amqp_protocol::codec::Attach;
use amqp_protocol::engine::{LinkId, SessionId};
use amqp_protocol::request::Envelope;
use auth::Key;
use bytestring::ByteString;
use service::Broker;

use super::coordinator::TRANSFER_DESTINATION;
use super::failure;
use super::links::{Links, address_of};
use super::note::{Note, tell};
use crate::cbs::{self, Request, Status};

/// What waits for keys.
#[derive(Debug)]
pub(super) enum Proof {
    Token { session: SessionId, envelope: Box<Envelope>, token: ByteString, audience: ByteString },
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

impl Links {
    pub(super) fn put_token(&mut self, session: SessionId, envelope: Envelope, request: Request) {
        let (token, audience) = match request {
            Request::PutToken { token, audience } => (token, audience),
            Request::Bad(status) => return self.answer_token(session, &envelope, &status),
        };
        let access = &self.shared.config.access;
        match self.grants.put_token(access, &token, &audience, &[]) {
            Err(error) if error.is_for_want_of_a_key() => {
                let (resources, envelope) = (vec![audience.to_string()], Box::new(envelope));
                self.ask_for_keys(resources, Proof::Token { session, envelope, token, audience });
            }
            Err(error) => {
                let status = self.grants.refuse(error);
                self.answer_token(session, &envelope, &status);
            }
            Ok(status) => self.answer_token(session, &envelope, &status),
        }
    }

    /// Whether a link has to wait until it is known what the login is good for there. It is looked up
    /// for every link anew, so that a rule that was changed or removed opens none.
    pub(super) fn waits_for_keys(&mut self, id: LinkId, attach: &Attach) -> bool {
        if !self.grants.has_claim() {
            return false;
        }
        let addresses = [address_of(attach), attach.property(TRANSFER_DESTINATION)];
        let resources: Vec<String> = addresses.into_iter().flatten().map(str::to_owned).collect();
        self.ask_for_keys(resources, Proof::Link(id));
        true
    }

    fn ask_for_keys(&mut self, resources: Vec<String>, proof: Proof) {
        self.requests += 1;
        let (broker, notes) = (self.shared.broker.clone(), self.notes.clone());
        self.work.push(Box::pin(async move {
            let keys = keys_of(&broker, resources).await;
            tell(&notes, Note::Keys { proof, keys });
        }));
    }

    pub(super) fn on_keys(&mut self, proof: Proof, keys: Result<Keys, service::Error>) {
        self.requests -= 1;
        match proof {
            Proof::Token { session, envelope, token, audience } => {
                let status = match keys {
                    Ok(keys) => self.judge(&token, &audience, keys),
                    Err(error) => Status::later(&error.to_string()),
                };
                self.answer_token(session, &envelope, &status);
            }
            Proof::Link(id) => {
                // It may have gone in the meantime.
                let Some(waiting) = self.unproved.remove(&id) else { return };
                let Unproved { session, attach, credit } = waiting;
                match keys {
                    Ok(keys) => {
                        for (resource, keys) in keys {
                            self.grants.redeem(&resource, &keys);
                        }
                        self.note_proof();
                        self.attach(session, id, attach);
                        if let Some((credit, drain)) = credit {
                            self.on_credit(id, credit, drain);
                        }
                    }
                    Err(error) => {
                        let reply = attach.reply(self.shared.config.limits.message_bytes_max);
                        let _ = self.engine.refuse(id, reply, failure::error(&error));
                    }
                }
            }
        }
    }

    fn judge(&mut self, token: &str, audience: &str, keys: Keys) -> Status {
        let own: Vec<Key> = keys.into_iter().flat_map(|(_, keys)| keys).collect();
        let put = self.grants.put_token(&self.shared.config.access, token, audience, &own);
        put.unwrap_or_else(|error| self.grants.refuse(error))
    }

    fn answer_token(&mut self, session: SessionId, envelope: &Envelope, status: &Status) {
        self.note_proof();
        let reply = status.reply(envelope, &mut self.scratch);
        self.reply(session, cbs::ADDRESS, envelope, reply);
    }

    fn note_proof(&mut self) {
        if self.grants.is_proved(&self.shared.config.access) {
            self.idling.proved();
        }
    }
}

async fn keys_of(broker: &Broker, resources: Vec<String>) -> Result<Keys, service::Error> {
    let mut found = Vec::new();
    for resource in resources {
        let keys = broker.keys_of(&resource).await?;
        found.push((resource, keys));
    }
    Ok(found)
}
