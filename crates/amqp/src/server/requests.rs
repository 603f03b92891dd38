//! Requests to `$management` and the replies to them (REQ-1 to REQ-9).

use amqp_protocol::codec::{DecodeError, Error};
use amqp_protocol::engine::{LinkId, SessionId, TooLarge};
use amqp_protocol::request::{Envelope, ReplyLink, reply_link};
use domain::{Excerpt, Refusal, SessionToken};
use limits::{MANAGEMENT_CREDITS, Slot};

use super::access::Grants;
use super::address::Entity;
use super::fates::RequestFault;
use super::link_table::{Kind, LinkTable};
use super::note::{Note, tell};
use super::operations::{self, PermittedOperation};
use super::tasks::Tasks;
use super::{Shared, failure};
use crate::condition;
use crate::management::{self, Operation, Reply};

/// Who asked: the link that a request came over, and its session.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLink {
    pub session: SessionId,
    pub link: LinkId,
}

/// What an operation costs (QUOTA-34).
pub(super) fn credits(operation: &Operation) -> u64 {
    match operation {
        Operation::Schedule { messages } => messages.len() as u64,
        Operation::AddRule { .. }
        | Operation::RemoveRule { .. }
        | Operation::EnumerateRules { .. } => MANAGEMENT_CREDITS,
        Operation::RenewLock { .. }
        | Operation::Peek { .. }
        | Operation::CancelScheduled { .. }
        | Operation::ReceiveBySequence { .. }
        | Operation::UpdateDisposition { .. }
        | Operation::RenewSessionLock { .. }
        | Operation::SetSessionState { .. }
        | Operation::GetSessionState { .. }
        | Operation::GetMessageSessions { .. }
        | Operation::BatchDelete { .. } => 1,
    }
}

/// Replies that wait for credit, per link: who asks and does not listen is detached.
pub(super) const REPLIES_MAX: usize = 64;

pub(super) struct RequestHandler<'a> {
    pub shared: &'a Shared,
    pub grants: &'a Grants,
    pub table: &'a LinkTable,
    pub tasks: &'a mut Tasks,
    /// The place of the connection.
    pub slot: Option<&'a Slot>,
}

impl RequestHandler<'_> {
    pub fn on_request(
        &mut self,
        from: RequestLink,
        entity: Entity,
        envelope: Envelope,
        operation: Result<Result<Operation, Refusal>, Error>,
        fault: RequestFault,
    ) {
        let node = reply_node(&entity);
        let refused = |refusal| failure::refusal(refusal, &entity.name);
        let operation = operation.and_then(|operation| operation.map_err(refused));
        let permitted = operation.and_then(|operation| {
            let right = operations::right(&operation);
            let access = &self.shared.config.access;
            let holder = self.grants.permit(access, &node, right, &node)?;
            let audited = operations::audited(&operation, &entity);
            let begin = |(action, on): (_, String)| {
                self.grants.trail.begin(self.grants.caller(holder), action, &on)
            };
            let entry = audited.map(begin);
            let settled_in = settled_in(self.table, &entity, &operation);
            let session = session_of(self.table, &entity, &operation).map_err(refused)?;
            Ok(PermittedOperation { operation, session: session.or(settled_in), entry })
        });
        let envelope = Box::new(envelope);
        self.tasks.request_began();
        let notes = self.tasks.notes.clone();
        let (broker, limits) =
            (self.shared.broker_for(self.slot), self.shared.config.limits.clone());
        let is_large =
            permitted.as_ref().is_ok_and(|permitted| permitted.operation.reply_may_be_large());
        let turns = is_large.then(|| self.tasks.turns.clone());
        self.tasks.spawn(async move {
            let turn = match turns {
                // It is never closed.
                Some(turns) => turns.acquire_owned().await.ok(),
                None => None,
            };
            fault.hold_up(fault.before).await;
            let reply = match permitted {
                Ok(permitted) => operations::run(broker, entity, permitted, limits).await,
                Err(error) => Reply::Refused(error),
            };
            fault.hold_up(fault.after).await;
            let note = match fault.answer_is_lost {
                true => Note::ReplyLost,
                false => Note::Replied { from, node, envelope, reply, turn },
            };
            tell(&notes, note).await;
        });
    }
}

