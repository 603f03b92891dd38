//! Sessions: who holds which, what they are handed, and what is given back.

use std::collections::BTreeSet;

use domain::{
    AcceptSession, Command, Delivery, EntityId, EntityStatus, Key, LockRow, LockToken, MemoryRows,
    Outcome, QueueId, ReceiverId, Refusal, ResumeSession, Row, SessionCommand, SessionId,
    SessionToken, SubQueue,
};

use super::{Message, MessageId, Oracle, Place, deliveries, of};
use crate::invariants::one_holder::{self, Hold};
use crate::invariants::order;
use crate::report::Holds;

impl Oracle {
    /// It was done.
    pub(super) fn session_command(&mut self, command: &SessionCommand, outcome: &Outcome) -> Holds {
        match command {
            SessionCommand::Accept(accept) => self.accepted_session(accept, outcome),
            SessionCommand::Receive(receive) => {
                let taken = deliveries(outcome);
                self.holds(receive.entity, &receive.token)?;
                order::of_session(self, receive.entity, &receive.token.session, taken)?;
                self.delivered_in(receive.entity, &receive.token, receive.receiver, taken, false)
            }
            SessionCommand::ReceiveDeferred(receive) => {
                let taken = deliveries(outcome);
                self.holds(receive.entity, &receive.token)?;
                self.delivered_in(receive.entity, &receive.token, receive.receiver, taken, true)
            }
            SessionCommand::Resume(resume) => self.resumed(resume),
            SessionCommand::Renew(renew) => {
                self.holds(renew.entity, &renew.token)?;
                let until = self.at.plus(self.entity(renew.entity)?.properties.lock_duration);
                if *outcome != (Outcome::Renewed { until: vec![until] }) {
                    let what = format!("{renew:?} was answered {outcome:?}, expected {until:?}");
                    return Err(one_holder::broken(what));
                }
                let key = (renew.entity, renew.token.session.clone());
                if let Some(hold) = self.sessions.get_mut(&key) {
                    hold.until = until;
                }
                self.in_hands(&key, &mut |lock| lock.map(|lock| LockRow { until, ..lock }));
                Ok(())
            }
            SessionCommand::Release(release) => {
                self.holds(release.entity, &release.token)?;
                let key = (release.entity, release.token.session.clone());
                self.in_hands(&key, &mut |_| None); // SESS-12: without counting.
                self.sessions.remove(&key);
                self.totals.sessions_released += 1;
                Ok(())
            }
            SessionCommand::SetState(set) => {
                self.holds(set.entity, &set.token)?;
                let key = (set.entity, set.token.session.clone());
                match &set.state {
                    Some(state) => drop(self.states.insert(key, state.clone())),
                    None => drop(self.states.remove(&key)),
                }
                Ok(())
            }
            // No client of the simulation asks for it.
            SessionCommand::DeleteBatch(_) => Ok(()),
            // `reconcile` finds what it did.
            SessionCommand::Fire(_) => Ok(()),
        }
    }

    fn accepted_session(&mut self, accept: &AcceptSession, outcome: &Outcome) -> Holds {
        let Outcome::Accepted { token, until } = outcome else {
            let what = format!("{accept:?} was answered {outcome:?}");
            return Err(one_holder::broken(what));
        };
        let entity = accept.queue.entity;
        let expected = self.at.plus(self.entity(entity)?.properties.lock_duration);
        let key = (entity, token.session.clone());
        let hold = Hold { nonce: token.nonce, until: *until, receiver: accept.receiver };
        let before = self.sessions.get(&key);
        one_holder::granted(&token.session, before, &hold, (self.at, expected))?;
        if accept.session.as_ref().is_some_and(|asked| *asked != token.session) {
            return Err(one_holder::broken(format!("{accept:?} was answered {outcome:?}")));
        }
        // SESS-7: the next in line has something to hand out.
        if accept.session.is_none() && !self.has_available(entity, &token.session) {
            let what = format!("{} was next, but has nothing available", token.session);
            return Err(one_holder::broken(what));
        }
        self.sessions.insert(key, hold);
        self.totals.sessions_accepted += 1;
        Ok(())
    }

