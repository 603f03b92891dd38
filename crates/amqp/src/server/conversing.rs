//! Requests of the client and the replies to them: `$cbs` and `$management` (REQ-1 to REQ-9).

use std::collections::VecDeque;

use amqp_protocol::codec::Error;
use amqp_protocol::engine::{LinkId, SessionId};
use amqp_protocol::request::{Envelope, ReplyLink, reply_link};
use bytes::Bytes;
use domain::{Refusal, SessionToken};

use super::access;
use super::address::{Entity, Node};
use super::failure;
use super::links::{Kind, Link, Links};
use super::note::{Note, tell};
use super::requests::{self, Asked};
use crate::management::{Operation, Reply};
use crate::{cbs, condition, management};

/// Replies that wait for credit, per link: who asks and does not listen is detached.
const REPLIES_MAX: usize = 64;

impl Links {
    pub(super) fn on_request(&mut self, session: SessionId, node: Node, payload: &Bytes) {
        let limits = &self.shared.config.limits;
        let entity = match node {
            Node::Management(entity) => entity,
            Node::Cbs => {
                let Ok((envelope, request)) = cbs::decode(payload, limits) else { return };
                return self.put_token(session, envelope, request);
            }
            Node::Entity(_) => return,
        };
        // Who sends what is no message cannot be replied to.
        let Ok((envelope, operation)) = management::decode(payload, limits) else { return };
        let node = reply_node(&entity);
        let refused = |refusal| failure::refusal(refusal, &entity.name);
        let asked = operation.map_err(refused).and_then(|operation| {
            let right = requests::right(&operation);
            if !self.grants.allow(&self.shared.config.access, &node, right) {
                return Err(failure::unauthorized(access::name(right), &entity.name));
            }
            let session = self.session_of(&entity, &operation).map_err(refused)?;
            Ok(Asked { operation, session })
        });
        let envelope = Box::new(envelope);
        self.requests += 1;
        let notes = self.notes.clone();
        let (broker, limits) = (self.shared.broker.clone(), limits.clone());
        self.work.push(Box::pin(async move {
            let reply = match asked {
                Ok(asked) => requests::run(broker, entity, asked, limits).await,
                Err(error) => Reply::Refused(error),
            };
            tell(&notes, Note::Replied { session, node, envelope, reply });
        }));
    }

    /// What holds the session that an operation is about: a link of this connection (SESS-13).
    pub(super) fn session_of(
        &self,
        entity: &Entity,
        operation: &Operation,
    ) -> Result<Option<SessionToken>, Refusal> {
        let Some(wanted) = operation.held_session() else { return Ok(None) };
        let held = self.links.values().filter_map(|link| match &link.kind {
            Kind::Outlet(outlet) if outlet.entity.is_same(entity) => outlet.session.as_ref(),
            Kind::Outlet(_)
            | Kind::Intake(_)
            | Kind::Requests(_)
            | Kind::Replies(_)
            | Kind::Control => None,
        });
        match held.into_iter().find(|token| token.session.as_str() == wanted) {
            Some(token) => Ok(Some(token.clone())),
            None => Err(Refusal::SessionLockLost { session: Some(wanted.into()) }),
        }
    }

    /// REQ-3: the reply goes to the response link of the same session.
    pub(super) fn reply(
        &mut self,
        session: SessionId,
        node: &str,
        envelope: &Envelope,
        reply: Bytes,
    ) {
        let links = self.links.iter().filter(|(_, link)| {
            link.session == session && matches!(link.kind, Kind::Replies(_)) && link.is_of(node)
        });
        let links = links.map(|(id, link)| ReplyLink {
            link: *id,
            name: &link.attach.name,
            target: link.attach.target.as_ref().and_then(|target| target.address()),
        });
        let Some(id) = reply_link(links, envelope.reply_to()) else {
            return tracing::debug!(%node, "a reply finds no link");
        };
        let Some(waiting) = self.replies(id) else { return };
        if waiting.len() >= REPLIES_MAX {
            let why = "too many replies wait for credit on this link";
            return self.fail(id, Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why));
        }
        waiting.push_back(reply);
        self.send_replies(id);
    }

    fn replies(&mut self, id: LinkId) -> Option<&mut VecDeque<Bytes>> {
        match &mut self.links.get_mut(&id)?.kind {
            Kind::Replies(waiting) => Some(waiting),
            Kind::Intake(_) | Kind::Outlet(_) | Kind::Requests(_) | Kind::Control => None,
        }
    }
}

impl Link {
    fn is_of(&self, node: &str) -> bool {
        let path = |address| auth::resource_path(address);
        self.address().is_some_and(|address| path(address) == path(node))
    }
}

pub(super) fn reply_node(entity: &Entity) -> String {
    format!("{}{}", entity.path(), management::SUFFIX)
}