/// What holds the session that an operation is about: a link of this connection (SESS-13).
pub(super) fn session_of(
    table: &LinkTable,
    entity: &Entity,
    operation: &Operation,
) -> Result<Option<SessionToken>, Refusal> {
    let Some(wanted) = operation.held_session() else { return Ok(None) };
    match held(table, entity).find(|token| token.session.as_str() == wanted) {
        Some(token) => Ok(Some(token.clone())),
        None => Err(Refusal::SessionLockLost { session: Some(wanted.into()) }),
    }
}

/// The session that a settlement is about, as far as its client says it: it names one that a link of this
/// connection holds, or holds but one of the entity. Tokens do without (LOCK-17); it is for who is told that
/// a lock is lost (SESS-13).
pub(super) fn settled_in(
    table: &LinkTable,
    entity: &Entity,
    operation: &Operation,
) -> Option<SessionToken> {
    let Operation::UpdateDisposition { session_id, .. } = operation else { return None };
    let mut held = held(table, entity);
    match session_id {
        Some(named) => held.find(|token| token.session.as_str() == named).cloned(),
        None => {
            let only = held.next()?;
            held.next().is_none().then(|| only.clone())
        }
    }
}

/// The sessions of an entity that links of this connection hold.
fn held<'a>(
    table: &'a LinkTable,
    entity: &'a Entity,
) -> impl Iterator<Item = &'a SessionToken> + use<'a> {
    table.iter().filter_map(move |(_, link)| match &link.kind {
        Kind::Outgoing(outgoing) if outgoing.entity.is_same(entity) => outgoing.session.as_ref(),
        Kind::Outgoing(_)
        | Kind::Incoming(_)
        | Kind::Relay(_)
        | Kind::Requests(_)
        | Kind::Replies(_)
        | Kind::Control => None,
    })
}

/// Says in a request which link it is about: that one is used (ERR-22).
pub(super) const ASSOCIATED_LINK: &str = "associated-link-name";

/// ERR-9.
pub(super) fn too_large(large: &TooLarge) -> Refusal {
    Refusal::MessageSizeExceeded { what: "the request", bytes: large.bytes, max: large.max }
}

/// ERR-32.
pub(super) fn undecodable(error: DecodeError) -> Refusal {
    Refusal::Undecodable { what: "the request", why: error.to_string() }
}

/// REQ-3: the reply goes to the response link of the same session.
///
/// # Errors
/// What the request's link ends with, if there is no such link (REQ-31).
pub(super) fn link_for(
    table: &LinkTable,
    session: SessionId,
    node: &str,
    reply_to: Option<&str>,
) -> Result<LinkId, Error> {
    let links = table.iter().filter(|(_, link)| {
        link.session == session && matches!(link.kind, Kind::Replies(_)) && link.is_of(node)
    });
    let links = links.map(|(id, link)| ReplyLink {
        link: id,
        name: &link.attach.name,
        target: link.attach.target.as_ref().and_then(|target| target.address()),
    });
    reply_link(links, reply_to).ok_or_else(|| {
        let sentence = format!(
            "the reply to '{}' finds no link: this session has no receiver from '{}' with that \
             target or name, and not one alone; attach one before asking (what was asked may be done)",
            Excerpt(reply_to.unwrap_or_default()),
            Excerpt(node)
        );
        failure::told(condition::NOT_ALLOWED, &sentence, node)
    })
}

pub(super) fn reply_node(entity: &Entity) -> String {
    format!("{}{}", entity.path(), management::SUFFIX)
}
