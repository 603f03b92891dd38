//! A session is held by at most one at a time, for as long as promised; only its token serves.

use domain::{ReceiverId, SessionId, Timestamp};

use crate::report::{Broken, Holds};

pub fn broken(what: String) -> Broken {
    Broken { invariant: "one_holder", source: "SESS-6, SESS-8, SESS-9, SESS-13", what }
}

/// One hold of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub nonce: u64,
    pub until: Timestamp,
    pub receiver: ReceiverId,
}

/// SESS-9: held by nobody, and now until the instant expected.
pub fn granted(
    session: &SessionId,
    before: Option<&Hold>,
    now: &Hold,
    (at, expected): (Timestamp, Timestamp),
) -> Holds {
    if let Some(before) = before.filter(|before| at < before.until) {
        let what = format!("session {session} was granted at {at:?} to {now:?} beside {before:?}");
        return Err(broken(what));
    }
    match now.until == expected {
        true => Ok(()),
        false => Err(broken(format!("session {session}: {now:?}, expected {expected:?}"))),
    }
}

/// SESS-13: who used a session held it, by this token.
pub fn held(session: &SessionId, hold: Option<&Hold>, nonce: u64, at: Timestamp) -> Holds {
    match hold.is_some_and(|hold| hold.nonce == nonce && at < hold.until) {
        true => Ok(()),
        false => Err(broken(format!("{nonce:x} served at {at:?} for {session}: {hold:?}"))),
    }
}

/// And who was refused did not.
pub fn refused(session: &SessionId, hold: Option<&Hold>, nonce: u64, at: Timestamp) -> Holds {
    match hold.is_some_and(|hold| hold.nonce == nonce && at < hold.until) {
        true => Err(broken(format!("{nonce:x} was refused at {at:?} for {session}: {hold:?}"))),
        false => Ok(()),
    }
}

/// SESS-6: a session was refused to another, so it is held.
pub fn taken(session: &SessionId, hold: Option<&Hold>, at: Timestamp) -> Holds {
    match hold.is_some_and(|hold| at < hold.until) {
        true => Ok(()),
        false => Err(broken(format!("{session} was refused at {at:?}, but is free: {hold:?}"))),
    }
}
