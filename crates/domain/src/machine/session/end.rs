//! The end of a hold: given back or lapsed, its unsettled messages are available again (SESS-12,
//! SESS-14). And its going on under a new leader, without what got lost on the way (LOCK-20).

use std::collections::BTreeSet;

use crate::machine::Step;
use crate::machine::messages::{Fate, Messages};
use crate::machine::place::Move;
use crate::machine::session::{SESSION_ROWS_PER_MESSAGE, check_hold, tell_locked};
use crate::machine::view::Budget;
use crate::{
    APPLY_ROWS_MAX, DeliveryEnd, Effect, FireSessions, Fired, Key, LockToken, Outcome, ReceiverId,
    Refusal, ResumeSession, Rows, SessionEffect, SessionId, SessionLock, SessionToken, Timestamp,
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
            let mut messages = entity.messages();
            let Some(lock) = lapsed(&mut messages, &token) else { continue };
            let at = messages.at;
            let mut note = |fate| {
                fired.released += 1;
                fired.note(fate, lock.until, at);
            };
            let ended = end_hold(&mut messages, &token.session, lock.lapsed(), budget, &mut note);
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
        check_hold(&mut entity, &self.token)?;
        let mut messages = entity.messages();
        let arrived: BTreeSet<LockToken> = self.arrived.into_iter().collect();
        let id = &self.token.session;
        let is_earlier = |of: ReceiverId| {
            (of.node, of.link) == (self.receiver.node, self.receiver.link)
                && of.epoch < self.receiver.epoch
        };
        let budget = messages.view.budget(APPLY_ROWS_MAX);
        for (number, _) in messages.sessions().held(id, APPLY_ROWS_MAX as usize / 2) {
            if messages.view.left(budget) < SESSION_ROWS_PER_MESSAGE {
                end_hold(&mut messages, id, None, budget, &mut |_| ());
                break;
            }
            // Read once more: what a command costs decides how far it goes, on every replica alike.
            let held = messages.view.session_held(messages.id, id, number);
            let Some(held) = held else { continue };
            let token = LockToken { sequence: number, nonce: held.nonce };
            if is_earlier(held.receiver) && !arrived.contains(&token) {
                let stored = messages.places().held_in(id, number, held);
                let detached = messages.places().detach(stored, Move::Release);
                messages.release(detached, DeliveryEnd::Released, false);
            }
        }
        Ok(Outcome::Done)
    }
}

fn lapsed<R: Rows>(messages: &mut Messages<'_, R>, token: &SessionToken) -> Option<SessionLock> {
    let lock = messages.view.session(messages.id, &token.session)?.lock?;
    (lock.nonce == token.nonce && lock.until <= messages.at).then_some(lock)
}

/// Releases what is in flight in order, and then the session; false if that would have passed
/// the budget: the session is then held no more, and a timer comes back for the rest. `lapsed`:
/// when; `None`: its holder gave it back, so nothing is counted; nor is it where receiving was
/// refused meanwhile, for the holder could not have settled (STATE-4).
pub(super) fn end_hold<R: Rows>(
    messages: &mut Messages<'_, R>,
    id: &SessionId,
    lapsed: Option<Timestamp>,
    budget: Budget,
    note: &mut dyn FnMut(Fate),
) -> bool {
    let counts = !messages.row.properties.status.refuses_receive();
    let end = match lapsed {
        None => DeliveryEnd::Released,
        Some(until) => DeliveryEnd::Lapsed { until, counts },
    };
    loop {
        let room = messages.view.left(budget) / SESSION_ROWS_PER_MESSAGE;
        let held = messages.sessions().held(id, room.clamp(1, CHUNK));
        if held.is_empty() {
            break;
        }
        if room == 0 {
            lapse_at_once(messages, id, lapsed.is_none());
            return false;
        }
        for (number, held) in held {
            let stored = messages.places().held_in(id, number, held);
            let detached = messages.places().detach(stored, Move::Release);
            note(messages.release(detached, end, false));
        }
    }
    let mut sessions = messages.sessions();
    let mut session = sessions.open(id);
    let Some(lock) = session.row.lock.take() else { return true };
    sessions.view.delete(Key::SessionLocked(sessions.id, id.clone()));
    session.row.released_at = sessions.at;
    if session.row.ready.count > 0 {
        sessions.line_up(&mut session, sessions.at);
    }
    sessions.keep(session);
    let token = SessionToken { session: id.clone(), nonce: lock.nonce };
    let unlocked = SessionEffect::Unlocked { entity: messages.id, token };
    messages.effects.push(Effect::Session(unlocked));
    true
}

/// The hold is over, though not all of it is released.
fn lapse_at_once<R: Rows>(messages: &mut Messages<'_, R>, id: &SessionId, closed: bool) {
    let mut session = messages.sessions().open(id);
    let Some(lock) = &mut session.row.lock else { return };
    let until: Timestamp = lock.until.min(messages.at);
    *lock = SessionLock { until, closed, ..*lock };
    let (lock, token) = (*lock, SessionToken { session: id.clone(), nonce: lock.nonce });
    messages.sessions().keep(session);
    tell_locked(messages, token, lock);
}
