//! `SetSessionState`: what an application keeps with a session (SESS-15).

use crate::machine::Step;
use crate::machine::session::check_hold;
use crate::{Key, Outcome, Refusal, Row, Rows, SESSION_STATES_MAX, SetSessionState, StateMark};

impl SetSessionState {
    /// Its size counts for the entity (QUOTA-32), which being full does not refuse it (QUOTA-33).
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        check_hold(&mut entity, &self.token)?;
        let bytes = self.state.as_ref().map_or(0, |state| state.len() as u64);
        let max = u64::from(entity.properties().max_message_size_kilobytes) * 1024;
        if bytes > max {
            let what = "the session state"; // QUOTA-11.
            return Err(Refusal::MessageSizeExceeded { what, bytes, max });
        }
        let id = self.token.session;
        let key = Key::SessionState(entity.id, id.clone());
        let changed_at = entity.at;
        let mut session = entity.messages().sessions().open(&id);
        let before = session.row.state;
        let totals = &mut entity.state.sessions;
        if before.is_none() && self.state.is_some() && totals.states >= SESSION_STATES_MAX {
            let (used, max) = (totals.states, SESSION_STATES_MAX);
            return Err(Refusal::QuotaExceeded { what: "the entity (session states)", used, max });
        }
        totals.states -= u64::from(before.is_some());
        totals.states += u64::from(self.state.is_some());
        entity.state.resized(before.map_or(0, |mark| mark.size_bytes), bytes as u32);
        session.row.state =
            self.state.is_some().then_some(StateMark { size_bytes: bytes as u32, changed_at });
        match (before, self.state) {
            (None, None) => (),
            (Some(_), None) => entity.view.delete(key),
            (None, Some(state)) => entity.view.insert(key, Row::SessionState(state)),
            (Some(_), Some(state)) => entity.view.replace(key, Row::SessionState(state)),
        }
        entity.messages().sessions().keep(session);
        entity.used();
        Ok(Outcome::Done)
    }
}
