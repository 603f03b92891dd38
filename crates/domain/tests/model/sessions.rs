//! Sessions in the model: who holds which, and who is next. Since when a message is available is
//! remembered with it; who stands in line is found anew after every change.

use std::collections::BTreeMap;

use domain::{
    AcceptSession, BATCH_DELETE_MAX, DeleteSessionBatch, FireSessions, Fired, Outcome,
    ReceiveSession, ReceiveSessionDeferred, Refusal, SessionCommand, SessionId, SessionToken,
    SetSessionState, SubQueue, Timestamp,
};

use crate::due::{note, note_late};
use crate::message::{Message, Place};
use crate::plain::{Plain, disabled, refused};

#[derive(Clone, Debug, Default)]
pub struct Session {
    /// And until when; also one that lapsed.
    pub hold: Option<(SessionToken, Timestamp)>,
    pub released_at: Timestamp,
    pub state: Option<(Vec<u8>, Timestamp)>,
}

#[derive(Clone, Debug, Default)]
pub struct Sessions {
    pub known: BTreeMap<SessionId, Session>,
    /// Claims of those who may be accepted next, in the order they joined.
    line: Vec<(Timestamp, SessionId)>,
}

impl Sessions {
    /// Those who may be accepted next, first to last.
    pub fn in_line(&self) -> Vec<SessionId> {
        let mut line = self.line.clone();
        line.sort_by_key(|(claim, _)| *claim);
        line.into_iter().map(|(_, id)| id).collect()
    }
}

fn lost() -> Outcome {
    refused(Refusal::SessionLockLost { session: None })
}

fn not_allowed() -> Outcome {
    refused(Refusal::InvalidOperation { why: "" })
}

impl Plain {
    pub fn in_session(&mut self, command: &SessionCommand, actual: &Outcome) -> Outcome {
        let token = match command {
            SessionCommand::Fire(fire) => return self.fire_sessions(fire),
            _ if self.refuses_receive() => return disabled(),
            _ if !self.properties.requires_session => return not_allowed(),
            SessionCommand::Accept(accept) => return self.accept(accept, actual),
            SessionCommand::Receive(receive) => &receive.token,
            SessionCommand::Resume(resume) => &resume.token,
            SessionCommand::Renew(renew) => &renew.token,
            SessionCommand::Release(release) => &release.token,
            SessionCommand::SetState(set) => &set.token,
            SessionCommand::ReceiveDeferred(receive) => &receive.token,
            SessionCommand::DeleteBatch(delete) => &delete.token,
        };
        if !self.has_session(token) {
            return lost();
        }
        match command {
            SessionCommand::Receive(receive) => self.receive(receive, actual),
            SessionCommand::Resume(resume) => {
                let id = &resume.token.session;
                let lost = |m: &Message| {
                    m.is_of(id) && m.lock.is_some_and(|(token, _)| !resume.arrived.contains(&token))
                };
                for number in self.numbers(lost) {
                    self.release(number, SubQueue::Main, false);
                }
                Outcome::Done
            }
            SessionCommand::Renew(renew) => {
                let until = self.at.plus(self.properties.lock_duration);
                self.session(&renew.token.session).hold = Some((renew.token.clone(), until));
                self.used();
                Outcome::Renewed { until: vec![until] }
            }
            SessionCommand::Release(release) => {
                self.used();
                self.end_hold(&release.token.session, false, &mut Fired::default());
                Outcome::Done
            }
            SessionCommand::SetState(set) => self.set_state(set),
            SessionCommand::ReceiveDeferred(receive) => self.deferred_of(receive, actual),
            SessionCommand::DeleteBatch(delete) => self.delete_of(delete),
            SessionCommand::Accept(_) | SessionCommand::Fire(_) => unreachable!("done above"),
        }
    }

    fn session(&mut self, id: &SessionId) -> &mut Session {
        self.sessions.known.entry(id.clone()).or_default()
    }

    pub fn has_session(&self, token: &SessionToken) -> bool {
        let hold = self.sessions.known.get(&token.session).and_then(|s| s.hold.as_ref());
        hold.is_some_and(|(held, until)| held == token && self.at < *until)
    }