    /// Whether a session has something to hand out, now that nothing is under way; and whether it is
    /// held, and by which token.
    pub fn ready_sessions(&self) -> Vec<(EntityId, SessionId, Option<u64>)> {
        let ready = self.messages.iter().filter_map(|((entity, _), message)| {
            let is_ready =
                message.is_in(SubQueue::Main) && !message.deferred && message.lock.is_none();
            Some((*entity, message.session.clone().filter(|_| is_ready)?))
        });
        let ready: BTreeSet<(EntityId, SessionId)> = ready.collect();
        let receives = |id: &EntityId| {
            let entity = self.entities.get(id);
            entity.is_some_and(|entity| entity.properties.status == EntityStatus::Active)
        };
        let ready = ready.into_iter().filter(|(entity, _)| receives(entity)).map(|key| {
            let nonce = self.sessions.get(&key).map(|hold| hold.nonce);
            (key.0, key.1, nonce)
        });
        ready.collect()
    }

    /// What the same entry activated before is not known yet.
    fn has_available(&self, entity: EntityId, session: &SessionId) -> bool {
        let at = self.at;
        let is_available = |message: &Message| match message.place {
            Place::Scheduled { due } => due <= at,
            Place::In(SubQueue::Main) => {
                !message.deferred && message.lock.is_none_or(|lock| lock.until <= at)
            }
            Place::In(_) => false,
        };
        let mut all = self.messages.range(of(entity));
        all.any(|(_, of)| of.session.as_ref() == Some(session) && is_available(of))
    }

    /// What was refused of sessions was refused for a reason.
    pub(super) fn refused_session(&mut self, command: &Command, refusal: &Refusal) -> Holds {
        let Command::Session(command) = command else { return Ok(()) };
        match (command, refusal) {
            (SessionCommand::Accept(accept), Refusal::SessionCannotBeLocked { session }) => {
                let hold = self.sessions.get(&(accept.queue.entity, session.clone()));
                one_holder::taken(session, hold, self.at)
            }
            // DEFER-10: what was asked for is of another session.
            (
                SessionCommand::ReceiveDeferred(receive),
                Refusal::SessionLockLost { session: Some(other) },
            ) if *other != receive.token.session => Ok(()),
            (_, Refusal::SessionLockLost { .. }) => {
                self.totals.locks_refused += 1;
                let Some((entity, token)) = token(command) else { return Ok(()) };
                let hold = self.sessions.get(&(entity, token.session.clone()));
                one_holder::refused(&token.session, hold, token.nonce, self.at)
            }
            _ => Ok(()),
        }
    }

    fn holds(&self, entity: EntityId, token: &SessionToken) -> Holds {
        let hold = self.sessions.get(&(entity, token.session.clone()));
        one_holder::held(&token.session, hold, token.nonce, self.at)
    }

    /// SESS-10: under the session's lock, and of this session.
    fn delivered_in(
        &mut self,
        entity: EntityId,
        token: &SessionToken,
        receiver: ReceiverId,
        taken: &[Delivery],
        deferred: bool,
    ) -> Holds {
        let hold = self.sessions.get(&(entity, token.session.clone()));
        let Some(until) = hold.map(|hold| hold.until) else { return Ok(()) };
        self.delivered(QueueId::main(entity), receiver, taken, deferred, Some(until))?;
        for delivery in taken {
            let message = self.find(QueueId::main(entity), delivery.sequence);
            let session = message.and_then(|message| message.session.as_ref());
            if session != Some(&token.session) {
                let what = format!("{delivery:?} was handed out in session {}", token.session);
                return Err(one_holder::broken(what));
            }
        }
        Ok(())
    }

    /// LOCK-20: what did not arrive was never delivered.
    fn resumed(&mut self, resume: &ResumeSession) -> Holds {
        self.holds(resume.entity, &resume.token)?;
        let key = (resume.entity, resume.token.session.clone());
        let ResumeSession { receiver, arrived, .. } = resume;
        let live = self.messages_in_hands(&key);
        for id in live {
            let Some(message) = self.messages.get_mut(&id) else { continue };
            let Some(lock) = message.lock else { continue };
            let earlier = (lock.receiver.node, lock.receiver.link)
                == (receiver.node, receiver.link)
                && lock.receiver.epoch < receiver.epoch;
            let token = LockToken { sequence: message.sequence, nonce: lock.nonce };
            if earlier && !arrived.contains(&token) {
                message.lock = None;
            }
        }
        Ok(())
    }

