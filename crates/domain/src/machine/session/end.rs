//! The end of a hold: given back or lapsed, its unsettled messages are available again (SESS-12,
//! SESS-14). And its going on under a new leader, without what got lost on the way (LOCK-20).

use std::collections::BTreeSet;

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::machine::messages::Fate;
use crate::machine::session::SESSION_ROWS_PER_MESSAGE;
use crate::machine::view::Budget;
use crate::{
    APPLY_ROWS_MAX, Effect, FireSessions, Fired, Key, LockToken, Outcome, ReceiverId, Refusal,
    ResumeSession, Rows, SessionEffect, SessionId, SessionLock, SessionToken, Timestamp,
};

/// Messages looked up at a time.
const CHUNK: usize = 64;

impl FireSessions {
    /// Locks that are gone or were renewed are passed over, so `more` asks for the same list again.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Outcome {
        let mut fired = Fired::default();
        let budget = step.view.budget(APPLY_ROWS_MAX);
        for (id, token) in self.locks {
            if step.view.left(budget) < SESSION_ROWS_PER_MESSAGE {
                fired.more = true;
                break;
            }
            let Ok(mut entity) = step.open(id) else { continue };
            let Some(lock) = entity.lapsed(&token) else { continue };
            let at = entity.at;
            let ended = entity.end_hold(&token.session, lock.closed, budget, &mut |fate| {
                fired.released += 1;
                fired.note(fate, lock.until, at);
            });
            match ended {
                true => fired.note_late(lock.until, at),
                false => fired.more = true,
            }
        }
        Outcome::Fired(fired)
    }
}

impl ResumeSession {
    /// Where too much got lost for one command the hold ends, as if its receiver had given it back:
    /// the order of its messages is kept in any case.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        entity.check_hold(&self.token)?;
        let arrived: BTreeSet<LockToken> = self.arrived.into_iter().collect();
        let id = &self.token.session;
        let is_earlier = |of: ReceiverId| {
            (of.node, of.link) == (self.receiver.node, self.receiver.link)
                && of.epoch < self.receiver.epoch
        };
        let budget = entity.view.budget(APPLY_ROWS_MAX);
        let queue = entity.main();
        for number in entity.held_numbers(id, APPLY_ROWS_MAX as usize / 2) {
            if entity.view.left(budget) < SESSION_ROWS_PER_MESSAGE {
                entity.end_hold(id, true, budget, &mut |_| ());
                break;
            }
            let Some(held) = entity.view.session_held(entity.id, id, number) else { continue };
            let token = LockToken { sequence: number, nonce: held.nonce };
            if is_earlier(held.receiver) && !arrived.contains(&token) {
                let message = entity.view.message(queue, number).expect("what is held is stored");
                entity.unhold(id, number);
                entity.release(queue, number, message, false, false);
            }
        }
        Ok(Outcome::Done)
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    fn lapsed(&mut self, token: &SessionToken) -> Option<SessionLock> {
        let lock = self.view.session(self.id, &token.session)?.lock?;
        (lock.nonce == token.nonce && lock.until <= self.at).then_some(lock)
    }

    /// Releases what is in flight in order, and then the session; false if that would have passed
    /// the budget: the session is then held no more, and a timer comes back for the rest. `closed`:
    /// its holder gave it back, so nothing is counted; nor is it where receiving was refused
    /// meanwhile, for the holder could not have settled (STATE-4).
    pub fn end_hold(
        &mut self,
        id: &SessionId,
        closed: bool,
        budget: Budget,
        note: &mut dyn FnMut(Fate),
    ) -> bool {
        let counted = !closed && !self.properties().status.refuses_receive();
        let queue = self.main();
        loop {
            let room = self.view.left(budget) / SESSION_ROWS_PER_MESSAGE;
            let held = self.held_numbers(id, room.clamp(1, CHUNK));
            if held.is_empty() {
                break;
            }
            if room == 0 {
                self.lapse_at_once(id, closed);
                return false;
            }
            for number in held {
                let message = self.view.message(queue, number).expect("what is held is stored");
                self.unhold(id, number);
                note(self.release(queue, number, message, counted, false));
            }
        }
        let mut session = self.open_session(id);
        let Some(lock) = session.row.lock.take() else { return true };
        self.view.delete(Key::SessionLocked(self.id, id.clone()));
        session.row.released_at = self.at;
        if session.row.ready.count > 0 {
            self.line_up(&mut session, self.at);
        }
        self.keep_session(session);
        let token = SessionToken { session: id.clone(), nonce: lock.nonce };
        self.effects.push(Effect::Session(SessionEffect::Unlocked { entity: self.id, token }));
        true
    }

    /// The hold is over, though not all of it is released.
    fn lapse_at_once(&mut self, id: &SessionId, closed: bool) {
        let mut session = self.open_session(id);
        let Some(lock) = &mut session.row.lock else { return };
        let until: Timestamp = lock.until.min(self.at);
        *lock = SessionLock { until, closed, ..*lock };
        let (lock, token) = (*lock, SessionToken { session: id.clone(), nonce: lock.nonce });
        self.keep_session(session);
        self.tell_locked(token, lock);
    }
}
