//! The lists a session's messages stand in, and the line its entity's free sessions stand in. Every
//! row and count that a change of place touches is changed here and nowhere else.

use std::ops::ControlFlow;

use crate::machine::entity::Watch;
use crate::machine::view::View;
use crate::{
    Claim, EntityId, HeldRow, Key, QueueId, Row, Rows, SequenceNumber, SessionId, SessionList,
    SessionRow, SessionTotals, Timestamp,
};

/// A session's row at work: read once, written once.
pub struct OpenSession {
    pub id: SessionId,
    pub row: Box<SessionRow>,
    /// There is such a row.
    stored: bool,
}

/// The sessions of one entity at work.
pub struct SessionLists<'s, R> {
    pub id: EntityId,
    pub at: Timestamp,
    pub totals: &'s mut SessionTotals,
    /// What the engine is told of sessions when the entry ends.
    pub watch: &'s mut Watch,
    pub view: &'s mut View<R>,
}

impl<R: Rows> SessionLists<'_, R> {
    pub fn open(&mut self, id: &SessionId) -> OpenSession {
        let stored = self.view.session(self.id, id);
        let is_stored = stored.is_some();
        OpenSession { id: id.clone(), row: stored.unwrap_or_default(), stored: is_stored }
    }

    /// Writes a session's row, or forgets it where nothing is left to remember (SESS-5).
    pub fn keep(&mut self, session: OpenSession) {
        let OpenSession { id, row, stored } = session;
        let key = Key::Session(self.id, id);
        match (row.is_empty(), stored) {
            (true, true) => self.view.delete(key),
            (true, false) => (),
            (false, true) => self.view.replace(key, Row::Session(row)),
            (false, false) => self.view.insert(key, Row::Session(row)),
        }
    }

    /// A message arrives in its session.
    pub fn join(&mut self, id: &SessionId, number: SequenceNumber) {
        let mut session = self.open(id);
        session.row.active += 1;
        self.add_ready(session, number);
    }

    /// A message that was held is available again.
    pub fn put_ready(&mut self, id: &SessionId, number: SequenceNumber) {
        let session = self.open(id);
        self.add_ready(session, number);
    }

    fn add_ready(&mut self, mut session: OpenSession, number: SequenceNumber) {
        self.list(&session.id, SessionList::Ready, number);
        session.row.ready.add(number);
        if session.row.lock.is_some() {
            self.watch.sessions.insert(session.id.clone());
        } else if session.row.claim.is_none() {
            self.line_up(&mut session, self.at);
        }
        self.keep(session);
    }

    /// An available message is taken.
    pub fn take_ready(&mut self, id: &SessionId, number: SequenceNumber) {
        self.unlist(id, SessionList::Ready, number);
        let mut session = self.open(id);
        session.row.ready.remove(number);
        if session.row.lock.is_some() {
            self.watch.sessions.insert(id.clone());
        } else {
            self.claim_anew(&mut session);
        }
        self.keep(session);
    }

    pub fn is_ready(&mut self, id: &SessionId, number: SequenceNumber) -> bool {
        let key = Key::SessionMessage(self.id, id.clone(), SessionList::Ready, number);
        self.view.contains(&key)
    }

    pub fn put_deferred(&mut self, id: &SessionId, number: SequenceNumber) {
        self.list(id, SessionList::Deferred, number);
    }

    pub fn take_deferred(&mut self, id: &SessionId, number: SequenceNumber) {
        self.unlist(id, SessionList::Deferred, number);
    }

    pub fn put_scheduled(&mut self, id: &SessionId, number: SequenceNumber) {
        self.list(id, SessionList::Scheduled, number);
    }

    pub fn take_scheduled(&mut self, id: &SessionId, number: SequenceNumber) {
        self.unlist(id, SessionList::Scheduled, number);
    }

    fn list(&mut self, id: &SessionId, list: SessionList, number: SequenceNumber) {
        let key = Key::SessionMessage(self.id, id.clone(), list, number);
        self.view.insert(key, Row::SessionMessage);
    }

    fn unlist(&mut self, id: &SessionId, list: SessionList, number: SequenceNumber) {
        self.view.delete(Key::SessionMessage(self.id, id.clone(), list, number));
    }

    /// SESS-10: a message is delivered for as long as its session is held.
    pub fn hold(&mut self, id: &SessionId, number: SequenceNumber, held: HeldRow) {
        let key = Key::SessionHeld(self.id, id.clone(), number);
        self.view.insert(key, Row::SessionHeld(held));
        let mut session = self.open(id);
        session.row.held.add(number);
        self.keep(session);
    }

    pub fn unhold(&mut self, id: &SessionId, number: SequenceNumber) {
        self.view.delete(Key::SessionHeld(self.id, id.clone(), number));
        let mut session = self.open(id);
        session.row.held.remove(number);
        self.keep(session);
    }

    /// A message of the session is set aside.
    pub fn defer(&mut self, id: &SessionId) {
        let mut session = self.open(id);
        session.row.active -= 1;
        session.row.deferred += 1;
        self.keep(session);
    }

    /// A message leaves its session. It stands in none of its lists any more.
    pub fn leave(&mut self, id: &SessionId, deferred: bool) {
        let mut session = self.open(id);
        match deferred {
            true => session.row.deferred -= 1,
            false => session.row.active -= 1,
        }
        self.keep(session);
    }

    /// The lowest ready messages of a session.
    pub fn ready(&mut self, session: &mut OpenSession, count_max: usize) -> Vec<SequenceNumber> {
        let OpenSession { id, row, .. } = session;
        if row.ready.count == 0 {
            return Vec::new();
        }
        let key = |number| Key::SessionMessage(self.id, id.clone(), SessionList::Ready, number);
        let (from, to) = (key(row.ready.low), key(SequenceNumber::MAX));
        let keys = self.view.keys(&from, &to, count_max).into_iter();
        let numbers: Vec<SequenceNumber> = keys
            .filter_map(|key| match key {
                Key::SessionMessage(_, _, _, number) => Some(number),
                _ => None,
            })
            .collect();
        row.ready.low = numbers.first().copied().unwrap_or(row.ready.low);
        numbers
    }

    /// The lowest messages of a session under delivery.
    pub fn held(&mut self, id: &SessionId, count_max: usize) -> Vec<(SequenceNumber, HeldRow)> {
        let Some(row) = self.view.session(self.id, id) else { return Vec::new() };
        let mut held = Vec::new();
        if row.held.count == 0 {
            return held;
        }
        let from = Key::SessionHeld(self.id, id.clone(), row.held.low);
        let to = Key::SessionHeld(self.id, id.clone(), SequenceNumber::MAX);
        self.view.scan(&from, &to, &mut |key, row| {
            if let (Key::SessionHeld(_, _, number), Row::SessionHeld(row)) = (key, row) {
                held.push((*number, *row));
            }
            match held.len() < count_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        held
    }

    /// Puts a free session with ready messages in line (SESS-7): behind all with an equal claim.
    pub fn line_up(&mut self, session: &mut OpenSession, at: Timestamp) {
        let totals = &mut *self.totals;
        totals.turns += 1;
        let claim = Claim { at, turn: totals.turns };
        totals.free_low = if totals.free == 0 { at } else { totals.free_low.min(at) };
        totals.free += 1;
        session.row.claim = Some(claim);
        self.view.insert(Key::SessionFree(self.id, claim), Row::SessionFree(session.id.clone()));
        self.watch.joined = true;
    }

    pub fn leave_line(&mut self, session: &mut OpenSession) {
        let Some(claim) = session.row.claim.take() else { return };
        self.view.delete(Key::SessionFree(self.id, claim));
        self.totals.free -= 1;
    }

    /// The oldest message of a free session may be another. Each became available when it was
    /// enqueued, or by a release that was no later than the session's last.
    fn claim_anew(&mut self, session: &mut OpenSession) {
        let oldest = self.ready(session, 1).pop();
        let enqueued_at = oldest.and_then(|number| {
            let message = self.view.message(QueueId::main(self.id), number);
            message.map(|message| message.enqueued_at)
        });
        let at = enqueued_at.map(|at| at.max(session.row.released_at));
        if at != session.row.claim.map(|claim| claim.at) {
            self.leave_line(session);
            if let Some(at) = at {
                self.line_up(session, at);
            }
        }
    }

    /// Who is first in line.
    pub fn first_in_line(&mut self) -> Option<SessionId> {
        let totals = *self.totals;
        if totals.free == 0 {
            return None;
        }
        let from = Key::SessionFree(self.id, Claim { at: totals.free_low, turn: 0 });
        let to = Key::SessionFree(self.id, Claim { at: Timestamp::NEVER, turn: u64::MAX });
        match self.view.first(&from, &to) {
            Some((Key::SessionFree(_, claim), Row::SessionFree(id))) => {
                self.totals.free_low = claim.at;
                Some(id)
            }
            _ => None,
        }
    }
}