    /// Messages under delivery in a session that is held: those of an earlier hold have lapsed.
    fn messages_in_hands(&self, (entity, session): &(EntityId, SessionId)) -> Vec<MessageId> {
        let in_hands = |message: &Message| {
            message.session.as_ref() == Some(session)
                && message.lock.is_some_and(|lock| self.at < lock.until)
        };
        let all = self.messages.range(of(*entity)).filter(|(_, message)| in_hands(message));
        all.map(|(id, _)| *id).collect()
    }

    fn in_hands(
        &mut self,
        key: &(EntityId, SessionId),
        change: &mut dyn FnMut(Option<LockRow>) -> Option<LockRow>,
    ) {
        for id in self.messages_in_hands(key) {
            if let Some(message) = self.messages.get_mut(&id) {
                message.lock = change(message.lock);
            }
        }
    }

    pub(super) fn forget_sessions(&mut self, id: EntityId) {
        self.sessions.retain(|(entity, _), _| *entity != id);
        self.states.retain(|(entity, _), _| *entity != id);
    }

    /// What rows say of holds and states is what is known; where a hold is gone, its time was up.
    pub(super) fn reconcile_sessions(&mut self, rows: &MemoryRows) -> Holds {
        let first = Key::Session(EntityId(0), SessionId::first());
        let last = Key::Session(EntityId(u64::MAX), SessionId::first());
        let mut known = std::mem::take(&mut self.sessions);
        for (key, row) in rows.0.range(first..last) {
            let (Key::Session(entity, session), Row::Session(row)) = (key, row) else { continue };
            let Some(lock) = row.lock else { continue };
            if self.entities.get(entity).is_none_or(|entity| !entity.alive) {
                continue;
            }
            let key = (*entity, session.clone());
            let hold = Hold { nonce: lock.nonce, until: lock.until, receiver: lock.receiver };
            let was = known.remove(&key);
            if was != Some(hold) {
                let what = format!("{key:?} is held by {hold:?}, known is {was:?}");
                return Err(one_holder::broken(what));
            }
            self.sessions.insert(key, hold);
        }
        if let Some((key, hold)) = known.iter().find(|(_, hold)| self.at < hold.until) {
            return Err(one_holder::broken(format!("{key:?} lost {hold:?} at {:?}", self.at)));
        }
        self.totals.sessions_lapsed += known.len() as u64;
        self.reconcile_states(rows)
    }

    /// SESS-15.
    fn reconcile_states(&self, rows: &MemoryRows) -> Holds {
        let first = Key::SessionState(EntityId(0), SessionId::first());
        let last = Key::SessionState(EntityId(u64::MAX), SessionId::first());
        let stored = rows.0.range(first..last).filter_map(|(key, row)| match (key, row) {
            (Key::SessionState(entity, session), Row::SessionState(state)) => {
                Some(((*entity, session.clone()), state.clone()))
            }
            _ => None,
        });
        let alive = |id: &EntityId| self.entities.get(id).is_some_and(|entity| entity.alive);
        let stored = stored.filter(|((entity, _), _)| alive(entity));
        match stored.eq(self.states.clone()) {
            true => Ok(()),
            false => Err(one_holder::broken(format!("states are not {:?}", self.states))),
        }
    }
}

fn token(command: &SessionCommand) -> Option<(EntityId, &SessionToken)> {
    Some(match command {
        SessionCommand::Accept(_) | SessionCommand::Fire(_) => return None,
        SessionCommand::Receive(receive) => (receive.entity, &receive.token),
        SessionCommand::Resume(resume) => (resume.entity, &resume.token),
        SessionCommand::Renew(renew) => (renew.entity, &renew.token),
        SessionCommand::Release(release) => (release.entity, &release.token),
        SessionCommand::SetState(set) => (set.entity, &set.token),
        SessionCommand::ReceiveDeferred(receive) => (receive.entity, &receive.token),
        SessionCommand::DeleteBatch(delete) => (delete.entity, &delete.token),
    })
}