    /// Whether a message may be settled as far as its session is concerned.
    pub fn session_allows(&self, message: &Message) -> bool {
        let Some(id) = &message.session else { return true };
        let hold = self.sessions.known.get(id).and_then(|session| session.hold.as_ref());
        hold.is_some_and(|(_, until)| self.at < *until)
    }

    /// Finds out who stands in line. Who did before with the same claim keeps the place.
    pub fn stand(&mut self) {
        if !self.properties.requires_session {
            return;
        }
        let mut claims = BTreeMap::<SessionId, (u64, Timestamp)>::new();
        for message in self.messages.iter().filter(|m| m.is_available(SubQueue::Main)) {
            let Some(id) = &message.session else { continue };
            let known = self.sessions.known.get(id).cloned().unwrap_or_default();
            let claim = message.available_at.max(known.released_at);
            let oldest = claims.get(id).is_none_or(|(number, _)| message.number < *number);
            if known.hold.is_none() && oldest {
                claims.insert(id.clone(), (message.number, claim));
            }
        }
        let claims: BTreeMap<_, _> = claims.into_iter().map(|(id, (_, at))| (id, at)).collect();
        self.sessions.line.retain(|(claim, id)| claims.get(id) == Some(claim));
        for (id, claim) in claims {
            if !self.sessions.line.iter().any(|(_, standing)| *standing == id) {
                self.sessions.line.push((claim, id));
            }
        }
    }

    fn accept(&mut self, accept: &AcceptSession, actual: &Outcome) -> Outcome {
        if accept.queue.sub == SubQueue::DeadLetter {
            return refused(Refusal::NotSupported { what: "" });
        }
        let id = match &accept.session {
            Some(id) => {
                match self.session(id).hold.clone() {
                    Some((_, until)) if self.at < until => {
                        let session = id.clone();
                        return refused(Refusal::SessionCannotBeLocked { session });
                    }
                    Some(_) => self.end_hold(id, true, &mut Fired::default()),
                    None => (),
                }
                id.clone()
            }
            None => loop {
                let Some(id) = self.sessions.in_line().into_iter().next() else {
                    return refused(Refusal::NoSession);
                };
                let of = |m: &Message| m.is_available(SubQueue::Main) && m.is_of(&id);
                let oldest = self.numbers(of)[0];
                if self.ends_instead(oldest, SubQueue::Main).is_none() {
                    break id;
                }
            },
        };
        let Outcome::Accepted { token, .. } = actual else {
            panic!("{id} should be accepted, but {actual:?}");
        };
        assert!(self.nonces.insert(token.nonce), "the nonce of {id} was used before");
        let until = self.at.plus(self.properties.lock_duration);
        let token = SessionToken { session: id.clone(), nonce: token.nonce };
        self.session(&id).hold = Some((token.clone(), until));
        self.stand();
        self.used();
        Outcome::Accepted { token, until }
    }

    fn receive(&mut self, receive: &ReceiveSession, actual: &Outcome) -> Outcome {
        self.used();
        let (count, bytes) = (receive.count_max as usize, u64::from(receive.bytes_max));
        let id = &receive.token.session;
        let of = |m: &Message| m.is_available(SubQueue::Main) && m.is_of(id);
        let (mut deliveries, mut sum) = (Vec::new(), 0);
        for number in self.numbers(of) {
            if deliveries.len() == count || (sum >= bytes && !deliveries.is_empty()) {
                break;
            }
            if self.ends_instead(number, SubQueue::Main).is_some() {
                continue;
            }
            sum += u64::from(self.find(number).size());
            deliveries.push(self.lock(number, SubQueue::Main, &deliveries, actual));
        }
        let left = !self.numbers(of).is_empty();
        Outcome::Acquired { more: left && deliveries.len() < count, deliveries }
    }

    fn set_state(&mut self, set: &SetSessionState) -> Outcome {
        let at = self.at;
        let state = set.state.as_ref().map(|state| (state.to_vec(), at));
        self.session(&set.token.session).state = state;
        self.used();
        Outcome::Done
    }

