//! Sessions: what is asked of them, what is remembered of them.

use domain::{
    AcceptSession, Claim, DeleteSessionBatch, FireSessions, HeldRow, Numbers, ReceiveSession,
    ReceiveSessionDeferred, ReleaseSession, RenewSession, ResumeSession, SessionCommand, SessionId,
    SessionInfo, SessionLock, SessionPage, SessionRow, SessionToken, SessionTotals,
    SetSessionState, StateMark,
};

use crate::codec::{Random, choice, put_slice, record};
use crate::{Codec, Error, Reader};

choice!(SessionCommand {
    1 => Accept(accept),
    2 => Receive(receive),
    3 => Renew(renew),
    4 => Release(release),
    5 => SetState(set),
    6 => ReceiveDeferred(receive),
    7 => DeleteBatch(delete),
    8 => Fire(fire),
    9 => Resume(resume),
});
record!(AcceptSession { origin, queue, receiver, session });
record!(ReceiveSession { entity, token, receiver, count_max, bytes_max });
record!(ResumeSession { entity, token, receiver, arrived });
record!(RenewSession { origin, entity, token });
record!(ReleaseSession { origin, entity, token });
record!(SetSessionState { origin, entity, token, state });
record!(ReceiveSessionDeferred { origin, entity, token, receiver, numbers });
record!(DeleteSessionBatch { origin, entity, token, count_max, before });
record!(FireSessions { locks });

record!(SessionRow { active, deferred, ready, held, lock, released_at, claim, state });
record!(Numbers { count, low });
record!(Claim { at, turn });
record!(StateMark { size_bytes, changed_at });
record!(SessionTotals { free, free_low, turns, states });
record!(SessionInfo { session, active, deferred, state_changed_at, state_bytes, locked_until });
record!(SessionPage { sessions, next });

impl Codec for SessionId {
    fn put(&self, out: &mut Vec<u8>) {
        put_slice(self.as_str().as_bytes(), out);
    }

    fn take(input: &mut Reader<'_>) -> Result<SessionId, Error> {
        input.text().map(SessionId::from)
    }
}

/// A nonce is random, hence not a varint; here and below.
impl Codec for SessionToken {
    fn put(&self, out: &mut Vec<u8>) {
        let SessionToken { session, nonce } = self;
        session.put(out);
        Random(*nonce).put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<SessionToken, Error> {
        Ok(SessionToken { session: Codec::take(input)?, nonce: Random::take(input)?.0 })
    }
}

impl Codec for SessionLock {
    fn put(&self, out: &mut Vec<u8>) {
        let SessionLock { nonce, until, receiver, closed } = *self;
        Random(nonce).put(out);
        until.put(out);
        receiver.put(out);
        closed.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<SessionLock, Error> {
        Ok(SessionLock {
            nonce: Random::take(input)?.0,
            until: Codec::take(input)?,
            receiver: Codec::take(input)?,
            closed: Codec::take(input)?,
        })
    }
}

impl Codec for HeldRow {
    fn put(&self, out: &mut Vec<u8>) {
        let HeldRow { nonce, receiver } = *self;
        Random(nonce).put(out);
        receiver.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<HeldRow, Error> {
        Ok(HeldRow { nonce: Random::take(input)?.0, receiver: Codec::take(input)? })
    }
}
