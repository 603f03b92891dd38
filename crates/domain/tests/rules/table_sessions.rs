//! What tables ask of sessions, in the words of `table`.

use domain::{
    AcceptSession, Command, DeleteSessionBatch, Fired, Key, Outcome, QueueId, ReceiveSession,
    ReceiveSessionDeferred, ReleaseSession, RenewSession, Row, SequenceNumber, SessionCommand,
    SessionId, SessionRow, SessionToken, SetSessionState,
};

use crate::support::QUEUE;
use crate::table::*;
use crate::words::seen;

/// What the holder of a session asks.
#[derive(Clone)]
pub enum InSession {
    Get(u32),
    Renewed,
    Close,
    SetState(Option<&'static str>),
    State,
    Deferral(&'static [u64]),
    Purge(u32),
    Browse(u64, u32),
}

impl Table {
    pub fn session(&mut self, command: SessionCommand) -> Outcome {
        self.group.apply(Command::Session(command))
    }

    pub fn accept(&mut self, queue: QueueId, session: Option<&'static str>) -> Outcome {
        let session = session.map(SessionId::from);
        let accept = AcceptSession { origin: None, queue, receiver: RECEIVER, session };
        let outcome = self.session(SessionCommand::Accept(accept));
        if let Outcome::Accepted { token, .. } = &outcome {
            let name: &'static str = token.session.as_str().to_owned().leak();
            self.sessions.insert(name, token.clone());
        }
        outcome
    }

    /// The token of the latest acceptance of a session, or one that never was.
    pub fn hold(&self, session: &str) -> SessionToken {
        let never = || SessionToken { session: SessionId::from(session), nonce: 42 };
        self.sessions.get(session).cloned().unwrap_or_else(never)
    }

    pub fn within(&mut self, session: &'static str, what: InSession) -> String {
        let (entity, token, origin) = (QUEUE, self.hold(session), None);
        let command = match what {
            InSession::Get(count_max) => {
                let (receiver, bytes_max) = (RECEIVER, u32::MAX);
                let get = ReceiveSession { entity, token, receiver, count_max, bytes_max };
                SessionCommand::Receive(get)
            }
            InSession::Renewed => SessionCommand::Renew(RenewSession { origin, entity, token }),
            InSession::Close => SessionCommand::Release(ReleaseSession { origin, entity, token }),
            InSession::SetState(state) => {
                let state = state.map(Into::into);
                SessionCommand::SetState(SetSessionState { origin, entity, token, state })
            }
            InSession::Deferral(numbers) => {
                let (receiver, numbers) = (RECEIVER, numbers_of(numbers));
                let receive = ReceiveSessionDeferred { origin, entity, token, receiver, numbers };
                SessionCommand::ReceiveDeferred(receive)
            }
            InSession::Purge(count_max) => {
                let before = None;
                let delete = DeleteSessionBatch { origin, entity, token, count_max, before };
                SessionCommand::DeleteBatch(delete)
            }
            InSession::State => {
                return match domain::session_state(&self.group.rows, entity, &token) {
                    Ok(Some(state)) => format!("state {}", String::from_utf8_lossy(&state)),
                    Ok(None) => "no state".to_owned(),
                    Err(refusal) => refusal.name().to_owned(),
                };
            }
            InSession::Browse(from, count) => {
                let from = SequenceNumber(from);
                let rows = &self.group.rows;
                return seen(domain::peek_session(rows, entity, &token, from, count));
            }
        };
        let outcome = self.session(command);
        self.remember(MAIN, &outcome);
        words(&outcome)
    }

    pub fn fire_sessions(&mut self) -> Fired {
        let holds = domain::session_holds(&self.group.rows, QUEUE);
        let locks = holds.into_iter().map(|(token, _)| (QUEUE, token)).collect();
        fired(self.session(SessionCommand::Fire(domain::FireSessions { locks })))
    }

    /// What is remembered of a session.
    pub fn session_row(&self, session: &str) -> Option<SessionRow> {
        match self.group.rows.0.get(&Key::Session(QUEUE, SessionId::from(session))) {
            Some(Row::Session(row)) => Some((**row).clone()),
            _ => None,
        }
    }

    /// The sessions of a list, in words.
    pub fn listed(&self, updated_after: Option<u64>) -> String {
        let after = updated_after.map(at);
        let page = domain::sessions(&self.group.rows, QUEUE, None, after, 100).expect("a page");
        let ids = page.sessions.iter().map(|info| info.session.to_string());
        ids.collect::<Vec<_>>().join(" ")
    }
}