    /// DEFER-10.
    fn deferred_of(&mut self, receive: &ReceiveSessionDeferred, actual: &Outcome) -> Outcome {
        let id = &receive.token.session;
        let (mut found, mut refusal) = (Vec::new(), None);
        for number in receive.numbers.iter().map(|number| number.0) {
            let there = self
                .messages
                .iter()
                .find(|m| m.number == number && m.place == Place::Main && m.deferred)
                .cloned();
            let not_found = crate::plain::not_found(number);
            match there {
                _ if found.contains(&number) => {
                    refusal.get_or_insert(not_found);
                }
                None => {
                    refusal.get_or_insert(not_found);
                }
                Some(message) if !message.is_of(id) => {
                    refusal.get_or_insert(lost());
                }
                Some(message) if message.lock.is_some() => {
                    refusal.get_or_insert(not_found);
                }
                Some(_) if self.ends_instead(number, SubQueue::Main).is_some() => {
                    refusal.get_or_insert(not_found);
                }
                Some(_) => found.push(number),
            }
        }
        if let Some(refusal) = refusal {
            return refusal;
        }
        self.used();
        let mut deliveries = Vec::new();
        for number in found {
            deliveries.push(self.lock(number, SubQueue::Main, &deliveries, actual));
        }
        Outcome::Acquired { deliveries, more: false }
    }

    fn delete_of(&mut self, delete: &DeleteSessionBatch) -> Outcome {
        if !(1..=BATCH_DELETE_MAX).contains(&delete.count_max) {
            let (value, allowed) = (String::new(), "");
            return refused(Refusal::ArgumentOutOfRange { what: "", value, allowed });
        }
        self.used();
        let before = delete.before.unwrap_or(self.at);
        let id = &delete.token.session;
        let of = |m: &Message| m.is_available(SubQueue::Main) && m.is_of(id) && m.since < before;
        let mut numbers = self.numbers(of);
        numbers.truncate(delete.count_max as usize);
        numbers.iter().for_each(|number| self.remove(*number));
        let count = numbers.len() as u32;
        self.gone.deleted += u64::from(count);
        Outcome::Deleted { count, more: false }
    }

    fn fire_sessions(&mut self, fire: &FireSessions) -> Outcome {
        let mut fired = Fired::default();
        for (_, token) in &fire.locks {
            let hold = self.sessions.known.get(&token.session).and_then(|s| s.hold.clone());
            let lapsed = hold.filter(|(held, until)| held == token && *until <= self.at);
            let Some((_, until)) = lapsed else { continue };
            self.end_hold(&token.session, true, &mut fired);
            note_late(&mut fired, self.at.since(until).0);
        }
        Outcome::Fired(fired)
    }

    /// SESS-12, SESS-14.
    fn end_hold(&mut self, id: &SessionId, lapsed: bool, fired: &mut Fired) {
        let counted = lapsed && !self.refuses_receive();
        let until = self.session(id).hold.as_ref().map_or(Timestamp::ZERO, |(_, until)| *until);
        let late = self.at.since(until).0;
        for number in self.numbers(|m| m.is_of(id) && m.lock.is_some()) {
            fired.released += 1;
            match self.release(number, SubQueue::Main, counted) {
                None => note_late(fired, late),
                Some(gone) => note(fired, gone, late),
            }
        }
        let at = self.at;
        let session = self.session(id);
        session.hold = None;
        session.released_at = at;
        self.stand();
    }

    /// Sessions that are there (SESS-5), a held one among them.
    pub fn sessions_there(&self) -> Vec<SessionId> {
        let has_message =
            |id: &SessionId| self.messages.iter().any(|m| m.place == Place::Main && m.is_of(id));
        let mut ids: Vec<SessionId> =
            self.messages.iter().filter_map(|message| message.session.clone()).collect();
        ids.extend(self.sessions.known.keys().cloned());
        ids.sort();
        ids.dedup();
        ids.retain(|id| {
            let known = self.sessions.known.get(id);
            has_message(id) || known.is_some_and(|s| s.hold.is_some() || s.state.is_some())
        });
        ids
    }
}
